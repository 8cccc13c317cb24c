"""The grouping every family starts from: one PodGroup per top owner, of one pod or more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.grouping.family import Context
from kailab.grouping.ownermeta import TOP_OWNER_METADATA, top_owner_metadata
from kailab.grouping.priority import TRAIN, preemptibility_of, priority_class_of
from kailab.grouping.queues import queue_of
from kailab.grouping.records import Grouping, OwnerReference, TopologyConstraint
from kailab.model.labels import (
    PREEMPTION_DELAY,
    STALENESS_GRACE,
    TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
)
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of, uid_of
from kailab.model.times import duration_seconds, format_duration

USER = "user"

# What this module and the queue and priority rules read of a pod: pods that agree in these get the same grouping.
POD_LABELS = (USER, "project", "runai/queue", "priorityClassName", "kai.scheduler/preemptibility")
POD_ANNOTATIONS = (USER, PREEMPTION_DELAY, STALENESS_GRACE)


def default_grouping(
    top: Object, pod: Object, chain: Sequence[Object], context: Context, priority_class: str = TRAIN
) -> Grouping:
    """``pg-<owner>-<uid>``, one pod enough, labels and annotations of the top owner.

    ``chain``: the owners whose labels count, nearest first; empty: the top owner alone. ``priority_class``: the one to
    fall back to. Source: KAI's default grouper.
    """
    # KAI's default grouper counts all owners where it is asked directly; its other plugins hand it the top owner alone.
    owners = chain or (top,)
    annotations = annotations_of(top)
    notes = [annotations_of(obj) for obj in (*owners, pod)]
    return Grouping(
        name=pod_group_name(top),
        namespace=namespace_of(pod),
        queue=queue_of(top, pod, context),
        priority_class=priority_class_of(owners, pod, context, priority_class),
        owner=reference_to(top),
        preemptibility=preemptibility_of(owners, pod, context),
        labels=group_labels(top, pod),
        annotations=group_annotations(top, pod),
        preemption_delay=_duration(PREEMPTION_DELAY, notes, signed=False),
        staleness_grace_period=_duration(STALENESS_GRACE, notes, signed=True),
        topology=TopologyConstraint(
            annotations.get(TOPOLOGY, ""),
            annotations.get(TOPOLOGY_REQUIRED, ""),
            annotations.get(TOPOLOGY_PREFERRED, ""),
        ),
    )


def pod_group_name(obj: Object) -> str:
    return f"pg-{name_of(obj)}-{uid_of(obj)}"


def reference_to(obj: Object) -> OwnerReference:
    return OwnerReference(obj.get("apiVersion") or "", obj.get("kind") or "", name_of(obj), uid_of(obj))


def group_labels(top: Object, pod: Object) -> dict[str, str]:
    """The owner's labels, and the pod's ``user`` where the owner has none."""
    labels = dict(labels_of(top))
    if USER not in labels:
        user = labels_of(pod).get(USER)
        if user is not None:
            labels[USER] = user
    return labels


def group_annotations(top: Object, pod: Object) -> dict[str, str]:
    """The pod's ``user``, who the top owner is, and the owner's annotations (which win)."""
    annotations = {}
    user = annotations_of(pod).get(USER)
    if user is not None:
        annotations[USER] = user
    annotations[TOP_OWNER_METADATA] = top_owner_metadata(top)
    annotations.update(annotations_of(top))
    return annotations


def duration(text: str, signed: bool = False) -> str | None:
    """A duration as PodGroup carries it; None when ``text`` is none, or negative and not ``signed``."""
    try:
        return format_duration(duration_seconds(text, signed=signed))
    except InputError:
        return None


def _duration(key: str, notes: Iterable[Mapping[str, str]], signed: bool) -> str | None:
    """The first valid one of the annotation ``key``."""
    # One that is not valid is passed over, as if it were not there.
    for found_on in notes:
        text = found_on.get(key)
        found = None if text is None else duration(text, signed)
        if found is not None:
            return found
    return None
