"""Devices that are claimed, while the answers to their allocation are lost and the news of it is late."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator

import pytest

from kailab.cluster.install import claimed_nodes, fleet_devices
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.errors import NotFound
from tests.faults import work
from tests.faults.api import Obj, patiently
from tests.faults.conftest import PATIENCE_SECONDS, Field
from tests.faults.proxy import Asked, Fault

pytestmark = pytest.mark.slow

DEVICES = 8
QUIET_SECONDS = 3.0


@pytest.fixture
def devices(field: Field) -> Iterator[None]:
    """Two nodes beside the lesson fleet's, with GPUs for claims only."""
    fleet = work.claimed()
    made = [*(obj for obj in claimed_nodes(fleet) if obj["kind"] == "Node"), *fleet_devices(fleet)]
    cluster = KubernetesCluster(Connection.from_kubeconfig(field.plane.kubeconfig))
    for obj in made:
        cluster.apply(obj)
    yield
    for obj in made:
        try:
            cluster.delete(obj["kind"], obj["metadata"]["name"])
        except NotFound:
            continue
    cluster.close()


def claim(name: str) -> Obj:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    metadata = {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "team"}}
    spec = {"devices": {"requests": [request]}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}


def claiming(name: str) -> Obj:
    made = work.pod(name, "team", 0)
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return made


def given(field: Field) -> dict[tuple[str, str, str], list[str]]:
    """Device -> the claims that have it; each has one at most, at any moment."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for attempt in patiently():
        with attempt:
            claims = field.api.list("ResourceClaim")
    for one in claims:
        allocation = (one.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            found[result["driver"], result["pool"], result["device"]].append(one["metadata"]["name"])
    assert {device: names for device, names in found.items() if len(names) > 1} == {}
    return found


def _allocates(asked: Asked) -> bool:
    return asked.writes and "/resourceclaims/" in asked.path and asked.path.endswith("/status")


def test_no_device_is_given_twice(field: Field, devices: None) -> None:
    faults = [
        Fault("lost allocations", "lose", 0.75, 500, on=_allocates, most=60),
        Fault("dropped watches", "drop", 1.0, seconds=0.2),
    ]
    proxy = field.proxy(*faults, seed=1)
    field.scheduler(kubeconfig=proxy.kubeconfig)
    names = [f"claim-{number}" for number in range(DEVICES + 4)]
    field.create(work.queue("team", -1, ""), *map(claim, names), *map(claiming, names))
    end = time.monotonic() + PATIENCE_SECONDS
    quiet_since: float | None = None
    while quiet_since is None or time.monotonic() - quiet_since < QUIET_SECONDS:
        picture = field.look()
        running = sum(len(picture.running(name)) for name in names)
        full = len(given(field)) == DEVICES == running
        quiet_since = (quiet_since or time.monotonic()) if full else None
        assert time.monotonic() < end, f"{running} run; {dict(given(field))}"
        time.sleep(0.2)
    assert faults[0].done > 3
    field.nobody_restarted()
