"""Writes on their way to the server: turned into requests, sent side by side, their answers counted at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from kailab.cluster.handed import Handed
from kailab.cluster.kubernetes.apiclient import requests
from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.inturn import InTurn
from kailab.cluster.kubernetes.apiclient.refusals import refusal
from kailab.cluster.kubernetes.apiclient.requests import Batch, Request, body_of
from kailab.cluster.kubernetes.apiclient.resources import Resource, Resources
from kailab.cluster.kubernetes.apiclient.transport import Answer, NoAnswer, Transport, side_by_side
from kailab.cluster.kubernetes.cache import Cache, key_of
from kailab.cluster.kubernetes.unanswered_writes import UnansweredWrites
from kailab.cluster.protocol import Object
from kailab.cluster.writes import Bind, Chain, Create, Delete, Evict, Outcome, Patch, Update, Write
from kailab.errors import ApiError, Conflict, Unavailable
from kailab.model.times import format_time

# More than the most that ``Pressure`` lets through, so that it alone decides how many are under way.
MOST_AT_ONCE = 256
Sent: TypeAlias = tuple[list[Answer], ApiError | None]
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")


class _Planned(NamedTuple):
    """One write: where it goes, the UID of the pod it is about (if known), its requests."""

    write: Write
    resource: Resource
    uid: str
    requests: list[Request]


class Answered(NamedTuple):
    """What came of one chain of those handed over. ``failed``: why its end could not be planned."""

    handed: Handed
    number: int
    plan: list[_Planned]
    failed: ApiError | None
    sent: Sent


class Writer:
    """``marks``: labels that all that is created or applied gets. ``under_way``: chains handed over and not answered."""

    def __init__(
        self,
        transport: Transport,
        resources: Resources,
        cache: Cache,
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
        self._in_turn = InTurn(transport)

    def marked(self, obj: Object, resource: Resource) -> Object:
        """As it is sent: without what is the server's, in a namespace if its kind has one, with the marks."""
        self.created.add(resource.key)
        metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_FIELDS}
        if self.marks:
            metadata["labels"] = {**(metadata.get("labels") or {}), **self.marks}
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        return {**obj, "metadata": metadata}

    def send(self, resource: Resource, request: Request) -> Object:
        """One request whose answer is the object. Raises ApiError."""
        answer = self._transport.call(requests.send(self._transport, request, self._patience))
        return self._cache.put(resource.key, self._object(answer.body))

    def write_all(self, chains: Sequence[Chain]) -> list[Outcome]:
        """See ``Cluster.write_all``."""
        batch = Batch(self._patience)
        plans: list[tuple[list[_Planned], ApiError | None]] = [self._plan(chain) for chain in chains]
        work = [
            partial(requests.send_in_order, self._transport, [r for one in plan for r in one.requests], batch)
            for plan, _ in plans
        ]
        if not work:
            return []
        try:
            results = self._transport.call(self._urgently(work))
        except Unavailable as error:  # closed
            return [Outcome([], error) for _ in plans]
        return [self._outcome(plan, failed, *result) for (plan, failed), result in zip(plans, results, strict=True)]

    def _outcome(
        self, plan: Sequence[_Planned], failed: ApiError | None, answers: list[Answer], refused: ApiError | None
    ) -> Outcome:
        """Count the answers to a chain. ``failed``: why its end could not even be planned."""
        objects: list[Object | None] = []
        position = 0
        for one in plan:
            end = position + len(one.requests)
            # A write of two requests (an eviction) is done only when both were answered.
            if end > len(answers):
                break
            objects.append(self._done(one, answers[position:end]))
            position = end
        # The first write without its answers is the one that was refused; nothing after it was sent.
        if refused is not None and len(objects) < len(plan):
            self._doubt(plan[len(objects)], refused)
        return Outcome(objects, refused or failed)

    # --- not waited for ----------------------------------------------------------------------------------------------

    def hand_over(self, chains: Sequence[Chain], tell: Callable[[Answered], None]) -> Handed:
        """See ``HandingOver``. ``tell`` takes the answers, from the loop's thread, for ``answered``."""
        batch = Batch(self._patience)
        handed = Handed()
        works = []
        for number, chain in enumerate(chains):
            plan, failed = self._plan(chain)
            for one in plan:
                if isinstance(one.write, Bind) and one.uid:
                    self._cache.bound(one.write.namespace, one.write.pod, one.uid, one.write.node)
            works.append(partial(self._send, partial(Answered, handed, number, plan, failed), batch, tell))
        self.under_way += len(works)
        self._in_turn.add(works)
        return handed

    async def _send(self, made: Callable[[Sent], Answered], batch: Batch, tell: Callable[[Answered], None]) -> None:
        plan = made(([], None)).plan
        try:
            sent = await requests.send_in_order(self._transport, [r for one in plan for r in one.requests], batch)
        # Whatever it is, what has become of the write is to be found out: nobody is there to be told otherwise.
        except Exception as error:
            lost = Unavailable(f"{type(error).__name__}: {error}")
            lost.doubtful = True
            sent = [], lost
        tell(made(sent))

    def answered(self, answered: Answered) -> None:
        """Count an answer to what was handed over."""
        self.under_way -= 1
        plan = answered.plan
        outcome = self._outcome(plan, answered.failed, *answered.sent)
        for place, one in enumerate(plan[len(outcome.objects) :]):
            in_doubt = place == 0 and outcome.error is not None and outcome.error.doubtful
            if isinstance(one.write, Bind) and one.uid and not in_doubt:
                self._cache.not_bound(one.write.namespace, one.write.pod, one.uid)
        answered.handed.done.append((answered.number, outcome))

    def _doubt(self, planned: _Planned, error: ApiError) -> None:
        """Of a pod that may be bound, evicted or created on a node all the same, of anything else that was written on condition
        of its state, and of what somebody else has changed, the truth is found out."""
        if not (error.doubtful or isinstance(error, Conflict)):
            return
        match planned.write:
            case Bind(namespace, pod, node, _) if planned.uid:
                if error.doubtful:
                    self._cache.bound(namespace, pod, planned.uid, node)
                self._ask(planned, namespace, pod, planned.uid, error)
            case Evict(namespace, pod) if planned.uid:
                self._ask(planned, namespace, pod, planned.uid, error)
            # Only a pod that brings its node (it reserves a shared GPU) takes up room from its creation on.
            case Create(obj) if error.doubtful and planned.resource.key == "Pod" and obj["spec"].get("nodeName"):
                made = self.marked(obj, planned.resource)
                if supposed := self._cache.suppose(made, format_time(self._transport.now())):
                    self._ask(planned, *key_of(made), supposed, error)
            # With a precondition: its writer decided on a state that may no longer hold.
            case Patch(kind, name, namespace, patch, _) if (patch.get("metadata") or {}).get("resourceVersion"):
                space = _space(planned.resource, namespace) or ""
                if (known := self._cache.kinds.get(kind, {}).get((space, name))) is not None:
                    self._ask(planned, space, name, known["metadata"]["uid"], error)

    def _ask(self, planned: _Planned, namespace: str, name: str, uid: str, error: ApiError) -> None:
        under_way = isinstance(error, NoAnswer)
        self._cache.doubt(self._unanswered.ask(planned.resource, namespace, name, uid, under_way))

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
            case Create(obj):
                resource = self._resources.of_object(obj)
                return _Planned(write, resource, "", [requests.creating(resource, self.marked(obj, resource))])
            case Update(obj):
                resource = self._resources.of_object(obj)
                return _Planned(write, resource, "", [requests.updating(resource, self._versioned(obj, resource))])
            case Patch(kind, name, namespace, patch, sub):
                resource = self._resources.of(kind)
                request = requests.patching(resource, name, _space(resource, namespace), patch, sub)
                return _Planned(write, resource, "", [request])
            case Delete(kind, name, namespace, grace):
                resource = self._resources.of(kind)
                request = requests.deleting(resource, name, _space(resource, namespace), grace)
                return _Planned(write, resource, "", [request])
            case Bind(namespace, pod, node, annotations):
                resource = self._resources.of("Pod")
                uid = self._uid(namespace, pod)
                # The API server puts the annotations of a Binding on the pod: what was only assumed so far gets there
                # with it.
                notes = {**self._cache.assumed.get(uid, {}), **(annotations or {})}
                request = requests.binding(resource, namespace, pod, uid, node, notes)
                return _Planned(write, resource, uid, [request])
            case Evict(namespace, pod, reason, message, grace):
                resource = self._resources.of("Pod")
                found = self._pod(namespace, pod)
                if found is not None and "deletionTimestamp" in found["metadata"]:
                    return _Planned(write, resource, "", [])  # on its way already
                uid = self._uid(namespace, pod)
                stamp = format_time(self._transport.now())
                said = requests.disrupting(resource, namespace, pod, uid, reason, message, stamp)
                return _Planned(write, resource, uid, [said, requests.deleting(resource, pod, namespace, grace, uid)])

    def _versioned(self, obj: Object, resource: Resource) -> Object:
        """With the resourceVersion that is stored, if it names none: custom resources can't do without."""
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            return obj
        path = resource.path(_space(resource, metadata.get("namespace")), metadata["name"])
        answer = self._transport.call(self._transport.request("GET", path, patience=self._patience))
        if answer.code != 200:
            raise refusal(answer.code, answer.body, f"get {resource.kind} {metadata['name']}")
        version = body_of(answer)["metadata"]["resourceVersion"]
        return {**obj, "metadata": {**metadata, "resourceVersion": version}}

    def _pod(self, namespace: str, name: str) -> Object | None:
        return self._cache.kinds.get("Pod", {}).get((namespace, name))

    def _uid(self, namespace: str, pod: str) -> str:
        found = self._pod(namespace, pod)
        return str(found["metadata"]["uid"]) if found is not None else ""

    def _done(self, planned: _Planned, answers: list[Answer]) -> Object | None:
        """Count the answers to a write, and give what the write gives."""
        resource = planned.resource
        match planned.write:
            case Create():
                return self._cache.created(resource.key, self._object(answers[0].body))
            case Update() | Patch():
                return self._cache.put(resource.key, self._object(answers[0].body))
            case Bind(namespace, pod, node, _):
                self._cache.bound(namespace, pod, planned.uid, node)
            case Delete(_, name, namespace, _):
                self._gone(resource, _space(resource, namespace) or "", name, answers[0])
            case Evict(namespace, pod) if answers:
                self._cache.put("Pod", self._object(answers[0].body))
                self._gone(resource, namespace, pod, answers[1])
        return None

    def _gone(self, resource: Resource, namespace: str, name: str, answer: Answer) -> None:
        left = body_of(answer)
        metadata = left.get("metadata") or {}
        leaving = left.get("kind") == resource.kind and "deletionTimestamp" in metadata
        # A namespace has its finalizers in its spec.
        held = metadata.get("finalizers") or (left.get("spec") or {}).get("finalizers")
        # Its grace period runs, or a finalizer holds it: it stays, marked. Any other answer means that it is gone.
        if leaving and (metadata.get("deletionGracePeriodSeconds") or held):
            self._cache.put(resource.key, left)
        else:
            self._cache.deleted(resource.key, namespace, name)


def _space(resource: Resource, namespace: str | None) -> str | None:
    return (namespace or "default") if resource.namespaced else None
