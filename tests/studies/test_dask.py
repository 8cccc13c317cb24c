"""Studies on a real local Dask cluster whose workers are killed and whose scheduler is lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kailab.cluster.polling import wait_until
from kailab.errors import ConnectError
from kailab.studies import sweep as sweeping
from kailab.studies.study_file import read_study
from kailab.studies.sweep import sweep
from tests.studies.conftest import Write

pytest.importorskip("distributed", reason="Dask is not installed")
pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 240
PRINTS = """\
from kailab.engine import JobOrder


class Mine(JobOrder, frozen=True):
    def key(self, job):
        print("asked")
        return job.wants.gpu
"""


def is_of_a_pool(process: psutil.Process) -> bool:
    """Whether it is a process that another one spawned to work for it, and lives."""
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


class DaskHere:
    """A scheduler, and a nanny that starts its worker anew whenever that ends."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        common = ["--no-dashboard", "--scheduler-file", str(self.file)]
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", *common)
        assert wait_until(self.file.exists, PATIENCE_SECONDS)
        self.nannies = [
            self._start("worker", "--nthreads", "1", "--local-directory", str(folder), *common) for _ in range(2)
        ]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_text())["address"])

    def kill_a_worker(self) -> bool:
        workers = [
            child for nanny in self.nannies for child in psutil.Process(nanny.pid).children() if is_of_a_pool(child)
        ]
        if workers:
            random.choice(workers).send_signal(signal.SIGKILL)
        return bool(workers)

    def close(self) -> None:
        for process in (self.scheduler, *self.nannies):
            for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else ():
                child.kill()
            process.kill()
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[DaskHere]:
    (tmp_path / "dask").mkdir()
    found = DaskHere(tmp_path / "dask")
    yield found
    found.close()


def test_workers_that_are_killed_lose_nothing(
    study_file: Write, tmp_path: Path, dask: DaskHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = read_study(study_file(grid="{limits: [{red: 8}, {red: 16}]}", seeds="3"))
    told: Counter[str] = Counter()
    keep = sweeping.StudyFolder.keep
    monkeypatch.setattr(
        sweeping.StudyFolder, "keep", lambda self, run, result: (told.update([run.key]), keep(self, run, result))
    )
    killed: list[bool] = []

    def kill_one(what: str, done: int, total: int) -> None:
        if done in (1, 3):
            killed.append(dask.kill_a_worker())

    swept = sweep(study, tmp_path / "there", dask=dask.address, progress=kill_one)
    assert any(killed)
    assert sorted(told.values()) == [1] * 6
    assert not swept.failed
    assert swept.table.read_bytes() == sweep(study, tmp_path / "here", workers=2).table.read_bytes()


def test_a_scheduler_that_is_lost_is_told_and_the_study_goes_on_elsewhere(
    study_file: Write, tmp_path: Path, dask: DaskHere
) -> None:
    study = read_study(study_file(grid="{limits: [{red: 8}, {red: 16}]}", seeds="3"))

    def lose(what: str, done: int, total: int) -> None:
        if done == 2:
            dask.scheduler.kill()

    with pytest.raises(ConnectError, match="the connection to the scheduler was lost"):
        sweep(study, tmp_path, dask=dask.address, progress=lose)
    swept = sweep(study, tmp_path, workers=2)
    assert swept.before >= 2
    assert len(swept.results) == 6


def test_workers_read_files_as_they_are_now(study_file: Write, tmp_path: Path, dask: DaskHere) -> None:
    path = study_file(policies="[mine.py:Mine]")
    trace = tmp_path / "trace.csv"
    (tmp_path / "mine.py").write_text(PRINTS)
    tables = []
    for _ in range(2):
        swept = sweep(read_study(path), tmp_path / "there", dask=dask.address)
        assert not swept.failed, swept.results
        tables.append(swept.table.read_bytes())
        trace.write_text(trace.read_text().replace("red", "green"))
    assert b"red" in tables[0]
    assert b"red" not in tables[1]


def test_where_no_scheduler_is_that_is_told(study_file: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kailab.studies.runner.CONNECT_SECONDS", 2)
    with pytest.raises(ConnectError, match="no Dask scheduler answers"):
        sweep(read_study(study_file()), tmp_path, dask="tcp://127.0.0.1:1")
