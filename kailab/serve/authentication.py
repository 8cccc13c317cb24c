"""Who may ask. The page acts on a lab, and any site that is open in the same browser can send requests to a loopback address, so each
request has to show that it is the page's:

* a cookie that the printed URL left, which no script reads and no other site's request carries. Browsers keep cookies by host, not by port: any
  other server on this machine gets it, too, from a browser that visits it. So it opens the page without what is in it, and nothing more;
* for what the lab is and what is done to it, the token of the printed URL as well, in a header. The page takes it from its address and keeps it where
  the browser lets no other port look;
* a Host that is ours: a foreign name that was made to lead here (DNS rebinding) is not;
* for what writes, an Origin that is ours.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import CookieError

from aiohttp import web

from kailab.serve.connections import ConnectionLimiter

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

READING = ("GET", "HEAD")
TOKEN_HEADER = "X-Kailab-Token"
_PAGE = "/"
FILES = "/files/"
"""What paths of the page's own files begin with."""
LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost")

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Authenticator:
    """``token``: made for each run of the server."""

    def __init__(self, port: int, door: ConnectionLimiter, script: str) -> None:
        """``script``: source of the one script within the page, as a Content-Security-Policy names it."""
        self.token = secrets.token_urlsafe(32)
        # Another secret than the token: whoever gets the one does not know the other.
        self._cookie_value = secrets.token_urlsafe(32)
        # Browsers keep cookies by host, whatever the port: two servers must not overwrite each other's.
        self._cookie = f"kailab-{port}"
        self._hosts = {f"{name}:{port}" for name in NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._door = door
        self._policy = (
            f"default-src 'none'; script-src 'self' {script}; style-src 'self'; img-src data:; connect-src 'self'; "
            "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.url = f"http://{LOOPBACK}:{port}/?token={self.token}"

    def guard(self, app: web.Application) -> None:
        """Every request to the application comes by here first, and every answer gets its headers here."""
        app.middlewares.append(self._admit)
        app.on_response_prepare.append(self._prepare)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self._door.answering(request.transport):
            refused = self._refused(request)
            # Only who shows the token has a place that no stranger takes.
            if refused is None and self._shows_token(request) and not self._door.admit(request.transport):
                refused = 503, "too many connections are open"
            if refused is not None:
                code, why = refused
                response = web.Response(status=code, text=f"{why}\n")
                response.force_close()
                return response
            return await handler(request)

    async def _prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(_HEADERS)
        response.headers["Content-Security-Policy"] = self._policy
        response.headers.pop("Server", None)

    def _refused(self, request: web.Request) -> tuple[int, str] | None:
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, "this host is not served here"
        if request.method not in (*READING, "POST"):
            return 405, "expected GET or POST"
        if request.method not in READING:
            if request.headers.getall("Origin", []) not in ([origin] for origin in self._origins):
                return 403, "this comes from another site"
            if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
                return 403, "this comes from another site"
            if request.content_type != "application/json":
                return 415, "expected application/json"
        return self._stranger(request)

    def _stranger(self, request: web.Request) -> tuple[int, str] | None:
        cookie, token = _cookie(request, self._cookie), _token(request)
        known = _same(cookie, self._cookie_value)
        # The page and what it is made of tell nothing of the lab.
        public = request.path == _PAGE or request.path.startswith(FILES)
        if (known and public) or (self._shows_token(request) and (known or request.path == _PAGE)):
            return None
        if token or (cookie and not known):
            return 403, "this token is not that of the printed URL (each `kailab serve` makes another)"
        return 401, "open the URL that `kailab serve` printed: it has a token"

    def _shows_token(self, request: web.Request) -> bool:
        return _same(_token(request), self.token)

    def remember(self, response: web.Response) -> None:
        """Whoever gets this answer may load the page."""
        response.set_cookie(self._cookie, self._cookie_value, path="/", httponly=True, samesite="Strict")


def _token(request: web.Request) -> str:
    """In the address of the page, in a header else: addresses are kept and passed on."""
    return request.query.get("token", "") if request.path == _PAGE else request.headers.get(TOKEN_HEADER, "")


def _cookie(request: web.Request, name: str) -> str:
    try:
        return request.cookies.get(name, "")
    except (CookieError, ValueError):  # no cookies at all, whatever it is
        return "malformed"


def _same(text: str, secret: str) -> bool:
    # A header can have bytes that are no text.
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), secret.encode())
