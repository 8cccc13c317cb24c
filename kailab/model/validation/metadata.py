"""metadata: names, labels, annotations, owners; and the rules for label keys and values that others use
too."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kailab.model.kinds import KINDS
from kailab.model.validation.fields import Faults

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)

_DNS_LABEL_KINDS = frozenset(("Namespace", "Service"))
_PATH_NAME_KINDS = frozenset(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"))

NAME_RULE = "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, 253 at most"
LABEL_RULE = "lower-case letters, digits and '-', beginning and ending with a letter or digit, 63 at most"
VALUE_RULE = "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, 63 at most"


@lru_cache(maxsize=8192)
def is_dns_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def is_dns_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def is_label_key(text: str) -> bool:
    """``name`` or ``domain/name``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_label_value(text: str) -> bool:
    return text == "" or (len(text) <= 63 and _NAME_PART.fullmatch(text) is not None)


def check_metadata(faults: Faults, obj: dict[str, Any], kind: str) -> None:
    meta = faults.mapping(obj, "metadata", "metadata", required=True)
    if meta is None:
        return
    _check_name(faults, meta, kind)
    known = KINDS.get(kind)
    space = faults.text(meta, "namespace", "metadata.namespace")
    if space:
        if known is not None and not known.namespaced:
            faults.add("metadata.namespace", f"{known.kind} objects live outside namespaces; leave it out")
        elif not is_dns_label(space):
            faults.wrong("metadata.namespace", space, LABEL_RULE)
    check_notes(faults, meta)
    for path, owner in faults.mappings(meta, "ownerReferences", "metadata.ownerReferences"):
        for key in ("apiVersion", "kind", "name", "uid"):
            faults.text(owner, key, f"{path}.{key}", required=True)
        faults.boolean(owner, "controller", f"{path}.controller")


def check_notes(faults: Faults, meta: dict[str, Any], path: str = "metadata") -> None:
    """The labels and annotations of a metadata."""
    check_labels(faults, meta, "labels", f"{path}.labels")
    annotations = faults.strings(meta, "annotations", f"{path}.annotations") or {}
    for key in annotations:
        # As the API server: keys of annotations are checked in small letters, keys of labels as they are.
        if not is_label_key(key.lower()):
            faults.add(f"{path}.annotations[{key:.80}]", "is not a valid key; expected name or domain/name")


def check_labels(faults: Faults, parent: dict[str, Any], key: str, path: str) -> None:
    """A mapping of labels: keys and values in their form."""
    labels = parent.get(key)
    if labels is None:
        return
    for name, value in (faults.mapping(parent, key, path) or {}).items():
        if not is_label_key(name):
            faults.add(f"{path}[{name:.80}]", "is not a valid label key; expected name or domain/name")
        if not isinstance(value, str):
            faults.wrong(f"{path}[{name:.80}]", value, "text (quote numbers and true/false)")
        elif not is_label_value(value):
            faults.wrong(f"{path}[{name:.80}]", value, f"a label value: {VALUE_RULE}")


def _check_name(faults: Faults, meta: dict[str, Any], kind: str) -> None:
    name = faults.text(meta, "name", "metadata.name")
    generated = faults.text(meta, "generateName", "metadata.generateName")
    if name is None and generated is None:
        faults.add("metadata.name", "is required (or metadata.generateName)")
    if name is not None:
        if kind in _DNS_LABEL_KINDS:
            if not is_dns_label(name):
                faults.wrong("metadata.name", name, LABEL_RULE)
        elif kind not in _PATH_NAME_KINDS and not is_dns_subdomain(name):
            faults.wrong("metadata.name", name, NAME_RULE)
    elif generated is not None and kind not in _PATH_NAME_KINDS:
        # What is put behind it begins with a letter or digit.
        stem = generated.rstrip("-.")
        if not stem or not is_dns_subdomain(stem):
            faults.wrong("metadata.generateName", generated, NAME_RULE)
