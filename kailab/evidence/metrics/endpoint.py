"""A lab's metrics over HTTP, for Prometheus to scrape: each time as the lab is then."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from types import TracebackType
from typing import Any

from kailab.errors import InputError, KailabError
from kailab.evidence.metrics import text
from kailab.evidence.metrics.look import Look

PATH = "/metrics"
PLAIN = "text/plain; charset=utf-8"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PATIENCE_SECONDS = 10.0
"""For a client to say what it wants."""


class Endpoint:
    """Raises InputError where it can't listen."""

    def __init__(self, address: str, port: int, look: Callable[[], Look]) -> None:
        """``port`` 0: any that is free."""
        one = Lock()  # one look at a time, however many ask

        class _Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE_SECONDS
            server_version, sys_version = "kailab", ""

            def do_GET(self) -> None:
                if not _is_meant(self.headers.get("Host", ""), address):
                    self._answer(403, PLAIN, "this is served under the address that it was told\n")
                    return
                if self.path.partition("?")[0] != PATH:
                    self._answer(404, PLAIN, f"there is {PATH}\n")
                    return
                try:
                    with one:
                        told = text.of_look(look())
                except KailabError as error:
                    self._answer(503, PLAIN, f"{error}\n")
                else:
                    self._answer(200, text.CONTENT_TYPE, told)

            def _answer(self, code: int, kind: str, told: str) -> None:
                body = told.encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Prometheus says itself what it scrapes."""

        try:
            self._server = _Server((address, port), Handler)
        except OSError as error:
            raise InputError(f"can't listen at {address}:{port}: {error.strerror or error}") from None

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://[{host!s}]:{port}{PATH}" if ":" in str(host) else f"http://{host!s}:{port}{PATH}"

    def serve(self) -> None:
        """Until somebody interrupts it."""
        self._server.serve_forever()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.server_close()


def _is_meant(host: str, address: str) -> bool:
    """On this machine alone: a page of the web whose name was made to lead here has that name as its host."""
    return address not in LOOPBACK or host.rpartition(":")[0].strip("[]") in LOOPBACK
