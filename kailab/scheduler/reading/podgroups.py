"""Reads PodGroup and PriorityClass objects into engine records. Source: KAI podgroup_info.SetPodGroup, subgroup_info.FromPodGroup,
cluster_info.setPodGroupPriorityAndPreemptibility."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kailab.cluster.protocol import Object, WatchEvent
from kailab.engine.snapshot.records import DEFAULT_PODSET, Constraint, PodGroup, PodSet, SubGroup
from kailab.model import labels as names
from kailab.model.multimap import multimap
from kailab.model.objects import annotations_of, metadata_of, name_of, spec_of, status_of
from kailab.model.quantities import parse_count
from kailab.scheduler.reading.queues import creation_time, duration_or_none, timestamp_or_none

DEFAULT_PODGROUP_PRIORITY = 50  # KAI's DefaultPodGroupPriority, the value of its class train
NON_PREEMPTIBLE_FROM = 100  # the value of KAI's class build
LAST_EVICTION = "kai.scheduler/last-eviction-timestamp"
DEFAULT_NODE_POOL = "default"

Aliases = Mapping[str, Mapping[str, str]]
"""Topology -> alias of a level -> node label of that level."""


class PriorityClasses:
    """PriorityClasses by name, with the global default (50 without a default class). Equal instances give equal priorities."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.never_preempt: set[str] = set()
        self._defaults: dict[str, int] = {}

    def process_event(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            name = name_of(event.object)
            self.values.pop(name, None)
            self._defaults.pop(name, None)
            self.never_preempt.discard(name)
        else:
            self.set(event.object)

    def set(self, priority_class: Object) -> None:
        name = name_of(priority_class)
        self.values[name] = int(priority_class.get("value") or 0)
        self._defaults.pop(name, None)
        if priority_class.get("globalDefault"):
            self._defaults[name] = self.values[name]
        self.never_preempt.discard(name)
        if priority_class.get("preemptionPolicy") == "Never":
            self.never_preempt.add(name)

    def default(self, otherwise: int = DEFAULT_PODGROUP_PRIORITY) -> int:
        # KAI takes any of several defaults; the first by name is deterministic.
        return self._defaults[min(self._defaults)] if self._defaults else otherwise

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PriorityClasses) and vars(self) == vars(other)

    def of(self, name: str) -> int:
        """The value of a class; the default for an unknown one."""
        value = self.values.get(name)
        return self.default() if value is None else value


def is_preemptible(spec: Mapping[str, Any], priority: int) -> bool:
    """The ``preemptibility`` of a PodGroup's spec; without one, by the value of its PriorityClass."""
    preemptibility = spec.get("preemptibility")
    return preemptibility == "preemptible" or (preemptibility != "non-preemptible" and priority < NON_PREEMPTIBLE_FROM)


def staleness_grace(podgroup: Object) -> float | None:
    """Seconds after which a gang that fell below its minimum is evicted. Negative: never. None: the scheduler's default."""
    own = spec_of(podgroup).get("stalenessGracePeriod") or annotations_of(podgroup).get(names.STALENESS_GRACE)
    return duration_or_none(own)


def podgroup_record(
    podgroup: Object, priorities: PriorityClasses, aliases: Aliases, *, order_preempts: bool = False
) -> PodGroup:
    """The engine's record of a PodGroup. ``order_preempts``: the order of jobs decides who evicts whom. KAI's preempt asks for
    a lower priority first, so a running PodGroup then stands one below its class, and only the order is left to decide."""
    metadata, spec, annotations = metadata_of(podgroup), spec_of(podgroup), annotations_of(podgroup)
    priority = priorities.of(spec.get("priorityClassName") or "")
    delay = duration_or_none(spec.get("preemptionDelay") or annotations.get(names.PREEMPTION_DELAY))
    last_start = timestamp_or_none(annotations.get(names.LAST_START))
    last_evicted = timestamp_or_none(annotations.get(LAST_EVICTION))
    running = last_start is not None and (last_evicted is None or last_evicted < last_start)
    return PodGroup(
        uid=metadata["uid"],
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        queue=spec.get("queue") or "",
        priority=priority - (order_preempts and running),
        preemptible=is_preemptible(spec, priority),
        created=creation_time(metadata),
        root=subgroup_tree(spec, aliases),
        last_start=last_start,
        last_evicted=last_evicted,
        stale_since=timestamp_or_none(annotations.get(names.STALE_SINCE)),
        staleness_grace=staleness_grace(podgroup),
        preemption_delay=max(0.0, delay or 0.0),
    )


def subgroup_tree(spec: Mapping[str, Any], aliases: Aliases) -> SubGroup:
    """The tree of subgroups; without any, one PodSet ``default`` with the group's own minMember (1 if not given).

    As in KAI, a list that is no tree (duplicate names, missing parents, cycles) counts as no list.
    """
    constraint = _constraint(spec.get("topologyConstraint"), aliases)
    subgroups = spec.get("subGroups") or ()
    if subgroups:
        by_name = {entry["name"]: entry for entry in subgroups}
        children = multimap(((entry.get("parent") or "").lower(), entry["name"]) for entry in subgroups)
        if len(by_name) == len(subgroups) and _is_tree(by_name, children):
            return _subgroup("", spec, constraint, by_name, children, aliases)
        return SubGroup(podsets=(PodSet(name=DEFAULT_PODSET),))
    minimum = spec.get("minMember")
    return _plain_tree(1 if minimum is None else int(minimum), constraint, _optional(spec.get("minSubGroup")))


# Many PodGroups have equal trees and share them.
@lru_cache(maxsize=1024)
def _plain_tree(minimum: int, constraint: Constraint | None, min_members: int | None) -> SubGroup:
    podset = PodSet(name=DEFAULT_PODSET, min_available=minimum)
    return SubGroup(podsets=(podset,), constraint=constraint, min_members=min_members)


def _is_tree(by_name: Mapping[str, Any], children: Mapping[str, list[str]]) -> bool:
    reached, waiting = 0, list(children.get("", ()))
    while waiting:
        name = waiting.pop()
        reached += 1
        waiting.extend(children.get(name, ()))
    # Entries that a walk from the root does not reach are in a cycle or have a missing parent.
    return reached == len(by_name)


def _subgroup(
    name: str,
    spec: Mapping[str, Any],
    constraint: Constraint | None,
    by_name: Mapping[str, Mapping[str, Any]],
    children: Mapping[str, list[str]],
    aliases: Aliases,
) -> SubGroup:
    groups, podsets = [], []
    # By name, so that the order in a manifest does not matter.
    for child in sorted(children.get(name, ())):
        entry = by_name[child]
        child_constraint = _constraint(entry.get("topologyConstraint"), aliases)
        if child in children:
            groups.append(_subgroup(child, entry, child_constraint, by_name, children, aliases))
        else:
            minimum = max(0, int(entry.get("minMember") or 0))
            podsets.append(PodSet(name=child, min_available=minimum, constraint=child_constraint))
    return SubGroup(
        name=name,
        groups=tuple(groups),
        podsets=tuple(podsets),
        min_members=_optional(spec.get("minSubGroup")),
        constraint=constraint,
    )


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)


def _constraint(block: Mapping[str, Any] | None, aliases: Aliases) -> Constraint | None:
    topology = (block or {}).get("topology")
    if not block or not topology:
        return None
    known = aliases.get(topology, {})
    required, preferred = block.get("requiredTopologyLevel") or "", block.get("preferredTopologyLevel") or ""
    return Constraint(
        topology=topology, required=known.get(required, required), preferred=known.get(preferred, preferred)
    )


def node_pool(metadata: Mapping[str, Any]) -> str:
    """The node pool of an object, by its label; ``default`` without one."""
    return (metadata.get("labels") or {}).get(names.NODE_POOL) or DEFAULT_NODE_POOL


def has_given_up(podgroup: Object) -> bool:
    """Whether KAI no longer tries a PodGroup: with ``schedulingBackoff: 1`` after one failed cycle in its node pool."""
    backoff = spec_of(podgroup).get("schedulingBackoff")
    if backoff is None or backoff == -1:
        return False
    # As in KAI's isPodGroupUpForScheduler, only the last condition counts, of whichever pool.
    last = last_condition(podgroup)
    return last is not None and last.get("nodePool") == node_pool(metadata_of(podgroup))


def last_condition(podgroup: Object) -> dict[str, Any] | None:
    """The scheduling condition with the highest transitionID (the first of equals), or None. Source: KAI GetLastSchedulingCondition."""
    conditions = status_of(podgroup).get("schedulingConditions") or ()
    return max(conditions, key=lambda condition: parse_count(condition.get("transitionID"), -1), default=None)
