"""The health of a scheduler: its last cycle, refused binds, evictions, work that it does not serve, and late writes.

Loops are evictions in the decision log that alternate between the same work.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from kailab.advice.unserved_work import in_other_pools, served_pool, ungrouped_pods, unscheduled_pods
from kailab.engine.decisions import Decisions
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.evidence.wording import count, some
from kailab.explain.subject import latest_event
from kailab.lab.lab import Lab
from kailab.lab.picture import Picture, group_of
from kailab.model.multimap import multimap
from kailab.model.objects import metadata_of, uid_of
from kailab.scheduler.binding.bind_backoff import REFUSED
from kailab.scheduler.reading.podgroups import node_pool
from kailab.undertest.programs import fetch_url


@dataclass(frozen=True)
class LastCycle:
    """``decided_at``: seconds since the epoch, on the cluster's clock; ``age``: seconds since then. ``took``: its duration in seconds, None
    if it is not measured. ``waiting``: groups that stay pending."""

    number: int
    decided_at: float
    age: float
    bound: int
    evicted: int
    waiting: int
    took: float | None = None


@dataclass(frozen=True)
class BindRefusal:
    """A pod that is pending because the cluster refused its bind."""

    pod: str
    message: str


@dataclass(frozen=True)
class Served:
    """The number of pods that an action evicted for a workload (and its queue). Both are empty for evictions that make room for no work, such
    as those of a stale gang."""

    beneficiary: str
    queue: str
    action: str
    pods: int


@dataclass(frozen=True)
class Evictions:
    """Evictions of the last ``seconds``."""

    seconds: float
    pods: int = 0
    served: tuple[Served, ...] = ()

    @property
    def per_minute(self) -> float:
        return 60 * self.pods / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Loop:
    """Two workloads that are evicted for each other in turn. ``turns``: number of alternating evictions; ``every``: seconds between two of
    them; ``pods``: evicted in all."""

    one: str
    other: str
    turns: int
    every: float
    pods: int


@dataclass(frozen=True)
class Lag:
    """Binds of the last cycle that the cluster does not show after ``seconds``."""

    pods: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Health:
    """``unserved``: kind -> node pool -> number of objects in pools that the scheduler does not serve. ``metrics``: of the process.
    ``problems``: why it is not healthy, as sentences. ``unknown``: facts that are unknown here."""

    scheduler: str
    cycle: LastCycle | None = None
    refusals: tuple[BindRefusal, ...] = ()
    evictions: Evictions = Evictions(0)
    loops: tuple[Loop, ...] = ()
    unserved: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    lag: Lag | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.problems

    def data(self) -> dict[str, Any]:
        """For programs."""
        data = asdict(self)
        data["evictions"]["per_minute"] = self.evictions.per_minute
        return {"healthy": self.healthy, **data}


TURNS = 4
"""Alternating evictions of a loop: A for B, B for A, A for B, B for A. Two may be due to the order in which the work came."""

WorkloadTitle = Callable[[str], str]


def workloads(evictions: Iterable[PodEvicted], otherwise: WorkloadTitle = str) -> WorkloadTitle:
    """A function from a PodGroup (``namespace/name``) to its workload, as ``namespace/Kind/name``, because new pods of a controller have
    PodGroups with new names. ``otherwise`` is used for PodGroups without an evicted pod."""
    owners = {
        entry.podgroup: f"{entry.podgroup.partition('/')[0]}/{entry.owner}"
        for entry in evictions
        if entry.podgroup and entry.owner
    }
    return lambda podgroup: owners.get(podgroup) or otherwise(podgroup)


def summarize_evictions(
    evictions: Sequence[PodEvicted], now: float, seconds: float, workload: WorkloadTitle
) -> Evictions:
    """The evictions of the last ``seconds`` before ``now`` (both in the time of the entries' ``t``), or since the lab began."""
    seconds = min(seconds, now) if now > 0 else seconds
    recent = [entry for entry in evictions if entry.t >= now - seconds]
    served = Counter(
        (workload(entry.beneficiary) if entry.beneficiary else "", entry.beneficiary_queue, entry.action)
        for entry in recent
    )
    most_first = sorted(served.items(), key=lambda entry: (-entry[1], entry[0]))
    return Evictions(seconds, len(recent), tuple(Served(*key, pods) for key, pods in most_first))


def loops(evictions: Sequence[PodEvicted], now: float, seconds: float, workload: WorkloadTitle) -> tuple[Loop, ...]:
    """Pairs of workloads that were evicted for each other in turn, at least ``TURNS`` times, the last time within the last ``seconds``."""
    pairs: dict[tuple[str, str], list[PodEvicted]] = {}
    for entry in evictions:
        if entry.beneficiary:
            gone, served = workload(entry.podgroup), workload(entry.beneficiary)
            # A workload whose new pods evict its old ones is no loop.
            if gone != served:
                pairs.setdefault((min(gone, served), max(gone, served)), []).append(entry)
    result = []
    for (one, other), entries in sorted(pairs.items()):
        turns: list[PodEvicted] = []
        for entry in sorted(entries, key=lambda entry: (entry.t, entry.cycle)):
            # Several pods of one eviction are one turn.
            if not turns or workload(turns[-1].podgroup) != workload(entry.podgroup):
                turns.append(entry)
        if len(turns) >= TURNS and turns[-1].t >= now - seconds:
            every = (turns[-1].t - turns[0].t) / (len(turns) - 1)
            result.append(Loop(one, other, len(turns), round(every, 3), len(entries)))
    return tuple(result)


_COUNTED = {
    "kai_e2e_scheduling_latency_milliseconds": "last_cycle_milliseconds",
    "kailab_cycle_seconds_count": "cycles",
    "kailab_cycle_seconds_sum": "cycle_seconds",
    "kailab_turn_failures_total": "failed_turns",
    "leader_election_master_status": "leads",
}
_REFUSED_DECISIONS = "kailab_decisions_not_carried_out_total"


class ProcessAnswer(NamedTuple):
    """``metrics``: by kailab's names, summed over labels; ``refused_VERB``: decisions that were not carried out. ``troubles``: why the
    process is not healthy."""

    metrics: dict[str, float]
    troubles: tuple[str, ...]


def health_at_url(url: str) -> ProcessAnswer:
    """Ask a scheduler that serves its health and metrics at ``url``."""
    troubles = [
        trouble for path in ("livez", "readyz") if (trouble := fetch_url(f"{url.rstrip('/')}/{path}")[1]) is not None
    ]
    text, trouble = fetch_url(f"{url.rstrip('/')}/metrics")
    if trouble is not None:
        troubles.append(trouble)
    # If nothing answers, all three have the same text.
    return ProcessAnswer(_read(text), tuple(dict.fromkeys(troubles)))


def _read(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    result: dict[str, float] = {}
    for name, labels, value in _samples(text_string_to_metric_families(text)):
        key = _COUNTED.get(name) or (f"refused_{labels.get('decision', '')}" if name == _REFUSED_DECISIONS else "")
        if key:
            result[key] = result.get(key, 0.0) + value
    return result


def _samples(families: Iterable[object]) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in families:
        for sample in family.samples:  # type: ignore[attr-defined]
            yield sample.name, sample.labels, sample.value


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
    workload = workloads(log.evictions, lambda podgroup: _owner(picture, podgroup))
    url = lab.venue.answers_at(picture.scheduler)
    answer = health_at_url(url) if url is not None else None
    lag = _lag(picture) if log.last is not None else None
    report = Health(
        scheduler=picture.scheduler.title,
        cycle=_cycle(log.last, log.cycle, picture.now, answer),
        refusals=tuple(BindRefusal(row.name, _why_refused(lab, row)) for row in picture.rows if _is_refused(row)),
        evictions=summarize_evictions(log.evictions, now, window, workload),
        loops=loops(log.evictions, now, window, workload),
        unserved=_unserved(picture),
        lag=lag,
        metrics=answer.metrics if answer is not None else {},
    )
    ended = [
        f"the process {process.name} does not run: {process.why}"
        for process in lab.venue.processes()
        if not process.running
    ]
    unconsidered = [*(_unconsidered(picture) if reports else ()), *_never_considered(lab, picture)]
    problems = [*ended, *(answer.troubles if answer is not None else ()), *_problems(report), *unconsidered]
    return _with(report, problems, _unknown(report, reports, picture.scheduler.title))


def health_of_process(decided: SchedulerDecisions | None, url: str | None, window: float = WINDOW_SECONDS) -> Health:
    """The health of kailab's scheduler as a process, from its decision file, its metrics, or both. Facts that only the cluster shows are
    unknown."""
    answer = health_at_url(url) if url is not None else None
    report = Health(scheduler="kailab", metrics=answer.metrics if answer is not None else {})
    unknown = [
        "refused binds by pod, node pools and queues that are not served, the lag of writes: these are in the cluster"
    ]
    if decided is not None:
        now = decided.time - decided.opened
        workload = workloads(decided.evictions)
        report = Health(
            scheduler="kailab",
            cycle=_cycle(decided.last, decided.cycle, decided.time, answer),
            evictions=summarize_evictions(decided.evictions, now, window, workload),
            loops=loops(decided.evictions, now, window, workload),
            metrics=report.metrics,
        )
    else:
        unknown.append("evictions: give its --decisions file")
    if report.cycle is not None and report.cycle.took is None:
        unknown.append("how long its last cycle took: give the --url of its metrics")
    return _with(report, [*(answer.troubles if answer is not None else ()), *_problems(report)], unknown)


def _with(report: Health, problems: Iterable[str], unknown: Iterable[str]) -> Health:
    return replace(report, problems=tuple(problems), unknown=tuple(unknown))


def _cycle(last: Decisions | None, number: int, now: float, answer: ProcessAnswer | None) -> LastCycle | None:
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
    """True if the cluster refused the pod's last bind; also while the scheduler waits before the next attempt."""
    return not row.node and (row.reason in _REFUSED or REFUSED in row.message)


def _why_refused(lab: Lab, row: PodRow) -> str:
    if row.reason in _REFUSED:
        return row.message
    namespace, _, name = row.name.partition("/")
    event = latest_event(lab, [uid_of(lab.cluster.get("Pod", name, namespace))], "FailedBinding")
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
    pools_by_kind = {kind: in_other_pools(objects, served) for kind, objects in kinds.items()}
    return {kind: pools for kind, pools in pools_by_kind.items() if pools}


def _lag(picture: Picture) -> Lag | None:
    last = picture.log.last
    assert last is not None
    decided = {bind.task for bind in last.binds}
    if not decided:
        return None
    late = [
        name for name, pod in picture.pods_by_name.items() if uid_of(pod) in decided and not pod["spec"].get("nodeName")
    ]
    return Lag(tuple(sorted(late)), max(0.0, picture.now - last.now)) if late else None


def _unconsidered(picture: Picture) -> list[str]:
    """Problems about pending pods for which the scheduler has given no reason. Gated pods and pods of other node pools do not count."""
    gated = {name for name, pod in picture.pods_by_name.items() if pod["spec"].get("schedulingGates")}
    served = served_pool(picture.scheduler)
    unserved = {
        f"{namespace}/{name}"
        for (namespace, name), group in picture.podgroups.items()
        if served is not None and node_pool(metadata_of(group)) != served
    }
    waiting = [
        row
        for row in picture.rows
        if row.phase == "Pending"
        and not row.node
        and row.podgroup
        and row.name not in gated
        and group_of(row) not in unserved
    ]
    if picture.log.last is None and waiting:
        return [f"{_waiting_pods(len(waiting))}, and the scheduler has not run a cycle"]
    unexplained = [row.name for row in waiting if not row.reason and group_of(row) not in picture.pending]
    if not unexplained:
        return []
    return [f"{_waiting_pods(len(unexplained))}, and the scheduler has given no reason: {some(unexplained)}"]


def _never_considered(lab: Lab, picture: Picture) -> list[str]:
    """Problems about pods that no cycle considers: pods that can't be grouped, and pods of schedulers that are not in the lab."""
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


def _problems(report: Health) -> Iterable[str]:
    texts = multimap((_WHICH.sub("", refusal.message), refusal.pod) for refusal in report.refusals)
    for text, pods in texts.items():
        yield f"the cluster refuses to bind {count(len(pods), 'pod')} ({some(pods)}): {text}"
    for loop in report.loops:
        yield (
            f"{loop.one} and {loop.other} are evicted for each other: {loop.turns} times to and fro, every {loop.every:g} s, "
            f"{count(loop.pods, 'pod')}"
        )
    for kind, pools in report.unserved.items():
        each = [f"{pool} ({number})" for pool, number in pools.items()]
        yield f"nobody serves the node pool of these {kind}s: {some(each)}"
    if report.lag is not None and report.lag.seconds > LAG_SECONDS:
        yield (
            f"{count(len(report.lag.pods), 'decided bind')} can't be seen in the cluster after {report.lag.seconds:.3g} s: "
            f"{some(report.lag.pods)}"
        )


def _unknown(report: Health, reports: bool, title: str) -> Iterable[str]:
    if not reports:
        yield f"{title} does not report its cycles: evictions are read from the cluster, node pools and the lag of writes are unknown"
    elif report.cycle is None:
        yield "the last cycle: none has run yet"
    elif report.cycle.took is None:
        yield "how long the last cycle took: it is measured only for a scheduler in its own process"
