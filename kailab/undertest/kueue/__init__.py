"""Kueue as a scheduler under test: Kueue admits work by quota, and kube-scheduler places the admitted pods.

``translation`` writes queues and work as Kueue's objects, ``processes`` runs Kueue and detects when it is idle, ``messages`` has its names
and reads its conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.kinds import kind_key
from kailab.model.objects import Object
from kailab.undertest.contract import EvictionCondition, EvictionFinder, Plane, SchedulerUnderTest
from kailab.undertest.kueue import messages
from kailab.undertest.kueue.messages import CLUSTER_QUEUE, COHORT, WORKLOAD

if TYPE_CHECKING:
    from kailab.components import ComponentSet
    from kailab.undertest.kueue.processes import KueueProcesses


@dataclass(frozen=True)
class Kueue(SchedulerUnderTest):
    """Admits work by quota; kube-scheduler places the admitted pods. Waiting Jobs have no pods, waiting pods are gated."""

    title = "Kueue"
    scheduler_name = labels.DEFAULT_SCHEDULER_NAME
    waits_without_pods = True
    # For a hundred pods it creates and admits a hundred Workloads one by one, long before it changes a pod.
    writes = (WORKLOAD,)
    # Before it knows the Cohort, work can't borrow, and a Job with partial admission would be admitted too small.
    prerequisite_kinds = (COHORT, CLUSTER_QUEUE)

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        from kailab.undertest.kueue.translation import WorkTranslation, translate_tree
        from kailab.undertest.translation import AppliedQueues

        queues = AppliedQueues(objects, there)
        work = WorkTranslation(objects, there, queues, self.title)
        last = max((number for number, obj in enumerate(objects) if kind_key(obj) == "Queue"), default=-1)
        result: list[Sequence[Object]] = []
        for number, obj in enumerate(objects):
            # The translation of a queue depends on its parents and children, so the whole tree is translated again.
            tree = translate_tree(queues, there, self.title) if number == last else []
            result.append([*work.translate_object(number, obj), *tree])
        return result

    def await_prerequisites(self, there: Cluster) -> None:
        from kailab.undertest.kueue.processes import await_queues

        await_queues(there)

    def beside(self, plane: Plane, programs: ComponentSet | None = None) -> KueueProcesses:
        from kailab.undertest.kueue.processes import KueueProcesses

        return KueueProcesses(plane)

    def check_options(self) -> None:
        """Raises MissingComponents if it is not installed."""
        from kailab.components import find_addon

        find_addon("kueue")

    def stopped(self, there: Cluster) -> EvictionFinder:
        return partial(messages.find_evictions, there=there)

    def eviction(self, message: str) -> EvictionCondition | None:
        return messages.parse_eviction(message)

    def code(self, message: str) -> str:
        return messages.parse_code(message)
