"""HTTP requests to an API server, sent from an event loop in a thread of its own, and repeated while patience lasts.

The parts, in the order of a request:

    RequestLimit    how many requests are under way at once, found out from how the server copes instead of being set: one more while answers
                    are as fast as ever, a third fewer (once in a round trip) after 429, 503, a timeout, or answers several times slower than
                    the best
    GuardedBody     the body of a write, which asks for permission again when its first byte goes out. Between the decision to send and that
                    moment the lease may have run out. Headers wait for the body, so that nothing is sent of a refused request.
    AnswerCounts    how often the server answered with which code, and since when it refuses the credentials
    refusal         an answer that is no success, as an error of the cluster protocol
    ServerClock     the server's time, from the ``Date`` of its answers; a step of this machine's clock does not move it
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, TypeVar

import aiohttp
import msgspec
import tenacity
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from kailab.cluster.kubernetes.apiclient.connection import Connection
from kailab.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    ConnectError,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Unauthorized,
    Unavailable,
)

_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
}
_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refusal(code: int, body: bytes, request: str) -> ApiError:
    """The error for an answer that is no success. ``request``: the request, as ``PATCH pods/a``, for answers without a
    message."""
    try:
        status: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        status = None
    if not isinstance(status, dict):
        status = {}
    message = str(status.get("message") or f"{request}: {body[:200].decode(errors='replace').strip() or 'no reason'}")
    reason = str(status.get("reason") or "")
    fields = [str(cause.get("field") or "") for cause in (status.get("details") or {}).get("causes") or ()]
    # The object that was meant, by its UID, is gone, and another one has its name. A server says so in two ways.
    if "metadata.uid" in fields or "UID in precondition" in message:
        return NotFound(message)
    # The first cause gives the field; the message lists all.
    if code == 422 or reason == "Invalid" or code == 400:
        return Invalid(message, fields[0] if fields else "")
    kind = _BY_REASON.get(reason) or _BY_CODE.get(code)
    if kind is not None:
        return kind(message)
    error = ApiError(f"{message} (HTTP {code})")
    error.code = code
    error.reason = reason or error.reason
    return error


class AnswerCounts:
    """``counted``: (method, code; 0: no answer) -> count. ``refused_since``: the time, in seconds of ``clock``, since
    when all answers are 401; None: the last answer was another one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counted: dict[tuple[str, int], int] = {}
        self.refused_since: float | None = None
        self._clock = clock

    def count(self, method: str, code: int) -> None:
        self.counted[method, code] = self.counted.get((method, code), 0) + 1
        self.note_answer(code)

    def note_answer(self, code: int) -> None:
        """Note an answer that is not counted: a watch that begins."""
        if code == Unauthorized.code:
            self.refused_since = self._clock() if self.refused_since is None else self.refused_since
        # No answer says nothing about the credentials.
        elif code:
            self.refused_since = None


LEAST, NARROW, FIRST, MOST = 4.0, 8.0, 24.0, 96.0
_SLOW = 6.0  # times the best time of an answer: more requests would only wait in the server instead of here


class RequestLimit:
    """Limits the requests under way and adapts the limit to the server. For one event loop."""

    def __init__(self) -> None:
        self.limit = FIRST
        self.under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._best = 1.0
        self._shrunk_at = 0.0

    async def enter(self) -> None:
        """Wait for a place."""
        if self.under_way < int(self.limit) and not self._waiting:
            self.under_way += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            # The place was given at the same moment: pass it on to the next one waiting.
            if place.done() and not place.cancelled():
                self.leave()
            raise

    def answered(self, seconds: float, now: float) -> None:
        """A request was answered after ``seconds``. ``now``: a monotonic time."""
        # The best time is forgotten slowly; otherwise one lucky answer would keep the limit low for ever.
        self._best = min(seconds, self._best * 1.001)
        # Urgent requests wait in the server behind all that are under way, so only as many are sent as keep it busy.
        # Slow answers never lower the limit below NARROW, as other clients may cause them; refusals do.
        if seconds > self._best * _SLOW and self.limit > NARROW:
            self._shrink(now, NARROW)
        # The limit grows only while it is fully used, by about one a round trip, as in TCP's congestion avoidance.
        elif self.under_way >= int(self.limit):
            self.limit = min(MOST, self.limit + 1 / self.limit)
        self.leave()

    def record_overload(self, now: float) -> None:
        """The server refused for overload, or did not answer."""
        self._shrink(now, LEAST)
        self.leave()

    def _shrink(self, now: float, least: float) -> None:
        # Requests that are under way together fail together, which counts once.
        if now - self._shrunk_at > max(0.1, 2 * self._best):
            self._shrunk_at = now
            self.limit = max(least, self.limit * 2 / 3)

    def leave(self) -> None:
        """A request is over, or was not sent after all."""
        self.under_way -= 1
        while self._waiting and self.under_way < int(self.limit):
            place = self._waiting.popleft()
            if not place.done():
                self.under_way += 1
                place.set_result(None)


class _Refused(Exception):
    """Makes aiohttp give up the request and its connection."""


class GuardedBody(aiohttp.BytesPayload):
    """``withheld``: the body was not sent, because ``may_write`` refused."""

    def __init__(self, body: bytes, may_write: Callable[[], bool]) -> None:
        super().__init__(body)
        self.withheld = False
        self._may_write = may_write

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        # No other task runs between this answer and the write to the socket.
        if not self._may_write():
            self.withheld = True
            raise _Refused
        await super().write_with_length(writer, content_length)


_SKEW_SECONDS = 2.0


class ServerClock:
    """The clock of this machine, until a server's date differs by more than two seconds. Only one thread may call ``set_by``."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._set_at = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() + self._offset

    def set_by(self, date: str | None) -> None:
        """Process the Date header of an answer."""
        moment = time.monotonic()
        # Dates have whole seconds: processing more of them adds nothing.
        if date is None or moment - self._set_at < 1.0:
            return
        self._set_at = moment
        try:
            server_time = parsedate_to_datetime(date).timestamp() + 0.5  # dates are rounded down to whole seconds
        except (TypeError, ValueError):
            return
        if abs(server_time - self.now()) > _SKEW_SECONDS:
            self._offset = server_time - moment


T = TypeVar("T")
_log = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0
LEAST_ANSWER_SECONDS = 10.0
WATCH_SECONDS = 150.0
"""A watch without data for so long counts as dead: servers send a bookmark about each minute."""

BRIEF_TRIES = 3
CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
_AGAIN = frozenset((429, 500, 502, 503, 504))
_TOO_MUCH = frozenset((429, 503, 504))
_OWN = frozenset((500, 504))  # codes that a single request may get from a server that answers all others
_NOT_OF_ITS_SCHEMA = (b"failed to create typed patch object", b"failed to convert new object")
"""The messages with which a server refuses an apply that has an unknown field or an unreadable value, under code 500. Source: Kubernetes
structuredMergeManager.Apply."""
_CREDENTIALS_SECONDS = 30.0


class HttpAnswer(NamedTuple):
    """``tries``: how often it was sent. ``unanswered``: an earlier try got no answer and may have
    been carried out."""

    code: int
    body: bytes
    tries: int = 1
    unanswered: bool = False


class _HttpRequest(NamedTuple):
    """A request as it is sent. ``patience``: seconds for which it may be repeated. ``brief``: it is not repeated
    after a timeout, and after a code that may concern this request alone at most ``BRIEF_TRIES`` times."""

    method: str
    path: str
    body: bytes | None
    content: str
    accept: str
    patience: float
    brief: bool

    @property
    def title(self) -> str:
        """The request in messages."""
        return f"{self.method} {self.path.partition('?')[0]}"


class NoAnswer(Unavailable):
    """``own``: True if only this request failed; False if the server as a whole may be unreachable."""

    own = False


class _Again(Exception):
    """The request should be repeated. ``own``: True if other requests to the server may work. ``sent``: the server may have
    carried it out."""

    def __init__(
        self,
        message: str,
        after: float | None = None,
        answer: HttpAnswer | None = None,
        *,
        own: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(message)
        self.after = after
        self.answer = answer
        self.own = own
        self.sent = sent


class Transport:
    """One server. ``call`` and ``start`` may be used from any thread; coroutines run in the loop's."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pressure = RequestLimit()
        self.answers = AnswerCounts()
        self.may_write: Callable[[], bool] | None = None  # asked before everything but a GET
        self.dry_run = False
        self._urgent = 0  # batches of writes under way that somebody waits for
        self._urgent_at = float("-inf")
        self._tls = connection.tls()
        self._clock = ServerClock()
        self._headers: Mapping[str, str] = {}
        self._headers_at = -_CREDENTIALS_SECONDS
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)
        self._thread.start()

    def now(self) -> float:
        """The server's time, as far as known."""
        return self._clock.now()

    # --- from other threads ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop and wait for the result."""
        if self._closed:
            work.close()
            raise Unavailable(f"the connection to {self.connection.server} is closed")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            # Nobody waits for the answer any more, so the request must not go on.
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run in the loop without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)  # type: ignore[return-value]

    def soon(self, action: Callable[[], None]) -> None:
        """Call in the loop."""
        if not self._closed:
            self.loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """End everything that runs. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True

        async def end() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            if self._session is not None:
                await self._session.close()

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10.0)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10.0)
        self.loop.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content: str = "application/json",
        *,
        patience: float = PATIENCE_SECONDS,
        accept: str = "application/json",
        brief: bool = False,
    ) -> HttpAnswer:
        """Send a request, and repeat it for ``patience`` seconds. Raises Unavailable after that. ``brief``: a request that times out is
        not repeated."""
        if self.dry_run and method != "GET":
            path += ("&" if "?" in path else "?") + "dryRun=All"
        request = _HttpRequest(method, path, body, content, accept, patience, brief)
        try:
            return await self._once(request, 1)
        except _Again as trouble:
            # A brief request that timed out is not repeated: its chain would wait as long again.
            if patience <= 0 or (brief and trouble.own and trouble.answer is None):
                return self._give_up(trouble, request, trouble.sent)
            return await self._persist(request, trouble)

    async def _persist(self, request: _HttpRequest, first: _Again) -> HttpAnswer:
        tries = 1
        last = first
        sent = first.sent
        title = f"{request.method} {request.path}"
        _log.debug("%s: attempt 1 failed and is retried for up to %g s: %s", title, request.patience, first)

        def pause(state: tenacity.RetryCallState) -> float:
            if last.after is not None:
                return last.after * (1 + random.random() / 4)
            return random.uniform(0.5, 1.0) * min(0.1 * 2**state.attempt_number, 3.0)

        def enough(state: tenacity.RetryCallState) -> bool:
            return request.brief and last.own and (last.answer is None or tries >= BRIEF_TRIES)

        async def again() -> HttpAnswer:
            nonlocal tries, last, sent
            tries += 1
            try:
                answer = await self._once(request, tries)
            except _Again as trouble:
                last = trouble
                sent = sent or trouble.sent
                _log.debug("%s: attempt %d failed: %s", title, tries, trouble)
                raise
            # Not sent this time, because of a lost lease or a bad certificate; an earlier try may have been carried
            # out.
            except Unavailable as error:
                error.unanswered = sent
                raise
            return answer._replace(unanswered=sent)

        await asyncio.sleep(first.after if first.after is not None else random.uniform(0.05, 0.15))
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Again),
            stop=lambda state: enough(state) or tenacity.stop_after_delay(request.patience)(state),
            wait=pause,
            reraise=True,
        )
        try:
            return await retrying(again)
        except _Again as trouble:
            return self._give_up(trouble, request, sent)

    def _give_up(self, trouble: _Again, request: _HttpRequest, sent: bool) -> HttpAnswer:
        if trouble.answer is not None:
            return trouble.answer._replace(unanswered=sent)
        error = NoAnswer(f"{self.connection.server} does not answer {request.title}: {trouble}")
        error.unanswered, error.own = sent, trouble.own
        raise error

    async def _once(self, request: _HttpRequest, tries: int) -> HttpAnswer:
        session = await self._ready()
        method, body, patience = request.method, request.body, 0.0 if request.brief else request.patience
        headers = {"Accept": request.accept, **self._headers}
        if body is not None:
            headers["Content-Type"] = request.content
        await self.pressure.enter()
        guarded = None
        if method != "GET" and self.may_write is not None:
            # Asked after the wait for a place, in which the lease may have run out. The body asks again.
            if not self.may_write():
                raise self._withheld(request)
            guarded = GuardedBody(body or b"", self.may_write)
        begun = time.monotonic()
        try:
            async with session.request(
                method,
                self._url(request.path),
                data=body if guarded is None else guarded,
                headers=headers,
                ssl=self._tls or True,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=min(ANSWER_SECONDS, max(patience, LEAST_ANSWER_SECONDS)), sock_connect=CONNECT_SECONDS
                ),
            ) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if guarded is not None and guarded.withheld:
                raise self._withheld(request) from None
            self.pressure.record_overload(time.monotonic())
            self.answers.count(method, 0)
            if isinstance(error, aiohttp.ClientSSLError):  # waiting does not cure a certificate
                raise Unavailable(f"{self.connection.server}: {error}") from error
            # Without a connection nothing was carried out; after any other error it may have been.
            unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            late = isinstance(error, TimeoutError) and not unsent
            raise _Again(str(error) or type(error).__name__, own=late, sent=not unsent) from error
        # When cancelled, it must give back its place.
        except BaseException:
            self.pressure.record_overload(time.monotonic())
            raise
        moment = time.monotonic()
        code = response.status
        self.answers.count(method, code)
        self._clock.set_by(response.headers.get("Date"))
        if code in _TOO_MUCH:
            self.pressure.record_overload(moment)
        else:
            self.pressure.answered(moment - begun, moment)
        answer = HttpAnswer(code, data, tries)
        if code in _AGAIN and not (code == 500 and any(message in data for message in _NOT_OF_ITS_SCHEMA)):
            after = _retry_after(response.headers.get("Retry-After"))
            # A server that answers 429 has not begun.
            raise _Again(f"HTTP {code}", after, answer, own=code in _OWN, sent=code != 429)
        return answer

    def _withheld(self, request: _HttpRequest) -> Unavailable:
        self.pressure.leave()
        return Unavailable(f"not sent, {request.title}: this process may not write any more")

    async def stream(self, path: str) -> Any:
        """A request whose answer is read as it arrives: for ``async with``. The whole of it has no time limit."""
        session = await self._ready()
        return session.get(
            self._url(path),
            headers={"Accept": "application/json", **self._headers},
            ssl=self._tls or True,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=WATCH_SECONDS),
        )

    async def _ready(self) -> aiohttp.ClientSession:
        """The session, with current credentials in ``_headers``."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit on connections: ``RequestLimit`` is the limit, and watches need connections besides.
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls or True, keepalive_timeout=60),
                timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS),
                read_bufsize=2**21,
                auto_decompress=True,
                skip_auto_headers=("User-Agent",),
                headers={"User-Agent": "kailab", "Accept-Encoding": "identity"},
            )
        if time.monotonic() - self._headers_at > _CREDENTIALS_SECONDS:
            self._headers_at = time.monotonic()
            self._headers = await self.connection.credentials()
        return self._session

    @contextmanager
    def urgently(self) -> Iterator[None]:
        """Mark that somebody waits for writes; in the loop's thread."""
        self._urgent += 1
        try:
            yield
        finally:
            self._urgent -= 1
            self._urgent_at = time.monotonic()

    def is_urgent(self, quiet: float) -> bool:
        """True if somebody waits for writes, or did within the last ``quiet`` seconds."""
        return self._urgent > 0 or time.monotonic() - self._urgent_at < quiet

    def _url(self, path: str) -> Any:
        return URL(f"{self.connection.server}{path}", encoded=True)  # ApiResource.path has quoted it

    # --- the first request --------------------------------------------------------------------------------------------

    def check(self, patience: float = 3.0) -> str:
        """The server's version. Raises ConnectError with the reason if it can't be used."""
        server = self.connection.title

        async def ask(path: str) -> HttpAnswer:
            return await self.request("GET", path, patience=patience)

        try:
            answer = self.call(ask("/version"))
            if answer.code in (401, 403):
                raise refusal(answer.code, answer.body, "GET /version")
            version = msgspec.json.decode(answer.body)["gitVersion"]
            # /version is open to anonymous requests, where these are allowed; namespaces are not.
            allowed = self.call(ask("/api/v1/namespaces/default"))
            if allowed.code == 401:
                raise refusal(401, allowed.body, "GET namespaces/default")
        except Unauthorized as error:
            raise ConnectError(
                f"{server}: the server does not accept the credentials ({error}); are they expired, or another cluster's?"
            ) from error
        except (Unavailable, KeyError, TypeError, ValueError) as error:
            raise ConnectError(f"{server}: no Kubernetes API answers there: {error}") from error
        return str(version)


def _retry_after(text: str | None) -> float | None:
    try:
        return min(60.0, max(0.0, float(text))) if text is not None else None
    except ValueError:
        return None


async def side_by_side(work: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Results in order, at most ``most`` at a time, so that a long list does not become as many tasks."""
    results: list[Any] = [None] * len(work)
    remaining = iter(range(len(work)))

    async def worker() -> None:
        for number in remaining:
            results[number] = await work[number]()

    await asyncio.gather(*(worker() for _ in range(min(most, len(work)))))
    return results
