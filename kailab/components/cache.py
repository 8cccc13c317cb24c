"""The cache of programs: where each is, how it was acquired, and its checksum.

``<cache>/kubernetes/v1.35.4/kube-apiserver`` is a program; beside it is one manifest for each version. Files are
renamed into place, so that a program is there completely or not at all. A lock keeps two processes from acquiring the
same program.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import tenacity

from kailab.components.errors import DamagedComponent
from kailab.components.pins import ADDONS, Pin, for_nodes, this_machine
from kailab.errors import StateError, os_errors_as
from kailab.model import decoding
from kailab.model.private_files import replacing

MANIFEST = "manifest.json"
_LOCK = ".lock"
_LOCK_SECONDS = 7200.0  # as long as builds of other processes may take
_LOCK_POLL_SECONDS = 0.2


class CacheEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded of a program. ``how``: ``downloaded``, ``built`` or ``adopted``; ``source``: from where;
    ``machine``: the machine it is for; ``since``: when it was put in, UTC; ``seen``: size, inode, and times of change
    in ns when its checksum was last verified."""

    version: str
    sha256: str
    how: str
    source: str
    machine: str
    since: str
    seen: tuple[int, int, int, int] = (0, 0, 0, 0)


class ComponentCache:
    """Programs of pinned versions. ``root``: None for the user's own, by the XDG specification."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or _user_cache()

    def folder(self, pin: Pin) -> Path:
        return self.root / pin.project / pin.version

    def path(self, pin: Pin) -> Path:
        return self.folder(pin) / pin.name

    def entry(self, pin: Pin) -> CacheEntry | None:
        """None: it is not here, or for another kind of machine."""
        entry = self._manifest(pin).get(pin.name)
        if entry is None or entry.machine != str(this_machine()) or not self.path(pin).is_file():
            return None
        return entry

    def checked(self, pin: Pin, *, anew: bool = False) -> Path | None:
        """The program with a verified checksum; None if it is not here. Raises DamagedComponent.

        The checksum is computed again if the file changed in any way since it was verified, or always with ``anew``.
        """
        entry, path = self.entry(pin), self.path(pin)
        if entry is None:
            return None
        try:
            seen = _seen(path)
            # Hundreds of megabytes are not read again for each lab. ``seen`` has the ctime, which no program can set
            # back.
            if seen == entry.seen and not anew:
                return path
            checksum = sha256_of(path)
        except OSError as error:
            raise DamagedComponent(f"{path}: can't be read: {error.strerror or error}; {_cure(pin)}") from error
        if checksum != entry.sha256:
            raise DamagedComponent(
                f"{path}: its sha256 is {checksum}, but {entry.sha256} was {entry.how}; it will not be run; {_cure(pin)}"
            )
        if seen != entry.seen:
            # Only a note that saves time: a read-only cache works, too.
            with contextlib.suppress(OSError):
                self._note(pin, msgspec.structs.replace(entry, seen=seen))
        return path

    def put(self, pin: Pin, file: Path, how: str, source: str) -> Path:
        """Move a file in (copied if it is on another disk). Raises StateError if the cache can't be written."""
        path = self.path(pin)
        with os_errors_as(StateError, f"{path}: can't be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Under another name first: a move from another disk copies, and a partial copy must not pass for the
            # program.
            arriving = path.with_name(f".{pin.name}.{os.getpid()}.arriving")
            shutil.move(file, arriving)
            arriving.chmod(0o755)
            entry = CacheEntry(
                version=pin.version,
                sha256=sha256_of(arriving),
                how=how,
                source=source,
                machine=str(this_machine()),
                since=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            )
            # Before the record: a process killed in between leaves a file that does not match its checksum and is
            # acquired again.
            os.replace(arriving, path)
            self._note(pin, msgspec.structs.replace(entry, seen=_seen(path)))
        return path

    def clear_remains(self, pin: Pin) -> None:
        """Remove what killed processes left of their work on a program, except a partial download, which is continued.
        The caller holds the lock."""
        for path in self.folder(pin).glob(f".{pin.name}.*"):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, pin: Pin, tell: Callable[[str], None]) -> Iterator[None]:
        """Exclude other processes from the programs of this project and version. Raises StateError if they take too
        long."""
        with exclusive_folder(self.folder(pin), f"{pin.project} {pin.version}", tell):
            yield

    def _manifest(self, pin: Pin) -> dict[str, CacheEntry]:
        """A damaged one counts as empty: its programs must be acquired again."""
        try:
            return decoding.decode_json((self.folder(pin) / MANIFEST).read_bytes(), dict[str, CacheEntry])
        except (OSError, msgspec.MsgspecError):
            return {}

    def _note(self, pin: Pin, entry: CacheEntry) -> None:
        path = self.folder(pin) / MANIFEST
        # Held for a moment only; the other lock may be held for minutes, while another program of this version is
        # acquired.
        with open(path.with_name(f".{MANIFEST}.lock"), "a") as alone:
            fcntl.flock(alone.fileno(), fcntl.LOCK_EX)
            manifest = self._manifest(pin)
            manifest[pin.name] = entry
            with replacing(path) as partial:
                partial.write_bytes(msgspec.json.format(msgspec.json.encode(manifest, order="sorted")) + b"\n")


@contextlib.contextmanager
def exclusive_folder(folder: Path, what: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Exclude other processes that work on ``what`` in this folder. Raises StateError if they take too long."""
    with os_errors_as(StateError, f"{folder}: the cache can't be written"):
        folder.mkdir(parents=True, exist_ok=True)
        # A kernel lock: it ends with the process that holds it, however that ends. The file stays.
        file = open(folder / _LOCK, "a")  # noqa: SIM115
    with file:
        if not _lock(file.fileno()):
            tell(f"another process is acquiring {what}; waiting for it")
            waiting = tenacity.Retrying(
                wait=tenacity.wait_fixed(_LOCK_POLL_SECONDS),
                stop=tenacity.stop_after_delay(_LOCK_SECONDS),
                retry=tenacity.retry_if_result(lambda got: not got),
                retry_error_callback=lambda state: False,
            )
            if not waiting(_lock, file.fileno()):
                raise StateError(f"{folder}: another process holds it for {_LOCK_SECONDS / 3600:g} hours")
        yield


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _user_cache() -> Path:
    # The XDG specification says to ignore a relative path.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "kailab" / "components"


def _seen(path: Path) -> tuple[int, int, int, int]:
    now = path.stat()
    return now.st_size, now.st_ino, now.st_mtime_ns, now.st_ctime_ns


def _cure(pin: Pin) -> str:
    if for_nodes(pin):
        return "`python -m tools.images kind build` in kailab's source acquires it again"
    addons = {name: f" --with {name}" for name in ADDONS}
    known = {"kubernetes": f" --kubernetes {pin.version}", "kind": " --kind", **addons}.get(pin.project, "")
    return f"get it again with `kailab components get{known}`"


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
