"""Limits on the evictions of one cycle, in all and by the victims' priority.

A decision is carried out as a whole or not at all, so one that needs more than what is left is refused and waits for
the next cycle; one that needs more than the whole limit is refused in every cycle. Moved pods (consolidation) count,
because they are evicted too. Stale gangs do not, because their eviction has no beneficiary. Source: the preemption
policies of the lesson material (maxPreemptionsPerCycle, by class of the victim).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.records import ACTIVE, ON_NODE
from kailab.engine.working.state import WTask

if TYPE_CHECKING:
    from kailab.engine.policies.session_contract import PolicySession


class EvictionLimits:
    """``refusal`` checks the journal since a mark; ``count`` records that these evictions were decided."""

    def __init__(self, config: EngineConfig) -> None:
        self._most = config.max_evictions_per_cycle
        self._by_priority = dict(config.max_evictions_by_priority)
        self._used: dict[int, int] = {}
        self.on = self._most is not None or bool(self._by_priority)

    def refusal(self, session: PolicySession, mark: int) -> str | None:
        """Why the changes since ``mark`` may not be decided in this cycle; None if they may."""
        if not self.on:
            return None
        wanted = _evictions(session, mark)
        number, used = sum(wanted.values()), sum(self._used.values())
        # A decision without evictions is always allowed.
        if self._most is not None and number and used + number > self._most:
            return _refusal_text(number, self._most - used, self._most, "")
        for priority, number in sorted(wanted.items()):
            most = self._by_priority.get(priority)
            if most is not None and self._used.get(priority, 0) + number > most:
                return _refusal_text(number, most - self._used.get(priority, 0), most, f" of priority {priority}")
        return None

    def count(self, session: PolicySession, mark: int) -> None:
        """Record the evictions since ``mark``. Call before they are committed."""
        if self.on:
            for priority, number in _evictions(session, mark).items():
                self._used[priority] = self._used.get(priority, 0) + number


def _refusal_text(number: int, left: int, most: int, priority_text: str) -> str:
    evictions = "1 eviction" if number == 1 else f"{number} evictions"
    never = ", so it never will" if number > most else ""
    return f"it would take {evictions}{priority_text}, and the maximum of {most} a cycle leaves {max(0, left)}{never}"


def _evictions(session: PolicySession, mark: int) -> dict[int, int]:
    """Priority -> number of tasks that lose their place."""
    counts: dict[int, int] = {}
    for task in tasks_losing_places(session, mark):
        assert task.job is not None
        priority = task.job.record.priority
        counts[priority] = counts.get(priority, 0) + 1
    return counts


def tasks_losing_places(session: PolicySession, mark: int) -> list[WTask]:
    """Tasks that hold something in the cluster and lose it by the changes since ``mark``, also if they get another
    place.
    """
    losing = []
    seen: set[str] = set()
    for entry in session.journal[mark:]:
        task = entry.task
        # The first entry of a task has its state before the statement; later entries are intermediate.
        if task.uid in seen:
            continue
        seen.add(task.uid)
        # A moved victim still has its old place in ``vacated``, and is evicted like any other.
        leaves = bool(task.vacated) or not ACTIVE[task.status]
        if (
            ACTIVE[entry.before[0]]
            and leaves
            and ON_NODE[task.record.status]
            # An earlier decision of this cycle evicted it and was counted then.
            and task.uid not in session.ledger.evictions
        ):
            losing.append(task)
    return losing
