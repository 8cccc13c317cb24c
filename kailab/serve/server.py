"""Start and end of the server: the socket, the parts of the application, and the signals that end it."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from kailab.errors import InputError
from kailab.model.callbacks import Tell
from kailab.serve.app import Application
from kailab.serve.authentication import LOOPBACK, Authenticator
from kailab.serve.connections import ASKING_SECONDS, ConnectionLimiter
from kailab.serve.page_files import PageFiles
from kailab.serve.session import LabSession
from kailab.serve.worker import Broadcaster, LabWorker

END_SECONDS = 3.0
"""How long running requests may take when the server ends."""


def serve(state: Path, port: int, ready: Tell, tell: Tell, limiter: ConnectionLimiter | None = None) -> None:
    """Serve the lab of a file until Ctrl-C or SIGTERM. ``ready`` is called with the URL, ``tell`` with notices. Raises InputError if the port is in use;
    StateError or EvidenceError if there is no lab that can be shown."""
    session = LabSession(state, tell)
    session.refresh()
    with open_listener(port) as listener:
        asyncio.run(_serve_until_signal(session, listener, ready, tell, limiter or ConnectionLimiter()))


def open_listener(port: int) -> socket.socket:
    """Open a listening socket on the loopback address. ``port`` 0 takes a free port. Raises InputError."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(256)
    except (OSError, OverflowError) as error:
        listener.close()
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        why = "another process uses this port; choose another port, or 0 for a free one" if taken else str(error)
        raise InputError(f"--port {port}: can't listen: {why}") from None
    return listener


async def _serve_until_signal(
    session: LabSession, listener: socket.socket, ready: Tell, tell: Tell, limiter: ConnectionLimiter
) -> None:
    loop = asyncio.get_running_loop()
    files = PageFiles()
    authenticator = Authenticator(listener.getsockname()[1], limiter, files.script)
    broadcaster = Broadcaster()

    def report_unexpected(error: BaseException) -> None:
        tell("".join(traceback.format_exception(error)).rstrip())

    worker = LabWorker(session, broadcaster, report_unexpected)
    app = Application(worker, broadcaster, files, authenticator, report_unexpected).build()
    runner = web.AppRunner(
        app, logger=_silent(), access_log=None, keepalive_timeout=ASKING_SECONDS, handler_cancellation=True
    )
    await runner.setup()
    assert runner.server is not None
    server = await loop.create_server(limiter.limit(runner.server), sock=listener)
    await worker.refresh()
    watching = asyncio.ensure_future(worker.watch())
    with end_at_signals(loop) as end:
        ready(authenticator.url)
        await end.wait()
    watching.cancel()
    server.close()
    await broadcaster.end()
    with suppress(TimeoutError):
        async with asyncio.timeout(END_SECONDS):
            while any(connection.answering for connection in limiter.open.values()):
                await asyncio.sleep(0.02)
    await runner.shutdown()
    await runner.cleanup()
    worker.close()


def _silent() -> logging.Logger:
    """A logger that drops aiohttp's log of invalid requests: clients cause them, and errors of this server are reported otherwise."""
    logger = logging.getLogger("kailab.serve.http")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


class end_at_signals:  # noqa: N801  (a context manager, as those of contextlib)
    """A context in which the first Ctrl-C or SIGTERM sets the event. A second one ends the process as usual."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._end = asyncio.Event()
        self._installed = threading.current_thread() is threading.main_thread() and sys.platform != "win32"

    def __enter__(self) -> asyncio.Event:
        if self._installed:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.add_signal_handler(number, self._on_signal)
        return self._end

    def __exit__(self, *_: object) -> None:
        self._remove()

    def _on_signal(self) -> None:
        self._remove()
        self._end.set()

    def _remove(self) -> None:
        if self._installed:
            self._installed = False
            for number in (signal.SIGINT, signal.SIGTERM):
                self._loop.remove_signal_handler(number)
