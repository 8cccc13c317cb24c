"""ResourceClaims are allocated with the binding: choice of devices, written fields, and release when pods end."""

from __future__ import annotations

import pytest

from kailab.cluster.writes import WriteOutcome
from kailab.errors import Conflict, Unavailable
from kailab.model.labels import CLAIM_FINALIZER
from kailab.scheduler.binding import Binding
from kailab.scheduler.binding.claim_allocation import ClaimAllocator

V1 = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"


def device_class(name=DRIVER, expression=f"device.driver == '{DRIVER}'", **spec):
    spec = {"selectors": [{"cel": {"expression": expression}}], **spec}
    return {"apiVersion": V1, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def slices(node, *devices, generation=1, count=1, number=0):
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{generation}-{number}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def gpu(number, model="A100", memory="80Gi", **more):
    attributes = {"productName": {"string": model}, "index": {"int": number}, "numa": {"int": number // 2}}
    return {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def request(name="gpus", count=1, **more):
    return {"name": name, "exactly": {"deviceClassName": DRIVER, "count": count, **more}}


def claim(name, *requests, **devices):
    return {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "team"}},
        "spec": {"devices": {"requests": list(requests or [request()]), **devices}},
    }


def claiming(build, name, *claims):
    return build.pod(name, 0, resourceClaims=[{"name": f"c{n}", "resourceClaimName": c} for n, c in enumerate(claims)])


@pytest.fixture
def led(world, build):
    """A node with four GPUs for claims and none of the device plugin."""
    world.cluster.delete("Node", "n1")
    world.cluster.create(build.node("n1", 0))
    world.cluster.create(device_class())
    world.cluster.create(slices("n1", *map(gpu, range(4))))
    world.candidate("a")
    world.run(1)
    return world


def why_not(world, name):
    """The message of a pod's PodScheduled condition."""
    conditions = world.cluster.get("Pod", name, "default")["status"]["conditions"]
    return next(one["message"] for one in conditions if one["type"] == "PodScheduled")


def held(world, name):
    status = world.cluster.get("ResourceClaim", name, "default").get("status") or {}
    return [one["device"] for one in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()]


def test_a_claim_is_written_as_kube_scheduler_writes_it(led, build) -> None:
    led.cluster.create(claim("c", request(count=2)))
    led.cluster.create(claiming(build, "p", "c"))
    led.run(2)
    assert led.node_of("p") == "n1"
    obj = led.cluster.get("ResourceClaim", "c", "default")
    uid = led.cluster.get("Pod", "p", "default")["metadata"]["uid"]
    assert obj["metadata"]["finalizers"] == [CLAIM_FINALIZER]
    assert obj["status"] == {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": "gpu-0"},
                    {"request": "gpus", "driver": DRIVER, "pool": "n1", "device": "gpu-1"},
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
    }


def test_no_device_is_given_twice(led, build) -> None:
    for number in range(5):
        led.cluster.create(claim(f"c{number}"))
        led.cluster.create(claiming(build, f"p{number}", f"c{number}"))
    led.run(3)
    given = [device for number in range(5) for device in held(led, f"c{number}")]
    assert sorted(given) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert sum(bool(led.node_of(f"p{number}")) for number in range(5)) == 4


def test_pods_that_share_a_claim_are_all_reserved(led, build) -> None:
    led.cluster.create(claim("shared"))
    for name in ("a", "b", "c"):
        led.cluster.create(claiming(build, name, "shared"))
    led.run(3)
    status = led.cluster.get("ResourceClaim", "shared", "default")["status"]
    assert sorted(user["name"] for user in status["reservedFor"]) == ["a", "b", "c"]
    assert held(led, "shared") == ["gpu-0"]


def test_devices_are_free_again_when_the_last_pod_has_gone(led, build) -> None:
    led.cluster.create(claim("shared", request(count=4)))
    for name in ("a", "b"):
        led.cluster.create(claiming(build, name, "shared"))
    led.run(2)
    led.cluster.delete("Pod", "a", "default")
    led.run(2)
    assert held(led, "shared") == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert len(led.cluster.get("ResourceClaim", "shared", "default")["status"]["reservedFor"]) == 1
    led.cluster.delete("Pod", "b", "default")
    led.run(2)
    obj = led.cluster.get("ResourceClaim", "shared", "default")
    assert not obj.get("status")
    assert not obj["metadata"].get("finalizers")
    led.cluster.create(claim("next", request(count=4)))
    led.cluster.create(claiming(build, "n", "next"))
    led.run(2)
    assert len(held(led, "next")) == 4


def test_a_pod_gets_all_its_claims_or_none(led, build) -> None:
    led.cluster.create(claim("fits"))
    led.cluster.create(claim("odd", request(selectors=[{"cel": {"expression": "device.driver == 'other'"}}])))
    led.cluster.create(claiming(build, "p", "fits", "odd"))
    led.run(3)
    assert led.node_of("p") == ""
    assert held(led, "fits") == []
    events = [event["message"] for event in led.cluster.list("Event") if event["reason"] == "FailedBinding"]
    assert events == []  # decided before anything was tried
    reason = why_not(led, "p")
    assert "default/odd" in reason
    assert "device.driver == 'other'" in reason


def test_what_could_not_be_bound_is_freed_again(led, build, monkeypatch) -> None:
    bind = led.cluster.bind
    refused = []

    def refuse(namespace, pod, node, *rest):
        refused.append(held(led, "c"))
        raise Conflict("the pod can't be bound just now")

    monkeypatch.setattr(led.cluster, "bind", refuse)
    led.cluster.create(claim("c"))
    led.cluster.create(claiming(build, "p", "c"))
    led.run(0.5)
    assert refused[0] == ["gpu-0"]  # it was allocated before the binding
    assert held(led, "c") == []
    monkeypatch.setattr(led.cluster, "bind", bind)
    led.run(3)
    assert led.node_of("p") == "n1"
    assert held(led, "c") == ["gpu-0"]


def test_a_claim_changed_by_somebody_else_is_not_overwritten(led, build) -> None:
    """The claim changes between decision and write: the server answers with a Conflict, and the pod waits for the next cycle."""
    cluster = led.cluster
    led.candidates.clear()
    cluster.create(claim("c"))
    pod = cluster.create(claiming(build, "p", "c"))
    allocator = ClaimAllocator(cluster)

    class Late:
        def __getattr__(self, name):
            return getattr(cluster, name)

        def write_all(self, chains):
            if chains:
                cluster.patch("ResourceClaim", "c", "default", {"metadata": {"annotations": {"touched": "yes"}}})
            return cluster.write_all(chains)

    allocator._cluster = Late()
    refused = allocator.prepare([Binding(pod, "n1")])
    assert isinstance(refused[pod["metadata"]["uid"]], Conflict)
    assert held(led, "c") == []


def test_devices_that_a_claim_may_have_are_nobody_elses(led, build) -> None:
    """The allocation was written without an answer, and the watch reports it late."""
    cluster = led.cluster
    led.candidates.clear()
    pods = []
    for name in ("first", "second"):
        cluster.create(claim(name, request(count=3)))
        pods.append(cluster.create(claiming(build, name, name)))

    class LateNews:
        def __init__(self, inner):
            self.inner, self.late = inner, False

        def poll(self):
            return [] if self.late else self.inner.poll()

    class Lossy:
        def __getattr__(self, name):
            return getattr(cluster, name)

        def watch(self, kinds):
            self.news = LateNews(cluster.watch(kinds))
            return self.news

        def write_all(self, chains):
            outcomes = cluster.write_all(chains)
            allocates = any(write.subresource == "status" for chain in chains for write in chain)
            if not (allocates and self.lost):
                return outcomes
            self.news.late = True
            error = Unavailable("no answer")
            error.unanswered = True
            return [WriteOutcome([], error) for _ in outcomes]

    lossy = Lossy()
    allocator = ClaimAllocator(lossy)
    first, second = (Binding(pod, "n1") for pod in pods)
    lossy.lost = True
    assert isinstance(allocator.prepare([first])[first.uid], Unavailable)
    assert len(held(led, "first")) == 3
    lossy.lost = False
    assert "can't be allocated" in str(allocator.prepare([second])[second.uid])
    lossy.news.late = False  # and what is true is told
    assert "can't be allocated" in str(allocator.prepare([second])[second.uid])
    assert held(led, "second") == []
    cluster.patch("ResourceClaim", "first", "default", {"status": {"allocation": None}}, "status")
    assert allocator.prepare([second]) == {}
    assert len(held(led, "second")) == 3


def test_a_claim_still_to_be_made_from_a_template_holds_its_pod_back(led, build) -> None:
    wanted = [{"name": "c", "resourceClaimTemplateName": "t"}]
    pod = led.cluster.create(build.pod("p", 0, resourceClaims=wanted))
    allocator = ClaimAllocator(led.cluster)
    refused = allocator.prepare([Binding(pod, "n1")])
    assert "has not been made from template t yet" in str(refused[pod["metadata"]["uid"]])
    led.cluster.create(claim("p-c-x"))
    made = [{"name": "c", "resourceClaimName": "p-c-x"}]
    pod = led.cluster.patch("Pod", "p", "default", {"status": {"resourceClaimStatuses": made}}, "status")
    assert allocator.prepare([Binding(pod, "n1")]) == {}
    assert held(led, "p-c-x") == ["gpu-0"]


# --- which devices ---------------------------------------------------------------------------------------------------


def chosen(world, claim_object, *more):
    """The devices chosen for one claim on n1, or the reason of the failure."""
    from kailab.engine.snapshot.devices import choose_devices
    from kailab.scheduler.reading.claims import DeviceInventory, read_device_requests

    inventory = DeviceInventory()
    for obj in [*world.cluster.list("ResourceSlice"), *more]:
        inventory.process_slice(obj, deleted=False)
    classes = {obj["metadata"]["name"]: obj for obj in world.cluster.list("DeviceClass")}
    found = choose_devices(
        read_device_requests(claim_object["spec"], classes), inventory.on("n1"), lambda device: False
    )
    if isinstance(found, str):
        return found
    return [(choice.request, choice.device.name) for choice in found]


def cel(expression):
    return {"selectors": [{"cel": {"expression": expression}}]}


@pytest.mark.parametrize(
    ("expression", "devices"),
    [
        (f"device.attributes['{DRIVER}'].index == 2", ["gpu-2"]),
        (f'device.attributes["{DRIVER}"].index >= 1 && device.attributes["{DRIVER}"].index < 3', ["gpu-1", "gpu-2"]),
        (f"!(device.attributes['{DRIVER}'].index in [0, 1, 2])", ["gpu-3"]),
        (f"device.attributes['{DRIVER}'].productName.lowerAscii().matches('^a1.*0$')", [f"gpu-{n}" for n in range(4)]),
        (f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0", [f"gpu-{n}" for n in range(4)]),
        (f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('80Gi'))", []),
        (f"device.attributes['{DRIVER}'].nosuch == 1", []),
        (f"device.attributes['{DRIVER}'].index == 'two'", []),
        (f"device.driver == 'x' || device.attributes['{DRIVER}'].index == 0", ["gpu-0"]),
    ],
)
def test_selectors(led, expression, devices) -> None:
    wanted = request(allocationMode="All", **cel(expression))
    del wanted["exactly"]["count"]
    found = chosen(led, claim("c", wanted))
    assert (found if devices else []) == [("gpus", name) for name in devices]
    if not devices:
        assert ("has no value for device gpu-0" if "nosuch" in expression else "the node has none") in found


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver.split('.')",
        "device.attributes.exists(d, true)",
        "device.driver ==",
        "'open",
        "device.owner == 1",
        "",
    ],
)
def test_a_selector_that_is_not_known_is_refused_not_guessed_at(led, expression) -> None:
    assert "can't be evaluated here" in chosen(led, claim("c", request(**cel(expression))))


def test_alternatives_are_taken_in_order(led) -> None:
    big = {"name": "big", "deviceClassName": DRIVER, "count": 9}
    small = {"name": "small", "deviceClassName": DRIVER, "count": 1}
    assert chosen(led, claim("c", {"name": "gpu", "firstAvailable": [big, small]})) == [("gpu/small", "gpu-0")]


def test_devices_that_must_have_something_in_common(led) -> None:
    same = [{"matchAttribute": f"{DRIVER}/numa", "requests": ["two"]}]
    one, two = request("one"), request("two", 2)
    assert chosen(led, claim("c", one, two, constraints=same)) == [
        ("one", "gpu-0"),
        ("two", "gpu-2"),
        ("two", "gpu-3"),
    ]
    assert "no free devices agree in" in chosen(led, claim("c", request("two", 3), constraints=same))


def test_only_whole_pools_of_the_newest_generation_count(led) -> None:
    half_told = slices("n1", gpu(7), generation=2, count=2)
    assert "the node has none" in chosen(led, claim("c"), half_told)
    other_half = slices("n1", gpu(9), generation=2, count=2, number=1)
    assert chosen(led, claim("c", request(count=2)), half_told, other_half) == [("gpus", "gpu-7"), ("gpus", "gpu-9")]


def test_tainted_devices_are_for_those_who_tolerate_them(led) -> None:
    taint = {"key": "sick", "value": "yes", "effect": "NoSchedule"}
    newer = slices("n1", gpu(0, taints=[taint]), generation=2)
    assert "0 of 1 are free" in chosen(led, claim("c"), newer)
    tolerating = request(tolerations=[{"key": "sick", "operator": "Exists"}])
    assert chosen(led, claim("c", tolerating), newer) == [("gpus", "gpu-0")]


def test_what_is_not_known_of_dra_is_said(led) -> None:
    assert "not supported" in chosen(led, claim("c", request(capacity={"requests": {"memory": "1Gi"}})))
    assert "not supported" in chosen(led, claim("c", constraints=[{"distinctAttribute": "a/b"}]))
    other = request()
    other["exactly"]["deviceClassName"] = "nosuch"
    assert chosen(led, claim("c", other)) == 'deviceclass "nosuch" not found'
