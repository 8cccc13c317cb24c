"""Shared GPUs and claimed devices on a real control plane, with kube-scheduler and the resourceclaim controller."""

from __future__ import annotations

from collections import Counter

import pytest

from kailab.cluster.install import claimed_nodes, fleet_devices
from kailab.errors import NotFound
from kailab.fleet.reading import load_fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

RESERVATIONS = "kai-resource-reservation"


def requested(live):
    """The GPUs that active pods request on each node."""
    found = Counter()
    for pod in live.list("Pod"):
        if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            for container in pod["spec"]["containers"]:
                amount = (container["resources"].get("limits") or {}).get("nvidia.com/gpu", 0)
                found[pod["spec"]["nodeName"]] += int(amount)
    return found


def test_kube_scheduler_sees_shared_gpus_taken(live, plane, start, build) -> None:
    """Both schedulers fill the same nodes; the requests on a node never exceed its capacity."""
    one = start("one")
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    shares = [f"half-{number}" for number in range(8)]
    for name in shares:
        live.create(build.live_pod(name, 0, annotations={"gpu-fraction": "0.5"}))
    build.eventually(lambda: build.bound(live, *shares))
    groups = {live.get("Pod", name, "default")["metadata"]["labels"]["runai-gpu-group"] for name in shares}
    assert {pod["metadata"]["labels"]["runai-gpu-group"] for pod in live.list("Pod", RESERVATIONS)} == groups
    assert len(groups) == 4
    plane.start_kube_scheduler()
    try:
        for number in range(36):
            pod = build.live_pod(f"plain-{number}", 1)
            pod["spec"]["schedulerName"] = "default-scheduler"
            live.create(pod)

        def plain():
            return [pod for pod in live.list("Pod", "default") if pod["metadata"]["name"].startswith("plain-")]

        build.eventually(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in plain()) == 28)
        told = [
            pod
            for pod in plain()
            if any(one.get("reason") == "Unschedulable" for one in pod["status"].get("conditions") or ())
        ]
        build.eventually(lambda: len(told) <= 8)
        offers = {
            node["metadata"]["name"]: int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in live.list("Node")
        }
        assert requested(live) == offers
    finally:
        plane.stop("kube-scheduler")
    for name in shares:
        live.delete("Pod", name, "default", 0)
    build.eventually(lambda: not live.list("Pod", RESERVATIONS))


@pytest.fixture
def devices(live, tmp_path):
    """Two nodes whose GPUs only claims can use."""
    path = tmp_path / "claims.yaml"
    path.write_text(
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: claims\npools:\n"
        "  - {name: claims, count: 2, gpus: 4, gpuModel: A100, gpuMemory: 80Gi, cpu: 96, memory: 1000Gi}\n"
    )
    fleet = load_fleet(path)
    nodes = [obj for obj in claimed_nodes(fleet) if obj["kind"] == "Node"]
    made = [*nodes, *fleet_devices(fleet)]
    for obj in made:
        live.apply(obj)
    yield [obj["metadata"]["name"] for obj in nodes]
    for obj in made:
        try:
            live.delete(obj["kind"], obj["metadata"]["name"])
        except NotFound:
            continue


def test_claims_from_templates_get_devices_and_give_them_back(live, devices, start, build) -> None:
    one = start("one")
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two", "namespace": "default"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
                }
            }
        },
    }
    live.create(template)
    wanted = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    names = [f"claims-{number}" for number in range(5)]
    for name in names:
        live.create(build.live_pod(name, 0, resourceClaims=wanted))

    def placed():
        return [name for name in names if live.get("Pod", name, "default")["spec"].get("nodeName")]

    build.eventually(lambda: len(placed()) == 4)
    first = placed()
    assert {live.get("Pod", name, "default")["spec"]["nodeName"] for name in first} == set(devices)
    given = Counter()
    for claim in live.list("ResourceClaim", "default"):
        allocation = (claim.get("status") or {}).get("allocation")
        if allocation:
            (user,) = claim["status"]["reservedFor"]
            node = live.get("Pod", user["name"], "default")["spec"]["nodeName"]
            assert allocation["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [node]
            for result in allocation["devices"]["results"]:
                assert result["pool"] == node
                given[result["pool"], result["device"]] += 1
    assert len(given) == 8
    assert set(given.values()) == {1}
    # One goes: the controller frees its devices, and the fifth gets them.
    live.delete("Pod", first[0], "default", 0)
    (last,) = set(names) - set(first)
    build.eventually(lambda: build.bound(live, last))
    assert "Traceback" not in one.log()
