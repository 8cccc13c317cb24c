"""A headless browser as somebody has it who only looks: nothing follows what it loads.

What drives a browser for tests has it keep a copy of each answer, which would count as held by the page. Here it is only asked to open
an address, to collect what is garbage, and whether it is ready.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

from tools.browser import CHROMIUM, LONG

Ask: TypeAlias = Callable[..., Any]

_SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1300,900")
_PAUSE = 0.2
_REST = 3.0
"""Seconds in which a browser gives back what it needs no more."""


@contextmanager
def undriven() -> Iterator[Ask]:
    """A tab. It is asked by a command of the DevTools protocol and its parameters."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [str(CHROMIUM), *_SWITCHES, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = _port(Path(profile) / "DevToolsActivePort")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(one for one in json.load(answer) if one["type"] == "page" and one["url"] == "about:blank")
            loop = asyncio.new_event_loop()
            session, connection = loop.run_until_complete(_connected(tab["webSocketDebuggerUrl"]))
            numbers = count(1)

            def ask(method: str, **parameters: Any) -> Any:
                return loop.run_until_complete(_asked(connection, next(numbers), method, parameters))

            yield ask
            loop.run_until_complete(session.close())
            loop.close()
        finally:
            process.terminate()
            process.wait()


async def _connected(url: str) -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]:
    session = aiohttp.ClientSession()
    return session, await session.ws_connect(url, max_msg_size=0)


async def _asked(connection: aiohttp.ClientWebSocketResponse, number: int, method: str, parameters: Any) -> Any:
    await connection.send_json({"id": number, "method": method, "params": parameters})
    while (found := await connection.receive_json()).get("id") != number:
        continue
    return found["result"]


def shown(ask: Ask, url: str, ready: str) -> None:
    """Open an address and wait until there is an element of that selector."""
    ask("Page.navigate", url=url)
    while not evaluated(ask, f"document.querySelector({json.dumps(ready)}) !== null"):
        time.sleep(_PAUSE)


def evaluated(ask: Ask, script: str) -> Any:
    return ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)["result"].get("value")


def rested(ask: Ask) -> None:
    """Have garbage collected, and given back."""
    ask("HeapProfiler.collectGarbage")
    time.sleep(_REST)


def _port(file: Path) -> str:
    until = time.monotonic() + LONG / 1000
    while not (file.exists() and file.read_text()):
        if time.monotonic() > until:
            raise TimeoutError(f"{CHROMIUM} does not begin")
        time.sleep(_PAUSE)
    return file.read_text().split()[0]
