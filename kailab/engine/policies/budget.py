"""Bounds on the search for victims, counted in simulated sets of victims: per job, per generator of such sets, and per
action.

A job may use what its action has left, at most ``per_job``, and at least ``min_per_job``. Each generator has a bound of
its own within that. KAI bounds the same things by time; a count makes every run stop at the same place. Source: KAI's
search_budget.
"""

from __future__ import annotations

from math import inf

from kailab.engine.policies.settings import DEFAULT, SearchBudget


class BudgetSpent(Exception):
    """The budget is used up. ``generator_only``: another generator may still be tried."""

    def __init__(self, generator_only: bool) -> None:
        super().__init__(generator_only)
        self.generator_only = generator_only


class ActionBudget:
    """The budget of the running action. ``cut_short``: the last search ended because the action had less left than a
    job may use.
    """

    def __init__(self, settings: SearchBudget) -> None:
        self.settings = settings
        self.cut_short = False
        self._left = inf

    def begin(self, action: str) -> None:
        limits = self.settings.per_action
        # In a configuration 0 means no bound, as KAI's zero durations do.
        self._left = limits.get(action, limits.get(DEFAULT, 0)) or inf
        self.cut_short = False

    def job(self) -> JobBudget:
        own = self.settings.per_job or inf
        self.cut_short = False
        # The minimum per job may exceed what the action has left.
        return JobBudget(self, max(min(self._left, own), self.settings.min_per_job), self._left < own)

    def use(self) -> None:
        self._left = max(0, self._left - 1)


class JobBudget:
    """The budget of one search. ``used``: sets simulated. ``spent``: the search ended because the budget was used up."""

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
        """Count one more set before it is simulated. Raises BudgetSpent if that is one too many."""
        # Checked before the simulation, so that the bound is the number of simulations.
        if self._left < 1 or self._generator_left < 1:
            self.spent = True
            # A generator's own bound is the same for every job, so reaching it says something about the job.
            self._action.cut_short = self._reduced and self._left < 1
            raise BudgetSpent(generator_only=self._left >= 1)
        self._left -= 1
        self._generator_left -= 1
        self.used += 1
        self._action.use()
