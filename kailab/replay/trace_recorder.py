"""Record a cluster's pods as a trace in the plain form (``readers.plain``), from a watch or from repeated listings.

Pods of one PodGroup form a job, otherwise pods of one owner, otherwise each pod. A job is complete once none of its
pods waits or runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object, WatchEvent
from kailab.engine.snapshot.records import Shape
from kailab.model import labels, objects
from kailab.model.objects import ENDED_PHASES
from kailab.model.times import parse_time
from kailab.replay.job import WHOLE
from kailab.scheduler.reading.shapes import ShapeCache

COLUMNS = (
    "name",
    "submit",
    "seconds",
    "gpus",
    "share",
    "pods",
    "cpu",
    "memory_mib",
    "models",
    "team",
    "priority",
    "user",
    "mig",
)
"""Columns of the plain form, with the user who submitted the job, which a replay ignores."""
_USER = "user"
_MIB = 1024 * 1024
Row = tuple[Any, ...]


class _RecordedPod:
    """``bound``: it has a node. ``kept``: it succeeded. ``found_ended``: it had ended when it was first seen."""

    __slots__ = ("begun", "bound", "created", "ended", "found_ended", "kept", "name", "shape", "uid")

    def __init__(self, uid: str, name: str, created: int, shape: Shape) -> None:
        self.uid, self.name, self.created, self.shape = uid, name, created, shape
        self.begun: int | None = None
        self.ended: int | None = None
        self.bound = self.kept = self.found_ended = False

    @property
    def ran(self) -> bool:
        return self.begun is not None and self.ended is not None


class _RecordedJob:
    """Pods that belong together. ``most``: the largest set of pods that were seen to hold nodes at the same time."""

    def __init__(self, name: str, team: str, priority: str, user: str) -> None:
        self.name, self.team, self.priority, self.user = name, team, priority, user
        self.lives: dict[str, _RecordedPod] = {}
        self.most: tuple[_RecordedPod, ...] = ()

    def count(self) -> None:
        held = tuple(life for life in self.lives.values() if life.bound and life.ended is None)
        if len(held) > len(self.most):
            self.most = held

    def held_at_once(self) -> Sequence[_RecordedPod]:
        """The largest set of pods that held nodes at the same time. For pods that ended before the first look, their own start and end
        times decide."""
        if not any(life.found_ended for life in self.lives.values()):
            return self.most
        ran = [life for life in self.lives.values() if life.begun is not None and life.ended is not None]
        sets = [[life for life in ran if _runs_at(life, start.begun)] for start in ran]
        return max((self.most, *sets), key=len)

    @property
    def over(self) -> bool:
        return all(life.ended is not None for life in self.lives.values())


def _runs_at(life: _RecordedPod, moment: int | None) -> bool:
    """Whether a pod held its node in the second from ``moment`` on. Times are whole seconds, so a pod that ends in its first one counts."""
    if life.begun is None or life.ended is None or moment is None:
        return False
    return life.begun <= moment < max(life.ended, life.begun + 1)


class RecordedTrace(NamedTuple):
    """``rows``: of ``COLUMNS``, by arrival. ``unfinished``: number of jobs that still have waiting or running pods.
    ``left_out``: number of jobs without a row, by reason."""

    rows: list[Row]
    unfinished: int
    left_out: dict[str, int]


class TraceRecorder:
    """Collects pods and derives jobs from them. Pods that ended before the first look are included if they still
    exist."""

    def __init__(self) -> None:
        self._shapes = ShapeCache()
        self._jobs: dict[tuple[str, str], _RecordedJob] = {}
        self._of_pod: dict[str, tuple[_RecordedJob, _RecordedPod]] = {}

    def follow(self, events: Iterable[WatchEvent], now: float) -> None:
        """Process the events of a watch of pods up to ``now``."""
        for event in events:
            if event.type == "DELETED":
                self._gone(objects.uid_of(event.object), now)
            else:
                self._see(event.object, now)

    def observe(self, pods: Iterable[Object], now: float) -> None:
        """Process a listing of all pods at ``now``. Pods that are no longer listed count as ended now, because the
        exact time is unknown."""
        listed = set()
        for pod in pods:
            listed.add(objects.uid_of(pod))
            self._see(pod, now)
        for uid, (_, life) in self._of_pod.items():
            if life.ended is None and uid not in listed:
                self._gone(uid, now)

    def recorded(self) -> RecordedTrace:
        """The trace of all jobs completed so far."""
        rows: list[Row] = []
        left_out: dict[str, int] = {}
        completed = [job for job in self._jobs.values() if job.over]
        for job in completed:
            try:
                rows += _rows(job)
            except _MissingFact as missing:
                left_out[str(missing)] = left_out.get(str(missing), 0) + 1
        rows.sort(key=lambda row: (row[1], row[0]))
        return RecordedTrace(rows, len(self._jobs) - len(completed), left_out)

    def _see(self, pod: Object, now: float) -> None:
        status = objects.status_of(pod)
        known = self._of_pod.get(objects.uid_of(pod))
        if known is None:
            job = self._job_of(pod)
            created = int(parse_time(objects.metadata_of(pod)["creationTimestamp"]))
            life = _RecordedPod(objects.uid_of(pod), objects.name_of(pod), created, self._shapes.of(pod))
            life.found_ended = status.get("phase") in ENDED_PHASES
            job.lives[life.uid] = life
            self._of_pod[life.uid] = job, life
        else:
            job, life = known
        if life.ended is not None:
            return
        if objects.node_of(pod) and not life.bound:
            life.bound = True
            if not life.found_ended:
                job.count()
        if life.begun is None:
            life.begun = _begun(status)
        if status.get("phase") in ENDED_PHASES:
            life.ended = _finished(status, now)
            life.kept = status["phase"] == "Succeeded"

    def _gone(self, uid: str, now: float) -> None:
        known = self._of_pod.get(uid)
        if known is not None and known[1].ended is None:
            known[1].ended = int(now)

    def _job_of(self, pod: Object) -> _RecordedJob:
        annotations, tags, namespace = objects.annotations_of(pod), objects.labels_of(pod), objects.namespace_of(pod)
        owner = next(iter(objects.owner_references(pod)), None)
        group = annotations.get(labels.POD_GROUP)
        key = f"group/{group}" if group else owner["uid"] if owner else objects.uid_of(pod)
        job = self._jobs.get((namespace, key))
        if job is None:
            name = f"{namespace}/{owner['name'] if owner else objects.name_of(pod)}"
            team = tags.get(labels.QUEUE) or namespace
            priority = tags.get(labels.PRIORITY_CLASS) or pod["spec"].get("priorityClassName") or ""
            # An annotation may span several lines; a row is one line.
            user = " ".join((tags.get(_USER) or annotations.get(_USER) or "").split())
            job = self._jobs[namespace, key] = _RecordedJob(name, team, priority, user)
        return job


class _MissingFact(Exception):
    """The reason for which a job has no row."""


def _rows(job: _RecordedJob) -> Iterator[Row]:
    ran = [life for life in job.lives.values() if life.ran]
    if not ran:
        raise _MissingFact("never ran")
    shapes = [life.shape for life in ran]
    if any(shape.gpu.by_memory or shape.gpu.claimed for shape in shapes):
        raise _MissingFact("requests GPUs by memory or by claims, for which the form has no column")
    if any(shape.gpu.by_profile for shape in shapes) and len({shape.gpu.profiles for shape in shapes}) > 1:
        raise _MissingFact("has pods with unlike MIG instances, for which the form has no column")
    if len(shapes[0].gpu.profiles) > 1:
        raise _MissingFact("requests several MIG profiles, for which the form has one column")
    # Evicted pods repeated their work, so they do not count if any pod succeeded.
    counted = [life for life in ran if life.kept] or ran
    arrived = min(life.created for life in job.lives.values())
    if any(shape.gpu.shared for shape in shapes):
        for life in counted:
            name = job.name if len(counted) == 1 else f"{job.name}/{life.name}"
            yield _row(job, name, arrived, [life], [life])
    else:
        yield _row(job, job.name, arrived, counted, list(job.held_at_once()) or counted)


def _row(job: _RecordedJob, name: str, arrived: int, lives: list[_RecordedPod], held: list[_RecordedPod]) -> Row:
    begun = min(life.begun for life in lives if life.begun is not None)
    ended = max(life.ended for life in lives if life.ended is not None)
    shape = held[0].shape
    alike = all(life.shape is shape for life in held)
    ((resource, instances),) = shape.gpu.profiles or (("", 0),)
    gpus = sum(instances or life.shape.gpu.devices for life in held)
    pods = len(held) if alike or not gpus % len(held) else ""
    share = shape.gpu.portion / WHOLE
    cpu = max(life.shape.cpu for life in held)
    memory = max(life.shape.memory for life in held)
    return (
        name, arrived, max(1, ended - begun), gpus, f"{share:g}", pods, f"{cpu / 1000:g}", memory // _MIB,
        "|".join(_models(shape)), job.team, job.priority, job.user,
        resource.removeprefix(labels.MIG_PREFIX),
    )  # fmt: skip


def _models(shape: Shape) -> list[str]:
    """GPU models that the pod may run on; empty if it does not state any."""
    for requirements in (shape.selector, *(term.requirements for term in shape.terms[:1])):
        for requirement in requirements:
            if requirement.key == labels.GPU_PRODUCT and requirement.operator == "In":
                return list(requirement.values)
    return []


def _begun(status: Mapping[str, Any]) -> int | None:
    """When the first container started, or when the kubelet accepted the pod if no start is known. None while the pod
    is pending."""
    if status.get("phase") in (None, "Pending"):
        return None
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    starts = [
        container["startedAt"]
        for state in states
        for container in state.values()
        if container and container.get("startedAt")
    ]
    since = min(starts, default=status.get("startTime"))
    return None if since is None else int(parse_time(since))


def _finished(status: Mapping[str, Any], now: float) -> int:
    states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
    ends = [end["finishedAt"] for state in states if (end := state.get("terminated")) and end.get("finishedAt")]
    return int(parse_time(max(ends))) if ends else int(now)
