"""The server, from its socket to its end."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from kailab.errors import InputError
from kailab.serve.app import Application
from kailab.serve.authentication import LOOPBACK, Authenticator
from kailab.serve.connections import ASKING_SECONDS, ConnectionLimiter
from kailab.serve.page_files import PageFiles
from kailab.serve.session import LabSession
from kailab.serve.worker import Broadcaster, LabWorker

END_SECONDS = 3.0
"""So long the last answers may take when the server ends."""
Tell = Callable[[str], None]


def serve(state: Path, port: int, ready: Tell, tell: Tell, door: ConnectionLimiter | None = None) -> None:
    """Serve the lab of a file until Ctrl-C or SIGTERM. ``ready`` gets the URL, ``tell`` what is worth knowing meanwhile. Raises InputError
    where the port is taken; StateError, EvidenceError where there is no lab that can be shown."""
    session = LabSession(state, tell)
    session.look()
    with open_listener(port) as listener:
        asyncio.run(_served(session, listener, ready, tell, door or ConnectionLimiter()))


def open_listener(port: int) -> socket.socket:
    """On the loopback address; ``port`` 0: one that is free. Raises InputError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(256)
    except (OSError, OverflowError) as error:
        listener.close()
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        why = "another process listens there; choose another, or 0 for a free one" if taken else str(error)
        raise InputError(f"--port {port}: can't listen: {why}") from None
    return listener


async def _served(
    session: LabSession, listener: socket.socket, ready: Tell, tell: Tell, door: ConnectionLimiter
) -> None:
    loop = asyncio.get_running_loop()
    files = PageFiles()
    gate = Authenticator(listener.getsockname()[1], door, files.script)
    newsroom = Broadcaster()

    def unforeseen(error: BaseException) -> None:
        tell("".join(traceback.format_exception(error)).rstrip())

    room = LabWorker(session, newsroom, unforeseen)
    app = Application(room, newsroom, files, gate, unforeseen).made()
    runner = web.AppRunner(
        app, logger=_silent(), access_log=None, keepalive_timeout=ASKING_SECONDS, handler_cancellation=True
    )
    await runner.setup()
    assert runner.server is not None
    server = await loop.create_server(door.through(runner.server), sock=listener)
    await room.look()
    watching = asyncio.ensure_future(room.watch())
    with end_at_signals(loop) as end:
        ready(gate.url)
        await end.wait()
    watching.cancel()
    server.close()
    await newsroom.end()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while any(one.answering for one in door.open.values()):
                await asyncio.sleep(0.02)
    await runner.shutdown()
    await runner.cleanup()
    room.close()


def _silent() -> logging.Logger:
    """What clients send that is no HTTP is their affair; what goes wrong here is told otherwise."""
    logger = logging.getLogger("kailab.serve")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class end_at_signals:  # noqa: N801  (a context manager, as those of contextlib)
    """Within it the first Ctrl-C or SIGTERM sets the event; a second one ends the process as ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._end = asyncio.Event()
        self._ours = threading.current_thread() is threading.main_thread() and sys.platform != "win32"

    def __enter__(self) -> asyncio.Event:
        if self._ours:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, self._asked)
        return self._end

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _asked(self) -> None:
        self._remove()
        self._end.set()

    def _remove(self) -> None:
        if self._ours:
            self._ours = False
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)
