"""`kailab serve` as a process: what it says, what it refuses, how it ends; the lab outlives it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kailab.evidence.lab_record import LabRecord
from kailab.lab import Lab
from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served

EVIL = "<img src=x onerror=alert(1)>"


def kailab(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kailab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_asked_and_the_lab_stays_as_it_was_left(state: Path, number: int) -> None:
    served = Served(state)
    served.done({"do": "submit", "text": TEXTS["10-two-teams"]})
    served.done({"do": "submit", "text": TEXTS["20-borrower"]})
    # A browser that looks on does not hold it.
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as looking:
        looking.sendall(
            f"GET /events HTTP/1.1\r\nHost: {served.host}\r\nCookie: {served.cookie['Cookie']}\r\nX-Kailab-Token: {served.token}\r\n\r\n".encode()
        )
        found = b""
        while b"event: lab" not in found:
            found += looking.recv(65536)
        code, said = served.end(number)
        while part := looking.recv(65536):
            found += part
    assert (code, "the lab stays as it is" in said) == (0, True)
    assert b"event: end" in found
    with Lab.resume(state, read_only=True) as lab:
        assert sum(row.phase == "Running" for row in lab.picture().rows) == 24
    assert [step.operation for step in LabRecord(state).whole().steps][-4:] == ["apply", "settle", "apply", "settle"]
    assert kailab("get", "pods", "--state", str(state)).returncode == 0


def test_commands_and_the_page_share_the_lab(state: Path, tmp_path: Path) -> None:
    served = Served(state)
    manifest = tmp_path / "teams.yaml"
    manifest.write_text(TEXTS["10-two-teams"])
    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_SECONDS) as looking:
        looking.sendall(
            f"GET /events HTTP/1.1\r\nHost: {served.host}\r\nCookie: {served.cookie['Cookie']}\r\nX-Kailab-Token: {served.token}\r\n\r\n".encode()
        )
        assert kailab("apply", "-f", str(manifest), "--state", str(state)).returncode == 0
        found = b""
        while found.count(b"event: lab") < 2:
            found += looking.recv(65536)
    assert "24 pods running" in served.done({"do": "submit", "text": TEXTS["20-borrower"]})
    assert "team-a" in kailab("get", "queues", "--state", str(state)).stdout
    # The page says that the lab is gone, and goes on.
    assert kailab("down", "--state", str(state)).returncode == 0
    assert served.post("/preview", {"do": "submit", "text": TEXTS["20-borrower"]}).code == 409
    assert served.end()[0] == 0


def test_a_lab_is_begun_where_none_is_up(tmp_path: Path) -> None:
    state = tmp_path / "lab.state"
    process = subprocess.Popen(
        [sys.executable, "-m", "kailab", "serve", "--state", str(state), "--fleet", "hundred"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while not process.stdout.readline().startswith("http://127.0.0.1:"):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    with Lab.resume(state, read_only=True) as lab:
        assert lab.fleet == "hundred"
    refused = kailab("serve", "--state", str(state), "--fleet", "lesson")
    assert refused.returncode == 2
    assert "another lab is up already" in refused.stderr


def test_a_port_in_use_and_a_lab_that_can_not_be_read_are_refused(state: Path, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = kailab("serve", "--state", str(state), "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 2
    assert "another process uses this port" in refused.stderr
    damaged = tmp_path / "damaged.state"
    damaged.write_bytes(b"nothing")
    refused = kailab("serve", "--state", str(damaged))
    assert refused.returncode == 2
    assert "damaged.state" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_names_with_markup_stay_names(state: Path) -> None:
    """What a name may not be is told as text; what it may be is data, never part of the page."""
    served = Served(state)
    text = TEXTS["70-too-large"].replace("name: too-large", f"name: '{EVIL}'")
    refused = served.post("/preview", {"do": "submit", "text": text})
    assert refused.code == 400
    assert refused.headers["Content-Type"].startswith("application/json")
    for wish in ({"do": "delete", "what": f"pod/{EVIL}"}, {"do": "set", "fields": [EVIL]}):
        answer = served.post("/preview", wish)
        assert (answer.code, answer.headers["Content-Type"]) == (400, "application/json")
    label = (
        TEXTS["70-too-large"]
        .replace("app: too-large", "app: too-large\n    note: x")
        .replace("labels:", f"annotations: {{note: '{EVIL}'}}\n  labels:", 1)
    )
    served.done({"do": "submit", "text": label})
    assert EVIL.encode() not in served.get("/").body
    assert served.end()[0] == 0


def test_a_text_that_grows_without_bound_is_refused(state: Path) -> None:
    served = Served(state)
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    for text in (bomb, "[" * 100_000, "{a: " * 50_000, "\x00", "a: b\n---\n" * 5):
        answer = served.post("/preview", {"do": "submit", "text": text})
        assert answer.code == 400, text[:50]
        assert answer.json()["errors"]
    assert served.done({"do": "submit", "text": TEXTS["10-two-teams"]})
    code, said = served.end()
    assert (code, "Traceback" in said) == (0, False)


def test_what_is_asked_for_is_done_to_the_lab_that_was_seen_or_not_at_all(state: Path) -> None:
    """Two tabs, or a tab and a command: what one of them has done meanwhile is not taken back by the other's Undo."""
    served = Served(state)
    served.done({"do": "submit", "text": TEXTS["10-two-teams"]})
    seen = served.seen()
    served.done({"do": "submit", "text": TEXTS["20-borrower"]})
    before = state.read_bytes()
    for order in ({"do": "undo"}, {"do": "step"}, {"do": "go-on"}, {"do": "pause"}, {"do": "advance", "seconds": 60}):
        refused = served.post("/do", {**order, "seen": seen})
        assert refused.code == 409
        assert "has changed since the page showed it" in refused.json()["errors"][0]
    assert served.post("/do", {"do": "undo"}).code == 400
    assert state.read_bytes() == before
    seen = served.seen()
    assert kailab("scale", "deployment", "borrower", "--replicas", "2", "--state", str(state)).returncode == 0
    assert served.post("/do", {"do": "undo", "seen": seen}).code == 409
    while served.seen() == seen:
        time.sleep(0.05)  # until the page has noticed
    assert "one step" in served.order("step").json()["said"]
    assert "Undone" in served.order("undo").json()["said"]
    assert served.order("pause").code == served.order("go-on").code == 200
    assert served.end()[0] == 0


def test_more_orders_at_once_than_the_lab_can_take_are_refused_not_kept(state: Path) -> None:
    served = Served(state)
    with ThreadPoolExecutor(120) as many:
        codes = list(many.map(lambda _: served.order("step").code, range(120)))
    assert set(codes) <= {200, 409}
    assert codes.count(200) >= 1
    # It goes on as ever.
    assert served.order("step").code == 200
    assert served.end()[0] == 0
