"""A limit on what victims lose, as a multiple of what the beneficiary asks for.

Counted in GPUs; for work without GPUs in CPU and memory. Every evicted pod counts with all it holds, even if it only
moves. A set of victims beyond the limit is no solution, and the search continues with the next set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kailab.engine.policies.eviction_limits import tasks_losing_places
from kailab.engine.snapshot.amounts import format_thousandths, quantity_text
from kailab.engine.working.queues import Amounts

if TYPE_CHECKING:
    from kailab.engine.policies.session_contract import PolicySession


def counting(asked: Amounts) -> tuple[int, ...]:
    """The resources that are compared: GPU, or CPU and memory for work without GPUs."""
    # Work with GPUs asks for little CPU and memory, so these are no measure.
    return (2,) if asked[2] else (0, 1)


class TakenRatioLimit:
    """``begin`` a search, then ``allows`` checks the journal since a mark. ``refusal`` describes the smallest refused
    amount, if no other solution was found.
    """

    def __init__(self, most: float | None) -> None:
        self._most = most
        self._asked: Amounts = (0, 0, 0)
        self._least: tuple[float, int, int] | None = None  # ratio, amount, resource

    def begin(self, asked: Amounts) -> None:
        """``asked``: what the job would place in all, although a search begins with a part of it."""
        self._asked = asked
        self._least = None

    def allows(self, session: PolicySession, mark: int) -> bool:
        if self._most is None:
            return True
        taken = [0, 0, 0]
        for task in tasks_losing_places(session, mark):
            for r, amount in enumerate(session.accepted(task)):
                taken[r] += amount
        shares = [(taken[r] / self._asked[r], taken[r], r) for r in counting(self._asked) if self._asked[r] > 0]
        worst = max(shares, default=(0.0, 0, 0))
        if worst[0] <= self._most:
            return True
        # The smallest refused amount is what a user would have to allow.
        if self._least is None or worst < self._least:
            self._least = worst
        return False

    @property
    def refusal(self) -> str:
        if self._least is None or self._most is None:
            return ""
        _, amount, r = self._least
        return (
            f"victims would give {quantity_text(r, amount)} or more for the {quantity_text(r, self._asked[r])} it asks for: "
            f"beyond the maxTakenRatio of {format_thousandths(self._most)}"
        )
