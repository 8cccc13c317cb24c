"""Settling of a lab on a real cluster, in which other processes act in their own time.

The parts that run in this process (controllers, kailab's scheduler) act on watch events while the lab waits. With a virtual clock a lab
knows that nothing is left to do. A lab on a real cluster is quiet if no change is certain to come and nothing has changed for a little
while. A Job that replaces its pods after a back-off does not count, because that may take minutes.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from kailab.cluster.pod_lifecycle import READY_SECONDS, TERMINATION, TERMINATION_SECONDS, seconds_of
from kailab.cluster.protocol import Cluster, LiveUpdates, Object, WatchEvent
from kailab.lab.settle import CYCLE_SECONDS, NotSettled
from kailab.model import labels
from kailab.model.objects import (
    ENDED_PHASES,
    condition_of,
    full_name,
    has_condition,
    involved_of,
    is_ended,
    is_ready,
    is_terminating,
    metadata_of,
    name_of,
    owner_references,
    pods_of_job,
    status_of,
    uid_of,
)
from kailab.model.times import parse_time
from kailab.undertest.contract import OWED_SECONDS, Decider, IdleDetector, SteppedPart

# --- changes that are certain to come ---------------------------------------------------------------------------------


KINDS = ("Node", "Deployment", "ReplicaSet", "StatefulSet", "Job", "PodGroup", "Pod", "Queue")
PROMPT_SECONDS = 10.0
"""A pod that declares a longer time than this for its start or end is not waited for."""

_OWNERS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_EMPTY: dict[str, Any] = {}


class PendingChanges:
    """Processes watch events; ``named`` lists the expected changes. ``considers``: whether the scheduler under test has to give an unbound pod a
    node or a reason. ``operated``: kinds that operators act on."""

    def __init__(self, considers: Callable[[Object], bool], operated: Sequence[str] = ()) -> None:
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in (*KINDS, *operated)}
        self._considers = considers
        self._operated = tuple(operated)
        self.refused_owners: frozenset[str] = frozenset()
        """UIDs of owners whose pods the API server refuses: their controllers try again, but nothing says that they will succeed."""

    def process_event(self, event: WatchEvent) -> None:
        known, uid = self._objects[event.kind], uid_of(event.object)
        if event.type == "DELETED":
            known.pop(uid, None)
        else:
            known[uid] = event.object

    def named(self) -> list[str]:
        """Sorted, as ``Pod default/a is starting``; empty if no change is expected."""
        return sorted({*self._of_operators(), *self._of_owners(), *self._of_pods()})

    @property
    def has_unbegun_jobs(self) -> bool:
        """True if a Job that should have pods has had none yet. The pods are certain to come, but perhaps late: the Job controller keeps the
        back-off after failed pods by a Job's name, so it may delay a new Job of the same name."""
        alive = self._alive()
        return any(
            not alive[uid_of(job)] and self._lacks_pods(job)
            for job in self._objects["Job"].values()
            if not status_of(job).get("succeeded") and uid_of(job) not in self.refused_owners
        )

    # --- operators ---------------------------------------------------------------------------------------------------

    def _of_operators(self) -> Iterator[str]:
        """Objects whose operator has not written a status yet. Jobs and pods that it makes of them are listed by themselves."""
        for kind in self._operated:
            for obj in self._objects[kind].values():
                if is_terminating(obj):
                    yield f"{kind} {full_name(obj)} is leaving"
                elif not obj.get("status"):
                    yield f"{kind} {full_name(obj)} is being reconciled"

    # --- controllers -------------------------------------------------------------------------------------------------

    def _of_owners(self) -> Iterator[str]:
        alive = self._alive()
        for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
            for obj in self._objects[kind].values():
                if _unfinished(obj) and uid_of(obj) not in self.refused_owners:
                    yield f"{kind} {full_name(obj)} is being reconciled"
        for job in self._objects["Job"].values():
            if uid_of(job) in self.refused_owners:
                continue
            status = job.get("status") or _EMPTY
            if (
                not status.get("startTime")
                and not job["spec"].get("suspend")
                and not has_condition(job, "Complete", "Failed")
            ):
                yield f"Job {full_name(job)} is being started"
            elif not has_condition(job, "Complete", "Failed") and self._miscounts(job, alive[uid_of(job)]):
                yield f"Job {full_name(job)} counts its pods"
            elif self._lacks_pods(job):
                yield f"Job {full_name(job)} is making its pods"

    def _miscounts(self, job: Object, alive: int) -> bool:
        """True if a Job's status does not count its pods yet. A Job that keeps failed pods with finalizers is left out: a Job controller in
        back-off counts those late (API validation refuses its update while all other pods are ready and none counts as active)."""
        status, uid = job.get("status") or _EMPTY, uid_of(job)
        if status.get("active", 0) == alive:
            return False
        return not any(
            status_of(pod).get("phase") == "Failed" and metadata_of(pod).get("finalizers")
            for pod in self._objects["Pod"].values()
            if any(reference["uid"] == uid for reference in owner_references(pod))
        )

    def _alive(self) -> Counter[str]:
        """UID of a controller -> the number of its pods that have not ended and are not being deleted."""
        return Counter(
            reference["uid"]
            for pod in self._objects["Pod"].values()
            if not is_terminating(pod) and not is_ended(pod)
            for reference in owner_references(pod)
            if reference.get("controller")
        )

    @staticmethod
    def _lacks_pods(job: Object) -> bool:
        """True if the Job controller is certain to make more pods."""
        spec, status = job["spec"], job.get("status") or _EMPTY
        if has_condition(job, "Complete", "Failed") or spec.get("suspend"):
            return False
        if status.get("failed"):
            return False  # it may be in back-off
        succeeded = status.get("succeeded", 0)
        if succeeded and spec.get("completions") is None:
            return False
        return bool(status.get("active", 0) + status.get("terminating", 0) < pods_of_job(spec, succeeded))

    # --- pods --------------------------------------------------------------------------------------------------------

    def _of_pods(self) -> Iterator[str]:
        owners = {uid for kind in _OWNERS for uid in self._objects[kind]}
        nodes = {name_of(node): node for node in self._objects["Node"].values()}
        for pod in self._objects["Pod"].values():
            why = self._of_pod(pod, nodes, owners)
            if why:
                yield f"Pod {full_name(pod)} {why}"

    def _of_pod(self, pod: Object, nodes: dict[str, Object], owners: set[str]) -> str:
        metadata, spec = metadata_of(pod), pod["spec"]
        phase = status_of(pod).get("phase")
        node = nodes.get(spec.get("nodeName", ""))
        notes = metadata.get("annotations") or _EMPTY
        if "deletionTimestamp" in metadata:
            slow = _seconds(notes.get(TERMINATION), TERMINATION_SECONDS) > PROMPT_SECONDS or _saves_slowly(notes)
            # Only a finalizer holds an ended pod, and its owner takes its own time.
            held = metadata.get("finalizers") and phase in ENDED_PHASES
            # Pods of a missing or silent node end only when the node is given up.
            stuck = spec.get("nodeName") and (node is None or not is_ready(node, unreported=True))
            return "" if slow or held or stuck else "is leaving"
        for reference in metadata.get("ownerReferences") or ():
            # The garbage collector will delete it.
            if reference.get("controller") and reference["kind"] in _OWNERS and reference["uid"] not in owners:
                return "lost its owner"
        if phase in ENDED_PHASES:
            return ""
        if not spec.get("nodeName"):
            return (
                "waits for the scheduler" if self._considers(pod) and condition_of(pod, "PodScheduled") is None else ""
            )
        if phase == "Pending" and node is not None and is_ready(node, unreported=True):
            return "is starting" if _seconds(notes.get(labels.READY_SECONDS), READY_SECONDS) <= PROMPT_SECONDS else ""
        return ""


def _unfinished(obj: Object) -> bool:
    """True if the controller of an object has not seen its latest generation, or has not made all replicas."""
    status, spec = obj.get("status") or _EMPTY, obj["spec"]
    if status.get("observedGeneration", 0) < metadata_of(obj).get("generation", 0):
        return True
    if is_terminating(obj):
        return True
    wanted = spec.get("replicas", 1)
    there = status.get("replicas", 0)
    if obj["kind"] == "StatefulSet":
        # Its controller makes the pods one after the other, each when the earlier ones are ready.
        return bool(there > wanted or (there < wanted and status.get("readyReplicas", 0) >= there))
    return bool(there != wanted)


def _last_seen(event: Object) -> float:
    """When an event was last reported; 0 if it does not say so. Times of events have whole seconds."""
    text = event.get("lastTimestamp") or event.get("eventTime")
    return parse_time(text) if text else 0.0


def _seconds(text: Any, default: float) -> float:
    seconds = seconds_of(text, default)
    return default if seconds is None else seconds


def _saves_slowly(notes: dict[str, Any]) -> bool:
    return labels.CHECKPOINT_REQUESTED in notes and _seconds(notes.get(labels.CHECKPOINT_SECONDS), 0) > PROMPT_SECONDS


_log = logging.getLogger(__name__)

QUIET_SECONDS = 1.2
REFUSED_SECONDS = 4.0
"""How long nothing changes before owners count as refused: their controllers' first new tries come within a second or two."""
DEADLINE_SECONDS = 600.0
BACKOFF_SECONDS = 120.0
"""How long to wait for a Job that has had no pod yet (``PendingChanges.has_unbegun_jobs``)."""

_POLL_SECONDS = 0.25
_CHECK_SECONDS = 1.0
_GATHER_SECONDS = 0.02  # changes come in bursts: one cycle for a burst costs less than a cycle for each change


class LiveCluster(Cluster, LiveUpdates, Protocol):
    """A cluster that changes by itself."""


class Operating(Protocol):
    """Operators that run as processes beside the cluster."""

    @property
    def kinds(self) -> Sequence[str]: ...

    def check(self) -> None:
        """Raises KailabError if an operator has ended, because its changes never come."""


class LiveSettling:
    """``quiet``: seconds without a change after which the lab is quiet if no change is expected; ``owed``: seconds without a change after
    which it is quiet though changes are expected. ``considers``: see PendingChanges. ``rest``: the idle detector of the scheduler, which
    must be idle too. ``operators``: their work is waited for. ``writes``: further kinds whose changes count as changes.

    ``monotonic``: measures waiting, so that a step of the machine's clock does not matter."""

    def __init__(
        self,
        cluster: LiveCluster,
        controllers: Sequence[SteppedPart],
        scheduler: Decider,
        *,
        considers: Callable[[Object], bool],
        rest: IdleDetector | None = None,
        operators: Operating | None = None,
        writes: Sequence[str] = (),
        quiet: float = QUIET_SECONDS,
        owed: float = OWED_SECONDS,
        deadline: float = DEADLINE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        retry_at: Callable[[float], float | None] = lambda since: None,
    ) -> None:
        self._cluster = cluster
        self._controllers = controllers
        self._scheduler = scheduler
        self._rest = rest
        self._quiet = quiet
        self._owed_patience = owed
        self._deadline = deadline
        self._monotonic = monotonic
        self._retry_at = retry_at
        self._operators = operators
        operated = () if operators is None else tuple(operators.kinds)
        self._watch = cluster.watch((*KINDS, *operated, *writes))
        self._writes = frozenset(writes)
        self._pending = PendingChanges(considers, operated)
        self._cycled_at = self._checked_at = float("-inf")
        self._changes: Counter[str] = Counter()

    def add_controller(self, controller: SteppedPart) -> None:
        self._controllers = (*self._controllers, controller)

    def close(self) -> None:
        self._watch.close()

    def settle(self, between: Callable[[], None] | None = None) -> None:
        """Return when nothing has changed for a while and no change is expected. Raises NotSettled."""
        start = changed_at = self._monotonic()
        since = self._cluster.now()
        self._changes.clear()
        while True:
            if self._act():
                changed_at = self._monotonic()
                self._pending.refused_owners = frozenset()
                if self._rest is not None:
                    self._rest.changed()
                if between is not None:
                    between()
            self._check_operators()
            idle = self._rest is None or self._rest.is_idle()
            now = self._monotonic()
            still = now - changed_at
            if still >= REFUSED_SECONDS and not self._pending.refused_owners and self._pending.named():
                self._pending.refused_owners = self._refused(since)
            # Expected changes are a guess about other processes. If they never come, the lab must settle anyway.
            patience_over = still >= max(self._owed_patience, self._quiet) and (
                still >= BACKOFF_SECONDS or not self._pending.has_unbegun_jobs
            )
            if still >= self._quiet and (patience_over or (idle and not self._is_due(since))):
                _log.debug("settled after %.1f s, of which %.1f s without a change", now - start, still)
                return
            if now - start > self._deadline:
                raise NotSettled(self._describe_changes())
            self._cluster.wait(min(self._pause(), max(0.01, self._quiet - still) if still < self._quiet else 1.0))

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """Let seconds pass, stopping at each moment at which something has changed, and at the end. ``before`` and ``rested`` have no effect,
        because other processes act at any time; always gives False."""
        end = self._monotonic() + seconds
        self._act()
        while True:
            yield False
            while True:
                left = end - self._monotonic()
                if left <= 0:
                    self._act()
                    yield False
                    return
                self._cluster.wait(min(left, self._pause()))
                if self._act():
                    break

    def catch_up(self) -> bool:
        return False

    # --- inside ------------------------------------------------------------------------------------------------------

    def _act(self) -> bool:
        """Let the parts in this process act on what has come in; True if anything has changed."""
        self._cluster.wait(0.0)
        events = self._watch.poll()
        for event in events:
            if event.kind not in self._writes:
                self._pending.process_event(event)
        changed = bool([event for event in events if self._counts(event)])
        # One controller acts on what another wrote (a Deployment's ReplicaSet, its pods, their PodGroup), which takes a few rounds. The
        # bound keeps two controllers that undo each other's writes from holding the scheduler back.
        for _ in range(5):
            wrote = False
            for controller in self._controllers:
                wrote |= controller.step()
            if not wrote:
                break
            changed = True
        now = self._monotonic()
        # Pods of one gang arrive one by one. A short wait for all costs less than a cycle for each.
        if now - self._cycled_at >= _GATHER_SECONDS and self._scheduler.step():
            self._cycled_at = self._monotonic()
            changed = True
        return changed

    def _check_operators(self) -> None:
        # Events come far more often than once a second, and the check costs time.
        if self._operators is not None and (now := self._monotonic()) - self._checked_at >= _CHECK_SECONDS:
            self._checked_at = now
            self._operators.check()

    def _refused(self, since: float) -> frozenset[str]:
        """UIDs of owners whose controllers have reported since a time that a pod was refused."""
        return frozenset(
            str(involved_of(event).get("uid", ""))
            for event in self._cluster.list("Event")
            if event.get("reason") == "FailedCreate" and _last_seen(event) >= int(since)
        )

    def _is_due(self, since: float) -> bool:
        return bool(self._pending.named()) or self._retry_at(since) is not None

    def _counts(self, event: WatchEvent) -> bool:
        if event.kind == "Node":
            return False  # heartbeats are no changes
        self._changes[f"{event.kind} {name_of(event.object)}"] += 1
        return True

    def _pause(self) -> float:
        wake = self._scheduler.wake_at
        pause = _POLL_SECONDS if wake is None else min(_POLL_SECONDS, max(0.01, wake - self._cluster.now()))
        return min(pause, CYCLE_SECONDS)

    def _describe_changes(self) -> str:
        busiest = "".join(f"\n  {what}: {count} times" for what, count in self._changes.most_common(5))
        pending = "".join(f"\n  {each}" for each in self._pending.named()[:5])
        return f"the lab is not quiet after {self._deadline:g} s; these keep changing:{busiest or ' nothing'}" + (
            f"\nand these are still expected:{pending}" if pending else ""
        )
