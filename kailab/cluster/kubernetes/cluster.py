"""A cluster behind a kube-apiserver.

``get`` and ``list`` of watched kinds are answered from the cache: watch events, and answers to our own writes, which
count at once. Other kinds are requested from the server. A cluster is for one thread; its requests run side by side in
the transport's loop.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

from kailab.cluster.kubernetes.apiclient import requests
from kailab.cluster.kubernetes.apiclient.connection import Connection
from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.requests import body_of
from kailab.cluster.kubernetes.apiclient.resources import METADATA, ApiResources, list_all
from kailab.cluster.kubernetes.apiclient.transport import PATIENCE_SECONDS, HttpAnswer, Transport, refusal
from kailab.cluster.kubernetes.cache import ObjectCache
from kailab.cluster.kubernetes.eventwriter import EventWriter
from kailab.cluster.kubernetes.informer import Informer, InformerUpdate
from kailab.cluster.kubernetes.writer import ChainAnswer, UnansweredWrites, Writer
from kailab.cluster.memorywatch import MemoryWatch
from kailab.cluster.protocol import EventSeverity, Object, Outcomes, WatchEvent, find_object
from kailab.cluster.selectors import matches, selector_of
from kailab.cluster.submitted_writes import SubmittedBatch
from kailab.cluster.writes import Chain, SingleWrites
from kailab.errors import Invalid, NotFound, Unavailable
from kailab.model import kinds as known_kinds
from kailab.model.objects import labels_of, namespace_of, object_key

Objects: TypeAlias = list[Object]
Names: TypeAlias = list[str]

SYNC_SECONDS = 180.0  # for the first lists of a large cluster on a busy server
MISSING_KINDS_SECONDS = 5.0  # seconds after which a server is asked again for kinds that it lacks


class LiveWatch:
    """A watch of a real cluster: the events since the last call."""

    def __init__(self, cluster: KubernetesCluster, inner: MemoryWatch) -> None:
        self._cluster = cluster
        self._inner = inner

    def poll(self) -> list[WatchEvent]:
        self._cluster.process_updates()
        return self._inner.poll()

    def close(self) -> None:
        self._inner.close()


class KubernetesCluster(SingleWrites):
    """Implements ``Cluster`` and ``LiveUpdates``. ``version``: the server's. ``marks``: labels put on everything
    created or applied here. Raises ConnectError if the server can't be used.

    ``patience``: seconds for which a write, or a batch of them, is retried on a server that does not answer.
    """

    def __init__(
        self,
        connection: Connection,
        name: str = "kubeconfig",
        *,
        marks: Mapping[str, str] | None = None,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._name = name
        self._patience = patience
        self.transport = Transport(connection)
        try:
            # First of all, so that a wrong address or wrong credentials are reported now and not by the first watch.
            self.version = self.transport.check()
        except BaseException:
            self.transport.close()
            raise
        self.resources = ApiResources(self._ask)
        self.events = EventWriter(self.transport, socket.gethostname())
        self._cache = ObjectCache()
        self._decoder = SharingDecoder()
        unanswered = UnansweredWrites(self.transport, self._tell)
        self._writer = Writer(
            self.transport, self.resources, self._cache, unanswered, self._decoder, dict(marks or {}), patience
        )
        self._informers: dict[str, Informer] = {}
        self._missing: dict[str, None] = {}  # kinds watched that the server does not have
        self._missing_asked_at = 0.0
        self._inbox: deque[InformerUpdate | ChainAnswer] = deque()
        self._update_arrived = threading.Event()

    @property
    def name(self) -> str:
        return self._name

    def now(self) -> float:
        return self.transport.now()

    def close(self) -> None:
        """Send the waiting events, then end all watches and connections."""
        with suppress(Unavailable):
            self.events.flush(2.0)
        self.transport.close()

    # --- updates ------------------------------------------------------------------------------------------------------

    def _tell(self, update: InformerUpdate | ChainAnswer) -> None:
        self._inbox.append(update)
        self._update_arrived.set()

    def wait(self, seconds: float) -> bool:
        if self._inbox:
            return True
        # Cleared before the second look: otherwise an update between the two would not end the wait.
        self._update_arrived.clear()
        return bool(self._inbox) or self._update_arrived.wait(max(0.0, seconds))

    def process_updates(self) -> None:
        """Process the updates received so far."""
        while self._inbox:
            update = self._inbox.popleft()
            if isinstance(update, ChainAnswer):
                self._writer.process_answer(update)
            else:
                self._cache.process_update(update)
        if self._missing and time.monotonic() - self._missing_asked_at > MISSING_KINDS_SECONDS:
            self._missing_asked_at = time.monotonic()
            for kind in list(self._missing):
                self._begin(kind)

    def informers(self) -> Iterable[Informer]:
        """The watches on the server, for metrics."""
        return self._informers.values()

    def watch(self, kinds: Iterable[str] | None = None) -> LiveWatch:
        """See ``Cluster``; None: the kinds watched so far. Kinds that the server does not have are watched once it has
        them. Raises ApiError if the server does not allow listing a kind."""
        wanted = None if kinds is None else list(dict.fromkeys(kinds))
        for kind in wanted or ():
            # One watch on the server for each kind, for all watches here.
            if kind not in self._informers and kind not in self._missing:
                self._begin(kind)
        self._await_lists(wanted or ())
        return LiveWatch(self, self._cache.open(wanted))

    def _begin(self, kind: str) -> None:
        try:
            resource = self.resources.of(kind)
        except NotFound:
            self._missing[kind] = None
            self._cache.begin(kind)
            return
        self._missing.pop(kind, None)
        informer = self._informers[kind] = Informer(self.transport, resource, self._tell, self._decoder)
        informer.start()

    def _await_lists(self, kinds: Iterable[str]) -> None:
        end = time.monotonic() + SYNC_SECONDS
        open_kinds = set(kinds)
        while True:
            # Checked before updates are processed, because processing ignores refusals.
            for update in list(self._inbox):
                if (
                    isinstance(update, InformerUpdate)
                    and update.type == "REFUSED"
                    and update.kind in open_kinds
                    and update.refused is not None
                ):
                    self._informers.pop(update.kind).stop()
                    self._inbox.remove(update)
                    raise update.refused
            self.process_updates()
            open_kinds = {kind for kind in open_kinds if kind not in self._cache.kinds}
            if not open_kinds:
                return
            if time.monotonic() > end:
                raise Unavailable(f"{self.transport.connection.server} did not list {', '.join(sorted(open_kinds))}")
            self.wait(0.5)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _ask(self, path: str) -> HttpAnswer:
        return self.transport.call(self.transport.request("GET", path, patience=self._patience))

    def _read(self, path: str, request: str, accept: str = "application/json") -> HttpAnswer:
        answer = self.transport.call(self.transport.request("GET", path, patience=self._patience, accept=accept))
        if answer.code != 200:
            raise refusal(answer.code, answer.body, request)
        return answer

    def _known(self, kind: str) -> dict[tuple[str, str], Object] | None:
        self.process_updates()
        # A kind that the server lacked has an empty table; the server may have it by now.
        return self._cache.kinds.get(kind) if kind in self._informers else None

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        resource = self.resources.of(kind)
        space = resource.space(namespace)
        known = self._known(kind)
        if known is not None:
            obj = known.get((space or "", name))
            if obj is not None:
                return obj
        # An object unknown here may exist: a watch is always a little late.
        return body_of(self._read(resource.path(space, name), f"get {kind} {name}"))

    def list(self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> Objects:
        selector = selector_of(labels)
        known = self._known(kind)
        if known is None:
            objects = self._listed(kind, namespace)
        else:
            objects = [obj for (space, _), obj in known.items() if namespace is None or space == namespace]
        return sorted((obj for obj in objects if matches(selector, labels_of(obj))), key=object_key)

    def list_metadata(self, kind: str) -> Objects:
        """Objects of a kind with only their metadata: the server sends no more."""
        return sorted(self._listed(kind, accept=METADATA), key=object_key)

    def _listed(self, kind: str, namespace: str | None = None, accept: str = "application/json") -> Objects:
        """As on the server; empty for a kind that it does not have."""
        try:
            resource = self.resources.of(kind)
            listing = list_all(self.transport, resource, namespace, patience=self._patience, accept=accept)
            return self.transport.call(listing).objects
        except NotFound:
            self.resources.forget(kind)
            return []

    def kinds(self) -> Names:
        """Keys of the kinds that the server has by CRD, sorted."""
        return sorted(
            known_kinds.key_of(
                f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}", crd["spec"]["names"]["kind"]
            )
            for crd in self.list("CustomResourceDefinition")
        )

    # --- writing -----------------------------------------------------------------------------------------------------

    def event(
        self, involved: Object, type: EventSeverity, reason: str, message: str, component: str = "kai-scheduler"
    ) -> None:
        self.events.event(involved, type, reason, message, component)

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        """By server-side apply, as the manager ``kailab``: fields once applied and now absent are removed."""
        metadata = obj.get("metadata") or {}
        name = metadata.get("name")
        if not name:
            raise Invalid(
                f"{obj.get('kind')}: metadata.name: apply needs a name (create takes generateName)", "metadata.name"
            )
        resource = self.resources.of_object(obj)
        wanted = self._writer.with_marks({key: value for key, value in obj.items() if key != "status"}, resource)
        # Server-side apply does not say whether anything changed; the versions before and after do.
        before = find_object(self, resource.key, name, wanted["metadata"].get("namespace"))
        if "status" in obj and resource.key == "Node":
            # A fake node's status describes it, and nobody else writes it.
            if before is None:
                return self.create(obj), "created"
            self.patch("Node", name, None, {"status": obj["status"]}, "status")
        after = self._writer.send(resource, requests.apply_request(resource, wanted))
        if before is None:
            return after, "created"
        same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        return after, "unchanged" if same else "configured"

    @property
    def marks(self) -> dict[str, str]:
        return dict(self._writer.marks)

    def raw(self, path: str) -> str:
        """The text of a path on the server, such as ``/metrics``. Raises ApiError."""
        return self._read(path, f"GET {path}", "*/*").body.decode(errors="replace")

    def dry_run(self) -> None:
        """From now on the server only validates writes and returns the results, without storing them."""
        self.transport.dry_run = True

    @contextmanager
    def unmarked(self) -> Iterator[None]:
        """Objects created in this block get no marks, so that they stay when marked objects are removed."""
        # They are not in ``created`` either: cleaning up goes through these kinds for marked objects.
        marks, self._writer.marks = self._writer.marks, {}
        created = set(self._writer.created)
        try:
            yield
        finally:
            self._writer.marks = marks
            self._writer.created = created

    @property
    def created(self) -> Names:
        """Kinds of objects created or applied here."""
        return sorted(self._writer.created)

    def delete_all(self, kind: str, namespace: str | None = None) -> None:
        """Delete every object of a kind without grace, in a namespace or (None) in all."""
        resource = self.resources.of(kind)
        # Kubernetes deletes collections within one namespace only.
        spaces = [namespace] if namespace is not None else sorted({namespace_of(o) for o in self.list(kind)})
        for space in spaces:
            self.transport.call(
                requests.send(self.transport, requests.delete_all_request(resource, space), self._patience)
            )

    def assume(self, namespace: str, pod: str, uid: str, annotations: Mapping[str, str]) -> Object | None:
        """See ``AssumeCache``."""
        self.process_updates()
        return self._cache.assume(namespace, pod, uid, dict(annotations))

    def forget_assumed(self) -> None:
        self._cache.forget_assumed()

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        """See ``Cluster``. Chains not sent when the server is given up on are not sent at all."""
        self.process_updates()
        return self._writer.write_all(chains)

    @property
    def under_way(self) -> int:
        """See ``AsyncWrites``."""
        return self._writer.under_way

    def hand_over(self, chains: Sequence[Chain]) -> SubmittedBatch:
        """See ``AsyncWrites``. Submitted batches are sent in turn, one chain of each."""
        self.process_updates()
        return self._writer.hand_over(chains, self._tell)
