"""What a test or a benchmark brought up does not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("components")]

OPEN = """
from kailab.lab.venues import open_venue
venue = open_venue("controlplane")
print(venue.plane.folder, flush=True)
input()
venue.close()
"""


def processes_of(folder: str) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if folder in line:
            found.append(line)
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_plane_ends_with_a_process_that_is_killed(number: signal.Signals) -> None:
    tests = subprocess.Popen([sys.executable, "-c", OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert tests.stdout is not None
    folder = tests.stdout.readline().strip()
    assert len(processes_of(folder)) >= 4
    tests.send_signal(number)
    tests.wait()
    end = time.monotonic() + 3000
    while (left := processes_of(folder)) or Path(folder).exists():
        assert time.monotonic() < end, left
        time.sleep(0.2)


def test_a_plane_ends_with_a_process_that_is_killed_while_it_starts(tmp_path: Path) -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", OPEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    end = time.monotonic() + 3000
    while not any("etcd" in line for line in processes_of(str(tmp_path))):
        assert time.monotonic() < end
        time.sleep(0.05)
    tests.kill()
    tests.wait()
    while (left := processes_of(str(tmp_path))) or any(tmp_path.glob("kailab-*")):
        assert time.monotonic() < end, left
        time.sleep(0.2)


def test_nothing_is_left_of_one_that_ends_as_it_should() -> None:
    done = subprocess.run([sys.executable, "-c", OPEN], input="\n", capture_output=True, text=True)
    folder = done.stdout.strip()
    assert (done.returncode, done.stderr) == (0, "")
    end = time.monotonic() + 300
    while left := processes_of(folder):
        assert time.monotonic() < end, left
        time.sleep(0.2)
    assert not Path(folder).exists()
