"""What can be asked of the server.

GET  /                          the page; with ?token= it lets the browser in
GET  /files/NAME                its modules and styles
GET  /events                    news of the lab, pushed (server-sent events)
GET  /news/VERSION              the latest news, where they are later than that version: for browsers that can't share one stream
GET  /data/VERSION/lab          the lab as the viewer's form, /since/SHOWING/NUMBER: what is new since a view of that number,
                                /desk: what of it can be changed, /raw/CHUNK: raw text
GET  /examples                  the library
POST /preview, /apply, /do      a change tried on a copy; carried out; pause, step, advance, undo
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
"""Of a request's body."""
BODY_SECONDS = 10.0
_WRITE_SECONDS = 20.0
"""A browser that does not take its news for so long has its connection closed; it asks again when it wakes."""

_JSON = "application/json"


class _Numbered(msgspec.Struct, forbid_unknown_fields=True):
    id: str


class _Order(msgspec.Struct, forbid_unknown_fields=True):
    """``seen``: the revision of the news that whoever asks has seen."""

    do: str
    seen: int
    seconds: float = 0.0


class Application:
    def __init__(
        self,
        room: LabWorker,
        newsroom: Broadcaster,
        files: PageFiles,
        gate: Authenticator,
        report: Callable[[BaseException], None],
    ) -> None:
        """``report`` gets what went wrong that nobody foresaw."""
        self._room, self._newsroom, self._files, self._gate = room, newsroom, files, gate
        self._report = report
        self._desk_of: tuple[Any, asyncio.Future[bytes] | None] = (None, None)

    def made(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[])
        self._gate.guard(app)
        app.middlewares.append(self._errors_told)
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/files/{name}", self._file),
                web.get("/events", self._events),
                web.get("/news/{version}", self._news),
                web.get("/data/{version}/lab", self._lab),
                web.get("/data/{version}/desk", self._desk),
                web.get("/data/{version}/since/{showing}/{number}", self._since),
                web.get("/data/{version}/raw/{chunk}", self._raw),
                web.get("/examples", self._examples),
                web.post("/preview", self._preview),
                web.post("/apply", self._apply),
                web.post("/do", self._do),
            ]
        )
        return app

    @web.middleware
    async def _errors_told(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """The same messages as commands tell, a line each."""
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
            return _json({"errors": [f"something went wrong inside kailab: {type(error).__name__}"]}, 500)

    # --- to look at ------------------------------------------------------------------------------------------------

    async def _page(self, request: web.Request) -> web.Response:
        response = web.Response(body=self._files.page, content_type="text/html", charset="utf-8")
        # Not a redirect: from a link in a mail or a chat its cookie would not be sent.
        self._gate.remember(response)
        return response

    async def _file(self, request: web.Request) -> web.Response:
        found = self._files.named.get(request.match_info["name"])
        if found is None:
            raise web.HTTPNotFound(text="there is no such file\n")
        return web.Response(body=found.content, content_type=found.kind, charset="utf-8")

    async def _lab(self, request: web.Request) -> web.Response:
        return _compressed(self._asked(request).lab, _JSON)

    async def _since(self, request: web.Request) -> web.Response:
        showing, number = request.match_info["showing"], request.match_info["number"]
        if not number.isascii() or not number.isdecimal() or len(number) > 9:
            raise web.HTTPNotFound(text="there is no such part\n")
        found = self._asked(request).since(showing, int(number))
        if found is None:
            raise web.HTTPGone(text="what is new since then is not known any more\n")
        return _compressed(found, _JSON)

    async def _desk(self, request: web.Request) -> web.Response:
        view = self._asked(request)
        of, made = self._desk_of
        if of is not view or made is None or (made.done() and (made.cancelled() or made.exception() is not None)):
            # Made now, once for all: in the thread of the lab, as all that reads it.
            made = asyncio.ensure_future(self._room.ask(lambda _: view.desk))
            self._desk_of = view, made
        return _compressed(await asyncio.shield(made), _JSON)

    async def _raw(self, request: web.Request) -> web.Response:
        chunks, name = self._asked(request).chunks, request.match_info["chunk"]
        # Written now: in the thread of the lab, as all that reads it.
        return _compressed(await self._room.ask(lambda _: chunks.get(name)), "text/plain")

    def _asked(self, request: web.Request) -> Any:
        latest = self._newsroom.latest
        if latest.view is None or request.match_info["version"] != str(latest.version):
            raise web.HTTPGone(text="the lab has changed since\n")
        return latest.view

    async def _examples(self, request: web.Request) -> web.Response:
        return _json([one._asdict() for one in examples()])

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        async for news in self._newsroom.follow():
            async with asyncio.timeout(_WRITE_SECONDS):
                await response.write(b": still here\n\n" if news is None else _event("lab", news))
        async with asyncio.timeout(_WRITE_SECONDS):
            await response.write(b"event: end\ndata: {}\n\n")
        return response

    async def _news(self, request: web.Request) -> web.Response:
        latest = self._newsroom.latest
        if request.match_info["version"] == str(latest.version):
            return web.Response(status=204)
        return _json(latest.data())

    # --- to do -----------------------------------------------------------------------------------------------------

    async def _preview(self, request: web.Request) -> web.Response:
        wish = read_action(await _body(request))
        return _json(await self._room.ask(lambda session: session.preview(wish)))

    async def _apply(self, request: web.Request) -> web.Response:
        number = _read(await _body(request), _Numbered).id
        return _json({"said": await self._room.act(lambda session: session.apply(number))})

    async def _do(self, request: web.Request) -> web.Response:
        order = _read(await _body(request), _Order)
        if order.seconds and order.do != "advance":
            raise InputError(f"{order.do} takes no seconds")
        orders: dict[str, Callable[[Any], str]] = {
            "pause": lambda session: session.pause(order.seen),
            "go-on": lambda session: session.go_on(order.seen),
            "step": lambda session: session.step(order.seen),
            "undo": lambda session: session.undo(order.seen),
            "advance": lambda session: session.advance(order.seconds, order.seen),
        }
        if order.do not in orders:
            raise InputError(f"there is no {order.do!r}; expected one of: {', '.join(orders)}")
        return _json({"said": await self._room.act(orders[order.do])})


async def _body(request: web.Request) -> bytes:
    """Raises HTTPRequestEntityTooLarge, HTTPRequestTimeout."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body did not come\n") from None


def _read(body: bytes, type: Any) -> Any:
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


def _event(name: str, news: PageUpdate) -> bytes:
    return f"event: {name}\ndata: {msgspec.json.encode(news.data()).decode()}\n\n".encode()
