"""Why something does not run, or runs on what is not its own: a code for programs, a sentence for people, the objects it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Code(StrEnum):
    """The causes there are. A cause is what, taken away, lets the work run or brings up the next cause."""

    OTHER_SCHEDULER = "OtherScheduler"
    GROUPING_FAILED = "GroupingFailed"
    POD_GROUP_MISSING = "PodGroupMissing"
    QUEUE_LABEL_MISSING = "QueueLabelMissing"
    QUEUE_MISSING = "QueueMissing"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_PARENT_MISSING = "QueueParentMissing"
    QUEUE_HAS_NO_RESOURCES = "QueueHasNoResources"
    OVER_LIMIT = "OverLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    GANG_INCOMPLETE = "GangIncomplete"
    SCHEDULING_GATED = "SchedulingGated"
    SUSPENDED = "Suspended"
    FAILED = "Failed"
    NO_CONTROLLER = "NoController"
    PODS_NOT_CREATED = "PodsNotCreated"
    SELECTOR_MATCHES_NO_NODE = "SelectorMatchesNoNode"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODES_CORDONED = "NodesCordoned"
    NOT_ENOUGH_GPUS = "NotEnoughGPUs"
    NOT_ENOUGH_RESOURCES = "NotEnoughResources"
    NOT_ENOUGH_CPU = "NotEnoughCPU"
    NOT_ENOUGH_MEMORY = "NotEnoughMemory"
    NO_POD_SLOTS = "NoPodSlots"
    FRAGMENTED = "Fragmented"
    LARGER_THAN_ANY_NODE = "LargerThanAnyNode"
    LARGER_THAN_THE_FLEET = "LargerThanTheFleet"
    GPU_SHARE_TOO_LARGE = "GPUShareTooLarge"
    GPU_MEMORY_UNKNOWN = "GPUMemoryUnknown"
    MIG_PROFILE_ABSENT = "MIGProfileAbsent"
    VOLUME_MISSING = "VolumeMissing"
    CLAIM_REFUSED = "ClaimRefused"
    TOPOLOGY_UNKNOWN = "TopologyUnknown"
    LARGER_THAN_ANY_DOMAIN = "LargerThanAnyDomain"
    NO_DOMAIN_FREE = "NoDomainFree"
    FAIR_SHARE_REACHED = "FairShareReached"
    NO_WEIGHT = "NoWeight"
    VICTIMS_PROTECTED = "VictimsProtected"
    VICTIMS_WITHIN_QUOTA = "VictimsWithinQuota"
    VICTIMS_NON_PREEMPTIBLE = "VictimsNonPreemptible"
    PREEMPTION_DELAY = "PreemptionDelay"
    BIND_REFUSED = "BindRefused"
    BIND_RETRIED = "BindRetried"
    STALE_GANG = "StaleGang"
    BEHIND_OTHERS = "BehindOthers"
    NODE_POOL_NOT_SERVED = "NodePoolNotServed"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    KEPT_APART = "KeptApart"
    EVICTED = "Evicted"
    BORROWING = "Borrowing"


LAST = frozenset({Code.PODS_NOT_CREATED, Code.OVER_LIMIT, Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_RESOURCES})
"""Causes that say least: the first only where no other explains why."""


class Ref(NamedTuple):
    """An object that a cause is about. ``namespace`` is empty for what has none."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True)
class Cause:
    """``facts``: the numbers and names of the sentence, as plain values."""

    code: Code
    sentence: str
    objects: tuple[Ref, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = {"code": str(self.code), "sentence": self.sentence}
        if self.objects:
            found["objects"] = [
                {"kind": one.kind, **({"namespace": one.namespace} if one.namespace else {}), "name": one.name}
                for one in self.objects
            ]
        if self.facts:
            found["facts"] = dict(self.facts)
        return found
