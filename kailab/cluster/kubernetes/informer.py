"""An informer lists one kind and watches it from there.

It runs in the transport's loop and only passes updates on. A watch that ends resumes at its version; if the server no
longer has that version (410), the informer lists again. After errors it pauses, longer each time, and never gives up,
so that a restarted server gets its watchers back. A watch that ends early counts as an error, even if it delivered
events.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import aiohttp
import msgspec

from kailab.cluster.kubernetes.apiclient.decoding import SharingDecoder
from kailab.cluster.kubernetes.apiclient.resources import ApiResource, list_all
from kailab.cluster.kubernetes.apiclient.transport import Transport, refusal
from kailab.cluster.protocol import EventType, Object
from kailab.errors import ApiError, Gone, Unavailable, describe_error

_log = logging.getLogger(__name__)

LIST_PATIENCE_SECONDS = 5.0  # short: a failed list is begun anew, after a pause
_LONGEST_PAUSE = 10.0
_LASTING_SECONDS = 5.0  # a watch that lasted so long had no trouble


class WriteInquiry(NamedTuple):
    """An inquiry about an object's real state, by namespace and name; ``number`` grows with each inquiry."""

    key: tuple[str, str]
    uid: str
    number: int


class InformerUpdate(NamedTuple):
    """``listed``: all objects of the kind as of ``version``. Otherwise one event of the watch; ``refused``: why there
    is no list. LOOKED_UP answers ``inquiry``; without an object, there is none of that name."""

    kind: str
    type: Literal["LISTED", "ADDED", "MODIFIED", "DELETED", "REFUSED", "LOOKED_UP"]
    object: Object
    listed: list[Object]
    refused: ApiError | None = None
    inquiry: WriteInquiry | None = None
    version: int = 0


class Informer:
    """Lists and watches one kind. ``tell`` gets updates, in the loop's thread. ``decoder``: shares equal parts of
    objects. ``restarts``: lists beyond the first; ``watches``: all watches."""

    def __init__(
        self,
        transport: Transport,
        resource: ApiResource,
        tell: Callable[[InformerUpdate], None],
        decoder: SharingDecoder,
    ) -> None:
        self.resource = resource
        # The first list is no restart.
        self.restarts = -1
        self.watches = 0
        self._transport = transport
        self._tell = tell
        self._decoder = decoder
        self._version = ""
        self._pause = 0.0
        self._begun = time.monotonic()
        self._task: Any = None

    def start(self) -> None:
        self._task = self._transport.start(self._run())

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                _log.debug("the watch of %s ended; it continues at version %s", self.resource.key, self._version)
                await self._rest()
            except Gone:
                # The server has compacted its history past our version: only a new list shows what was missed.
                _log.debug("the server no longer has version %s of %s; listing again", self._version, self.resource.key)
                self._version = ""
                await self._rest()
            except ApiError as error:
                _log.debug("the list or watch of %s failed and is retried: %s", self.resource.key, error)
                # A caller waits for the first list only, and a server that is merely away may come back.
                if not self._version and not isinstance(error, Unavailable):
                    self._tell(InformerUpdate(self.resource.key, "REFUSED", {}, [], error))
                await self._rest()
            except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
                _log.debug("the watch of %s broke and is restarted: %s", self.resource.key, describe_error(error))
                await self._rest()

    async def _rest(self) -> None:
        lasted = time.monotonic() - self._begun
        self._begun = time.monotonic()
        # The time since the last pause includes that pause.
        if lasted > _LASTING_SECONDS + self._pause:
            self._pause = 0.0
        self._pause = min(_LONGEST_PAUSE, max(0.1, self._pause * 2))
        # At random, so that the watches of a restarted server do not all return at once.
        await asyncio.sleep(random.uniform(0.5, 1.0) * self._pause)

    async def _list(self) -> None:
        objects, self._version = await list_all(
            self._transport, self.resource, patience=LIST_PATIENCE_SECONDS, decoder=self._decoder
        )
        self.restarts += 1
        self._tell(InformerUpdate(self.resource.key, "LISTED", {}, objects, version=int(self._version)))

    async def _watch(self) -> None:
        self.watches += 1
        path = self.resource.path(
            query={
                "watch": 1,
                # Bookmarks advance the version while nothing happens, so that a restarted watch needs no list.
                "allowWatchBookmarks": "true",
                "resourceVersion": self._version,
                # Spread out, so that the watches of all kinds do not end at once.
                "timeoutSeconds": random.randint(240, 300),
            }
        )
        async with await self._transport.stream(path) as response:
            self._transport.answers.note_answer(response.status)
            if response.status != 200:
                raise refusal(response.status, await response.read(), f"watch {self.resource.plural}")
            partial_line = b""
            async for chunk in response.content.iter_any():
                lines = (partial_line + chunk).split(b"\n")
                partial_line = lines.pop()
                for line in lines:
                    if line:
                        self._take(line)

    def _take(self, line: bytes) -> None:
        type, obj = self._decoder.event(line)
        # Usually 410, "too old resource version", which arrives as an event once a watch has begun.
        if type == "ERROR":
            raise refusal(int(obj.get("code") or 500), msgspec.json.encode(obj), f"watch {self.resource.plural}")
        self._version = obj["metadata"]["resourceVersion"]
        if type in ("ADDED", "MODIFIED", "DELETED"):  # no bookmark
            self._tell(InformerUpdate(self.resource.key, cast(EventType, type), obj, []))
