"""Other work taken away, or what keeps it where it is."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import structs

from kailab.engine.relaxing.draft import Draft
from kailab.engine.relaxing.relaxation import Relaxation
from kailab.engine.snapshot.statuses import ON_NODE


@dataclass(frozen=True)
class OthersGone(Relaxation):
    """All pods that are not the subject's have gone, those of other schedulers too, and with them the claims that only they name.
    ``placed``: those that have a place; ``waiting``: the others."""

    placed: bool = True
    waiting: bool = True

    def change(self, draft: Draft) -> None:
        subject = set(draft.subject)
        claimed: set[str] = set()
        for task in draft.records("tasks"):
            goes = self.placed if ON_NODE[task.status] else self.waiting
            if goes and task.podgroup not in subject:
                draft.remove("tasks", task.uid)
            else:
                claimed.update(task.shape.claims)
        for claim in draft.records("claims"):
            # With the pods that had a place gone, nobody holds these: their devices are free again.
            if self.placed and claim.name not in claimed:
                draft.remove("claims", claim.name)


@dataclass(frozen=True)
class WaitingWithdrawn(Relaxation):
    """These PodGroups (UIDs) wait no more: their pods that have no place are gone, those that have one stay."""

    podgroups: tuple[str, ...]

    def change(self, draft: Draft) -> None:
        withdrawn = set(self.podgroups)
        for task in draft.records("tasks"):
            if task.podgroup in withdrawn and not ON_NODE[task.status]:
                draft.remove("tasks", task.uid)


@dataclass(frozen=True)
class OthersPreemptible(Relaxation):
    """Every other PodGroup is preemptible."""

    def change(self, draft: Draft) -> None:
        for podgroup in draft.records("podgroups"):
            if not podgroup.preemptible and podgroup.uid not in draft.subject:
                draft.set("podgroups", structs.replace(podgroup, preemptible=True))
