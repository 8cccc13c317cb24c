"""The goal of a search for victims, and the units in which victims go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import Job, WTask


class VictimBatch(NamedTuple):
    """Tasks of one job that go together."""

    job: Job
    tasks: list[WTask]


class SearchGoal(NamedTuple):
    """The job for which room is sought, the tasks of it that are tried, and the nodes where it may go without victims."""

    job: Job
    tasks: list[WTask]
    nodes: np.ndarray

    def nodes_after(self, table: NodeTable, victims: Iterable[WTask]) -> np.ndarray:
        """The nodes where the job may go once these victims have left, including their nodes."""
        nodes = self.nodes.copy()
        for task in victims:
            i = table.index.get(task.node)
            if i is not None:
                nodes[i] = True
        return nodes
