"""Supervision of processes that outlive the command that started them.

Each process has a parent shell, in a session of its own, that waits for it and records how it ended, so that any later
command can report it. Files named after a process hold what is known about it; each file has one writer. A variable in
the process's environment names the folder it belongs to: it tells the process apart from a stranger with a reused
process id, and finds it when files were lost. ``log_tail`` gives the part of a log that says why a process ended.
"""

from __future__ import annotations

import logging
import os
import re
import signal as signals
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import msgspec

from kailab.cluster.polling import wait_until
from kailab.cluster.processes import ask_process, environment, find_process, send_signal
from kailab.errors import StateError
from kailab.model import decoding
from kailab.model.private_files import make_folder, replace_file

if TYPE_CHECKING:
    import psutil


LINES = 8
_TAIL_BYTES = 64_000
_LONGEST = 400
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# A Go crash, klog's fatal level, etcd's, cobra's last error. The lines after it are details.
_FATAL = re.compile(r'^(panic: |fatal error: |Error: |F\d{4} |Traceback )|"level":"(fatal|panic)"|^level=FATAL|^FATAL')
_TRACE = re.compile(r"^(goroutine \d+|created by |\t| {4})")


class _LogLine(msgspec.Struct):
    """A log line of etcd or KWOK."""

    level: str = ""
    msg: str = ""
    error: str = ""
    err: str = ""


def log_tail(log: Path) -> str:
    """At most ``LINES`` lines, indented; empty if there are none."""
    log_lines = [line for line in tail(log) if not _TRACE.match(line)]
    # The last such line: earlier ones belong to earlier starts in the same log.
    fatal = next((at for at in range(len(log_lines) - 1, -1, -1) if _FATAL.search(log_lines[at])), None)
    # The end of a Python traceback says what happened.
    chosen = (
        log_lines[-LINES:]
        if fatal is None or log_lines[fatal].startswith("Traceback")
        else log_lines[fatal : fatal + LINES]
    )
    return "\n".join(f"  {_plain(line)[:_LONGEST]}" for line in chosen)


def _plain(line: str) -> str:
    """A JSON log line as text, without its place in the source; other lines unchanged."""
    if not line.startswith("{"):
        return line
    try:
        entry = decoding.decode_json(line, _LogLine)
    except msgspec.MsgspecError:
        return line
    about = entry.error or entry.err
    return f"{entry.level.lower()}: {entry.msg}{f': {about}' if about else ''}" if entry.msg else line


def tail(log: Path) -> list[str]:
    """The last lines of a log that are not blank, without colours."""
    try:
        with open(log, "rb") as file:
            # Logs are never truncated, so the file may be large.
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]


_log = logging.getLogger(__name__)

MARK = "KAILAB_CONTROL_PLANE"
POLL_SECONDS = 0.02
START_SECONDS = 60.0
GRACE_SECONDS = 10.0
KILL_SECONDS = 60.0
LAST_WORD_SECONDS = 10.0

# The environment variables that control plane programs inherit; not ETCD_..., GODEBUG or proxies that a user may have
# set.
_INHERITED = frozenset({"PATH", "HOME", "TMPDIR", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"})

# The shell gives the process the log, and nothing of the terminal. $1: path of the process's files; the rest: the
# command.
_SUPERVISE = """
umask 077; files=$1; log=$2; shift 2
"$@" </dev/null >>"$log" 2>&1 &
echo $! >"$files.pid"
exec >/dev/null 2>&1
wait $!
echo $? >"$files.exit"
"""


class ProcessRecord(msgspec.Struct, frozen=True):
    """How a process was started. ``since``: the first time, seconds since the epoch; ``stopped``: it was ended on
    purpose."""

    name: str
    argv: list[str]
    environment: dict[str, str] = {}
    port: int = 0
    spawned: bool = False
    stopped: bool = False
    since: float = 0.0


_STOPPED = "stopped"


class ProcessStatus(NamedTuple):
    """The present state of a process. ``pid`` and ``port`` 0: none. ``exit``: as in a shell (128 + n: killed by signal
    n), None while it runs, or if its shell is gone. ``why``: why it doesn't run, with its last log lines; empty if it
    does."""

    name: str
    pid: int
    running: bool
    port: int
    log: Path
    exit: int | None
    why: str

    @property
    def stopped(self) -> bool:
        """True if it was ended on purpose."""
        return self.why == _STOPPED


class Supervision:
    """The processes of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = folder / "processes"
        self._logs = folder / "logs"
        # Processes started by this one: it must reap them, or they stay as zombies.
        self._own: list[subprocess.Popen[bytes]] = []

    def records(self) -> list[ProcessRecord]:
        """In the order of their first start. Damaged records are left out."""
        records = []
        for path in self._files.glob("*.json"):
            try:
                records.append(decoding.decode_json(path.read_bytes(), ProcessRecord))
            except (OSError, msgspec.MsgspecError):
                continue
        # The cluster's own first: spawned ones rely on them.
        return sorted(records, key=lambda record: (record.spawned, record.since))

    def record(self, name: str) -> ProcessRecord:
        """Raises StateError if there is none of this name."""
        known = {record.name: record for record in self.records()}
        if name not in known:
            raise StateError(f"{self.folder}: no process {name!r} here; there are: {', '.join(known) or 'none'}")
        return known[name]

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def start(self, record: ProcessRecord) -> None:
        """Returns when it has a process id. Raises StateError if one of that name runs, or if it can't be started."""
        files = self._files / record.name
        if self._alive(record.name):
            raise StateError(f"{self.folder}: {record.name} runs already, as process {self._pid(record.name)}")
        try:
            for folder in (self._files, self._logs):
                make_folder(folder)
            # Files of an earlier process would pass for this one's.
            for ending in (".pid", ".exit"):
                Path(f"{files}{ending}").unlink(missing_ok=True)
            self.log(record.name).touch(mode=0o600)
            replace_file(Path(f"{files}.json"), msgspec.json.encode(msgspec.structs.replace(record, stopped=False)))
            shell = ["/bin/sh", "-c", _SUPERVISE, "kailab", str(files), str(self.log(record.name)), *record.argv]
            # A spawned program is the user's own, and inherits the whole environment.
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
        # The shell writes the id; a shell that has ended never will.
        _until(lambda: bool(self._pid(record.name)) or above.poll() is not None, START_SECONDS)
        if not self._pid(record.name):
            raise StateError(f"{self.folder}: {record.name} can't be started: the system made no process for it")
        _log.debug("started %s as process %d; its log: %s", record.name, self._pid(record.name), self.log(record.name))

    def status(self, record: ProcessRecord) -> ProcessStatus:
        running, code = self._alive(record.name), None
        if not running:
            code = self._exit(record.name)
            # Its shell waits for its end, and has not seen it: the process runs, even if it can't be inspected.
            running = code is None and not self._is_over(record.name)
        why = "" if running else self._why(record, code)
        pid = self._pid(record.name)
        return ProcessStatus(record.name, pid, running, record.port, self.log(record.name), code, why)

    def signal(self, name: str, number: int) -> None:
        """Raises StateError if it does not run."""
        record = self.record(name)
        process = self._process(name)
        if process is None:
            raise StateError(f"{self.folder}: {name} does not run: {self._why(record, self._exit(name))}")
        send_signal(process, number)

    def stop(self, names: Iterable[str], grace: float = GRACE_SECONDS) -> None:
        """End processes on purpose: SIGTERM, then SIGKILL after ``grace`` seconds. One that has ended by itself counts
        as stopped from now on."""
        names = list(names)
        running = {name: process for name in names if (process := self._process(name))}
        for name in names:
            # Recorded before the signal, so that everybody who sees the end knows that it was on purpose.
            stopped = msgspec.structs.replace(self.record(name), stopped=True)
            replace_file(self._files / f"{name}.json", msgspec.json.encode(stopped))
        if running:
            _log.debug("stopping %s with SIGTERM; SIGKILL follows after %g s", ", ".join(running), grace)
        for process in running.values():
            send_signal(process, signals.SIGTERM)
        if not _until(lambda: not any(self._alive(name) for name in running), grace):
            _log.debug("sending SIGKILL: %s did not all end within %g s", ", ".join(running), grace)
            for process in running.values():
                send_signal(process, signals.SIGKILL)
        # A process with many threads looks ended when its first thread is; its ports are free when the last one is.
        _until(lambda: all(not self._alive(name) and self._is_over(name) for name in names), KILL_SECONDS)

    def end_all(self) -> None:
        """End all processes of this folder, and those they started. Raises StateError if one can't be ended."""

        def swept() -> bool:
            self._reap()
            # Repeatedly: a killed process may just have started another.
            left = processes_of(self.folder)
            for process in left:
                send_signal(process, signals.SIGKILL)
            return not left

        if not _until(swept, KILL_SECONDS):
            left = ", ".join(str(process.pid) for process in processes_of(self.folder))
            raise StateError(f"{self.folder}: processes of the control plane can't be ended: {left}")

    def _alive(self, name: str) -> bool:
        return self._process(name) is not None

    def _process(self, name: str) -> psutil.Process | None:
        """The process, unless another one has its number now."""
        self._reap()
        process = find_process(self._pid(name))
        return process if process is not None and mark_of(process) == str(self.folder) else None

    def _reap(self) -> None:
        self._own = [process for process in self._own if process.poll() is None]

    def _pid(self, name: str) -> int:
        return _number(self._files / f"{name}.pid") or 0

    def _exit(self, name: str) -> int | None:
        # The shell writes it a moment after the end.
        _until(lambda: self._is_over(name), LAST_WORD_SECONDS)
        return _number(self._files / f"{name}.exit")

    def _is_over(self, name: str) -> bool:
        """True if the shell that waits for it has seen its end, or is gone."""
        return _number(self._files / f"{name}.exit") is not None or not self._shell_is_there(name)

    def _shell_is_there(self, name: str) -> bool:
        files = str(self._files / name)
        shells = processes_of(self.folder)
        return any(files in (ask_process(process, lambda shell: shell.cmdline()) or ()) for process in shells)

    def _why(self, record: ProcessRecord, code: int | None) -> str:
        if record.stopped:
            return _STOPPED
        lines = log_tail(self.log(record.name))
        return f"{describe_exit(code)}; " + (f"the last lines of its log:\n{lines}" if lines else "its log is empty")


def describe_exit(code: int | None) -> str:
    if code is None:
        return "it was killed together with its parent shell, so its exit code is unknown"
    if code > 128:
        try:
            return f"it was killed by {signals.Signals(code - 128).name}"
        except ValueError:
            pass
    return f"it ended with exit code {code}"


def processes_of(folder: Path | None) -> list[psutil.Process]:
    """All living processes of this user that belong to a control plane's folder (None: to any), including the shells
    above them."""
    import psutil

    processes = []
    for process in psutil.process_iter():
        mark = mark_of(process)
        # This process may have the mark itself: a control plane spawns programs that call this function.
        if mark and (folder is None or mark == str(folder)) and process.pid != os.getpid():
            processes.append(process)
    return processes


def mark_of(process: psutil.Process) -> str:
    """The folder of the control plane that a living process belongs to; empty: none, or not readable."""
    return environment(process).get(MARK, "")


def new_process_record(
    name: str,
    argv: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    port: int = 0,
    spawned: bool = False,
) -> ProcessRecord:
    command = [str(part) for part in argv]
    return ProcessRecord(name, command, dict(environment or {}), port, spawned, since=time.time())


def _number(path: Path) -> int | None:
    """The number that the shell has written; None: not yet."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _until(done: Callable[[], bool], seconds: float) -> bool:
    return wait_until(done, seconds, pause=POLL_SECONDS)


RESTART_GRACE_SECONDS = 2.0  # an API server waits in vain for its watchers to leave


class ControlPlaneFailed(StateError):
    """A process of a control plane ended, or did not start to work. The message has its last log lines."""


class SupervisedCluster(ABC):
    """A cluster made of supervised processes. ``own``: names that spawned processes can't have."""

    own: ClassVar[tuple[str, ...]] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._supervision = Supervision(folder)

    def processes(self) -> list[ProcessStatus]:
        """All processes as they are now: the cluster's own, then spawned ones."""
        return [self._supervision.status(record) for record in self._supervision.records()]

    def check(self, names: Sequence[str] | None = None) -> None:
        """Raises ControlPlaneFailed if one of these processes (None: any that was not stopped on purpose) has ended."""
        for record in self._supervision.records():
            # Named processes count even if they were stopped on purpose: the caller needs them.
            if record.name in names if names is not None else not record.stopped:
                process = self._supervision.status(record)
                if not process.running:
                    raise ControlPlaneFailed(f"{self.folder}: {record.name} does not run: {process.why}")

    def log(self, name: str) -> Path:
        return self._supervision.log(name)

    def spawn(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None, port: int = 0
    ) -> ProcessStatus:
        """Run one more process, which lives and ends with the cluster. Returns at once.

        ``env``: added to this process's own environment. Paths in ``argv`` should be absolute: it runs in the cluster's
        folder. Raises StateError if one of this name runs.
        """
        if not name or name in self.own or "/" in name:
            raise StateError(f"{name!r} can't be the name of a spawned process")
        made = new_process_record(name, argv, env, port, spawned=True)
        self._supervision.start(made)
        return self._supervision.status(made)

    def kill(self, name: str, signal: int = 9) -> None:
        """Send a signal (default SIGKILL) to a process. Raises StateError if it does not run."""
        self._supervision.signal(name, signal)

    def stop(self, name: str, grace: float = GRACE_SECONDS) -> None:
        """End one process on purpose: SIGTERM, and SIGKILL after ``grace`` seconds. One that has ended by itself counts
        as stopped then, and no longer as failed."""
        self._supervision.record(name)
        self._supervision.stop([name], grace)

    def restart(self, name: str, grace: float = RESTART_GRACE_SECONDS) -> None:
        """Stop it if it runs and start it as before, with its data and ports; one of the cluster's own works on return."""
        record = self._supervision.record(name)
        _log.debug("restarting %s", name)
        self._supervision.stop([name], grace)
        self._supervision.start(record)
        if not record.spawned:
            self._await([name])

    @abstractmethod
    def _await(self, names: Sequence[str]) -> None:
        """Wait until these processes work. Raises as ``up`` does."""
