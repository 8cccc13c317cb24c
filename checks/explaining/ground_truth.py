"""Whether a workload runs once all other workloads are gone, or within a day: what the verdicts ``never`` and ``later``
are compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from checks.explaining.situation import Situation
from checks.explaining.workloads import AppliedWorkload, other_workloads, unready_nodes, waiting_workloads
from kailab.cluster.protocol import Object
from kailab.errors import InputError, NotFound
from kailab.lab.lab import Lab

DAY = 86_400.0
STILL = 7_200.0
"""Seconds without a change after which nothing changes any more: every run time, delay and protection of a situation is
shorter. Refused binds are retried all day.
"""


@dataclass(frozen=True)
class GroundTruth:
    """The truth about the workloads of a situation. ``lab``: the lab after all steps, which is only read."""

    situation: Situation
    lab: Lab

    def runs_alone_in_fork(self, work: AppliedWorkload) -> bool:
        """True if it runs in a fork without any other workload."""
        return runs_alone(self.situation, self.lab, work)

    def runs_within_a_day(self, work: AppliedWorkload) -> bool:
        """True if it runs in a fork with all other workloads."""
        return work in self._served

    @cached_property
    def _served(self) -> frozenset[AppliedWorkload]:
        """All waiting workloads that run at any moment within a day, computed once."""
        left = set(waiting_workloads(self.situation, self.lab))
        served: set[AppliedWorkload] = set()
        with self.lab.fork() as lab:
            for _ in _within_a_day(lab):
                served |= {work for work in left - served if work.runs(lab)}
                if served == left:
                    break
        return frozenset(served)


def runs_alone(situation: Situation, lab: Lab, work: AppliedWorkload) -> bool:
    """True if a workload runs, within a day or once its own pods have ended, in a fork of ``lab`` without the situation's other workloads."""
    with without_others(situation, lab, work) as trial:
        with trial.fork() as ending:
            if _runs_as_its_pods_end(ending, work):
                return True
        return any(work.runs(trial) for _ in _within_a_day(trial)) or _runs_as_its_pods_end(trial, work)


def _runs_as_its_pods_end(lab: Lab, work: AppliedWorkload) -> bool:
    """True if it runs once its pods have ended, those that have a place first. Pods that are started again do not end, nor do those on
    nodes that are not ready.
    """
    unready = unready_nodes(lab)
    while True:
        ending = [
            pod
            for pod in work.pods(lab)
            if pod["spec"].get("restartPolicy", "Always") != "Always"
            and pod.get("status", {}).get("phase") == "Running"
            and pod["spec"].get("nodeName") not in unready
        ]
        if not ending:
            return False
        for pod in ending:
            metadata = pod["metadata"]
            lab.patch("Pod", metadata["name"], {"status": {"phase": "Succeeded"}}, metadata["namespace"], "status")
        lab.settle()
        if work.runs(lab):
            return True


@contextmanager
def without_others(situation: Situation, lab: Lab, work: AppliedWorkload) -> Iterator[Lab]:
    """A settled fork of ``lab`` without the situation's other workloads."""
    with lab.fork() as trial:
        for other in other_workloads(situation, trial, work):
            trial.delete(other.kind, other.name, other.namespace)
        for schedule in trial.cluster.list("CronJob", work.namespace):
            trial.delete(
                "CronJob", schedule["metadata"]["name"], work.namespace
            )  # the work of its next Jobs is other work
        for pod in _remaining_pods(trial, work):
            try:
                trial.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            except InputError:  # deleted with its owner
                continue
        trial.settle()
        for pod in _remaining_pods(trial, work):  # on a node that is not ready, where no pod ends
            # A pod may have gone with the one before it, as those of a group do.
            with suppress(NotFound):
                trial.cluster.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], grace_seconds=0)
        trial.settle_if_changed()
        yield trial


def _within_a_day(lab: Lab) -> Iterator[None]:
    """Yields now, and at each moment at which something may have changed, until nothing changes any more."""
    yield
    changed, before = lab.now, _pod_states(lab)
    for _ in lab.moments(DAY):
        yield
        if (states := _pod_states(lab)) != before:
            changed, before = lab.now, states
        elif lab.now - changed > STILL:
            return


def _pod_states(lab: Lab) -> list[tuple[str, str, str]]:
    return [
        (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase", ""))
        for pod in lab.cluster.list("Pod")
    ]


def _remaining_pods(lab: Lab, work: AppliedWorkload) -> list[Object]:
    own = {pod["metadata"]["uid"] for pod in (*work.pods(lab), *work.leaving_pods(lab))}
    return [pod for pod in lab.cluster.list("Pod", work.namespace) if pod["metadata"]["uid"] not in own]
