"""Run a scheduler under test as local programs: start processes on free ports, check that they work, read their logs and metrics.

``LocalProcesses`` is the base of schedulers with several programs, ``AddonProcesses`` of those with one add-on program.
``install_definitions`` applies the CRDs that a scheduler brings.
"""

from __future__ import annotations

import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import tenacity

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.controlplane.supervision import tail
from kailab.cluster.install import await_established
from kailab.cluster.polling import wait_until
from kailab.cluster.protocol import Cluster
from kailab.errors import ConnectError
from kailab.model.objects import Object, is_ended, is_terminating, metadata_of, name_of, node_of, uid_of
from kailab.undertest.contract import Plane, SchedulerFailed, SchedulerProcesses

if TYPE_CHECKING:
    from kailab.components import Addon


ProgramCheck = Callable[[], str | None]

READY_SECONDS = 300.0  # much more than it takes: seconds on a quiet machine
ANSWER_SECONDS = 10.0
LAST_LINES = 8
_PORT_TAKEN = "address already in use"


class Program(NamedTuple):
    """One process. ``port``: the port of its metrics or health endpoint. ``works``: checks once; returns None if the program works, else
    what is missing. ``environment``: variables in addition to KUBECONFIG."""

    name: str
    binary: Path
    arguments: Sequence[str]
    port: int
    works: ProgramCheck
    environment: Mapping[str, str] = MappingProxyType({})


class PortTaken(SchedulerFailed):
    """Another process took a port after it was found free and before the program listened on it."""


def run_programs(plane: Plane, programs: Sequence[Program]) -> None:
    """Start all programs, and return when all work. On SchedulerFailed and on any other exception, none of them is left running."""
    try:
        for program in programs:
            argv = [str(program.binary), *program.arguments]
            plane.spawn(program.name, argv, {"KUBECONFIG": str(plane.kubeconfig), **program.environment}, program.port)
        _await_all(plane, programs)
    # Also after Ctrl-C: otherwise some processes would run as long as the plane.
    except BaseException:
        stop_programs(plane, [program.name for program in programs])
        raise


def _await_all(plane: Plane, programs: Sequence[Program]) -> None:
    names = [program.name for program in programs]
    missing: dict[str, str] = {}

    def all_work() -> bool:
        # Fail at once if a process has ended, instead of waiting for the time limit.
        check_programs(plane, names)
        missing.clear()
        for program in programs:
            if lacking := program.works():
                missing[program.name] = lacking
        return not missing

    if not wait_until(all_work, READY_SECONDS):
        name, lacking = next(iter(missing.items()))
        words = "\n".join(f"  {line[:300]}" for line in tail(plane.log(name))[-LAST_LINES:])
        raise SchedulerFailed(
            f"{name} does not work after {READY_SECONDS:g} s: {lacking}; last lines of its log:\n{words}"
        )


def check_programs(plane: Plane, names: Sequence[str]) -> None:
    """Raises SchedulerFailed, or PortTaken, with the last lines of the log if one of these processes has ended."""
    for process in plane.processes():
        if process.name in names and not process.running:
            taken = any(_PORT_TAKEN in line for line in tail(process.log))
            raise (PortTaken if taken else SchedulerFailed)(f"{process.name} does not run: {process.why}")


def stop_programs(plane: Plane, names: Sequence[str]) -> None:
    """Stop those of these processes that run."""
    running = {process.name for process in plane.processes() if process.running}
    for name in names:
        if name in running:
            plane.stop(name)


def address_flag(flag: str, port: int) -> str:
    """``--FLAG=ADDRESS`` with that port of the loopback address."""
    return f"--{flag}={LOOPBACK}:{port}"


def health_check(url: str) -> Callable[[], str | None]:
    """A check that a health endpoint answers 200."""

    def check() -> str | None:
        _, problem = fetch_url(url)
        return problem

    return check


def metrics_check(url: str, pattern: str, meaning: str) -> Callable[[], str | None]:
    """A check that a line of the metrics matches ``pattern``. ``meaning`` is the result while none does."""
    wanted = re.compile(pattern, re.MULTILINE)

    def check() -> str | None:
        text, problem = fetch_url(url)
        return problem or (None if wanted.search(text) else meaning)

    return check


class LogCounter:
    """Counts lines of a log that contain ``words``, from its present end on."""

    def __init__(self, log: Path, words: str) -> None:
        self._log = log
        self._words = words.encode()
        self._at = log.stat().st_size if log.exists() else 0
        self._rest = b""
        self.count = 0

    def listen(self) -> int:
        """Read new lines of the log and return the count so far."""
        try:
            with open(self._log, "rb") as file:
                file.seek(self._at)
                news = file.read()
        except OSError:
            return self.count
        self._at += len(news)
        lines = (self._rest + news).split(b"\n")
        self._rest = lines.pop()  # an incomplete line
        self.count += sum(self._words in line for line in lines)
        return self.count


def log_check(log: Path, words: str, meaning: str) -> Callable[[], str | None]:
    """A check that the log contains ``words`` from its present end on. ``meaning`` is the result while it does not."""
    heard = LogCounter(log, words)
    return lambda: None if heard.listen() else meaning


def fetch_url(url: str) -> tuple[str, str | None]:
    """The text at a local URL, and the problem, or None. Certificates are not checked, because the process signs its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Without a proxy, whose localhost would be another machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as answer:
            return answer.read().decode("utf-8", "replace"), None
    except urllib.error.HTTPError as error:
        body = error.read().decode("utf-8", "replace").strip().replace("\n", "; ")[:300]
        return "", f"{url} says {error.code} ({body})"
    except (OSError, ValueError) as error:
        return "", f"{url} does not answer ({error})"


# --- base classes of schedulers ---------------------------------------------------------------------------------------

_PORT_TRIES = 5


class LocalProcesses(SchedulerProcesses):
    """A scheduler whose processes are listed by ``names``."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def check(self) -> None:
        check_programs(self._plane, self.names)

    def stop(self) -> None:
        stop_programs(self._plane, self.names)


class AddonProcesses(LocalProcesses):
    """A scheduler that is one add-on program (``kailab components get --with``). ``name``: of the add-on, its program and the process."""

    name: ClassVar[str]

    @cached_property
    def _addon(self) -> Addon:
        """Raises MissingComponents if the add-on is not installed."""
        from kailab.components import find_addon

        return find_addon(self.name)

    @property
    def names(self) -> Sequence[str]:
        return (self.name,)

    def version(self) -> str:
        return f"{self.name} {self._addon.version}"


def on_free_ports(start: Callable[[], None]) -> None:
    """Call ``start``, which chooses free ports at each call, again after PortTaken, up to five times. Other errors are raised at once."""
    tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_PORT_TRIES),
        retry=tenacity.retry_if_exception_type(PortTaken),
        reraise=True,
    )(start)


# --- definitions ------------------------------------------------------------------------------------------------------


def install_definitions(cluster: Cluster, crds: Sequence[Object], who: str) -> None:
    """Apply the CRDs of scheduler ``who`` and wait until the API server serves them. Idempotent. Raises SchedulerFailed if it does not."""
    for crd in crds:
        cluster.apply(crd)
    try:
        await_established(cluster, [name_of(crd) for crd in crds])
    except ConnectError as error:
        raise SchedulerFailed(f"the API server does not take the definitions of {who}: {error}") from None


# --- retries ----------------------------------------------------------------------------------------------------------


class RetryTracker:
    """Work that a scheduler retries by itself after a known time: until then the lab is not idle. Metrics and conditions do not show it,
    because a scheduler that waits for a retry is idle.

    ``seconds``: how long a retry of a pending pod may take. ``tried``: whether the scheduler retries this pod. ``monotonic``: measures
    waiting."""

    def __init__(
        self,
        cluster: Cluster,
        seconds: float,
        tried: Callable[[Object], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._tried = tried
        self._monotonic = monotonic
        self._standing: frozenset[tuple[object, ...]] = frozenset()
        self._since = monotonic()

    def owed(self) -> bool:
        """Whether a pending pod has not been retried since pods or nodes were added, moved or removed, or queues changed. Writes to a pod
        that stays pending do not count, because they would keep the retry open for ever."""
        pods = self._cluster.list("Pod")
        others = (_identity(obj) for kind in ("Node", "Queue") for obj in self._cluster.list(kind))
        standing = frozenset((*map(_place, pods), *others))
        now = self._monotonic()
        if standing != self._standing:
            self._standing, self._since = standing, now
        return now - self._since < self._seconds and any(_waits(pod) and self._tried(pod) for pod in pods)


def _identity(obj: Object) -> tuple[object, ...]:
    # Without status, because a node's heartbeats change it all the time.
    return uid_of(obj), metadata_of(obj).get("generation")


def _place(pod: Object) -> tuple[object, ...]:
    return uid_of(pod), node_of(pod), is_terminating(pod), is_ended(pod)


def _waits(pod: Object) -> bool:
    return not node_of(pod) and not is_terminating(pod)
