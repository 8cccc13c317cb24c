"""Processes that outlive the command that started them.

Each has a shell above it, in a session of its own, that waits for it and writes down how it ended; so any later command can
say so. What is known of a process is in files named after it, one writer each. Its environment names the folder it belongs
to: that tells it apart from a stranger who got its process id, and finds it where files were lost.
"""

from __future__ import annotations

import os
import signal as signals
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kailab.cluster.controlplane.certificates import write_private
from kailab.cluster.controlplane.log_tail import log_tail
from kailab.cluster.processes import ask, environment, find, send
from kailab.cluster.waiting import wait_until
from kailab.errors import StateError
from kailab.model import decoding
from kailab.model.private_files import make_folder

if TYPE_CHECKING:
    import psutil

MARK = "KAILAB_CONTROL_PLANE"
POLL_SECONDS = 0.02
START_SECONDS = 60.0
GRACE_SECONDS = 10.0
KILL_SECONDS = 60.0
LAST_WORD_SECONDS = 10.0

# What programs of the control plane get of the environment: not the ETCD_..., GODEBUG or proxies that a user may have set.
_INHERITED = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"})

# The shell gives the process the log and nothing of the terminal. $1 is where its files are; the rest is the command.
_SUPERVISE = """
umask 077; files=$1; log=$2; shift 2
"$@" </dev/null >>"$log" 2>&1 &
echo $! >"$files.pid"
exec >/dev/null 2>&1
wait $!
echo $? >"$files.exit"
"""


class Record(msgspec.Struct, frozen=True):
    """How a process was started. ``since``: the first time, seconds since the epoch; ``stopped``: it was ended on purpose."""

    name: str
    argv: list[str]
    environment: dict[str, str] = {}
    port: int = 0
    spawned: bool = False
    stopped: bool = False
    since: float = 0.0


_STOPPED = "stopped"


class Process(NamedTuple):
    """One process as it is now. ``pid`` and ``port`` 0: none. ``exit``: as a shell counts (128 + n: killed by signal n), None
    while it runs, or if the shell that would have told it is gone. ``why``: why it doesn't run, with its last words; empty if it does."""

    name: str
    pid: int
    running: bool
    port: int
    log: Path
    exit: int | None
    why: str

    @property
    def stopped(self) -> bool:
        """It was ended on purpose."""
        return self.why == _STOPPED


class Supervision:
    """The processes of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = folder / "processes"
        self._logs = folder / "logs"
        # Those that this Python process started itself: it has to take note of their end, or they stay as zombies.
        self._own: list[subprocess.Popen[bytes]] = []

    def records(self) -> list[Record]:
        """In the order of their first start. A damaged one is left out."""
        found = []
        for path in self._files.glob("*.json"):
            try:
                found.append(decoding.decode_json(path.read_bytes(), Record))
            except (OSError, msgspec.MsgspecError):
                continue
        # The plane's own first: what was spawned relies on them.
        return sorted(found, key=lambda one: (one.spawned, one.since))

    def record(self, name: str) -> Record:
        """Raises StateError if there is none of this name."""
        known = {record.name: record for record in self.records()}
        if name not in known:
            raise StateError(f"{self.folder}: no process {name!r} here; there are: {', '.join(known) or 'none'}")
        return known[name]

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def start(self, record: Record) -> None:
        """Returns when it has a process id. Raises StateError if one of that name runs, or if it can't be started."""
        files = self._files / record.name
        if self._alive(record.name):
            raise StateError(f"{self.folder}: {record.name} runs already, as process {self._pid(record.name)}")
        try:
            for folder in (self._files, self._logs):
                make_folder(folder)
            # What an earlier process left would pass for this one's.
            for ending in (".pid", ".exit"):
                Path(f"{files}{ending}").unlink(missing_ok=True)
            self.log(record.name).touch(mode=0o600)
            write_private(Path(f"{files}.json"), msgspec.json.encode(msgspec.structs.replace(record, stopped=False)))
            shell = ["/bin/sh", "-c", _SUPERVISE, "kailab", str(files), str(self.log(record.name)), *record.argv]
            # A spawned program is the user's own, and gets the environment that it would have anyway.
            inherited = {name: value for name, value in os.environ.items() if record.spawned or name in _INHERITED}
            given = {**inherited, **record.environment, MARK: str(self.folder)}
            above = subprocess.Popen(
                shell,
                cwd=self.folder,
                env=given,
                # Ctrl-C and the end of a terminal reach the command's own session, not this one.
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self._own.append(above)
        except OSError as error:
            raise StateError(f"{self.folder}: {record.name} can't be started: {error}") from error
        # The shell writes the id down; one that has ended will not do so any more.
        _until(lambda: bool(self._pid(record.name)) or above.poll() is not None, START_SECONDS)
        if not self._pid(record.name):
            raise StateError(f"{self.folder}: {record.name} can't be started: the system made no process for it")

    def look(self, record: Record) -> Process:
        running, code = self._alive(record.name), None
        if not running:
            code = self._exit(record.name)
            # The shell above waits for its end, and has seen none: whatever hides it from us, it runs.
            running = code is None and not self._is_over(record.name)
        why = "" if running else self._why(record, code)
        pid = self._pid(record.name)
        return Process(record.name, pid, running, record.port, self.log(record.name), code, why)

    def signal(self, name: str, number: int) -> None:
        """Raises StateError if it does not run."""
        record = self.record(name)
        process = self._process(name)
        if process is None:
            raise StateError(f"{self.folder}: {name} does not run: {self._why(record, self._exit(name))}")
        send(process, number)

    def stop(self, names: Iterable[str], grace: float = GRACE_SECONDS) -> None:
        """End them on purpose: asked to, and after ``grace`` seconds made to. One that has ended by itself counts as
        stopped from now on."""
        names = list(names)
        running = {name: process for name in names if (process := self._process(name))}
        for name in names:
            # Written down before the signal: whoever sees it end meanwhile must see that it was meant to.
            stopped = msgspec.structs.replace(self.record(name), stopped=True)
            write_private(self._files / f"{name}.json", msgspec.json.encode(stopped))
        for process in running.values():
            send(process, signals.SIGTERM)
        if not _until(lambda: not any(self._alive(name) for name in running), grace):
            for process in running.values():
                send(process, signals.SIGKILL)
        # A process of many threads looks ended as soon as its first one is; its ports are free when the last one is.
        _until(lambda: all(self._has_ended(name) for name in names), KILL_SECONDS)

    def end_all(self) -> None:
        """No process of this folder is left, nor any that such a process started. Raises StateError if one can't be ended."""

        def swept() -> bool:
            self._reap()
            # Again and again: one of those that are killed may just have started another.
            left = processes_of(self.folder)
            for process in left:
                send(process, signals.SIGKILL)
            return not left

        if not _until(swept, KILL_SECONDS):
            left = ", ".join(str(process.pid) for process in processes_of(self.folder))
            raise StateError(f"{self.folder}: processes of the control plane can't be ended: {left}")

    def _alive(self, name: str) -> bool:
        return self._process(name) is not None

    def _process(self, name: str) -> psutil.Process | None:
        """Not a stranger with the same number."""
        self._reap()
        process = find(self._pid(name))
        return process if process is not None and mark_of(process) == str(self.folder) else None

    def _reap(self) -> None:
        self._own = [one for one in self._own if one.poll() is None]

    def _pid(self, name: str) -> int:
        return _number(self._files / f"{name}.pid") or 0

    def _exit(self, name: str) -> int | None:
        # The shell writes it a moment after the end.
        _until(lambda: self._is_over(name), LAST_WORD_SECONDS)
        return _number(self._files / f"{name}.exit")

    def _has_ended(self, name: str) -> bool:
        return not self._alive(name) and self._is_over(name)

    def _is_over(self, name: str) -> bool:
        """Whether the shell above it, which waits for all of it, has seen its end, or is there no more."""
        return _number(self._files / f"{name}.exit") is not None or not self._shell_is_there(name)

    def _shell_is_there(self, name: str) -> bool:
        files = str(self._files / name)
        return any(files in (ask(one, lambda asked: asked.cmdline()) or ()) for one in processes_of(self.folder))

    def _why(self, record: Record, code: int | None) -> str:
        if record.stopped:
            return _STOPPED
        words = log_tail(self.log(record.name))
        return f"{told_exit(code)}; its last words:\n{words}" if words else f"{told_exit(code)}; it said nothing"


def told_exit(code: int | None) -> str:
    if code is None:
        return "it was killed together with the shell above it, which would have told how it ended"
    if code > 128:
        try:
            return f"it was killed by {signals.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"it ended with exit code {code}"


def processes_of(folder: Path | None) -> list[psutil.Process]:
    """All processes of this user that live and belong to a control plane's folder, the shells above them included; None: to
    any."""
    import psutil

    found = []
    for process in psutil.process_iter():
        mark = mark_of(process)
        # This process may carry the mark itself: a plane spawns programs that ask about it.
        if mark and (folder is None or mark == str(folder)) and process.pid != os.getpid():
            found.append(process)
    return found


def mark_of(process: psutil.Process) -> str:
    """The folder of the control plane that a living process belongs to; empty: none, or not for us to know."""
    return environment(process).get(MARK, "")


def record(
    name: str,
    argv: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    spawned: bool = False,
) -> Record:
    command = [str(part) for part in argv]
    return Record(name, command, dict(environment or {}), port, spawned, since=time.time())


def _number(path: Path) -> int | None:
    """What the shell has written; None: nothing yet."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _until(done: Callable[[], bool], seconds: float) -> bool:
    return wait_until(done, seconds, pause=POLL_SECONDS)
