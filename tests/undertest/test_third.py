"""A scheduler under test that kailab does not bring: one module, which is this one, and a row in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ExpectationFailed, InputError
from kailab.evidence.entries import PodBound
from kailab.evidence.recorder import Recorder
from kailab.lab import Lab, at_least, expect
from kailab.undertest.contract import InProcessScheduler, NotExpressible, SchedulerUnderTest, SchedulerWiring
from kailab.undertest.registry import SCHEDULERS, BackendConflict, SchedulerKind
from kailab.undertest.selection import choose_scheduler

Makes = Callable[[str], Object]
EXERCISE = Path(__file__).parents[2] / "exercises" / "quota" / "manifests"


class FirstNode:
    """Binds every pod of its own to the first node."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    @property
    def wake_at(self) -> float | None:
        return None

    def step(self) -> bool:
        first = sorted(node["metadata"]["name"] for node in self._cluster.list("Node"))[0]
        mine = [
            pod["metadata"]
            for pod in self._cluster.list("Pod")
            if pod["spec"].get("schedulerName") == self._name and not pod["spec"].get("nodeName")
        ]
        for metadata in mine:
            self._cluster.bind(metadata["namespace"], metadata["name"], first)
        return bool(mine)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Third(SchedulerUnderTest):
    title = "Third"
    scheduler_name = "third"

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        return [self._translated(obj) for obj in objects]

    def _translated(self, obj: Object) -> Sequence[Object]:
        if obj["kind"] == "PodGroup":
            raise NotExpressible(self.name, "gang", f"PodGroup/{obj['metadata']['name']}")
        if obj["kind"] == "Queue":
            note = {"name": f"quota-{obj['metadata']['name']}", "namespace": "default"}
            return obj, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": note}
        if obj["kind"] == "Pod":
            return ({**obj, "spec": {**obj["spec"], "schedulerName": self.scheduler_name}},)
        return (obj,)

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler | None:
        return None if wiring.live else InProcessScheduler(FirstNode(wiring.cluster, self.scheduler_name))


@pytest.fixture
def third() -> Iterator[str]:
    SCHEDULERS.register(
        "third",
        SchedulerKind(
            "binds to the first node",
            made=f"{__name__}:Third",
            clashes=(BackendConflict("kind", "Third is afraid of Docker"),),
        ),
    )
    yield "third"
    SCHEDULERS._choices.pop("third")


def test_it_decides_in_a_lab(third: str, tmp_path: Path, pod: Makes) -> None:
    with Lab.open(scheduler=third, observers=[Recorder("lab")]) as lab:
        applied = lab.apply(EXERCISE / "queues.yaml", [pod("a"), pod("b")])
        assert "ConfigMap/quota-team-a created" in map(str, applied.changes)
        lab.settle()
        expect(lab.app("work")).running(2)
        assert lab.facts()["scheduler"] == "third"
        assert lab.venue.versions(lab.under_test)["scheduler"].startswith("third ")
        binds = [entry for entry in lab.log.entries if isinstance(entry, PodBound)]
        assert {entry.pod for entry in binds} == {"default/a", "default/b"}
        lab.save(tmp_path / "lab.state")
    with Lab.resume(tmp_path / "lab.state") as again:
        again.apply([pod("c")])
        again.settle()
        expect(again.app("work")).running(3)


def test_a_refused_object_changes_nothing(third: str, pod: Makes) -> None:
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
    with Lab.open(scheduler=third) as lab:
        with pytest.raises(NotExpressible, match="PodGroup/g: not expressible for third, which has no gang") as caught:
            lab.apply([pod("a"), group])
        assert (caught.value.concept, caught.value.exit_code) == ("gang", 2)
        assert lab.cluster.list("Pod") == []


def test_its_queues_are_shown_without_fair_shares(third: str, pod: Makes) -> None:
    with Lab.open(scheduler=third) as lab:
        lab.apply(EXERCISE / "queues.yaml", [pod("a")])
        lab.settle()
        assert "knows no queues" not in str(lab.explain_queue("team-b"))
        assert lab.picture().shares.queues["team-a"].fair_share is None


def test_expectations_on_waiting_work_without_pods_check_running_pods(third: str, pod: Makes) -> None:
    """As one does that keeps a Job suspended until it is admitted: of what waits there may be nothing to count."""
    template = {key: value for key, value in pod("gang").items() if key in ("metadata", "spec")}
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "gang"}}
    with Lab.open(scheduler=third) as lab:
        lab.apply([pod("a"), {**job, "spec": {"suspend": True, "parallelism": 8, "template": template}}])
        with pytest.raises(ExpectationFailed, match="expected job gang: 8 pods pending"):
            expect(lab.job("gang")).pending(8)
        with pytest.raises(ExpectationFailed, match="expected job gang: to wait whole"):
            expect(lab.job("gang")).waits_whole(8)
        with patch.object(Third, "waits_without_pods", True):
            expect(lab.job("gang")).waits_whole(8).pending(8, reason="OverLimit").pending(at_least(1)).running(0)
            with pytest.raises(ExpectationFailed, match=r"expected app work: to wait whole \(at most 1 pods\)"):
                expect(lab.app("work")).waits_whole(1)


def test_an_unsupported_backend_is_refused_with_the_reason(third: str) -> None:
    with pytest.raises(InputError, match="Third is afraid of Docker"):
        Lab.open(scheduler=third, backend="kind")
    with pytest.raises(InputError, match="config: the scheduler third does not take it"):
        Lab.open(scheduler=third, config={"actions": "allocate"})


def test_a_name_is_taken_once(third: str) -> None:
    with pytest.raises(InputError, match="there is a scheduler 'third' already"):
        SCHEDULERS.register("third", SCHEDULERS["kailab"])
    assert choose_scheduler("third").kind == "third"
