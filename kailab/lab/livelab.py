"""A lab on a real API server that outlives the command that began it: its cluster goes on by itself, and a small file says
where it is.

The scheduler under test runs as a process beside the control plane, kailab's too. In a cluster of somebody else's, which has
no room for processes, whoever decides there decides; kailab's own can be run there with ``kailab scheduler run``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kailab.cluster.choices import FLAGS
from kailab.cluster.embedded.persistence import read_state, write_state
from kailab.cluster.kubernetes import Connection
from kailab.engine.config import EngineConfig
from kailab.errors import ConnectError, InputError, StateError
from kailab.evidence.decision_file import read_decisions
from kailab.fleet import Fleet
from kailab.lab import assembly
from kailab.lab.apart import SCHEDULER, SchedulerRest
from kailab.lab.home import LiveHome
from kailab.lab.lab import Lab
from kailab.lab.livepace import Rest
from kailab.lab.planes import kubeconfig_of, open_home
from kailab.model import typed
from kailab.scheduler import SchedulerSettings, UsageParams

_OF_THE_CLUSTER = ("kubeconfig", "context", "components", "kubernetes", "kai", "kai_crds")
DECISIONS = "decisions.json"
CONFIG = "scheduler.yaml"
Tell = Callable[[str], None]


class Place(msgspec.Struct, kw_only=True):
    """Where the cluster of a lab is. ``folder``: of its plane, empty for somebody else's cluster."""

    backend: str
    folder: str
    kubeconfig: str
    context: str | None
    mark: str

    @property
    def decisions(self) -> Path:
        return Path(self.folder) / DECISIONS


class About(msgspec.Struct, kw_only=True):
    """What a lab is, as its file has it. ``opened``: seconds since the epoch. ``options``: see ``told``."""

    fleet: str
    scheduler: str
    config: EngineConfig
    usage: UsageParams
    adopt_default_scheduler: bool
    opened: float
    place: Place
    options: dict[str, str] = {}
    devices: bool = False


def check_decides(backend: str, options: Mapping[str, Any]) -> None:
    """Raises InputError for what is meant for kailab's scheduler where a lab starts none: in a cluster of somebody else's."""
    given = [FLAGS[name] for name in ("config", "adopt_default_scheduler") if options.get(name)]
    if backend == "kubeconfig" and given:
        raise InputError(
            f"{', '.join(given)}: a lab on the backend kubeconfig starts no scheduler, so nobody would read it; give it to "
            "`kailab scheduler run` (--scheduler-config, --scheduler-name)"
        )


def told(options: Mapping[str, Any]) -> dict[str, str]:
    """What was given of what the cluster is made with, as text that is the same wherever it is given from."""
    given = {name: options.get(name) for name in _OF_THE_CLUSTER}
    return {
        name: str(value.expanduser().absolute()) if isinstance(value, Path) else str(value)
        for name, value in given.items()
        if value
    }


def begin(
    state: Path,
    fleet: Fleet,
    backend: str,
    scheduler: str,
    settings: SchedulerSettings,
    options: Mapping[str, Any],
    tell: Tell = lambda _: None,
) -> About:
    """Bring one up and write its file. ``options``: by the names of ``kailab.cluster.choices``; ``config`` is the file of
    ``settings``. If anything fails nothing is left. Raises KailabError."""
    folder = (state.parent / backend).absolute() if backend != "kubeconfig" else None
    given = {name: options.get(name) for name in _OF_THE_CLUSTER}
    home = open_home(backend, folder=folder, scheduler=scheduler, get=True, tell=tell, **given)
    try:
        tell(f"creating the fleet {fleet.name}")
        home.furnish(fleet, scheduler, settings, devices=bool(options.get("devices")))
        where = _plane(home).kubeconfig if home.plane is not None else kubeconfig_of(given["kubeconfig"]).absolute()
        place = Place(
            backend=backend, folder=str(folder or ""), kubeconfig=str(where), context=given["context"], mark=home.mark
        )
        about = About(
            fleet=fleet.name,
            scheduler=scheduler,
            config=settings.engine,
            usage=settings.usage,
            adopt_default_scheduler=bool(options.get("adopt_default_scheduler")),
            opened=home.cluster.now(),
            place=place,
            options=told(options),
            devices=bool(options.get("devices")),
        )
        if scheduler == "kailab" and home.plane is not None:
            tell("starting kailab's scheduler")
            _start_scheduler(home, about, options.get("config"))
        write(state, about)
    except BaseException:
        home.close()
        raise
    home.leave()
    return about


def _plane(home: LiveHome) -> Any:
    assert home.plane is not None
    return home.plane


def scheduler_command(
    kubeconfig: Path,
    *,
    names: Sequence[str] = (),
    no_election: bool = False,
    decisions: Path | None = None,
    config: Path | None = None,
) -> list[str]:
    """How kailab's scheduler is run as a process."""
    command = [sys.executable, "-m", "kailab", "scheduler", "run", "--kubeconfig", str(kubeconfig)]
    command += [part for name in names for part in ("--scheduler-name", name)]
    command += ["--no-leader-elect"] if no_election else []
    command += ["--decisions", str(decisions)] if decisions is not None else []
    command += ["--scheduler-config", str(config)] if config is not None else []
    return command


def _start_scheduler(home: LiveHome, about: About, config: Path | None) -> None:
    plane = _plane(home)
    names = [assembly.SCHEDULER_NAMES["kailab"]]
    if about.adopt_default_scheduler:
        names.append(assembly.SCHEDULER_NAMES["kube-scheduler"])
    if config is not None:
        # A copy: the user's file may change or go while the lab is up.
        kept = Path(about.place.folder) / CONFIG
        kept.write_bytes(config.read_bytes())
        config = kept
    command = scheduler_command(
        plane.kubeconfig, names=names, no_election=True, decisions=about.place.decisions, config=config
    )
    plane.spawn(SCHEDULER, command)


def write(state: Path, about: About) -> None:
    """Raises StateError."""
    write_state(state, {"live": msgspec.to_builtins(about)})


def read(state: Path) -> About | None:
    """What a state file says of a lab on a real API server; None if it holds an embedded one. Raises StateError."""
    content = read_state(state)
    return about_of(state, content) if "live" in content else None


def about_of(state: Path, content: Mapping[str, Any]) -> About:
    """What was read from the file ``state`` of a lab on a real API server. Raises StateError."""
    try:
        return typed.convert(content["live"], About)
    except msgspec.ValidationError as error:
        raise StateError(f"{state}: damaged: {error}; start afresh with `kailab down` and `kailab up`") from error


def resume(about: About, recorder: Any = None) -> Lab:
    """The lab, to look at and to work with; it goes on by itself meanwhile. Raises ConnectError where its cluster does not
    answer, with what has become of its processes."""
    place = about.place
    try:
        home = LiveHome(place.backend, Connection.from_kubeconfig(place.kubeconfig, place.context), mark=place.mark)
    except ConnectError as error:
        raise ConnectError(f"{error}{_what_happened(place)}") from None
    return Lab(
        home.cluster,
        about.fleet,
        about.scheduler,
        about.config,
        recorder,
        about.opened,
        about.usage,
        about.adopt_default_scheduler,
        at_end=home.leave,
        apart=True,
        rest=_rest(about, home),
        decided=_decided(about),
        devices=about.devices,
    )


def _rest(about: About, home: LiveHome) -> Rest | None:
    if not about.place.folder:
        return None
    if about.scheduler == "kai":
        from kailab.undertest.kai.rest import KaiRest

        return KaiRest(attach(about.place), home.cluster)
    return SchedulerRest(attach(about.place)) if about.scheduler == "kailab" else None


def _decided(about: About) -> Callable[[], Any] | None:
    """A reader of what kailab's scheduler decided, where it runs beside the lab."""
    if about.scheduler != "kailab" or not about.place.folder:
        return None

    def read_them() -> Any:
        try:
            return read_decisions(about.place.decisions)
        except StateError:
            return None  # it has not been through a cycle yet

    return read_them


def processes(about: About) -> list[Any]:
    """The processes of the lab: name, running, why it does not."""
    if not about.place.folder:
        return []
    return list(attach(about.place).processes())


def attach(place: Place) -> Any:
    """The plane of a lab. Raises StateError."""
    if place.backend == "kind":
        from kailab.cluster.kind import KindPlane

        return KindPlane.attach(Path(place.folder))
    from kailab.cluster.controlplane import ControlPlane

    return ControlPlane.attach(Path(place.folder))


def _what_happened(place: Place) -> str:
    if not place.folder:
        return ""
    try:
        dead = [one for one in attach(place).processes() if not one.running]
    except StateError as error:
        return f"\n{error}"
    return "".join(f"\n{one.name} does not run: {one.why}" for one in dead)


def end(state: Path, about: About) -> None:
    """Take it down: all its processes and files, or in somebody else's cluster all that carries its mark. Raises KailabError;
    then the state file stays, so that it can be tried again."""
    place = about.place
    if place.folder:
        if Path(place.folder).exists():
            attach(place).down()
    else:
        home = LiveHome(place.backend, Connection.from_kubeconfig(place.kubeconfig, place.context), mark=place.mark)
        try:
            home.vacate()
        finally:
            home.leave()
    state.unlink(missing_ok=True)
