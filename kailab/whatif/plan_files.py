"""Plan files: manifests to apply later, with the identity of the lab's state. A plan is applied only to the state for which it was made.

Each `kailab apply` asks whether a file is a plan, so nothing here needs the engine.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.errors import InputError, StateError, Where, os_errors_as
from kailab.evidence.wording import elapsed, some
from kailab.lab.intake import NamedText
from kailab.lab.lab import Lab
from kailab.model import private_files
from kailab.model.files import open_file, read_bytes
from kailab.model.objects import metadata_of, name_of, namespace_of
from kailab.model.times import format_time
from kailab.version import __version__

MAGIC = b'{"kind":"kailab-plan"'
FORMAT = 2
LARGEST = 2**30
_DIGITS = 16
_SAME_TIME = 1e-6  # seconds
_ALWAYS_CHANGING = frozenset({"Event", "Event.events.k8s.io", "Lease"})
"""Kinds that change all the time in a cluster, and on which no decision depends."""


class ChangePlan(msgspec.Struct, frozen=True, kw_only=True):
    """``texts``: name and text of the manifests, as they were read. ``objects``: a digest of each object of the lab, by its name. ``time``: of
    the lab. ``digest``: of all other fields, set when the plan is written."""

    kind: Literal["kailab-plan"] = "kailab-plan"
    format: int = FORMAT
    version: str = __version__
    objects: dict[str, str]
    time: float
    namespace: str
    strict: bool
    texts: tuple[NamedText, ...]
    digest: str = ""

    def check(self, lab: Lab, file: str) -> None:
        """Raises InputError if the lab has changed since the plan was made."""
        if changes := self.changes_since(lab):
            raise InputError(
                f"the lab has changed since the plan was made ({'; '.join(changes)}), so its effect may be another one: make the plan again "
                "with `kailab diff`",
                Where(file=file),
            )

    def changes_since(self, lab: Lab) -> list[str]:
        """What is different in the lab, as short sentences. If only the lab acts in its cluster, its time counts too."""
        now = digests_of(lab)
        changes = [
            f"{verb}: {some(sorted(names, key=_follows))}"
            for names, verb in (
                ([name for name, digest in self.objects.items() if now.get(name, digest) != digest], "changed"),
                ([name for name in now if name not in self.objects], "created"),
                ([name for name in self.objects if name not in now], "deleted"),
            )
            if names
        ]
        passed = lab.now - self.time
        if lab.venue.exclusive and abs(passed) >= _SAME_TIME:
            changes.append(
                f"{elapsed(passed)} of lab time has passed"
                if passed > 0
                else f"its time was {format_time(self.time)}, and is {format_time(lab.now)}"
            )
        return changes

    def write(self, path: Path, *, force: bool = False) -> None:
        """Readable by its owner only, because manifests may hold secrets. Raises InputError if the file exists, StateError."""
        if path.exists() and not force and not is_plan(path):
            raise InputError("exists already and is no plan; give another name", Where(file=str(path)))
        with (
            os_errors_as(StateError, f"{path}: the plan can't be written"),
            private_files.replacing(path) as partial,
            private_files.open_private(partial, "wb") as file,
        ):
            file.write(_sealed(self))


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


def digests_of(lab: Lab) -> dict[str, str]:
    """A digest of each object, by its kind and name. It is the same while the object does not change; node heartbeats do not count."""
    return {
        _named(kind, obj): hashlib.sha256(
            msgspec.json.encode(_plan_content(kind, obj), order="deterministic")
        ).hexdigest()[:_DIGITS]
        for kind in sorted(set(lab.cluster.kinds()) - _ALWAYS_CHANGING)
        for obj in lab.cluster.list(kind)
    }


def _follows(name: str) -> bool:
    """Whether the object is of a kind that controllers write. What users write says more about a change, and is named first."""
    return name.partition(" ")[0] in ("Pod", "PodGroup", "BindRequest", "ReplicaSet")


def _named(kind: str, obj: Object) -> str:
    space = namespace_of(obj)
    return f"{kind} {space}/{name_of(obj)}" if space else f"{kind} {name_of(obj)}"


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
