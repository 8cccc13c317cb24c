"""Requests to one API server, from an event loop in a thread of its own.

What goes wrong on the way is tried again here, with growing pauses and as long as ``patience`` says: no connection, a
time-out, 429 (after its Retry-After), 500, 502, 503, 504. What the server refuses is handed back at once. A *brief* request
gives up sooner where the trouble may be its own and not the server's, so that those beside it do not wait for it.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import aiohttp
import tenacity

from kailab.cluster.kubernetes.apiclient.answers import Answers
from kailab.cluster.kubernetes.apiclient.connection import Connection
from kailab.cluster.kubernetes.apiclient.pressure import Pressure
from kailab.cluster.kubernetes.apiclient.sending import GuardedBody
from kailab.cluster.kubernetes.apiclient.serverclock import ServerClock
from kailab.errors import ConnectError, Unauthorized, Unavailable

T = TypeVar("T")

ANSWER_SECONDS = 20.0
LEAST_ANSWER_SECONDS = 10.0
WATCH_SECONDS = 150.0
"""A watch that is silent for so long is taken for dead: servers send a bookmark about each minute."""

BRIEF_TRIES = 3
CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
_AGAIN = frozenset((429, 500, 502, 503, 504))
_TOO_MUCH = frozenset((429, 503, 504))
_OWN = frozenset((500, 504))  # what one request may meet with on a server that answers all others
_CREDENTIALS_SECONDS = 30.0


class Answer(NamedTuple):
    """``tries``: how often it was sent. ``doubtful``: one of them may have been carried out, though no answer said so."""

    code: int
    body: bytes
    tries: int = 1
    doubtful: bool = False


class NoAnswer(Unavailable):
    """``own``: others may have got theirs."""

    own = False


class _Again(Exception):
    """``own``: it may be this request alone that has trouble; ``sent``: it may have been carried out."""

    def __init__(
        self,
        told: str,
        after: float | None = None,
        answer: Answer | None = None,
        *,
        own: bool = False,
        sent: bool = True,
    ) -> None:
        super().__init__(told)
        self.after = after
        self.answer = answer
        self.own = own
        self.sent = sent


class Transport:
    """One server. ``call`` and ``start`` may be used from any thread; coroutines run in the loop's."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pressure = Pressure()
        self.answers = Answers()
        self.may_write: Callable[[], bool] | None = None  # asked before anything but a GET is sent
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
            # The request must not go on when nobody waits for its answer any more.
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run in the loop, not waited for."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)  # type: ignore[return-value]

    def soon(self, action: Callable[[], None]) -> None:
        """Do something in the loop."""
        if not self._closed:
            self.loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """End all that runs. Closing twice does nothing."""
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
    ) -> Answer:
        """Raises Unavailable once patience is at an end. ``brief``: see above."""
        if self.dry_run and method != "GET":
            path += ("&" if "?" in path else "?") + "dryRun=All"
        try:
            return await self._once(method, path, body, content, accept, 1, 0.0 if brief else patience)
        except _Again as trouble:
            # A brief request that timed out is not sent again: its chain would wait as long a second time.
            if patience <= 0 or (brief and trouble.own and trouble.answer is None):
                return self._give_up(trouble, method, path, trouble.sent)
            return await self._persist(method, path, body, content, accept, patience, trouble, brief)

    async def _persist(
        self,
        method: str,
        path: str,
        body: bytes | None,
        content: str,
        accept: str,
        patience: float,
        first: _Again,
        brief: bool,
    ) -> Answer:
        tries = 1
        last = first
        sent = first.sent

        def pause(state: tenacity.RetryCallState) -> float:
            if last.after is not None:
                return last.after * (1 + random.random() / 4)
            return random.uniform(0.5, 1.0) * min(0.1 * 2**state.attempt_number, 3.0)

        def enough(state: tenacity.RetryCallState) -> bool:
            return brief and last.own and (last.answer is None or tries >= BRIEF_TRIES)

        async def again() -> Answer:
            nonlocal tries, last, sent
            tries += 1
            try:
                answer = await self._once(method, path, body, content, accept, tries, 0.0 if brief else patience)
            except _Again as trouble:
                last = trouble
                sent = sent or trouble.sent
                raise
            # Not sent this time, by a lost lease or a bad certificate; an earlier try may have been carried out.
            except Unavailable as error:
                error.doubtful = sent
                raise
            return answer._replace(doubtful=sent)

        await asyncio.sleep(first.after if first.after is not None else random.uniform(0.05, 0.15))
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_Again),
            stop=lambda state: enough(state) or tenacity.stop_after_delay(patience)(state),
            wait=pause,
            reraise=True,
        )
        try:
            return await retrying(again)
        except _Again as trouble:
            return self._give_up(trouble, method, path, sent)

    def _give_up(self, trouble: _Again, method: str, path: str, sent: bool) -> Answer:
        if trouble.answer is not None:
            return trouble.answer._replace(doubtful=sent)
        error = NoAnswer(f"{self.connection.server} does not answer {method} {path.partition('?')[0]}: {trouble}")
        error.doubtful, error.own = sent, trouble.own
        raise error

    async def _once(
        self, method: str, path: str, body: bytes | None, content: str, accept: str, tries: int, patience: float
    ) -> Answer:
        session = await self._ready()
        headers = {"Accept": accept, **self._headers}
        if body is not None:
            headers["Content-Type"] = content
        await self.pressure.enter()
        guarded = None
        if method != "GET" and self.may_write is not None:
            # Asked after the wait for a place: the lease may have run out in it. The body asks once more.
            if not self.may_write():
                raise self._withheld(method, path)
            guarded = GuardedBody(body or b"", self.may_write)
        begun = time.monotonic()
        try:
            async with session.request(
                method,
                self._url(path),
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
                raise self._withheld(method, path) from None
            self.pressure.overloaded(time.monotonic())
            self.answers.count(method, 0)
            if isinstance(error, aiohttp.ClientSSLError):  # a certificate gets no better by waiting
                raise Unavailable(f"{self.connection.server}: {error}") from error
            # Without a connection nothing was carried out; after anything else it may have been.
            unsent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            late = isinstance(error, TimeoutError) and not unsent
            raise _Again(str(error) or type(error).__name__, own=late, sent=not unsent) from error
        # Cancelled: its place in the gate has to be given back all the same.
        except BaseException:
            self.pressure.overloaded(time.monotonic())
            raise
        moment = time.monotonic()
        code = response.status
        self.answers.count(method, code)
        self._clock.look(response.headers.get("Date"))
        if code in _TOO_MUCH:
            self.pressure.overloaded(moment)
        else:
            self.pressure.answered(moment - begun, moment)
        answer = Answer(code, data, tries)
        if code in _AGAIN:
            after = _retry_after(response.headers.get("Retry-After"))
            # A server that answers 429 has not begun.
            raise _Again(f"HTTP {code}", after, answer, own=code in _OWN, sent=code != 429)
        return answer

    def _withheld(self, method: str, path: str) -> Unavailable:
        self.pressure.withdrawn()
        return Unavailable(f"not sent, {method} {path.partition('?')[0]}: this process may not write any more")

    def stream(self, path: str) -> Any:
        """A request whose answer is read as it comes: an ``async with``. No time limit on the whole of it."""
        assert self._session is not None
        return self._session.get(
            self._url(path),
            headers={"Accept": "application/json", **self._headers},
            ssl=self._tls or True,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=WATCH_SECONDS),
        )

    async def _ready(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit on connections: ``Pressure`` is the limit, and watches need theirs beside it.
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
        """While somebody waits for writes; in the loop's thread."""
        self._urgent += 1
        try:
            yield
        finally:
            self._urgent -= 1
            self._urgent_at = time.monotonic()

    def is_urgent(self, quiet: float) -> bool:
        """Whether somebody waits for writes, or did within the last ``quiet`` seconds."""
        return self._urgent > 0 or time.monotonic() - self._urgent_at < quiet

    async def prepare(self) -> None:
        """Credentials and session, for ``stream``."""
        await self._ready()

    def _url(self, path: str) -> Any:
        from yarl import URL

        return URL(f"{self.connection.server}{path}", encoded=True)  # Resource.path has quoted it

    # --- the first word ----------------------------------------------------------------------------------------------

    def check(self, patience: float = 3.0) -> str:
        """The server's version. Raises ConnectError with the reason where it can't be used."""
        import msgspec

        from kailab.cluster.kubernetes.apiclient.refusals import refusal

        told = self.connection.told

        async def ask(path: str) -> Answer:
            return await self.request("GET", path, patience=patience)

        try:
            answer = self.call(ask("/version"))
            if answer.code in (401, 403):
                raise refusal(answer.code, answer.body, "GET /version")
            version = msgspec.json.decode(answer.body)["gitVersion"]
            # /version is open to all where anonymous requests are; namespaces are not.
            allowed = self.call(ask("/api/v1/namespaces/default"))
            if allowed.code == 401:
                raise refusal(401, allowed.body, "GET namespaces/default")
        except Unauthorized as error:
            raise ConnectError(
                f"{told}: the server does not accept the credentials ({error}); are they expired, or another cluster's?"
            ) from error
        except (Unavailable, KeyError, TypeError, ValueError) as error:
            raise ConnectError(f"{told}: no Kubernetes API answers there: {error}") from error
        return str(version)


def _retry_after(text: str | None) -> float | None:
    try:
        return min(60.0, max(0.0, float(text))) if text is not None else None
    except ValueError:
        return None


async def side_by_side(work: Sequence[Callable[[], Awaitable[T]]], most: int) -> list[T]:
    """Results in order; at most so many begun at a time, so that a long list does not become as many tasks."""
    results: list[Any] = [None] * len(work)
    remaining = iter(range(len(work)))

    async def worker() -> None:
        for number in remaining:
            results[number] = await work[number]()

    await asyncio.gather(*(worker() for _ in range(min(most, len(work)))))
    return results
