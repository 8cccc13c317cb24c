"""The embedded cluster: a kube-apiserver, a kubelet and a clock in one Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kailab.cluster.base_objects import base_objects
from kailab.cluster.embedded import pod_status
from kailab.cluster.embedded.admission import Admission
from kailab.cluster.embedded.clock import EPOCH, VirtualClock
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.nodes.kubelet import Kubelet
from kailab.cluster.embedded.nodes.node_lifecycle import NodeLifecycle
from kailab.cluster.embedded.storage.state_file import collection_paused, read_state, write_state
from kailab.cluster.embedded.storage.store import ObjectStore, Reference, store_key
from kailab.cluster.embedded.updates import SERVER_FIELDS, Updates
from kailab.cluster.embedded.volumes import VolumeBinder
from kailab.cluster.memorywatch import MemoryWatch
from kailab.cluster.protocol import EventSeverity, Object, Outcomes, write_sequentially
from kailab.cluster.selectors import matches, selector_of
from kailab.cluster.writes import Chain, Subresource
from kailab.errors import AlreadyExists, Conflict, Forbidden, StateError
from kailab.model.defaults import pod_only_defaults
from kailab.model.objects import is_terminating, labels_of, name_of, namespace_of

Objects: TypeAlias = list[Object]
Names: TypeAlias = list[str]


class EmbeddedCluster:
    """Implements ``cluster.protocol.Cluster`` and ``VirtualTime``.

    A write that changes nothing is no write (same resourceVersion, no watch event). Only
    ``patch(subresource="status")`` changes the status; ``create`` drops it (except for nodes and kinds unknown to
    kailab). Namespaces must exist. Dependents are deleted with their owners at once.

    ``start``: the clock's start, in seconds since the epoch.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._begin(start, ObjectStore())
        for obj in base_objects():
            self.create(obj)

    def _begin(self, start: float, store: ObjectStore) -> None:
        self.store = store
        self._refusals: list[tuple[str, str, str]] = []
        self.clock = VirtualClock(start)
        self._admission = Admission(self.store)
        self._deletion = Deletion(self.store, self.clock)
        self._updates = Updates(self.store, self._admission, self._deletion, self.create)
        self.kubelet = Kubelet(self.store, self.clock, self._deletion, self.event)
        self._volumes = VolumeBinder(store, self.create, partial(self.event, component="ephemeral_volume"))
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
        """Let time pass. Controllers are not stepped; to step them in between, advance to one timer after the other."""
        self.clock.advance(seconds)

    def advance_to(self, when: float) -> None:
        """Let time pass until a time. If that is past, only overdue timers run."""
        self.clock.advance_to(when)

    def next_timer(self) -> float | None:
        """The time of the next timer, prompt or not."""
        return self.clock.next_timer()

    def next_prompt(self) -> float | None:
        """The time of the next prompt timer, which settling waits for."""
        return self.clock.next_prompt()

    @property
    def version(self) -> int:
        return self.store.version

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        key = store_key(kind, name, namespace)
        # The store has Events that somebody created as objects; the log has those recorded by ``event``.
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                return self.store.events.records[identity].materialise()
        return self.store.get(kind, key)

    def list(self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> Objects:
        selector = selector_of(labels)
        table = self.store.existing_table(kind)
        objects = table.listing(namespace, selector) if table else []
        if kind != "Event":
            return objects
        made = [r.materialise() for r in self.store.events if namespace is None or r.namespace == namespace]
        # Recorded events have no labels, so only an empty or negative selector finds them.
        objects = objects + [event for event in made if matches(selector, None)]
        return sorted(objects, key=lambda event: (namespace_of(event), name_of(event)))

    def kinds(self) -> Names:
        """Keys of the kinds that have objects, sorted."""
        kinds = set(self.store.kinds_with_objects())
        if not self.store.events.empty:
            kinds.add("Event")
        return sorted(kinds)

    def watch(self, kinds: Iterable[str] | None = None) -> MemoryWatch:
        """See ``Cluster``. Existing objects come kind by kind in the order given, oldest first."""
        wanted = self.kinds() if kinds is None else list(dict.fromkeys(kinds))
        backlog: list[tuple[str, Sequence[Object]]] = []
        for kind in wanted:
            if table := self.store.existing_table(kind):
                backlog.append((kind, tuple(table.objects.values())))
            if kind == "Event":
                backlog.append((kind, [recorded.materialise() for recorded in self.store.events]))
        # A watch of everything also sees kinds without objects so far.
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
        meta = {k: v for k, v in obj["metadata"].items() if v is not None and k not in SERVER_FIELDS}
        meta["name"] = name
        if namespace:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        admitted = self._admission.new(kind, {**obj, "metadata": meta}, name)
        # The store fills in the metadata in place, so it must be a dict of our own. ``meta`` is one; admission may have
        # replaced it.
        if admitted["metadata"] is not meta:
            admitted = {**admitted, "metadata": dict(admitted["metadata"])}
        if kind == "Namespace":
            # The API server sets this label itself: selectors of namespaces rely on it.
            labels = labels_of(admitted)
            admitted["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}
        # Last, as in an API server: nothing is counted that another rule refuses.
        self._admission.quotas.check(kind, admitted, name)
        return self.store.insert(kind, (namespace, name), admitted, self.clock.stamp())

    def create_admitted(self, kind: str, obj: Object) -> Object:
        """As ``create``, for a controller in this process that makes an object from an admitted template.

        ``obj`` is complete except for server fields (name or generateName, namespace, spec, phase). It and its metadata
        are fresh dicts, and a pod's spec has its priority.
        """
        meta = obj["metadata"]
        namespace = meta["namespace"]
        # The owner is in this namespace, so the namespace exists; it refuses new objects only while it is being deleted.
        if self._deletion.is_leaving(namespace):
            self._admission.namespace(kind, namespace, True)
        name = meta.get("name")
        if not name:
            name = meta["name"] = self.store.generate_name(kind, namespace, meta["generateName"])
        elif self.store.find(kind, (namespace, name)) is not None:
            raise AlreadyExists(f"{kind} {name!r} already exists in namespace {namespace}")
        self._admission.quotas.check(kind, obj, name)
        return self.store.insert(kind, (namespace, name), obj, self.clock.stamp())

    def admit_pod_spec(self, spec: Object, name: str, namespace: str, trusted: bool = False) -> Object:
        """A pod spec with everything that admission adds in a namespace, for ``create_admitted``. Raises as ``create``
        would.

        ``trusted``: the spec is from a validated template with defaults, so only what its classes add is missing.
        """
        if trusted:
            return self._admission.complete_pod_spec(pod_only_defaults(spec), name, namespace)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
        return self._admission.new("Pod", pod, name)["spec"]

    def dependents(self, owner_uid: str, kind: str) -> Objects:
        """Objects of a kind with this owner, oldest reference first."""
        owned = self.store.dependents.of(owner_uid)
        if not owned:
            return []
        table = self.store.table(kind).objects
        return [table[key] for owned_kind, key in owned if owned_kind == kind]

    # --- changing ---------------------------------------------------------------------------------------------------

    def update(self, obj: Object) -> Object:
        return self._updates.update(obj)

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: Subresource = ""
    ) -> Object:
        return self._updates.patch(kind, store_key(kind, name, namespace), patch, subresource)

    def replace_status(self, kind: str, obj: Object, status: Object) -> Object:
        """Replace the whole status of a stored object (current, as returned by the cluster): cheaper than a patch."""
        meta = obj["metadata"]
        return self.store.replace(kind, (meta.get("namespace", ""), meta["name"]), obj, {**obj, "status": status})

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        return self._updates.apply(obj)

    # --- deleting ---------------------------------------------------------------------------------------------------

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        key = store_key(kind, name, namespace)
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                record = self.store.events.records.pop(identity)
                self.store.hub.publish_lazily("DELETED", "Event", record.materialise)
                return
        self._deletion.delete(kind, key, self.store.get(kind, key), grace_seconds)

    def refuse_binds(self, namespace: str, prefix: str, message: str) -> None:
        """For tests: from now on, refuse to bind the pods of a namespace whose names begin with ``prefix``, as a
        webhook would (Forbidden, with ``message``). No object and no file records this. Forks inherit it.
        """
        self._refusals.append((namespace, prefix, message))

    # --- pods -------------------------------------------------------------------------------------------------------

    def bind(
        self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None, uid: str = ""
    ) -> None:
        key = (namespace, pod)
        old = self.store.get("Pod", key, uid)
        # As in Kubernetes, the node need not exist: a pod can be bound to any name.
        if bound_node := old["spec"].get("nodeName"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is bound to node {bound_node!r} already")
        if is_terminating(old):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is being deleted and can't be bound")
        if old["spec"].get("schedulingGates"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} has scheduling gates and can't be bound")
        for where, prefix, message in self._refusals:
            if namespace == where and pod.startswith(prefix):
                raise Forbidden(message)
        self.store.replace("Pod", key, old, pod_status.bound_pod(old, node, annotations, self.clock.stamp()))

    def evict(
        self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None, uid: str = ""
    ) -> None:
        key = (namespace, pod)
        old = self.store.get("Pod", key, uid)
        if is_terminating(old):
            return
        # The condition first: the deletion may end the pod at once, and its last state says why it went.
        marked = self.store.replace("Pod", key, old, pod_status.disrupted_pod(old, reason, message, self.clock.stamp()))
        self._deletion.delete("Pod", key, marked, grace_seconds)

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        return write_sequentially(self, chains)

    def event(
        self, involved: Object, type: EventSeverity, reason: str, message: str, component: str = "kai-scheduler"
    ) -> None:
        store = self.store
        # Events count as versions of all objects, as on a real server.
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
        """The cluster saved in a file, its timers set from its objects. Raises StateError."""
        try:
            with collection_paused():
                return cls.restore(read_state(Path(path)))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise StateError(f"{path}: damaged: {error!r}; start afresh with `kailab down` and `kailab up`") from error

    def dump(self) -> dict[str, Any]:
        """The whole cluster as plain data; equal for equal histories."""
        store = self.store
        return {
            "now": self.clock.now,
            "version": store.version,
            "uids": store.uids,
            "names": store.names,
            "objects": {kind: list(store.table(kind).objects.values()) for kind in store.kinds_with_objects()},
            "events": store.events.dump(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], *, read_only: bool = False) -> EmbeddedCluster:
        """The cluster of a ``dump`` or of ``read_state``. ``read_only``: it can't be changed, and unpacks only what is
        asked for."""
        # Not by __init__: the base objects are among the restored ones, and would take uids and versions a second time.
        cluster = cls.__new__(cls)
        store = ObjectStore()
        cluster._begin(float(state["now"]), store)
        store.version = int(state["version"])
        store.uids = int(state["uids"])
        store.names = dict(state["names"])
        for kind, objects in state["objects"].items():
            store.restore(kind, objects)
        store.events.restore(state["events"])
        if read_only:
            # No kubelet and no timers: nothing may change, and they would unpack everything.
            store.sealed = True
            return cluster
        # Owner references of packed objects are unknown, and the kubelet must see every pod.
        store.complete()
        cluster._take_up()
        return cluster

    def fork(self, without: Iterable[Reference] = ()) -> EmbeddedCluster:
        """An independent copy of this cluster: objects, time, counters, refused binds. ``without``: objects to
        leave out, with everything that only they own; the copy reports no deletion of them.
        """
        forked = EmbeddedCluster.__new__(EmbeddedCluster)
        forked._begin(self.clock.now, self.store.fork(without))
        forked._refusals = self._refusals.copy()
        # Timers are not copied: their actions belong to this cluster's kubelet. They are set from the objects.
        forked._take_up()
        return forked

    def _take_up(self) -> None:
        """Rebuild from the objects what is not saved."""
        self._deletion.restore()
        self._admission.quotas.restore()
        self.kubelet.restore()
        self._nodes.restore()
