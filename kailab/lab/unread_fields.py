"""Notices about fields that decide in a cluster where, when or how many pods run, and that nothing in an embedded lab reads.

Each kind lists its own (``Kind.unread``); those of every pod are in ``OF_PODS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from kailab.model.kind import Unread
from kailab.model.kinds import KINDS
from kailab.model.manifests import Manifest, Notice
from kailab.model.validation.advice import pod_templates

OF_PODS = (
    Unread(
        ("spec", "resources"),
        "kube-scheduler takes it for what the pod asks for, and KAI adds up what its containers ask for",
    ),
    Unread(
        ("spec", "volumes", "*", "ephemeral"),
        "a claim is made for it, and the pod waits until that is bound, and runs where its volume can be reached",
    ),
)


def warn_unread_fields(manifests: Iterable[Manifest]) -> list[Notice]:
    """Each field of a kind is reported once, at its first use."""
    notices: dict[tuple[str, str], Notice] = {}
    for manifest in manifests:
        for path, field in unread_fields(manifest.object, manifest.kind):
            notices.setdefault((manifest.kind, field.in_cluster), Notice(sentence(field), manifest.where(path)))
    return list(notices.values())


def sentence(field: Unread) -> str:
    return f"kailab does not read it; in a cluster {field.in_cluster}"


def unread_fields(obj: dict[str, Any], kind: str) -> Iterator[tuple[str, Unread]]:
    """Pairs of path and field. ``kind``: the kind key."""
    known = KINDS.get(kind)
    for field in known.unread if known is not None else ():
        for path, value in _found(obj, field.steps, ""):
            if value and value not in field.as_left_out:
                yield path, field
    for above, pod in pod_templates(obj):
        for field in OF_PODS:
            yield from ((f"{above}{path}", field) for path, value in _found(pod, field.steps, "") if value)


def _found(value: Any, steps: tuple[str, ...], path: str) -> Iterator[tuple[str, Any]]:
    if not steps:
        yield path.removeprefix("."), value
        return
    step, *rest = steps
    if isinstance(value, list):
        for index, item in enumerate(value if step == "*" else ()):
            yield from _found(item, tuple(rest), f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if fnmatchcase(str(name), step):
                yield from _found(item, tuple(rest), f"{path}.{name}" if "." not in str(name) else f"{path}[{name}]")
