"""When waiting work would run if nobody changes anything: the lab runs forward on a fork, with its controllers and its scheduler.

Work ends when the lab knows an end for it: after its run time (``kailab.dev/run-seconds``) or at the deadline of its pods or workload (``activeDeadlineSeconds``).
All other work runs on. Schedules, minimum runtimes and delays count as they do in the lab.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.explain.step_budget import StepBudget, StepsStopped
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.answer import Forecast
from kailab.lab.lab import Lab
from kailab.lab.owners import owners_of
from kailab.model.labels import RUN_SECONDS
from kailab.model.objects import annotations_of, controller_name, namespace_of, spec_of
from kailab.model.times import DAY

BOUND = DAY
"""Seconds of lab time that a forecast is about."""
HORIZON = 25 * 3600.0
"""Seconds that are looked ahead: a little more than a day, for daily schedules."""
SHARE = 0.25
"""The part of the time for steps that a forecast may use."""
MOST_MOMENTS = 600
"""Moments of change that are looked at without a time limit, in a small lab. A binding that is refused for ever makes thousands in a day."""
LEAST_MOMENTS = 30
"""The same in a large one."""
AFFORDABLE_PODS = 120_000
"""The product of moments and pods is kept below this."""


def forecast(state: PodsAtMoment, budget: StepBudget) -> Forecast | None:
    """When the subject runs. None if there was no time to look, or the lab refuses to run forward. ``budget``: of the steps, of which a
    part may be used. Raises KeyboardInterrupt where the caller wants it."""
    basis = (*_known_ends(state), _schedules(state), state.subject.kind == "Queue")
    if not is_anything_due(state):
        return Forecast(None, BOUND, BOUND, *basis)
    part = budget.part(SHARE)
    with closing(state.lab.fork()) as copy, part.ends_cycles():
        start = copy.now
        try:
            budget.report("running a copy of the lab forward")
            copy.settle_if_changed(part.check)
            most = None
            if budget.timeout is None:
                most = max(LEAST_MOMENTS, min(MOST_MOMENTS, AFFORDABLE_PODS // max(1, len(state.picture.pods))))
            seconds = runs_within(copy, state.subject, start + HORIZON - copy.now, part.check, most)
            if seconds is not None:
                waited = math.ceil(copy.now - start)
                return Forecast(waited, BOUND, BOUND, *basis)
        except StepsStopped:
            pass
        except KailabError:
            return None
        looked = min(BOUND, copy.now - start)
    return Forecast(None, looked, BOUND, *basis) if looked > 0 else None


def binding_moments(
    lab: Lab, seconds: float, check: Callable[[], None] = lambda: None, most: int | None = None
) -> Iterator[None]:
    """Let time pass; yield at the moments after pods were bound, or at all moments if the scheduler does not report decisions. ``check``:
    called at all moments. ``most``: of all moments."""
    seen = lab.log.cycle
    for _ in islice(lab.moments(seconds), most):
        check()
        last = lab.log.last
        if last is None or (lab.log.cycle != seen and last.binds):
            yield
        seen = lab.log.cycle


def is_anything_due(state: PodsAtMoment) -> bool:
    """Whether time alone changes something: a timer of the cluster is set, or the next cycle would decide differently later."""
    cluster = state.lab.cluster
    if not isinstance(cluster, EmbeddedCluster) or cluster.next_timer() is not None:
        return True
    groups = {(row.name.partition("/")[0], row.podgroup) for row in state.pods}
    uids = [group["metadata"]["uid"] for name, group in sorted(state.picture.podgroups.items()) if name in groups]
    return state.relaxed_cycles.about(*(uid for uid in uids if uid in state.records))().decisions.wake_at is not None


def _known_ends(state: PodsAtMoment) -> tuple[int, int]:
    """How many pods that hold something end at a known time, and how many such pods there are in all."""
    pods = state.picture.pods_by_name
    running = [pods[row.name] for row in state.picture.rows if row.node and row.phase in ("Running", "Pending")]
    return number_of_known_ends(state.lab, running), len(running)


def number_of_known_ends(lab: Lab, pods: Iterable[Object]) -> int:
    """How many of these pods end at a known time."""
    known = 0
    deadlines: dict[tuple[str, str], bool] = {}
    for pod in pods:
        owner = (namespace_of(pod), controller_name(pod))
        if owner not in deadlines:
            deadlines[owner] = bool(owner[1]) and any(map(_has_deadline, owners_of(lab.cluster, pod)))
        known += RUN_SECONDS in annotations_of(pod) or _has_deadline(pod) or deadlines[owner]
    return known


def _schedules(state: PodsAtMoment) -> int:
    """The number of CronJobs that make Jobs."""
    return sum(not spec_of(cron_job).get("suspend") for cron_job in state.lab.cluster.list("CronJob"))


def _has_deadline(obj: Object) -> bool:
    spec = spec_of(obj)
    return any(part.get("activeDeadlineSeconds") is not None for part in (spec, spec.get("runPolicy") or {}))


def runs_within(
    lab: Lab,
    subject: SubjectRef,
    seconds: float,
    check: Callable[[], None] = lambda: None,
    most: int | None = None,
) -> float | None:
    """Let time pass in a settled lab until a subject runs. Returns how long that took; None if it does not run within ``seconds``, or within
    ``most`` moments. ``check``: see ``binding_moments``."""
    start = lab.now
    if subject.runs(lab):
        return 0.0
    for _ in binding_moments(lab, seconds, check, most):
        if subject.runs(lab):
            return lab.now - start
    return None
