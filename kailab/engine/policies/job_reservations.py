"""Calls of the policy that decides for which jobs nodes are kept free."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kailab.engine.policies.contract import Reservation, make_policy, run_times_last
from kailab.engine.policies.job_orders import JobViews, call_policy, podgroup_text, quoted_answer, wrong_answer
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.working.state import ExpectedEnd, Job, WTask

if TYPE_CHECKING:
    from kailab.engine.session import Session


_NEVER = 1e12
"""Seconds (some 30,000 years); a longer run counts as endless."""


class ChosenReservation:
    """Calls a ``Reservation`` in one cycle."""

    def __init__(self, session: Session, choice: PolicyChoice) -> None:
        self._policy = make_policy(choice, Reservation)
        self._choice = choice
        self._now = session.now
        self._views = JobViews(session)
        self._lasting = run_times_last(type(self._policy))
        # what ``expects`` answered, by job
        self.answers: dict[str, float] = session.working.run_times(self._policy) if self._lasting else {}
        self.at_most = self._at_most()

    def _at_most(self) -> int | None:
        about = "all PodGroups"
        answer = call_policy(self._choice, "at_most", about, self._policy.at_most)
        if answer is not None and (isinstance(answer, bool) or not isinstance(answer, int) or answer < 0):
            raise wrong_answer(self._choice, "at_most", about, quoted_answer(answer), "a number from 0 on, or None")
        return answer

    def reserves(self, job: Job, kept: int) -> bool:
        view, about = self._views.of(job), podgroup_text(job)
        answer = call_policy(self._choice, "reserves", about, lambda: self._policy.reserves(view, kept))
        if not isinstance(answer, bool):
            raise wrong_answer(self._choice, "reserves", about, quoted_answer(answer), "True or False")
        return answer

    def expects(self, job: Job) -> float:
        """The expected run time in seconds, infinite if unknown. Asked once a cycle for each job, or once until the job
        changes (``Reservation.lasting``).
        """
        seconds = self.answers.get(job.uid)
        if seconds is None:
            view, about = self._views.of(job), podgroup_text(job)
            answer = call_policy(self._choice, "expects", about, lambda: self._policy.expects(view))
            seconds = math.inf if answer is None else answer
            # also false for NaN
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
                raise wrong_answer(self._choice, "expects", about, quoted_answer(answer), "seconds from 0 on, or None")
            self.answers[job.uid] = seconds = float(seconds) if seconds < _NEVER else math.inf
        return seconds

    def expected_end(self, task: WTask) -> float:
        """When a task ends that has run in its place since before this cycle. It may be in the past."""
        job = task.job
        assert job is not None
        known = task.expected_end
        if known is not None and known.record_version == job.record_version and known.made_by is self.answers:
            return known.at
        if job.record.last_start is None:
            return self._now + self.expects(job)
        # The task's own start is unknown. It is not before its creation, nor before the start of its job.
        end = max(job.record.last_start, task.record.created) + self.expects(job)
        if self._lasting:
            task.expected_end = ExpectedEnd(self.answers, job.record_version, end)
        return end
