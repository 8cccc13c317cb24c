"""How each cause is removed in the manifests: for each code, a change after which that cause cannot apply.

The list follows from the meaning of the codes and shares nothing with the steps that answers suggest. Those are
minimal; these need not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from checks.explaining import removal_steps
from checks.explaining.removal_steps import node_copies
from checks.explaining.situation import Situation, Step
from checks.explaining.workload_context import Remover, WorkloadContext
from checks.explaining.workloads import AppliedWorkload
from kailab.lab.answer import CauseCode
from kailab.lab.lab import Lab
from kailab.model import labels


@dataclass(frozen=True)
class CauseRemoval:
    """Steps that remove a cause. ``refusals`` False: binds are no longer refused."""

    steps: tuple[Step, ...]
    refusals: bool = True


MORE_ROOM = frozenset(
    {
        CauseCode.NOT_ENOUGH_GPUS, CauseCode.NOT_ENOUGH_RESOURCES, CauseCode.NOT_ENOUGH_CPU, CauseCode.NOT_ENOUGH_MEMORY, CauseCode.NO_POD_SLOTS, CauseCode.FRAGMENTED, CauseCode.NO_DOMAIN_FREE,
        CauseCode.KEPT_APART, CauseCode.LARGER_THAN_THE_FLEET, CauseCode.LARGER_THAN_ANY_NODE, CauseCode.LARGER_THAN_ANY_DOMAIN,
        CauseCode.VICTIMS_NON_PREEMPTIBLE,
    }
)  # fmt: skip
"""Codes that are removed by adding nodes or by deleting everything that others hold, which also removes other causes
(of nodes and of limits).
"""


def cause_removal(situation: Situation, lab: Lab, work: AppliedWorkload, code: str) -> CauseRemoval | None:
    """The removal of a cause; None if the code cannot be removed like this."""
    if code == CauseCode.BIND_REFUSED:
        return CauseRemoval((), refusals=False)
    remover = _REMOVERS.get(code)
    return None if remover is None else CauseRemoval(tuple(remover(WorkloadContext(situation, lab, work))))


_LARGER = node_copies(factor=16)
# In racks of their own as well: KAI finds no domain at a level above the deepest one that all nodes are in.
_LARGER_DOMAINS = removal_steps.one_after_the_other(
    _LARGER, node_copies(places=("lab/rack",), factor=16), removal_steps.work_begun_anew
)
_MORE = node_copies(places=("lab/rack",))
# Pods that have to join others of their group can go to no other rack.
_BESIDE = node_copies()


def _without_domain_of_one_node(context: WorkloadContext) -> Iterator[Step]:
    """Where each node is a domain, no node is beside it, so the work needs none any more."""
    if (context.manifests[0]["metadata"].get("annotations") or {}).get(labels.TOPOLOGY_REQUIRED) == labels.HOSTNAME:
        yield from removal_steps.workload_reapplied(removal_steps.leave_topology)(context)


# A patch cannot change what a node offers, so the split nodes are new ones.
_SPLIT = node_copies(offered=removal_steps.split_gpus("12"))

_REMOVERS: Mapping[str, Remover] = {
    CauseCode.QUEUE_LABEL_MISSING: removal_steps.queue_named,
    CauseCode.QUEUE_MISSING: removal_steps.queue_created,
    CauseCode.QUEUE_NOT_LEAF: removal_steps.queue_named,
    CauseCode.QUEUE_PARENT_MISSING: removal_steps.parent_created,
    CauseCode.QUEUE_HAS_NO_RESOURCES: removal_steps.queues_patched((), removal_steps.add_missing_amounts),
    CauseCode.OVER_LIMIT: removal_steps.queue_amounts(limit=-1),
    CauseCode.NON_PREEMPTIBLE_OVER_QUOTA: removal_steps.queue_amounts(quota=-1),
    CauseCode.FAIR_SHARE_REACHED: removal_steps.queue_amounts(quota=-1),
    CauseCode.NO_WEIGHT: removal_steps.queue_amounts(overQuotaWeight=5),
    CauseCode.GANG_INCOMPLETE: removal_steps.gang_shrunk,
    CauseCode.SCHEDULING_GATED: removal_steps.fields_removed("schedulingGates"),
    CauseCode.SUSPENDED: removal_steps.workload_resumed,
    CauseCode.SELECTOR_MATCHES_NO_NODE: removal_steps.fields_removed("nodeSelector", "affinity"),
    CauseCode.TAINT_NOT_TOLERATED: removal_steps.nodes_patched(lambda _: {"spec": {"taints": None}}),
    CauseCode.NODES_CORDONED: removal_steps.nodes_opened,
    CauseCode.NOT_ENOUGH_GPUS: _MORE,
    CauseCode.NOT_ENOUGH_RESOURCES: _MORE,
    CauseCode.NOT_ENOUGH_CPU: _MORE,
    CauseCode.NOT_ENOUGH_MEMORY: _MORE,
    CauseCode.NO_POD_SLOTS: _MORE,
    CauseCode.FRAGMENTED: _MORE,
    CauseCode.NO_DOMAIN_FREE: removal_steps.one_after_the_other(_BESIDE, _without_domain_of_one_node),
    CauseCode.KEPT_APART: removal_steps.one_after_the_other(_BESIDE, _MORE, _without_domain_of_one_node),
    CauseCode.LARGER_THAN_THE_FLEET: removal_steps.one_after_the_other(_MORE, _LARGER),
    CauseCode.LARGER_THAN_ANY_NODE: _LARGER,
    CauseCode.LARGER_THAN_ANY_DOMAIN: _LARGER_DOMAINS,
    CauseCode.GPU_SHARE_TOO_LARGE: removal_steps.workload_reapplied(removal_steps.shrink_share),
    CauseCode.GPU_MEMORY_UNKNOWN: removal_steps.nodes_patched(
        lambda _: {"metadata": {"labels": {labels.GPU_NODE_MEMORY: "81920"}}}
    ),
    CauseCode.MIG_PROFILE_ABSENT: _SPLIT,
    CauseCode.VOLUME_MISSING: removal_steps.volumes_created,
    CauseCode.CLAIM_REFUSED: removal_steps.claims_labelled,
    CauseCode.TOPOLOGY_UNKNOWN: removal_steps.topology_created,
    CauseCode.VICTIMS_PROTECTED: removal_steps.min_runtimes_removed,
    CauseCode.VICTIMS_WITHIN_QUOTA: removal_steps.other_quotas_removed,
    CauseCode.VICTIMS_NON_PREEMPTIBLE: removal_steps.others_deleted,
    CauseCode.PREEMPTION_DELAY: removal_steps.workload_reapplied(removal_steps.remove_delay),
    CauseCode.BEHIND_OTHERS: removal_steps.other_waiting_deleted,
    CauseCode.NODE_POOL_NOT_SERVED: removal_steps.node_pools_removed,
    CauseCode.PRIORITY_CLASS_MISSING: removal_steps.priority_class_created,
    CauseCode.RUNTIME_CLASS_MISSING: removal_steps.runtime_class_created,
}
