"""Commands of kailab that are killed, or that find the disk full, each at moments that are spread evenly over all that they do.

A moment is either a share of the time that the command takes undisturbed, or one of the times that it changes something in its folder: between
these lies most of what can be torn, and in time they lie close together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MOMENTS = int(os.environ.get("KAILAB_FAULT_MOMENTS", "4"))
"""Of each operation. Few in CI; 60 in a search for what CI's do not meet."""
FEWER = max(3, MOMENTS // 2) if MOMENTS < 60 else MOMENTS
"""Of operations that take long."""
PATIENCE_SECONDS = 600.0
PLANTED = Path(__file__).with_name("planted")
_MARK = "KAILAB_TESTED_BY"


@dataclass(frozen=True)
class Moment:
    """``kind``: "time", in seconds, "change", the nth in the folder, or "processes", when more than so many run."""

    kind: str
    at: float

    def __str__(self) -> str:
        told = {"time": f"after {self.at:.2f} s", "change": f"at change {self.at:g}"}
        return told.get(self.kind, f"when more than {self.at:g} processes run")


@dataclass(frozen=True)
class Ended:
    """How a command ended: ``code`` as a subprocess has it, -9 where it was killed."""

    code: int
    out: str
    err: str


class Doomed:
    """Commands in one folder, each with a mark by which what it leaves running is found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex

    def environment(self, fault: str = "", at: float = 0, count: Path | None = None) -> dict[str, str]:
        path = os.pathsep.join([str(PLANTED), *filter(None, [os.environ.get("PYTHONPATH")])])
        found = {**os.environ, "PYTHONPATH": path, _MARK: self.mark, "PYTHONUNBUFFERED": "1"}
        if fault or count:
            told = {"FOLDER": str(self.folder), "FAULT": fault, "AT": f"{at:.0f}", "COUNT": str(count or "")}
            found |= {f"PLANTED_{name}": value for name, value in told.items()}
        return found

    def run(self, command: Sequence[str], fault: str = "", moment: Moment | None = None) -> Ended:
        """``fault``: kill, or full."""
        planted = moment is not None and moment.kind == "change"
        given = self.environment(fault, moment.at) if planted and moment is not None else self.environment()
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if moment is not None and moment.kind == "processes":
            while process.poll() is None and len(self.left()) <= moment.at:
                time.sleep(0.01)
            process.kill()
        elif moment is not None and not planted:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment.at)
            process.kill()
        # Its children may hold the pipes for a moment longer.
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        return Ended(process.returncode, out, err)

    def moments(
        self, command: Sequence[str], count: Path, *, changes_only: bool = False, number: int = MOMENTS
    ) -> list[Moment]:
        """Spread over the command, which is carried out once for it, to its end."""
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(count=count), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lasting, changes = time.monotonic() - began, int(count.read_text())
        return spread(0.0 if changes_only else lasting, changes, number)

    def left(self) -> list[psutil.Process]:
        """Processes of its commands that still run."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(_MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def nothing_runs(self) -> None:
        """Whoever lost the process that it worked for ends by itself."""
        end = time.monotonic() + PATIENCE_SECONDS
        while left := self.left():
            assert time.monotonic() < end, left
            time.sleep(0.05)

    def end_all(self) -> None:
        for process in self.left():
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)


def spread(lasting: float, changes: int, number: int = MOMENTS) -> list[Moment]:
    """Every second one by time, if the command lasts any."""
    found = []
    for place in range(number):
        share = (place + 0.5) / number
        if place % 2 and lasting:
            found.append(Moment("time", lasting * share))
        else:
            found.append(Moment("change", max(1, min(changes, 1 + int(changes * share)))))
    return found


def kailab(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "kailab", *arguments]


@contextlib.contextmanager
def nearly_full(folder: Path, free: int) -> Iterator[bool]:
    """A small disk at the folder, with so many bytes free beyond what lay there before; False where this user may mount none."""
    import shutil

    aside = folder.with_name(f"{folder.name}-aside")
    shutil.copytree(folder, aside, symlinks=True)
    held = sum(-(-path.stat().st_size // 4096) * 4096 for path in aside.rglob("*") if path.is_file())
    folders = sum(4096 for path in aside.rglob("*") if path.is_dir())
    size = -(-(held + folders + free) // 4096) * 4096
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False
    )
    try:
        if mounted.returncode == 0:
            shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
        yield mounted.returncode == 0
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(aside)
