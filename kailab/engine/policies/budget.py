"""How far the search for victims may go: counted in sets of victims simulated, for each job, each generator of such sets,
and each action.

A job may use what its action has left, at most ``per_job``, and ``min_per_job`` in any case; each generator at most its
own bound of that. KAI bounds the same things in time; a count makes every run stop at the same place. Source: KAI's
search_budget.
"""

from __future__ import annotations

from math import inf

from kailab.engine.policies.settings import DEFAULT, SearchBudget


class BudgetSpent(Exception):
    """``generator_only``: another way of proposing victims may still be tried."""

    def __init__(self, generator_only: bool) -> None:
        super().__init__(generator_only)
        self.generator_only = generator_only


class ActionBudget:
    """What is left to the action at work. ``cut_short``: the last search ended at what the action had left for it, which was
    less than a job may use."""

    def __init__(self, settings: SearchBudget) -> None:
        self.settings = settings
        self.cut_short = False
        self._left = inf

    def begin(self, action: str) -> None:
        limits = self.settings.per_action
        # 0 stands for no bound in a configuration, as KAI's durations of zero do.
        self._left = limits.get(action, limits.get(DEFAULT, 0)) or inf
        self.cut_short = False

    def job(self) -> JobBudget:
        own = self.settings.per_job or inf
        self.cut_short = False
        # What each job is granted in any case may go beyond what the action has left.
        return JobBudget(self, max(min(self._left, own), self.settings.min_per_job), self._left < own)

    def use(self) -> None:
        self._left = max(0, self._left - 1)


class JobBudget:
    """What is left to one search. ``used``: sets simulated; ``spent``: it ended for want of budget."""

    def __init__(self, action: ActionBudget, most: float, reduced: bool) -> None:
        self._action = action
        self._reduced = reduced
        self._left = most
        self._generator_left = inf
        self.used = 0
        self.spent = False

    def begin(self, generator: str) -> None:
        limits = self._action.settings.per_generator
        self._generator_left = limits.get(generator, limits.get(DEFAULT, 0)) or inf

    def use(self) -> None:
        """One more set is about to be simulated. Raises BudgetSpent if that is one too many."""
        # Asked before a set is simulated, so that the bound is a number of simulations and not one more.
        if self._left < 1 or self._generator_left < 1:
            self.spent = True
            # A generator's own bound is the same for every job, so running into it says something of the job.
            self._action.cut_short = self._reduced and self._left < 1
            raise BudgetSpent(generator_only=self._left >= 1)
        self._left -= 1
        self._generator_left -= 1
        self.used += 1
        self._action.use()
