"""The known state of the watched kinds: the server's events and the answers to our own writes, in one order.

Everything here happens in the thread that uses the cluster. Three rules make it safe to decide on this state:

* An answer to a write counts at once, so that nobody decides twice on the state before it.
* Of two states of an object the one with the higher resourceVersion wins, whichever way it came.
* A pod bound here stays bound from the server's answer on, although the watch may deliver older states first. If it is unknown whether a pod was
  bound, it counts as bound until the server says what is true. If it is unknown whether a pod was created on a node, it is *supposed* to be there.

*Assumed* annotations of a pod are known only here until the pod is bound: the binding carries them to the server, which
saves a write for each pod.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TypeAlias

from kailab.cluster.kubernetes.informer import InformerUpdate, WriteInquiry
from kailab.cluster.memorywatch import MemoryWatch, WatchHub
from kailab.cluster.protocol import Object
from kailab.model.objects import Key, annotations_of, is_terminating, node_of, object_key, uid_of

Objects: TypeAlias = dict[Key, Object]
_REMEMBERED = 50_000


def version_of(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class ObjectCache:
    """Objects by kind and key. A kind is in it from its first list on."""

    def __init__(self) -> None:
        self.hub = WatchHub()
        self.kinds: dict[str, Objects] = {}
        self._gone: dict[str, None] = {}  # UIDs of objects deleted here whose deletion no watch has reported yet
        self.assumed: dict[str, dict[str, str]] = {}  # uid -> annotations that the server does not have yet
        self._bound: dict[str, str] = {}  # uid -> node, of pods bound here that the watch does not show as bound yet
        self._unanswered: dict[str, int] = {}  # uid -> number of the latest inquiry about an object
        self._supposed: set[str] = set()  # UIDs invented for pods that may have been created
        self._unreported: dict[str, None] = {}  # UIDs of objects created here that no watch has reported yet

    def open(self, kinds: Iterable[str] | None) -> MemoryWatch:
        """A watch that begins with the known objects."""
        wanted = list(self.kinds) if kinds is None else list(kinds)
        # By age and name, as far as a server reports the order of creation: the same objects give the same events.
        return self.hub.open(None if kinds is None else wanted, [(kind, self._by_age(kind)) for kind in wanted])

    def _by_age(self, kind: str) -> list[Object]:
        return sorted(
            self.kinds.get(kind, {}).values(), key=lambda obj: (obj["metadata"]["creationTimestamp"], object_key(obj))
        )

    def begin(self, kind: str) -> None:
        """A kind that the server does not have: no objects."""
        self.kinds.setdefault(kind, {})

    def process_update(self, update: InformerUpdate) -> None:
        if update.type == "LISTED":
            self._process_listed(update)
        elif update.type == "DELETED":
            self._remove(update.kind, update.object)
        elif update.type == "LOOKED_UP":
            self._process_looked_up(update)
        elif update.type != "REFUSED":
            self._unreported.pop(uid_of(update.object), None)
            self.put(update.kind, update.object)

    def _process_listed(self, update: InformerUpdate) -> None:
        known = self.kinds.setdefault(update.kind, {})
        uids = {object_key(obj): uid_of(obj) for obj in update.listed}
        for key, obj in list(known.items()):
            uid = uid_of(obj)
            # A list says nothing about an object created after it, such as one created here that no watch has reported
            # yet.
            later = uid in self._supposed or (uid in self._unreported and version_of(obj) > update.version)
            if uids.get(key) != uid and not later:
                self._remove(update.kind, obj)
        for obj in update.listed:
            self._unreported.pop(uid_of(obj), None)
            self.put(update.kind, obj)

    def record_created(self, kind: str, obj: Object) -> Object:
        """Process the answer to a create. Lists older than the object say nothing about it."""
        if kind in self.kinds:
            self._unreported[uid_of(obj)] = None
        return self.put(kind, obj)

    def record_supposed(self, pod: Object, now: str) -> str:
        """Count a pod that may have been created, with a node in its spec, from ``now`` on. Returns its invented UID;
        "" if another pod is known under its name."""
        if object_key(pod) in self.kinds.get("Pod", {}):
            return ""
        uid = f"supposed-{uuid.uuid4()}"
        self._supposed.add(uid)
        self.put("Pod", {**pod, "metadata": {**pod["metadata"], "uid": uid, "creationTimestamp": now}})
        return uid

    def put(self, kind: str, obj: Object) -> Object:
        """Store a state of an object and report it to the watchers, unless a newer one is known. Returns the current
        state."""
        known = self.kinds.get(kind)
        # Kinds that nobody watches are not stored.
        if known is None:
            return obj
        metadata = obj["metadata"]
        uid = metadata.get("uid", "")
        # A slow watch may report it once more; what the server reported as deleted stays deleted.
        if uid in self._gone:
            return obj
        key = object_key(obj)
        before = known.get(key)
        # Deleted and created again under its name, while the event of the deletion is late (or lost in a gap).
        if before is not None and uid_of(before) != uid:
            if version_of(before) > version_of(obj):
                return before  # late event of an earlier object of this name
            self._remove(kind, before)
            before = None
        if before is not None:
            if version_of(obj) <= version_of(before):
                return before
            obj = _sharing(before, obj)
        if kind == "Pod":
            if uid in self._bound:
                obj = self._as_bound(uid, obj)
            if uid in self.assumed:
                obj = self._as_assumed(uid, obj)
        known[key] = obj
        self.hub.publish("ADDED" if before is None else "MODIFIED", kind, obj)
        return obj

    def _as_bound(self, uid: str, pod: Object) -> Object:
        # A watch may still deliver a state from before the binding: a pod that looked unbound again would be bound
        # twice.
        if pod["spec"].get("nodeName"):
            del self._bound[uid]
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeName": self._bound[uid]}}

    def _as_assumed(self, uid: str, pod: Object) -> Object:
        present = annotations_of(pod)
        lacking = {key: value for key, value in self.assumed[uid].items() if present.get(key) != value}
        # The server has the annotations, so from now on its state counts, also if somebody removes them.
        if not lacking:
            del self.assumed[uid]
            return pod
        return {**pod, "metadata": {**pod["metadata"], "annotations": {**present, **lacking}}}

    def assume(self, namespace: str, name: str, uid: str, annotations: dict[str, str]) -> Object | None:
        """Show the pod with these annotations from now on; None if it is not known."""
        pod = self._pod((namespace, name), uid)
        if pod is None:
            return None
        self.assumed[uid] = {**self.assumed.get(uid, {}), **annotations}
        return self._show(self._as_assumed(uid, pod))

    def forget_assumed(self) -> None:
        """Show pods as on the server again."""
        assumed, self.assumed = self.assumed, {}
        for pod in [pod for pod in self.kinds.get("Pod", {}).values() if uid_of(pod) in assumed]:
            ours = assumed[uid_of(pod)]
            # Keep values that somebody else has written under the same names meanwhile.
            remaining = {name: value for name, value in annotations_of(pod).items() if ours.get(name) != value}
            self._show({**pod, "metadata": {**pod["metadata"], "annotations": remaining}})

    def mark_bound(self, namespace: str, name: str, uid: str, node: str) -> None:
        """From now on count a pod as bound: the server has bound it, may have, or is asked to."""
        pod = self._pod((namespace, name), uid)
        if pod is None or node_of(pod):
            return
        # An inquiry from before this write says nothing about it.
        self._unanswered.pop(uid, None)
        self._bound[uid] = node
        self._show({**pod, "spec": {**pod["spec"], "nodeName": node}})

    def mark_unbound(self, namespace: str, name: str, uid: str) -> None:
        """The server has not bound a pod that it was asked to bind: the pod waits again."""
        if self._bound.pop(uid, None) is not None:
            self._give_back((namespace, name), uid)

    def _give_back(self, key: Key, uid: str) -> bool:
        """Show a pod without the node that it was to be bound to. True if the pod is known."""
        pod = self._pod(key, uid)
        if pod is None:
            return False
        self._show({**pod, "spec": {name: value for name, value in pod["spec"].items() if name != "nodeName"}})
        return True

    def _pod(self, key: Key, uid: str) -> Object | None:
        pod = self.kinds.get("Pod", {}).get(key)
        return pod if pod is not None and uid_of(pod) == uid else None

    def _show(self, pod: Object) -> Object:
        """Store a state of a known pod that the server does not have, and report it to the watchers."""
        self.kinds["Pod"][object_key(pod)] = pod
        self.hub.publish("MODIFIED", "Pod", pod)
        return pod

    def record_inquiry(self, inquiry: WriteInquiry) -> None:
        """Record an inquiry: only its answer, and none of an earlier one, tells the result of the write."""
        self._unanswered[inquiry.uid] = inquiry.number

    def _process_looked_up(self, update: InformerUpdate) -> None:
        """Process the answer to an inquiry: the object itself, another one of its name, or none. Watchers get an event
        even if nothing changed."""
        if update.inquiry is None:
            return
        key, uid, number = update.inquiry
        # The answer to an earlier inquiry may come after a later write, and then decides nothing.
        latest = self._unanswered.get(uid) == number
        if latest:
            del self._unanswered[uid]
        known = self.kinds.get(update.kind, {})
        before, notified = known.get(key), False
        # The supposed pod goes in any case, because a pod that was created has a UID of its own.
        if uid in self._supposed and before is not None:
            self._remove(update.kind, before)
        exists = bool(update.object) and uid_of(update.object) == uid
        # It was not bound, and waits again.
        if latest and uid in self._bound and not (exists and update.object["spec"].get("nodeName")):
            del self._bound[uid]
            if self._give_back(key, uid):
                before, notified = known.get(key), True
        if (
            update.object
            and self.put(update.kind, update.object) is before
            and before is not None
            and latest
            and not notified
        ):
            self.hub.publish("MODIFIED", update.kind, before)

    def record_deleted(self, kind: str, namespace: str, name: str) -> None:
        """The server reports that an object is deleted."""
        obj = self.kinds.get(kind, {}).get((namespace, name))
        if obj is not None and uid_of(obj) not in self._supposed:
            self._gone[uid_of(obj)] = None
            if len(self._gone) > _REMEMBERED:  # deletions may be lost in a gap between two watches
                del self._gone[next(iter(self._gone))]
            self._remove(kind, obj, reported=False)

    def _remove(self, kind: str, obj: Object, reported: bool = True) -> None:
        """``reported``: reported by the server, so nothing older will come."""
        uid = uid_of(obj)
        if reported:
            self._gone.pop(uid, None)
        self._bound.pop(uid, None)
        self._unanswered.pop(uid, None)
        self._supposed.discard(uid)
        self._unreported.pop(uid, None)
        self.assumed.pop(uid, None)
        known = self.kinds.get(kind, {})
        before = known.get(object_key(obj))
        if before is not None and uid_of(before) == uid:
            del known[object_key(obj)]
            self.hub.publish("DELETED", kind, before if is_terminating(before) else obj)


def _sharing(before: Object, after: Object) -> Object:
    """The new state, with unchanged parts taken from the old one: it saves memory, and callers can compare by identity."""
    for part in ("spec", "status"):
        if part in after and before.get(part) == after[part]:
            after[part] = before[part]
    old, new = before["metadata"], after["metadata"]
    for part in ("labels", "annotations", "ownerReferences"):
        if part in new and old.get(part) == new[part]:
            new[part] = old[part]
    return after
