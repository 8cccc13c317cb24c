"""Connections on their way in: at most so many at once, and none that keeps a place without asking for anything.

aiohttp bounds the size of what is asked, not the time that asking takes: a client that sends a header letter by letter would hold its
connection for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MOST_CONNECTIONS = 256
ASKING_SECONDS = 10.0
"""So long a connection may be open without a whole request, from the first byte on and between two of them."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 30\r\n\r\n"
    b"too many connections are open\n"
)


class Door:
    """All connections of a server."""

    def __init__(self, most: int = MOST_CONNECTIONS, asking: float = ASKING_SECONDS) -> None:
        self.most, self.asking = most, asking
        self.open: dict[object, Connection] = {}

    def through(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Protocols that pass on to those of a factory, as ``create_server`` takes them."""
        return lambda: Connection(self, factory())

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


class Connection(asyncio.Protocol):
    """One of them. ``answering``: requests of it that are being answered."""

    def __init__(self, door: Door, inner: asyncio.Protocol) -> None:
        self._door, self._inner = door, inner
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answering = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if len(self._door.open) >= self._door.most:
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
        self._timer = asyncio.get_running_loop().call_later(self._door.asking, self._expired)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        if not self.answering and isinstance(self._transport, asyncio.Transport):
            self._transport.abort()
