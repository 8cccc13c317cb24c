"""What a search for victims is after, and the units in which victims go."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kailab.engine.working.state import Job, WTask


class Batch(NamedTuple):
    """Tasks of one job that go together."""

    job: Job
    tasks: list[WTask]


class Goal(NamedTuple):
    """What room is sought for: a job, the tasks of it that are tried, and where it may go without victims."""

    job: Job
    tasks: list[WTask]
    nodes: np.ndarray
