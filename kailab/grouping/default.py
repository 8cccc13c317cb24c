"""The default grouping that every family starts from: one PodGroup per top owner, ``minMember`` 1.

Queue: the queue label of the owner, else of the pod, else the project label of either (joined with the pod's node pool, if it has one),
else the label ``runai/queue`` of an older KAI on the owner, the pod or the namespace, else ``default-queue``.

Priority class: named by an owner's label, the pod's label or the pod's spec, if that PriorityClass exists; else the default of the
owner's kind in the ConfigMap of defaults, if it exists; else the family's default. Preemptibility: the label of an owner, of the pod,
then the ConfigMap's default; none leaves it to the priority.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import yaml

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.grouping.family import Context
from kailab.grouping.fields import group_version
from kailab.grouping.records import Grouping, GroupOwner, annotated_topology
from kailab.model.labels import (
    DEFAULT_QUEUE,
    PREEMPTIBILITY,
    PREEMPTION_DELAY,
    PRIORITY_CLASS,
    QUEUE_RUNAI,
    STALENESS_GRACE,
)
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of, spec_of, uid_of
from kailab.model.times import duration_seconds, format_duration

TOP_OWNER_METADATA = "kai.scheduler/top-owner-metadata"

# Texts that YAML would not read as the same string without quotes.
_NEEDS_QUOTES = re.compile(
    r"""
    | ~ | [Nn]ull | NULL | [Tt]rue | TRUE | [Ff]alse | FALSE
    | [yYnN] | [Yy]es | YES | [Nn]o | NO | [Oo]n | ON | [Oo]ff | OFF
    | [-+]? (?: 0b[01_]+ | 0o?[0-7_]+ | 0x[0-9a-fA-F_]+ | [0-9][0-9_]* )
    | [-+]? (?: \.[0-9]+ | [0-9]+(?:\.[0-9]*)? ) (?: [eE][-+]?[0-9]+ )?
    | [-+]? \.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
    | [-+]? [0-9][0-9_]* (?: :[0-9]{1,2} )+ (?: \.[0-9_]* )?
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*
    | [-?:,\[\]{}\#&*!|>'"%@`\s].* | .*:(?:\s.*)? | .*\s\#.* | .*\s
    """,
    re.VERBOSE | re.DOTALL,
)


# Usual names and UIDs, which YAML always reads as text: other scalars have no hyphen after a leading letter, and not four hyphens.
_TEXT = re.compile(r"[a-z]+-[-a-z0-9]*[a-z0-9]|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


def top_owner_metadata(owner: Object) -> str:
    """The value of the annotation ``TOP_OWNER_METADATA``: name, uid, group, version and kind of ``owner`` as YAML."""
    group, version = group_version(owner.get("apiVersion") or "")
    return (
        f"name: {_scalar(name_of(owner))}\nuid: {_scalar(uid_of(owner))}\ngroup: {_word(group)}\n"
        f"version: {_word(version)}\nkind: {_word(owner.get('kind') or '')}\n"
    )


def _scalar(text: str) -> str:
    if _TEXT.fullmatch(text):
        return text
    return json.dumps(text) if _NEEDS_QUOTES.fullmatch(text) or _has_other_type(text) else text


_word = lru_cache(maxsize=256)(_scalar)  # for frequent texts


def _has_other_type(text: str) -> bool:
    """Whether YAML 1.1 reads the text as another type (``0_.`` is a number)."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    return any(pattern.match(text) for _, pattern in resolvers)


PROJECT = "project"


def queue_of(owner: Object, pod: Object, context: Context) -> str:
    config = context.config
    owner_labels, pod_labels = labels_of(owner), labels_of(pod)
    queue = owner_labels.get(config.queue_label)
    # Compared with None: as in KAI, an empty label counts.
    if queue is None:
        queue = pod_labels.get(config.queue_label)
    if queue is not None:
        return queue
    project = owner_labels.get(PROJECT)
    if project is None:
        project = pod_labels.get(PROJECT)
    if project:
        node_pool = pod_labels.get(config.node_pool_label)
        return project if node_pool is None else f"{project}-{node_pool}"
    if config.older_labels:
        queue = owner_labels.get(QUEUE_RUNAI) or pod_labels.get(QUEUE_RUNAI) or _queue_of_namespace(pod, context)
    return queue or DEFAULT_QUEUE


def _queue_of_namespace(pod: Object, context: Context) -> str | None:
    namespace = context.reads.get("v1", "Namespace", None, namespace_of(pod))
    return None if namespace is None else labels_of(namespace).get(QUEUE_RUNAI)


TRAIN = "train"
BUILD = "build"
INFERENCE = "inference"

_PREEMPTIBILITIES = ("preemptible", "non-preemptible", "")  # "": by the priority


class KindDefaults(NamedTuple):
    """The defaults of one kind in the ConfigMap."""

    priority_class: str = ""
    preemptibility: str = ""


def priority_class_of(owners: Sequence[Object], pod: Object, context: Context, fallback: str) -> str:
    """The name of the group's PriorityClass. ``owners``: nearest first."""
    pod_class = labels_of(pod).get(PRIORITY_CLASS)
    if pod_class is None:
        pod_class = spec_of(pod).get("priorityClassName") or ""
    for owner in owners:
        # An owner without the label counts as having the pod's class. The first class that exists wins, so owners further up are ignored.
        class_name = labels_of(owner).get(PRIORITY_CLASS, pod_class)
        if class_name and _exists(class_name, context):
            return class_name
    defaults = defaults_by_kind(context)
    for owner in owners if defaults else ():
        class_name = defaults_for(owner, defaults).priority_class
        if class_name and _exists(class_name, context):
            return class_name
    return fallback


def preemptibility_of(owners: Sequence[Object], pod: Object, context: Context) -> str:
    """``preemptible``, ``non-preemptible`` or "". Labels with other values are ignored."""
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
    """The ConfigMap's defaults for the owner's kind, without a class that does not exist."""
    defaults = defaults_for(owner, defaults_by_kind(context))
    if defaults.priority_class and not _exists(defaults.priority_class, context):
        return defaults._replace(priority_class="")
    return defaults


def defaults_for(owner: Object, defaults: Mapping[str, KindDefaults]) -> KindDefaults:
    """The defaults for ``kind.group``, else for the bare kind."""
    kind = owner.get("kind") or ""
    group, _ = group_version(owner.get("apiVersion") or "")
    return (defaults.get(f"{kind}.{group}") if group else None) or defaults.get(kind) or KindDefaults()


def defaults_by_kind(context: Context) -> Mapping[str, KindDefaults]:
    """The parsed ConfigMap of defaults; empty if it is missing or invalid."""
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
    # As in KAI, one invalid entry makes all defaults invalid.
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


USER = "user"

# The labels and annotations of a pod that this module reads: pods that agree in these get the same grouping.
POD_LABELS = (USER, "project", "runai/queue", "priorityClassName", "kai.scheduler/preemptibility")
POD_ANNOTATIONS = (USER, PREEMPTION_DELAY, STALENESS_GRACE)


def default_grouping(
    top: Object, pod: Object, chain: Sequence[Object], context: Context, priority_class: str = TRAIN
) -> Grouping:
    """``pg-<owner>-<uid>`` with ``minMember`` 1 and the labels and annotations of the top owner.

    ``chain``: the owners whose labels count, nearest first; empty: only the top owner. ``priority_class``: the fallback. Source: KAI's
    default grouper.
    """
    # KAI's default grouper counts all owners, but its other plugins pass it only the top owner.
    owners = chain or (top,)
    all_annotations = [annotations_of(obj) for obj in (*owners, pod)]
    return Grouping(
        name=pod_group_name(top),
        namespace=namespace_of(pod),
        queue=queue_of(top, pod, context),
        priority_class=priority_class_of(owners, pod, context, priority_class),
        owner=reference_to(top),
        preemptibility=preemptibility_of(owners, pod, context),
        labels=group_labels(top, pod),
        annotations=group_annotations(top, pod),
        preemption_delay=_duration(PREEMPTION_DELAY, all_annotations, signed=False),
        staleness_grace_period=_duration(STALENESS_GRACE, all_annotations, signed=True),
        topology=annotated_topology(annotations_of(top).get),
    )


def pod_group_name(obj: Object) -> str:
    return f"pg-{name_of(obj)}-{uid_of(obj)}"


def reference_to(obj: Object) -> GroupOwner:
    return GroupOwner(obj.get("apiVersion") or "", obj.get("kind") or "", name_of(obj), uid_of(obj))


def group_labels(top: Object, pod: Object) -> dict[str, str]:
    """The owner's labels, and the pod's ``user`` where the owner has none."""
    labels = dict(labels_of(top))
    if USER not in labels:
        user = labels_of(pod).get(USER)
        if user is not None:
            labels[USER] = user
    return labels


def group_annotations(top: Object, pod: Object) -> dict[str, str]:
    """The pod's ``user``, the metadata of the top owner, and the owner's annotations, which take precedence."""
    annotations = {}
    user = annotations_of(pod).get(USER)
    if user is not None:
        annotations[USER] = user
    annotations[TOP_OWNER_METADATA] = top_owner_metadata(top)
    annotations.update(annotations_of(top))
    return annotations


def duration(text: str, signed: bool = False) -> str | None:
    """A duration in the form of a PodGroup; None if ``text`` is invalid, or negative and not ``signed``."""
    try:
        return format_duration(duration_seconds(text, signed=signed))
    except InputError:
        return None


def _duration(key: str, annotations: Iterable[Mapping[str, str]], signed: bool) -> str | None:
    """The first valid duration of the annotation ``key``."""
    for entries in annotations:
        text = entries.get(key)
        value = None if text is None else duration(text, signed)
        if value is not None:
            return value
    return None
