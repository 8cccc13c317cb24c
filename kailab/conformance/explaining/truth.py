"""Whether a workload runs once all other work has gone, now or within a day: the truth that ``never`` and ``later`` are held
against."""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.conformance.explaining.situation import Situation
from kailab.conformance.explaining.subject import Work, others
from kailab.errors import InputError
from kailab.lab.lab import Lab

DAY = 86_400.0


def runs_alone(situation: Situation, work: Work) -> bool:
    """In a lab of its own from which all other work was taken."""
    with situation.opened() as lab:
        for one in others(situation, lab, work):
            lab.delete(one.kind, one.name, one.namespace)
        for pod in _left(lab, work):
            try:
                lab.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            except InputError:  # it went with an owner
                continue
        lab.settle()
        return runs_within(lab, work, DAY)


def runs_in_time(situation: Situation, work: Work) -> bool:
    """In a lab of its own, with all others, within a day."""
    with situation.opened() as lab:
        return runs_within(lab, work, DAY)


def runs_within(lab: Lab, work: Work, seconds: float) -> bool:
    """Whether it runs as a whole at any moment from now on."""
    return work.runs(lab) or any(work.runs(lab) for _ in lab.moments(seconds))


def _left(lab: Lab, work: Work) -> list[Object]:
    own = {pod["metadata"]["uid"] for pod in work.pods(lab)}
    return [pod for pod in lab.cluster.list("Pod", work.namespace) if pod["metadata"]["uid"] not in own]
