"""Topology constraints put aside for a cycle (KAI without its topology plugin)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kailab.engine.snapshot.records import Constraint
from kailab.engine.working.state import Job, Member, WSubGroup

Aside = list[tuple[Member, Constraint | None]]


def put_aside(jobs: Iterable[Job]) -> Aside:
    """Take the constraints off; what ``put_back`` needs."""
    found: Aside = []
    for job in jobs:
        for member in _members(job.root):
            if member.constraint is not None:
                found.append((member, member.constraint))
                # Off the working state and not the records: placing need not know of the switch, and no input changes.
                member.constraint = None
    return found


def put_back(aside: Aside) -> None:
    for member, constraint in aside:
        member.constraint = constraint


def _members(member: Member) -> Iterator[Member]:
    yield member
    if isinstance(member, WSubGroup):
        for child in member.members:
            yield from _members(child)
