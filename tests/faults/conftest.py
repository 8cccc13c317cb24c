"""One real control plane for all faults, made clean for each test; schedulers as processes beside it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import pytest
import tenacity

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.install import install
from kailab.components import ComponentSet
from kailab.fleet.fleet import Fleet
from tests.faults import oracle, work
from tests.faults.api import Api, Obj, Refused, patiently
from tests.faults.proxy import Fault, Proxy
from tests.planes import connected, taken_down

KAILAB = ("-m", "kailab")
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
PATIENCE_SECONDS = 600.0
QUIET_SECONDS = 2.0
LOOK_SECONDS = 0.5


class Candidate:
    """A scheduler as a process of the control plane. ``program``: what Python runs."""

    def __init__(
        self, plane: ControlPlane, name: str, kubeconfig: Path, *options: str, program: Sequence[str] = KAILAB
    ) -> None:
        self.name = name
        self._plane = plane
        argv = [sys.executable, *program, "scheduler", "run", "--kubeconfig", kubeconfig, *options]
        self.pid = plane.spawn(name, argv).pid

    @property
    def running(self) -> bool:
        return any(one.name == self.name and one.running and one.pid == self.pid for one in self._plane.processes())

    @property
    def said(self) -> str:
        return self._plane.log(self.name).read_text()

    def signal(self, number: int) -> None:
        self._plane.kill(self.name, number)

    def freeze(self) -> None:
        """SIGSTOP, and wait until none of its threads runs any more."""
        self.signal(signal.SIGSTOP)
        threads = [psutil.Process(thread.id) for thread in psutil.Process(self.pid).threads()]
        _until(lambda: all(thread.status() == psutil.STATUS_STOPPED for thread in threads))

    def crash(self) -> None:
        """SIGKILL, and wait for its end."""
        self.signal(signal.SIGKILL)
        _until(lambda: not self.running)

    def again(self) -> None:
        """Start it anew after a crash."""
        self._plane.restart(self.name)
        self.pid = next(one.pid for one in self._plane.processes() if one.name == self.name)

    def end(self) -> None:
        if self.running:
            self.signal(signal.SIGCONT)
            self._plane.stop(self.name)


def _until(holds: Callable[[], object]) -> None:
    tenacity.Retrying(
        wait=tenacity.wait_fixed(0.05),
        stop=tenacity.stop_after_delay(PATIENCE_SECONDS),
        retry=tenacity.retry_if_result(lambda result: not result),
    )(holds)


class Field:
    """Where a test plays: the control plane, the plain API, candidates and proxies, and what the oracle has seen."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.api = Api(plane)
        self.candidates: list[Candidate] = []
        self.proxies: list[Proxy] = []
        self._folder = folder

    # --- what plays --------------------------------------------------------------------------------------------------

    def scheduler(
        self,
        *options: str,
        kubeconfig: Path | None = None,
        elected: bool = False,
        program: Sequence[str] = KAILAB,
    ) -> Candidate:
        name = f"candidate-{len(self.candidates)}"
        if not elected:
            options = ("--no-leader-elect", *options)
        made = Candidate(self.plane, name, kubeconfig or self.plane.kubeconfig, *options, program=program)
        self.candidates.append(made)
        return made

    def proxy(self, *faults: Fault, seed: int = 0) -> Proxy:
        folder = self._folder / f"proxy-{len(self.proxies)}"
        folder.mkdir()
        made = Proxy(self.plane.folder, self.plane.server, folder, seed, faults)
        self.proxies.append(made)
        return made

    def fleet(self, fleet: Fleet) -> None:
        """Have the nodes of a fleet, all ready, and no others."""
        wanted = {node["metadata"]["name"]: node for node in fleet.nodes()}
        for name, node in {one["metadata"]["name"]: one for one in self.api.list("Node")}.items():
            if name not in wanted or _taints(node) != _taints(wanted[name]):
                self.api.delete("Node", name)
        there = {node["metadata"]["name"] for node in self.api.list("Node")}
        self.api.create(*(node for name, node in wanted.items() if name not in there))
        _until(lambda: all(_is_ready(node) for node in self.api.list("Node")))

    def clear(self) -> None:
        for one in self.candidates:
            one.end()
        for proxy in self.proxies:
            proxy.close()
        self.candidates, self.proxies = [], []
        self.plane.check(PROGRAMS)

        def empty() -> bool:
            for attempt in patiently():
                with attempt:
                    for kind in ("Deployment", "Job", "ReplicaSet"):
                        self.api.delete_all(kind)
                    self.api.delete_all("Pod", gracePeriodSeconds=0)
                    self.api.delete_all("Pod", oracle.RESERVATIONS, gracePeriodSeconds=0)
                    self.api.delete_all("ResourceClaim")
                    self.api.delete_all("PodGroup")
                    self.api.delete_all("Queue")
                    self.api.delete_all("Lease", "kai-scheduler")
                    kinds = ("PodGroup", "Job", "ResourceClaim")
                    return not (self.api.all_pods() or any(map(self.api.list, kinds)))
            return False

        _until(empty)

    # --- what is seen ------------------------------------------------------------------------------------------------

    def look(self) -> oracle.Picture:
        """A look at all; no GPU is ever given twice."""
        picture = oracle.look(self.api)
        assert oracle.given_twice(picture) == []
        return picture

    def create(self, *objects: Obj) -> None:
        for obj in objects:
            for attempt in patiently():
                with attempt:
                    try:
                        self.api.create(obj)
                    except Refused as error:
                        if error.code != 409:  # an earlier try made it
                            raise

    def looks(self, seconds: float) -> None:
        """Look again and again for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(LOOK_SECONDS)

    def until(self, holds: Callable[[oracle.Picture], bool], what: str) -> oracle.Picture:
        """Look until something holds. Fails only if it does not in the time that anything here could need."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds(picture := self.look()):
            assert time.monotonic() < end, f"not in {PATIENCE_SECONDS:g} s: {what}\n{self._told()}"
            time.sleep(LOOK_SECONDS)
        return picture

    def settled(self, owed: Mapping[str, int], full: int, quiet: float = QUIET_SECONDS) -> oracle.Picture:
        """Look until all that fits runs and no gang is half bound, and see that it stays so."""
        end = time.monotonic() + PATIENCE_SECONDS
        quiet_since: float | None = None
        while True:
            picture = self.look()
            wrong = oracle.missing(picture, owed, full) + oracle.half_bound(picture)
            now = time.monotonic()
            quiet_since = None if wrong else quiet_since or now
            if quiet_since is not None and now - quiet_since > quiet:
                return picture
            assert now < end, "\n".join([*wrong, self._told()])
            time.sleep(LOOK_SECONDS)

    def _told(self) -> str:
        return "\n".join(f"{one.name}: ...{one.said[-3000:]}" for one in self.candidates)

    def nobody_restarted(self) -> None:
        """Every scheduler is the process that it was."""
        assert [one.name for one in self.candidates if not one.running] == []


def _taints(node: Obj) -> list[tuple[str, str]]:
    return sorted((taint["key"], taint["effect"]) for taint in node["spec"].get("taints") or ())


def _is_ready(node: Obj) -> bool:
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions") or ())
    return ready and not any(
        taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints") or ()
    )


@pytest.fixture(scope="session")
def plane(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with taken_down(ControlPlane.up(tmp_path_factory.mktemp("faults") / "plane", components)) as made:
        with connected(made.kubeconfig) as cluster:
            install(cluster)
        yield made


@pytest.fixture
def field(plane: ControlPlane, tmp_path: Path) -> Iterator[Field]:
    """With the lesson fleet."""
    made = Field(plane, tmp_path)
    made.fleet(work.lesson())
    yield made
    made.clear()
