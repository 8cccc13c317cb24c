"""Slow clients and too many of them lose their connection; the others are served."""

from __future__ import annotations

import asyncio

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

from kailab.serve.door import Door
from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served


def test_a_client_that_never_asks_is_cut_off_and_one_that_waits_for_an_answer_is_not() -> None:
    asyncio.run(_slow())


async def _slow() -> None:
    door = Door(asking=0.2)
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
    server = await asyncio.get_running_loop().create_server(door.through(runner.server), "127.0.0.1", 0)
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


def test_beyond_the_bound_connections_are_refused_until_one_ends() -> None:
    asyncio.run(_crowd())


async def _crowd() -> None:
    door = Door(most=3, asking=PATIENCE_SECONDS)
    app = web.Application()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="here")

    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(door.through(runner.server), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    async with asyncio.timeout(PATIENCE_SECONDS):
        inside = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for reader, writer in inside:
            writer.write(ask)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        refused, _ = await asyncio.open_connection("127.0.0.1", port)
        assert (await refused.read()).startswith(b"HTTP/1.1 503")
        inside[0][1].close()
        while len(door.open) == 3:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    server.close()
    await runner.cleanup()


def test_a_hundred_browsers_get_the_same_news(served: Served) -> None:
    asyncio.run(_hundred(served))


async def _hundred(served: Served) -> None:
    url = f"http://{served.host}"
    timeout = ClientTimeout(total=PATIENCE_SECONDS)
    connector = TCPConnector(limit=0)
    async with ClientSession(
        headers={**served.cookie, **served.origin}, timeout=timeout, connector=connector
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
                        async with session.get(f"{url}/data/{version}/desk") as desk:
                            return version, await desk.read()
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
