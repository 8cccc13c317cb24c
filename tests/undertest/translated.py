"""What a scheduler under test makes of manifests of the exercises."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from kailab.cluster.protocol import Object
from kailab.lab import Lab
from kailab.model.manifests import load
from kailab.undertest.contract import SchedulerUnderTest

EXERCISES = Path(__file__).parents[2] / "exercises"


def each(scheduler: SchedulerUnderTest, lab: Lab, *paths: str) -> list[list[Object]]:
    """What each object becomes."""
    objects = load([EXERCISES / path for path in paths]).objects
    return [list(became) for became in scheduler.translate(objects, lab.cluster)]


def said(scheduler: SchedulerUnderTest, lab: Lab, *paths: str) -> list[Object]:
    """All that they become, in order."""
    return list(chain.from_iterable(each(scheduler, lab, *paths)))
