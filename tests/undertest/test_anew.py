"""A scheduler that remembers what is gone is started anew for each lab, others run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from kailab.cluster.protocol import Cluster
from kailab.model.callbacks import Tell
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.contract import Plane, SchedulerProcesses, SchedulerUnderTest, StartSettings
from kailab.undertest.registry import SCHEDULERS, SchedulerKind
from kailab.undertest.running import RunningSchedulers
from kailab.undertest.selection import choose_scheduler


class Diary(SchedulerProcesses):
    """Writes down what is done with it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        self.lines.append("start")

    def check(self) -> None:
        self.lines.append("check")

    def stop(self) -> None:
        self.lines.append("stop")

    @property
    def names(self) -> Sequence[str]:
        return ("diary",)

    def version(self) -> str:
        return "diary 1"


@dataclass(frozen=True)
class Steady(SchedulerUnderTest):
    title = "Steady"
    scheduler_name = "steady"
    diary: ClassVar[Diary]

    def beside(self, plane: Plane, programs: Any = None) -> SchedulerProcesses:
        return self.diary


@dataclass(frozen=True)
class Mindful(Steady):
    restart_for_each_lab = True


@pytest.fixture(params=[(Steady, ["start", "check", "check"]), (Mindful, ["start", "check", "stop", "start", "check"])])
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Diary, list[str]]]:
    made, expected = request.param
    Steady.diary = Diary()
    SCHEDULERS.register("diary", SchedulerKind("writes a diary", made=f"{__name__}:{made.__name__}"))
    yield Steady.diary, expected
    SCHEDULERS._choices.pop("diary")


def test_what_two_labs_in_a_row_do_with_it(case: tuple[Diary, list[str]]) -> None:
    diary, expected = case
    nothing = cast(Any, SimpleNamespace(own=()))
    processes = RunningSchedulers(nothing, None)
    for _ in range(2):
        processes.ensure(nothing, choose_scheduler("diary"), settings_of(None))
    assert diary.lines == expected


def test_yunikorn_remembers_applications() -> None:
    assert choose_scheduler("yunikorn").restart_for_each_lab
    assert not choose_scheduler("kube-scheduler").restart_for_each_lab
