"""A lab with a page: served by a process of its own, asked through real sockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kailab.fleet.reading import load_fleet
from kailab.lab import life
from kailab.scheduler.settings.config_file import settings_of
from kailab.serve.page_files import examples
from kailab.serve.session import LabSession
from kailab.undertest.selection import choose_scheduler

PATIENCE_SECONDS = 240
"""However busy the machine is."""

TEXTS = {one.name: one.text for one in examples()}


def begun(state: Path, scheduler: str = "kailab", fleet: str = "lesson") -> Path:
    """A lab with a file, as `kailab up` leaves it."""
    life.begin(state, load_fleet(fleet), "embedded", choose_scheduler(scheduler), settings_of(None), {}).close()
    return state


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return begun(tmp_path / "lab.state")


def opened(state: Path) -> LabSession:
    session = LabSession(state, lambda text: None)
    session.refresh()
    return session


@pytest.fixture
def session(state: Path) -> LabSession:
    return opened(state)


@dataclass
class Answer:
    code: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """The process, and whoever asks it. ``host``: as the printed URL has it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        command = [sys.executable, "-m", "kailab", "serve", "--state", str(state)]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url.startswith("http"):
            self.process.kill()
            raise AssertionError(f"no URL: {self.url!r}\n{self.process.communicate()}")
        split = urlsplit(self.url)
        self.host, self.port = split.netloc, split.port or 0
        [self.token] = parse_qs(split.query)["token"]
        self.cookie = {"Cookie": self.ask(f"/?token={self.token}").headers["Set-Cookie"].partition(";")[0]}
        self.let_in = {**self.cookie, "X-Kailab-Token": self.token}
        """Headers by which the page is known."""
        self.origin = {"Origin": f"http://{self.host}", "Content-Type": "application/json"}

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Exactly this: no header is added but Host, where there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        given = headers or {}
        connection.putrequest(method, path, skip_host="Host" in given, skip_accept_encoding=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        found = connection.getresponse()
        answer = Answer(found.status, found.headers, found.read())
        connection.close()
        return answer

    def get(self, path: str) -> Answer:
        """As the page asks."""
        return self.ask(path, headers=self.let_in)

    def post(self, path: str, what: Any) -> Answer:
        """As the page asks."""
        return self.ask(path, "POST", json.dumps(what).encode(), {**self.let_in, **self.origin})

    def seen(self) -> int:
        """The revision that the page shows."""
        found: int = self.get("/news/none").json()["revision"]
        return found

    def order(self, do: str, **more: Any) -> Answer:
        """A button of the page, pressed by somebody who sees the lab as it is."""
        return self.post("/do", {"do": do, "seen": self.seen(), **more})

    def done(self, wish: dict[str, Any]) -> str:
        """Previewed and applied; what was said."""
        preview = self.post("/preview", wish)
        assert preview.code == 200, preview.body
        applied = self.post("/apply", {"id": preview.json()["id"]})
        assert applied.code == 200, applied.body
        return applied.json()["said"]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code, and what was said at the end."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests of a module that leave the lab as it is, or do not mind how it is."""
    found = Served(begun(tmp_path_factory.mktemp("served") / "lab.state"))
    yield found
    code, said = found.end()
    assert code == 0, said
    assert "went wrong" not in said
    assert "Traceback" not in said
