"""Plans kept for owners, so that the pods of a gang are grouped once and placed each.

A plan holds for pods that agree in all its family looks at, while none of the owners above them and nothing else that
decides has changed. Pods of an owner come close together, so only the latest owners are kept.
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
from kailab.model.objects import annotations_of, labels_of, uid_of

_Signature: TypeAlias = tuple[object, ...]
_MOST = 64  # owners whose pods may come mixed with each other's


@dataclass(slots=True)
class _Kept:
    """The plan of an owner, and of what it was made. ``epoch``: of what may decide about pods of any owner (PriorityClasses, the
    ConfigMap of defaults, Namespaces). ``signature``: once somebody asked for it."""

    epoch: int
    family: Family
    pod: Object
    owners: Sequence[Object]
    plan: Plan
    signature: _Signature | None = None


class PlanCache:
    """Makes plans, and keeps those of the latest owners."""

    def __init__(self, reads: ClusterReader, config: GroupingConfig) -> None:
        self._reads = reads
        self._context = Context(reads, config, family_for)
        self._kept: dict[str, _Kept] = {}
        self._labels = (*POD_LABELS, config.queue_label, config.node_pool_label)

    def plan(self, pod: Object, owners: Sequence[Object]) -> tuple[Plan, bool]:
        """The plan for a pod, and whether it is the very one its owner's last pod got. Raises GroupingError."""
        family = family_of(pod, owners)
        # A bare pod is its own owner, so nobody would ask for its plan again.
        if not owners or not family.per_owner:
            return self._make(family, pod, owners), False
        # Before the plan is made: what it is the first to ask for may be news by then.
        uid, epoch = uid_of(owners[-1]), self._reads.epoch
        kept = self._kept.get(uid)
        if kept is not None and kept.epoch == epoch:
            # Worked out only now: most owners have one pod, after which nobody asks.
            if kept.signature is None:
                kept.signature = self._signature(kept.family, kept.pod, kept.owners)
            if kept.signature == self._signature(family, pod, owners):
                return kept.plan, True
        plan = self._make(family, pod, owners)
        if kept is None and len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[uid] = _Kept(epoch, family, pod, owners, plan)
        return plan, False

    def forget(self) -> None:
        """Make every plan anew."""
        self._kept.clear()

    def _make(self, family: Family, pod: Object, owners: Sequence[Object]) -> Plan:
        plan = family.plan(owners[-1] if owners else pod, pod, owners, self._context)
        node_pool_label = self._context.config.node_pool_label
        node_pool = labels_of(pod).get(node_pool_label)
        if node_pool is not None:
            # KAI's addNodePoolLabel: for every family, after it is through.
            plan.grouping.labels.setdefault(node_pool_label, node_pool)
        return plan

    def _signature(self, family: Family, pod: Object, owners: Sequence[Object]) -> _Signature:
        labels, annotations = labels_of(pod), annotations_of(pod)
        return (
            *[owner["metadata"].get("resourceVersion") for owner in owners],
            (pod.get("spec") or {}).get("priorityClassName"),
            *[labels.get(key) for key in self._labels],
            *[labels.get(key) for key in family.pod_labels],
            *[annotations.get(key) for key in POD_ANNOTATIONS],
            *[annotations.get(key) for key in family.pod_annotations],
        )
