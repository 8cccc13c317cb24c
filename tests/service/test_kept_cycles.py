"""Cycles of a scheduler process in a file: every cycle in it can be decided again, whatever errors occurred in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.engine.cycle import decide
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.evidence import cycles
from kailab.evidence.cycles import cycle_file_path, read_cycle_file, whole_cycles
from kailab.evidence.decision_file import DecisionFile
from kailab.scheduler.service.election import NoElection
from kailab.scheduler.service.service_loop import SchedulerService, ServiceSettings


class Keeping:
    """A scheduler that writes its cycles to a file, and its output."""

    def __init__(self, world, build, path: Path, caplog) -> None:
        self.world, self.build, self.caplog = world, build, caplog
        self.decisions = path
        self.file = cycle_file_path(path)
        self.begin()

    def begin(self) -> None:
        """Anew, as a new process does."""
        cluster = self.world.cluster
        self.service = SchedulerService(
            cluster, ServiceSettings(), NoElection(), clock=cluster.now, rest=cluster.advance,
            observers=lambda cluster: [DecisionFile(self.decisions, cluster.now(), cluster.now, cycles=True)],
        )  # fmt: skip

    def decide(self, *pods: str) -> None:
        for name in pods:
            self.world.cluster.create(self.build.pod(name, 1))
        end = self.world.cluster.now() + 3
        while self.world.cluster.now() < end:
            self.service.turn()
            self.world.cluster.advance(0.1)

    def bound_again(self) -> list[str]:
        """Names of the pods that are bound when each cycle of the file is decided again; each is decided as it was."""
        snapshot, bound = Snapshot(), []
        for cycle, config, decisions in whole_cycles(read_cycle_file(self.file)):
            snapshot = cycle.changes.applied_to(snapshot)
            assert decide(snapshot, config, cycle.now) == decisions, cycle.number
            names = {task.uid: task.name for task in snapshot.tasks}
            bound += [names[bind.task] for bind in decisions.binds]
        return sorted(bound)


@pytest.fixture
def keeping(world, build, tmp_path, caplog) -> Keeping:
    return Keeping(world, build, tmp_path / "decisions.json", caplog)


def test_after_a_cycle_that_did_not_fit_none_is_kept(keeping, monkeypatch) -> None:
    keeping.decide("first")
    monkeypatch.setattr(cycles, "MOST_BYTES", keeping.file.stat().st_size + 4000)
    keeping.decide(*(f"many-{number}" for number in range(6)))
    kept = keeping.file.read_bytes()
    keeping.decide("small")
    assert keeping.file.read_bytes() == kept
    assert keeping.bound_again() == ["first"]
    assert keeping.caplog.text.count("can't be replayed") == 1


def test_after_a_cycle_that_could_not_be_written_a_new_scheduler_goes_on(keeping) -> None:
    keeping.decide("first")
    aside = keeping.file.with_name("aside")
    keeping.file.rename(aside)
    keeping.file.mkdir()
    keeping.decide("lost")
    keeping.file.rmdir()
    aside.rename(keeping.file)
    keeping.decide("later")
    assert keeping.bound_again() == ["first"]
    keeping.service.close()
    keeping.begin()
    keeping.decide("anew")
    assert keeping.bound_again() == ["anew", "first"]


@pytest.mark.parametrize("left", [1, 200])
def test_a_line_that_was_broken_off_is_not_gone_on_with(keeping, left) -> None:
    keeping.decide("first")
    kept = keeping.file.read_bytes()
    keeping.service.close()
    keeping.file.write_bytes(kept + kept[:left])
    assert keeping.bound_again() == ["first"]
    keeping.begin()
    keeping.decide("second")
    assert keeping.file.read_bytes().startswith(kept)
    assert keeping.bound_again() == ["first", "second"]
