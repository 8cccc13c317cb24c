"""News for all who look at the page: a number that grows with each view of the lab, and what was said last. Whoever is slow misses what
came in between and gets the latest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kailab.errors import KailabError, StateError
from kailab.serve.session import LabSession
from kailab.serve.view import PageView

HEARTBEAT_SECONDS = 15.0


@dataclass(frozen=True)
class PageUpdate:
    """``view``: None where the lab is down, or can't be shown (``trouble`` says why). ``revision``: of the session, as it was when the lab was
    looked at: what is asked for by somebody who sees this names it."""

    version: int
    view: PageView | None = None
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


class Broadcaster:
    def __init__(self) -> None:
        self.latest = PageUpdate(0, trouble="the lab has not been looked at yet")
        self.ended = False
        self._changed = asyncio.Condition()

    async def publish(
        self,
        view: PageView | None,
        said: str = "",
        trouble: str = "",
        controls: Mapping[str, Any] | None = None,
        revision: int = 0,
    ) -> None:
        async with self._changed:
            self.latest = PageUpdate(self.latest.version + 1, view, said, trouble, controls or {}, revision)
            self._changed.notify_all()

    async def end(self) -> None:
        """The server ends."""
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[PageUpdate | None]:
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


# The one thread in which the lab is worked on, and what follows from it: after each change everybody is told.

T = TypeVar("T")

MOST_WAITING = 32
LOOK_SECONDS = 0.3
"""So often it is looked whether somebody else changed the lab's file."""


class TooManyRequests(KailabError):
    """More is asked of the lab than it can do."""


class LabWorker:
    def __init__(self, session: LabSession, newsroom: Broadcaster, report: Callable[[BaseException], None]) -> None:
        """``report`` gets what went wrong that nobody foresaw."""
        self._session, self._newsroom, self._report = session, newsroom, report
        self._shown = False
        self._loop: asyncio.AbstractEventLoop | None = None
        session.show = self._show
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")
        self._waiting = 0

    async def ask(self, do: Callable[[LabSession], T]) -> T:
        """Something that leaves the lab as it is. Raises KailabError."""
        if self._waiting >= MOST_WAITING:
            raise TooManyRequests("too much is asked of the lab at once; try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do, self._session)
        except (KailabError, RecursionError):
            raise
        except Exception as error:
            self._report(error)
            raise StateError(f"something went wrong inside kailab: {type(error).__name__}: {error!s:.300}") from error
        finally:
            self._waiting -= 1

    async def act(self, do: Callable[[LabSession], T]) -> T:
        """Something that changes it. Everybody is told what became of it, also where whoever asked has gone."""
        return await asyncio.shield(asyncio.ensure_future(self._acted(do)))

    async def _acted(self, do: Callable[[LabSession], T]) -> T:
        self._loop = asyncio.get_running_loop()
        shown = False

        def done(session: LabSession) -> T:
            nonlocal shown
            self._shown = False
            try:
                return do(session)
            finally:
                shown = self._shown

        try:
            told = await self.ask(done)
        except BaseException:
            # What was shown could not be saved: the lab is as it was.
            if shown or self._session.revision != self._newsroom.latest.revision:
                await self.look()
            raise
        if not shown:
            await self.look()
        return told

    def _show(self, view: PageView) -> None:
        """A change that is not saved yet. In the thread of the lab."""
        session, self._shown = self._session, True
        told = self._newsroom.publish(view, session.said, "", session.controls(), session.revision)
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(told, self._loop)

    async def look(self) -> None:
        """Look at the lab and tell everybody."""
        try:
            # All in the thread of the lab: what is told together is of one moment.
            seen = await self.ask(
                lambda session: (session.look(), session.said, "", session.controls(), session.revision)
            )
        except KailabError as error:
            await self._newsroom.publish(None, self._session.said, str(error), None, self._session.revision)
        else:
            await self._newsroom.publish(*seen)

    async def watch(self) -> None:
        """What others do to the lab is told, too. Ends when it is cancelled."""
        told: object = ()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._waiting:
                continue
            stamp = self._session.stamp()
            if self._session.stale and stamp != told:
                # A lab that can't be looked at is not looked at again before it changes.
                told = stamp
            elif not await self._moved():
                continue
            self._session.said = ""
            await self.look()

    async def _moved(self) -> bool:
        try:
            return await self.ask(lambda session: session.moved())
        # A cluster that does not answer is asked again; what is done to it says so.
        except KailabError:
            return False

    def close(self) -> None:
        """What is being done is done to its end; what waits is not begun."""
        with contextlib.suppress(RuntimeError):
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._session.close()
