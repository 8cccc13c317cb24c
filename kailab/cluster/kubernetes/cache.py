"""What is known of the watched kinds: the server's news and the answers to our own writes, brought into one order.

All of it happens in the thread that uses the cluster. Three rules make what is read here safe to decide on:

* an answer to a write counts at once, so nobody decides twice on what was there before it;
* of two states of an object the one with the higher resourceVersion holds, whichever way it came;
* a pod bound here is bound, from the server's yes on, though the watch may tell of older states first; one of which nobody
  knows whether it was bound counts as bound until the server has said what is true. So does one of which nobody knows
  whether it was created where it was to be: it is *supposed* to be there.

*Assumed* annotations of a pod are ours alone until the pod is bound: the binding carries them to the server, which saves a
write for each pod.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TypeAlias

from kailab.cluster.kubernetes.informer import InformerUpdate, WriteInquiry
from kailab.cluster.memorywatch import MemoryWatch, WatchHub
from kailab.cluster.protocol import Object, WatchEvent

Key: TypeAlias = tuple[str, str]
Objects: TypeAlias = dict[Key, Object]
_REMEMBERED = 50_000


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def version_of(obj: Object) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)


class ObjectCache:
    """Objects by kind and key. A kind is there from its first list on."""

    def __init__(self) -> None:
        self.hub = WatchHub()
        self.kinds: dict[str, Objects] = {}
        self._gone: dict[str, None] = {}  # UIDs of what we deleted and the server has not told as deleted yet
        self.assumed: dict[str, dict[str, str]] = {}  # uid -> annotations that the server does not have yet
        self._bound: dict[str, str] = {}  # uid -> node, of pods bound here that the watch does not show as bound yet
        self._unanswered: dict[str, int] = {}  # uid -> number of the latest question about an object
        self._supposed: set[str] = set()  # made-up UIDs
        self._untold: dict[str, None] = {}  # UIDs of what we created and the server has not told of yet

    def open(self, kinds: Iterable[str] | None) -> MemoryWatch:
        """A watch, begun with what is there."""
        wanted = list(self.kinds) if kinds is None else list(kinds)
        # By age and name, as far as a server tells the order of creation: the same objects give the same news.
        backlog = [WatchEvent("ADDED", kind, obj) for kind in wanted for obj in self._by_age(kind)]
        return self.hub.open(None if kinds is None else wanted, backlog)

    def _by_age(self, kind: str) -> list[Object]:
        return sorted(
            self.kinds.get(kind, {}).values(), key=lambda obj: (obj["metadata"]["creationTimestamp"], key_of(obj))
        )

    def begin(self, kind: str) -> None:
        """A kind that the server does not have: no objects, and none will come."""
        self.kinds.setdefault(kind, {})

    def take(self, news: InformerUpdate) -> None:
        """One piece of news from the server."""
        if news.type == "LISTED":
            self._listed(news)
        elif news.type == "DELETED":
            self._remove(news.kind, news.object)
        elif news.type == "LOOKED_UP":
            self._looked_up(news)
        elif news.type != "REFUSED":
            self._untold.pop(news.object["metadata"].get("uid", ""), None)
            self.put(news.kind, news.object)

    def _listed(self, news: InformerUpdate) -> None:
        known = self.kinds.setdefault(news.kind, {})
        there = {key_of(obj): obj["metadata"]["uid"] for obj in news.listed}
        for key, obj in list(known.items()):
            uid = obj["metadata"]["uid"]
            # A list says nothing of an object that was made after it was taken: one that we created and that no watch has told of yet.
            later = uid in self._supposed or (uid in self._untold and version_of(obj) > news.version)
            if there.get(key) != uid and not later:
                self._remove(news.kind, obj)
        for obj in news.listed:
            self._untold.pop(obj["metadata"]["uid"], None)
            self.put(news.kind, obj)

    def created(self, kind: str, obj: Object) -> Object:
        """The server's answer: an object that was not there before. Lists older than it say nothing about it."""
        if kind in self.kinds:
            self._untold[obj["metadata"]["uid"]] = None
        return self.put(kind, obj)

    def suppose(self, pod: Object, now: str) -> str:
        """A pod may have been created, with a node in its spec. Returns the UID under which it counts from ``now`` on; ""
        if another one is known under its name."""
        if key_of(pod) in self.kinds.get("Pod", {}):
            return ""
        uid = f"supposed-{uuid.uuid4()}"
        self._supposed.add(uid)
        self.put("Pod", {**pod, "metadata": {**pod["metadata"], "uid": uid, "creationTimestamp": now}})
        return uid

    def put(self, kind: str, obj: Object) -> Object:
        """A state of an object: kept, and told to the watchers, unless a newer one is known. Returns what holds."""
        known = self.kinds.get(kind)
        # Of kinds that nobody watches nothing is kept.
        if known is None:
            return obj
        metadata = obj["metadata"]
        uid = metadata.get("uid", "")
        # A watch that lags tells of it once more. What the server said is gone stays gone.
        if uid in self._gone:
            return obj
        key = key_of(obj)
        before = known.get(key)
        # Deleted and made anew under its name, with the news of the deletion not here yet (or never to come: a gap).
        if before is not None and before["metadata"].get("uid") != uid:
            if version_of(before) > version_of(obj):
                return before  # late news of one that was there under this name before
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
        # A watch may still bring a state from before the binding: a pod that looked free again would be bound twice.
        if pod["spec"].get("nodeName"):
            del self._bound[uid]
            return pod
        return {**pod, "spec": {**pod["spec"], "nodeName": self._bound[uid]}}

    def _as_assumed(self, uid: str, pod: Object) -> Object:
        metadata = pod["metadata"]
        there = metadata.get("annotations") or {}
        lacking = {key: value for key, value in self.assumed[uid].items() if there.get(key) != value}
        # The server has them: from now on what it says is what holds, also when somebody removes them.
        if not lacking:
            del self.assumed[uid]
            return pod
        return {**pod, "metadata": {**metadata, "annotations": {**there, **lacking}}}

    def assume(self, namespace: str, name: str, annotations: dict[str, str]) -> Object | None:
        """The pod with these annotations, from now on, for us; None if it is not known."""
        pods = self.kinds.get("Pod", {})
        pod = pods.get((namespace, name))
        if pod is None:
            return None
        uid = pod["metadata"]["uid"]
        self.assumed[uid] = {**self.assumed.get(uid, {}), **annotations}
        pods[namespace, name] = pod = self._as_assumed(uid, pod)
        self.hub.publish("MODIFIED", "Pod", pod)
        return pod

    def forget_assumed(self) -> None:
        """Pods look again as the server has them."""
        assumed, self.assumed = self.assumed, {}
        pods = self.kinds.get("Pod", {})
        for key, pod in [(key, pod) for key, pod in pods.items() if pod["metadata"]["uid"] in assumed]:
            metadata = pod["metadata"]
            ours = assumed[metadata["uid"]]
            # What somebody else has written under the same name meanwhile is not ours to take away.
            kept = {name: value for name, value in metadata["annotations"].items() if ours.get(name) != value}
            pods[key] = pod = {**pod, "metadata": {**metadata, "annotations": kept}}
            self.hub.publish("MODIFIED", "Pod", pod)

    def bound(self, namespace: str, name: str, uid: str, node: str) -> None:
        """The server has bound a pod, or may have, or is asked to."""
        pods = self.kinds.get("Pod", {})
        pod = pods.get((namespace, name))
        if pod is None or pod["metadata"].get("uid") != uid or pod["spec"].get("nodeName"):
            return
        # A question from before this write says nothing about it.
        self._unanswered.pop(uid, None)
        self._bound[uid] = node
        pods[namespace, name] = pod = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self.hub.publish("MODIFIED", "Pod", pod)

    def not_bound(self, namespace: str, name: str, uid: str) -> None:
        """The server has not bound a pod that it was asked to bind: it waits again."""
        if self._bound.pop(uid, None) is not None:
            self._give_back((namespace, name), uid)

    def _give_back(self, key: Key, uid: str) -> bool:
        """Show a pod without the node that it was to have. Returns whether it is there."""
        pods = self.kinds.get("Pod", {})
        pod = pods.get(key)
        if pod is None or pod["metadata"].get("uid") != uid:
            return False
        pods[key] = pod = {**pod, "spec": {name: value for name, value in pod["spec"].items() if name != "nodeName"}}
        self.hub.publish("MODIFIED", "Pod", pod)
        return True

    def doubt(self, doubt: WriteInquiry) -> None:
        """The answer to this question, and to none before it, will say what became of a write."""
        self._unanswered[doubt.uid] = doubt.number

    def _looked_up(self, news: InformerUpdate) -> None:
        """What the server has under the name of an object of which we were in doubt: itself, another one, nothing. Watchers
        are told, even if it is what they knew."""
        if news.doubt is None:
            return
        key, uid, number = news.doubt
        # The answer to an earlier question may come after a later write, and settles nothing about that.
        latest = self._unanswered.get(uid) == number
        if latest:
            del self._unanswered[uid]
        known = self.kinds.get(news.kind, {})
        before = known.get(key)
        # In any case: the pod that was made, if it was, has a UID of its own.
        if uid in self._supposed and before is not None:
            self._remove(news.kind, before)
        there = bool(news.object) and news.object["metadata"].get("uid") == uid
        # It was not bound after all, and waits again.
        if latest and uid in self._bound and not (there and news.object["spec"].get("nodeName")):
            del self._bound[uid]
            if self._give_back(key, uid):
                before = known.get(key)
                latest = False  # told
        if news.object and self.put(news.kind, news.object) is before and before is not None and latest:
            self.hub.publish("MODIFIED", news.kind, before)

    def deleted(self, kind: str, namespace: str, name: str) -> None:
        """The server says that an object is gone at once."""
        obj = self.kinds.get(kind, {}).get((namespace, name))
        if obj is not None and obj["metadata"].get("uid", "") not in self._supposed:
            self._gone[obj["metadata"].get("uid", "")] = None
            if len(self._gone) > _REMEMBERED:  # told of in a gap between two watches
                del self._gone[next(iter(self._gone))]
            self._remove(kind, obj, told=False)

    def _remove(self, kind: str, obj: Object, told: bool = True) -> None:
        """``told``: by the server, so nothing older will come."""
        uid = obj["metadata"].get("uid", "")
        if told:
            self._gone.pop(uid, None)
        self._bound.pop(uid, None)
        self._unanswered.pop(uid, None)
        self._supposed.discard(uid)
        self._untold.pop(uid, None)
        self.assumed.pop(uid, None)
        known = self.kinds.get(kind, {})
        before = known.get(key_of(obj))
        if before is not None and before["metadata"].get("uid") == uid:
            del known[key_of(obj)]
            self.hub.publish("DELETED", kind, before if before["metadata"].get("deletionTimestamp") else obj)


def _sharing(before: Object, after: Object) -> Object:
    """The new state with the parts that did not change taken from the old one: less memory, and "is it the same" becomes
    a question of identity for all that follow."""
    for part in ("spec", "status"):
        if part in after and before.get(part) == after[part]:
            after[part] = before[part]
    old, new = before["metadata"], after["metadata"]
    for part in ("labels", "annotations", "ownerReferences"):
        if part in new and old.get(part) == new[part]:
            new[part] = old[part]
    return after
