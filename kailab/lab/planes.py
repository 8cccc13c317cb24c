"""Homes for labs on a real API server, by backend: a control plane of our own, a kind cluster, or whatever a kubeconfig
names; and who decides in them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.backends import BACKENDS
from kailab.cluster.compatibility import check_options
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.errors import InputError
from kailab.lab.home import LiveHome
from kailab.lab.lastwill import LastWill
from kailab.lab.livepace import Rest
from kailab.scheduler import SchedulerSettings

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane
    from kailab.components import ComponentSet
    from kailab.undertest.kai_folder import KaiFolder

Tell = Callable[[str], None]

_ASKED = ("etcd", "kwok")
"""Programs of a plane that tell their version; the API server's is asked for over its API."""


def _silent(_: str) -> None:
    pass


class Processes:
    """Schedulers under test as processes beside a plane. ``programs``: the plane's. ``kai``: where a real KAI's binaries are, None: as the environment
    says."""

    def __init__(self, plane: ControlPlane, programs: ComponentSet, kai: KaiFolder | None = None) -> None:
        self._plane = plane
        self._programs = programs
        self._versions: dict[str, str] = {}
        self._kai = kai
        self._kube = False
        self._kai_settings: SchedulerSettings | None = None

    def prepare(self, cluster: KubernetesCluster, scheduler: str) -> None:
        if scheduler == "kai":
            from kailab.undertest import find_kai
            from kailab.undertest.kai import prepare

            self._kai = self._kai or find_kai()
            prepare(cluster, self._kai.crds)

    def ensure(self, cluster: KubernetesCluster, scheduler: str, settings: SchedulerSettings) -> None:
        from kailab import undertest

        if scheduler == "kube-scheduler":
            if not self._kube:
                undertest.start_kube_scheduler(self._plane)
                self._kube = True
            undertest.check_kube_scheduler(self._plane)
        if self._kai_settings is not None and (scheduler != "kai" or settings != self._kai_settings):
            if scheduler == "kube-scheduler":
                return  # they look at different pods
            undertest.stop_kai(self._plane)
            self._kai_settings = None
        if scheduler == "kai":
            if self._kai_settings is None:
                undertest.start_kai(self._plane, cluster, self._kai, config=settings)
                self._kai_settings = settings
            undertest.check_kai(self._plane)

    def versions(self, scheduler: str) -> dict[str, str]:
        own = {name: self._told(name) for name in _ASKED if name in self._plane.own}
        if scheduler == "kube-scheduler":
            return {**own, "scheduler": f"{scheduler} {self._told(scheduler)}"}
        if scheduler == "kai" and self._kai is not None:
            from kailab.undertest import kai_version

            return {**own, "scheduler": f"kai {kai_version(self._kai, self._plane.log('kai-scheduler'))}"}
        return own

    def _told(self, name: str) -> str:
        from kailab.components import WrongComponent
        from kailab.components.asking import told_version

        if name not in self._versions:
            try:
                self._versions[name] = told_version(name, self._programs.path(name))
            except WrongComponent as error:
                self._versions[name] = f"unknown ({error})"
        return self._versions[name]

    def rest(self, cluster: KubernetesCluster, scheduler: str) -> Rest | None:
        if scheduler != "kai":
            return None
        from kailab.undertest.kai_rest import KaiRest

        return KaiRest(self._plane, cluster)


def home_for(home: LiveHome | None, backend: str, kubeconfig: str | Path | None, context: str | None) -> LiveHome:
    """The home given, or a new one. Raises InputError where it is another than was asked for, and what ``open_home`` raises."""
    if home is None:
        return open_home(backend, kubeconfig=kubeconfig, context=context)
    if home.backend != backend:
        raise InputError(f"the home given is of the backend {home.backend}, not {backend}")
    if kubeconfig is not None or context is not None:
        raise InputError("a home knows its cluster: leave out kubeconfig and context, or the home")
    return home


def kubeconfig_of(given: str | Path | None) -> Path:
    """The kubeconfig that is meant: the one given, else as kubectl finds it."""
    return Path(given or os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config").expanduser()


def open_home(
    backend: str,
    *,
    folder: Path | None = None,
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    components: Path | None = None,
    kubernetes: str | None = None,
    kai: Path | None = None,
    kai_crds: Path | None = None,
    scheduler: str = "kailab",
    get: bool = False,
    tell: Tell = _silent,
) -> LiveHome:
    """A home of this backend, empty. ``folder``: where a plane keeps its files (None: a temporary one, and the plane ends with this
    process). ``components``: the folder of its programs, ``kubernetes``: their version. ``kai``, ``kai_crds``: see
    ``kailab.undertest.find_kai``; looked at now if it is the scheduler, so that a folder that is wrong is told before anything is
    started. ``get``: download or build programs that are missing, which may take many minutes. Raises ConnectError, InputError,
    and what the planes raise."""
    BACKENDS.check(backend)
    check_options(
        backend,
        None,
        {
            "kubeconfig": kubeconfig, "context": context, "components": components, "kubernetes": kubernetes, "kai": kai,
            "kai_crds": kai_crds,
        },
    )  # fmt: skip
    if backend == "kubeconfig":
        return LiveHome(backend, Connection.from_kubeconfig(kubeconfig_of(kubeconfig), context))
    found = None
    if scheduler == "kai" or kai is not None:
        from kailab.undertest import find_kai

        found = find_kai(kai, kai_crds)
    if backend == "kind":
        from kailab.cluster.kind import check_kind

        check_kind()  # before programs are got, which may take long
    programs = _programs(components, kubernetes, get, tell)
    if folder is not None:
        return _own(backend, folder, programs, found, tell)
    folder = Path(tempfile.mkdtemp(prefix="kailab-"))
    will = LastWill(folder, backend)
    try:
        return _own(backend, folder, programs, found, tell, will)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        will.close()
        raise


def _programs(folder: Path | None, kubernetes: str | None, get: bool, tell: Tell) -> ComponentSet:
    from kailab.components import find_components, get_components

    return get_components(kubernetes, folder, tell=tell) if get else find_components(kubernetes, folder)


def _own(
    backend: str, folder: Path, programs: ComponentSet, kai: KaiFolder | None, tell: Tell, will: LastWill | None = None
) -> LiveHome:
    plane: Any
    if backend == "kind":
        from kailab.cluster.kind import KindPlane

        plane = KindPlane.up(folder, components=programs, tell=tell)
    else:  # the last that there is: open_home has looked at the name
        from kailab.cluster.controlplane import ControlPlane

        plane = ControlPlane.up(folder, programs, tell=tell)
    try:
        return LiveHome(
            backend, Connection.from_kubeconfig(plane.kubeconfig), plane, Processes(plane, programs, kai), will=will
        )
    except BaseException:
        plane.down()
        raise
