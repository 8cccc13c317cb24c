"""Writes on their way to the server: turned into requests, sent side by side, their answers counted at once.

The path of a write whose answer is lost: ``Writer._inquire`` starts an inquiry for writes that affect scheduling,
``UnansweredWrites`` asks the server in the background until it answers, and the ``InformerUpdate`` with its answer
resolves the ``WriteInquiry`` in the cache. Until then a bind counts as carried out. After any other write, resources count as taken if they are
taken in one of the two states that the object may be in, so that the scheduler does not give away a GPU that may be in use. In the scheduler the path goes on in
``DecisionExecutor._failed``, which holds the pod back (``BindBackoff.failed``, ``Mirror.hold_back``) should it turn out not to be bound.

``FairQueue`` sends the batches that nobody waits for, a chain of each in turn, so that a small batch does not wait for
the end of a large one. It starts only slightly more requests than ``RequestLimit`` admits, so that urgent writes find a short queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import tenacity

from kailab.cluster.kubernetes.apiclient import requests
from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.requests import ApiRequest, RequestBatch, body_of
from kailab.cluster.kubernetes.apiclient.resources import ApiResource, ApiResources
from kailab.cluster.kubernetes.apiclient.transport import HttpAnswer, NoAnswer, Transport, refusal, side_by_side
from kailab.cluster.kubernetes.cache import ObjectCache
from kailab.cluster.kubernetes.informer import InformerUpdate, WriteInquiry
from kailab.cluster.protocol import Object
from kailab.cluster.submitted_writes import SubmittedBatch
from kailab.cluster.writes import (
    BindWrite,
    Chain,
    CreateWrite,
    DeleteWrite,
    EvictWrite,
    PatchWrite,
    UpdateWrite,
    Write,
    WriteOutcome,
)
from kailab.errors import ApiError, Conflict, Unavailable
from kailab.model.objects import is_terminating, object_key, uid_of
from kailab.model.times import format_time

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0
_LONGEST_PAUSE = 10.0
_UNDER_WAY_SECONDS = 1.0
"""The wait before the first inquiry. After a disconnect the server may still finish the request; this is how long it is given."""


class UnansweredWrites:
    """Asks the server for the real state of objects. ``tell`` gets the answers, in the loop's thread."""

    def __init__(self, transport: Transport, tell: Callable[[InformerUpdate], None]) -> None:
        self._transport = transport
        self._tell = tell
        self._asked = 0

    def ask(self, resource: ApiResource, namespace: str, name: str, uid: str, in_progress: bool) -> WriteInquiry:
        """Inquire an object's real state. ``in_progress``: the server may still be working on the request whose answer was lost.
        The update that answers has the returned inquiry."""
        self._asked += 1
        inquiry = WriteInquiry((namespace, name), uid, self._asked)
        _log.debug(
            "inquiry %d: asking for the state of %s %s/%s after a write", inquiry.number, resource.key, namespace, name
        )
        self._transport.start(self._inquire_until_answered(resource, inquiry, in_progress))
        return inquiry

    async def _inquire_until_answered(self, resource: ApiResource, inquiry: WriteInquiry, in_progress: bool) -> None:
        if in_progress:
            await asyncio.sleep(_UNDER_WAY_SECONDS)
        # Without end: until there is an answer, the pod or the device counts on the safe side.
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(ApiError),
            wait=tenacity.wait_exponential(0.2, _LONGEST_PAUSE) + tenacity.wait_random(0, 0.2),
            before_sleep=tenacity.before_sleep_log(_log, logging.DEBUG),
        )
        state: Object = await retrying(self._get, resource, *inquiry.key)
        _log.debug("inquiry %d: the object %s", inquiry.number, "exists" if state else "does not exist")
        self._tell(InformerUpdate(resource.key, "LOOKED_UP", state, [], inquiry=inquiry))

    async def _get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        path = resource.path(namespace or None, name)
        answer = await self._transport.request("GET", path, patience=_PATIENCE_SECONDS)
        # No object of that name is an answer, too: the write was not carried out, or what it created is gone.
        if answer.code == 404:
            return {}
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"GET {path}")
        return body_of(answer)


Work = Callable[[], Awaitable[None]]
_MORE = 2  # requests started beyond the limit, because the limit grows only while requests wait


class FairQueue:
    """Works of several batches in turn, on one transport; ``add`` may be called from any thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._batches: deque[deque[Work]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._at_work = 0  # counted at once, whereas a task ends a little later

    def add(self, works: Iterable[Work]) -> None:
        """``works`` must not raise."""
        batch = deque(works)
        if batch:
            self._transport.soon(lambda: self._take_up(batch))

    def _take_up(self, batch: deque[Work]) -> None:
        self._batches.append(batch)
        self._staff()

    def _staff(self) -> None:
        waiting = sum(map(len, self._batches))
        for _ in range(min(waiting, self._places() - self._at_work)):
            self._at_work += 1
            # Referenced here, because the loop holds tasks weakly.
            worker = self._transport.loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def _places(self) -> int:
        return int(self._transport.pressure.limit) + _MORE

    async def _work(self) -> None:
        try:
            with self._transport.urgently():
                while self._batches and self._at_work <= self._places():
                    batch = self._batches.popleft()
                    work = batch.popleft()
                    if batch:
                        self._batches.append(batch)
                    await work()
                    self._staff()
        finally:
            self._at_work -= 1


# More than ``RequestLimit`` ever lets through, so that it alone limits the requests.
MOST_AT_ONCE = 256
Sent: TypeAlias = tuple[list[HttpAnswer], ApiError | None]
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


class _Planned(NamedTuple):
    """One write with its resource, the UID of its pod (if known) and its requests."""

    write: Write
    resource: ApiResource
    uid: str
    requests: list[ApiRequest]


class ChainAnswer(NamedTuple):
    """The result of one submitted chain. ``failed``: why the rest of the chain could not be planned."""

    submitted: SubmittedBatch
    number: int
    plan: list[_Planned]
    failed: ApiError | None
    sent: Sent


class Writer:
    """``marks``: labels for everything created or applied. ``under_way``: submitted chains without an answer."""

    def __init__(
        self,
        transport: Transport,
        resources: ApiResources,
        cache: ObjectCache,
        unanswered: UnansweredWrites,
        decoder: SharingDecoder,
        marks: Mapping[str, str],
        patience: float,
    ) -> None:
        self._unanswered = unanswered
        self._object = decoder.object
        self._transport = transport
        self._resources = resources
        self._cache = cache
        self.marks: Mapping[str, str] = marks
        self._patience = patience
        self.created: set[str] = set()
        self.under_way = 0
        self._in_turn = FairQueue(transport)

    def with_marks(self, obj: Object, resource: ApiResource) -> Object:
        """The object as it is sent: without server fields, in a namespace if its kind has one, with the marks."""
        self.created.add(resource.key)
        metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_FIELDS}
        if self.marks:
            metadata["labels"] = {**(metadata.get("labels") or {}), **self.marks}
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        return {**obj, "metadata": metadata}

    def send(self, resource: ApiResource, request: ApiRequest) -> Object:
        """Send one request whose answer is the object. Raises ApiError."""
        answer = self._transport.call(requests.send(self._transport, request, self._patience))
        return self._cache.put(resource.key, self._object(answer.body))

    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        """See ``Cluster.write_all``."""
        batch = RequestBatch(self._patience)
        plans: list[tuple[list[_Planned], ApiError | None]] = [self._plan(chain) for chain in chains]
        work = [
            partial(requests.send_in_order, self._transport, [r for planned in plan for r in planned.requests], batch)
            for plan, _ in plans
        ]
        if not work:
            return []
        try:
            results = self._transport.call(self._urgently(work))
        except Unavailable as error:  # the transport is closed
            return [WriteOutcome([], error) for _ in plans]
        return [self._outcome(plan, failed, *result) for (plan, failed), result in zip(plans, results, strict=True)]

    def _outcome(
        self, plan: Sequence[_Planned], failed: ApiError | None, answers: list[HttpAnswer], refused: ApiError | None
    ) -> WriteOutcome:
        """Process the answers to a chain. ``failed``: why the rest of it could not be planned."""
        objects: list[Object | None] = []
        position = 0
        for planned in plan:
            end = position + len(planned.requests)
            # A write of two requests (an eviction) is done only when both are answered.
            if end > len(answers):
                break
            objects.append(self._process_success(planned, answers[position:end]))
            position = end
        # The first write without its answers was refused; later ones were not sent.
        if refused is not None and len(objects) < len(plan):
            self._inquire(plan[len(objects)], refused)
        return WriteOutcome(objects, refused or failed)

    # --- asynchronous writes ------------------------------------------------------------------------------------------

    def hand_over(self, chains: Sequence[Chain], tell: Callable[[ChainAnswer], None]) -> SubmittedBatch:
        """See ``AsyncWrites``. ``tell`` gets the answers, in the loop's thread, for ``process_answer``."""
        batch = RequestBatch(self._patience)
        submitted = SubmittedBatch()
        works = []
        for number, chain in enumerate(chains):
            plan, failed = self._plan(chain)
            for planned in plan:
                if isinstance(planned.write, BindWrite) and planned.uid:
                    self._cache.mark_bound(planned.write.namespace, planned.write.pod, planned.uid, planned.write.node)
            works.append(partial(self._send, partial(ChainAnswer, submitted, number, plan, failed), batch, tell))
        self.under_way += len(works)
        self._in_turn.add(works)
        return submitted

    async def _send(
        self, made: Callable[[Sent], ChainAnswer], batch: RequestBatch, tell: Callable[[ChainAnswer], None]
    ) -> None:
        plan = made(([], None)).plan
        try:
            sent = await requests.send_in_order(
                self._transport, [r for planned in plan for r in planned.requests], batch
            )
        # Nobody waits for this write: whatever went wrong, the server is asked for its result.
        except Exception as error:
            lost = Unavailable(f"{type(error).__name__}: {error}")
            lost.unanswered = True
            sent = [], lost
        tell(made(sent))

    def process_answer(self, answered: ChainAnswer) -> None:
        """Process the answer to a submitted chain."""
        self.under_way -= 1
        plan = answered.plan
        outcome = self._outcome(plan, answered.failed, *answered.sent)
        for place, planned in enumerate(plan[len(outcome.objects) :]):
            unanswered = place == 0 and outcome.error is not None and outcome.error.unanswered
            if isinstance(planned.write, BindWrite) and planned.uid and not unanswered:
                self._cache.mark_unbound(planned.write.namespace, planned.write.pod, planned.uid)
        answered.submitted.done.append((answered.number, outcome))

    def _inquire(self, planned: _Planned, error: ApiError) -> None:
        """After a lost answer or a Conflict, ask the server for the object's real state: for binds and evictions, for
        pods created with a nodeName, and for patches with a resourceVersion precondition."""
        if not (error.unanswered or isinstance(error, Conflict)):
            return
        match planned.write:
            case BindWrite(namespace, pod, node) if planned.uid:
                if error.unanswered:
                    self._cache.mark_bound(namespace, pod, planned.uid, node)
                self._ask(planned, namespace, pod, planned.uid, error)
            case EvictWrite(namespace, pod) if planned.uid:
                self._ask(planned, namespace, pod, planned.uid, error)
            # Only a pod that is created with a nodeName (it reserves a shared GPU) takes up capacity from its creation
            # on.
            case CreateWrite(obj) if error.unanswered and planned.resource.key == "Pod" and obj["spec"].get("nodeName"):
                made = self.with_marks(obj, planned.resource)
                if supposed := self._cache.record_supposed(made, format_time(self._transport.now())):
                    self._ask(planned, *object_key(made), supposed, error)
            # With a precondition: the writer decided on a state that may no longer hold.
            case PatchWrite(kind, name, namespace, patch, _) if (patch.get("metadata") or {}).get("resourceVersion"):
                space = planned.resource.space(namespace) or ""
                if (known := self._cache.kinds.get(kind, {}).get((space, name))) is not None:
                    self._ask(planned, space, name, uid_of(known), error)

    def _ask(self, planned: _Planned, namespace: str, name: str, uid: str, error: ApiError) -> None:
        under_way = isinstance(error, NoAnswer)
        self._cache.record_inquiry(self._unanswered.ask(planned.resource, namespace, name, uid, under_way))

    async def _urgently(self, work: Sequence[Callable[[], Awaitable[Sent]]]) -> list[Sent]:
        with self._transport.urgently():
            return await side_by_side(work, MOST_AT_ONCE)

    def _plan(self, chain: Chain) -> tuple[list[_Planned], ApiError | None]:
        planned = []
        for write in chain:
            try:
                planned.append(self._planned(write))
            except ApiError as error:
                return planned, error
        return planned, None

    def _planned(self, write: Write) -> _Planned:
        match write:
            case CreateWrite(obj):
                resource = self._resources.of_object(obj)
                request = requests.create_request(resource, self.with_marks(obj, resource))
            case UpdateWrite(obj):
                resource = self._resources.of_object(obj)
                request = requests.update_request(resource, self._versioned(obj, resource))
            case PatchWrite(kind, name, namespace, patch, sub):
                resource = self._resources.of(kind)
                request = requests.patch_request(resource, name, resource.space(namespace), patch, sub)
            case DeleteWrite(kind, name, namespace, grace):
                resource = self._resources.of(kind)
                request = requests.delete_request(resource, name, resource.space(namespace), grace)
            case BindWrite(namespace, pod, node, annotations, uid):
                resource = self._resources.of("Pod")
                uid = uid or self._uid(namespace, pod)
                # The API server puts the annotations of a Binding on the pod, and so writes the assumed ones.
                notes = {**self._cache.assumed.get(uid, {}), **(annotations or {})}
                request = requests.bind_request(resource, namespace, pod, uid, node, notes)
                return _Planned(write, resource, uid, [request])
            case EvictWrite(namespace, pod, reason, message, grace, uid):
                resource = self._resources.of("Pod")
                known_pod = self._pod(namespace, pod)
                if known_pod is not None and is_terminating(known_pod) and uid in ("", uid_of(known_pod)):
                    return _Planned(write, resource, "", [])  # it is terminating already
                uid = uid or self._uid(namespace, pod)
                stamp = format_time(self._transport.now())
                disruption = requests.disruption_request(resource, namespace, pod, uid, reason, message, stamp)
                deletion = requests.delete_request(resource, pod, namespace, grace, uid)
                return _Planned(write, resource, uid, [disruption, deletion])
        return _Planned(write, resource, "", [request])

    def _versioned(self, obj: Object, resource: ApiResource) -> Object:
        """With the stored resourceVersion, if the object has none: custom resources require it."""
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            return obj
        path = resource.path(resource.space(metadata.get("namespace")), metadata["name"])
        answer = self._transport.call(self._transport.request("GET", path, patience=self._patience))
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"get {resource.kind} {metadata['name']}")
        version = body_of(answer)["metadata"]["resourceVersion"]
        return {**obj, "metadata": {**metadata, "resourceVersion": version}}

    def _pod(self, namespace: str, name: str) -> Object | None:
        return self._cache.kinds.get("Pod", {}).get((namespace, name))

    def _uid(self, namespace: str, pod: str) -> str:
        known_pod = self._pod(namespace, pod)
        return uid_of(known_pod) if known_pod is not None else ""

    def _process_success(self, planned: _Planned, answers: list[HttpAnswer]) -> Object | None:
        """Process the answers to a write. Returns its result."""
        resource = planned.resource
        match planned.write:
            case CreateWrite():
                return self._cache.record_created(resource.key, self._object(answers[0].body))
            case UpdateWrite() | PatchWrite():
                return self._cache.put(resource.key, self._object(answers[0].body))
            case BindWrite(namespace, pod, node):
                self._cache.mark_bound(namespace, pod, planned.uid, node)
            case DeleteWrite(_, name, namespace, _):
                self._process_deletion(resource, resource.space(namespace) or "", name, answers[0])
            case EvictWrite(namespace, pod) if answers:
                self._cache.put("Pod", self._object(answers[0].body))
                self._process_deletion(resource, namespace, pod, answers[1])
        return None

    def _process_deletion(self, resource: ApiResource, namespace: str, name: str, answer: HttpAnswer) -> None:
        left = body_of(answer)
        metadata = left.get("metadata") or {}
        leaving = left.get("kind") == resource.kind and "deletionTimestamp" in metadata
        # A namespace has its finalizers in its spec.
        held = metadata.get("finalizers") or (left.get("spec") or {}).get("finalizers")
        # Its grace period runs, or a finalizer holds it: it stays, marked. Any other answer means that it is gone.
        if leaving and (metadata.get("deletionGracePeriodSeconds") or held):
            self._cache.put(resource.key, left)
        else:
            self._cache.record_deleted(resource.key, namespace, name)
