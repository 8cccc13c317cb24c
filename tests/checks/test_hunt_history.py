"""Histories of a hunt: the changes of a cluster after its work has arrived, and what a comparison of them finds."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from checks.fuzzing.walk_objects import queue
from checks.hunting.bench import SchedulerBench
from checks.hunting.history import with_changes
from checks.hunting.hunt import carry_out, make_hunt
from checks.hunting.judging import Judge
from checks.hunting.outcomes import DEFAULT_KINDS
from checks.hunting.random_sample import seeded
from checks.hunting.sample import HuntSample
from checks.hunting.store import HuntFolder
from checks.hunting.team_sample import seeded_in
from kailab.lab import Lab
from kailab.model.objects import Object
from kailab.scenarios.running import do
from kailab.undertest.kai.folder import BINARIES_ENV

FLEET: Object = {
    "apiVersion": "kailab.dev/v1",
    "kind": "Fleet",
    "name": "two",
    "pools": [{"name": "n", "count": 2, "gpus": 2, "gpuModel": "A100", "cpu": 64, "memory": "512Gi"}],
}


def _kind(step: Object) -> str:
    (action, content), *_ = step.items()
    return (
        f"{action} {content[0]['kind']}"
        if action == "apply"
        else f"{action} {content['kind']}"
        if isinstance(content, dict)
        else action
    )


def test_the_changes_of_a_seed_are_the_same_each_time_and_of_all_kinds() -> None:
    kinds: Counter[str] = Counter()
    for seed in range(30):
        drawn = seeded(seed)
        changed = with_changes(drawn, 6)
        assert changed == with_changes(drawn, 6)
        assert changed.steps[: len(drawn.steps)] == drawn.steps
        assert len(changed.steps) == len(drawn.steps) + 6
        kinds.update(map(_kind, changed.steps[len(drawn.steps) :]))
    assert {
        "end", "delete Job", "delete Deployment", "scale Deployment", "patch Node", "delete Node", "apply Node", "apply Queue",
        "patch PodGroup",
    } <= kinds.keys()  # fmt: skip


@pytest.mark.parametrize("sample", [seeded(4), seeded_in("cpu-beside-shares", 2)], ids=lambda sample: sample.name)
def test_every_change_is_a_step_with_an_outcome(sample: HuntSample, tmp_path: Path) -> None:
    changed = with_changes(sample, 8)
    outcome = SchedulerBench("embedded", {}, print).decided(changed.written(tmp_path), "kailab")
    assert (outcome.failed, outcome.stopped) == ("", "")
    assert len(outcome.lab.phases) == len(changed.steps)


def pod(name: str, gpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, "kai.scheduler/queue": "team"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
    }


def test_work_that_ends_makes_room_and_a_cordoned_node_takes_none(tmp_path: Path) -> None:
    one = {**FLEET, "pools": [{**FLEET["pools"][0], "count": 1}]}
    (tmp_path / "fleet.yaml").write_text(json.dumps(one))
    with Lab.open(tmp_path / "fleet.yaml") as lab:

        def running() -> set[str]:
            lab.settle()
            return {pod["metadata"]["name"] for pod in lab.get("pods") if pod["status"].get("phase") == "Running"}

        do(lab, {"apply": [queue("team", "", 2, -1, 1), pod("first", 2)]})
        assert running() == {"first"}
        do(lab, {"apply": [pod("second", 2)]})
        (node,) = lab.get("nodes")
        do(
            lab,
            {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": {"spec": {"unschedulable": True}}}},
        )
        do(lab, {"end": "first"})
        assert running() == set()
        do(
            lab,
            {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": {"spec": {"unschedulable": None}}}},
        )
        assert running() == {"second"}


STUBBORN = '''
"""kailab's scheduler, which does not see that a queue gets other amounts."""

from dataclasses import dataclass, replace
from unittest.mock import patch

from kailab.scheduler import mirror
from kailab.undertest.kailab import Kailab
from kailab.undertest.registry import SchedulerKind

STUBBORN = SchedulerKind("amounts of queues stay", made="stubborn_scheduler:Stubborn")


class Deciding:
    def __init__(self, real):
        self._real, self._first, self._read = real, {}, mirror.queue_record

    def _record(self, queue):
        return self._first.setdefault(queue["metadata"]["name"], self._read(queue))

    def step(self):
        with patch.object(mirror, "queue_record", self._record):
            return self._real.step()

    def __getattr__(self, name):
        return getattr(self._real, name)


@dataclass(frozen=True)
class Stubborn(Kailab):
    title = "stubborn"

    def within(self, wiring):
        found = super().within(wiring)
        return replace(found, decider=Deciding(found.decider))
'''


def test_a_fault_that_shows_only_between_cycles_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same clusters without changes are decided alike."""
    site = tmp_path / "site"
    (site / "stubborn-1.dist-info").mkdir(parents=True)
    (site / "stubborn-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: stubborn\nVersion: 1\n")
    (site / "stubborn-1.dist-info/entry_points.txt").write_text(
        "[kailab.schedulers]\nstubborn = stubborn_scheduler:STUBBORN\n"
    )
    (site / "stubborn_scheduler.py").write_text(STUBBORN)
    monkeypatch.syspath_prepend(site)
    bench = SchedulerBench("embedded", {}, print)
    judge = Judge("stubborn", "stubborn", bench, bench, DEFAULT_KINDS, 0, tmp_path)
    seeds = (1, 2)
    assert {judge.judge(seeded(seed)).verdict for seed in seeds} == {"same"}
    judged = {seed: judge.judge(with_changes(seeded(seed), 8)) for seed in seeds}
    assert "differs" in {each.verdict for each in judged.values()}
    assert "error" not in {each.verdict for each in judged.values()}


def test_the_node_of_a_pod_is_compared_on_request(tmp_path: Path) -> None:
    """A pod that must go to the other of two unlike nodes differs in its node alone."""
    bench = SchedulerBench("embedded", {}, print)
    small = {**FLEET["pools"][0], "name": "s", "count": 1, "gpus": 1}
    fleet = {**FLEET, "pools": [{**FLEET["pools"][0], "count": 1}, small]}
    sample = HuntSample("unlike", 0, fleet, ({"apply": [queue("team", "", 4, -1, 1)]}, {"apply": [pod("one", 1)]}))
    (tmp_path / "spread.yaml").write_text("tiers: [{plugins: [{name: nodeplacement, arguments: {gpu: spread}}]}]\n")
    (tmp_path / "names.yaml").write_text("spread: {kind: kailab, config: spread.yaml}\n")
    against = f"spread@{tmp_path / 'names.yaml'}"
    assert Judge(against, "spread", bench, bench, DEFAULT_KINDS, 0, tmp_path).judge(sample).verdict == "same"
    judged = Judge(against, "spread", bench, bench, ("placement",), 0, tmp_path).judge(sample)
    assert judged.verdict == "differs"
    assert [each.kind for each in judged.differences] == ["placement"]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get(BINARIES_ENV), reason=f"needs a KAI in {BINARIES_ENV}")
def test_a_real_kai_decides_a_history_as_kailab_does(tmp_path: Path) -> None:
    hunt = make_hunt("kai", "controlplane", (), 2, 0, "kai", {}, changes=5)
    folder = HuntFolder(tmp_path / "kai")
    folder.begin(hunt)
    carry_out(hunt, folder, [0], None, {}, lambda *_: None, print)
    assert {decided.judged.verdict for decided in folder.decided().values()} <= {"same", "chance"}
