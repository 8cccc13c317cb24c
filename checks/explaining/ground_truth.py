"""Whether a workload runs once all other work has gone, now or within a day: the truth that ``never`` and ``later`` are held
against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from checks.explaining.situation import Situation
from checks.explaining.workloads import AppliedWorkload, other_workloads, waiting_workloads
from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.lab.fork import fork
from kailab.lab.lab import Lab

DAY = 86_400.0
STILL = 7_200.0
"""Seconds without a change after which none comes any more: every run time, delay and protection of a situation is shorter. Where binds
are refused they are tried again all day."""


@dataclass(frozen=True)
class GroundTruth:
    """Of the workloads of a situation. ``lab``: the situation, carried out; it is only looked at."""

    situation: Situation
    lab: Lab

    def alone(self, work: AppliedWorkload) -> bool:
        """Whether it runs in a fork from which all other work was taken."""
        return runs_alone(self.situation, self.lab, work)

    def in_time(self, work: AppliedWorkload) -> bool:
        """Whether it runs in a fork, with all others."""
        return work in self._served

    @cached_property
    def _served(self) -> frozenset[AppliedWorkload]:
        """All that wait and run at any moment within a day: one day serves every question."""
        left = set(waiting_workloads(self.situation, self.lab))
        served: set[AppliedWorkload] = set()
        with fork(self.lab) as lab:
            for _ in _within_a_day(lab):
                served |= {work for work in left - served if work.runs(lab)}
                if served == left:
                    break
        return frozenset(served)


def runs_alone(situation: Situation, lab: Lab, work: AppliedWorkload) -> bool:
    """Whether a workload runs, within a day, in a fork of ``lab`` from which all other work of the situation was taken."""
    with fork(lab) as trial:
        for one in other_workloads(situation, trial, work):
            trial.delete(one.kind, one.name, one.namespace)
        for pod in _left(trial, work):
            try:
                trial.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            except InputError:  # it went with an owner
                continue
        trial.settle()
        return any(work.runs(trial) for _ in _within_a_day(trial))


def _within_a_day(lab: Lab) -> Iterator[None]:
    """Now, and each moment at which something may have changed, as long as something does."""
    yield
    changed, stood = lab.now, _standing(lab)
    for _ in lab.moments(DAY):
        yield
        if (stands := _standing(lab)) != stood:
            changed, stood = lab.now, stands
        elif lab.now - changed > STILL:
            return


def _standing(lab: Lab) -> list[tuple[str, str, str]]:
    return [
        (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase", ""))
        for pod in lab.cluster.list("Pod")
    ]


def _left(lab: Lab, work: AppliedWorkload) -> list[Object]:
    own = {pod["metadata"]["uid"] for pod in work.pods(lab)}
    return [pod for pod in lab.cluster.list("Pod", work.namespace) if pod["metadata"]["uid"] not in own]
