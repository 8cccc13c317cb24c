"""Plan files: manifests to apply later, with the identity of the lab's state. A plan is applied only to the state for which it was made.

Each `kailab apply` asks whether a file is a plan, so nothing here needs the engine.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.errors import InputError, StateError, Where
from kailab.lab.intake import NamedText
from kailab.model import private_files
from kailab.model.files import open_file, read_bytes
from kailab.model.objects import metadata_of
from kailab.model.times import format_time
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

MAGIC = b'{"kind":"kailab-plan"'
FORMAT = 1
LARGEST = 2**30
_ALWAYS_CHANGING = frozenset({"Event", "Event.events.k8s.io", "Lease"})
"""Kinds that change all the time in a cluster, and on which no decision depends."""


class ChangePlan(msgspec.Struct, frozen=True, kw_only=True):
    """``texts``: name and text of the manifests, as they were read. ``state``: the identity of the lab's state. ``time``: of the lab.
    ``digest``: of all other fields, set when the plan is written."""

    kind: Literal["kailab-plan"] = "kailab-plan"
    format: int = FORMAT
    version: str = __version__
    state: str
    time: float
    namespace: str
    strict: bool
    texts: tuple[NamedText, ...]
    digest: str = ""

    def check(self, lab: Lab, file: str) -> None:
        """Raises InputError if the lab has changed since the plan was made."""
        if self.state != state_of(lab):
            raise InputError(
                f"the lab has changed since the plan was made (then {format_time(self.time)}, now {format_time(lab.now)}), so its effect may be "
                "another one: make the plan again with `kailab diff`",
                Where(file=file),
            )

    def write(self, path: Path, *, force: bool = False) -> None:
        """Readable by its owner only, because manifests may hold secrets. Raises InputError if the file exists, StateError."""
        if path.exists() and not force and not is_plan(path):
            raise InputError("exists already and is no plan; give another name", Where(file=str(path)))
        try:
            with private_files.replacing(path) as partial, private_files.open_file(partial, "wb") as file:
                file.write(_sealed(self))
        except OSError as error:
            raise StateError(f"{path}: the plan can't be written: {error.strerror or error}") from error


def _sealed(plan: ChangePlan) -> bytes:
    """The content of the plan's file."""
    digest = hashlib.sha256(msgspec.json.encode(structs.replace(plan, digest=""))).hexdigest()
    return msgspec.json.encode(structs.replace(plan, digest=digest)) + b"\n"


def is_plan(path: Path) -> bool:
    """True if the path is a file that begins like a plan."""
    if not path.is_file():
        return False
    with open_file(path) as file:
        return file.read(len(MAGIC)) == MAGIC


def read_plan(path: Path) -> ChangePlan:
    """Raises InputError for a file that is damaged, edited, of another format, or no plan."""
    data = read_bytes(path, LARGEST)
    try:
        plan = msgspec.json.decode(data, type=ChangePlan)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is no plan of `kailab diff`, or damaged: {error}", Where(file=str(path))) from None
    if plan.format != FORMAT:
        raise InputError(
            f"is in format {plan.format}; this kailab reads format {FORMAT}: make the plan again", Where(str(path))
        )
    if data != _sealed(plan):
        raise InputError(
            "was edited or damaged since `kailab diff` wrote it, so nobody has seen its effect: make the plan again",
            Where(file=str(path)),
        )
    return plan


def state_of(lab: Lab) -> str:
    """A digest of a lab's state. It is the same while no object changes; node heartbeats do not count. If only the lab acts in its cluster,
    its time counts too."""
    digest = hashlib.sha256()
    if lab.venue.exclusive:
        digest.update(f"{lab.now:.6f}".encode())
    for kind in sorted(set(lab.cluster.kinds()) - _ALWAYS_CHANGING):
        for obj in lab.cluster.list(kind):
            digest.update(msgspec.json.encode(_plan_content(kind, obj), order="deterministic"))
    return digest.hexdigest()


def _plan_content(kind: str, obj: Object) -> Any:
    meta = {key: value for key, value in metadata_of(obj).items() if key not in ("resourceVersion", "managedFields")}
    status = obj.get("status")
    if kind == "Node" and isinstance(status, dict):
        conditions = [(each.get("type"), each.get("status")) for each in status.get("conditions") or ()]
        status = {"allocatable": status.get("allocatable"), "conditions": conditions}
    return [
        kind,
        meta,
        obj.get("spec"),
        status,
        {key: obj[key] for key in obj if key not in ("metadata", "spec", "status")},
    ]
