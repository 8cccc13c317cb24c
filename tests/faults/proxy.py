"""A proxy between a scheduler and its API server that breaks things on a seeded schedule.

It ends TLS with a certificate of the control plane's own authority and asks the server as its administrator. Everything asked
is noted, so that a test can count.
"""

from __future__ import annotations

import asyncio
import json
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import aiohttp
from aiohttp import web
from yarl import URL

from kailab.cluster.controlplane.credentials import Authority, Pair, write_kubeconfig

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}


class Asked(NamedTuple):
    """A request. ``at``: monotonic seconds; ``fault``: the name of what was done to it."""

    at: float
    method: str
    path: str
    watch: bool
    body: bytes
    fault: str

    @property
    def writes(self) -> bool:
        return self.method != "GET"


How = Literal["refuse", "lose", "cut", "vanish", "delay", "line", "drop", "gone", "lie"]


@dataclass
class Fault:
    """``how``: refuse (answer ``code`` without asking the server), lose (the same after the server has done it), cut (send half
    of the answer), vanish (no answer after the server has done it), delay (by ``seconds``), line (the same, one request after the other), drop (end a watch after so many
    seconds), gone (a watch ends with 410 as its first event, or with code 410), lie (a Date header that is ``seconds`` off).

    ``most``: so often at most; None: without end.
    """

    name: str
    how: How
    chance: float = 1.0
    code: int = 500
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    on: Callable[[Asked], bool] = lambda asked: True
    most: int | None = None
    done: int = 0

    @property
    def of_watches(self) -> bool:
        return self.how in ("drop", "gone")


def status(code: int, reason: str, message: str) -> bytes:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return json.dumps(body).encode()


_REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}


class Proxy:
    """Serves from a thread of its own until closed. ``faults`` may be changed at any time; ``asked`` grows."""

    def __init__(self, plane: Path, server: str, folder: Path, seed: int = 0, faults: Sequence[Fault] = ()) -> None:
        self.faults = list(faults)
        self.asked: list[Asked] = []
        self._random = random.Random(seed)
        self._server = server
        pki = plane / "pki"
        authority = Authority(Pair(pki / "ca.crt", pki / "ca.key"))
        self._tls = ssl.create_default_context(cafile=str(authority.certificate))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        own = authority.issue_server(folder, "proxy")
        self._own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._own.load_cert_chain(own.certificate, own.key)
        self._loop = asyncio.new_event_loop()
        self._line = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.port = self._call(self._begin())
        self.kubeconfig = folder / "proxy.kubeconfig"
        client = authority.issue_client(folder, "client", "kubernetes-admin", ("system:masters",))
        write_kubeconfig(self.kubeconfig, f"https://127.0.0.1:{self.port}", authority, client, "kubernetes-admin")

    def _call(self, work: object) -> int:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)  # type: ignore[arg-type]

    async def _begin(self) -> int:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls), auto_decompress=False, read_bufsize=2**20
        )
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._own)
        await site.start()
        return int(site._server.sockets[0].getsockname()[1])  # type: ignore[union-attr]

    def close(self) -> None:
        async def end() -> int:
            await self._runner.cleanup()
            await self._session.close()
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            return 0

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def take_in(self) -> None:
        """Return when all that clients had sent is in ``asked``."""

        async def turns() -> int:
            for _ in range(20):  # of the loop: what is to be read is read in the first, and handled in the next
                await asyncio.sleep(0)
            return 0

        self._call(turns())

    def since(self, at: float) -> list[Asked]:
        """What was asked from a monotonic time on."""
        return [one for one in list(self.asked) if one.at >= at]

    # --- one request -------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        watch = request.query.get("watch") in ("1", "true")
        asked = Asked(time.monotonic(), request.method, request.path, watch, body, "")
        fault = self._choose(asked)
        self.asked.append(asked._replace(fault=fault.name if fault else ""))
        how = fault.how if fault else ""
        if fault is not None and how == "refuse":
            return self._refusal(fault)
        if fault is not None and how == "delay":
            await asyncio.sleep(fault.seconds)
        if fault is not None and how == "line":
            async with self._line:
                await asyncio.sleep(fault.seconds)
        if fault is not None and how == "gone":
            return self._gone()
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        try:
            async with self._session.request(
                request.method,
                URL(self._server + request.raw_path, encoded=True),
                data=body or None,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer:
                if fault is not None and how == "lose":
                    await answer.read()
                    return self._refusal(fault)
                if how == "vanish":
                    await answer.read()
                    return self._abort(request)
                return await self._pass_on(request, answer, watch, fault)
        except (aiohttp.ClientError, OSError):
            return self._abort(request)

    def _choose(self, asked: Asked) -> Fault | None:
        for fault in self.faults:
            if asked.watch != fault.of_watches or (fault.most is not None and fault.done >= fault.most):
                continue
            if fault.on(asked) and self._random.random() < fault.chance:
                fault.done += 1
                return fault
        return None

    def _refusal(self, fault: Fault) -> web.Response:
        text = status(fault.code, _REASONS.get(fault.code, "InternalError"), f"fault: {fault.name}")
        return web.Response(status=fault.code, body=text, content_type="application/json", headers=fault.headers)

    def _gone(self) -> web.Response:
        text = status(410, "Expired", "fault: gone")
        if self._random.random() < 0.5:
            return web.Response(status=410, body=text, content_type="application/json")
        event = b'{"type": "ERROR", "object": ' + text + b"}\n"
        return web.Response(status=200, body=event, content_type="application/json")

    def _abort(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=502)

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse, watch: bool, fault: Fault | None
    ) -> web.StreamResponse:
        how = fault.how if fault else ""
        headers = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP}
        if fault is not None and how == "lie":
            from email.utils import formatdate

            headers["Date"] = formatdate(time.time() + fault.seconds, usegmt=True)
        response = web.StreamResponse(status=answer.status, headers=headers)
        if not watch:
            data = await answer.read()
            response.content_length = len(data)
            await response.prepare(request)
            if how == "cut":
                await response.write(data[: len(data) // 2])
                return self._abort(request)
            await response.write(data)
            await response.write_eof()
            return response
        await response.prepare(request)
        try:
            async with asyncio.timeout(fault.seconds if fault is not None else None):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
        except TimeoutError:
            return self._abort(request)
        await response.write_eof()
        return response
