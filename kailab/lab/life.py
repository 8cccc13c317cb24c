"""A lab that outlives the command that began it: begun with its file, and ended."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from kailab.cluster.backends import BACKENDS
from kailab.cluster.choices import FLAGS
from kailab.errors import InputError, KailabError, StateError
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder
from kailab.fleet import Fleet
from kailab.lab import saved
from kailab.lab.lab import Lab
from kailab.lab.spec import LabSpec
from kailab.lab.venues import open_venue, provider_of
from kailab.lab.venues.contract import Place, Tell, silent
from kailab.model.private_files import make_folder
from kailab.scheduler import SchedulerSettings
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.registry import SCHEDULERS

# With another of these it would be another cluster: ``up`` compares them with those of a lab that is up.
_OF_THE_CLUSTER = (
    "kubeconfig", "context", "components", "kubernetes", "operators",
    *(own.option for kind in SCHEDULERS.values() for own in kind.own),
)  # fmt: skip


def check_decides(backend: str, options: Mapping[str, Any]) -> None:
    """Raises InputError for what is meant for kailab's scheduler where a lab starts none: in a cluster of somebody else's."""
    given = [FLAGS[name] for name in ("config", "adopt_default_scheduler") if options.get(name)]
    if given and not BACKENDS[backend].starts_schedulers:
        raise InputError(
            f"{', '.join(given)}: a lab on the backend {backend} starts no scheduler, so nobody would read it; give it to "
            "`kailab scheduler run` (--scheduler-config, --scheduler-name)"
        )


def options_of_cluster(options: Mapping[str, Any]) -> dict[str, str]:
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
    scheduler: SchedulerUnderTest,
    settings: SchedulerSettings,
    options: Mapping[str, Any],
    tell: Tell = silent,
) -> Lab:
    """Bring one up and write its file. ``options``: by the names of ``kailab.cluster.choices``; ``config`` is the file of
    ``settings``. If anything fails nothing is left. Raises KailabError."""
    spec = LabSpec(
        fleet=fleet.name,
        scheduler=scheduler.name,
        kind=scheduler.kind,
        config=settings.engine,
        usage=settings.usage,
        adopt_default_scheduler=bool(options.get("adopt_default_scheduler")),
        opened=0.0,
        options=options_of_cluster(options),
        devices=bool(options.get("devices")),
    )
    try:
        return _begun(state, spec, fleet, backend, scheduler, settings, options, tell)
    except BaseException:
        # What could not be ended keeps the file, so that it can be tried again.
        if state.exists():
            with suppress(KailabError):
                end(state)
        raise


def _begun(
    state: Path,
    spec: LabSpec,
    fleet: Fleet,
    backend: str,
    scheduler: SchedulerUnderTest,
    settings: SchedulerSettings,
    options: Mapping[str, Any],
    tell: Tell,
) -> Lab:
    def record(place: Place) -> None:
        # A kill at any later moment leaves a file by which all that is there of a cluster elsewhere is found again.
        make_folder(state.parent)
        saved.write(state, saved.SavedLab(**structs.asdict(spec), place=place, starting=True))

    folder = (state.parent / backend).absolute()
    given = {name: options.get(name) for name in _OF_THE_CLUSTER}
    venue = open_venue(backend, scheduler=scheduler, folder=folder, get=True, tell=tell, record=record, **given)
    try:
        tell(f"creating the fleet {fleet.name}")
        venue.furnish(fleet, scheduler, settings, devices=spec.devices)
        spec = structs.replace(spec, opened=venue.cluster.now())
        venue.outlive(spec, options.get("config"), tell)
        if venue.place is not None:
            saved.write(state, saved.SavedLab(**structs.asdict(spec), place=venue.place))
        recorder = Recorder()
        lab = Lab(venue, spec, [recorder], end=venue.leave, described=fleet)
        if venue.place is None:
            lab.settle()
            lab.save(state)
        LabRecord(state).begin(recorder)
        lab.observers.remove(recorder)  # the commands that act on the lab record on
    except BaseException:
        venue.close()
        raise
    return lab


def cut_short(state: Path) -> bool:
    """Whether the start of a lab ended before it was done, as whoever holds its lock sees it."""
    try:
        return saved.read(state).lab.starting
    except StateError:
        return False


def end(state: Path) -> None:
    """Take the lab of a file down, and remove the file: all its processes and files, or in somebody else's cluster all that carries
    its mark. One that can't be read is only removed. Raises KailabError where something is left; then the file stays, so
    that it can be tried again."""
    try:
        place = saved.read(state).lab.place
    except StateError:
        pass
    else:
        provider_of(place.backend).take_down(place)
    LabRecord(state).end()
    state.unlink(missing_ok=True)
