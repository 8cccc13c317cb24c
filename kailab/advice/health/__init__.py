"""How a scheduler is doing: its last cycle, what the cluster refuses, whom it evicts, whom it does not serve, how far writes lag."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kailab.advice.health import checks
from kailab.advice.health.report import Evictions, Health, Lag, LastCycle, Loop, Refusal, Served
from kailab.advice.unserved_work import in_other_pools, served_pool, ungrouped, unscheduled
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
"""So long may it take until a decided bind is to be seen."""

_REFUSED = ("BindingError", "FailedBinding")
_WHICH = re.compile(r"^Failed to bind pod \S+ to node \S+\. ")
"""What differs from pod to pod in the text of one refusal."""


def health(lab: Lab, window: float = WINDOW_SECONDS) -> Health:
    """Of the scheduler of a lab. ``window``: evictions of so many seconds are looked at."""
    picture = lab.picture()
    log, tells = picture.log, picture.scheduler.reports_shares
    now = picture.now - lab.opened
    workload = checks.workloads(log.evictions, lambda podgroup: _owner(picture, podgroup))
    url = lab.venue.answers_at(picture.scheduler)
    said = checks.ask(url) if url is not None else None
    lag = _lag(picture) if log.last is not None else None
    found = Health(
        scheduler=picture.scheduler.title,
        cycle=_cycle(log.last, log.cycle, picture.now, said),
        refusals=tuple(Refusal(row.name, _why_refused(lab, row)) for row in picture.rows if _is_refused(row)),
        evictions=checks.told(log.evictions, now, window, workload),
        loops=checks.loops(log.evictions, now, window, workload),
        unserved=_unserved(picture),
        lag=lag,
        metrics=said.metrics if said is not None else {},
    )
    ended = [f"the process {one.name} does not run: {one.why}" for one in lab.venue.processes() if not one.running]
    unconsidered = [*(_unconsidered(picture) if tells else ()), *_of_nobody(lab, picture)]
    problems = [*ended, *(said.troubles if said is not None else ()), *_problems(found), *unconsidered]
    return _with(found, problems, _unknown(found, tells, picture.scheduler.title))


def health_of_process(decided: SchedulerDecisions | None, url: str | None, window: float = WINDOW_SECONDS) -> Health:
    """Of kailab's scheduler as a process, from its decision file, from where it serves its metrics, or both: what only the cluster
    shows is not known."""
    said = checks.ask(url) if url is not None else None
    found = Health(scheduler="kailab", metrics=said.metrics if said is not None else {})
    unknown = [
        "refused binds by pod, node pools and queues that are not served, the lag of writes: these are in the cluster"
    ]
    if decided is not None:
        now = decided.time - decided.opened
        workload = checks.workloads(decided.evictions)
        found = Health(
            scheduler="kailab",
            cycle=_cycle(decided.last, decided.cycle, decided.time, said),
            evictions=checks.told(decided.evictions, now, window, workload),
            loops=checks.loops(decided.evictions, now, window, workload),
            metrics=found.metrics,
        )
    else:
        unknown.append("evictions: give its --decisions file")
    if found.cycle is not None and found.cycle.took is None:
        unknown.append("how long its last cycle took: give the --url of its metrics")
    return _with(found, [*(said.troubles if said is not None else ()), *_problems(found)], unknown)


def _with(found: Health, problems: Iterable[str], unknown: Iterable[str]) -> Health:
    return replace(found, problems=tuple(problems), unknown=tuple(unknown))


def _cycle(last: Decisions | None, number: int, now: float, said: checks.Said | None) -> LastCycle | None:
    if last is None:
        return None
    took = said.metrics.get("last_cycle_milliseconds") if said is not None else None
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
    """At the last try: while it is held back after it, too."""
    return not row.node and (row.reason in _REFUSED or REFUSED in row.message)


def _why_refused(lab: Lab, row: PodRow) -> str:
    if row.reason in _REFUSED:
        return row.message
    namespace, _, name = row.name.partition("/")
    event = latest_event(lab, [lab.cluster.get("Pod", name, namespace)["metadata"]["uid"]], "FailedBinding")
    return row.message if event is None else str(event.get("message", ""))


def _owner(picture: Picture, podgroup: str) -> str:
    """By a pod that is there; the PodGroup's own name where there is none."""
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
    """Pods that wait, and of which the scheduler has said nothing: neither gated ones, nor those of a node pool that is not its."""
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
        return [f"{_that_wait(len(waiting))}, and the scheduler has not been through a cycle"]
    silent = [row.name for row in waiting if not row.reason and group_of(row) not in picture.pending]
    return [f"{_that_wait(len(silent))}, and the scheduler has said nothing of it: {some(silent)}"] if silent else []


def _of_nobody(lab: Lab, picture: Picture) -> list[str]:
    """Pods that can't be grouped, and pods that name a scheduler which is not in the lab: no cycle ever looks at them."""
    if not picture.scheduler.knows_queues:
        return []
    names = lab.under_test.scheduler_names(lab.adopt_default_scheduler)
    told = [
        f"{_that_wait(len(pods))} and can't be grouped, so the scheduler never looks at {'it' if len(pods) == 1 else 'them'} "
        f"({some(pods)}): {why}"
        for why, pods in ungrouped(picture, names).items()
    ]
    return told + [
        f"{_that_wait(len(pods))} for the scheduler {name}, which is not in this lab: {some(pods)}"
        for name, pods in unscheduled(picture).items()
    ]


def _that_wait(pods: int) -> str:
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


def _unknown(found: Health, tells: bool, title: str) -> Iterable[str]:
    if not tells:
        yield f"{title} tells nothing of its cycles: evictions are read off the cluster, node pools and the lag of writes are not known"
    elif found.cycle is None:
        yield "the last cycle: there has been none"
    elif found.cycle.took is None:
        yield "how long the last cycle took: nobody measures it where the scheduler is no process of its own"
