"""Slow clients and too many of them lose their connection; the page is served all the same."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from kailab.serve.connections import ConnectionLimiter
from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served


def test_a_client_that_never_asks_is_cut_off_and_one_that_waits_for_an_answer_is_not() -> None:
    asyncio.run(_slow())


async def _slow() -> None:
    door = ConnectionLimiter(asking=0.2)
    answered = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        with door.answering(request.transport):
            await answered.wait()
            return web.Response(text="at last")

    app = web.Application()
    app.router.add_get("/", slow)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(door.limit(runner.server), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(PATIENCE_SECONDS):
        patient, patient_in = await asyncio.open_connection("127.0.0.1", port)
        patient_in.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        silent, _ = await asyncio.open_connection("127.0.0.1", port)
        halting, halting_in = await asyncio.open_connection("127.0.0.1", port)
        halting_in.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert await _rest(silent) == b""
        assert await _rest(halting) == b""
        # All that time the one that had asked was waited for.
        answered.set()
        assert (await patient.readline()).startswith(b"HTTP/1.1 200")
        # An answered connection may ask again, not stay for nothing.
        assert (await _rest(patient)).endswith(b"at last")
    server.close()
    await runner.cleanup()
    assert door.open == {}


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def test_strangers_never_take_the_places_of_those_who_were_let_in() -> None:
    asyncio.run(_crowd())


async def _crowd() -> None:
    door = ConnectionLimiter(most=2, asking=PATIENCE_SECONDS, strangers=3)

    async def answer(request: web.Request) -> web.Response:
        if not door.admit(request.transport):
            return web.Response(status=503)
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(door.limit(runner.server), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        count = len(door.open) + (sum(not one.admitted for one in door.open.values()) < door.strangers)
        found = await asyncio.open_connection("127.0.0.1", port)
        while len(door.open) < count:
            await asyncio.sleep(0.01)
        return found

    async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return (await reader.readline())[9:12]

    async with asyncio.timeout(PATIENCE_SECONDS):
        inside = await opened()
        assert await asked(*inside) == b"200"
        silent = [await opened() for _ in range(3)]
        # A newcomer takes the place of the one that has waited longest, whoever that is, and can ask.
        newcomer = await opened()
        assert await _rest(silent[0][0]) == b""
        assert await asked(*newcomer) == b"200"
        # Those who were let in are bounded, too; the others wait as before.
        assert await asked(*silent[1]) == b"503"
        inside[1].close()
        while sum(one.admitted for one in door.open.values()) == 2:
            await asyncio.sleep(0.01)
        assert await asked(*silent[2]) == b"200"
    server.close()
    await runner.cleanup()


def test_a_page_is_served_whatever_others_hold_open(served: Served) -> None:
    crowd = []
    try:
        for number in range(400):
            one = socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS)
            crowd.append(one)
            # Slow headers, or nothing at all.
            if number % 2:
                with contextlib.suppress(ConnectionError):
                    one.sendall(b"GET /events HTTP/1.1\r\nX-Slow: ")
            if number % 50 == 49:
                assert served.get("/examples").code == 200
    finally:
        for one in crowd:
            one.close()
    assert served.get("/examples").code == 200


def test_a_hundred_browsers_get_the_same_news(served: Served) -> None:
    asyncio.run(_hundred(served))


async def _hundred(served: Served) -> None:
    url = f"http://{served.host}"
    timeout = ClientTimeout(total=PATIENCE_SECONDS)
    connector = TCPConnector(limit=0)
    async with ClientSession(
        headers={**served.let_in, **served.origin}, timeout=timeout, connector=connector
    ) as session:

        async def browser(here: asyncio.Event, until: str) -> tuple[str, bytes]:
            """Follows the news until something was said, then fetches what it is of."""
            async with session.get(f"{url}/events") as events:
                async for line in events.content:
                    if not line.startswith(b"data: "):
                        continue
                    here.set()
                    if until.encode() in line:
                        version = line.partition(b'"version":')[2].partition(b",")[0].decode()
                        async with session.get(f"{url}/data/{version}/editable") as editable:
                            return version, await editable.read()
            raise AssertionError("the news ended")

        arrived = [asyncio.Event() for _ in range(100)]
        title = "Submit Queue/org, Queue/team-a, Queue/team-b"
        following = [asyncio.ensure_future(browser(one, title)) for one in arrived]
        for one in arrived:
            await one.wait()
        async with session.post(f"{url}/preview", json={"do": "submit", "text": TEXTS["10-two-teams"]}) as preview:
            number = (await preview.json())["id"]
        async with session.post(f"{url}/apply", json={"id": number}) as applied:
            assert applied.status == 200
        found = await asyncio.gather(*following)
    assert len(set(found)) == 1
    assert b"team-b" in found[0][1]
