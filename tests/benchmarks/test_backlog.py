"""A cycle of a full cluster with departments looks at few of the jobs that wait, and decides as one that looks at all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from benchmarks.backlog import backlog, cycles
from checks.fuzzing.both_ways import decide_both_ways
from kailab.engine.config import EngineConfig
from kailab.engine.placing.allocation import Allocator
from kailab.engine.snapshot.records import Status
from kailab.engine.working.state import Job
from tests.engine.conftest import NOW

NODES, WAITING, ENDED = 10, 800, 8


def test_departments_are_decided_alike_both_ways() -> None:
    working = backlog(NODES, WAITING)
    for _ in range(4):
        running = [task.record for task in working.tasks.values() if task.record.status == Status.RUNNING]
        for record in running[:ENDED]:
            working.set_task(structs.replace(record, status=Status.SUCCEEDED))
        decisions = decide_both_ways(working, EngineConfig(), NOW)
        assert len(decisions.binds) == ENDED
        for bind in decisions.binds:
            working.set_task(structs.replace(working.tasks[bind.task].record, status=Status.RUNNING, node=bind.node))


def test_the_jobs_that_are_tried_do_not_grow_with_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    place = Allocator.place

    def counted(self: Allocator, job: Job, *arguments: Any) -> bool:
        tried.append(job.uid)
        return place(self, job, *arguments)

    monkeypatch.setattr(Allocator, "place", counted)
    numbers = []
    for waiting in (WAITING, 2 * WAITING):
        tried.clear()
        cycles(backlog(NODES, waiting), ENDED, 1, reasons=False)
        numbers.append(len(tried))
    assert numbers[0] == numbers[1] < WAITING / 4
