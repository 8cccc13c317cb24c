"""News for all who look at the page: a number that grows with each view of the lab, and what was said last. Whoever is slow misses what
came in between and gets the latest."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kailab.serve.view import View

HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True)
class News:
    """``view``: None where the lab is down, or can't be shown (``trouble`` says why). ``revision``: of the session, as it was when the lab was
    looked at: what is asked for by somebody who sees this names it."""

    version: int
    view: View | None = None
    said: str = ""
    trouble: str = ""
    controls: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    def data(self) -> dict[str, Any]:
        view = self.view
        told = None if view is None else {"showing": view.showing, "number": view.number, "first": view.first}
        return {
            "version": self.version,
            "revision": self.revision,
            "there": view is not None,
            "view": told,
            "lab": None if view is None else view.about,
            "said": self.said,
            "trouble": self.trouble,
            "controls": self.controls,
        }


class Newsroom:
    def __init__(self) -> None:
        self.latest = News(0, trouble="the lab has not been looked at yet")
        self.ended = False
        self._changed = asyncio.Condition()

    async def publish(
        self,
        view: View | None,
        said: str = "",
        trouble: str = "",
        controls: Mapping[str, Any] | None = None,
        revision: int = 0,
    ) -> None:
        async with self._changed:
            self.latest = News(self.latest.version + 1, view, said, trouble, controls or {}, revision)
            self._changed.notify_all()

    async def end(self) -> None:
        """The server ends."""
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[News | None]:
        """The latest news, and then each that comes; None where nothing came for a while. Ends with the server."""
        seen = -1
        while not self.ended:
            async with self._changed:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await self._changed.wait_for(lambda seen=seen: self.ended or self.latest.version != seen)  # type: ignore[misc]
                except TimeoutError:
                    pass
                news = self.latest
            yield None if news.version == seen else news
            seen = news.version
