"""The embedded cluster: a kube-apiserver, a kubelet and a clock in one Python object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from kailab.cluster.embedded.storage.store import ObjectStore, Reference, key_of
from kailab.cluster.embedded.updates import SERVERS, Updates
from kailab.cluster.memorywatch import MemoryWatch
from kailab.cluster.protocol import Object, Severity, WatchEvent
from kailab.cluster.selectors import matches, selector_of
from kailab.cluster.writes import Chain, Subresource, WriteOutcome, write_sequentially
from kailab.errors import AlreadyExists, Conflict, Forbidden, StateError
from kailab.model.defaults import with_host_ports
from kailab.model.times import format_time

Objects: TypeAlias = list[Object]
Names: TypeAlias = list[str]
Outcomes: TypeAlias = list[WriteOutcome]


class EmbeddedCluster:
    """Implements ``cluster.protocol.Cluster`` and ``VirtualTime``.

    Semantics of note: a write that changes nothing is no write (same resourceVersion, no watch event); ``status`` is
    touched only by ``patch(subresource="status")``, and what ``create`` is given of it is dropped (but for nodes and
    kinds unknown to kailab); namespaces must exist; dependents go with their owners at once.

    ``start``: seconds since the epoch the clock begins at.
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
        # Kubernetes keeps whole seconds. Cut, not rounded: what counts from a time on record must not count from one to
        # come.
        return format_time(self.clock.now // 1)

    @property
    def version(self) -> int:
        return self.store.version

    # --- reading ----------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        key = key_of(kind, name, namespace)
        # Events that somebody created as objects are in the store; those told by ``event`` are records of the log.
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                return self.store.events.records[identity].materialise()
        return self.store.get(kind, key)

    def list(self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> Objects:
        selector = selector_of(labels)
        table = self.store.there(kind)
        found = table.listing(namespace, selector) if table else []
        if kind != "Event":
            return found
        made = [r.materialise() for r in self.store.events if namespace is None or r.namespace == namespace]
        # Recorded events have no labels: a selector finds them only where it asks for none.
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
        # A watch of everything also sees kinds of which there is nothing yet.
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
        meta = {k: v for k, v in obj["metadata"].items() if v is not None and k not in SERVERS}
        meta["name"] = name
        if namespace:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        admitted = self._admission.new(kind, {**obj, "metadata": meta}, name)
        # The store fills in the metadata in place, so it must be a dict of our own. ``meta`` is one; of what admission
        # has made of it nothing is known.
        if admitted["metadata"] is not meta:
            admitted = {**admitted, "metadata": dict(admitted["metadata"])}
        if kind == "Namespace":
            # The API server sets this label itself: selectors of namespaces rely on it.
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
        # The owner stands in this namespace, so it is there; only one that is being terminated refuses.
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

        ``trusted``: it stood in a template that was checked and defaulted, so only what its classes say is to be filled in.
        """
        if trusted:
            return self._admission.completed(with_host_ports(spec), name)
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

    def update(self, obj: Object) -> Object:
        return self._updates.update(obj)

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: Subresource = ""
    ) -> Object:
        return self._updates.patch(kind, key_of(kind, name, namespace), patch, subresource)

    def replace_status(self, kind: str, obj: Object, status: Object) -> Object:
        """Set the whole status of a stored object (as given by the cluster, current): cheaper than a patch."""
        meta = obj["metadata"]
        return self.store.replace(kind, (meta.get("namespace", ""), meta["name"]), obj, {**obj, "status": status})

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        return self._updates.apply(obj)

    # --- deleting ---------------------------------------------------------------------------------------------------

    def delete(self, kind: str, name: str, namespace: str | None = None, grace_seconds: float | None = None) -> None:
        key = key_of(kind, name, namespace)
        if kind == "Event" and self.store.find(kind, key) is None:
            identity = self.store.events.find(key)
            if identity is not None:
                gone = self.store.events.records.pop(identity)
                self.store.hub.publish_lazily("DELETED", "Event", gone.materialise)
                return
        self._deletion.delete(kind, key, self.store.get(kind, key), grace_seconds)

    def refuse_binds(self, namespace: str, prefix: str, message: str) -> None:
        """For tests, in place of a webhook or an API server that says no: from now on the binding of every pod of a namespace whose
        name begins with ``prefix`` is refused (Forbidden) with ``message``. No object says so and no file keeps it: a lab sees the
        refusals only. They stay in force in forks."""
        self._refusals.append((namespace, prefix, message))

    # --- pods -------------------------------------------------------------------------------------------------------

    def bind(self, namespace: str, pod: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
        key = (namespace, pod)
        old = self.store.get("Pod", key)
        # As in Kubernetes, nobody looks whether the node exists: a pod can be bound to any name.
        if there := old["spec"].get("nodeName"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is bound to node {there!r} already")
        if "deletionTimestamp" in old["metadata"]:
            raise Conflict(f"Pod {pod!r} in namespace {namespace} is being deleted and can't be bound")
        if old["spec"].get("schedulingGates"):
            raise Conflict(f"Pod {pod!r} in namespace {namespace} has scheduling gates and can't be bound")
        for where, prefix, message in self._refusals:
            if namespace == where and pod.startswith(prefix):
                raise Forbidden(message)
        self.store.replace("Pod", key, old, pod_status.bound_pod(old, node, annotations, self._stamp()))

    def evict(self, namespace: str, pod: str, reason: str, message: str, grace_seconds: float | None = None) -> None:
        key = (namespace, pod)
        old = self.store.get("Pod", key)
        if "deletionTimestamp" in old["metadata"]:
            return
        # The condition comes first: the deletion may end the pod at once, and its last state is to say why it went.
        marked = self.store.replace("Pod", key, old, pod_status.disrupted_pod(old, reason, message, self._stamp()))
        self._deletion.delete("Pod", key, marked, grace_seconds)

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        return write_sequentially(self, chains)

    def event(
        self, involved: Object, type: Severity, reason: str, message: str, component: str = "kai-scheduler"
    ) -> None:
        store = self.store
        # Events count among the versions of all objects, as they do on a real server.
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
    def restore(cls, state: Mapping[str, Any], *, read_only: bool = False) -> EmbeddedCluster:
        """The cluster that a ``dump`` was taken of, or that ``read_state`` read. ``read_only``: it can't be changed, and takes in
        only what is asked for."""
        # Not by __init__: the base objects are among those restored, and would take uids and versions a second time.
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
            # No kubelet and no timers are set up: nothing may change, and they would unpack what nobody has asked for.
            store.sealed = True
            return cluster
        # What packed objects own is not known, and the kubelet has to see every pod.
        store.complete()
        cluster._take_up()
        return cluster

    def fork(self, without: Iterable[Reference] = ()) -> EmbeddedCluster:
        """A cluster of its own as this one is now: objects, time, counters, and what binds are refused. Whatever happens there is
        never seen here. ``without``: objects that it has not, nor what they alone own: nobody there sees them go."""
        forked = EmbeddedCluster.__new__(EmbeddedCluster)
        forked._begin(self.clock.now, self.store.fork(without))
        forked._refusals = self._refusals.copy()
        # Timers are not copied: their actions belong to this cluster's kubelet. They are set anew from the objects.
        forked._take_up()
        return forked

    def _take_up(self) -> None:
        """Set what is not kept anew from the objects."""
        self._deletion.restore()
        self.kubelet.restore()
        self._nodes.restore()
