"""The scheduler under test as local processes: each a program with its ports, and a look that tells that it works."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import tenacity

from kailab.cluster.controlplane.log_tail import tail
from kailab.cluster.install import await_established
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.waiting import wait_until
from kailab.errors import ConnectError
from kailab.undertest.contract import Plane, SchedulerFailed, SchedulerProcesses

if TYPE_CHECKING:
    from kailab.components import Addon


ProgramCheck = Callable[[], str | None]

READY_SECONDS = 300.0  # much more than it takes: seconds on a quiet machine
LOOK_SECONDS = 10.0
LAST_LINES = 8
_PORT_TAKEN = "address already in use"


class Program(NamedTuple):
    """One process. ``port``: where it shows its metrics or health. ``works``: one look; None once it works, else what is still
    missing. ``environment``: what it finds there beside the plane's kubeconfig."""

    name: str
    binary: Path
    arguments: Sequence[str]
    port: int
    works: ProgramCheck
    environment: Mapping[str, str] = MappingProxyType({})


class PortTaken(SchedulerFailed):
    """Somebody took a port between our look at it and the start of the process."""


def run_programs(plane: Plane, programs: Sequence[Program]) -> None:
    """Start all, and return when all work. Raises SchedulerFailed; then none of them is left running."""
    try:
        for program in programs:
            argv = [str(program.binary), *program.arguments]
            plane.spawn(program.name, argv, {"KUBECONFIG": str(plane.kubeconfig), **program.environment}, program.port)
        _await_all(plane, programs)
    # Ctrl-C too: a process of a half-started set would go on as long as the plane does.
    except BaseException:
        stop_programs(plane, [program.name for program in programs])
        raise


def _await_all(plane: Plane, programs: Sequence[Program]) -> None:
    names = [program.name for program in programs]
    missing: dict[str, str] = {}

    def look() -> bool:
        # Whoever has ended will never work: no need to wait out the time.
        check_programs(plane, names)
        missing.clear()
        for program in programs:
            if lacking := program.works():
                missing[program.name] = lacking
        return not missing

    if not wait_until(look, READY_SECONDS):
        name, lacking = next(iter(missing.items()))
        words = "\n".join(f"  {line[:300]}" for line in tail(plane.log(name))[-LAST_LINES:])
        raise SchedulerFailed(
            f"{name} does not get to work: after {READY_SECONDS:g} s {lacking}; its last words:\n{words}"
        )


def check_programs(plane: Plane, names: Sequence[str]) -> None:
    """Raises SchedulerFailed, with its last words, if one of these processes has ended."""
    for process in plane.processes():
        if process.name in names and not process.running:
            taken = any(_PORT_TAKEN in line for line in tail(process.log))
            raise (PortTaken if taken else SchedulerFailed)(f"{process.name} does not run: {process.why}")


def stop_programs(plane: Plane, names: Sequence[str]) -> None:
    """End these processes, those that run; what the control plane is itself goes on."""
    running = {process.name for process in plane.processes() if process.running}
    for name in names:
        if name in running:
            plane.stop(name)


def health_check(url: str) -> Callable[[], str | None]:
    """A look at a health endpoint: it must say 200."""

    def look() -> str | None:
        _, problem = fetch_url(url)
        return problem

    return look


def metrics_check(url: str, pattern: str, meaning: str) -> Callable[[], str | None]:
    """A look at metrics: a line must match. ``meaning``: what is missing as long as none does."""
    wanted = re.compile(pattern, re.MULTILINE)

    def look() -> str | None:
        text, problem = fetch_url(url)
        return problem or (None if wanted.search(text) else meaning)

    return look


class LogCounter:
    """Counts the lines of a log with some words in them, from now on."""

    def __init__(self, log: Path, words: str) -> None:
        self._log = log
        self._words = words.encode()
        self._at = log.stat().st_size if log.exists() else 0
        self._rest = b""
        self.count = 0

    def listen(self) -> int:
        """How many there are so far."""
        try:
            with open(self._log, "rb") as file:
                file.seek(self._at)
                news = file.read()
        except OSError:
            return self.count
        self._at += len(news)
        lines = (self._rest + news).split(b"\n")
        self._rest = lines.pop()  # it may be written in parts
        self.count += sum(self._words in line for line in lines)
        return self.count


def log_check(log: Path, words: str, meaning: str) -> Callable[[], str | None]:
    """A look at a log: words must be in what is written from now on. ``meaning``: what is missing as long as they aren't."""
    heard = LogCounter(log, words)
    return lambda: None if heard.listen() else meaning


def fetch_url(url: str) -> tuple[str, str | None]:
    """The text behind a local URL, and what went wrong. Certificates are the process's own, so they are not checked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # No proxy: these addresses are this machine's, and a proxy's localhost is another.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=LOOK_SECONDS) as answer:
            return answer.read().decode("utf-8", "replace"), None
    except urllib.error.HTTPError as error:
        told = error.read().decode("utf-8", "replace").strip().replace("\n", "; ")[:300]
        return "", f"{url} says {error.code} ({told})"
    except (OSError, ValueError) as error:
        return "", f"{url} does not answer ({error})"


# What all schedulers have in common that are local programs beside a plane.

_PORT_TRIES = 5


class LocalProcesses(SchedulerProcesses):
    """Its processes are those that ``names`` lists."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def check(self) -> None:
        check_programs(self._plane, self.names)

    def stop(self) -> None:
        stop_programs(self._plane, self.names)


class AddonProcesses(LocalProcesses):
    """One program, which ``kailab components get --with`` gets. ``name``: of the add-on, its program and the process."""

    name: ClassVar[str]

    @cached_property
    def _addon(self) -> Addon:
        """Raises MissingComponents where it was not got."""
        from kailab.components import find_addon

        return find_addon(self.name)

    @property
    def names(self) -> Sequence[str]:
        return (self.name,)

    def version(self) -> str:
        return f"{self.name} {self._addon.version}"


def on_free_ports(start: Callable[[], None]) -> None:
    """Call ``start`` until nobody takes a port from it; it is to choose its ports anew each time. Raises PortTaken after five tries, and what else
    it raises at once."""
    tenacity.Retrying(
        stop=tenacity.stop_after_attempt(_PORT_TRIES),
        retry=tenacity.retry_if_exception_type(PortTaken),
        reraise=True,
    )(start)


# Definitions of kinds that a scheduler under test brings, taken into use.


def install_definitions(cluster: Cluster, crds: Sequence[Object], who: str) -> None:
    """Done again it changes nothing. Raises SchedulerFailed where the API server does not take them."""
    for crd in crds:
        cluster.apply(crd)
    try:
        # Before anything creates or watches objects of these kinds: until then the API server does not serve them.
        await_established(cluster, [crd["metadata"]["name"] for crd in crds])
    except ConnectError as error:
        raise SchedulerFailed(f"the API server does not take the definitions of {who}: {error}") from None
