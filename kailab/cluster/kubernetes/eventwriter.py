"""Kubernetes Events, sent in the background: nobody waits for them, and they never hold up a bind.

Repeats of an event (same object, reason, text) count up on the one that is there. What the server refuses is dropped, and
what cannot be sent for long is, too: events are for people, and for people old ones are worth little.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict, deque
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.protocol import Object, Severity
from kailab.errors import Unavailable
from kailab.model.times import format_time

AT_ONCE = 2  # so few that binds lose no places to them (``Pressure``)
MOST_WAITING = 20_000
MOST_HELD_SECONDS = 30.0
QUIET_SECONDS = 0.2
_LOOK_SECONDS = 0.05
_REMEMBERED = 2_000  # a repeat of one forgotten becomes a new event
_PATIENCE = 10.0
Identity: TypeAlias = tuple[str, str, str, str]


class _Known(msgspec.Struct):
    namespace: str
    name: str
    count: int = 1
    queued: bool = False
    last: float = 0.0


class _Send(NamedTuple):
    body: dict[str, Any] | None
    namespace: str
    known: _Known
    since: float


class EventWriter:
    """``event`` may be called from the thread that uses the cluster; sending goes on in the transport's."""

    def __init__(self, transport: Transport, instance: str) -> None:
        self._transport = transport
        self._instance = instance
        self._known: OrderedDict[Identity, _Known] = OrderedDict()
        self._waiting: deque[_Send] = deque()
        self._busy = 0
        self._flushing = False
        self.dropped = 0

    def event(self, involved: Object, type: Severity, reason: str, message: str, component: str) -> None:
        """Queue one event."""
        metadata = involved["metadata"]
        now = self._transport.now()
        identity = (metadata.get("uid") or metadata["name"], type, reason, message)
        known = self._known.get(identity)
        if known is not None:
            self._known.move_to_end(identity)
            known.count += 1
            known.last = now
            if known.queued:
                return  # it goes out with the count it then has
            known.queued = True
            # Without a body: it is there already, only count and time are patched.
            send = _Send(None, known.namespace, known, monotonic())
        else:
            namespace = metadata.get("namespace") or "default"
            # Names may have 253 characters.
            name = f"{metadata['name'][:220]}.{uuid.uuid4().hex[:16]}"
            known = self._known[identity] = _Known(namespace, name, queued=True, last=now)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            body = self._body(involved, known, now, type, reason, message, component)
            send = _Send(body, namespace, known, monotonic())
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            known.queued = False
            return
        self._waiting.append(send)
        self._transport.soon(self._begin)

    def _begin(self) -> None:
        if self._busy < AT_ONCE and self._waiting:
            self._busy += 1
            self._transport.loop.create_task(self._work())

    def _body(
        self, involved: Object, known: _Known, now: float, type: str, reason: str, message: str, component: str
    ) -> dict[str, Any]:
        metadata = involved["metadata"]
        stamp = format_time(now)
        about = {
            "apiVersion": involved.get("apiVersion", "v1"),
            "kind": involved.get("kind", "Pod"),
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata.get("uid", ""),
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": known.name, "namespace": known.namespace},
            "involvedObject": {name: value for name, value in about.items() if value},
            "type": type,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": self._instance,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._give_way()
                if self._waiting:  # the others may have sent them meanwhile
                    await self._send(self._waiting.popleft())
        finally:
            self._busy -= 1

    async def _give_way(self) -> None:
        """Writes that somebody waits for go first, and what follows close upon them; but no event waits for ever."""
        while (
            self._waiting
            and not self._flushing
            and self._transport.is_urgent(QUIET_SECONDS)
            and monotonic() - self._waiting[0].since < MOST_HELD_SECONDS
            # Half full: from here on waiting would end in dropping.
            and len(self._waiting) < MOST_WAITING // 2
        ):
            await asyncio.sleep(_LOOK_SECONDS)

    async def _send(self, send: _Send) -> None:
        known = send.known
        known.queued = False
        path = f"/api/v1/namespaces/{known.namespace}/events"
        try:
            if send.body is not None:
                body = msgspec.json.encode(send.body | {"count": known.count})
                answer = await self._transport.request("POST", path, body, patience=_PATIENCE)
            else:
                body = msgspec.json.encode({"count": known.count, "lastTimestamp": format_time(known.last)})
                answer = await self._transport.request(
                    "PATCH", f"{path}/{known.name}", body, "application/merge-patch+json", patience=_PATIENCE
                )
        except Unavailable:
            self.dropped += 1
            return
        # A conflict on a later try says that an earlier one made it.
        if answer.code >= 300 and not (answer.code == 409 and answer.tries > 1):
            self.dropped += 1

    def flush(self, seconds: float) -> None:
        """Wait until all is sent, at most so long."""

        async def wait() -> None:
            self._flushing = True
            end = asyncio.get_running_loop().time() + seconds
            while (self._waiting or self._busy) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(0.02)
            self._flushing = False

        self._transport.call(wait())
