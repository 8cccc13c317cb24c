"""Priority class and preemptibility of a group.

A class named by an owner's label, the pod's label or the pod's spec counts only if such a PriorityClass exists; then
the default of the owner's kind in the ConfigMap of defaults, under the same condition; then the family's own default.
Preemptibility: the label of an owner, of the pod, then the ConfigMap's default; none leaves it to the priority.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kailab.cluster.protocol import Object
from kailab.grouping.family import Context
from kailab.grouping.fields import group_version
from kailab.model.labels import PREEMPTIBILITY, PRIORITY_CLASS
from kailab.model.objects import labels_of

TRAIN = "train"
BUILD = "build"
INFERENCE = "inference"

_PREEMPTIBILITIES = ("preemptible", "non-preemptible", "")  # empty: by the priority, said on purpose


class KindDefaults(NamedTuple):
    """What the ConfigMap says for one kind."""

    priority_class: str = ""
    preemptibility: str = ""


def priority_class_of(owners: Sequence[Object], pod: Object, context: Context, fallback: str) -> str:
    """The name of the group's PriorityClass. ``owners``: nearest first; their order decides."""
    pod_class = labels_of(pod).get(PRIORITY_CLASS)
    if pod_class is None:
        pod_class = (pod.get("spec") or {}).get("priorityClassName") or ""
    for owner in owners:
        # The pod's class stands in for an owner without a label. Where that class exists, no owner further up is asked.
        named = labels_of(owner).get(PRIORITY_CLASS, pod_class)
        if named and _exists(named, context):
            return named
    defaults = defaults_by_kind(context)
    for owner in owners if defaults else ():
        named = defaults_for(owner, defaults).priority_class
        if named and _exists(named, context):
            return named
    return fallback


def preemptibility_of(owners: Sequence[Object], pod: Object, context: Context) -> str:
    """``preemptible``, ``non-preemptible`` or empty. Labels with any other value are passed over."""
    for obj in (*owners, pod):
        value = labels_of(obj).get(PREEMPTIBILITY)
        if value is not None and value in _PREEMPTIBILITIES:
            return value
    defaults = defaults_by_kind(context)
    for owner in owners if defaults else ():
        value = defaults_for(owner, defaults).preemptibility.lower()
        if value and value in _PREEMPTIBILITIES:
            return value
    return ""


def kind_defaults(owner: Object, context: Context) -> KindDefaults:
    """The ConfigMap's defaults for the owner's kind; a class that does not exist is left out."""
    found = defaults_for(owner, defaults_by_kind(context))
    if found.priority_class and not _exists(found.priority_class, context):
        return found._replace(priority_class="")
    return found


def defaults_for(owner: Object, defaults: Mapping[str, KindDefaults]) -> KindDefaults:
    """By ``Kind.group`` first, then by the bare kind."""
    kind = owner.get("kind") or ""
    group, _ = group_version(owner.get("apiVersion") or "")
    found = defaults.get(f"{kind}.{group}") if group else None
    return found or defaults.get(kind) or KindDefaults()


def defaults_by_kind(context: Context) -> Mapping[str, KindDefaults]:
    """The ConfigMap of defaults, read and parsed; empty when there is none or it can't be read."""
    if context.config.defaults_configmap is None:
        return {}
    namespace, name = context.config.defaults_configmap
    configmap = context.reads.get("v1", "ConfigMap", namespace, name)
    text = ((configmap or {}).get("data") or {}).get("types")
    return _parse_defaults(text) if isinstance(text, str) else {}


@lru_cache(maxsize=4)
def _parse_defaults(text: str) -> Mapping[str, KindDefaults]:
    try:
        entries = json.loads(text)
    except ValueError:
        return {}
    # As in KAI: one entry that can't be read, and none of the defaults holds.
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return {}
    defaults = {}
    for entry in entries:
        fields = [entry.get(key, "") for key in ("typeName", "group", "priorityName", "preemptibility")]
        if not all(isinstance(value, str) for value in fields):
            return {}
        kind, group, priority_class, preemptibility = fields
        defaults[f"{kind}.{group}" if group else kind] = KindDefaults(priority_class, preemptibility)
    return defaults


def _exists(priority_class: str, context: Context) -> bool:
    return context.reads.get("scheduling.k8s.io/v1", "PriorityClass", None, priority_class) is not None
