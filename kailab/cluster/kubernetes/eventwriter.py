"""Kubernetes Events, sent in the background: nobody waits for them, and they hardly delay a bind.

Events wait while somebody waits for other writes. After MOST_HELD_SECONDS warnings are sent anyway, and other events at
a rate that takes no noticeable part of the server: while a cluster is filled for minutes, an event for each pod would
take a tenth of it and more.

A repeat of an event (same object, reason, text) raises the count of the existing one. Events that the server refuses,
or that can't be sent for long, are dropped: people read them, and old ones are worth little.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.protocol import EventSeverity, Object
from kailab.errors import Unavailable
from kailab.model.times import format_time

AT_ONCE = 2  # so few that binds lose no places to them (``RequestLimit``)
MOST_WAITING = 50_000
MOST_HELD_SECONDS = 30.0
REST = 10
"""While other writes are urgent, the pause after an event is this many times as long as the event took."""
QUIET_SECONDS = 0.2
_POLL_SECONDS = 0.05
_REMEMBERED = 2_000  # a repeat of a forgotten event becomes a new event
_PATIENCE = 10.0
Identity: TypeAlias = tuple[str, str, str, str]


class _Known(msgspec.Struct):
    namespace: str
    name: str
    count: int = 1
    queued: bool = False
    last: float = 0.0


class _WrittenEvent(NamedTuple):
    """The content of an event. Thousands may wait, so common parts are added when it is sent."""

    about: tuple[tuple[str, str], ...]
    type: EventSeverity
    reason: str
    message: str
    component: str
    first: float


class _Send(NamedTuple):
    """``content``: None if the event exists already, and only its count and time are patched."""

    content: _WrittenEvent | None
    known: _Known
    since: float


class EventWriter:
    """``event`` may be called from the thread that uses the cluster; the transport's loop sends."""

    def __init__(self, transport: Transport, instance: str) -> None:
        self._transport = transport
        self._instance = instance
        self._known: OrderedDict[Identity, _Known] = OrderedDict()
        self._warnings: deque[_Send] = deque()
        self._waiting: deque[_Send] = deque()
        self._called = False  # ``_begin`` is on its way to the loop
        self._busy = 0
        self._free_at = 0.0
        self._flushing = False
        self.dropped = 0

    def event(self, involved: Object, type: EventSeverity, reason: str, message: str, component: str) -> None:
        metadata = involved["metadata"]
        now = self._transport.now()
        identity = (metadata.get("uid") or metadata["name"], type, reason, message)
        known = self._known.get(identity)
        if known is not None:
            self._known.move_to_end(identity)
            known.count += 1
            known.last = now
            if known.queued:
                return  # it is sent with the count it has by then
            known.queued = True
            send = _Send(None, known, monotonic())
        else:
            namespace = metadata.get("namespace") or "default"
            # Names may have at most 253 characters.
            name = f"{metadata['name'][:220]}.{uuid.uuid4().hex[:16]}"
            known = self._known[identity] = _Known(namespace, name, queued=True, last=now)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            content = _WrittenEvent(_reference(involved), type, reason, message[:1024], component, now)
            send = _Send(content, known, monotonic())
        if len(self) >= MOST_WAITING:
            self.dropped += 1
            known.queued = False
            return
        (self._warnings if type == "Warning" else self._waiting).append(send)
        # Waking the loop is a system call: once for all events of a cycle.
        if not self._called:
            self._called = True
            self._transport.soon(self._begin)

    def __len__(self) -> int:
        """The number of waiting events."""
        return len(self._warnings) + len(self._waiting)

    def _begin(self) -> None:
        # Cleared before the queue is read: an event that comes later calls again.
        self._called = False
        for _ in range(min(AT_ONCE - self._busy, len(self))):
            self._busy += 1
            self._transport.loop.create_task(self._work())

    def _body(self, content: _WrittenEvent, known: _Known) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": known.name, "namespace": known.namespace},
            "involvedObject": dict(content.about),
            "type": content.type,
            "reason": content.reason,
            "message": content.message,
            "source": {"component": content.component},
            "reportingComponent": content.component,
            "reportingInstance": self._instance,
            "firstTimestamp": format_time(content.first),
            "lastTimestamp": format_time(known.last),
            "count": known.count,
        }

    async def _work(self) -> None:
        try:
            while len(self):
                await self._give_way()
                if len(self):  # other workers may have sent them meanwhile
                    began = monotonic()
                    await self._send((self._warnings or self._waiting).popleft())
                    ended = monotonic()
                    self._free_at = ended + REST * (ended - began)
        finally:
            self._busy -= 1

    async def _give_way(self) -> None:
        """Let urgent writes, and those that follow closely, go first; but no event waits for ever."""
        while (
            len(self)
            and not self._flushing
            and self._transport.is_urgent(QUIET_SECONDS)
            and not self._due()
            # Half full: waiting longer would end in dropping events.
            and len(self) < MOST_WAITING // 2
        ):
            await asyncio.sleep(_POLL_SECONDS)

    def _due(self) -> bool:
        """True if an event must be sent although other writes are urgent."""
        now = monotonic()
        if self._warnings and now - self._warnings[0].since >= MOST_HELD_SECONDS:
            return True
        return bool(self._waiting) and now - self._waiting[0].since >= MOST_HELD_SECONDS and now >= self._free_at

    async def _send(self, send: _Send) -> None:
        known = send.known
        known.queued = False
        path = f"/api/v1/namespaces/{known.namespace}/events"
        try:
            if send.content is not None:
                body = msgspec.json.encode(self._body(send.content, known))
                answer = await self._transport.request("POST", path, body, patience=_PATIENCE)
            else:
                body = msgspec.json.encode({"count": known.count, "lastTimestamp": format_time(known.last)})
                answer = await self._transport.request(
                    "PATCH", f"{path}/{known.name}", body, "application/merge-patch+json", patience=_PATIENCE
                )
        except Unavailable:
            self.dropped += 1
            return
        # A conflict on a later try means that an earlier one created it.
        if answer.code >= 300 and not (answer.code == 409 and answer.tries > 1):
            self.dropped += 1

    def flush(self, seconds: float) -> None:
        """Wait until all events are sent, at most ``seconds``."""

        async def wait() -> None:
            self._flushing = True
            end = asyncio.get_running_loop().time() + seconds
            while (len(self) or self._busy) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.02)
            self._flushing = False

        self._transport.call(wait())


def _reference(involved: Object) -> tuple[tuple[str, str], ...]:
    metadata = involved["metadata"]
    about = {
        "apiVersion": involved.get("apiVersion", "v1"),
        "kind": involved.get("kind", "Pod"),
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "uid": metadata.get("uid", ""),
    }
    return tuple((name, value) for name, value in about.items() if value)
