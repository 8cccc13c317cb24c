"""For each cause what may be changed, the least disturbance first. What is evicted for a change shows only when it is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from kailab.explain.cause import Code
from kailab.explain.steps import (
    gangs,
    holding,
    naming,
    nodechanges,
    others,
    places,
    queuerules,
    requests,
    topologies,
    victims,
    waiting,
)
from kailab.explain.steps.proposal import Way
from kailab.explain.steps.setting import Setting

Source: TypeAlias = Callable[[Setting], Iterable[Way]]

_ROOM: tuple[Source, ...] = (waiting.wait, nodechanges.add_nodes, others.make_room)
_RIGHTS: tuple[Source, ...] = (queuerules.raise_claim, queuerules.raise_weight, victims.raise_priority)
_TOPOLOGY: tuple[Source, ...] = (topologies.wider_level, topologies.prefer_level, topologies.no_topology)

CATALOGUE: Mapping[Code, tuple[Source, ...]] = {
    Code.QUEUE_LABEL_MISSING: (naming.another_queue, naming.make_queue),
    Code.QUEUE_MISSING: (naming.another_queue, naming.make_queue),
    Code.QUEUE_NOT_LEAF: (naming.another_queue,),
    Code.QUEUE_PARENT_MISSING: (naming.mend_parents, naming.another_queue),
    Code.QUEUE_HAS_NO_RESOURCES: (queuerules.give_resources,),
    Code.OVER_LIMIT: (queuerules.raise_limits, waiting.wait, others.make_room),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: (
        victims.make_preemptible, queuerules.raise_quotas, waiting.wait, others.make_room,
    ),
    Code.GANG_INCOMPLETE: (gangs.add_missing_pods, gangs.grow_to_minimum, gangs.lower_minimum),
    Code.SCHEDULING_GATED: (holding.open_gates,),
    Code.SUSPENDED: (holding.resume,),
    Code.PODS_NOT_CREATED: (gangs.start_missing, holding.resume, holding.make_priority_class, waiting.wait),
    Code.SELECTOR_MATCHES_NO_NODE: (places.another_selector, places.another_affinity, places.label_nodes),
    Code.TAINT_NOT_TOLERATED: (places.tolerate, places.another_selector, nodechanges.remove_taints),
    Code.NODES_CORDONED: (
        nodechanges.uncordon, nodechanges.make_ready, places.another_selector, nodechanges.add_nodes,
    ),
    Code.NOT_ENOUGH_GPUS: (places.another_selector, *_RIGHTS, nodechanges.uncordon, *_ROOM, requests.fewer_gpus),
    Code.NOT_ENOUGH_RESOURCES: (places.another_selector, *_RIGHTS, nodechanges.uncordon, *_ROOM),
    Code.NOT_ENOUGH_CPU: (requests.less_cpu, places.another_selector, *_RIGHTS, *_ROOM),
    Code.NOT_ENOUGH_MEMORY: (requests.less_memory, places.another_selector, *_RIGHTS, *_ROOM),
    Code.NO_POD_SLOTS: (places.another_selector, *_RIGHTS, *_ROOM),
    Code.FRAGMENTED: (places.another_selector, *_TOPOLOGY, *_RIGHTS, nodechanges.uncordon, *_ROOM, requests.fewer_gpus),
    Code.LARGER_THAN_ANY_NODE: (
        places.another_selector, requests.fewer_gpus, requests.less_cpu, requests.less_memory,
    ),
    Code.LARGER_THAN_THE_FLEET: (places.another_selector, gangs.smaller, nodechanges.uncordon, nodechanges.add_nodes),
    Code.GPU_SHARE_TOO_LARGE: (places.another_selector, requests.smaller_share),
    Code.GPU_MEMORY_UNKNOWN: (requests.share_by_fraction, nodechanges.tell_gpu_memory, places.another_selector),
    Code.MIG_PROFILE_ABSENT: (requests.another_profile,),
    Code.VOLUME_MISSING: (holding.make_references,),
    Code.CLAIM_REFUSED: (holding.label_claims,),
    Code.TOPOLOGY_UNKNOWN: (topologies.existing_topology, topologies.no_topology),
    Code.LARGER_THAN_ANY_DOMAIN: (*_TOPOLOGY, gangs.smaller),
    Code.NO_DOMAIN_FREE: (*_TOPOLOGY, *_RIGHTS, *_ROOM, gangs.smaller),
    Code.FAIR_SHARE_REACHED: (*_RIGHTS, *_ROOM),
    Code.NO_WEIGHT: (queuerules.raise_weight, queuerules.raise_claim, *_ROOM),
    Code.VICTIMS_PROTECTED: (waiting.wait, victims.end_protection, nodechanges.add_nodes, others.make_room),
    Code.VICTIMS_WITHIN_QUOTA: (*_RIGHTS, victims.lower_others, *_ROOM),
    Code.VICTIMS_NON_PREEMPTIBLE: (*_RIGHTS, *_ROOM),
    Code.PREEMPTION_DELAY: (victims.drop_delay, waiting.wait, nodechanges.add_nodes, others.make_room),
    Code.BIND_REFUSED: (),
    Code.FAILED: (),
    Code.NO_CONTROLLER: (),
    Code.BIND_RETRIED: (waiting.wait,),
    Code.OTHER_SCHEDULER: (naming.name_scheduler,),
    Code.GROUPING_FAILED: (),
    Code.POD_GROUP_MISSING: (),
    Code.STALE_GANG: (gangs.add_missing_pods, gangs.grow_to_minimum),
    Code.BEHIND_OTHERS: (
        others.withdraw_what_stands_in_front, victims.raise_priority, victims.raise_queue_priority, waiting.wait, nodechanges.add_nodes,
        others.send_away_who_waits, others.make_room,
    ),
    Code.NODE_POOL_NOT_SERVED: (holding.leave_node_pool,),
    Code.PRIORITY_CLASS_MISSING: (holding.make_priority_class,),
    Code.KEPT_APART: (places.apart_no_more, nodechanges.uncordon, *_ROOM),
    Code.EVICTED: (
        *_RIGHTS, queuerules.raise_limits, waiting.wait, nodechanges.uncordon, nodechanges.add_nodes, others.make_room,
        others.send_away_who_waits,
    ),
    Code.BORROWING: (),
}  # fmt: skip
