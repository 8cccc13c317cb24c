"""Patches from ``KIND/NAME.FIELD=VALUE``.

The fields are those of ``FIELDS``, ``replicas`` of every kind that can be scaled, and ``suspend`` of every kind that can be suspended. For other changes users apply manifests.

This module also makes the changes that delete work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kailab.cluster.selectors import parse_selector
from kailab.errors import ApiError, InputError, NotFound
from kailab.lab.change import Delete, Patch
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of
from kailab.model.kinds import KINDS, is_namespaced, kind_key
from kailab.model.objects import name_of, namespace_of, uid_of
from kailab.model.queues import RESOURCES, SHARE_FIELDS, SPEC_FIELDS, parse_name


def _from_0(text: str) -> int:
    if (value := int(text)) < 0:
        raise ValueError(text)
    return value


def _yes_or_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


class SettableField(NamedTuple):
    """``place``: the path in the object; ``read``: parses the value; ``expected``: describes valid values."""

    place: tuple[str, ...]
    read: Callable[[str], Any]
    expected: str


def _suspended_by(path: str) -> SettableField:
    return SettableField(("spec", *path.split(".")), _yes_or_no, "true or false")


_QUEUE_SHARES = {
    f"{resource}.{key}": (("spec", "resources", resource, key), form)
    for resource in RESOURCES
    for key, form in SHARE_FIELDS.items()
}
_QUEUE = {key: (("spec", key), form) for key, form in SPEC_FIELDS.items()}
REPLICAS = SettableField(("spec", "replicas"), _from_0, "a whole number from 0")
FIELDS: Mapping[str, Mapping[str, SettableField]] = {
    "Queue": {
        path: SettableField(place, form.parse, form.expected)
        for path, (place, form) in (_QUEUE_SHARES | _QUEUE).items()
        if form.parse
    },
    "Job": {"parallelism": SettableField(("spec", "parallelism"), _from_0, "a whole number from 0")},
    "CronJob": {"suspend": _suspended_by("suspend")},
    "PodGroup": {
        "minMember": SettableField(("spec", "minMember"), _from_0, "a whole number from 0"),
        "queue": SettableField(("spec", "queue"), parse_name, "the name of a queue"),
        "priorityClassName": SettableField(("spec", "priorityClassName"), parse_name, "the name of a priority class"),
    },
    "Node": {"unschedulable": SettableField(("spec", "unschedulable"), _yes_or_no, "true or false")},
}


def patch_of(lab: Lab, text: str, namespace: str = "default") -> Patch:
    """The patch of a text such as ``queue/team-a.gpu.quota=24``. Raises InputError that names what was expected."""
    target, equals, value = text.partition("=")
    word, slash, path_text = target.partition("/")
    if not equals or not slash or not path_text:
        raise InputError(f"{text!r}: expected KIND/NAME.FIELD=VALUE, as in queue/team-a.gpu.quota=24")
    kind = lab.kind(word)
    fields = _fields(kind)
    if not fields:
        known = sorted(key for key in {*FIELDS, *KINDS} if _fields(key))
        raise InputError(f"{text!r}: no field of a {kind} can be set this way; expected one of: {', '.join(known)}")
    # From the end, because names may have dots in them.
    path = next((path for path in fields if path_text.endswith(f".{path}")), "")
    name = path_text.removesuffix(f".{path}") if path else path_text
    if not path or not name:
        raise InputError(f"{text!r}: expected one of these fields after the name: {', '.join(fields)}")
    space = namespace if is_namespaced(kind) else ""
    try:
        lab.cluster.get(kind, name, space or None)
    except NotFound as error:
        raise InputError(f"{text!r}: {error}") from None
    field = fields[path]
    try:
        patch: Any = field.read(value)
    except (ValueError, InputError):
        raise InputError(f"{text!r}: {path} is {field.expected}, not {value!r:.80}") from None
    for step in reversed(field.place):
        patch = {step: patch}
    return Patch(kind, name, patch, space or namespace)


def _fields(kind: str) -> dict[str, SettableField]:
    fields = dict(FIELDS.get(kind, {}))
    known = KINDS.get(kind)
    if known is not None and known.scalable:
        fields["replicas"] = REPLICAS
    if known is not None and known.suspended_by:
        fields["suspend"] = _suspended_by(known.suspended_by)
    return fields


def deletion_of(lab: Lab, text: str, namespace: str = "default") -> Delete:
    """The deletion of ``KIND/NAME``. Raises InputError if it does not exist."""
    word, slash, name = text.partition("/")
    if not slash or not name:
        raise InputError(f"{text!r}: expected KIND/NAME, as in job/train")
    kind = lab.kind(word)
    try:
        lab.cluster.get(kind, name, namespace if is_namespaced(kind) else None)
    except NotFound as error:
        raise InputError(f"{text!r}: {error}") from None
    return Delete(kind, name, namespace)


def deletions_by_label(lab: Lab, selector: str) -> tuple[Delete, ...]:
    """The deletion of all workloads, in every namespace, with a pod that has these labels (``app=train``, ``team in (a, b)``). Raises
    InputError if there is none."""
    try:
        terms = parse_selector(selector)
    except ApiError as error:
        raise InputError(f"{selector!r}: {error}") from None
    if not terms:
        raise InputError("expected a label selector, as in app=train")
    tops = {}
    for pod in lab.cluster.list("Pod", None, selector):
        # The top owner, because lower ones would be replaced.
        top = top_of(lab.cluster, pod)
        tops[uid_of(top)] = top
    if not tops:
        raise InputError(f"{selector!r}: no pod has these labels")
    return tuple(Delete(kind_key(top), name_of(top), namespace_of(top) or "default") for top in tops.values())
