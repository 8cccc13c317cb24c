"""What the installed kinds take and refuse, on a real API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.install import fleet_devices, install
from kailab.errors import ApiError, Invalid
from kailab.fleet.reading import load_fleet
from kailab.lab import Lab
from kailab.model.kinds import kind_key
from kailab.model.objects import Object
from kailab.model.validation import validate

pytestmark = pytest.mark.slow
EXERCISES = Path(__file__).parents[2] / "exercises"


@pytest.fixture(scope="module")
def kinds(real: Any) -> Any:
    install(real)
    return real


@pytest.fixture
def kept(kinds: Any) -> Any:
    """A function that writes an object (its status, too) and gives it as it was kept."""
    made: list[tuple[str, str, str | None]] = []

    def write(obj: Object) -> Object:
        kind, name = kind_key(obj), f"x{len(made)}"
        namespace = "default" if kind in ("PodGroup", "BindRequest") else None
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        found = kinds.create({**{k: v for k, v in obj.items() if k != "status"}, "metadata": metadata})
        made.append((kind, name, namespace))
        if obj.get("status"):
            found = kinds.patch(kind, name, namespace, {"status": obj["status"]}, "status")
        return dict(found)

    yield write
    for each in made:
        kinds.delete(*each)


def _written_by(lab: Lab, seen: dict[str, Object]) -> None:
    for kind in ("Queue", "PodGroup", "Topology"):
        for obj in lab.cluster.list(kind):
            content = {key: obj[key] for key in ("spec", "status") if key in obj}
            seen.setdefault(json.dumps([kind, content], sort_keys=True), copy.deepcopy(obj))


@pytest.mark.parametrize("exercise", sorted(path.parent.name for path in EXERCISES.glob("*/manifests")))
def test_what_kailab_writes_is_kept_whole(kept: Callable[[Object], Object], exercise: str) -> None:
    seen: dict[str, Object] = {}
    for manifest in sorted((EXERCISES / exercise / "manifests").glob("*.yaml")):
        with Lab.open(fleet="lesson") as lab:
            for basis in sorted((EXERCISES / exercise / "manifests").glob("queues*.yaml")):
                lab.apply(basis)
            lab.apply(manifest)
            lab.settle()
            _written_by(lab, seen)
            lab.advance(600)
            _written_by(lab, seen)
    assert seen
    for obj in seen.values():
        found = kept(obj)
        assert {key: found.get(key) for key in ("spec", "status")} == {key: obj.get(key) for key in ("spec", "status")}


UNSAID = {
    # A schema does not follow parents from one to the next.
    "subgroups in a circle": {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
}


def queue(**spec: Any) -> Object:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": spec}


def amounts(**gpu: Any) -> Object:
    return queue(resources={"gpu": gpu})


def podgroup(**spec: Any) -> Object:
    metadata = {"name": "group", "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def topology(*levels: Object) -> Object:
    spec = {"levels": list(levels)}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "layout"}, "spec": spec}


def sub(name: str, **more: Any) -> Object:
    return {"name": name, **more}


WRONG = {
    "quota -2": amounts(quota=-2),
    "quota -0.5": amounts(quota=-0.5),
    "limit as text": amounts(limit="8"),
    "quota beyond all": amounts(quota=1e40),
    "negative weight": amounts(overQuotaWeight=-1),
    "weight beyond all": amounts(overQuotaWeight=1e15),
    "resources as a list": queue(resources=[]),
    "priority 1.5": queue(priority=1.5),
    "priority true": queue(priority=True),
    "priority beyond 32 bits": queue(priority=2**31),
    "its own parent": queue(parentQueue="team"),
    "min runtime soon": queue(preemptMinRuntime="soon"),
    "min runtime without unit": queue(preemptMinRuntime="5"),
    "min runtime in days": queue(reclaimMinRuntime="1d"),
    "negative min runtime": queue(reclaimMinRuntime="-5s"),
    "display name 3": queue(displayName=3),
    "minMember -1": podgroup(minMember=-1),
    "minMember beyond 32 bits": podgroup(minMember=2**31),
    "minMember 1.5": podgroup(minMember=1.5),
    "minMember and minSubGroup": podgroup(minMember=1, minSubGroup=1),
    "maybe preemptible": podgroup(preemptibility="maybe"),
    "negative delay": podgroup(preemptionDelay="-1s"),
    "grace in weeks": podgroup(stalenessGracePeriod="1w"),
    "queue 3": podgroup(queue=3),
    "constraint as text": podgroup(topologyConstraint="rack"),
    "subgroup without name": podgroup(subGroups=[{"minMember": 1}]),
    "subgroup with a bad name": podgroup(subGroups=[sub("A_b", minMember=1)]),
    "subgroup with a long name": podgroup(subGroups=[sub("a" * 64, minMember=1)]),
    "subgroup twice": podgroup(subGroups=[sub("a", minMember=1), sub("a", minMember=1)]),
    "subgroup of nobody": podgroup(subGroups=[sub("a", minMember=1, parent="x")]),
    "subgroup of itself": podgroup(subGroups=[sub("a", parent="a")]),
    "subgroup without minimum": podgroup(subGroups=[sub("a")]),
    "leaf with minSubGroup": podgroup(subGroups=[sub("a", minSubGroup=1)]),
    "leaf with both": podgroup(subGroups=[sub("a", minMember=1, minSubGroup=1)]),
    "parent with minMember": podgroup(subGroups=[sub("a", minMember=1), sub("b", parent="a", minMember=1)]),
    "no levels": topology(),
    "level without label": topology({"alias": "b"}),
    "level twice": topology({"nodeLabel": "a"}, {"nodeLabel": "a"}),
    "alias twice": topology({"nodeLabel": "a", "alias": "x"}, {"nodeLabel": "b", "alias": "x"}),
    "alias that is a label": topology({"nodeLabel": "a", "alias": "b"}, {"nodeLabel": "b"}),
    "hostname not last": topology({"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "a"}),
    "17 levels": topology(*({"nodeLabel": f"l{i}"} for i in range(17))),
    "label with a space": topology({"nodeLabel": "a b"}),
}
RIGHT = {
    "unlimited": amounts(quota=-1, limit=-1.0, overQuotaWeight=0),
    "parts of a device": amounts(quota=0.5, limit=2, overQuotaWeight=1.5),
    "empty queue": queue(),
    "min runtimes": queue(preemptMinRuntime="1h30m", reclaimMinRuntime="0"),
    "the lowest priority": queue(priority=-(2**31)),
    "no gang": podgroup(minMember=0),
    "for ever stale": podgroup(stalenessGracePeriod="-1s", preemptionDelay="1.5s"),
    "a tree": podgroup(
        minSubGroup=1,
        subGroups=[sub("a", minSubGroup=2), sub("b", parent="a", minMember=1), sub("c", parent="a", minMember=0)],
    ),
    "no backoff": podgroup(schedulingBackoff=-1, markUnschedulable=True),
    "700 subgroups": podgroup(subGroups=[sub(f"s{i}", minMember=1) for i in range(700)]),
    "700 subgroups in a tree": podgroup(
        subGroups=[sub("root", minSubGroup=1), *(sub(f"s{i}", parent="root", minMember=1) for i in range(699))]
    ),
    "levels": topology({"nodeLabel": "lab/zone", "alias": "zone"}, {"nodeLabel": "kubernetes.io/hostname"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_validation_refuses_the_schema_refuses(kinds: Any, name: str) -> None:
    assert validate(WRONG[name], kind_key(WRONG[name]))
    with pytest.raises(Invalid):
        kinds.create(copy.deepcopy(WRONG[name]))


@pytest.mark.parametrize("name", RIGHT)
def test_what_validation_allows_the_schema_allows(kept: Callable[[Object], Object], name: str) -> None:
    assert validate(RIGHT[name], kind_key(RIGHT[name])) == []
    assert kept(RIGHT[name])["spec"] == RIGHT[name]["spec"]


@pytest.mark.parametrize("name", UNSAID)
def test_what_a_schema_cannot_say_is_left_to_validation(kept: Callable[[Object], Object], name: str) -> None:
    assert validate(podgroup(**UNSAID[name]), "PodGroup")
    assert kept(podgroup(**UNSAID[name]))["spec"] == UNSAID[name]


def test_aliases_of_a_topology_may_change_and_its_levels_may_not(kinds: Any) -> None:
    kinds.create(topology({"nodeLabel": "a", "alias": "x"}, {"nodeLabel": "b"}))
    levels = [{"nodeLabel": "a", "alias": "y"}, {"nodeLabel": "b", "alias": "z"}]
    assert kinds.patch("Topology", "layout", None, {"spec": {"levels": levels}})["spec"]["levels"] == levels
    with pytest.raises(Invalid, match="can't be changed"):
        kinds.patch("Topology", "layout", None, {"spec": {"levels": levels[:1]}})
    kinds.delete("Topology", "layout")


def test_a_bind_request_is_kept_whole(kept: Callable[[Object], Object]) -> None:
    results = [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n0", "device": "gpu-0", "adminAccess": False}]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    allocation = {
        "devices": {
            "results": results,
            "config": [{"source": "FromClass", "opaque": {"driver": "d", "parameters": {"anything": {"goes": [1]}}}}],
        },
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    request = {
        "apiVersion": "scheduling.run.ai/v1alpha2",
        "kind": "BindRequest",
        "spec": {
            "podName": "p",
            "selectedNode": "n0",
            "receivedResourceType": "Fraction",
            "receivedGPU": {"count": 1, "portion": "0.50"},
            "selectedGPUGroups": ["3f6a"],
            "backoffLimit": 3,
            "predictedNUMAZones": [{"zone": "node-0", "amount": {"cpu": "4", "nvidia.com/gpu": 1}}],
            "resourceClaimAllocations": [{"name": "gpu", "allocation": allocation}],
            "extendedResourceClaimAllocation": {
                "allocation": allocation,
                "deviceRequests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}],
                "containerMappings": [{"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}],
            },
        },
        "status": {"phase": "Failed", "reason": "why", "failedAttempts": 2},
    }
    found = kept(request)
    assert found["spec"] == request["spec"]
    assert found["status"] == request["status"]


def test_a_fleets_devices_are_taken(real: Any) -> None:
    devices = fleet_devices(load_fleet("lesson"))
    for obj in devices:
        found = real.create(obj)
        assert len(found["spec"].get("devices", ())) == len(obj["spec"].get("devices", ()))
        assert (found["spec"].get("nodeName"), found["spec"].get("selectors")) == (
            obj["spec"].get("nodeName"),
            obj["spec"].get("selectors"),
        )
    for obj in devices:
        try:
            real.delete(obj["kind"], obj["metadata"]["name"])
        except ApiError as error:
            pytest.fail(f"{obj['metadata']['name']}: {error}")
