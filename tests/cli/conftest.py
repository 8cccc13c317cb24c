"""A command line over a lab of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cli.main import app

MANIFESTS = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec:
  resources:
    gpu: {quota: 8, limit: 16, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kai.scheduler/queue: team-a}}
spec:
  parallelism: 20
  completions: 20
  template:
    metadata: {labels: {app: train, kai.scheduler/queue: team-a}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      tolerations: [{operator: Exists}]
      containers:
      - {name: main, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, labels: {tier: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api, kai.scheduler/queue: team-a}}
    spec:
      schedulerName: kai-scheduler
      containers:
      - {name: main, image: serve, resources: {limits: {nvidia.com/gpu: 1}}}
"""


@dataclass
class Done:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Kailab = Callable[..., Done]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory without settings from outside."""
    for name in ("KAILAB_STATE", "KAILAB_DEBUG", "KAILAB_EVIDENCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kailab(home: Path) -> Kailab:
    """Runs a command in this process: ``kailab("get", "pods")``."""

    def run(*arguments: str, input: str | None = None) -> Done:
        result = CliRunner().invoke(app, list(arguments), input=input)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def started(kailab: Kailab) -> Kailab:
    """The same, with a lab that is up."""
    assert kailab("up").code == 0
    return kailab


@pytest.fixture
def busy(started: Kailab, home: Path) -> Kailab:
    """The same, with a queue at its limit: 16 of a Job's 20 pods run."""
    (home / "work.yaml").write_text(MANIFESTS)
    assert started("apply", "-f", "work.yaml").code == 0
    return started


@pytest.fixture
def serving(busy: Kailab) -> Kailab:
    """The same queue with a Deployment of two pods instead of the Job."""
    assert busy("delete", "job", "train").code == 0
    assert busy("apply", "-f", "-", input=DEPLOYMENT).code == 0
    return busy


@pytest.fixture
def state(home: Path) -> Path:
    return home / ".kailab" / "lab.state"


@pytest.fixture
def process(home: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a command as a process of its own."""

    def start(*arguments: str, **options: object) -> subprocess.Popen[bytes]:
        settings: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "cwd": home,
            # Where the tests run in the background of a shell, they and their children would not hear it.
            "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            "env": {name: value for name, value in os.environ.items() if name != "NO_COLOR"},
            **options,
        }
        return subprocess.Popen([sys.executable, "-m", "kailab", *arguments], **settings)  # type: ignore[call-overload, no-any-return]

    return start


def read_terminal(leader: int) -> bytes:
    """Returns all that is written on a terminal until its last process ends, and closes ``leader``."""
    written = b""
    try:
        while chunk := os.read(leader, 4096):
            written += chunk
    except OSError:  # the terminal went with the command
        pass
    finally:
        os.close(leader)
    return written


@pytest.fixture
def on_a_terminal(process: Callable[..., subprocess.Popen[bytes]]) -> Callable[..., list[str]]:
    """Runs a command on a terminal of so many columns; the lines that it wrote there, without colours."""

    def run(columns: int, *arguments: str) -> list[str]:
        leader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        with process(*arguments, stdout=terminal, stderr=subprocess.DEVNULL, env={**kept, "TERM": "xterm"}) as command:
            os.close(terminal)
            said = read_terminal(leader)
        assert command.returncode == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()

    return run
