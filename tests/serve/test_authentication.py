"""Only the page gets in: each request has to show the token, our host, and where it writes our origin."""

from __future__ import annotations

import contextlib
import gzip
import socket
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served

READ = (
    "/",
    "/events",
    "/news/none",
    "/data/1/lab",
    "/data/1/editable",
    "/data/1/raw/raw.0",
    "/examples",
    "/files/page-live.js",
    "/none",
)
WRITE = ("/preview", "/apply", "/do")
ORDER = b'{"do": "advance", "seen": 1, "seconds": 60}'


@pytest.mark.parametrize("path", READ)
def test_without_a_token_nothing_is_told(served: Served, path: str) -> None:
    answer = served.ask(path)
    assert answer.code == 401
    assert b"has a token" in answer.body
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", READ)
def test_a_wrong_token_is_refused(served: Served, path: str) -> None:
    for wrong in ("x", served.token[:-1], served.token + "x", served.token.swapcase()):
        name = next(iter(served.cookie.values())).partition("=")[0]
        assert served.ask(path, headers={"Cookie": f"{name}={wrong}"}).code == 403
    assert served.ask("/?token=x").code == 403
    assert served.ask("/?token=").code == 401
    assert served.ask("/?token=%F0%9F%98%80").code == 403


@pytest.mark.parametrize("path", READ)
def test_the_cookie_alone_opens_the_page_and_nothing_of_the_lab(served: Served, path: str) -> None:
    """Browsers send it to every other server of this machine, too."""
    assert served.token not in served.cookie["Cookie"]
    public = path == "/" or path.startswith("/files/")
    answer = served.ask(path, headers=served.cookie)
    assert answer.code == (200 if public else 401)
    assert served.token.encode() not in answer.body
    for wrong in ("x", served.token + "x", served.cookie["Cookie"].partition("=")[2]):
        assert served.ask(path, headers={**served.cookie, "X-Kailab-Token": wrong}).code == (200 if public else 403)


@pytest.mark.parametrize("path", WRITE)
def test_the_cookie_alone_does_nothing(served: Served, path: str) -> None:
    before = served.state.read_bytes()
    for headers in (served.cookie, {"X-Kailab-Token": served.token}):
        assert served.ask(path, "POST", ORDER, {**headers, **served.origin}).code in (401, 403)
    assert served.state.read_bytes() == before


@pytest.mark.parametrize(
    "cookie",
    [
        b"\xff\xfe",
        b"{name}=\xff\xfe",
        b'{name}="',
        b"{name}",
        b"=;=;,;",
        b"{name}=\xf0\x9f\x98\x80; {name}=",
        b"a b=c; {name}=[",
        b"$Version=1; {name}=x",
    ],
)
@pytest.mark.parametrize("path", [b"/", b"/?token=%ff", b"/files/page-live.js", b"/events"])
def test_a_malformed_cookie_is_refused(served: Served, cookie: bytes, path: bytes) -> None:
    name = served.cookie["Cookie"].partition("=")[0].encode()
    given = b"Host: %s\r\nCookie: %s\r\nX-Kailab-Token: \xff\r\n" % (
        served.host.encode(),
        cookie.replace(b"{name}", name),
    )
    answer = raw(served, b"GET %s HTTP/1.1\r\n%s\r\n" % (path, given))
    assert answer[9:12] in (b"401", b"403")


@pytest.mark.parametrize("path", WRITE)
def test_without_a_token_nothing_is_done(served: Served, path: str) -> None:
    before = served.state.read_bytes()
    assert served.ask(path, "POST", ORDER, served.origin).code == 401
    assert served.ask(f"{path}?token={served.token}", "POST", ORDER, served.origin).code == 401
    assert served.state.read_bytes() == before


def test_the_printed_url_lets_in_and_leaves_a_cookie_that_stays_here(served: Served) -> None:
    answer = served.ask(f"/?token={served.token}")
    assert answer.code == 200
    cookie = answer.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    let_in = {"Cookie": cookie.partition(";")[0], "X-Kailab-Token": served.token}
    assert served.ask("/examples", headers=let_in).code == 200
    # The token counts for the page alone: elsewhere it would be in addresses that are kept and passed on.
    assert served.ask(f"/examples?token={served.token}").code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {},
        {"Origin": "https://{host}"},
        {"Origin": "http://{host}.evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://{host}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://{host}", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_write_nothing_even_with_the_cookie(served: Served, headers: dict[str, str]) -> None:
    before = served.state.read_bytes()
    given = {name: value.replace("{host}", served.host) for name, value in headers.items()}
    for path in WRITE:
        answer = served.ask(path, "POST", ORDER, {**served.let_in, "Content-Type": "application/json", **given})
        assert (answer.code, b"another site" in answer.body) == (403, True)
    assert served.state.read_bytes() == before


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_of_another_site_could_send_is_no_order(served: Served, kind: str) -> None:
    answer = served.ask("/do", "POST", ORDER, {**served.let_in, **served.origin, "Content-Type": kind})
    assert answer.code == 415


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "evil.example", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}", ""]
)
def test_a_foreign_name_that_leads_here_is_refused(served: Served, host: str) -> None:
    """DNS rebinding: the browser believes that it is still at the other site."""
    answer = served.ask(
        f"/?token={served.token}", headers={**served.let_in, "Host": host.replace("{port}", str(served.port))}
    )
    assert (answer.code, "Set-Cookie" in answer.headers) == (403, False)


def test_localhost_is_our_name_too(served: Served) -> None:
    assert served.ask("/examples", headers={**served.let_in, "Host": f"localhost:{served.port}"}).code == 200


def raw(served: Served, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


def test_two_hosts_or_none_are_refused(served: Served) -> None:
    cookie = f"Cookie: {served.cookie['Cookie']}\r\nX-Kailab-Token: {served.token}\r\n".encode()
    ours = f"Host: {served.host}\r\n".encode()
    for hosts in (b"", ours + b"Host: evil.example\r\n", b"Host: evil.example\r\n" + ours):
        answer = raw(served, b"GET /examples HTTP/1.1\r\n" + hosts + cookie + b"Connection: close\r\n\r\n")
        assert answer.split(b" ")[1] in (b"400", b"403")
        assert b"team-a" not in answer


def test_what_is_no_http_ends_with_an_answer_or_an_end(served: Served) -> None:
    for request in (b"GET\r\n\r\n", b"\x00\r\n" * 4096, b"GET / HTTP/1.1\r\nHost\r\n\r\n"):
        assert raw(served, request)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.0 400")
    assert raw(served, b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")[8:12] == b" 400"
    assert served.get("/examples").code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/files/../../../../etc/passwd",
        "/files/%2e%2e%2f%2e%2e%2fpage.html",
        "/files/..%5c..%5cpage.html",
        "/files/page.html",
        "/files/app.py",
        "/files//etc/passwd",
        "//etc/passwd",
        "/files/page-live.js%00.css",
        "/files/",
        "/data/1/raw/%2e%2e%2flab.state",
        "/data/-1/lab",
        "/data/1/raw/raw.0/x",
        "http://evil.example/files/../../x",
    ],
)
def test_paths_lead_to_nothing_but_what_is_served(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.code in (400, 403, 404, 410)
    assert b"root:" not in answer.body
    assert b"import " not in answer.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_other_methods_are_refused(served: Served, method: str) -> None:
    assert served.ask("/do", method, headers={**served.let_in, **served.origin}).code in (400, 405)


def test_every_answer_forbids_the_browser_what_the_page_does_not_need(served: Served) -> None:
    for answer in (
        served.get("/"),
        served.ask("/"),
        served.get("/none"),
        served.get("/examples"),
        served.post("/do", {}),
    ):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_huge_body_is_refused(served: Served) -> None:
    before = served.state.read_bytes()
    wish = b'{"do": "submit", "text": "' + b"#" * (3 * 2**20) + b'"}'
    answer = served.ask("/preview", "POST", wish, {**served.let_in, **served.origin})
    assert answer.code == 413
    said = {**served.let_in, **served.origin, "Content-Length": str(10**12)}
    assert served.ask("/preview", "POST", None, said).code in (400, 408, 413)
    assert served.state.read_bytes() == before
    assert served.post("/preview", {"do": "submit", "text": TEXTS["10-two-teams"]}).code == 200


@pytest.mark.parametrize(("encoding", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(
    served: Served, encoding: str, packed: Callable[[bytes], bytes]
) -> None:
    bomb = packed(b" " * (200 * 2**20))
    assert len(bomb) < 2**20
    headers = {**served.let_in, **served.origin, "Content-Encoding": encoding}
    assert served.ask("/do", "POST", bomb, headers).code == 413
    peak = next(line for line in _status(served) if line.startswith("VmHWM"))
    # What the process needs without it, and not what it unpacks to.
    assert int(peak.split()[1]) < 200 * 2**10


def test_a_body_in_pieces_without_an_end_is_refused(served: Served) -> None:
    head = f"POST /do HTTP/1.1\r\nHost: {served.host}\r\nCookie: {served.cookie['Cookie']}\r\nX-Kailab-Token: {served.token}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in served.origin.items())
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        # It may be cut off at any moment.
        with contextlib.suppress(ConnectionError):
            for _ in range(1_000):
                connection.sendall(b"10000\r\n" + b" " * 2**16 + b"\r\n")
            assert connection.recv(12) == b"HTTP/1.1 413"
    assert served.get("/examples").code == 200


def test_no_second_request_is_hidden_in_the_body_of_a_first(served: Served) -> None:
    cookie = f"Cookie: {served.cookie['Cookie']}\r\nX-Kailab-Token: {served.token}\r\n".encode()
    host = f"Host: {served.host}\r\n".encode()
    hidden = b"0\r\n\r\nGET /examples HTTP/1.1\r\n" + host + cookie + b"Connection: close\r\n\r\n"
    lengths = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(hidden)
    for given in (lengths, b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Transfer-Encoding: chunked, identity\r\n"):
        answer = raw(served, b"POST /do HTTP/1.1\r\n" + host + cookie + given + b"Connection: close\r\n\r\n" + hidden)
        assert answer[8:12] == b" 400"
        assert b"team-a" not in answer


def _status(served: Served) -> list[str]:
    return Path(f"/proc/{served.process.pid}/status").read_text().splitlines()
