"""Whether work runs, will run, or never will: found by taking all other work away and letting a day pass, in the engine."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import decide, repeat_cycle
from kailab.engine.decisions import Decisions
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import OthersGone, Relaxation
from kailab.engine.snapshot.records import Status
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import KailabError
from kailab.explain.answer import Cause, CauseCode, Verdict
from kailab.explain.cause_groups import causes_now
from kailab.explain.cause_kinds import CAUSE_KINDS, Duration
from kailab.explain.subject import PodsAtMoment, workload_podgroups
from kailab.lab.fork import fork
from kailab.lab.lab import Lab
from kailab.lab.owners import owners_of, top_of
from kailab.model.kinds import kind_key
from kailab.model.objects import condition_of
from kailab.model.times import parse_time

DAY = 86_400.0
MOST_CYCLES = 50
"""Of one trial, at most: a queue may be tried one job at a time."""


def runs_alone(left: RelaxedCycles, now: float, tasks: Set[str]) -> bool:
    """Whether all of these tasks get a place from ``now`` on, cycle by cycle. ``left``: of the cluster from which the others are gone."""
    # Promises and refused binds are of a cluster in which the others are.
    config = structs.replace(left.config, promised=(), refused=frozenset())
    snapshot, waiting = left.snapshot, set(tasks)
    for _ in range(MOST_CYCLES):
        config, decisions = repeat_cycle(partial(_decide_at, snapshot, now), config)
        config = structs.replace(config, promised=decisions.heirs)
        placed = {bind.task: bind for bind in decisions.binds}
        waiting -= placed.keys()
        if not waiting or not placed:
            return not waiting
        # Who was placed runs now, and the next cycle goes on from there.
        snapshot = structs.replace(
            snapshot,
            tasks=tuple(
                structs.replace(task, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups)
                if (bind := placed.get(task.uid))
                else task
                for task in snapshot.tasks
            ),
        )
    return False


def _decide_at(snapshot: Snapshot, now: float, config: EngineConfig) -> Decisions:
    return decide(snapshot, config, now)


def verdict_of(state: PodsAtMoment, first: Cause | None) -> Verdict | None:
    """``first``: the first cause of what waits. None where somebody else decides."""
    if state.runs:
        return Verdict.RUNNING
    # Before all that would call it running or waiting: that it was whole once says more.
    if is_short_since_eviction(state):
        return Verdict.GONE
    # Fewer than it wants, but nobody waits: whoever makes its pods has not made more.
    if state.running and not state.waiting:
        return Verdict.RUNNING
    code = None if first is None else first.code
    if first is not None and code == CauseCode.OTHER_SCHEDULER and first.facts["nobody"]:
        return Verdict.NEVER
    match Duration.ENGINE if code is None else CAUSE_KINDS[code].duration:
        case Duration.PERMANENT:
            return Verdict.NEVER
        case Duration.RETRIED:
            return Verdict.LATER
        case Duration.UNKNOWN:
            return None
    if not state.waiting or code == CauseCode.PODS_NOT_CREATED:
        # The controller goes on trying to make the pods, and each of them is refused.
        return Verdict.NEVER if code == CauseCode.PRIORITY_CLASS_MISSING else _without_pods(state)
    return Verdict.LATER if could_run(state) else Verdict.NEVER


def is_short_since_eviction(state: PodsAtMoment) -> bool:
    """Whether pods of it were evicted, and fewer have come to run since."""
    if not state.evictions or state.runs:
        return False
    last = state.evictions[-1].t
    lost = sum(entry.t >= last for entry in state.evictions)
    at = last + state.lab.opened
    return sum(_placed_at(state, row.name) > at for row in state.placed) < lost


def _placed_at(state: PodsAtMoment, name: str) -> float:
    """When a pod was given its node; 0 where it is not told."""
    namespace, _, bare = name.partition("/")
    scheduled = condition_of(state.lab.cluster.get("Pod", bare, namespace), "PodScheduled") or {}
    at = scheduled.get("lastTransitionTime")
    return parse_time(at) if at else 0.0


def _without_pods(state: PodsAtMoment) -> Verdict:
    """Pods that nobody has made: time brings them where a clock makes them, or a controller that holds back."""
    obj = state.object
    if state.leaving and not state.absent:
        return Verdict.LATER  # what comes in place of those that leave comes once they have left
    waits = obj is not None and (obj["kind"] == "CronJob" or (obj["kind"] == "Job" and state.wanted))
    return Verdict.LATER if waits else Verdict.NEVER


def could_run(state: PodsAtMoment, *relaxations: Relaxation) -> bool:
    """Whether its pods that wait all get places where other work has gone, now or a day later, with these made."""
    pods = state.picture.pods_by_name
    tasks = {pods[row.name]["metadata"]["uid"] for row in state.waiting}
    if not tasks <= {task.uid for task in state.moment.snapshot.tasks}:
        return False  # nobody considers it, whatever else goes
    left = state.trials.about(*sorted(workload_podgroups(state))).after(OthersGone(), *relaxations)
    if relaxations:
        tasks &= {task.uid for task in left.snapshot.tasks}
    # A day is longer than delays, graces and protections usually are.
    return any(runs_alone(left, at, tasks) for at in (left.now, left.now + DAY))


MOST_MOMENTS = 1000
"""Moments of the day at which something changes that are looked at, in a small lab."""
LEAST_MOMENTS = 60
"""The same in a large one."""
AFFORDABLE_PODS = 100_000
"""Pods that are looked at for it in all."""


def run_without_others(state: PodsAtMoment) -> tuple[bool, tuple[Cause, ...]]:
    """Whether a subject runs once all other work has gone, at once or within a day, and what keeps it from running at once."""
    subject = state.subject
    with _emptied(state) as trial:
        alone = subject.state(trial)
        if alone.runs:
            return True, ()
        causes = causes_now(alone)
        # Its own pods may end and make room for the rest. Where none has a place time brings no more than the next try of a binding that
        # is refused, of which a day has thousands.
        if not any(pod["spec"].get("nodeName") for pod in trial.cluster.list("Pod")):
            return False, causes
        return any(subject.runs(trial) for _ in islice(trial.moments(DAY), _moments(trial))), causes


class Settled(NamedTuple):
    """A subject once controllers and scheduler have acted on what there is."""

    runs: bool
    verdict: Verdict | None
    causes: tuple[Cause, ...]


def settle_on_fork(state: PodsAtMoment) -> Settled | None:
    """None where they had nothing to do for the subject, or do not come to an end."""
    subject = state.subject
    with closing(fork(state.lab)) as trial:
        try:
            trial.settle()
        except KailabError:
            return None
        then = subject.state(trial)
        if _made(then) == _made(state):
            return None
        causes = causes_now(then)
        return Settled(then.runs, verdict_of(then, causes[0] if causes else None), causes)


def _made(state: PodsAtMoment) -> tuple[bool, list[tuple[str, str]]]:
    """What controllers have made of it: its pods, each with its PodGroup."""
    return state.ended, sorted((row.name, row.podgroup) for row in state.pods)


def _moments(trial: Lab) -> int:
    """How many are looked at: where some of its pods have a place and others are refused one for ever, a day has no end of them."""
    return min(MOST_MOMENTS, max(LEAST_MOMENTS, AFFORDABLE_PODS // max(1, len(trial.cluster.list("Pod")))))


@contextmanager
def _emptied(state: PodsAtMoment) -> Iterator[Lab]:
    """A fork without the others, settled. They are left out, not deleted: nobody has to see them go."""
    groups = workload_podgroups(state)
    pods = state.picture.pods_by_name
    own, others = {row.name for row in state.pods}, []
    for row in state.picture.rows:
        group = state.picture.podgroups.get((row.name.partition("/")[0], row.podgroup))
        if row.name not in own and (group is None or group["metadata"]["uid"] not in groups):
            others.append(pods[row.name])
    stay = _owners(state, [pods[name] for name in sorted(own)])
    # What the subject comes from too, as one Job of a CronJob does, is not taken away with another.
    doomed = (top_of(state.lab, pod, stay) for pod in others)
    with fork(state.lab, without=dict.fromkeys(map(_reference, doomed))) as trial:
        for obj in stay.values():
            # What it would make next is other work, too.
            if obj["kind"] == "CronJob" and state.subject.kind != "CronJob":
                trial.patch(
                    "CronJob", obj["metadata"]["name"], {"spec": {"suspend": True}}, obj["metadata"]["namespace"]
                )
        trial.settle()
        yield trial


def _reference(obj: Object) -> tuple[str, tuple[str, str]]:
    return kind_key(obj), (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _owners(state: PodsAtMoment, pods: list[Object]) -> dict[str, Object]:
    """By UID: what a subject is, what owns it, and what owns its pods."""
    found = pods if state.object is None else [state.object, *pods]
    return {one["metadata"]["uid"]: one for obj in found for one in (obj, *owners_of(state.lab, obj))}
