"""The one thread in which the lab is worked on, and what follows from it: after each change everybody is told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kailab.errors import KailabError, StateError
from kailab.serve.newsroom import Newsroom
from kailab.serve.session import Session
from kailab.serve.view import View

T = TypeVar("T")

MOST_WAITING = 32
LOOK_SECONDS = 0.3
"""So often it is looked whether somebody else changed the lab's file."""


class Busy(KailabError):
    """More is asked of the lab than it can do."""


class Room:
    def __init__(self, session: Session, newsroom: Newsroom, report: Callable[[BaseException], None]) -> None:
        """``report`` gets what went wrong that nobody foresaw."""
        self._session, self._newsroom, self._report = session, newsroom, report
        self._shown = False
        self._loop: asyncio.AbstractEventLoop | None = None
        session.show = self._show
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")
        self._waiting = 0

    async def ask(self, do: Callable[[Session], T]) -> T:
        """Something that leaves the lab as it is. Raises KailabError."""
        if self._waiting >= MOST_WAITING:
            raise Busy("too much is asked of the lab at once; try again")
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

    async def act(self, do: Callable[[Session], T]) -> T:
        """Something that changes it. Everybody is told what became of it, also where whoever asked has gone."""
        return await asyncio.shield(asyncio.ensure_future(self._acted(do)))

    async def _acted(self, do: Callable[[Session], T]) -> T:
        self._loop = asyncio.get_running_loop()
        shown = False

        def done(session: Session) -> T:
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

    def _show(self, view: View) -> None:
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
