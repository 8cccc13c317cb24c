"""A cache of plans by owner, so that the pods of a gang are grouped once.

A plan is valid for pods that agree in everything its family reads, until one of their owners or a shared object (PriorityClass, ConfigMap,
Namespace) changes. Pods of an owner arrive close together, so the cache keeps only the latest owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kailab.cluster.protocol import Object
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.default import POD_ANNOTATIONS, POD_LABELS
from kailab.grouping.family import Context, Family, GroupingConfig
from kailab.grouping.pod_grouping import family_for, family_of
from kailab.grouping.records import Plan
from kailab.model.objects import annotations_of, labels_of, metadata_of, spec_of, uid_of

_Signature: TypeAlias = tuple[object, ...]
_MOST = 64  # owners


@dataclass(slots=True)
class _CachedPlan:
    """The plan of an owner, and what it was made from. ``epoch``: see ``ClusterReader``. ``signature``: computed when a second pod needs it."""

    epoch: int
    family: Family
    pod: Object
    owners: Sequence[Object]
    plan: Plan
    signature: _Signature | None = None


class PlanCache:
    """Makes plans and caches those of the latest owners."""

    def __init__(self, reads: ClusterReader, config: GroupingConfig) -> None:
        self._reads = reads
        self._context = Context(reads, config, family_for)
        self._cached: dict[str, _CachedPlan] = {}
        self._labels = (*POD_LABELS, config.queue_label, config.node_pool_label)

    def plan(self, pod: Object, owners: Sequence[Object]) -> tuple[Plan, bool]:
        """The plan for a pod, and whether it is the plan of its owner's last pod. Raises GroupingError."""
        family = family_of(pod, owners)
        if not owners or not family.per_owner:
            return self._make(family, pod, owners), False
        # Read before the plan is made, because making it may begin watches, which changes the epoch.
        uid, epoch = uid_of(owners[-1]), self._reads.epoch
        cached = self._cached.get(uid)
        if cached is not None and cached.epoch == epoch:
            # Computed only now, because most owners have a single pod.
            if cached.signature is None:
                cached.signature = self._signature(cached.family, cached.pod, cached.owners)
            if cached.signature == self._signature(family, pod, owners):
                return cached.plan, True
        plan = self._make(family, pod, owners)
        if cached is None and len(self._cached) >= _MOST:
            del self._cached[next(iter(self._cached))]
        self._cached[uid] = _CachedPlan(epoch, family, pod, owners, plan)
        return plan, False

    def _make(self, family: Family, pod: Object, owners: Sequence[Object]) -> Plan:
        plan = family.plan(owners[-1] if owners else pod, pod, owners, self._context)
        node_pool_label = self._context.config.node_pool_label
        node_pool = labels_of(pod).get(node_pool_label)
        if node_pool is not None:
            # As KAI's addNodePoolLabel, for every family.
            plan.grouping.labels.setdefault(node_pool_label, node_pool)
        return plan

    def _signature(self, family: Family, pod: Object, owners: Sequence[Object]) -> _Signature:
        labels, annotations = labels_of(pod), annotations_of(pod)
        return (
            *[metadata_of(owner).get("resourceVersion") for owner in owners],
            spec_of(pod).get("priorityClassName"),
            *[labels.get(key) for key in self._labels],
            *[labels.get(key) for key in family.pod_labels],
            *[annotations.get(key) for key in POD_ANNOTATIONS],
            *[annotations.get(key) for key in family.pod_annotations],
        )
