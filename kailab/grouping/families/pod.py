"""Pods without an owner: each a PodGroup of its own, but for Spark applications and the gang labels of the older KAI.

A Spark driver and its executors share the label ``spark-app-selector``, which names their PodGroup.

The older KAI made one gang of the bare pods of a namespace that carry the same ``kai.nvidia.com/job-id``; ``job-size``
says how many must start together, ``job-index`` tells them apart. The first of them decides queue, priority and the
rest; all of them own the PodGroup, so it stays as long as one of them does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import title, whole_number
from kailab.grouping.ownermeta import TOP_OWNER_METADATA
from kailab.grouping.records import Grouping, Plan
from kailab.model.labels import JOB_ID, JOB_INDEX, JOB_SIZE, SUBGROUP_NAME
from kailab.model.objects import annotations_of, labels_of

_SPARK_APP = "spark-app-name"
_SPARK_SELECTOR = "spark-app-selector"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9-]+")


def _pod(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    labels = labels_of(pod)
    grouping = default_grouping(top, pod, (), context)
    if _SPARK_APP in labels and _SPARK_SELECTOR in labels:
        grouping.name = labels[_SPARK_SELECTOR]
    # Bare pods only: who is owned by a pod (a Spark executor by its driver) comes here, too.
    elif context.config.older_labels and not chain and has_gang_labels(labels):
        _make_gang(grouping, pod)
    return Plan(grouping)


def has_gang_labels(labels: Mapping[str, str]) -> bool:
    """Whether a pod carries the gang labels of the older KAI: an id and a size."""
    return bool(labels.get(JOB_ID)) and JOB_SIZE in labels


def gang_size(pod: Object) -> int:
    """The ``job-size`` of a pod that has one. Raises GroupingError unless it is a whole number above 0."""
    return whole_number(labels_of(pod)[JOB_SIZE], f"{title(pod)}: label {JOB_SIZE}", least=1)


def _make_gang(grouping: Grouping, pod: Object) -> None:
    grouping.name = f"pg-{_as_name(labels_of(pod)[JOB_ID])}"
    grouping.min_member = gang_size(pod)
    grouping.shared = True
    # Without what is the pod's own: the PodGroup is that of all of them.
    grouping.labels = {k: v for k, v in labels_of(pod).items() if k not in (JOB_INDEX, SUBGROUP_NAME)}
    grouping.annotations = {k: v for k, v in annotations_of(pod).items() if k != TOP_OWNER_METADATA}


def _as_name(job_id: str) -> str:
    """The id as part of an object's name; ids that have to be changed for it are kept apart by a digest."""
    name = _NOT_IN_A_NAME.sub("-", job_id.lower()).strip("-")
    if name == job_id:
        return name
    return f"{name}-{hashlib.sha256(job_id.encode()).hexdigest()[:8]}".lstrip("-")


POD = Family("pod", _pod, per_owner=False)
