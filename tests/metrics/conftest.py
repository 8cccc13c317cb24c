"""Runs of labs, recorded, whose metrics are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kailab.evidence.history import LabHistory
from kailab.evidence.metrics.families import SeriesCollector, collect_series
from kailab.evidence.metrics.over_time import snapshots_over_time
from kailab.evidence.recorder import Recorder
from kailab.lab import Lab
from kailab.model.objects import Object
from tests import builders

RUN_SECONDS = "kailab.dev/run-seconds"


def queue(name: str, quota: int, parent: str = "", limit: int = -1, **spec: Any) -> Object:
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}}
    resources |= {other: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for other in ("cpu", "memory")}
    own = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources, **own, **spec},
    }


def job(
    name: str,
    queue: str,
    pods: int,
    gpus: int = 1,
    *,
    gang: bool = False,
    runs: float | None = None,
    priority: str = "train",
) -> Object:
    """``runs``: seconds that each pod runs for."""
    annotations = None if runs is None else {RUN_SECONDS: f"{runs:g}"}
    return builders.job(name, queue, pods, gpus, gang, labels={"priorityClassName": priority}, annotations=annotations)


@contextmanager
def recorded(**how: Any) -> Iterator[tuple[Lab, Recorder]]:
    recorder = Recorder()
    with Lab.open(observers=[recorder], **how) as lab:
        yield lab, recorder


def history_of(do: Callable[[Lab], object], **how: Any) -> LabHistory:
    with recorded(**how) as (lab, recorder):
        do(lab)
        lab.settle()
    return LabHistory.of_recording(recorder.recording)


def series_of(do: Callable[[Lab], object], **how: Any) -> SeriesCollector:
    return collect_series(snapshots_over_time(history_of(do, **how)))


def value(series: SeriesCollector, name: str, t: float, **labels: str) -> float | None:
    """Of the one series of that name with (among others) these labels."""
    (one,) = [each for each in series.every() if each.name == name and labels.items() <= each.labels.items()]
    return one.at(t)


TREE = (queue("org", 32), queue("team-a", 16, "org"), queue("team-b", 16, "org", displayName="Team B"))


@pytest.fixture(scope="session")
def fair() -> LabHistory:
    """team-a borrows team-b's quota for ten minutes, then gives it back to a gang of team-b, which runs for ten minutes."""

    def do(lab: Lab) -> None:
        lab.apply(*TREE, *(job(f"a-{number}", "team-a", 1) for number in range(32)))
        lab.settle()
        lab.advance(600 - (lab.now - lab.opened))
        lab.apply(job("gang", "team-b", 16, gang=True, runs=600))
        lab.settle()
        lab.advance(1800 - (lab.now - lab.opened))

    return history_of(do)
