"""Health and metrics of the process over HTTP: /livez and /healthz, /readyz, /metrics.

Live: the loop takes turns, even without work. Ready: the watches are in sync with an API server that answers; the text names the role,
because a standby is ready too.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kailab.errors import InputError
from kailab.scheduler.service.election import steady_seconds

TURN_SECONDS = 300.0
"""A longer turn of the loop counts as hung. The longest cycles take some tens of seconds."""

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class LoopHealth:
    """The state of the loop, which the loop sets and the health server reads."""

    def __init__(self, clock: Callable[[], float] = steady_seconds) -> None:
        self._clock = clock
        self._turned_at = clock()
        self.synced = False
        self.trouble = "it is not connected to an API server yet"
        """Why the scheduler can't work at the moment, or ""."""
        self.role = "not known yet"

    def turned(self) -> None:
        """The loop begins a turn."""
        self._turned_at = self._clock()

    def live(self) -> tuple[bool, str]:
        """Whether the loop is live, and a line about it."""
        hung = self._clock() - self._turned_at
        # Leadership and the answers of the server do not matter here: a restart would not help.
        if hung > TURN_SECONDS:
            return False, f"the loop has not turned for {hung:.0f} s"
        return True, "ok"

    def ready(self) -> tuple[bool, str]:
        """Whether the scheduler is ready, and a line about it."""
        live, message = self.live()
        if not live:
            return False, message
        if self.trouble:
            return False, self.trouble
        if not self.synced:
            return False, "the watches are not in sync yet"
        return True, f"ok: {self.role}"


class HealthServer:
    """Serves from its own threads until closed. ``port`` 0: any free port. Raises InputError if it can't listen."""

    def __init__(self, address: str, port: int, health: LoopHealth, metrics: Callable[[], bytes]) -> None:
        def answer(path: str) -> tuple[int, str, bytes] | None:
            if path == "/metrics":
                return 200, METRICS, metrics()
            check = {"/healthz": health.live, "/livez": health.live, "/readyz": health.ready}.get(path)
            if check is None:
                return None
            healthy, message = check()
            return 200 if healthy else 503, TEXT, f"{message}\n".encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, kind, body = answer(self.path.partition("?")[0]) or (
                    404,
                    TEXT,
                    b"there are /healthz, /livez, /readyz and /metrics\n",
                )
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                pass  # probes arrive every few seconds

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # http.server listens on IPv4 by default.
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        try:
            self._server = Server((address, port), Handler)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", None) == errno.EADDRINUSE
            why = "another process listens there; choose another --port, or 0 for a free one" if taken else str(error)
            raise InputError(f"--bind-address {address} --port {port}: can't listen: {why}") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
