"""Allocations without an answer that the server carries out: no device is given twice, and nobody is evicted for one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import WatchEvent
from kailab.cluster.writes import Chain, PatchWrite, WriteOutcome
from kailab.errors import ApiError
from kailab.scheduler.composition import SchedulerComposition
from kailab.workloads import ResourceClaimController
from tests.service.conftest import node, pod, queue
from tests.service.test_claims import claim, device_class, gpu, slices

DEVICES, PODS = 8, 12


class LateNews:
    """A watch that delivers events of unanswered writes late."""

    def __init__(self, inner: Any, lossy: Lossy) -> None:
        self._inner = inner
        self._lossy = lossy
        self._waiting: list[WatchEvent] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def poll(self) -> list[WatchEvent]:
        told, kept, late = [], [], set()
        for event in [*self._waiting, *self._inner.poll()]:
            name = event.object["metadata"]["name"]
            # Of one object in their order: what comes after late news is late, too.
            if event.kind == "ResourceClaim" and (name in late or self._lossy.unanswered(name)):
                late.add(name)
                kept.append(event)
            else:
                told.append(event)
        self._waiting = kept
        return told


class Lossy:
    """A cluster that carries out three of four allocations without an answer, at most ``most`` times."""

    def __init__(self, inner: EmbeddedCluster, seed: int, most: int) -> None:
        self._inner = inner
        self._random = random.Random(seed)
        self._known_at: dict[str, float] = {}
        self.most = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def unanswered(self, claim: str) -> bool:
        return self._known_at.get(claim, 0.0) > self._inner.now()

    def watch(self, kinds: Iterable[str] | None = None) -> LateNews:
        return LateNews(self._inner.watch(kinds), self)

    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        return [self._write(chain) for chain in chains]

    def _write(self, chain: Chain) -> WriteOutcome:
        (outcome,) = self._inner.write_all([chain])
        match chain[0]:
            case PatchWrite("ResourceClaim", name, _, _, "status") if self.most and self._random.random() < 0.75:
                self.most -= 1
                self._known_at[name] = self._inner.now() + self._random.choice((0.2, 0.5, 1.0, 2.0, 4.0))
                error = ApiError("no answer")
                error.unanswered = True
                return WriteOutcome([], error)
        return outcome


@pytest.mark.parametrize("seed", [2, 4, 15, 16, 19])
def test_nobody_is_evicted_for_devices_in_doubt(seed: int) -> None:
    """Every pod requests one device, so moving a pod frees no capacity for another."""
    cluster = EmbeddedCluster()
    for name in ("n1", "n2"):
        cluster.create(node(name, 0))
        cluster.create(slices(name, *map(gpu, range(DEVICES // 2))))
    cluster.create(device_class())
    cluster.create(queue("team"))
    lossy = Lossy(cluster, seed, most=60)
    claims = ResourceClaimController(cluster)
    composed = SchedulerComposition(gpu_reservations=False).over(lossy)  # type: ignore[arg-type]
    for number in range(PODS):
        cluster.create(claim(f"c{number}"))
        wanted = [{"name": "gpu", "resourceClaimName": f"c{number}"}]
        cluster.create(pod(f"p{number}", 0, resourceClaims=wanted))
    bound: list[str] = []
    for _ in range(6000):
        for controller in composed.controllers.values():
            controller.step()
        composed.scheduler.step()
        claims.step()
        decisions = composed.scheduler.decisions
        assert decisions is None or decisions.evictions == ()
        assert max(_given(cluster).values(), default=0) <= 1
        bound = [one["metadata"]["name"] for one in cluster.list("Pod") if one["spec"].get("nodeName")]
        if len(bound) == DEVICES:
            break
        cluster.advance(0.1)
    assert len(bound) == DEVICES
    assert lossy.most < 50
    composed.close()


def _given(cluster: EmbeddedCluster) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for one in cluster.list("ResourceClaim"):
        allocation = (one.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            found[result["pool"], result["device"]] += 1
    return found
