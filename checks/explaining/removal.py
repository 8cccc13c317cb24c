"""Causes taken away in the manifests: for each code the change after which that very cause can be none any more.

This is the oracle's own list. It is made of the codes' meanings alone and shares nothing with the steps that answers print, which
are the smallest that help; here nothing is spared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checks.explaining.place import Place, Remover
from checks.explaining.removers import named, nodes, others, queues, workload
from checks.explaining.removers.twins import twins
from checks.explaining.situation import Situation, Step
from checks.explaining.subject import Work
from kailab.explain.answer import Code
from kailab.lab.lab import Lab
from kailab.model import labels


@dataclass(frozen=True)
class Removed:
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


def removed(situation: Situation, lab: Lab, work: Work, code: str) -> Removed | None:
    """None where a cause of that code can't be taken away so."""
    if code == Code.BIND_REFUSED:
        return Removed((), refusals=False)
    remover = _REMOVERS.get(code)
    return None if remover is None else Removed(tuple(remover(Place(situation, lab, work))))


_LARGER = twins(factor=16)
_MORE = twins(places=("lab/rack",))
# Pods that have to join others of their group can go to no other rack.
_BESIDE = twins()
# A patch of a node does not reach what it offers, so the nodes that are split are new ones.
_SPLIT = twins(offered={f"{labels.MIG_PREFIX}{name}": "12" for name in ("1g.10gb", "3g.40gb", "7g.80gb")})

_REMOVERS: Mapping[str, Remover] = {
    Code.QUEUE_LABEL_MISSING: workload.labelled(labels.QUEUE, workload.some_leaf),
    Code.QUEUE_MISSING: queues.queue_there,
    Code.QUEUE_NOT_LEAF: workload.labelled(labels.QUEUE, workload.some_leaf),
    Code.QUEUE_PARENT_MISSING: queues.parents_there,
    Code.QUEUE_HAS_NO_RESOURCES: queues.each((), queues.missing_amounts),
    Code.OVER_LIMIT: queues.amounts(limit=-1),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: queues.amounts(quota=-1),
    Code.FAIR_SHARE_REACHED: queues.amounts(quota=-1),
    Code.NO_WEIGHT: queues.amounts(overQuotaWeight=5),
    Code.GANG_INCOMPLETE: workload.smaller_gang,
    Code.SCHEDULING_GATED: workload.without("schedulingGates"),
    Code.SUSPENDED: workload.not_suspended,
    Code.SELECTOR_MATCHES_NO_NODE: workload.without("nodeSelector", "affinity"),
    Code.TAINT_NOT_TOLERATED: nodes.patched(lambda _: {"spec": {"taints": None}}),
    Code.NODES_CORDONED: nodes.patched(lambda _: {"spec": {"unschedulable": None}}),
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
    Code.GPU_SHARE_TOO_LARGE: workload.written_anew(workload.smaller_share),
    Code.GPU_MEMORY_UNKNOWN: nodes.patched(lambda _: {"metadata": {"labels": {labels.GPU_NODE_MEMORY: "81920"}}}),
    Code.MIG_PROFILE_ABSENT: _SPLIT,
    Code.VOLUME_MISSING: named.volumes,
    Code.CLAIM_REFUSED: named.claims,
    Code.TOPOLOGY_UNKNOWN: named.topology,
    Code.VICTIMS_PROTECTED: queues.no_min_runtimes,
    Code.VICTIMS_WITHIN_QUOTA: queues.others_poor,
    Code.VICTIMS_NON_PREEMPTIBLE: others.without_others,
    Code.PREEMPTION_DELAY: workload.written_anew(workload.impatient),
    Code.BEHIND_OTHERS: others.nobody_else_waits,
    Code.NODE_POOL_NOT_SERVED: nodes.served,
    Code.PRIORITY_CLASS_MISSING: named.priority_class,
}
