"""Causes taken away in the manifests: for each code the change after which that very cause can be none any more.

This is the oracle's own list. It is made of the codes' meanings alone and shares nothing with the steps that answers print, which
are the smallest that help; here nothing is spared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.explaining import removal_steps
from checks.explaining.removal_steps import node_copies
from checks.explaining.situation import Situation, Step
from checks.explaining.workload_context import Remover, WorkloadContext
from checks.explaining.workloads import AppliedWorkload
from kailab.explain.answer import Code
from kailab.lab.lab import Lab
from kailab.model import labels


@dataclass(frozen=True)
class CauseRemoval:
    """What takes a cause away. ``refusals``: False where binds are to be refused no longer."""

    steps: tuple[Step, ...]
    refusals: bool = True


MORE_ROOM = frozenset(
    {
        Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_RESOURCES, Code.NOT_ENOUGH_CPU, Code.NOT_ENOUGH_MEMORY, Code.NO_POD_SLOTS, Code.FRAGMENTED, Code.NO_DOMAIN_FREE,
        Code.KEPT_APART, Code.LARGER_THAN_THE_FLEET, Code.LARGER_THAN_ANY_NODE, Code.LARGER_THAN_ANY_DOMAIN,
        Code.VICTIMS_NON_PREEMPTIBLE,
    }
)  # fmt: skip
"""Taken away by more nodes or with all that others hold, which makes good other causes as well: of nodes, and of limits."""


def cause_removal(situation: Situation, lab: Lab, work: AppliedWorkload, code: str) -> CauseRemoval | None:
    """None where a cause of that code can't be taken away so."""
    if code == Code.BIND_REFUSED:
        return CauseRemoval((), refusals=False)
    remover = _REMOVERS.get(code)
    return None if remover is None else CauseRemoval(tuple(remover(WorkloadContext(situation, lab, work))))


_LARGER = node_copies(factor=16)
_MORE = node_copies(places=("lab/rack",))
# Pods that have to join others of their group can go to no other rack.
_BESIDE = node_copies()
# A patch of a node does not reach what it offers, so the nodes that are split are new ones.
_SPLIT = node_copies(offered={f"{labels.MIG_PREFIX}{name}": "12" for name in ("1g.10gb", "3g.40gb", "7g.80gb")})

_REMOVERS: Mapping[str, Remover] = {
    Code.QUEUE_LABEL_MISSING: removal_steps.workload_labelled(labels.QUEUE, removal_steps.nearest_leaf),
    Code.QUEUE_MISSING: removal_steps.queue_created,
    Code.QUEUE_NOT_LEAF: removal_steps.workload_labelled(labels.QUEUE, removal_steps.nearest_leaf),
    Code.QUEUE_PARENT_MISSING: removal_steps.parent_created,
    Code.QUEUE_HAS_NO_RESOURCES: removal_steps.queues_patched((), removal_steps.add_missing_amounts),
    Code.OVER_LIMIT: removal_steps.queue_amounts(limit=-1),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: removal_steps.queue_amounts(quota=-1),
    Code.FAIR_SHARE_REACHED: removal_steps.queue_amounts(quota=-1),
    Code.NO_WEIGHT: removal_steps.queue_amounts(overQuotaWeight=5),
    Code.GANG_INCOMPLETE: removal_steps.gang_shrunk,
    Code.SCHEDULING_GATED: removal_steps.fields_removed("schedulingGates"),
    Code.SUSPENDED: removal_steps.workload_resumed,
    Code.SELECTOR_MATCHES_NO_NODE: removal_steps.fields_removed("nodeSelector", "affinity"),
    Code.TAINT_NOT_TOLERATED: removal_steps.nodes_patched(lambda _: {"spec": {"taints": None}}),
    Code.NODES_CORDONED: removal_steps.nodes_patched(lambda _: {"spec": {"unschedulable": None}}),
    Code.NOT_ENOUGH_GPUS: _MORE,
    Code.NOT_ENOUGH_RESOURCES: _MORE,
    Code.NOT_ENOUGH_CPU: _MORE,
    Code.NOT_ENOUGH_MEMORY: _MORE,
    Code.NO_POD_SLOTS: _MORE,
    Code.FRAGMENTED: _MORE,
    Code.NO_DOMAIN_FREE: _BESIDE,
    Code.KEPT_APART: _MORE,
    Code.LARGER_THAN_THE_FLEET: _MORE,
    Code.LARGER_THAN_ANY_NODE: _LARGER,
    Code.LARGER_THAN_ANY_DOMAIN: _LARGER,
    Code.GPU_SHARE_TOO_LARGE: removal_steps.workload_reapplied(removal_steps.shrink_share),
    Code.GPU_MEMORY_UNKNOWN: removal_steps.nodes_patched(
        lambda _: {"metadata": {"labels": {labels.GPU_NODE_MEMORY: "81920"}}}
    ),
    Code.MIG_PROFILE_ABSENT: _SPLIT,
    Code.VOLUME_MISSING: removal_steps.volumes_created,
    Code.CLAIM_REFUSED: removal_steps.claims_labelled,
    Code.TOPOLOGY_UNKNOWN: removal_steps.topology_created,
    Code.VICTIMS_PROTECTED: removal_steps.min_runtimes_removed,
    Code.VICTIMS_WITHIN_QUOTA: removal_steps.other_quotas_removed,
    Code.VICTIMS_NON_PREEMPTIBLE: removal_steps.others_deleted,
    Code.PREEMPTION_DELAY: removal_steps.workload_reapplied(removal_steps.remove_delay),
    Code.BEHIND_OTHERS: removal_steps.other_waiting_deleted,
    Code.NODE_POOL_NOT_SERVED: removal_steps.node_pools_removed,
    Code.PRIORITY_CLASS_MISSING: removal_steps.priority_class_created,
}
