"""Notices about fields that a kind does not have, with the field that may be meant. A cluster keeps or drops them, and nothing acts on them.
Notices about values that a field of an operator's kind may not have. A cluster with the operator refuses the object.

The known fields are those of Kubernetes' own kinds, of KAI's, of operators' kinds by their definitions, and of pods wherever a kind
contains pods.

Further notices are about fields that decide in a cluster where, when or how many pods run, and that nothing in an embedded lab reads. Each
kind lists its own (``Kind.unread``); those of every pod are in ``OF_PODS``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal, TypeAlias

from kailab.cluster.install.definitions import schema
from kailab.errors import InputError, Where
from kailab.model.kind import Unread
from kailab.model.kinds import KINDS
from kailab.model.manifests import Manifest, Notice
from kailab.model.objects import Object, owner_references
from kailab.model.suggestions import closest_names
from kailab.model.validation import core
from kailab.model.validation.advice import described_pods, pod_templates
from kailab.model.validation.devices import is_flat

UnknownFields = Iterator[tuple[str, str, Collection[str]]]
"""(path with a dot at its end, the unknown field in it, the fields that there are)."""
SHOWN = 8
# Every object may have them, or a server writes them.
_REQUEST = re.compile(r"\.devices\.requests\[\d+\]\.$")
_EVERYWHERE = frozenset(("apiVersion", "kind", "status", "managedFields"))
_OF_TEMPLATES = ("V1PodSpec", "V1JobSpec")
"""Templates of pods and Jobs look like objects, and have metadata and one of these specs alone."""


def warn_unknown_fields(manifests: Iterable[Manifest]) -> list[Notice]:
    """Each field of a kind is reported once, at its first use."""
    notices: dict[tuple[str, str], Notice] = {}
    for manifest in manifests:
        for path, text in unknown_fields(manifest.object, manifest.kind):
            if (manifest.kind, path) not in notices:
                notices[manifest.kind, path] = Notice(text, manifest.where(path), "not-meant")
    return list(notices.values())


def warn_unknown_values(manifests: Iterable[Manifest]) -> list[Notice]:
    """Each field of a kind is reported once, at its first use. Another version of the operator may have more values, so the object is kept."""
    notices: dict[tuple[str, str], Notice] = {}
    for manifest in manifests:
        api_version, kind = manifest.object["apiVersion"], manifest.object["kind"]
        definition = core.operator_definition(api_version, kind)
        if definition is None:
            continue
        for field, allowed in core.operator_values(api_version, kind).items():
            for path, value in _values_at(manifest.object, tuple(field.split(".")), ""):
                if value not in allowed:
                    there = " or ".join(map(str, allowed))
                    text = f"{value!r:.80} is not a value that {definition.whose} has; expected {there}"
                    notice = Notice(text, manifest.where(path), "not-meant", "the object is refused")
                    notices.setdefault((manifest.kind, field), notice)
    return list(notices.values())


Validation: TypeAlias = Literal["strict", "warn", "ignore"]
"""What ``apply`` does with unknown fields, as kubectl's ``--validate``."""


def refused_fields(manifests: Iterable[Manifest]) -> list[InputError]:
    """An error for each field that an API server does not know, in Kubernetes' and KAI's kinds. Definitions of operators differ from version
    to version, so that a field that the pinned one lacks is only reported."""
    errors: dict[tuple[str, str], InputError] = {}
    for manifest in manifests:
        if core.operator_definition(manifest.object["apiVersion"], manifest.object["kind"]) is not None:
            continue
        known = KINDS.get(manifest.kind)
        if known is None or not (known.schema or schema(known.group, known.kind, _version(manifest.object))):
            continue
        for path, name, there in _found(manifest.object, manifest.kind, None):
            if f"{path}{name}" in known.fields_of_other_versions:
                continue
            text = f"unknown field; {_meant(name, there)}"
            errors.setdefault((manifest.kind, f"{path}{name}"), InputError(text, manifest.where(f"{path}{name}")))
    return list(errors.values())


def unknown_fields(obj: Object, kind: str) -> Iterator[tuple[str, str]]:
    """Pairs of field path and message; ``kind`` is the kind key."""
    definition = core.operator_definition(obj["apiVersion"], obj["kind"])
    # Another version of the operator may have the field.
    whose = f"{definition.whose} has" if definition else "there is"
    for path, name, known in _found(obj, kind, definition):
        yield f"{path}{name}", f"{whose} no such field, so nothing acts on it; {_meant(name, known)}"


def _found(obj: Object, kind: str, operators: core.OperatorDefinition | None) -> UnknownFields:
    known = KINDS.get(kind)
    if known is not None and known.schema:
        flat = known.group == "resource.k8s.io" and is_flat(obj)
        for path, name, there in _in_type(obj, known.schema, ""):
            # Older versions have these fields in the request itself, later ones below ``exactly``.
            if not (flat and _REQUEST.search(path) and name in _fields("V1ExactDeviceRequest")):
                yield path, name, there
    elif known is not None and operators is not None:
        # ``unread_fields`` reports fields that exist and are not read.
        others = {*known.fields_of_other_versions, *(".".join(field.steps) for field in known.unread)}
        for path, name, there in _in_type(obj, operators.type, ""):
            if f"{path}{name}" not in others:
                yield path, name, there
    elif known is not None and (definition := schema(known.group, kind, _version(obj))) is not None:
        yield from _in_schema(obj, definition, "")
        yield from _in_type(obj.get("metadata"), "V1ObjectMeta", "metadata.")
    else:
        for path, pod in pod_templates(obj):
            yield from _in_type(pod["spec"], "V1PodSpec", f"{path}spec.")


def _version(obj: Object) -> str:
    return str(obj.get("apiVersion", "")).rpartition("/")[2]


def _meant(name: str, known: Collection[str]) -> str:
    if close := closest_names(name, known):
        return f"did you mean {close[0]}?"
    shown = ", ".join(sorted(known)[:SHOWN])
    return f"there are: {shown}{', ...' if len(known) > SHOWN else ''}"


@cache
def _fields(type: str) -> Mapping[str, str]:
    """The fields of a type in the tables of Kubernetes and of the operators, each with its type if that may contain fields, else ""."""
    return {
        name: "" if of in core.SCALARS or of.strip("[]{}") in core.SCALARS else of
        for name, of in core.operator_field_types(type).items()
    }


def _in_type(value: Any, type: str, path: str) -> UnknownFields:
    """A value of another shape has no fields; other checks report it. Where a definition takes anything, it may take a pod."""
    if not type:
        for inside, pod in pod_templates(value) if isinstance(value, dict) else ():
            yield from _in_type(pod["spec"], "V1PodSpec", f"{path}{inside}spec.")
        return
    if type[0] == "=":
        return
    if type[0] == "[":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _in_type(item, type[1:-1], f"{path.removesuffix('.')}[{index}].")
    elif type[0] == "{":
        for key, item in value.items() if isinstance(value, dict) else ():
            step = key if str(key).isidentifier() else f"[{key}]"
            yield from _in_type(
                item, type[1:-1], f"{path}{step}." if step == key else f"{path.removesuffix('.')}{step}."
            )
    elif isinstance(value, dict):
        fields = _fields(type)
        for name, item in value.items():
            if name in fields:
                yield from _in_type(item, fields[name], f"{path}{name}.")
            elif name not in _EVERYWHERE or (path and fields.get("spec") in _OF_TEMPLATES):
                yield path, name, fields.keys()


def _in_schema(value: Any, definition: Object, path: str) -> UnknownFields:
    """As ``_in_type``, with a schema of a CustomResourceDefinition."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_schema(item, definition.get("items") or {}, f"{path.removesuffix('.')}[{index}].")
        return
    properties, others = definition.get("properties"), definition.get("additionalProperties")
    if not isinstance(value, dict) or definition.get("x-kubernetes-preserve-unknown-fields"):
        return
    if not properties:
        if isinstance(others, dict):
            for name, item in value.items():
                yield from _in_schema(item, others, f"{path}{name}.")
        return
    for name, item in value.items():
        if name in properties:
            yield from _in_schema(item, properties[name], f"{path}{name}.")
        elif name not in _EVERYWHERE and others is None:
            yield path, name, properties.keys()


# --- fields that nothing reads ----------------------------------------------------------------------------------------


OF_PODS = (
    Unread(
        ("spec", "resources"),
        "kube-scheduler takes it for what the pod asks for, and KAI adds up what its containers ask for",
    ),
    Unread(("spec", "readinessGates"), "the pod is not ready before somebody sets these conditions"),
    Unread(("spec", "schedulingGroup"), "kube-scheduler starts the pod together with the others of its group"),
    Unread(
        ("spec", "containers", "*", "restartPolicyRules"),
        "the kubelet decides by its rules and the exit code whether the container starts again",
    ),
    Unread(
        ("spec", "containers", "*", "restartPolicy"),
        "the kubelet decides by it, in place of the pod's policy, whether the container starts again",
    ),
    Unread(
        ("spec", "initContainers", "*", "restartPolicyRules"),
        "the kubelet decides by its rules and the exit code whether the container starts again",
    ),
)


def warn_unread_fields(manifests: Iterable[Manifest]) -> list[Notice]:
    """Each field of a kind is reported once, at its first use."""
    notices: dict[tuple[str, str], Notice] = {}
    for manifest in manifests:
        for path, field in unread_fields(manifest.object, manifest.kind):
            notices.setdefault((manifest.kind, field.in_cluster), _unread_notice(field, manifest.where(path)))
    return list(notices.values())


def unread_fields_of_cluster(objects: Mapping[str, Iterable[Object]]) -> list[str]:
    """The same for the objects of a cluster, by kind key, as text. What another object owns goes by its owner's fields."""
    free = [
        Manifest(obj, kind)
        for kind, several in sorted(objects.items())
        if kind in KINDS
        for obj in several
        if not owner_references(obj)
    ]
    return list(map(str, warn_unread_fields(free)))


def _unread_notice(field: Unread, where: Where) -> Notice:
    return Notice("kailab does not read it", where, in_cluster=field.in_cluster)


def new_field_notices(kind: str, before: Object, after: Object, embedded: bool) -> list[Notice]:
    """Notices about fields of ``after`` that ``before`` does not have and that nothing acts on. ``embedded``: also about fields that only an
    embedded lab does not read."""
    unknown_before = set(unknown_fields(before, kind))
    notices = [
        Notice(text, Where(field=path), "not-meant")
        for path, text in unknown_fields(after, kind)
        if (path, text) not in unknown_before
    ]
    if embedded:
        unread_before = {path for path, _ in unread_fields(before, kind)}
        notices += [
            _unread_notice(field, Where(field=path))
            for path, field in unread_fields(after, kind)
            if path not in unread_before
        ]
    return notices


def unread_fields(obj: dict[str, Any], kind: str) -> Iterator[tuple[str, Unread]]:
    """Pairs of path and field. ``kind``: the kind key."""
    known = KINDS.get(kind)
    for field in known.unread if known is not None else ():
        for path, value in _values_at(obj, field.steps, ""):
            if value and value not in field.as_left_out and (not field.only or value in field.only):
                yield path, field
    for described in described_pods(obj):
        for field in OF_PODS:
            for path, value in _values_at(described.pod["spec"], field.steps[1:], ""):
                if value:
                    yield f"{described.spec}{path}", field


def _values_at(value: Any, steps: tuple[str, ...], path: str) -> Iterator[tuple[str, Any]]:
    if not steps:
        yield path.removeprefix("."), value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, list):
        for index, item in enumerate(value if step == "*" else ()):
            yield from _values_at(item, rest, f"{path}[{index}]")
    elif isinstance(value, dict):
        # Most steps name one field, which most objects do not have.
        if "*" in step:
            names = [name for name in value if fnmatchcase(str(name), step)]
        else:
            names = [step] if step in value else []
        for name in names:
            shown = f"{path}.{name}" if "." not in str(name) else f"{path}[{name}]"
            yield from _values_at(value[name], rest, shown)
