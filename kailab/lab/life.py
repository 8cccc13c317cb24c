"""Start and end labs that outlive the command that starts them. Each such lab has a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from kailab.cluster.backends import BACKENDS
from kailab.cluster.protocol import Object
from kailab.cluster.registry import FLAGS
from kailab.errors import InputError, KailabError, NoStateFile, StateError
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder
from kailab.fleet.fleet import Fleet
from kailab.lab import saved
from kailab.lab.lab import Lab
from kailab.lab.lab_files import DEFAULT_FILE
from kailab.lab.spec import LabSpec
from kailab.lab.venues import open_venue, provider_of
from kailab.lab.venues.contract import Place, ignore_message
from kailab.model.callbacks import Tell
from kailab.model.private_files import make_folder
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.registry import SCHEDULERS

# Options of the cluster. ``kailab up`` compares them with those of a lab that is up.
_OF_THE_CLUSTER = (
    "kubeconfig", "context", "components", "kubernetes", "operators",
    *(own.option for kind in SCHEDULERS.values() for own in kind.own),
)  # fmt: skip


def check_decides(backend: str, options: Mapping[str, Any]) -> None:
    """Raises InputError for options of kailab's scheduler on a backend that starts none, because the cluster is somebody else's."""
    given = [FLAGS[name] for name in ("config", "adopt_default_scheduler") if options.get(name)]
    if given and not BACKENDS[backend].starts_schedulers:
        raise InputError(
            f"{', '.join(given)}: a lab on the backend {backend} starts no scheduler, so the option has no effect; give it to "
            "`kailab scheduler run` (--scheduler-config, --scheduler-name)"
        )


def options_of_cluster(options: Mapping[str, Any]) -> dict[str, str]:
    """The given options of the cluster, in a text form that does not depend on the working folder."""
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
    tell: Tell = ignore_message,
    *,
    objects: Sequence[Object] = (),
) -> Lab:
    """Open a lab and write its file. ``objects``: to apply to it. ``options``: by the names of ``kailab.cluster.registry``; ``config`` is the file of ``settings``. If
    anything fails nothing is left. Raises KailabError."""
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
    with _ended_if_it_fails(state):

        def record(place: Place) -> None:
            # If this process is killed later, the file tells how to find the cluster.
            make_folder(state.parent)
            saved.write_saved_lab(state, saved.SavedLab(**structs.asdict(spec), place=place, starting=True))

        folder = (state.parent / backend).absolute()
        given = {name: options.get(name) for name in _OF_THE_CLUSTER}
        venue = open_venue(backend, scheduler=scheduler, folder=folder, get=True, tell=tell, record=record, **given)
        try:
            tell(f"creating the fleet {fleet.name}")
            venue.furnish(fleet, scheduler, settings, devices=spec.devices)
            spec = structs.replace(spec, opened=venue.cluster.now())
            venue.outlive(spec, options.get("config"), tell)
            if venue.place is not None:
                saved.write_saved_lab(state, saved.SavedLab(**structs.asdict(spec), place=venue.place))
            recorder = Recorder()
            lab = Lab(venue, spec, [recorder], end=venue.leave, described=fleet)
            if objects:
                lab.apply(list(objects))
            if venue.place is None:
                lab.settle()
                lab.save(state)
            LabRecord(state).begin(recorder)
            lab.observers.remove(recorder)  # later commands have recorders of their own
        except BaseException:
            venue.close()
            raise
        return lab


@contextmanager
def _ended_if_it_fails(state: Path) -> Iterator[None]:
    """If the start of a lab fails, end it. If ending fails too, the file stays, so that it can be tried again."""
    try:
        yield
    except BaseException:
        if state.exists():
            with suppress(KailabError):
                end(state)
        raise


def was_interrupted(state: Path) -> bool:
    """Whether the start of a lab was interrupted. The caller holds the lab's lock."""
    try:
        return saved.read_saved_lab(state).lab.starting
    except StateError:
        return False


def end(state: Path) -> None:
    """Take the lab of a file down, and remove the file. All its processes and files go; in somebody else's cluster, all objects with its
    mark. If the file is damaged, only the file is removed. Raises KailabError if something is left; then the file stays, so that it
    can be tried again. Raises NoStateFile for a file that is no lab's and not in the folder of ``DEFAULT_FILE``; it stays."""
    try:
        place = saved.read_saved_lab(state).lab.place
    except NoStateFile:
        if state.parent.name != DEFAULT_FILE.parent.name:
            raise NoStateFile(
                f"{state}: not a state file of kailab, or its beginning is damaged: it is not deleted; if it was a lab's, delete it yourself"
            ) from None
    except StateError:
        pass
    else:
        provider_of(place.backend).take_down(place)
    LabRecord(state).end()
    state.unlink(missing_ok=True)
