"""The body of a write, which asks once more for leave at the moment in which it goes out.

Between the decision to send a request and its first byte the event loop may take up other work, and the process may be held up:
long enough for a lease to end. The headers of a request wait for its body, so that nothing at all is sent of one that is refused
here.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter


class _Refused(Exception):
    """aiohttp gives up the request and its connection."""


class GuardedBody(aiohttp.BytesPayload):
    """``withheld``: the body was not sent, because ``may_write`` said no."""

    def __init__(self, body: bytes, may_write: Callable[[], bool]) -> None:
        super().__init__(body)
        self.withheld = False
        self._may_write = may_write

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        # No other task runs between this answer and the bytes going to the socket.
        if not self._may_write():
            self.withheld = True
            raise _Refused
        await super().write_with_length(writer, content_length)
