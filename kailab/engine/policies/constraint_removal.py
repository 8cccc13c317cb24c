"""Removal of topology constraints for a cycle (KAI without its topology plugin)."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.snapshot.records import Constraint
from kailab.engine.working.state import Job, Member

Aside = list[tuple[Member, Constraint | None]]


def remove_constraints(jobs: Iterable[Job]) -> Aside:
    """Remove the constraints. Returns what ``restore_constraints`` needs."""
    removed: Aside = []
    for job in jobs:
        for member in job.root.tree():
            if member.constraint is not None:
                removed.append((member, member.constraint))
                # Removed from the working state, not from the records, so that placing needs no switch and the input
                # stays unchanged.
                member.constraint = None
    return removed


def restore_constraints(aside: Aside) -> None:
    for member, constraint in aside:
        member.constraint = constraint
