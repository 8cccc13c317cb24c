"""The thread of the lab, and the broadcast of its state to all open pages.

Everything that reads or changes the lab runs in one thread (``LabWorker``). After each change the worker publishes a ``PageUpdate``, whose
``version`` grows with each view. A page that is too slow skips updates and gets the latest one (``Broadcaster``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
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
    """``view``: None if the lab is down or can't be shown (``trouble`` says why). ``last_operation``: the last operation, in words. ``revision``: the session's
    when the lab was read; a page sends it with each request."""

    version: int
    view: PageView | None = None
    last_operation: str = ""
    trouble: str = ""
    controls: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    def data(self) -> dict[str, Any]:
        view = self.view
        shown = None if view is None else {"showing": view.showing, "number": view.number, "first": view.first}
        return {
            "version": self.version,
            "revision": self.revision,
            "there": view is not None,
            "view": shown,
            "lab": None if view is None else view.about,
            "said": self.last_operation,
            "trouble": self.trouble,
            "controls": self.controls,
        }


class Broadcaster:
    def __init__(self) -> None:
        self.latest = PageUpdate(0, trouble="the lab has not been read yet")
        self.ended = False
        self._changed = asyncio.Condition()

    async def publish(
        self,
        view: PageView | None,
        last_operation: str = "",
        trouble: str = "",
        controls: Mapping[str, Any] | None = None,
        revision: int = 0,
    ) -> None:
        async with self._changed:
            self.latest = PageUpdate(self.latest.version + 1, view, last_operation, trouble, controls or {}, revision)
            self._changed.notify_all()

    async def end(self) -> None:
        """End all subscriptions, because the server ends."""
        async with self._changed:
            self.ended = True
            self._changed.notify_all()

    async def follow(self) -> AsyncIterator[PageUpdate | None]:
        """Yield the latest update, then each new one; None as a heartbeat. Ends with the server."""
        seen = -1
        while not self.ended:
            async with self._changed:
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await self._changed.wait_for(lambda seen=seen: self.ended or self.latest.version != seen)  # type: ignore[misc]
                except TimeoutError:
                    pass
                update = self.latest
            yield None if update.version == seen else update
            seen = update.version


_log = logging.getLogger(__name__)
T = TypeVar("T")

MOST_WAITING = 32
POLL_SECONDS = 0.3
"""Interval between checks whether another process changed the lab's file."""


class TooManyRequests(KailabError):
    """Too many requests wait for the lab."""


class LabWorker:
    def __init__(self, session: LabSession, broadcaster: Broadcaster, report: Callable[[BaseException], None]) -> None:
        """``report`` is called with unexpected errors."""
        self._session, self._broadcaster, self._report = session, broadcaster, report
        self._shown = False
        self._loop: asyncio.AbstractEventLoop | None = None
        session.show = self._publish_view
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab")
        self._waiting = 0

    async def ask(self, do: Callable[[LabSession], T]) -> T:
        """Run a function in the lab's thread, without publishing an update. Raises KailabError."""
        if self._waiting >= MOST_WAITING:
            raise TooManyRequests("too many requests wait for the lab; try again")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, do, self._session)
        except (KailabError, RecursionError):
            raise
        except Exception as error:
            self._report(error)
            raise StateError(f"internal error of kailab: {type(error).__name__}: {error!s:.300}") from error
        finally:
            self._waiting -= 1

    async def act(self, do: Callable[[LabSession], T]) -> T:
        """Run a function that changes the lab, and publish the result, even if the request is cancelled meanwhile."""
        return await asyncio.shield(asyncio.ensure_future(self._run_and_publish(do)))

    async def _run_and_publish(self, do: Callable[[LabSession], T]) -> T:
        self._loop = asyncio.get_running_loop()
        published = False

        def run(session: LabSession) -> T:
            nonlocal published
            self._shown = False
            try:
                return do(session)
            finally:
                published = self._shown

        try:
            result = await self.ask(run)
        except BaseException:
            # The change was shown but not saved, or the lab has changed since: read it and publish it again.
            if published or self._session.revision != self._broadcaster.latest.revision:
                await self.refresh()
            raise
        if not published:
            await self.refresh()
        return result

    def _publish_view(self, view: PageView) -> None:
        """Publish a change that is not saved yet. Called in the thread of the lab."""
        session, self._shown = self._session, True
        publishing = self._broadcaster.publish(view, session.last_operation, "", session.controls(), session.revision)
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(publishing, self._loop)

    async def refresh(self) -> None:
        """Read the lab and publish it."""
        try:
            # All values in one call in the thread of the lab, so that they belong to one moment.
            update = await self.ask(
                lambda session: (session.refresh(), session.last_operation, "", session.controls(), session.revision)
            )
        except KailabError as error:
            await self._broadcaster.publish(
                None, self._session.last_operation, str(error), None, self._session.revision
            )
        else:
            await self._broadcaster.publish(*update)

    async def watch(self) -> None:
        """Publish changes made by other processes, and by a cluster that runs by itself. Ends when it is cancelled."""
        published: object = ()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if self._waiting:
                continue
            stamp = self._session.stamp()
            if self._session.stale and stamp != published:
                # Also remembered if the lab can't be read: it is not read again before its file changes.
                published = stamp
            elif not await self._has_changed():
                continue
            self._session.last_operation = ""
            await self.refresh()

    async def _has_changed(self) -> bool:
        try:
            return await self.ask(lambda session: session.has_changed())
        # A cluster that does not answer is asked again in the next round. An action on it reports the error.
        except KailabError as error:
            _log.debug("the cluster of the lab does not answer, and is asked again: %s", error)
            return False

    def close(self) -> None:
        """Finish the current function, and drop those that wait."""
        with contextlib.suppress(RuntimeError):
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._session.close()
