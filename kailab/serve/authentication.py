"""Authentication of requests. The page can change a lab, and every site that is open in the same browser can send requests to a loopback
address. Each request must prove that it comes from the page:

* by a cookie that the printed URL sets. No script can read it, and requests of other sites do not carry it. Browsers keep cookies by host, not by
  port, so every other server on this machine also receives it. The cookie therefore only gives access to the empty page and its files;
* by the token of the printed URL, in a header, for reading and changing the lab. The page takes it from its address and keeps it in storage that
  the browser separates by port;
* by a Host header with an address of this server. DNS rebinding (a foreign name that resolves to the loopback address) fails here;
* by an Origin header of this server, for requests that write.
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
"""Prefix of the paths of the page's own files."""
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
    """``token``: a secret of this run of the server. ``url``: the address to print, with the token."""

    def __init__(self, port: int, limiter: ConnectionLimiter, script: str) -> None:
        """``script``: the hash of the page's inline script, as a Content-Security-Policy source."""
        self.token = secrets.token_urlsafe(32)
        # A different secret than the token, so that a leaked cookie does not reveal the token.
        self._cookie_value = secrets.token_urlsafe(32)
        # The name has the port, because browsers keep cookies by host: two servers must not overwrite each other's cookie.
        self._cookie = f"kailab-{port}"
        self._hosts = {f"{name}:{port}" for name in NAMES}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._limiter = limiter
        self._policy = (
            f"default-src 'none'; script-src 'self' {script}; style-src 'self'; img-src data:; connect-src 'self'; "
            "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.url = f"http://{LOOPBACK}:{port}/?token={self.token}"

    def protect(self, app: web.Application) -> None:
        """Check every request to the application first, and add the security headers to every response."""
        app.middlewares.append(self._admit)
        app.on_response_prepare.append(self._prepare)

    @web.middleware
    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        with self._limiter.answering(request.transport):
            refused = self._refusal(request)
            # A connection that has shown the token counts against the limit of authenticated connections.
            if refused is None and self._shows_token(request) and not self._limiter.admit(request.transport):
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

    def _refusal(self, request: web.Request) -> tuple[int, str] | None:
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
        return self._authentication_failure(request)

    def _authentication_failure(self, request: web.Request) -> tuple[int, str] | None:
        cookie, token = _cookie(request, self._cookie), _token(request)
        has_cookie = _equals_secret(cookie, self._cookie_value)
        # The page and its files contain nothing of the lab.
        public = request.path == _PAGE or request.path.startswith(FILES)
        if (has_cookie and public) or (self._shows_token(request) and (has_cookie or request.path == _PAGE)):
            return None
        if token or (cookie and not has_cookie):
            return 403, "this token is not that of the printed URL (each `kailab serve` makes another)"
        return 401, "open the URL that `kailab serve` printed: it has a token"

    def _shows_token(self, request: web.Request) -> bool:
        return _equals_secret(_token(request), self.token)

    def remember(self, response: web.Response) -> None:
        """Set the cookie that gives access to the page and its files."""
        response.set_cookie(self._cookie, self._cookie_value, path="/", httponly=True, samesite="Strict")


def _token(request: web.Request) -> str:
    """The token of a request: in the address of the page, and in a header everywhere else, because addresses are logged and shared."""
    return request.query.get("token", "") if request.path == _PAGE else request.headers.get(TOKEN_HEADER, "")


def _cookie(request: web.Request, name: str) -> str:
    try:
        return request.cookies.get(name, "")
    except (CookieError, ValueError):  # not a valid Cookie header
        return "malformed"


def _equals_secret(text: str, secret: str) -> bool:
    # Headers may contain bytes that are not UTF-8.
    return hmac.compare_digest(text.encode("utf-8", "surrogateescape"), secret.encode())
