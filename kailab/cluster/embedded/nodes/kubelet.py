"""A fake kubelet for all nodes: the life of a bound pod, in virtual time.

Each stage is one write. Settling a lab waits for *prompt* timers, and lets no time pass for others:

* bound, on an existing and Ready node -> Running and Ready after ``kailab.dev/ready-seconds`` (1; a prompt timer).
* Running -> ended after ``kailab.dev/run-seconds`` (default: runs for ever). With restartPolicy Always the container is restarted; otherwise the
  pod is Succeeded.
* Running -> failed after ``kailab.dev/fail: "<seconds>[:reason]"``, with exit code 137 for OOMKilled, else 1. With restartPolicy Never the pod is
  Failed; otherwise the container is restarted with its restartCount raised, after a back-off of 10 s that doubles up to 5 min, and fails again.
* Running -> Failed with the reason DeadlineExceeded after ``spec.activeDeadlineSeconds``, with any restartPolicy.
* deleted -> gone after 1 s (a prompt timer), or after ``kailab.dev/termination-seconds`` or its preStop hooks
  (``pod_lifecycle.stopping_seconds``; not prompt), at most the grace period. A running pod that was asked to save its state
  (``kailab.dev/checkpoint-requested``) stays for ``kailab.dev/checkpoint-seconds`` (not prompt), or until it has
  ``kailab.dev/checkpoint-done``, and ends with an event ``Checkpointed``, or ``CheckpointLost`` if the grace period ends first.

Times count from the whole seconds recorded in the pod, so that a resumed lab goes on exactly as one that was never
stopped. All pods due at one time share one timer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from kailab.cluster.embedded import pod_status
from kailab.cluster.embedded.clock import VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.pod_lifecycle import (
    CHECKPOINT_LOST,
    CHECKPOINTED,
    CODE_COMPLETED,
    CODE_STOPPED,
    COMPLETED,
    DEADLINE_EXCEEDED,
    DEADLINE_MESSAGE,
    ERROR,
    LONGEST_START,
    READY_SECONDS,
    TERMINATION_SECONDS,
    PodEvent,
    backoff_seconds,
    failure,
    saving_seconds,
    seconds_of,
    stopping_seconds,
)
from kailab.cluster.protocol import EventType, Object
from kailab.cluster.unreadable_objects import UnreadableObjects
from kailab.model import labels
from kailab.model.objects import ENDED_PHASES, Key, annotations_of, is_ready, is_terminating, uid_of
from kailab.model.times import parse_time

Slot: TypeAlias = tuple[float, bool]
"""When a timer fires, and whether it is prompt."""


def node_ready(node: Object | None) -> bool:
    """True if a node can run pods: its Ready condition is True, or it reports none."""
    return node is not None and is_ready(node, unreported=True)


def _other_end(before: Object, now: Object) -> bool:
    """True if a pod is to end at another time, or in another way."""
    # Most changes of a pod are of its status, and leave its annotations alone.
    if before["metadata"].get("annotations") == now["metadata"].get("annotations"):
        return False
    old, new = annotations_of(before), annotations_of(now)
    return any(old.get(key) != new.get(key) for key in (labels.RUN_SECONDS, labels.FAIL))


def _timer(slot: Slot) -> str:
    return f"kubelet {slot[0]!r} {slot[1]}"


class Kubelet:
    """Runs the pods of all nodes of a store. It has soft state only, which ``restore`` rebuilds from the objects."""

    def __init__(self, store: ObjectStore, clock: VirtualClock, deletion: Deletion, event: Callable[..., None]) -> None:
        """``event``: the method of the cluster that records Events."""
        self._store = store
        self._event = event
        self._unreadable = UnreadableObjects(event, "kubelet")
        self._clock = clock
        self._deletion = deletion
        self.on_node: dict[str, dict[Key, None]] = {}
        self._due: dict[Slot, dict[str, list[tuple[Callable[[Key, Object], None], Key]]]] = {}  # slot -> uid -> stages
        self._slots: dict[str, dict[Slot, None]] = {}  # uid -> the slots with a stage of it
        store.hook("Pod", self._on_change)

    def restore(self) -> None:
        """Resume every pod of the store where it is."""
        for key, pod in self._store.table("Pod").objects.items():
            if pod["spec"].get("nodeName"):
                self._arrived(key, pod)
                if is_terminating(pod):
                    self.leave(key, pod)

    # --- changes of pods -----------------------------------------------------------------------------------------------

    def _on_change(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        # The change is stored already: an error raised here would reach the writer as if the write had been refused.
        try:
            self._pod_changed(type, key, old, new)
        except Exception as error:
            assert new is not None
            self._unreadable.note(new, error)

    def _pod_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        assert new is not None
        spec, meta = new["spec"], new["metadata"]
        if type == "DELETED":
            if node := spec.get("nodeName"):
                self.on_node.get(node, {}).pop(key, None)
                self._forget(meta["uid"])
            return
        before = old["spec"] if old else {}
        node = spec.get("nodeName")
        # Most changes are of the status and share the spec, so identity saves the comparison.
        if spec is not before and node and not before.get("nodeName"):
            self._arrived(key, new)
        elif node and spec is not before and spec.get("activeDeadlineSeconds") != before.get("activeDeadlineSeconds"):
            self.consider(key, new)
        if node and "deletionTimestamp" in meta:
            was = old["metadata"] if old else {}
            if was.get("deletionTimestamp") != meta["deletionTimestamp"]:
                self.leave(key, new)
            elif _newly_done(was, meta) and saving_seconds(new) is not None:
                # Prompt: nothing is left to wait for, unlike the stage that ``leave`` has set for the end of saving.
                self._at(self._clock.now, True, self._saved, key, new)
        elif node and old and _other_end(old, new):
            self._forget(meta["uid"])
            self.consider(key, new)

    def _arrived(self, key: Key, pod: Object) -> None:
        self.on_node.setdefault(pod["spec"]["nodeName"], {})[key] = None
        self.consider(key, pod)

    def consider(self, key: Key, pod: Object) -> None:
        """Set the timer for the next stage of a bound pod's life."""
        if not node_ready(self._node_of(pod)):
            return
        phase = (pod.get("status") or {}).get("phase", "Pending")
        if phase == "Pending":
            notes = annotations_of(pod)
            delay = seconds_of(notes.get(labels.READY_SECONDS), READY_SECONDS) if notes else READY_SECONDS
            assert delay is not None
            # From the binding on record in the pod, so that a resumed lab goes on at the same time.
            since = pod_status.bound_at(pod) or self._clock.now // 1
            # Settling waits for the start of a pod, unless that takes very long.
            self._at(since + delay, delay <= LONGEST_START, self._become_ready, key, pod)
        elif phase == "Running":
            self._plan_end(key, pod)

    def _plan_end(self, key: Key, pod: Object) -> None:
        deadline, began = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
        if deadline is not None and began:
            self._at(parse_time(began) + deadline, False, self._exceed, key, pod)
        notes = pod["metadata"].get("annotations")
        # Most pods run for ever and have no such annotations.
        if not notes or not (labels.RUN_SECONDS in notes or labels.FAIL in notes):
            return
        statuses = pod["status"].get("containerStatuses") or [{}]
        state = statuses[0].get("state") or {}
        if waiting := state.get("waiting"):
            ended = (statuses[0].get("lastState") or {}).get("terminated", {}).get("finishedAt")
            if waiting and ended:
                pause = backoff_seconds(statuses[0].get("restartCount", 1))
                self._at(parse_time(ended) + pause, False, self._restart, key, pod)
            return
        started = (state.get("running") or {}).get("startedAt")
        if not started:
            return
        since = parse_time(started)
        runs = seconds_of(notes.get(labels.RUN_SECONDS), None)
        fails = seconds_of(str(notes[labels.FAIL]).partition(":")[0], None) if labels.FAIL in notes else None
        # On a tie it fails, as on real clusters (``cluster.stages.ENDING``).
        if fails is not None and (runs is None or fails <= runs):
            self._at(since + fails, False, self._fail, key, pod)
        elif runs is not None:
            self._at(since + runs, False, self._complete, key, pod)

    def leave(self, key: Key, pod: Object) -> None:
        if not node_ready(self._node_of(pod)):
            return  # no kubelet is there to stop it
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds") or 0
        # The deletionTimestamp is the end of the grace period.
        began = parse_time(meta["deletionTimestamp"]) - grace
        # A grace period beyond the calendar does not tell when it began.
        if began < parse_time(meta["creationTimestamp"]):
            began = self._clock.now
        saving = saving_seconds(pod)
        stage = self._stopped if saving is None else self._saved if saving <= grace else self._cut_off
        # At once, without a timer: a pod deleted without grace has ended when the deletion returns.
        if grace == 0:
            stage(key, pod)
            return
        if saving is not None:
            self._at(began + min(saving, grace), False, stage, key, pod)
            return
        stopping = stopping_seconds(pod, grace)
        self._at(
            began + min(TERMINATION_SECONDS if stopping is None else stopping, grace), stopping is None, stage, key, pod
        )

    # --- timers -----------------------------------------------------------------------------------------------------

    def _at(self, when: float, prompt: bool, stage: Callable[[Key, Object], None], key: Key, pod: Object) -> None:
        # What fell due while the lab was closed or the node away is due now.
        slot = (max(when, self._clock.now), prompt)
        uid = uid_of(pod)
        due = self._due.get(slot)
        # One timer for all pods of a slot: thousands become ready in the same second.
        if due is None:
            due = self._due[slot] = {}
            self._clock.call_at(slot[0], partial(self._run, slot), prompt=prompt, key=_timer(slot))
        due.setdefault(uid, []).append((stage, key))
        self._slots.setdefault(uid, {})[slot] = None

    def _run(self, slot: Slot) -> None:
        pods = self._store.table("Pod").objects
        # Removed first: a stage may set the next one for the same time.
        for uid, stages in self._due.pop(slot).items():
            if (slots := self._slots.get(uid)) is not None:
                slots.pop(slot, None)
                if not slots:
                    del self._slots[uid]
            for stage, key in stages:
                pod = pods.get(key)
                # A new pod of the same name has stages of its own.
                if pod is not None and uid_of(pod) == uid:
                    self._unreadable.try_handling(pod, stage, key, pod)

    def _forget(self, uid: str) -> None:
        """Drop the stages of a pod that is gone."""
        for slot in self._slots.pop(uid, ()):
            if (due := self._due.get(slot)) is not None:
                due.pop(uid, None)
                # Otherwise settling would wait for a timer without stages.
                if not due:
                    del self._due[slot]
                    self._clock.cancel(_timer(slot))

    # --- stages -----------------------------------------------------------------------------------------------------

    def _node_of(self, pod: Object) -> Object | None:
        return self._store.find("Node", ("", pod["spec"]["nodeName"]))

    def _write(self, key: Key, pod: Object, status: Object) -> Object:
        return self._store.replace("Pod", key, pod, {**pod, "status": status})

    def _usable(self, pod: Object, phase: str) -> bool:
        # A stage stays planned when its pod changes; when it is due it checks whether it still applies.
        if pod["status"].get("phase") != phase or is_terminating(pod):
            return False
        return node_ready(self._node_of(pod))

    def _become_ready(self, key: Key, pod: Object) -> None:
        if not self._usable(pod, "Pending"):
            return
        node = self._node_of(pod)
        assert node is not None
        new = self._write(key, pod, pod_status.started_pod(pod, node, self._clock.stamp()))
        # Most pods run for ever, and have neither.
        if new["metadata"].get("annotations") or new["spec"].get("activeDeadlineSeconds") is not None:
            self._plan_end(key, new)

    def _complete(self, key: Key, pod: Object) -> None:
        if not self._usable(pod, "Running"):
            return
        if pod["spec"].get("restartPolicy", "Always") == "Always":
            self._crash(key, pod, CODE_COMPLETED, COMPLETED)
        else:
            self._end(key, pod, "Succeeded", CODE_COMPLETED, COMPLETED)

    def _fail(self, key: Key, pod: Object) -> None:
        if not self._usable(pod, "Running"):
            return
        reason, code = failure(str(pod["metadata"]["annotations"].get(labels.FAIL, "")))
        if pod["spec"].get("restartPolicy", "Always") == "Never":
            self._end(key, pod, "Failed", code, reason)
        else:
            self._crash(key, pod, code, reason)

    def _exceed(self, key: Key, pod: Object) -> None:
        """The pod's deadline has passed, unless it was extended."""
        deadline = pod["spec"].get("activeDeadlineSeconds")
        if deadline is None or not self._usable(pod, "Running"):
            return
        if self._clock.now < parse_time(pod["status"]["startTime"]) + deadline:
            return
        status = pod_status.ended_pod(pod, "Failed", CODE_STOPPED, ERROR, self._clock.stamp())
        self._write(key, pod, {**status, "reason": DEADLINE_EXCEEDED, "message": DEADLINE_MESSAGE})

    def _end(self, key: Key, pod: Object, phase: str, code: int, reason: str) -> None:
        self._write(key, pod, pod_status.ended_pod(pod, phase, code, reason, self._clock.stamp()))

    def _crash(self, key: Key, pod: Object, code: int, reason: str) -> None:
        self._plan_end(key, self._write(key, pod, pod_status.crashed_pod(pod, code, reason, self._clock.stamp())))

    def _restart(self, key: Key, pod: Object) -> None:
        statuses = pod["status"].get("containerStatuses") or ()
        if self._usable(pod, "Running") and any("waiting" in c["state"] for c in statuses):
            self._plan_end(key, self._write(key, pod, pod_status.restarted_pod(pod, self._clock.stamp())))

    def _saved(self, key: Key, pod: Object) -> None:
        self._record(CHECKPOINTED, pod)
        self._stopped(key, pod)

    def _cut_off(self, key: Key, pod: Object) -> None:
        self._record(CHECKPOINT_LOST, pod)
        self._stopped(key, pod)

    def _record(self, event: PodEvent, pod: Object) -> None:
        self._event(pod, event.type, event.reason, event.message, "kubelet")

    def _stopped(self, key: Key, pod: Object) -> None:
        """The containers of a deleted pod have ended: it goes, or waits for its finalizers as an ended pod."""
        if not is_terminating(pod):
            return
        if not pod["metadata"].get("finalizers"):
            self._deletion.remove("Pod", key, pod)
            return
        if pod["status"].get("phase") not in ENDED_PHASES:
            self._end(key, pod, "Failed", CODE_STOPPED, ERROR)
            ended = self._store.find("Pod", key)
            if ended is None:
                return
            pod = ended
        # Without grace left, the write that removes the last finalizer removes the pod (``Deletion.finish``).
        if pod["metadata"].get("deletionGracePeriodSeconds"):
            meta = {**pod["metadata"], "deletionGracePeriodSeconds": 0}
            self._store.replace("Pod", key, pod, {**pod, "metadata": meta})


def _newly_done(was: Object, meta: Object) -> bool:
    """True if a pod has just reported that its state is saved."""
    done = labels.CHECKPOINT_DONE
    return done in (meta.get("annotations") or ()) and done not in (was.get("annotations") or ())
