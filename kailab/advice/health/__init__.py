"""The health of a scheduler: its last cycle, refused binds, evictions, work that it does not serve, and late writes.

``checks`` finds loops of evictions and asks the scheduler's process, ``report`` has the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kailab.advice.health import checks
from kailab.advice.health.report import Evictions, Health, Lag, LastCycle, Loop, Refusal, Served
from kailab.advice.unserved_work import in_other_pools, served_pool, ungrouped_pods, unscheduled_pods
from kailab.engine.decisions import Decisions
from kailab.explain.evictions import latest_event
from kailab.lab.picture import group_of
from kailab.lab.wording import count, some
from kailab.scheduler.binding.bind_backoff import REFUSED
from kailab.scheduler.reading.podgroups import node_pool

if TYPE_CHECKING:
    from kailab.evidence.decision_file import SchedulerDecisions
    from kailab.evidence.entries import PodRow
    from kailab.lab.lab import Lab
    from kailab.lab.picture import Picture

__all__ = ["Evictions", "Health", "Lag", "LastCycle", "Loop", "Refusal", "Served", "health", "health_of_process"]

WINDOW_SECONDS = 600.0
LAG_SECONDS = 10.0
"""A decided bind that the cluster does not show after this time is a problem."""

_REFUSED = ("BindingError", "FailedBinding")
_WHICH = re.compile(r"^Failed to bind pod \S+ to node \S+\. ")
"""The part of a refusal that differs from pod to pod."""


def health(lab: Lab, window: float = WINDOW_SECONDS) -> Health:
    """The health of the scheduler of a lab. ``window``: seconds in which evictions count."""
    picture = lab.picture()
    log, reports = picture.log, picture.scheduler.reports_shares
    now = picture.now - lab.opened
    workload = checks.workloads(log.evictions, lambda podgroup: _owner(picture, podgroup))
    url = lab.venue.answers_at(picture.scheduler)
    answer = checks.ask(url) if url is not None else None
    lag = _lag(picture) if log.last is not None else None
    found = Health(
        scheduler=picture.scheduler.title,
        cycle=_cycle(log.last, log.cycle, picture.now, answer),
        refusals=tuple(Refusal(row.name, _why_refused(lab, row)) for row in picture.rows if _is_refused(row)),
        evictions=checks.summarize_evictions(log.evictions, now, window, workload),
        loops=checks.loops(log.evictions, now, window, workload),
        unserved=_unserved(picture),
        lag=lag,
        metrics=answer.metrics if answer is not None else {},
    )
    ended = [f"the process {one.name} does not run: {one.why}" for one in lab.venue.processes() if not one.running]
    unconsidered = [*(_unconsidered(picture) if reports else ()), *_never_considered(lab, picture)]
    problems = [*ended, *(answer.troubles if answer is not None else ()), *_problems(found), *unconsidered]
    return _with(found, problems, _unknown(found, reports, picture.scheduler.title))


def health_of_process(decided: SchedulerDecisions | None, url: str | None, window: float = WINDOW_SECONDS) -> Health:
    """The health of kailab's scheduler as a process, from its decision file, its metrics, or both. Facts that only the cluster shows are
    unknown."""
    answer = checks.ask(url) if url is not None else None
    found = Health(scheduler="kailab", metrics=answer.metrics if answer is not None else {})
    unknown = [
        "refused binds by pod, node pools and queues that are not served, the lag of writes: these are in the cluster"
    ]
    if decided is not None:
        now = decided.time - decided.opened
        workload = checks.workloads(decided.evictions)
        found = Health(
            scheduler="kailab",
            cycle=_cycle(decided.last, decided.cycle, decided.time, answer),
            evictions=checks.summarize_evictions(decided.evictions, now, window, workload),
            loops=checks.loops(decided.evictions, now, window, workload),
            metrics=found.metrics,
        )
    else:
        unknown.append("evictions: give its --decisions file")
    if found.cycle is not None and found.cycle.took is None:
        unknown.append("how long its last cycle took: give the --url of its metrics")
    return _with(found, [*(answer.troubles if answer is not None else ()), *_problems(found)], unknown)


def _with(found: Health, problems: Iterable[str], unknown: Iterable[str]) -> Health:
    return replace(found, problems=tuple(problems), unknown=tuple(unknown))


def _cycle(last: Decisions | None, number: int, now: float, answer: checks.ProcessAnswer | None) -> LastCycle | None:
    if last is None:
        return None
    took = answer.metrics.get("last_cycle_milliseconds") if answer is not None else None
    return LastCycle(
        number=number,
        decided_at=last.now,
        age=max(0.0, now - last.now),
        bound=len(last.binds),
        evicted=len(last.evictions),
        waiting=len(last.pending),
        took=None if took is None else took / 1000,
    )


def _is_refused(row: PodRow) -> bool:
    """At the last attempt; also while the pod is held back after it."""
    return not row.node and (row.reason in _REFUSED or REFUSED in row.message)


def _why_refused(lab: Lab, row: PodRow) -> str:
    if row.reason in _REFUSED:
        return row.message
    namespace, _, name = row.name.partition("/")
    event = latest_event(lab, [lab.cluster.get("Pod", name, namespace)["metadata"]["uid"]], "FailedBinding")
    return row.message if event is None else str(event.get("message", ""))


def _owner(picture: Picture, podgroup: str) -> str:
    """The owner of a PodGroup by its pods; without pods the PodGroup itself."""
    rows = picture.by_group.get(podgroup)
    return f"{podgroup.partition('/')[0]}/{rows[0].owner}" if rows and rows[0].owner else podgroup


def _unserved(picture: Picture) -> dict[str, dict[str, int]]:
    served = served_pool(picture.scheduler)
    if served is None:
        return {}
    kinds = {
        "Node": picture.nodes.values(),
        "Queue": picture.cluster.list("Queue"),
        "PodGroup": picture.podgroups.values(),
    }
    found = {kind: in_other_pools(objects, served) for kind, objects in kinds.items()}
    return {kind: pools for kind, pools in found.items() if pools}


def _lag(picture: Picture) -> Lag | None:
    last = picture.log.last
    assert last is not None
    decided = {bind.task for bind in last.binds}
    if not decided:
        return None
    late = [
        name
        for name, pod in picture.pods_by_name.items()
        if pod["metadata"].get("uid") in decided and not pod["spec"].get("nodeName")
    ]
    return Lag(tuple(sorted(late)), max(0.0, picture.now - last.now)) if late else None


def _unconsidered(picture: Picture) -> list[str]:
    """Pending pods of which the scheduler has said nothing. Gated pods and pods of other node pools do not count."""
    gated = {name for name, pod in picture.pods_by_name.items() if pod["spec"].get("schedulingGates")}
    served = served_pool(picture.scheduler)
    theirs = {
        f"{namespace}/{name}"
        for (namespace, name), group in picture.podgroups.items()
        if served is not None and node_pool(group["metadata"]) != served
    }
    waiting = [
        row
        for row in picture.rows
        if row.phase == "Pending"
        and not row.node
        and row.podgroup
        and row.name not in gated
        and group_of(row) not in theirs
    ]
    if picture.log.last is None and waiting:
        return [f"{_waiting_pods(len(waiting))}, and the scheduler has not run a cycle"]
    silent = [row.name for row in waiting if not row.reason and group_of(row) not in picture.pending]
    return [f"{_waiting_pods(len(silent))}, and the scheduler has given no reason: {some(silent)}"] if silent else []


def _never_considered(lab: Lab, picture: Picture) -> list[str]:
    """Pods that can't be grouped, and pods of schedulers that are not in the lab: no cycle looks at them."""
    if not picture.scheduler.knows_queues:
        return []
    names = lab.under_test.scheduler_names(lab.adopt_default_scheduler)
    problems = [
        f"{_waiting_pods(len(pods))} and can't be grouped, so the scheduler never looks at {'it' if len(pods) == 1 else 'them'} "
        f"({some(pods)}): {why}"
        for why, pods in ungrouped_pods(picture, names).items()
    ]
    return problems + [
        f"{_waiting_pods(len(pods))} for the scheduler {name}, which is not in this lab: {some(pods)}"
        for name, pods in unscheduled_pods(picture).items()
    ]


def _waiting_pods(pods: int) -> str:
    return f"{count(pods, 'pod')} {'waits' if pods == 1 else 'wait'}"


def _problems(found: Health) -> Iterable[str]:
    texts: dict[str, list[str]] = {}
    for one in found.refusals:
        texts.setdefault(_WHICH.sub("", one.message), []).append(one.pod)
    for text, pods in texts.items():
        yield f"the cluster refuses to bind {count(len(pods), 'pod')} ({some(pods)}): {text}"
    for loop in found.loops:
        yield (
            f"{loop.one} and {loop.other} are evicted for each other: {loop.turns} times to and fro, every {loop.every:g} s, "
            f"{count(loop.pods, 'pod')}"
        )
    for kind, pools in found.unserved.items():
        each = [f"{pool} ({number})" for pool, number in pools.items()]
        yield f"nobody serves the node pool of these {kind}s: {some(each)}"
    if found.lag is not None and found.lag.seconds > LAG_SECONDS:
        yield (
            f"{count(len(found.lag.pods), 'decided bind')} can't be seen in the cluster after {found.lag.seconds:.3g} s: "
            f"{some(found.lag.pods)}"
        )


def _unknown(found: Health, reports: bool, title: str) -> Iterable[str]:
    if not reports:
        yield f"{title} does not report its cycles: evictions are read from the cluster, node pools and the lag of writes are unknown"
    elif found.cycle is None:
        yield "the last cycle: none has run yet"
    elif found.cycle.took is None:
        yield "how long the last cycle took: it is measured only for a scheduler in its own process"
