"""The HTTP interface of the live page.

GET  /                          the page; with ?token= it sets the cookie
GET  /files/NAME                its modules and styles
GET  /events                    updates of the lab, pushed (server-sent events)
GET  /news/VERSION              the latest update if it is newer than VERSION; for browsers that can't share one event stream
GET  /data/VERSION/lab          the lab as a LabForm
GET  /data/VERSION/since/SHOWING/NUMBER     the increments since view NUMBER
GET  /data/VERSION/editable         the objects that the page can change
GET  /data/VERSION/raw/CHUNK    raw text
GET  /examples                  the library of example manifests
POST /explain                   why a PodGroup waits or runs, and what would help
POST /preview                   try an action on a copy
POST /apply                     carry out what was previewed
POST /do                        pause, step, advance, undo
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from kailab.errors import InputError, KailabError
from kailab.serve.actions import read_action
from kailab.serve.authentication import Authenticator, Handler
from kailab.serve.page_files import PageFiles, examples
from kailab.serve.session import OutdatedRequest
from kailab.serve.worker import Broadcaster, LabWorker, PageUpdate

MOST_BYTES = 2**20
"""Limit of a request's body."""
BODY_SECONDS = 10.0
_WRITE_SECONDS = 20.0
"""A browser that does not read for this long is disconnected. It connects again when it wakes up."""

_JSON = "application/json"


class _ApplyRequest(msgspec.Struct, forbid_unknown_fields=True):
    id: str


class _DoRequest(msgspec.Struct, forbid_unknown_fields=True):
    """``seen``: the revision that the page shows."""

    do: str
    seen: int
    seconds: float = 0.0


class _ExplainRequest(msgspec.Struct, forbid_unknown_fields=True):
    """``podgroup``: ``namespace/name``."""

    podgroup: str


class Application:
    def __init__(
        self,
        worker: LabWorker,
        broadcaster: Broadcaster,
        files: PageFiles,
        authenticator: Authenticator,
        report: Callable[[BaseException], None],
    ) -> None:
        """``report`` is called with unexpected errors."""
        self._worker, self._broadcaster, self._files, self._authenticator = worker, broadcaster, files, authenticator
        self._report = report
        self._encoded_editable: tuple[Any, asyncio.Future[bytes] | None] = (None, None)

    def build(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[])
        self._authenticator.protect(app)
        app.middlewares.append(self._report_errors)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/files/{name}", self._file),
                web.get("/events", self._events),
                web.get("/news/{version}", self._news),
                web.get("/data/{version}/lab", self._lab),
                web.get("/data/{version}/editable", self._editable),
                web.get("/data/{version}/since/{showing}/{number}", self._since),
                web.get("/data/{version}/raw/{chunk}", self._raw),
                web.get("/examples", self._examples),
                web.post("/explain", self._explain),
                web.post("/preview", self._preview),
                web.post("/apply", self._apply),
                web.post("/do", self._do),
            ]
        )
        return app

    @web.middleware
    async def _report_errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn errors into JSON with the messages that commands print, one per line."""
        try:
            return await handler(request)
        except KailabError as error:
            code = 400 if isinstance(error, InputError) and not isinstance(error, OutdatedRequest) else 409
            return _json({"errors": str(error).splitlines()}, code)
        except RecursionError:
            return _json({"errors": ["the input is nested too deeply"]}, 400)
        except (ConnectionError, TimeoutError):
            raise web.HTTPRequestTimeout(text="too slow\n") from None
        except web.HTTPException:
            raise
        except Exception as error:
            self._report(error)
            return _json({"errors": [f"internal error of kailab: {type(error).__name__}"]}, 500)

    # --- reading --------------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        response = web.Response(body=self._files.page, content_type="text/html", charset="utf-8")
        # No redirect: after a click on a link in a mail or a chat, browsers do not send a SameSite=Strict cookie with it.
        self._authenticator.remember(response)
        return response

    async def _file(self, request: web.Request) -> web.Response:
        file = self._files.named.get(request.match_info["name"])
        if file is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return web.Response(body=file.content, content_type=file.kind, charset="utf-8")

    async def _lab(self, request: web.Request) -> web.Response:
        return _compressed(self._requested_view(request).lab, _JSON)

    async def _since(self, request: web.Request) -> web.Response:
        showing, number = request.match_info["showing"], request.match_info["number"]
        if not number.isascii() or not number.isdecimal() or len(number) > 9:
            raise web.HTTPNotFound(text="there is no such part\n")
        increments = self._requested_view(request).since(showing, int(number))
        if increments is None:
            raise web.HTTPGone(text="the increments since that view are not available any more\n")
        return _compressed(increments, _JSON)

    async def _editable(self, request: web.Request) -> web.Response:
        view = self._requested_view(request)
        encoded_view, encoding = self._encoded_editable
        if (
            encoded_view is not view
            or encoding is None
            or (encoding.done() and (encoding.cancelled() or encoding.exception() is not None))
        ):
            # Encoded on the first request, in the thread of the lab, and shared by all requests for this view.
            encoding = asyncio.ensure_future(self._worker.ask(lambda _: view.editable))
            self._encoded_editable = view, encoding
        return _compressed(await asyncio.shield(encoding), _JSON)

    async def _raw(self, request: web.Request) -> web.Response:
        chunks, name = self._requested_view(request).chunks, request.match_info["chunk"]
        # Encoded in the thread of the lab, because it reads the lab.
        return _compressed(await self._worker.ask(lambda _: chunks.get(name)), "text/plain")

    def _requested_view(self, request: web.Request) -> Any:
        latest = self._broadcaster.latest
        if latest.view is None or request.match_info["version"] != str(latest.version):
            raise web.HTTPGone(text="the lab has changed since\n")
        return latest.view

    async def _examples(self, request: web.Request) -> web.Response:
        return _json([example._asdict() for example in examples()])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        async for update in self._broadcaster.follow():
            async with asyncio.timeout(_WRITE_SECONDS):
                await response.write(b": still here\n\n" if update is None else _event("lab", update))
        async with asyncio.timeout(_WRITE_SECONDS):
            await response.write(b"event: end\ndata: {}\n\n")
        return response

    async def _news(self, request: web.Request) -> web.Response:
        latest = self._broadcaster.latest
        if request.match_info["version"] == str(latest.version):
            return web.Response(status=204)
        return _json(latest.data())

    # --- acting ----------------------------------------------------------------------------------------------------

    async def _explain(self, request: web.Request) -> web.Response:
        namespace, _, name = _decode(await _body(request), _ExplainRequest).podgroup.partition("/")
        return _json({"lines": await self._worker.ask(lambda session: session.explain(namespace, name))})

    async def _preview(self, request: web.Request) -> web.Response:
        action = read_action(await _body(request))
        return _json(await self._worker.ask(lambda session: session.preview(action)))

    async def _apply(self, request: web.Request) -> web.Response:
        preview_id = _decode(await _body(request), _ApplyRequest).id
        return _json({"said": await self._worker.act(lambda session: session.apply(preview_id))})

    async def _do(self, request: web.Request) -> web.Response:
        command = _decode(await _body(request), _DoRequest)
        if command.seconds and command.do != "advance":
            raise InputError(f"{command.do} takes no seconds")
        operations: dict[str, Callable[[Any], str]] = {
            "pause": lambda session: session.pause(command.seen),
            "go-on": lambda session: session.go_on(command.seen),
            "step": lambda session: session.step(command.seen),
            "undo": lambda session: session.undo(command.seen),
            "advance": lambda session: session.advance(command.seconds, command.seen),
        }
        if command.do not in operations:
            raise InputError(f"{command.do!r} is not an operation; expected one of: {', '.join(operations)}")
        return _json({"said": await self._worker.act(operations[command.do])})


async def _body(request: web.Request) -> bytes:
    """Raises HTTPRequestEntityTooLarge, HTTPRequestTimeout."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body did not arrive in time\n") from None


def _decode(body: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"this request can't be read: {error}") from error


def _json(value: Any, code: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=code, content_type=_JSON)


def _compressed(content: bytes | None, kind: str) -> web.Response:
    if content is None:
        raise web.HTTPNotFound(text="there is no such part\n")
    return web.Response(body=content, content_type=kind, headers={"Content-Encoding": "gzip"})


def _event(name: str, update: PageUpdate) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(update.data()).decode()}\n\n".encode()
