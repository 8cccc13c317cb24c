"""The queues that there will be once objects are applied, and what of them a scheduler can have no words for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import UNLIMITED, Queue, Share
from kailab.model.kinds import kind_key
from kailab.model.labels import GPU_RESOURCE
from kailab.model.quantities import parse
from kailab.scheduler.reading.queues import queue_record
from kailab.undertest.contract import NotExpressible

RESOURCES = ("gpu", "cpu", "memory")
NAMES = {"gpu": GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}
"""What Kubernetes calls them."""

_UNITS = {"gpu": 1000, "cpu": 1000, "memory": 1}  # of a record, for one of a node's


class Queues:
    """By name. ``objects``: what is to be applied; they take the place of what is ``there``. Units are those of the engine's
    records: milli-GPU, millicores, bytes."""

    def __init__(self, objects: Sequence[Object], there: Cluster) -> None:
        self._there = there
        found = {queue["metadata"]["name"]: queue for queue in there.list("Queue")}
        found |= {obj["metadata"]["name"]: obj for obj in objects if kind_key(obj) == "Queue"}
        self.by_name: dict[str, Queue] = {name: queue_record(found[name]) for name in sorted(found)}

    @cached_property
    def parents(self) -> frozenset[str]:
        """Queues with others below them: none of them takes work."""
        return frozenset(queue.parent for queue in self.by_name.values() if queue.parent in self.by_name)

    @property
    def leaves(self) -> list[Queue]:
        return [queue for name, queue in self.by_name.items() if name not in self.parents]

    def below(self, parent: str) -> list[Queue]:
        """Queues right below one; below "" those at the top."""
        return [queue for queue in self.by_name.values() if self._parent(queue) == parent]

    def line(self, name: str) -> tuple[str, ...]:
        """A queue and those above it, from the top down."""
        line: list[str] = []
        while name and name not in line:
            line.insert(0, name)
            name = self._parent(self.by_name[name])
        return tuple(line)

    def capacity(self, resource: str) -> int:
        """What all nodes offer."""
        texts = (
            ((node.get("status") or {}).get("allocatable") or {}).get(NAMES[resource], 0)
            for node in self._there.list("Node")
        )
        return int(sum(parse(text) for text in texts) * _UNITS[resource])

    def check_work(self, queue: str, who: str, about: str) -> None:
        """Work that KAI keeps waiting whatever is free: in a queue that there is not, or with others below it. Raises
        NotExpressible."""
        if queue not in self.by_name:
            raise NotExpressible(who, f"work in a queue that there is not ({queue})", about)
        if queue in self.parents:
            raise NotExpressible(who, f"work in a queue that has others below it ({queue})", about)

    # --- what some schedulers have no words for --------------------------------------------------------------------------

    def refuse_min_runtimes(self, who: str) -> None:
        """Raises NotExpressible for a time for which work may run before it is taken from."""
        for queue in self.by_name.values():
            if queue.reclaim_min_runtime or queue.preempt_min_runtime:
                raise NotExpressible(who, "minimum run time", _about(queue))

    def refuse_weights(self, who: str) -> None:
        """Raises NotExpressible where queues side by side get different parts of what nobody owns."""
        for siblings in self._siblings():
            for resource in RESOURCES:
                # A weight means nothing to who may not go over its quota.
                shares = [one for one in (share(queue, resource) for queue in siblings) if _may_borrow(one)]
                if len({one.weight for one in shares}) > 1:
                    raise NotExpressible(who, "weight for what is over the quota", _about(siblings[0]))

    def refuse_priorities(self, who: str) -> None:
        """Raises NotExpressible where one of the queues side by side comes before another."""
        for siblings in self._siblings():
            if len({queue.priority for queue in siblings}) > 1:
                raise NotExpressible(who, "priority of queues", _about(siblings[0]))

    def refuse_tree(self, who: str) -> None:
        """Raises NotExpressible where queues above others decide anything: more than one of them, a limit, or less quota than
        those below have. One that only holds the others together says nothing that leaves don't."""
        for name in sorted(self.parents):
            queue = self.by_name[name]
            alone = self.below("") == [queue] and all(child.name not in self.parents for child in self.below(name))
            if not alone or any(_holds_back(queue, self.below(name), resource) for resource in RESOURCES):
                raise NotExpressible(who, "tree of queues", _about(queue))

    def refuse_overcommitted(self, who: str) -> None:
        """Raises NotExpressible for queues that are promised more than those above them have: KAI holds to the less at every level."""
        for name in sorted(self.parents):
            if any(_promises_more(self.by_name[name], self.below(name), resource) for resource in RESOURCES):
                raise NotExpressible(
                    who, "queue whose quota is less than that of those below it", _about(self.by_name[name])
                )

    def _siblings(self) -> Iterator[list[Queue]]:
        for parent in ("", *sorted(self.parents)):
            yield self.below(parent)

    def _parent(self, queue: Queue) -> str:
        return queue.parent if queue.parent in self.by_name else ""


def share(queue: Queue, resource: str) -> Share:
    """Of one of ``RESOURCES``."""
    found: Share = getattr(queue, resource)
    return found


def quantity(resource: str, amount: int) -> str:
    """As Kubernetes writes an amount. Those of GPUs and CPUs are in thousandths."""
    if resource == "memory":
        return str(amount)
    return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"


def _may_borrow(one: Share) -> bool:
    return one.quota != UNLIMITED and (one.limit == UNLIMITED or one.limit > one.quota)


def _holds_back(queue: Queue, children: Sequence[Queue], resource: str) -> bool:
    return share(queue, resource).limit != UNLIMITED or _promises_more(queue, children, resource)


def _promises_more(queue: Queue, children: Sequence[Queue], resource: str) -> bool:
    own, theirs = share(queue, resource), [share(child, resource).quota for child in children]
    bounds = [bound for bound in (own.quota, own.limit) if bound != UNLIMITED]
    return bool(bounds) and (UNLIMITED in theirs or sum(theirs) > min(bounds))


def _about(queue: Queue) -> str:
    return f"Queue/{queue.name}"
