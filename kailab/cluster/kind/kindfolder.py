"""The folder of a kind cluster: what marks it as one, what is kept about it."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kailab.cluster.controlplane.certificates import write_private
from kailab.cluster.controlplane.planefolder import made
from kailab.cluster.processes import find, this_process
from kailab.components import Cache
from kailab.errors import StateError
from kailab.model import decoding
from kailab.model.private_files import make_folder, write_text

FILE = "kind.json"
KUBECONFIG = "kubeconfig"
CONFIG = "kind.yaml"
LOGS = "logs"
FORMAT = 1
_KEPT_STARTS = 5


class KindRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a cluster. ``kind``, ``kubectl``: the programs; ``image``: its nodes'; ``created``: seconds since the
    epoch; ``starter``: the process that makes it, and ``since`` when that runs; ``ready``: it is made."""

    name: str
    kind: str
    kubectl: str
    image: str
    created: float
    starter: int = 0
    since: float = 0.0
    ready: bool = False
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        write_private(folder / FILE, msgspec.json.encode(self))

    def begun(self) -> KindRecord:
        """By this process."""
        starter, since = this_process()
        return msgspec.structs.replace(self, starter=starter, since=since)

    def done(self) -> KindRecord:
        # A process id of an ended start would be somebody else's before long.
        return msgspec.structs.replace(self, ready=True, starter=0, since=0.0)


def claim(folder: Path) -> None:
    """Make a folder fit for a new cluster. Raises StateError: something is in it, or it can't be used."""
    made(folder, "a kind cluster")


def read(folder: Path) -> KindRecord | None:
    """None: no cluster is kept there. Raises StateError for what is damaged or of another version."""
    try:
        known = decoding.decode_json((folder / FILE).read_bytes(), KindRecord)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise StateError(f"{folder / FILE}: the kind cluster can't be read: {error}") from error
    if known.format != FORMAT:
        raise StateError(f"{folder}: a kind cluster in format {known.format}; this kailab knows format {FORMAT}")
    return known


def write_config(folder: Path, described: dict[str, Any]) -> Path:
    """Kind's configuration of the cluster, as a file for kind."""
    path = folder / CONFIG
    write_text(path, yaml.safe_dump(described, sort_keys=False))
    return path


def has_kubeconfig(folder: Path) -> bool:
    """An empty one is as good as none."""
    try:
        return (folder / KUBECONFIG).stat().st_size > 0
    except OSError:
        return False


def keep_logs(folder: Path, name: str) -> Path | None:
    """Move the logs of a start that failed to where they outlive the folder, beside those of the last few that did. Returns where;
    None: there are none, or no place for them."""
    kept = Cache().root.parent / "kind-logs" / name
    with suppress(OSError, shutil.Error):
        make_folder(kept.parent)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(folder / LOGS, kept)
        oldest_last = sorted(kept.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in oldest_last[_KEPT_STARTS:]:
            shutil.rmtree(old, ignore_errors=True)
    return kept if kept.is_dir() else None


def starts(known: KindRecord) -> bool:
    """Whether the process that began the start is still there."""
    return find(known.starter, known.since) is not None


def remove(folder: Path) -> None:
    """Raises StateError if something in it can't be removed."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StateError(f"{folder}: can't be removed: {error.filename or ''} {error.strerror or error}") from error
