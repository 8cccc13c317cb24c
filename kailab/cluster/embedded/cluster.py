"""The embedded cluster: a kube-apiserver, a kubelet and a clock in one Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from kailab.cluster.embedded import podwrites
from kailab.cluster.embedded.admission import Admission, invalid
from kailab.cluster.embedded.bootstrap import base_objects
from kailab.cluster.embedded.clock import EPOCH, VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.kubelet import Kubelet
from kailab.cluster.embedded.merge import apply_patch, merge_patch, same
from kailab.cluster.embedded.nodes import NodeLifecycle
from kailab.cluster.embedded.persistence import collection_paused, read_state, write_state
from kailab.cluster.embedded.store import Store
from kailab.cluster.embedded.table import Key
from kailab.cluster.memorywatch import MemoryWatch
from kailab.cluster.protocol import Object, WatchEvent
from kailab.cluster.selectors import matches, selector_of
from kailab.cluster.writes import Chain, Outcome, in_turn
from kailab.errors import AlreadyExists, Conflict, Invalid, NotFound, StateError
from kailab.model.kinds import KINDS
from kailab.model.times import format_time
from kailab.model.validation import validate_status
from kailab.model.validation.fields import Faults
from kailab.model.validation.metadata import check_notes

Objects: TypeAlias = list[Object]
Names: TypeAlias = list[str]
Outcomes: TypeAlias = list[Outcome]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_encode = msgspec.json.Encoder(order="sorted").encode

# Metadata that is the server's; what a client sends of it is passed over.
_SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class EmbeddedCluster:
    """Implements ``cluster.protocol.Cluster`` and ``VirtualTime``.

    Semantics of note: a write that changes nothing is no write (same resourceVersion, no watch event); ``status`` is
    touched only by ``patch(subresource="status")``, and what ``create`` is given of it is dropped (but for nodes and
    kinds unknown to kailab); namespaces must exist; dependents go with their owners at once.

    ``start``: seconds since the epoch the clock begins at.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._begin(start)
        for obj in base_objects():
            self.create(obj)

    def _begin(self, start: float) -> None:
        self.store = Store()
        self.clock = VirtualClock(start)
        self._admission = Admission(self.store)
        self._deletion = Deletion(self.store, self.clock)
        self.kubelet = Kubelet(self.store, self.clock, self._deletion, self.event)
        self._nodes = NodeLifecycle(self.store, self.clock, self._deletion, self.kubelet)

    @property
    def name(self) -> str:
        return "embedded"

    # --- time -------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        return self.clock.now

    def call_at(self, when: float, action: Callable[[], None], *, prompt: bool = True, key: str = "") -> None:
        """See ``VirtualTime``. A timer with a ``key`` replaces the earlier one with that key."""
        self.clock.call_at(when, action, prompt=prompt, key=key)

    def advance(self, seconds: float) -> None:
        """Let time pass. Controllers are not stepped: to have them act in between, go from timer to timer."""
        self.clock.advance(seconds)

    def advance_to(self, when: float) -> None:
        """Let time pass until a moment; nothing happens if that is past (but what is overdue runs)."""
        self.clock.advance_to(when)

    def next_timer(self) -> float | None:
        """When the next timer falls due, prompt or not."""
        return self.clock.next_timer()

    def next_prompt(self) -> float | None:
        """When the next prompt timer falls due: the time settling waits for."""
        return self.clock.next_prompt()

    def _stamp(self) -> str:
        return format_time(self.clock.now // 1)

    # --- reading ----------------------------------------------------------------------------------------------------

    @staticmethod
    def _key(kind: str, name: str, namespace: str | None) -> Key:
        known = KINDS.get(kind)
        if known is not None:
            return (namespace or "default" if known.namespaced else "", name)
        return (namespace or "", name)

    def _stored(self, kind: str, key: Key) -> Object:
        obj = self.store.find(kind, key)
        if obj is None:
            place = f" in namespace {key[0]}" if key[0] else ""
            raise NotFound(f"{kind} {key[1]!r} not found{place}")
        return obj

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        key = self._key(kind, name, namespace)
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                return self.store.events.records[identity].materialise()
        return self._stored(kind, key)

    def list(self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> Objects:
        selector = selector_of(labels)
        table = self.store.there(kind)
        found = table.listing(namespace, selector) if table else []
        if kind != "Event":
            return found
        made = [r.materialise() for r in self.store.events if namespace is None or r.namespace == namespace]
        found = found + [event for event in made if matches(selector, None)]
        return sorted(found, key=lambda event: (event["metadata"]["namespace"], event["metadata"]["name"]))

    def kinds(self) -> Names:
        """Keys of the kinds of which there are objects, sorted."""
        there = set(self.store.filled())
        if not self.store.events.empty:
            there.add("Event")
        return sorted(there)

    def watch(self, kinds: Iterable[str] | None = None) -> MemoryWatch:
        """See ``Cluster``. What is there already comes kind by kind in the order given, oldest object first."""
        wanted = self.kinds() if kinds is None else list(dict.fromkeys(kinds))
        backlog: list[WatchEvent] = []
        for kind in wanted:
            if table := self.store.there(kind):
                backlog.extend([WatchEvent("ADDED", kind, obj) for obj in table.objects.values()])
            if kind == "Event":
                backlog.extend([WatchEvent("ADDED", kind, r.materialise()) for r in self.store.events])
        return self.store.hub.open(None if kinds is None else wanted, backlog)

    # --- creating ---------------------------------------------------------------------------------------------------

    def create(self, obj: Object) -> Object:
        kind, namespace, name = self._admission.identify(obj)
        if name and self.store.find(kind, (namespace, name)) is not None:
            place = f" in namespace {namespace}" if namespace else ""
            raise AlreadyExists(f"{kind} {name!r} already exists{place}")
        self._admission.namespace(kind, namespace, self._deletion.is_leaving(namespace))
        if not name:
            name = self.store.generate_name(kind, namespace, obj["metadata"]["generateName"])
        meta = {k: v for k, v in obj["metadata"].items() if v is not None and k not in _SERVER_FIELDS}
        meta["name"] = name
        if namespace:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        admitted = self._admission.new(kind, {**obj, "metadata": meta}, name)
        if admitted["metadata"] is not meta:
            admitted = {**admitted, "metadata": dict(admitted["metadata"])}
        if kind == "Namespace":
            labels = admitted["metadata"].get("labels") or {}
            admitted["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}
        return self.store.insert(kind, (namespace, name), admitted, self._stamp())

    def create_admitted(self, kind: str, obj: Object) -> Object:
        """For the controllers beside the cluster: as ``create``, for an object made from a template that was admitted.

        ``obj`` is complete but for what the server fills in (name or generateName, namespace, spec, phase), it and its
        metadata are fresh dicts, and a pod's spec has its priority.
        """
        meta = obj["metadata"]
        namespace = meta["namespace"]
        if self._deletion.is_leaving(namespace):
            self._admission.namespace(kind, namespace, True)
        name = meta.get("name")
        if not name:
            name = meta["name"] = self.store.generate_name(kind, namespace, meta["generateName"])
        elif self.store.find(kind, (namespace, name)) is not None:
            raise AlreadyExists(f"{kind} {name!r} already exists in namespace {namespace}")
        return self.store.insert(kind, (namespace, name), obj, self._stamp())

    def admit_pod_spec(self, spec: Object, name: str, trusted: bool = False) -> Object:
        """A pod spec with all that admission adds to it; raises as ``create`` would. For ``create_admitted``.

        ``trusted``: it stood in a template that was checked and defaulted, so only its priority is to be filled in.
        """
        if trusted:
            return self._admission.prioritised(spec, name)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        admitted: Object = self._admission.new("Pod", pod, name)["spec"]
        return admitted

    def dependents(self, owner_uid: str, kind: str) -> Objects:
        """Objects of a kind that name this owner, oldest reference first."""
        owned = self.store.dependents.get(owner_uid)
        if not owned:
            return []
        table = self.store.table(kind).objects
        return [table[key] for there, key in owned if there == kind]

    # --- changing ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _expect_version(kind: str, key: Key, given: Any, stored: Object) -> None:
        if given and given != stored["metadata"]["resourceVersion"]:
            raise Conflict(
                f"{kind} {key[1]!r} has been changed: resourceVersion {given} was given, "
                f"{stored['metadata']['resourceVersion']} is stored; read it again and repeat the change"
            )

    def update(self, obj: Object) -> Object:
        kind, namespace, name = self._admission.identify(obj)
        key = (namespace, name)
        old = self._stored(kind, key)
        self._expect_version(kind, key, obj["metadata"].get("resourceVersion"), old)
        return self._change(kind, key, old, {**obj, "metadata": dict(obj["metadata"])})

    def _change(self, kind: str, key: Key, old: Object, new: Object) -> Object:
        """Store a new state of all but the status, if it differs. ``new`` is a fresh dict."""
        before = old["metadata"]
        meta = new["metadata"]
        if meta is not before:
            meta = {k: v for k, v in meta.items() if v is not None and k not in _SERVER_FIELDS}
            meta["name"] = key[1]
            if key[0]:
                meta["namespace"] = key[0]
            for field in _SERVER_FIELDS:
                if field in before:
                    meta[field] = before[field]
            self._check_metadata(kind, key, before, meta)
            new["metadata"] = before if same(meta, before) else meta
        if kind in KINDS:
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        if any(new.get(field) is not value for field, value in old.items() if field not in ("metadata", "status")) or (
            new.keys() != old.keys()
        ):
            new = self._admission.changed(kind, old, new, key[1])
        if same(new, old):
            return old
        if not same(new.get("spec"), old.get("spec")):
            new = {**new, "metadata": {**new["metadata"], "generation": before.get("generation", 0) + 1}}
        elif new is old:
            new = dict(new)
        stored = self.store.replace(kind, key, old, new)
        if "deletionTimestamp" in stored["metadata"]:
            self._deletion.finish(kind, key, stored)
        return stored

    @staticmethod
    def _check_metadata(kind: str, key: Key, before: Object, meta: Object) -> None:
        """What is new of labels and annotations: what was admitted stays, whoever changes something else."""
        faults = Faults()
        check_notes(faults, {field: _news(meta.get(field), before.get(field)) for field in ("labels", "annotations")})
        if faults.found:
            raise invalid(kind, key[1], *faults.found[0])

    def patch(
        self,
        kind: str,
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],
        subresource: Literal["", "status"] = "",
    ) -> Object:
        key = self._key(kind, name, namespace)
        old = self._stored(kind, key)
        if not isinstance(patch, Mapping):
            raise Invalid(f"{kind} {name!r}: a patch is a mapping, not {type(patch).__name__}")
        for field in ("metadata", "status"):
            if not isinstance(patch.get(field, {}), Mapping) and (field == "metadata" or patch[field] is not None):
                raise invalid(kind, name, field, "expected a mapping")
        if given := (patch.get("metadata") or {}).get("resourceVersion"):
            self._expect_version(kind, key, given, old)
        if subresource == "status":
            status = merge_patch(old.get("status"), patch.get("status") or {})
            if status is old.get("status") or (not status and "status" not in old):
                return old
            if faults := validate_status(status, kind):
                raise invalid(kind, name, f"status.{faults[0].field}", faults[0].message)
            return self.store.replace(kind, key, old, {**old, "status": status})
        merged = merge_patch(old, patch)
        if merged is old:
            return old
        return self._change(kind, key, old, merged)

    def replace_status(self, kind: str, obj: Object, status: Object) -> Object:
        """Set the whole status of a stored object (as given by the cluster, current): cheaper than a patch."""
        meta = obj["metadata"]
        return self.store.replace(kind, (meta.get("namespace", ""), meta["name"]), obj, {**obj, "status": status})

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        kind, namespace, name = self._admission.identify(obj)
        if not name:
            raise Invalid(f"{kind}: metadata.name: apply needs a name (create takes generateName)", "metadata.name")
        key = (namespace, name)
        old = self.store.find(kind, key)
        applied = {k: v for k, v in obj.items() if k != "status"}
        meta = {k: v for k, v in obj["metadata"].items() if k not in _SERVER_FIELDS}
        notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
        if notes or "annotations" in meta:
            meta["annotations"] = notes
        applied["metadata"] = meta
        try:
            text = _encode(applied).decode()
        except (TypeError, ValueError) as error:
            raise Invalid(f"{kind} {name!r}: not JSON: {error}") from None
        record = {**meta, "annotations": {**notes, LAST_APPLIED: text}}
        if old is None:
            created = {**applied, "metadata": record}
            if "status" in obj:
                created["status"] = obj["status"]
            return self.create(created), "created"
        self._expect_version(kind, key, obj["metadata"].get("resourceVersion"), old)
        before = (old["metadata"].get("annotations") or {}).get(LAST_APPLIED)
        last = msgspec.json.decode(before) if before else {}
        last.pop("status", None)
        new = apply_patch(old, last, {**applied, "metadata": record})
        result = old if new is old else self._change(kind, key, old, dict(new))
        return result, "unchanged" if result is old else "configured"

    # --- deleting ---------------------------------------------------------------------------------------------------

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        key = self._key(kind, name, namespace)
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                gone = self.store.events.records.pop(identity)
                self.store.hub.publish_lazily("DELETED", "Event", gone.materialise)
                return
        self._deletion.delete(kind, key, self._stored(kind, key), grace_seconds)

    # --- pods -------------------------------------------------------------------------------------------------------

    def bind(self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        key = (namespace, pod)
        old = self._stored("Pod", key)
        if there := old["spec"].get("nodeName"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is bound to node {there!r} already")
        if "deletionTimestamp" in old["metadata"]:
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is being deleted and can't be bound")
        if old["spec"].get("schedulingGates"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} has scheduling gates and can't be bound")
        self.store.replace("Pod", key, old, podwrites.bound(old, node, annotations, self._stamp()))

    def evict(self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None) -> None:
        key = (namespace, pod)
        old = self._stored("Pod", key)
        if "deletionTimestamp" in old["metadata"]:
            return
        marked = self.store.replace("Pod", key, old, podwrites.disrupted(old, reason, message, self._stamp()))
        self._deletion.delete("Pod", key, marked, grace_seconds)

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        return in_turn(self, chains)

    def event(
        self,
        involved: Object,
        type: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        component: str = "kai-scheduler",
    ) -> None:
        store = self.store
        store.version += 1
        record, new = store.events.record(
            involved, type, reason, message, component, self.clock.now, store.version, store.new_uid
        )
        store.hub.publish_lazily("ADDED" if new else "MODIFIED", "Event", record.materialise)

    # --- keeping ----------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write the whole cluster to a file, atomically. Raises StateError."""
        write_state(Path(path), self.dump())

    @classmethod
    def load(cls, path: Path | str) -> EmbeddedCluster:
        """The cluster saved in a file, its timers set anew from its objects. Raises StateError."""
        try:
            with collection_paused():
                return cls.restore(read_state(Path(path)))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise StateError(f"{path}: damaged: {error!r}; start afresh with `kailab down` and `kailab up`") from error

    def dump(self) -> dict[str, Any]:
        """All there is to know of the cluster, as plain data; equal for equal histories."""
        store = self.store
        return {
            "now": self.clock.now,
            "version": store.version,
            "uids": store.uids,
            "names": store.names,
            "objects": {kind: list(store.table(kind).objects.values()) for kind in store.filled()},
            "events": store.events.dump(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], *, to_look: bool = False) -> EmbeddedCluster:
        """The cluster that a ``dump`` was taken of, or that ``read_state`` read. ``to_look``: it can't be changed, and takes in
        only what is asked for."""
        cluster = cls.__new__(cls)
        cluster._begin(float(state["now"]))
        store = cluster.store
        store.version = int(state["version"])
        store.uids = int(state["uids"])
        store.names = dict(state["names"])
        for kind, objects in state["objects"].items():
            store.restore(kind, objects)
        store.events.restore(state["events"])
        if to_look:
            store.sealed = True
            return cluster
        store.complete()
        cluster._deletion.restore()
        cluster.kubelet.restore()
        cluster._nodes.restore()
        return cluster


def _news(after: Any, before: Any) -> Any:
    """Entries that were not there before."""
    if after is before:
        return None
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    return {key: value for key, value in after.items() if before.get(key) != value}
