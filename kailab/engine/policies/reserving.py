"""Asking the policy that says for whom a place is kept free."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kailab.engine.policies.contract import Reservation, make_policy
from kailab.engine.policies.orders import JobViews, call_policy, podgroup_text, quoted_answer, wrong_answer
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.working.state import Job

if TYPE_CHECKING:
    from kailab.engine.session import Session


_NEVER = 1e12
"""Seconds, some 30,000 years: who runs so long is not counted upon to end."""


class ChosenReservation:
    """A ``Reservation`` at work in one cycle."""

    def __init__(self, session: Session, choice: PolicyChoice) -> None:
        self._policy = make_policy(choice, Reservation)
        self._choice = choice
        self._views = JobViews(session)
        self._expected: dict[str, float] = {}

    def reserves(self, job: Job, kept: int) -> bool:
        view, about = self._views.of(job), podgroup_text(job)
        answer = call_policy(self._choice, "reserves", about, lambda: self._policy.reserves(view, kept))
        if not isinstance(answer, bool):
            raise wrong_answer(self._choice, "reserves", about, quoted_answer(answer), "True or False")
        return answer

    def expects(self, job: Job) -> float:
        """Seconds from a start; infinite where nobody knows. Asked once a cycle."""
        found = self._expected.get(job.uid)
        if found is None:
            view, about = self._views.of(job), podgroup_text(job)
            answer = call_policy(self._choice, "expects", about, lambda: self._policy.expects(view))
            found = math.inf if answer is None else answer
            if isinstance(found, bool) or not isinstance(found, int | float) or not found >= 0:  # NaN is neither
                raise wrong_answer(self._choice, "expects", about, quoted_answer(answer), "seconds from 0 on, or None")
            self._expected[job.uid] = found = float(found) if found < _NEVER else math.inf
        return found
