"""Changes of a lab as data, and the forms in which users write them as steps.

    apply: [{apiVersion: ..., kind: ..., ...}]                                # objects; a bare object counts as applied
    patch: {kind: Queue, name: team-a, patch: {spec: {...}}}                  # a JSON merge patch
    patch: {kind: Node, name: a100-0, subresource: status, patch: {status: {...}}}
    delete: {kind: Deployment, name: api, namespace: web}
    advance: 600                                                              # seconds

``namespace`` is ``default`` if it is left out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.cluster.writes import Subresource
from kailab.errors import InputError, NotFound, Where
from kailab.model.objects import name_of

if TYPE_CHECKING:
    from kailab.lab.intake import NamedText
    from kailab.lab.open_lab import OpenLab
    from kailab.model.manifests import Notice

DEFAULT_NAMESPACE = "default"
FORMS = "apply, patch, delete, advance, or an object"


class Change(ABC):
    """One change: ``Apply``, ``Patch``, ``Delete`` or ``Advance``."""

    @staticmethod
    def read(data: Any, where: Where | None = None) -> Change:
        """Read one entry of a list of steps. Raises InputError that names the field at fault."""
        return _read(data, where or Where())

    @abstractmethod
    def data(self) -> dict[str, Any]:
        """The change in the form that ``read`` takes."""

    @abstractmethod
    def do(self, lab: OpenLab) -> Sequence[Notice]:
        """Carry the change out, without settling. Returns notices. Raises InputError."""


@dataclass(frozen=True)
class Apply(Change):
    """Apply objects, as ``kubectl apply`` does. ``files``: the files or texts that contain the objects, so that errors name file and line."""

    objects: tuple[Object, ...]
    namespace: str = DEFAULT_NAMESPACE
    files: tuple[Path | NamedText, ...] = ()

    def data(self) -> dict[str, Any]:
        spaced = {} if self.namespace == DEFAULT_NAMESPACE else {"namespace": self.namespace}
        return {"apply": list(self.objects), **spaced}

    def do(self, lab: OpenLab) -> Sequence[Notice]:
        sources = self.files or (list(self.objects),)
        return lab.apply(*sources, namespace=self.namespace).notices


@dataclass(frozen=True)
class Patch(Change):
    """A JSON merge patch (RFC 7386) of one object: of all but its status, or with the ``subresource`` "status" of its status alone."""

    kind: str
    name: str
    patch: Mapping[str, Any]
    namespace: str = DEFAULT_NAMESPACE
    subresource: Subresource = ""

    def data(self) -> dict[str, Any]:
        part = {"subresource": self.subresource} if self.subresource else {}
        return {"patch": {**_reference(self.kind, self.name, self.namespace), **part, "patch": dict(self.patch)}}

    def do(self, lab: OpenLab) -> Sequence[Notice]:
        from kailab.lab.unknown_fields import new_field_notices  # a change that is only read needs no tables of fields

        kind = lab.kind(self.kind)
        queues = [self.name] if kind == "Queue" and not self.subresource else []
        space = lab.space_of(kind, self.name, self.namespace)
        try:
            before = lab.cluster.get(kind, self.name, space)
        except NotFound as error:
            raise InputError(str(error)) from error
        with new_queue_warnings(lab, queues) as warnings:
            after = lab.patch(kind, self.name, dict(self.patch), self.namespace, self.subresource)
        return [*new_field_notices(kind, before, after, lab.venue.exclusive), *warnings]


@dataclass(frozen=True)
class Delete(Change):
    kind: str
    name: str
    namespace: str = DEFAULT_NAMESPACE

    def data(self) -> dict[str, Any]:
        return {"delete": _reference(self.kind, self.name, self.namespace)}

    def do(self, lab: OpenLab) -> Sequence[Notice]:
        lab.delete(self.kind, self.name, self.namespace)
        return ()


@dataclass(frozen=True)
class Advance(Change):
    """Let time pass."""

    seconds: float

    def data(self) -> dict[str, Any]:
        return {"advance": self.seconds}

    def do(self, lab: OpenLab) -> Sequence[Notice]:
        # Earlier changes take effect now, not after these seconds.
        lab.settle_if_changed()
        lab.advance(self.seconds)
        return ()


@contextmanager
def new_queue_warnings(lab: OpenLab, names: Sequence[str]) -> Iterator[list[Notice]]:
    """Yield a list that has, at the end of the block, what `apply` would warn about these queues now and would not have before."""
    warnings: list[Notice] = []
    before = _queue_warnings(lab, names)
    yield warnings
    warnings += [warning for warning in _queue_warnings(lab, names) if warning not in before]


def _queue_warnings(lab: OpenLab, names: Sequence[str]) -> list[Notice]:
    from kailab.lab import intake  # a change that is only read needs no manifests

    queues = [queue for queue in lab.cluster.list("Queue") if name_of(queue) in names] if names else []
    return intake.check_manifests(lab.cluster, intake.load_sources([queues]).manifests) if queues else []


def read_changes(data: Any, where: Where | None = None) -> tuple[Change, ...]:
    """Read a list of changes. Raises InputError that names the entry (from 0) and the field at fault."""
    where = where or Where()
    if not isinstance(data, list):
        raise InputError(f"expected a list of changes, not {_type(data)}", where)
    return tuple(_read(entry, _inside(where, f"[{index}]")) for index, entry in enumerate(data))


def carry_out(
    lab: OpenLab,
    changes: Iterable[Change],
    *,
    together: bool = False,
    between: Callable[[], None] | None = None,
) -> None:
    """Carry changes out in order; the lab settles after each, but only once for those in a row that one command makes: deletions, or one
    patch of several objects. ``together``: it settles only once for all changes of one form in a row. ``between``: called between the cycles
    in which the lab settles, and between the moments of time that passes. Raises InputError for what the lab refuses, and NotSettled."""
    for _, some in groupby(changes, key=type if together else _command):
        for change in some:
            if between is not None and isinstance(change, Advance):
                lab.settle_if_changed(between)
                for _ in lab.moments(change.seconds):
                    between()
            else:
                change.do(lab)
        lab.settle(between)


def _command(change: Change) -> object:
    """Equal for changes that one command makes."""
    match change:
        case Patch():
            return Patch, change.patch, change.namespace, change.subresource
        case Delete():
            return Delete, change.namespace
    return id(change)


def _read(data: Any, where: Where) -> Change:
    if not isinstance(data, dict):
        raise InputError(f"expected a change ({FORMS}), not {_type(data)}", where)
    # No form has these fields at this level.
    if "kind" in data and "apiVersion" in data:
        return Apply((data,))
    forms = [form for form in ("apply", "patch", "delete", "advance") if form in data]
    if len(forms) != 1:
        raise InputError(f"expected exactly one of: {FORMS}; found: {', '.join(map(str, data)) or 'nothing'}", where)
    form = forms[0]
    also = {"namespace"} if form == "apply" else set()
    if unknown := [str(key) for key in data if key != form and key not in also]:
        raise InputError(f"unknown field beside {form}: {', '.join(unknown)}", where)
    inside = _inside(where, f".{form}" if where.field else form)
    value = data[form]
    if form == "apply":
        return Apply(_objects(value, inside), _text(data, "namespace", where, DEFAULT_NAMESPACE))
    if form == "advance":
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
            raise InputError(f"expected seconds (0 or more), not {value!r:.40}", inside)
        return Advance(float(value))
    fields = (
        ("kind", "name", "namespace") if form == "delete" else ("kind", "name", "namespace", "subresource", "patch")
    )
    if not isinstance(value, dict):
        raise InputError(f"expected a mapping with {', '.join(fields)}, not {_type(value)}", inside)
    if unknown := [str(key) for key in value if key not in fields]:
        raise InputError(f"unknown field: {', '.join(unknown)}; expected {', '.join(fields)}", inside)
    kind, name = _text(value, "kind", inside), _text(value, "name", inside)
    namespace = _text(value, "namespace", inside, DEFAULT_NAMESPACE)
    if form == "delete":
        return Delete(kind, name, namespace)
    patch = value.get("patch")
    if not isinstance(patch, dict):
        raise InputError(f"expected a JSON merge patch (a mapping), not {_type(patch)}", _inside(inside, ".patch"))
    part = value.get("subresource", "")
    if part not in ("", "status"):
        raise InputError(f"expected status, not {_type(part)}", _inside(inside, ".subresource"))
    return Patch(kind, name, patch, namespace, part)


def _objects(value: Any, where: Where) -> tuple[Object, ...]:
    objects: Sequence[Any] = [value] if isinstance(value, dict) else value
    if not isinstance(objects, list) or not all(isinstance(obj, dict) for obj in objects):
        raise InputError("expected a list of objects", where)
    return tuple(objects)


def _text(value: Mapping[str, Any], field: str, where: Where, default: str = "") -> str:
    text = value.get(field, default)
    if not isinstance(text, str) or not text:
        raise InputError(f"expected text, not {_type(text)}", _inside(where, f".{field}" if where.field else field))
    return text


def _reference(kind: str, name: str, namespace: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "namespace": namespace}


def _inside(where: Where, step: str) -> Where:
    return Where(where.file, where.line, where.object, f"{where.field}{step}")


def _type(value: Any) -> str:
    return "nothing" if value in (None, "") else f"{type(value).__name__} {value!r:.40}"
