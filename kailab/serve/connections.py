"""Limits on incoming connections: their number, and how long one may stay open without a complete request.

aiohttp limits the size of a request but not the time that it takes: a client that sends a header byte by byte would hold its connection for
ever. Any process on the machine can open connections to the port. Connections that have not shown the token therefore have a limit of their own;
when it is reached, the one that has waited longest is closed. They never use up the connections of the page.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
MOST_STRANGERS = 256
"""Limit for connections that have not shown the token."""
ASKING_SECONDS = 10.0
"""How long a connection may stay open without a complete request: from its start, and between two requests."""

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 30\r\n\r\n"
    b"too many connections are open\n"
)


class ConnectionLimiter:
    """All connections of a server, oldest first."""

    def __init__(
        self, most: int = MOST_CONNECTIONS, asking: float = ASKING_SECONDS, strangers: int = MOST_STRANGERS
    ) -> None:
        self.most, self.asking, self.strangers = most, asking, strangers
        self.open: dict[object, LimitedConnection] = {}

    def limit(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Wrap a protocol factory for ``create_server``, so that each connection is limited."""
        return lambda: LimitedConnection(self, factory())

    @contextmanager
    def answering(self, transport: object) -> Iterator[None]:
        """Stop the idle timer of a connection while one of its requests is being answered."""
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
        """Count a connection as authenticated: one of its requests has shown the token. Return False if the limit is reached."""
        connection = self.open.get(transport)
        if connection is None or connection.admitted:
            return True
        connection.admitted = sum(other.admitted for other in self.open.values()) < self.most
        return connection.admitted

    def make_room(self) -> bool:
        """Make room for a new connection by closing the unauthenticated one that has waited longest. Return False if requests of all of them are
        being answered."""
        strangers = [connection for connection in self.open.values() if not connection.admitted]
        if len(strangers) < self.strangers:
            return True
        longest = next((connection for connection in strangers if not connection.answering), None)
        if longest is None:
            return False
        _log.debug("%d connections without the token are open: the oldest is closed", len(strangers))
        longest.abort()
        return True


class LimitedConnection(asyncio.Protocol):
    """``answering``: number of requests being answered. ``admitted``: a request has shown the token."""

    def __init__(self, limiter: ConnectionLimiter, inner: asyncio.Protocol) -> None:
        self._limiter, self._inner = limiter, inner
        self._transport: asyncio.BaseTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answering = 0
        self.admitted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._limiter.make_room():
            assert isinstance(transport, asyncio.Transport)
            transport.write(_FULL)
            transport.close()
            return
        self._transport = transport
        self._limiter.open[transport] = self
        self._inner.connection_made(transport)
        self.wait()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:
            return
        self._stop()
        self._limiter.open.pop(self._transport, None)
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
        """Start the timer that closes the connection unless a complete request arrives."""
        self._stop()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(self._limiter.asking, self._expired)

    def abort(self) -> None:
        """Close the connection at once, and stop counting it."""
        if isinstance(self._transport, asyncio.Transport):
            self._limiter.open.pop(self._transport, None)
            self._transport.abort()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        if not self.answering:
            self.abort()
