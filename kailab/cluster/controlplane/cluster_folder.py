"""The folder of a control plane: its mark and record, its creation and removal."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kailab.cluster.controlplane.credentials import write_private
from kailab.cluster.controlplane.supervision import Supervision, mark_of, processes_of
from kailab.cluster.processes import find_process, this_process
from kailab.errors import StateError
from kailab.model import decoding
from kailab.model.private_files import make_folder, open_file

FILE = "controlplane.json"
FORMAT = 1
LEAST_FREE_BYTES = 400_000_000
"""etcd reserves 128 MB at once; logs and objects are added."""


class ControlPlaneRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A control plane on disk. ``ports``: by purpose; ``binaries``: by program; ``starter``: id and start time of the
    process that starts it; ``created``: seconds since the epoch; ``ready``: the start is complete."""

    kubernetes: str
    ports: dict[str, int]
    binaries: dict[str, str]
    starter: tuple[int, float]
    created: float
    ready: bool = False
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        write_private(folder / FILE, msgspec.json.encode(self))

    def done(self) -> ControlPlaneRecord:
        return msgspec.structs.replace(self, ready=True)


def resolve_folder(folder: Path) -> Path:
    """The folder's resolved path, which marks its processes. Raises StateError."""
    try:
        return folder.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise StateError(f"{folder}: can't be the folder of a cluster: {error}") from error


def claim_folder(folder: Path) -> Path:
    """Prepare a folder for a new control plane. Raises StateError if it is in use or can't be used."""
    folder = resolve_folder(folder)
    if (folder / FILE).exists():
        known = read(folder)
        if known.ready:
            raise StateError(f"{folder}: a control plane is here already; end it first, or choose another folder")
        if _starts(known):
            raise StateError(describe_unfinished(folder, known))
        remove(folder)
    make_cluster_folder(folder, "a control plane", _begin)
    return folder


def make_cluster_folder(folder: Path, what: str, begin: Callable[[Path], None] = lambda _: None) -> None:
    """Prepare a folder for one cluster of its own. ``what``: the cluster in messages; ``begin``: runs first in the
    folder. Raises StateError if the folder is in use or can't be used."""
    # If somebody removed only the folder, its processes still run and hold memory.
    Supervision(folder).end_all()
    try:
        make_folder(folder)
        strange = sorted(path.name for path in folder.iterdir())
        if strange:
            raise StateError(f"{folder}: not empty ({', '.join(strange[:3])} ...); {what} needs a folder of its own")
        folder.chmod(0o700)
        begin(folder)
    except OSError as error:
        raise StateError(f"{folder}: can't be the folder of {what}: {error.strerror or error}") from error


def _begin(folder: Path) -> None:
    # Before anything else: a folder with the mark is ours, and may be removed again.
    _mark(folder)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        remove(folder)
        raise StateError(
            f"{folder}: {free // 10**6} MB are free there; a control plane needs {LEAST_FREE_BYTES // 10**6} MB"
        )


def _mark(folder: Path) -> None:
    """Mark the folder, so that nobody else can begin here."""
    begun = ControlPlaneRecord(kubernetes="", ports={}, binaries={}, starter=this_process(), created=time.time())
    try:
        # Exclusive creation decides between two processes that begin at once.
        with open_file(folder / FILE, "xb") as file:
            file.write(msgspec.json.encode(begun))
    except FileExistsError:
        raise StateError(f"{folder}: another process is starting a control plane here") from None


def read(folder: Path) -> ControlPlaneRecord:
    """Raises StateError if no control plane is there, or its record is damaged or of another version."""
    try:
        known = decoding.decode_json((folder / FILE).read_bytes(), ControlPlaneRecord)
    except FileNotFoundError:
        raise StateError(f"{folder}: no control plane is here") from None
    except OSError as error:
        raise StateError(f"{folder}: the control plane can't be read: {error.strerror or error}") from error
    except msgspec.MsgspecError:
        # Also the mark of a start that got no further.
        return ControlPlaneRecord(kubernetes="", ports={}, binaries={}, starter=(0, 0.0), created=0.0)
    if known.format != FORMAT:
        raise StateError(f"{folder}: a control plane in format {known.format}; this kailab knows format {FORMAT}")
    return known


def describe_unfinished(folder: Path, known: ControlPlaneRecord) -> str:
    if _starts(known):
        return f"{folder}: a control plane is being started here by process {known.starter[0]}"
    return f"{folder}: the start of a control plane was interrupted here; take it down, or start it again"


def clear(folder: Path) -> None:
    """Remove all processes and data; keep the mark."""
    Supervision(folder).end_all()
    for path in folder.iterdir():
        if path.name != FILE:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def remove(folder: Path) -> None:
    """End everything that belongs to the folder, and remove it. Raises StateError if it holds something other than a
    control plane."""
    supervision = Supervision(folder)
    if not (folder / FILE).exists():
        # The mark or the whole folder was removed: processes that still run belong to the control plane.
        if processes_of(folder):
            supervision.end_all()
        elif folder.exists() and any(folder.iterdir()):
            raise StateError(f"{folder}: no control plane is here; nothing was removed")
        return
    supervision.end_all()
    try:
        # The mark goes last, so that what can't be removed now can be removed later.
        clear(folder)
        (folder / FILE).unlink()
        folder.rmdir()
    except OSError as error:
        raise StateError(f"{folder}: can't be removed: {error.filename or ''} {error.strerror or error}") from error


def running() -> list[Path]:
    """The folders of all control planes of this user with processes on this machine."""
    marks = {mark_of(process) for process in processes_of(None)}
    return sorted(Path(mark) for mark in marks if mark)


def _starts(known: ControlPlaneRecord) -> bool:
    """True if the process that began the start is still there."""
    return find_process(*known.starter) is not None
