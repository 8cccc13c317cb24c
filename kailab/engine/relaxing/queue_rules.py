"""Rules of queues and of the subject's own PodGroups, taken away one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec import structs

from kailab.engine.config import ACTIONS
from kailab.engine.decisions import Action
from kailab.engine.relaxing.draft import Draft
from kailab.engine.relaxing.relaxation import Relaxation
from kailab.engine.snapshot.records import UNLIMITED, PodGroup, Share

QueueField = Literal["gpu", "cpu", "memory"]
FIELDS: tuple[QueueField, ...] = ("gpu", "cpu", "memory")
"""The resources of a queue, as its record calls them."""


@dataclass(frozen=True)
class _OfQueues(Relaxation):
    """``queues``: by name; those that there are not are passed over."""

    queues: tuple[str, ...]
    resources: tuple[QueueField, ...] = FIELDS

    def change(self, draft: Draft) -> None:
        for name in self.queues:
            queue = draft.record("queues", name)
            if queue is not None:
                shares = {field: self._share(getattr(queue, field)) for field in self.resources}
                draft.set("queues", structs.replace(queue, **shares))

    def _share(self, share: Share) -> Share:
        raise NotImplementedError


class LimitsLifted(_OfQueues):
    """These queues have no limit."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, limit=UNLIMITED)


class QuotasRaised(_OfQueues):
    """These queues have all they want as quota. Their limits stay."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, quota=UNLIMITED)


class QuotasTaken(_OfQueues):
    """These queues have no quota."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, quota=0)


class WeightsGiven(_OfQueues):
    """These queues have an over-quota weight of at least 1."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, weight=max(1.0, share.weight))


@dataclass(frozen=True)
class QueuesUnprotected(Relaxation):
    """No minimum runtime protects anybody."""

    def change(self, draft: Draft) -> None:
        for queue in draft.records("queues"):
            if queue.reclaim_min_runtime or queue.preempt_min_runtime:
                draft.set("queues", structs.replace(queue, reclaim_min_runtime=0.0, preempt_min_runtime=0.0))
        # Queues without a value of their own inherit the configured one.
        draft.config = structs.replace(draft.config, reclaim_min_runtime=0.0, preempt_min_runtime=0.0)


@dataclass(frozen=True)
class MadePreemptible(Relaxation):
    """The subject is preemptible."""

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemptible=True))


@dataclass(frozen=True)
class PriorityGiven(Relaxation):
    """The subject has this priority."""

    priority: int

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, priority=self.priority))


@dataclass(frozen=True)
class DelayGone(Relaxation):
    """The subject has no preemption delay."""

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemption_delay=0.0))


@dataclass(frozen=True)
class RefusalsForgotten(Relaxation):
    """No binding was refused yet."""

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, refused=frozenset())


@dataclass(frozen=True)
class PromisesForgotten(Relaxation):
    """The cycle before made room for nobody: all have their ordinary turn."""

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, promised=())


@dataclass(frozen=True)
class Actions(Relaxation):
    """The scheduler has these actions."""

    actions: tuple[Action, ...] = ACTIONS

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, actions=self.actions)


def _each(draft: Draft, changed: Callable[[PodGroup], PodGroup]) -> None:
    for podgroup in draft.podgroups():
        draft.set("podgroups", changed(podgroup))
