"""What the process says of itself over HTTP: /livez and /healthz, /readyz, /metrics.

Alive: the loop turns, however seldom it has something to do, and whoever holds the lease renews it or has stopped acting on
it. Ready: the watches are in sync with an API server that answers; whether it leads or stands by is said with it, since a
standby is as ready as it gets.
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
"""A turn of the loop that takes longer counts as hung: the longest cycles take some tens of seconds."""

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class LoopHealth:
    """How the loop is doing, told by it, asked by the health server."""

    def __init__(self, clock: Callable[[], float] = steady_seconds) -> None:
        self._clock = clock
        self._turned_at = clock()
        self.synced = False
        self.trouble = "it is not connected to an API server yet"
        """Why nothing can be done at the moment; "" where it can."""
        self.role = "not known yet"

    def turned(self) -> None:
        """The loop begins a turn."""
        self._turned_at = self._clock()

    def live(self) -> tuple[bool, str]:
        """Whether all is well, and a line that says so or why not."""
        hung = self._clock() - self._turned_at
        # Not asked: whether it leads, or whether the server answers. A restart would mend neither.
        if hung > TURN_SECONDS:
            return False, f"the loop has not turned for {hung:.0f} s"
        return True, "ok"

    def ready(self) -> tuple[bool, str]:
        alive, told = self.live()
        if not alive:
            return False, told
        if self.trouble:
            return False, self.trouble
        if not self.synced:
            return False, "the watches are not in sync yet"
        return True, f"ok: {self.role}"


class HealthServer:
    """Answers from its own threads until closed. ``port`` 0: one that is free. Raises InputError where it can't listen."""

    def __init__(self, address: str, port: int, standing: LoopHealth, metrics: Callable[[], bytes]) -> None:
        def answer(path: str) -> tuple[int, str, bytes] | None:
            if path == "/metrics":
                return 200, METRICS, metrics()
            asked = {"/healthz": standing.live, "/livez": standing.live, "/readyz": standing.ready}.get(path)
            if asked is None:
                return None
            well, told = asked()
            return 200 if well else 503, TEXT, f"{told}\n".encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = answer(self.path.partition("?")[0])
                code, kind, body = found or (404, TEXT, b"there are /healthz, /livez, /readyz and /metrics\n")
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                pass  # probes come every few seconds

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            # http.server listens on IPv4 unless told otherwise.
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
