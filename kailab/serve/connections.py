"""Connections on their way in: at most so many at once, and none that keeps a place without asking for anything.

aiohttp bounds the size of what is asked, not the time that asking takes: a client that sends a header letter by letter would hold its
connection for ever. And whoever can reach the port can open connections, with a token or without: those that have shown none have places
of their own, and where these are taken the one that has waited longest has to go. So they never take the places of the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_CONNECTIONS = 256
MOST_STRANGERS = 256
"""Connections that have not shown a token yet, or never do."""
ASKING_SECONDS = 10.0
"""So long a connection may be open without a whole request, from the first byte on and between two of them."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 30\r\n\r\n"
    b"too many connections are open\n"
)


class ConnectionLimiter:
    """All connections of a server, the oldest first."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, asking: float = ASKING_SECONDS, strangers: int = MOST_STRANGERS
    ) -> None:
        self.most, self.asking, self.strangers = most, asking, strangers
        self.open: dict[object, LimitedConnection] = {}

    def through(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Protocols that pass on to those of a factory, as ``create_server`` takes them."""
        return lambda: LimitedConnection(self, factory())

    @contextmanager
    def answering(self, transport: object) -> Iterator[None]:
        """A request of that connection came whole and is being answered, which may take as long as it takes."""
        connection = self.open.get(transport)
        if connection is None:
            yield
            return
        connection.answering += 1
        try:
            yield
        finally:
            connection.answering -= 1
            connection.wait()

    def admit(self, transport: object) -> bool:
        """A request of that connection has shown the token. Whether there is room for one more of those."""
        connection = self.open.get(transport)
        if connection is None or connection.admitted:
            return True
        connection.admitted = sum(one.admitted for one in self.open.values()) < self.most
        return connection.admitted

    def room(self) -> bool:
        """Make room for a newcomer: the stranger that has waited longest goes. False where each of them is being answered."""
        strangers = [one for one in self.open.values() if not one.admitted]
        if len(strangers) < self.strangers:
            return True
        longest = next((one for one in strangers if not one.answering), None)
        if longest is None:
            return False
        longest.abort()
        return True


class LimitedConnection(asyncio.Protocol):
    """One of them. ``answering``: requests of it that are being answered. ``admitted``: one has shown the token."""

    def __init__(self, door: ConnectionLimiter, inner: asyncio.Protocol) -> None:
        self._door, self._inner = door, inner
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answering = 0
        self.admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._door.room():
            assert isinstance(transport, asyncio.Transport)
            transport.write(_FULL)
            transport.close()
            return
        self._transport = transport
        self._door.open[transport] = self
        self._inner.connection_made(transport)
        self.wait()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:
            return
        self._stop()
        self._door.open.pop(self._transport, None)
        self._transport = None
        self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._inner.resume_writing()

    def wait(self) -> None:
        """For a whole request, not for ever."""
        self._stop()
        # One that is gone waits for nothing.
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(self._door.asking, self._expired)

    def abort(self) -> None:
        """It is closed at once, and counts no more."""
        if isinstance(self._transport, asyncio.Transport):
            self._door.open.pop(self._transport, None)
            self._transport.abort()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        if not self.answering:
            self.abort()
