"""Homes for labs on a real API server, by backend: a control plane of our own, a kind cluster, or whatever a kubeconfig
names; and who decides in them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.backends import BACKENDS
from kailab.cluster.kubernetes import Connection
from kailab.errors import InputError
from kailab.lab.home import LiveHome
from kailab.lab.lastwill import LastWill
from kailab.undertest.compatibility import check_options
from kailab.undertest.processes import Processes
from kailab.undertest.registry import SCHEDULERS, chosen

if TYPE_CHECKING:
    from kailab.components import ComponentSet

Tell = Callable[[str], None]


def _silent(_: str) -> None:
    pass


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
    ``kailab.undertest.kai.folder``; looked at now if it is the scheduler, so that a folder that is wrong is told before anything is
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
    said = {"kai": kai, "kai_crds": kai_crds}
    for name in {
        scheduler,
        *(name for name in SCHEDULERS if any(said.get(own) for own in SCHEDULERS[name].own.values())),
    }:
        chosen(name, said).check_options()
    if backend == "kind":
        from kailab.cluster.kind import check_kind

        check_kind()  # before programs are got, which may take long
    programs = _programs(components, kubernetes, get, tell)
    if folder is not None:
        return _own(backend, folder, programs, said, tell)
    folder = Path(tempfile.mkdtemp(prefix="kailab-"))
    will = LastWill(folder, backend)
    try:
        return _own(backend, folder, programs, said, tell, will)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        will.close()
        raise


def _programs(folder: Path | None, kubernetes: str | None, get: bool, tell: Tell) -> ComponentSet:
    from kailab.components import find_components, get_components

    return get_components(kubernetes, folder, tell=tell) if get else find_components(kubernetes, folder)


def _own(
    backend: str,
    folder: Path,
    programs: ComponentSet,
    said: Mapping[str, Any],
    tell: Tell,
    will: LastWill | None = None,
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
            backend, Connection.from_kubeconfig(plane.kubeconfig), plane, Processes(plane, programs, said), will=will
        )
    except BaseException:
        plane.down()
        raise
