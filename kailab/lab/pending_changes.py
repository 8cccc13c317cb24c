"""Changes that are certain to come on a real cluster, though nothing changes at the moment.

With a virtual clock a lab knows that nothing is left to do. On a real cluster other processes act in their own time, so a lab is quiet if
no such change is expected and nothing has changed for a little while. A Job that replaces its pods after a back-off does not count,
because that may take minutes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kailab.cluster.pod_lifecycle import READY_SECONDS, TERMINATION, TERMINATION_SECONDS, seconds_of
from kailab.cluster.protocol import Object, WatchEvent
from kailab.model import labels
from kailab.model.objects import condition_of, has_condition, is_ready

KINDS = ("Node", "Deployment", "ReplicaSet", "StatefulSet", "Job", "PodGroup", "Pod", "Queue")
PROMPT_SECONDS = 10.0
"""A pod that declares a longer time than this for its start or end is not waited for."""

_OWNERS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_NOTHING: dict[str, Any] = {}


class PendingChanges:
    """Takes watch events; ``named`` lists the expected changes. ``considers``: whether the scheduler under test has to give an unbound pod a
    node or a reason. ``operated``: kinds that operators act on."""

    def __init__(self, considers: Callable[[Object], bool], operated: Sequence[str] = ()) -> None:
        self._objects: dict[str, dict[str, Object]] = {kind: {} for kind in (*KINDS, *operated)}
        self._considers = considers
        self._operated = tuple(operated)

    def take(self, event: WatchEvent) -> None:
        known, uid = self._objects[event.kind], event.object["metadata"]["uid"]
        if event.type == "DELETED":
            known.pop(uid, None)
        else:
            known[uid] = event.object

    def named(self) -> list[str]:
        """Sorted, as ``Pod default/a is starting``; empty if no change is expected."""
        return sorted({*self._of_operators(), *self._of_owners(), *self._of_pods()})

    @property
    def has_unbegun_jobs(self) -> bool:
        """Whether a Job that should have pods has had none yet. They are certain to come, but perhaps late: the Job controller keeps the
        back-off after failed pods by a Job's name, so it may delay a new Job of the same name."""
        alive = self._alive()
        return any(
            not alive[job["metadata"]["uid"]] and self._lacks_pods(job)
            for job in self._objects["Job"].values()
            if not (job.get("status") or _NOTHING).get("succeeded")
        )

    # --- operators ---------------------------------------------------------------------------------------------------

    def _of_operators(self) -> Iterator[str]:
        """Objects of which their operator has written no status. Jobs and pods that it makes of them count for themselves."""
        for kind in self._operated:
            for obj in self._objects[kind].values():
                if "deletionTimestamp" in obj["metadata"]:
                    yield f"{kind} {_name(obj)} is leaving"
                elif not obj.get("status"):
                    yield f"{kind} {_name(obj)} is being reconciled"

    # --- controllers -------------------------------------------------------------------------------------------------

    def _of_owners(self) -> Iterator[str]:
        alive = self._alive()
        for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
            for obj in self._objects[kind].values():
                if _unfinished(obj):
                    yield f"{kind} {_name(obj)} is being reconciled"
        for job in self._objects["Job"].values():
            status = job.get("status") or _NOTHING
            if (
                not status.get("startTime")
                and not job["spec"].get("suspend")
                and not has_condition(job, "Complete", "Failed")
            ):
                yield f"Job {_name(job)} is being started"
            elif not has_condition(job, "Complete", "Failed") and self._miscounts(job, alive[job["metadata"]["uid"]]):
                yield f"Job {_name(job)} counts its pods"
            elif self._lacks_pods(job):
                yield f"Job {_name(job)} is making its pods"

    def _miscounts(self, job: Object, alive: int) -> bool:
        """Its status is late. This does not count while it keeps failed pods with finalizers: a Job controller in back-off counts those late
        (API validation refuses its update while all other pods are ready and none counts as active)."""
        status, uid = job.get("status") or _NOTHING, job["metadata"]["uid"]
        if status.get("active", 0) == alive:
            return False
        return not any(
            (pod.get("status") or _NOTHING).get("phase") == "Failed" and pod["metadata"].get("finalizers")
            for pod in self._objects["Pod"].values()
            if any(reference["uid"] == uid for reference in pod["metadata"].get("ownerReferences") or ())
        )

    def _alive(self) -> Counter[str]:
        """UID of a controller -> the number of its pods that have not ended and are not being deleted."""
        return Counter(
            reference["uid"]
            for pod in self._objects["Pod"].values()
            if "deletionTimestamp" not in pod["metadata"]
            and (pod.get("status") or _NOTHING).get("phase") not in ("Succeeded", "Failed")
            for reference in pod["metadata"].get("ownerReferences") or ()
            if reference.get("controller")
        )

    @staticmethod
    def _lacks_pods(job: Object) -> bool:
        """Whether more of its pods are certain to come."""
        spec, status = job["spec"], job.get("status") or _NOTHING
        if has_condition(job, "Complete", "Failed") or spec.get("suspend"):
            return False
        if status.get("failed"):
            return False  # it may be in back-off
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        elif status.get("succeeded"):
            return False
        return bool(status.get("active", 0) + status.get("terminating", 0) < wanted)

    # --- pods --------------------------------------------------------------------------------------------------------

    def _of_pods(self) -> Iterator[str]:
        owners = {uid for kind in _OWNERS for uid in self._objects[kind]}
        nodes = {node["metadata"]["name"]: node for node in self._objects["Node"].values()}
        for pod in self._objects["Pod"].values():
            why = self._of_pod(pod, nodes, owners)
            if why:
                yield f"Pod {_name(pod)} {why}"

    def _of_pod(self, pod: Object, nodes: dict[str, Object], owners: set[str]) -> str:
        metadata, spec = pod["metadata"], pod["spec"]
        phase = (pod.get("status") or _NOTHING).get("phase")
        node = nodes.get(spec.get("nodeName", ""))
        notes = metadata.get("annotations") or _NOTHING
        if "deletionTimestamp" in metadata:
            slow = _seconds(notes.get(TERMINATION), TERMINATION_SECONDS) > PROMPT_SECONDS or _saves(notes)
            # Only a finalizer holds an ended pod, and its owner takes its own time.
            held = metadata.get("finalizers") and phase in ("Succeeded", "Failed")
            # Pods of a missing or silent node end only when the node is given up.
            stuck = spec.get("nodeName") and (node is None or not is_ready(node, unreported=True))
            return "" if slow or held or stuck else "is leaving"
        for reference in metadata.get("ownerReferences") or ():
            # The garbage collector will delete it.
            if reference.get("controller") and reference["kind"] in _OWNERS and reference["uid"] not in owners:
                return "lost its owner"
        if phase in ("Succeeded", "Failed"):
            return ""
        if not spec.get("nodeName"):
            return "waits for the scheduler" if self._considers(pod) and not _answered(pod) else ""
        if phase == "Pending" and node is not None and is_ready(node, unreported=True):
            return "is starting" if _seconds(notes.get(labels.READY_SECONDS), READY_SECONDS) <= PROMPT_SECONDS else ""
        return ""


def _name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _unfinished(obj: Object) -> bool:
    """Whether its controller has not seen its latest generation, or has not made all replicas."""
    status, spec = obj.get("status") or _NOTHING, obj["spec"]
    if status.get("observedGeneration", 0) < obj["metadata"].get("generation", 0):
        return True
    if "deletionTimestamp" in obj["metadata"]:
        return True
    wanted = spec.get("replicas", 1)
    there = status.get("replicas", 0)
    if obj["kind"] == "StatefulSet":
        # It makes one pod after the other, each when those before it are ready.
        return bool(there > wanted or (there < wanted and status.get("readyReplicas", 0) >= there))
    return bool(there != wanted)


def _answered(pod: Object) -> bool:
    """Whether a scheduler has written a condition to it."""
    return condition_of(pod, "PodScheduled") is not None


def _seconds(text: Any, default: float) -> float:
    found = seconds_of(text, default)
    return default if found is None else found


def _saves(notes: dict[str, Any]) -> bool:
    return labels.CHECKPOINT_REQUESTED in notes and _seconds(notes.get(labels.CHECKPOINT_SECONDS), 0) > PROMPT_SECONDS
