"""Dynamic resource allocation on the embedded lab: slices, classes, claims from templates, and who gets which device."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.cli.top_screen import read_overview as standing_of
from kailab.errors import InputError, NotFound
from kailab.lab import Lab, expect

DRIVER = "gpu.nvidia.com"
V1 = "resource.k8s.io/v1"
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {name: {"quota": -1, "limit": -1} for name in ("gpu", "cpu", "memory")}},
}


def requests(count: int | None = 1, expression: str = "", device_class: str = DRIVER, **more: Any) -> dict[str, Any]:
    """The ``spec`` of a claim with one request; ``count`` None: all devices."""
    wish: dict[str, Any] = {"deviceClassName": device_class, **more}
    wish |= {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    if expression:
        wish["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpus", "exactly": wish}]}}


def template(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": spec}}


def claim(name: str, spec: dict[str, Any], queue: str = "team") -> dict[str, Any]:
    metadata = {"name": name, "labels": {"kai.scheduler/queue": queue}}
    return {"apiVersion": V1, "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def device_class(name: str, expression: str) -> dict[str, Any]:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def pod(name: str, app: str = "work", node: str = "", **claims: str) -> dict[str, Any]:
    """``claims``: ``shared=NAME`` names a claim, everything else a template."""
    key = {"shared": "resourceClaimName"}
    wanted = [{"name": each, key.get(each, "resourceClaimTemplateName"): of} for each, of in claims.items()]
    spec: dict[str, Any] = {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "resourceClaims": wanted,
        "containers": [
            {"name": "main", "image": "pause", "resources": {"claims": [{"name": one["name"]} for one in wanted]}}
        ],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    labels = {"kai.scheduler/queue": "team", "app": app}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.fixture
def led():
    """The lesson fleet, its 32 GPUs there for claims."""
    with Lab.open("lesson", devices=True) as lab:
        lab.apply(QUEUE)
        yield lab


def given_devices(lab) -> Counter[tuple[str, str]]:
    """(pool, device) -> claims that have it for themselves."""
    found: Counter[tuple[str, str]] = Counter()
    for one in lab.cluster.list("ResourceClaim"):
        results = (one.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", ())
        found.update((result["pool"], result["device"]) for result in results if not result.get("adminAccess"))
    return found


def test_the_fleet_s_gpus_are_published_for_claims_and_for_nothing_else(led) -> None:
    slices = led.cluster.list("ResourceSlice")
    assert sum(len(one["spec"]["devices"]) for one in slices) == 32
    assert [one["metadata"]["name"] for one in led.cluster.list("DeviceClass")] == [DRIVER]
    assert not any("nvidia.com/gpu" in node["status"]["allocatable"] for node in led.cluster.list("Node"))


def test_a_claim_is_made_from_the_template_of_each_pod_and_goes_with_it(led) -> None:
    led.apply(template("two", requests(2)), pod("a", gpu="two"), pod("b", gpu="two"))
    expect(led.app("work")).running(pods=2)
    claims = led.cluster.list("ResourceClaim", "default")
    assert len(claims) == 2
    for one in claims:
        (owner,) = one["metadata"]["ownerReferences"]
        assert one["metadata"]["name"].startswith(f"{owner['name']}-gpu-")
        assert one["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
        told = led.get("Pod", owner["name"])
        assert told["status"]["resourceClaimStatuses"] == [
            {"name": "gpu", "resourceClaimName": one["metadata"]["name"]}
        ]
        assert one["status"]["reservedFor"] == [{"resource": "pods", "name": owner["name"], "uid": owner["uid"]}]
        pools = {result["pool"] for result in one["status"]["allocation"]["devices"]["results"]}
        assert pools == {told["spec"]["nodeName"]}
    led.delete("Pod", "a")
    led.settle()
    (left,) = led.cluster.list("ResourceClaim", "default")
    assert left["metadata"]["ownerReferences"][0]["name"] == "b"
    assert sum(given_devices(led).values()) == 2


def test_a_claim_made_for_a_pod_goes_when_the_pod_has_ended(led) -> None:
    short = pod("short", gpu="one")
    short["metadata"]["annotations"] = {"kailab.dev/run-seconds": "5"}
    short["spec"]["restartPolicy"] = "Never"
    led.apply(template("one", requests()), short)
    led.settle()
    assert sum(given_devices(led).values()) == 1
    led.advance(10)
    led.settle()
    assert led.cluster.list("ResourceClaim", "default") == []


def test_a_template_that_comes_later_is_waited_for(led) -> None:
    led.apply(pod("early", gpu="late"))
    expect(led.pod("early")).pending(pods=1).says('resourceclaimtemplate "late" not found')
    events = [event["reason"] for event in led.cluster.list("Event")]
    assert events.count("FailedResourceClaimCreation") == 1
    led.apply(template("late", requests()))
    expect(led.pod("early")).running()


def test_no_more_pods_run_than_there_are_devices(led) -> None:
    led.apply(template("one", requests()), [pod(f"p{number}", gpu="one") for number in range(33)])
    expect(led.app("work")).running(pods=32).pending(pods=1)
    held = given_devices(led)
    assert len(held) == 32
    assert set(held.values()) == {1}


def test_a_class_that_means_no_device_runs_nothing_and_is_named(led) -> None:
    led.apply(device_class("nope-gpu", "device.driver == 'nope.example'"))
    led.apply(template("four", requests(4)), [pod(f"full{n}", app="full", gpu="four") for n in range(8)])
    expect(led.app("full")).running(pods=8)
    led.apply(template("nope", requests(device_class="nope-gpu")), pod("a", gpu="nope"))
    expect(led.pod("a")).pending(pods=1).says("nope-gpu", "device.driver == 'nope.example'")


def test_a_selector_that_means_too_large_a_device_runs_nothing(led) -> None:
    large = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('4000Gi')) >= 0"
    led.apply(template("huge", requests(expression=large)), pod("a", gpu="huge"))
    expect(led.pod("a")).pending(pods=1).says("4000Gi")


def test_a_selector_chooses_the_nodes(led) -> None:
    h100 = f"device.attributes['{DRIVER}'].productName.contains('H100')"
    led.apply(template("h100", requests(expression=h100)), [pod(f"p{number}", gpu="h100") for number in range(9)])
    expect(led.app("work")).running(pods=8).pending(pods=1).spread_over(1, "node")
    (node,) = {led.get("Pod", row.name.split("/")[1])["spec"].get("nodeName") for row in led.picture().rows} - {None}
    assert "h100" in node


def test_a_class_that_does_not_exist_is_waited_for(led) -> None:
    led.apply(template("t", requests(device_class="later-gpu")), pod("a", gpu="t"))
    expect(led.pod("a")).pending(pods=1).says('deviceclass "later-gpu" not found')
    led.apply(device_class("later-gpu", f"device.driver == '{DRIVER}'"))
    expect(led.pod("a")).running()


def test_pods_that_share_a_claim_are_on_one_node_and_share_its_device(led) -> None:
    led.apply(claim("both", requests()), pod("a", shared="both"), pod("b", shared="both"))
    expect(led.app("work")).running(pods=2).on_one("node")
    assert sum(given_devices(led).values()) == 1
    led.delete("Pod", "a")
    led.settle()
    assert sum(given_devices(led).values()) == 1
    led.delete("Pod", "b")
    led.settle()
    assert not given_devices(led)
    assert not led.get("ResourceClaim", "both")["metadata"].get("finalizers")


def test_devices_that_pods_share_count_once_on_their_node_wherever_that_is_told(led, tmp_path) -> None:
    led.apply(claim("two", requests(2)), *(pod(f"p{n}", shared="two") for n in range(3)))
    expect(led.app("work")).running(pods=3).spread_over(1, "node")
    (name,) = {one["spec"]["nodeName"] for one in led.cluster.list("Pod")}
    expect(led.node(name)).holding(gpus=2)
    standing = standing_of(led)
    (node,) = [one for one in standing.nodes if one.name == name]
    assert list(node.cells).count("team") == 2
    assert standing.used.startswith("2 of ")


def test_a_claim_is_given_to_256_pods_and_no_more(led) -> None:
    led.apply(claim("crowd", requests()), [pod(f"p{number}", shared="crowd") for number in range(258)])
    # One node takes 110 pods. So many as one claim can have are only there on larger nodes.
    for node in led.cluster.list("Node"):
        led.cluster.patch(
            "Node", node["metadata"]["name"], None, {"status": {"allocatable": {"pods": "500"}}}, "status"
        )
    expect(led.app("work")).running(pods=256).pending(pods=2)
    waiting = next(row.name for row in led.picture().rows if row.phase == "Pending")
    expect(led.pod(waiting.partition("/")[2])).says("reserved for 256 pods")
    assert len(led.get("ResourceClaim", "crowd")["status"]["reservedFor"]) == 256
    led.delete("Pod", "p0")
    expect(led.app("work")).running(pods=256).pending(pods=1)


def test_more_devices_than_a_claim_can_have_are_refused(led) -> None:
    led.apply(template("many", requests(33)), pod("a", gpu="many"))
    expect(led.pod("a")).pending(pods=1)


@pytest.mark.parametrize("count", [10**9, 2**62, 2**63 - 1])
def test_a_claim_for_any_number_of_devices_that_an_api_server_takes_waits(led, count, tmp_path) -> None:
    """Each of them is one number of 64 bits; what they come to in milli-GPU and in all is not."""
    two = requests(count)
    two["devices"]["requests"].append({"name": "more", "exactly": {"deviceClassName": DRIVER, "count": count}})
    led.apply(claim("two", two), claim("huge", requests(count)), template("each", two))
    led.apply(
        pod("a", shared="two"), pod("b", shared="huge"), *(pod(f"c{n}", gpu="each", shared="huge") for n in range(4))
    )
    expect(led.app("work")).pending(pods=6)
    expect(led.pod("b")).says("32 are the most")
    led.save(tmp_path / "lab.state")
    led.apply(template("one", requests()), pod("d", app="other", gpu="one"))
    expect(led.pod("d")).running()


def test_all_devices_of_a_node(led) -> None:
    led.apply(template("all", requests(None)), pod("a", gpu="all"), pod("b", gpu="all"))
    expect(led.app("work")).running(pods=2).spread_over(2, "node")


def test_admin_access_looks_in_on_devices_that_others_hold(led) -> None:
    with pytest.raises(InputError, match="adminAccess: admin access to devices needs the label"):
        led.apply(template("watch", requests(4, adminAccess=True)))
    led.cluster.patch(
        "Namespace", "default", None, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    )
    told = led.apply(template("four", requests(4)), template("watch", requests(4, adminAccess=True)))
    assert ["KAI allocates no claim with administrative access" in text for text in told.warnings] == [True]
    node = next(node["metadata"]["name"] for node in led.cluster.list("Node") if "l40s" in node["metadata"]["name"])
    led.apply(pod("holder", gpu="four", node=node))
    expect(led.pod("holder")).running()
    led.apply(pod("watcher", app="watch", gpu="watch"))
    expect(led.pod("watcher")).running()
    assert set(given_devices(led).values()) == {1}


def test_parts_of_gpus_that_draw_on_counters_are_nobody_s_as_in_kai(led) -> None:
    parts = [
        {"name": f"part-{n}", "consumesCounters": [{"counterSet": "g", "counters": {"m": {"value": "1"}}}]}
        for n in range(4)
    ]
    node = led.cluster.list("Node")[0]["metadata"]["name"]
    pool = {"name": "parts", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "parts.example.com", "nodeName": node, "pool": pool, "devices": parts}
    led.apply({"apiVersion": V1, "kind": "ResourceSlice", "metadata": {"name": "parts"}, "spec": spec})
    led.apply(device_class("parts", "device.driver == 'parts.example.com'"))
    led.apply(template("part", requests(device_class="parts")), pod("a", gpu="part"))
    expect(led.pod("a")).pending(pods=1)


def test_nobody_has_a_part_of_a_gpu_that_is_for_claims(led) -> None:
    part = pod("part")
    del part["spec"]["resourceClaims"]
    part["spec"]["containers"] = [{"name": "main", "image": "pause"}]
    part["metadata"]["annotations"] = {"gpu-fraction": "0.5"}
    led.apply(part)
    expect(led.pod("part")).pending(pods=1).says("another kind of GPU")


def test_without_slices_a_claim_waits() -> None:
    with Lab.open("lesson") as lab:
        lab.apply(QUEUE, device_class(DRIVER, f"device.driver == '{DRIVER}'"))
        lab.apply(template("one", requests()), pod("a", gpu="one"))
        expect(lab.pod("a")).pending(pods=1).says("no ResourceSlice")


def test_a_saved_lab_goes_on_with_its_claims(tmp_path) -> None:
    with Lab.open("lesson", devices=True) as lab:
        lab.apply(QUEUE, template("one", requests()), pod("a", gpu="one"))
        lab.settle()
        lab.save(tmp_path / "state")
    with Lab.resume(tmp_path / "state") as again:
        expect(again.pod("a")).running()
        before = given_devices(again)
        again.apply(pod("b", gpu="one"))
        expect(again.pod("b")).running()
        assert sum(given_devices(again).values()) == 2
        assert not before - given_devices(again)
        again.delete("Pod", "a")
        again.settle()
        assert sum(given_devices(again).values()) == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(("one", "three", "h100", "all", "pair"))),
        st.tuples(st.just("share"), st.sampled_from(("s1", "s2"))),
        st.tuples(st.just("delete"), st.integers(0, 20)),
        st.tuples(st.just("class"), st.booleans()),
    ),
    min_size=3,
    max_size=10,
)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_no_device_is_ever_given_twice(steps) -> None:
    """Whatever comes and goes: each device has one claim at most, each bound pod all its claims, all on its node."""
    h100 = f"device.attributes['{DRIVER}'].productName.contains('H100')"
    pair = requests(2)
    pair["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/productName"}]
    specs = {
        "one": requests(),
        "three": requests(3),
        "h100": requests(expression=h100),
        "all": requests(None),
        "pair": pair,
    }
    with Lab.open("lesson", devices=True) as lab:
        lab.apply(QUEUE, [template(name, spec) for name, spec in specs.items()])
        lab.apply(claim("s1", requests(2)), claim("s2", requests(1, h100)))
        for number, (what, which) in enumerate(steps):
            if what in ("pod", "share"):
                wanted = {"gpu": which} if what == "pod" else {"shared": which}
                lab.apply([pod(f"p{number}-{copy}", **wanted) for copy in range(3)])
            elif what == "delete" and (there := sorted(one["metadata"]["name"] for one in lab.cluster.list("Pod"))):
                lab.delete("Pod", there[which % len(there)])
            elif what == "class":
                lab.apply(device_class(DRIVER, f"device.driver == '{DRIVER if which else 'gone'}'"))
            lab.settle()
            assert set(given_devices(lab).values()) <= {1}
            _check_pods(lab)


def _check_pods(lab) -> None:
    alive = {one["metadata"]["uid"] for one in lab.cluster.list("Pod")}
    for one in lab.cluster.list("ResourceClaim"):
        status = one.get("status") or {}
        assert {user["uid"] for user in status.get("reservedFor", ())} <= alive
        assert bool(status.get("allocation")) == bool(status.get("reservedFor"))
    for one in lab.cluster.list("Pod"):
        node = one["spec"].get("nodeName")
        if not node:
            continue
        made = {each["name"]: each["resourceClaimName"] for each in one["status"].get("resourceClaimStatuses", ())}
        for wanted in one["spec"]["resourceClaims"]:
            name = wanted.get("resourceClaimName") or made[wanted["name"]]
            found = lab.cluster.get("ResourceClaim", name, "default")
            assert one["metadata"]["uid"] in {user["uid"] for user in found["status"]["reservedFor"]}
            assert {result["pool"] for result in found["status"]["allocation"]["devices"]["results"]} == {node}


def test_a_deleted_claim_in_use_stays_until_its_pods_have_gone(led) -> None:
    led.apply(claim("mine", requests()), pod("a", shared="mine"))
    led.settle()
    led.delete("ResourceClaim", "mine")
    led.settle()
    assert "deletionTimestamp" in led.get("ResourceClaim", "mine")["metadata"]
    led.delete("Pod", "a")
    led.settle()
    with pytest.raises(NotFound):
        led.get("ResourceClaim", "mine")
