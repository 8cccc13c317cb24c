"""A lab whose cluster has processes of its own, and whose start is killed: what there is of it is known to the next command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kailab.cluster.controlplane.supervision import processes_of

BACKEND = """
import os, shutil, signal
from pathlib import Path
from kailab.cluster.backends import Backend
from kailab.cluster.controlplane.supervision import Supervision, new_process_record
from kailab.lab.venues import Place
from kailab.lab.venues.embedded import EmbeddedProvider

SLEEPING = Backend("a cluster that is one process, which sleeps", provider="acme_sleeping:SleepingProvider", api_server=False)


class SleepingProvider(EmbeddedProvider):
    def open(self, request):
        request.record(Place(backend="sleeping", folder=str(request.folder)))
        if os.environ["DIES"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        request.folder.mkdir(parents=True)
        Supervision(request.folder).start(new_process_record("sleeper", ["sleep", "86400"]))
        if os.environ["DIES"] == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("it does not work")

    def take_down(self, place):
        Supervision(Path(place.folder)).end_all()
        shutil.rmtree(place.folder, ignore_errors=True)
"""


@pytest.fixture
def kailab(bring, tmp_path: Path):
    site = bring("acme", "[kailab.backends]\nsleeping = acme_sleeping:SLEEPING\n", acme_sleeping=BACKEND)
    folder = tmp_path / "work"
    folder.mkdir()
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments: str, dies: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path, "DIES": dies}
        command = [sys.executable, "-m", "kailab", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    yield run
    assert processes_of(folder / ".kailab" / "sleeping") == []


@pytest.mark.parametrize("dies", ["before", "after"])
def test_down_finds_what_a_start_that_was_killed_has_left(kailab, tmp_path: Path, dies: str) -> None:
    folder = tmp_path / "work" / ".kailab"
    assert kailab("up", "--backend", "sleeping", dies=dies).returncode == -signal.SIGKILL
    assert bool(processes_of(folder / "sleeping")) == (dies == "after")
    told = kailab("status")
    assert told.returncode == 2
    assert "its start was interrupted" in told.stderr
    assert "kailab down" in told.stderr
    assert kailab("down").stdout == "The lab is down.\n"
    assert processes_of(folder / "sleeping") == []
    assert [path.name for path in folder.iterdir()] == ["lab.state.lock"]


def test_up_begins_anew_where_a_start_was_killed(kailab, tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".kailab"
    kailab("up", "--backend", "sleeping", dies="after")
    done = kailab("up")
    assert "the start of a lab was interrupted" in done.stderr
    assert "The lab is up" in done.stdout
    assert processes_of(folder / "sleeping") == []
    assert kailab("down").returncode == 0


def test_a_start_that_fails_leaves_nothing(kailab, tmp_path: Path) -> None:
    folder = tmp_path / "work" / ".kailab"
    assert "it does not work" in kailab("up", "--backend", "sleeping").stderr
    assert processes_of(folder / "sleeping") == []
    assert [path.name for path in folder.iterdir()] == ["lab.state.lock"]
