"""Deletion with grace periods, finalizers, dependents and namespaces, as the API server and the garbage collector do
it.

An object with finalizers, or a pod with running containers, gets a deletionTimestamp and stays until the last finalizer
is removed and the kubelet is done. When an owner is gone, objects that only it owned are deleted at once (like
background deletion, without the delay). A namespace goes when it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.embedded.clock import VirtualClock
from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import EventType, Object
from kailab.errors import Invalid
from kailab.model.kinds import key_of
from kailab.model.objects import ENDED_PHASES, Key, is_terminating, owner_references, uid_of
from kailab.model.times import format_time

# The namespaces that the NamespaceLifecycle admission plugin protects, as far as a lab has them.
PERMANENT_NAMESPACES = ("default", "kube-system")
DEFAULT_GRACE = 30  # Kubernetes' default of terminationGracePeriodSeconds


class Deletion:
    """Deletes objects from a store, one rule for all kinds."""

    def __init__(self, store: ObjectStore, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        self._leaving: dict[str, int] = {}  # terminating namespace -> objects still in it
        # A hook sees every removal, so the last one in a namespace is noticed whoever makes it.
        store.hook("*", self._changed)

    def restore(self) -> None:
        """Resume the namespaces that were terminating when the store was saved."""
        self._leaving = {
            name: self._count(name)
            for (_, name), obj in self._store.table("Namespace").objects.items()
            if is_terminating(obj)
        }

    def is_leaving(self, namespace: str) -> bool:
        return namespace in self._leaving

    def delete(self, kind: str, key: Key, obj: Object, grace: float | None) -> None:
        """Begin the deletion of a stored object, or complete it if nothing holds the object."""
        if kind == "Pod":
            self._delete_pod(key, obj, grace)
        elif kind == "Namespace":
            self._delete_namespace(key, obj)
        elif obj["metadata"].get("finalizers"):
            if not is_terminating(obj):
                self._mark(kind, key, obj, 0)
        else:
            self.remove(kind, key, obj)

    def finish(self, kind: str, key: Key, obj: Object) -> bool:
        """Remove an object marked for deletion if nothing holds it any more; True if it was removed."""
        meta = obj["metadata"]
        if "deletionTimestamp" not in meta or meta.get("finalizers"):
            return False
        if kind == "Pod" and meta.get("deletionGracePeriodSeconds"):
            return False
        if kind != "Namespace":
            self.remove(kind, key, obj)
        elif self._leaving.get(key[1]):
            return False
        else:
            self._end_namespace(key, obj)
        return True

    def pod_grace(self, pod: Object, grace: float | None) -> int:
        """Seconds that a pod gets to leave: 0 if no kubelet runs it or it has ended, else ``grace``, else its own."""
        phase = (pod.get("status") or {}).get("phase")
        if not pod["spec"].get("nodeName") or phase in ENDED_PHASES:
            return 0
        if grace is None:
            grace = pod["spec"].get("terminationGracePeriodSeconds")
        return DEFAULT_GRACE if grace is None else max(int(grace), 0)

    def _delete_pod(self, key: Key, pod: Object, grace: float | None) -> None:
        meta = pod["metadata"]
        seconds = self.pod_grace(pod, grace)
        if "deletionTimestamp" in meta:
            left = meta.get("deletionGracePeriodSeconds", 0)
            # Kubernetes lets a second deletion shorten the grace period, never lengthen it.
            if seconds < left:
                pod = self._mark("Pod", key, pod, seconds)
                if self._store.find("Pod", key) is not pod:
                    return  # the kubelet has ended a pod with no grace left
        elif seconds or meta.get("finalizers"):
            pod = self._mark("Pod", key, pod, seconds)
        else:
            self.remove("Pod", key, pod)
            return
        # A second deletion without grace removes a pod even if its node is gone and no kubelet answers (kubectl delete
        # --force).
        self.finish("Pod", key, pod)

    def _mark(self, kind: str, key: Key, obj: Object, seconds: int) -> Object:
        meta = dict(obj["metadata"])
        # The end of the grace period, as in Kubernetes, not the time of the deletion.
        meta["deletionTimestamp"] = format_time(self._clock.now + seconds)
        if kind == "Pod":
            meta["deletionGracePeriodSeconds"] = seconds
        new = {**obj, "metadata": meta}
        if kind == "Namespace":
            new["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return self._store.replace(kind, key, obj, new)

    def remove(self, kind: str, key: Key, obj: Object) -> None:
        """Remove an object at once, then everything that only it owned."""
        self._store.remove(kind, key)
        # A copy: each removed dependent changes the index.
        for dependent_kind, dependent_key in list(self._store.dependents.of(uid_of(obj))):
            dependent = self._store.find(dependent_kind, dependent_key)
            if dependent is not None:
                self._orphaned(dependent_kind, dependent_key, dependent, uid_of(obj))

    def _orphaned(self, kind: str, key: Key, obj: Object, owner_uid: str) -> None:
        others = [owner for owner in owner_references(obj) if owner.get("uid") != owner_uid]
        if any(self._exists(owner, key[0]) for owner in others):
            meta = {**obj["metadata"], "ownerReferences": others}
            self._store.replace(kind, key, obj, {**obj, "metadata": meta})
        # A dependent that is terminating already goes at its own pace.
        elif not is_terminating(obj):
            self.delete(kind, key, obj, None)

    def _exists(self, owner: Mapping[str, Any], namespace: str) -> bool:
        kind = key_of(owner.get("apiVersion", ""), owner.get("kind", ""))
        # An owner reference has no namespace: the owner is in the dependent's namespace, or cluster-wide.
        for key in ((namespace, owner.get("name", "")), ("", owner.get("name", ""))):
            obj = self._store.find(kind, key)
            if obj is not None and uid_of(obj) == owner.get("uid"):
                return True
        return False

    # --- namespaces -------------------------------------------------------------------------------------------------

    def _delete_namespace(self, key: Key, obj: Object) -> None:
        name = key[1]
        if name in PERMANENT_NAMESPACES:
            raise Invalid(f"namespace {name!r} may not be deleted", "metadata.name")
        if is_terminating(obj):
            return
        obj = self._mark("Namespace", key, obj, 0)
        # One more than there are: the namespace must not go before this loop ends.
        self._leaving[name] = self._count(name) + 1
        for kind in self._store.kinds_with_objects():
            for inner in [k for k in self._store.table(kind).objects if k[0] == name]:
                inner_obj = self._store.find(kind, inner)
                # It may have gone with an owner that this loop deleted earlier.
                if inner_obj is not None and not is_terminating(inner_obj):
                    self.delete(kind, inner, inner_obj, None)
        self._left(name)

    def _count(self, namespace: str) -> int:
        return sum(
            1
            for kind in self._store.kinds_with_objects()
            for key in self._store.table(kind).objects
            if key[0] == namespace
        )

    def _changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED" and self._leaving and key[0] in self._leaving:
            self._left(key[0])

    def _left(self, namespace: str) -> None:
        """Count an object less in a terminating namespace; the last one removes the namespace."""
        self._leaving[namespace] -= 1
        if self._leaving[namespace] > 0:
            return
        key = ("", namespace)
        obj = self._store.find("Namespace", key)
        if obj is None or obj["metadata"].get("finalizers"):
            return
        self._end_namespace(key, obj)

    def _end_namespace(self, key: Key, obj: Object) -> None:
        # Events of the log are no objects of the store, so they are not counted; they end with their namespace.
        self._store.events.drop_namespace(key[1])
        self._leaving.pop(key[1], None)
        self.remove("Namespace", key, obj)
