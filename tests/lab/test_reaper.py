"""What a process brought up does not outlive it: the part that looks on, over a plane of one sleeping process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from kailab.cluster.controlplane import cluster_folder
from kailab.cluster.controlplane.supervision import Supervision, new_process_record, processes_of
from kailab.cluster.polling import wait_until
from kailab.lab.venues.reaper import Reaper

HOLDS = """
import os, sys
from pathlib import Path
from kailab.lab.venues.reaper import Reaper
reaper = Reaper(Path(sys.argv[1]), "controlplane")
if sys.argv[2] == "forks" and os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print("holds", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def plane(tmp_path: Path) -> Path:
    folder = cluster_folder.claim_folder(tmp_path / "plane")
    supervision = Supervision(folder)
    supervision.start(new_process_record("sleeper", ["/bin/sleep", "600"]))
    return folder


@pytest.fixture
def holder(plane: Path) -> Callable[[str], subprocess.Popen[str]]:
    def start(how: str) -> subprocess.Popen[str]:
        held = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(plane), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert held.stdout is not None
        assert held.stdout.readline() == "holds\n"
        return held

    return start


def test_a_plane_ends_with_a_process_that_nobody_takes_note_of(plane: Path, holder) -> None:
    """Killed, and a zombie for as long as its parent likes: to ``kill -0`` it is still there."""
    held = holder("alone")
    held.kill()
    assert wait_until(lambda: psutil.Process(held.pid).status() == psutil.STATUS_ZOMBIE, 60)
    assert wait_until(lambda: not plane.exists(), 120)
    assert processes_of(plane) == []
    held.communicate()


def test_a_child_of_the_process_does_not_keep_the_plane(plane: Path, holder) -> None:
    held = holder("forks")
    (child,) = psutil.Process(held.pid).children()
    held.kill()
    assert wait_until(lambda: not plane.exists(), 120)
    assert child.is_running()
    held.communicate()


def test_nobody_looks_on_once_the_plane_is_down(plane: Path) -> None:
    watchers = _watching(plane)
    reaper = Reaper(plane, "controlplane")
    assert len(_watching(plane)) == len(watchers) + 1
    cluster_folder.remove(plane)
    reaper.close()
    assert wait_until(lambda: not _watching(plane), 60)


def test_a_plane_that_did_not_go_down_is_taken_down(plane: Path) -> None:
    reaper = Reaper(plane, "controlplane")
    before = os.listdir("/proc/self/fd") if Path("/proc/self/fd").exists() else []
    reaper.close()
    reaper.close()
    assert not before or len(os.listdir("/proc/self/fd")) == len(before) - 1
    assert wait_until(lambda: not plane.exists(), 120)


def _watching(plane: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "kailab-reaper" in (process.info["cmdline"] or ()) and str(plane) in process.info["cmdline"]
    ]
