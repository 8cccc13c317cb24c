"""Whether work that waits can run later.

The engine decides it in milliseconds: it schedules the pods that exist on a cluster without other work, now and a day later
(``could_run``). A fork without other work decides where that is not enough (``run_without_others``): more pods come once these run, as of a
StatefulSet, or the first cause would end with the other work although the work never runs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Set
from contextlib import closing, contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.cycle import decide, repeat_cycle
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import OthersGone, Relaxation
from kailab.engine.snapshot.records import Status
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import KailabError
from kailab.explain.cause_groups import causes_now
from kailab.explain.cause_kinds import CAUSE_KINDS, Ending
from kailab.explain.subject import PodsAtMoment, SubjectRef, workload_podgroups
from kailab.lab.answer import Cause, CauseCode, Verdict
from kailab.lab.lab import Lab
from kailab.lab.owners import owners_of, refused_owners, top_of
from kailab.model.kinds import kind_key
from kailab.model.objects import ENDED_PHASES, condition_of, is_owned, is_terminating, name_of, namespace_of, uid_of
from kailab.model.times import DAY, parse_time

MOST_CYCLES = 50
"""Cycles of one question at most. More than one is needed as a queue depth may allow one job for each cycle."""


def runs_alone(cycles: RelaxedCycles, now: float, tasks: Set[str], ending: Set[str] = frozenset()) -> bool:
    """Whether all of these tasks are placed, cycle by cycle. ``cycles``: relaxed cycles without other work. ``now``: seconds. ``ending``:
    tasks that end once they have a place."""
    # Promises and refused binds belong to the cluster with the other work.
    config = structs.replace(cycles.config, promised=(), refused=frozenset())
    snapshot, waiting = cycles.snapshot, set(tasks)
    if ending:
        snapshot = _without_tasks(snapshot, {task.uid for task in snapshot.tasks if task.node} & ending)
    for _ in range(MOST_CYCLES):
        config, decisions = repeat_cycle(partial(decide, snapshot, now=now), config)
        config = structs.replace(config, promised=decisions.heirs)
        placed = {bind.task: bind for bind in decisions.binds}
        waiting -= placed.keys()
        if not waiting or not placed:
            return not waiting
        # Placed tasks run in the next cycle.
        snapshot = structs.replace(
            snapshot,
            tasks=tuple(
                structs.replace(task, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups)
                if (bind := placed.get(task.uid))
                else task
                for task in snapshot.tasks
            ),
        )
        if ending:
            snapshot = _without_tasks(snapshot, placed.keys() & ending)
    return False


def _without_tasks(snapshot: Snapshot, uids: Set[str]) -> Snapshot:
    return structs.replace(snapshot, tasks=tuple(task for task in snapshot.tasks if task.uid not in uids))


def verdict_of(state: PodsAtMoment, first: Cause | None) -> Verdict | None:
    """``first``: the first cause. None if somebody outside of the lab decides."""
    if state.runs:
        return Verdict.RUNNING
    # GONE takes precedence over running in part and waiting, because the eviction is the reason for both.
    if is_short_since_eviction(state):
        return Verdict.GONE
    # Its controller has not created more pods.
    if state.running and not state.waiting:
        return Verdict.RUNNING
    code = None if first is None else first.code
    if first is not None and code == CauseCode.OTHER_SCHEDULER and first.facts["nobody"]:
        return Verdict.NEVER
    match Ending.ENGINE if code is None else CAUSE_KINDS[code].ending:
        case Ending.PERMANENT:
            return Verdict.NEVER
        case Ending.RETRIED:
            return Verdict.LATER
        case Ending.UNKNOWN:
            return None
    if not state.waiting or code == CauseCode.PODS_NOT_CREATED:
        # The controller goes on trying to make the pods, and each of them is refused.
        return Verdict.NEVER if code in _REFUSED else _without_pods(state)
    return Verdict.LATER if could_run(state) or could_run_after_own_pods(state) else Verdict.NEVER


def is_short_since_eviction(state: PodsAtMoment) -> bool:
    """True if its last evictions took more pods than have been placed since."""
    if not state.evictions or state.runs:
        return False
    last = state.evictions[-1].t
    lost = sum(entry.t >= last for entry in state.evictions)
    at = last + state.lab.opened
    return sum(_placed_at(state, row.name) > at for row in state.placed) < lost


def _placed_at(state: PodsAtMoment, name: str) -> float:
    """When a pod was bound, in seconds; 0 if its status does not say."""
    namespace, _, bare = name.partition("/")
    scheduled = condition_of(state.lab.cluster.get("Pod", bare, namespace), "PodScheduled") or {}
    at = scheduled.get("lastTransitionTime")
    return parse_time(at) if at else 0.0


def _without_pods(state: PodsAtMoment) -> Verdict:
    """The verdict for pods that do not exist: a schedule, or a controller that waits, may create them later."""
    obj = state.object
    if obj is not None and obj["kind"] == "Pod" and not is_owned(obj):
        return Verdict.NEVER  # it is being deleted
    if state.leaving and not state.absent:
        # Their replacements are created once they have terminated.
        return Verdict.NEVER if state.held_up else Verdict.LATER
    waits = obj is not None and (obj["kind"] == "CronJob" or (obj["kind"] == "Job" and state.wanted))
    return Verdict.LATER if waits else Verdict.NEVER


def could_run(state: PodsAtMoment, *relaxations: Relaxation) -> bool:
    """Whether all its waiting pods are placed without other work, now or a day later, after these relaxations."""
    return _could_run(state, relaxations)


def could_run_after_own_pods(state: PodsAtMoment) -> bool:
    """Whether all its waiting pods are placed without other work if the pods of its own workload end one after the other, as those of a Job
    do, although nobody may know when."""
    if _could_run_after(state):
        return True
    # Those that can end may not do so first. Its controllers show whether it goes on or has failed once the others are evicted.
    ending = _started_once(state)
    unready = state.unready(pod["spec"].get("nodeName", "") for pod in ending)
    leaving = any(pod["spec"].get("nodeName") in unready and not is_terminating(pod) for pod in ending)
    return leaving and _could_run_once_evicted(state)


def _could_run_after(state: PodsAtMoment) -> bool:
    ending = {uid_of(pod) for pod in ending_pods(state)}
    return bool(ending) and _could_run(state, (), ending)


def _could_run_once_evicted(state: PodsAtMoment) -> bool:
    """``could_run_after_own_pods`` once the pods on nodes that are not ready have been evicted, on a fork without other work."""
    subject = state.subject
    with _emptied(state) as fork:
        if any(subject.runs(fork) for _ in islice(fork.moments(DAY), _moments(fork))):
            return True
        try:
            then = subject.state(fork)
        except KailabError:  # a pod of work that has failed
            return False
        return not then.failure and (could_run(then) or _could_run_after(then))


def ending_pods(state: PodsAtMoment) -> list[Object]:
    """The pods, of the subject or the workload that it is part of, that have not ended, and will not be started again once they have.
    Those on nodes that are not ready do not end."""
    pods = _started_once(state)
    unready = state.unready(pod["spec"].get("nodeName", "") for pod in pods)
    return [pod for pod in pods if pod["spec"].get("nodeName", "") not in unready]


def _started_once(state: PodsAtMoment) -> list[Object]:
    """Its pods, or those of the workload that it is part of, that have not ended, and will not be started again once they have."""
    groups, pods = workload_podgroups(state), []
    for row in state.picture.rows:
        group = state.picture.podgroups.get((row.name.partition("/")[0], row.podgroup))
        if group is None or uid_of(group) not in groups or row.phase in ENDED_PHASES:
            continue
        pod = state.picture.pods_by_name[row.name]
        if pod["spec"].get("restartPolicy", "Always") != "Always":
            pods.append(pod)
    return pods


def _could_run(state: PodsAtMoment, relaxations: tuple[Relaxation, ...], ending: Set[str] = frozenset()) -> bool:
    pods = state.picture.pods_by_name
    tasks = {pods[row.name]["metadata"]["uid"] for row in state.waiting}
    if not tasks <= {task.uid for task in state.moment.snapshot.tasks}:
        return False  # the scheduler does not know them
    cycles = state.relaxed_cycles.about(*sorted(workload_podgroups(state))).after(OthersGone(), *relaxations)
    if relaxations:
        tasks &= {task.uid for task in cycles.snapshot.tasks}
    # Delays, graces and minimum runtimes are usually shorter than a day. Pods of its own take time to end in any case.
    moments = (cycles.now + DAY,) if ending else (cycles.now, cycles.now + DAY)
    return any(runs_alone(cycles, at, tasks, ending) for at in moments)


_REFUSED = frozenset({CauseCode.PRIORITY_CLASS_MISSING, CauseCode.RUNTIME_CLASS_MISSING})
"""Causes for which each pod of the work is refused until an object exists."""
TO_BE_CREATED = frozenset({CauseCode.PODS_NOT_CREATED, CauseCode.GANG_INCOMPLETE})
"""Causes that may end when a controller tries again to create pods that a ResourceQuota refused."""
_MOST_ENDS = 20
"""How often the pods of a workload end in a look ahead; a Job may have many more completions than pods."""
MOST_MOMENTS = 1000
"""Moments of change within a day that are looked at, in a small lab."""
LEAST_MOMENTS = 60
"""The same in a large one."""
AFFORDABLE_PODS = 100_000
"""The product of moments and pods is kept below this."""


def run_without_others(state: PodsAtMoment) -> tuple[bool, tuple[Cause, ...]]:
    """Whether a subject runs within a day on a fork without other work, and the causes that keep it from running there at once."""
    subject = state.subject
    with _emptied(state) as fork:
        alone = subject.state(fork)
        if alone.runs:
            return True, ()
        causes = causes_now(alone)
        # Its own pods may end and make room for its other pods. If none is placed, time brings only thousands of retries of a refused
        # binding, unless its controller has yet to try again to create them.
        is_created = not causes or causes[0].code not in TO_BE_CREATED
        if is_created and not any(pod["spec"].get("nodeName") for pod in fork.cluster.list("Pod")):
            return False, causes
        runs = any(subject.runs(fork) for _ in islice(fork.moments(DAY), _moments(fork)))
        return runs or _runs_as_own_pods_end(fork, subject), causes


def _runs_as_own_pods_end(lab: Lab, subject: SubjectRef) -> bool:
    """Whether a subject runs on a fork as its own pods end one after the other, which gives back what they hold of limits and
    ResourceQuotas. Nobody may know when that is."""
    for _ in range(_MOST_ENDS):
        try:
            ending = [pod for pod in ending_pods(subject.state(lab)) if pod["spec"].get("nodeName")]
        except KailabError:  # a pod of work that has gone
            return False
        if not ending:
            return False
        for pod in ending:
            lab.patch("Pod", name_of(pod), {"status": {"phase": "Succeeded"}}, namespace_of(pod), "status")
        lab.settle()
        if subject.runs(lab):
            return True
    return False


class SettledState(NamedTuple):
    """A subject after controllers and the scheduler have acted on the present objects."""

    runs: bool
    verdict: Verdict | None
    causes: tuple[Cause, ...]


def settle_on_fork(state: PodsAtMoment) -> SettledState | None:
    """A subject after a fork has settled. None if that changes nothing for it, or if the fork never settles."""
    subject = state.subject
    with closing(state.lab.fork()) as fork:
        try:
            fork.settle()
        except KailabError:
            return None
        then = subject.state(fork)
        if _created(then) == _created(state):
            return None
        causes = causes_now(then)
        return SettledState(then.runs, verdict_of(then, causes[0] if causes else None), causes)


def _created(state: PodsAtMoment) -> tuple[bool, list[tuple[str, str, bool]]]:
    """Its pods, each with its PodGroup, and whether that exists."""
    return state.ended, sorted((row.name, row.podgroup, state.picture.is_grouped(row)) for row in state.pods)


def _moments(fork: Lab) -> int:
    """How many moments are looked at. A binding that is refused for ever makes thousands of them in a day."""
    return min(MOST_MOMENTS, max(LEAST_MOMENTS, AFFORDABLE_PODS // max(1, len(fork.cluster.list("Pod")))))


@contextmanager
def _emptied(state: PodsAtMoment) -> Iterator[Lab]:
    """A settled fork without other work, which is left out from the beginning, so that no controller sees a deletion."""
    groups = workload_podgroups(state)
    pods = state.picture.pods_by_name
    own, others = {row.name for row in state.pods}, []
    for row in state.picture.rows:
        group = state.picture.podgroups.get((row.name.partition("/")[0], row.podgroup))
        if row.name not in own and (group is None or uid_of(group) not in groups):
            others.append(pods[row.name])
    kept_owners = _owners(state, [pods[name] for name in sorted(own)])
    # An owner that the subject shares with other work stays, as the CronJob of two Jobs does.
    others += _refused_others(state.lab, kept_owners)
    doomed = (top_of(state.lab.cluster, obj, kept_owners) for obj in others)
    with state.lab.fork(without=dict.fromkeys(map(_reference, doomed))) as fork:
        for obj in kept_owners.values():
            # The Jobs that it would create next are other work.
            if obj["kind"] == "CronJob" and state.subject.kind != "CronJob":
                fork.patch(
                    "CronJob", obj["metadata"]["name"], {"spec": {"suspend": True}}, obj["metadata"]["namespace"]
                )
        fork.settle()
        yield fork


def _refused_others(lab: Lab, kept: Container[str]) -> Iterator[Object]:
    """Objects whose pods the API server refused, as for a ResourceQuota: they would create them once others have gone. ``kept``: UIDs of
    objects that stay, with all that they own."""
    for obj in refused_owners(lab.cluster):
        line = (obj, *owners_of(lab.cluster, obj))
        if not any(owner["metadata"]["uid"] in kept for owner in line):
            yield obj


def _reference(obj: Object) -> tuple[str, tuple[str, str]]:
    return kind_key(obj), (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _owners(state: PodsAtMoment, pods: list[Object]) -> dict[str, Object]:
    """The subject's object, its owners and the owners of its pods, by UID."""
    objects = pods if state.object is None else [state.object, *pods]
    return {owner["metadata"]["uid"]: owner for obj in objects for owner in (obj, *owners_of(state.lab.cluster, obj))}
