"""Describe one kind of object: its names, its treatment by an API server, its controller, its grouping and its table.

A kind is one value, registered once (``kailab.model.kinds.register``). kailab's own are in ``kailab.kinds``, one file for each kind or
group of similar kinds. A *part* of a kind (a function, a class, a table) is given directly or as ``"module:name"``. In the second form it
is imported at its first use, so that a command that needs a kind's name does not load its controller.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kailab.errors import InputError, Where

Part: TypeAlias = Callable[..., Any] | str | None
"""A function or class, or its location ``"module:name"``. None: the kind has no such part."""

# The patterns are compiled when an extension's kind is checked, not at every start.
_REFERENCE = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"
_KIND = r"[A-Z][A-Za-z0-9]{0,62}"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_GROUP = rf"({_LABEL}(\.{_LABEL})*)?"
_PATH = r"[A-Za-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)*"


class Column(NamedTuple):
    """A column of a kind's table. ``cell``: the path of a field (``status.readyReplicas``), or a function of the face's view and
    the object. ``default`` stands where the field is missing or empty; ``date``: show how long ago the field's time was."""

    header: str
    cell: str | Callable[[Any, dict[str, Any]], str]
    wide: bool = False
    default: str = "<none>"
    date: bool = False


NAME = Column("NAME", "metadata.name")
AGE = Column("AGE", "metadata.creationTimestamp", date=True)


class Unread(NamedTuple):
    """A field that in a cluster decides where, when or how many pods run, and that an embedded lab ignores. ``steps``: its path; each step is a
    name or a file name pattern, with ``*`` for the items of a list or mapping. ``in_cluster``: its effect in a cluster. ``as_left_out``: values
    with the same effect as a missing field, besides empty ones, false and 0. ``only``: the values that matter; none: all."""

    steps: tuple[str, ...]
    in_cluster: str
    as_left_out: tuple[object, ...] = ()
    only: tuple[object, ...] = ()


class Need(NamedTuple):
    """An object of another kind without which no pods are made for an object. ``kinds``: kind keys, of which any will do, in the object's
    namespace if they are in namespaces; ``met_by``: whether an object of these kinds is the one; ``field``: where it is named; ``told``: what
    a notice says if there is none."""

    kinds: tuple[str, ...]
    met_by: Callable[[dict[str, Any]], bool]
    field: str
    told: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind. ``group`` is empty for the core group. ``versions`` are sorted, the newest first: kailab reads all and writes the first."""

    kind: str
    group: str = ""
    versions: tuple[str, ...]
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    key: str = ""
    """The kind key. Default: the bare kind, or ``Kind.group`` if another kind has that key."""

    # --- treatment by an API server ---------------------------------------------------------------------------------------
    defaults: Part = None
    """(object) -> the object with defaults, or the same object if nothing is missing."""
    check: Part = None
    """(faults, object): adds faults to a ``kailab.model.validation.fields.Faults``."""
    shape: Part = None
    """() -> its shape, see ``kailab.model.validation.shapes``."""
    schema: str = ""
    """For Kubernetes' own kinds: the type in the table of shapes (``V1Job``)."""
    status_schema: str = ""
    """The shape of its status, for kinds whose status is also written by others than their controller."""
    advice: Part = None
    """(faults, object): adds what is valid but probably a mistake."""
    immutable: tuple[str, ...] = ()
    """Fields that never change, and are neither removed nor set later: ``spec.selector``. Kubernetes' own kinds and webhooks compare them so."""
    immutable_while_set: tuple[str, ...] = ()
    """Fields that may be removed or set later, and otherwise never change: those with a rule of an operator's definition (``self == oldSelf``),
    which a server applies only where the field is there before and after. A rule on a mapping stands here for the whole mapping."""
    fixed: Part = None
    """(stored object, object) -> the object without the parts of these fields that may still change in the state of the stored object.
    Default: no part may."""
    checks_metadata: bool = False
    """True if its checks or immutable fields read annotations, so that a change of these alone is checked, too."""
    spec_alone: bool = False
    """True if its defaults and checks do not read the metadata, so that their result for equal remaining fields can be reused; with
    ``checked_templates`` for equal fields beside the metadata of the pod template too."""
    keeps_status: bool = False
    """True: a status given at creation stays. False: it is dropped, as for a kind with a status subresource."""

    # --- treatment by its operator ----------------------------------------------------------------------------------------
    controller: Part = None
    """(Workbench) -> its ``kailab.workloads.controller.Controller`` in an embedded cluster."""
    watches: tuple[str, ...] = ()
    """Further kinds whose changes its controller receives, besides its own kind and the kinds that it owns."""
    checked_templates: bool = False
    """True if defaults and checks cover its pod template, so that pods made from it need no check, and read no more of the template's
    metadata than ``validation.pods.check_template``."""
    grouping: object | str | None = None
    """The ``kailab.grouping.family.Family`` of its pods; None: one PodGroup with a minimum of one pod."""

    describes: Part = None
    """(object) -> the pods that it describes (``kailab.model.validation.advice.DescribedPod``). None: those of its pod templates."""
    needs: Part = None
    """(object) -> the ``Need`` of each object that it names and that its controller waits for."""

    wanted_pods: Part = None
    """(object) -> the number of pods that it wants while it is neither suspended nor ended. None: the kind does not say."""
    replaces_failed_pods: bool = False
    """True if its controller replaces a failed pod, which may still exist."""
    suspended_by: str = ""
    """The field below ``spec`` that suspends it, such as ``runPolicy.suspend``; "" if it can't be suspended."""
    label_domains: tuple[str, ...] = ()
    """Domains, with subdomains, of labels that its controller or grouping reads. Evidence and snapshots keep such labels."""
    field_names: tuple[str, ...] = ()
    """Names of its fields, and words of its fields that enumerate, for a kind of another distribution. Anonymised snapshots keep them, with
    the names of the kind, so that its controller reads what it has written."""

    owns_pods: bool = True
    """It may own pods, directly or through other objects, so pod grouping has to read it."""
    acts: bool = False
    """True if a part of the embedded lab other than controllers and the scheduler's mirror acts on it, such as the API server or a command."""
    schedules_nothing: bool = False
    """True if it affects neither where, when nor how many pods run in any cluster, so no notice is needed where an embedded lab ignores it."""
    fields_of_other_versions: tuple[str, ...] = ()
    """Paths of fields that kailab reads and that the pinned version of its operator no longer has."""
    unread: tuple[Unread, ...] = ()
    """Fields that matter in a cluster and that nothing in an embedded lab reads. A notice names them when they are applied."""
    in_cluster: str = ""
    """What a cluster does with it if an embedded lab ignores it; the end of the sentence ``in a cluster ...``."""

    # --- how it is shown and handled --------------------------------------------------------------------------------------
    columns: tuple[Column, ...] | str = (NAME, AGE)
    """Its table, or the location of the table: ``"module:NAME"``."""
    in_all: bool = False
    """``get all`` shows it."""
    scalable: bool = False
    """True if ``spec.replicas`` is the wanted number of its pods."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` to write."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    @property
    def resource(self) -> str:
        """``plural.group``, as kubectl prints it: ``queues.scheduling.run.ai``; bare plural in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_PARTS = ("defaults", "check", "shape", "advice", "fixed", "controller", "describes", "needs", "wanted_pods")


def check_form(kind: object) -> Kind:
    """Return the kind if it is well formed. Raises InputError that names the field."""
    if not isinstance(kind, Kind):
        raise InputError(f"{kind!r:.80} is not a kind; expected a kailab.model.kind.Kind")

    def wrong(field: str, expected: str) -> InputError:
        where = Where(object=f"kind {kind.kind!s:.80}", field=field)
        return InputError(f"{getattr(kind, field)!r:.80} is not valid; expected {expected}", where)

    # Kinds of other distributions are checked here too, so even types are not taken for granted.
    for field, form, expected in (
        ("kind", _KIND, "a name such as JobSet"),
        ("group", _GROUP, "an API group such as jobset.x-k8s.io, or nothing for the core group"),
        ("plural", _LABEL, "a plural in lower case such as jobsets"),
    ):
        if not isinstance(value := getattr(kind, field), str) or not re.fullmatch(form, value, re.ASCII):
            raise wrong(field, expected)
    for field, form, expected in (
        ("versions", _LABEL, "versions such as ('v1', 'v1beta1'), at least one"),
        ("short", _LABEL, "short names such as ('js',)"),
        ("immutable", _PATH, "paths of fields such as ('spec.selector',)"),
        ("immutable_while_set", _PATH, "paths of fields such as ('spec.managedBy',)"),
        ("watches", r"\S+", "kinds such as ('Node',)"),
        ("label_domains", _GROUP, "domains such as ('ray.io',)"),
        ("field_names", r"[A-Za-z0-9]+", "names such as ('minSeats',)"),
    ):
        values = getattr(kind, field)
        if not isinstance(values, tuple) or not all(
            isinstance(v, str) and re.fullmatch(form, v, re.ASCII) for v in values
        ):
            raise wrong(field, expected)
    if not kind.versions:
        raise wrong("versions", "versions such as ('v1', 'v1beta1'), at least one")
    for field in _PARTS:
        part = getattr(kind, field)
        if not (part is None or callable(part) or _is_reference(part)):
            raise wrong(field, "a function or class, or 'module:name'")
    if isinstance(kind.grouping, str) and not _is_reference(kind.grouping):
        raise wrong("grouping", "a kailab.grouping.family.Family, or 'module:name'")
    columns = kind.columns
    if not (_is_reference(columns) or (isinstance(columns, tuple) and all(isinstance(c, Column) for c in columns))):
        raise wrong("columns", "a tuple of kailab.model.kind.Column, or 'module:name'")
    return kind


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(_REFERENCE, value, re.ASCII) is not None


def resolve_part(kind: Kind, name: str) -> Any:
    """A part of a kind, imported if it is given as ``"module:name"``. Raises InputError if that does not exist."""
    part = getattr(kind, name)
    if not isinstance(part, str):
        return part
    module, _, attribute = part.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{part!r} can't be used: {error}", Where(object=f"kind {kind.kind}", field=name)) from error


def field_of(obj: Mapping[str, Any], path: str) -> Any:
    """The value at a path such as ``spec.selector``, or None."""
    value: Any = obj
    for step in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value
