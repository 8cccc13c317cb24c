"""The folder of a cluster: the record in it, its creation and removal. A control plane's folder has a mark from its first moment on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Self

import msgspec

from kailab.cluster.controlplane.supervision import Supervision, mark_of, processes_of
from kailab.cluster.processes import find_process, this_process
from kailab.errors import StateError, os_errors_as
from kailab.model import decoding
from kailab.model.private_files import make_folder, open_private, replace_file

FILE = "controlplane.json"
FORMAT = 1
LEAST_FREE_BYTES = 400_000_000
"""etcd reserves 128 MB at once; logs and objects are added."""


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster on disk. ``starter``: id and start time of the process that makes it; ``ready``: it is complete. ``file``: its name in
    the folder; ``noun``: the cluster in messages."""

    file: ClassVar[str]
    noun: ClassVar[str]

    starter: tuple[int, float] = (0, 0.0)
    ready: bool = False
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None: no cluster is there. Raises StateError for a damaged record or one of another version."""
        path = folder / cls.file
        try:
            known = decoding.decode_json(path.read_bytes(), cls)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise StateError(f"{path}: the {cls.noun} can't be read: {error}") from error
        known.check_format(folder)
        return known

    @classmethod
    def existing(cls, folder: Path) -> Self:
        """As ``read_cluster_folder``. Raises StateError if no cluster is there."""
        known = cls.read(folder)
        if known is None:
            raise StateError(f"{folder}: no {cls.noun} is here")
        return known

    @classmethod
    def complete(cls, folder: Path) -> Self | None:
        """As ``read_cluster_folder``. Raises StateError for a cluster whose start was interrupted."""
        known = cls.read(folder)
        if known is not None and not known.ready:
            raise StateError(f"{folder}: {known.interrupted}")
        return known

    @classmethod
    def unfinished(cls, folder: Path) -> Self | None:
        """The cluster that an interrupted start left in a folder. Raises StateError if a complete one is there, or is being made."""
        known = cls.read(folder)
        if known is not None:
            known.refuse_if_used(folder)
        return known

    @property
    def interrupted(self) -> str:
        return f"the start of a {self.noun} was interrupted here; take it down, or start it again"

    @property
    def is_starting(self) -> bool:
        """True if the process that began the start is still there."""
        return find_process(*self.starter) is not None

    def check_format(self, folder: Path) -> None:
        """Raises StateError."""
        if self.format != FORMAT:
            raise StateError(f"{folder}: a {self.noun} in format {self.format}; this kailab knows format {FORMAT}")

    def refuse_if_used(self, folder: Path, doing: str = "made") -> None:
        """Raises StateError if the cluster is complete, or is being made."""
        if self.ready:
            raise StateError(f"{folder}: a {self.noun} is here already; end it first, or choose another folder")
        if self.is_starting:
            raise StateError(f"{folder}: a {self.noun} is being {doing} here by process {self.starter[0]}")

    def write(self, folder: Path) -> None:
        replace_file(folder / self.file, msgspec.json.encode(self))

    def with_starter(self) -> Self:
        """The record with this process as the starter."""
        return msgspec.structs.replace(self, starter=this_process())

    def as_ready(self) -> Self:
        """The record of a cluster that has started."""
        # The process id may soon belong to another process.
        return msgspec.structs.replace(self, ready=True, starter=(0, 0.0))


class ControlPlaneRecord(ClusterRecord, frozen=True, kw_only=True):
    """A control plane on disk. ``ports``: by purpose; ``binaries``: by program; ``created``: seconds since the epoch."""

    file: ClassVar[str] = FILE
    noun: ClassVar[str] = "control plane"

    kubernetes: str = ""
    ports: dict[str, int] = {}
    binaries: dict[str, str] = {}
    created: float = 0.0


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
        read_cluster_folder(folder).refuse_if_used(folder, "started")
        remove(folder)
    make_cluster_folder(folder, "a control plane", _begin)
    return folder


def make_cluster_folder(folder: Path, what: str, begin: Callable[[Path], None] = lambda _: None) -> None:
    """Prepare a folder for one cluster of its own. ``what``: the cluster in messages; ``begin``: runs first in the
    folder. Raises StateError if the folder is in use or can't be used."""
    # If somebody removed only the folder, its processes still run and hold memory.
    Supervision(folder).end_all()
    with os_errors_as(StateError, f"{folder}: can't be the folder of {what}"):
        make_folder(folder)
        strange = sorted(path.name for path in folder.iterdir())
        if strange:
            raise StateError(f"{folder}: not empty ({', '.join(strange[:3])} ...); {what} needs a folder of its own")
        folder.chmod(0o700)
        begin(folder)


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
    begun = ControlPlaneRecord(starter=this_process(), created=time.time())
    try:
        # Exclusive creation decides between two processes that begin at once.
        with open_private(folder / FILE, "xb") as file:
            file.write(msgspec.json.encode(begun))
    except FileExistsError:
        raise StateError(f"{folder}: another process is starting a control plane here") from None


def read_cluster_folder(folder: Path) -> ControlPlaneRecord:
    """Raises StateError if no control plane is there, or its record is damaged or of another version."""
    try:
        known = decoding.decode_json((folder / FILE).read_bytes(), ControlPlaneRecord)
    except FileNotFoundError:
        raise StateError(f"{folder}: no control plane is here") from None
    except OSError as error:
        raise StateError(f"{folder}: the control plane can't be read: {error.strerror or error}") from error
    except msgspec.MsgspecError:
        # Also the mark of a start that got no further.
        return ControlPlaneRecord()
    known.check_format(folder)
    return known


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
