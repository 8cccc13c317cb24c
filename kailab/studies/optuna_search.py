"""A search over settings with Optuna: it proposes, a batch at a time, and is told what came of them.

What it proposes follows from its seed and from what it was told, in the order of its proposals, so whoever does the runs the settings are the same. Nothing of it is
kept: begun again, it proposes the same, and what is done is passed over.

Source: Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019; the sampler is its tree-structured Parzen estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import msgspec

from kailab.errors import InputError
from kailab.model.optional_imports import import_optional
from kailab.studies.measures import RunResult
from kailab.studies.study import Study, StudyRun, StudySearch, ValueRange, run_of

Carry = Callable[[Sequence[StudyRun]], Mapping[str, RunResult]]
"""Carries runs out; their results by key."""


class SearchedStudy(NamedTuple):
    """``settings``: that were tried, each once, in the order in which they were proposed. ``runs``: one for each seed of each. ``values``: of each setting, what was asked
    for, in the mean over its seeds; None where a run of it can't be done. ``proposed``: how many proposals there were."""

    settings: list[dict[str, Any]]
    runs: list[StudyRun]
    results: dict[str, RunResult]
    values: list[float | None]
    proposed: int

    def best(self, search: StudySearch) -> int | None:
        """The place of the best setting, of equal ones the first; None where no run could be done, or none has a finite value."""
        places = [place for place, value in enumerate(self.values) if value is not None and abs(value) < inf]
        sign = -1 if search.largest else 1
        return min(places, key=lambda place: sign * (self.values[place] or 0.0), default=None)


def check_optuna() -> Any:
    """The module. Raises InputError where Optuna is not installed."""
    return import_optional("optuna", "optuna", "a study with search needs Optuna")


def search_settings(study: Study, search: StudySearch, carry: Carry) -> SearchedStudy:
    """All of it. Raises InputError, and what ``carry`` raises: then what is done stays done."""
    optuna = check_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=search.seed)
    asked = optuna.create_study(sampler=sampler, direction="maximize" if search.largest else "minimize")
    space = _space(search, optuna.distributions)
    found = SearchedStudy([], [], {}, [], 0)
    places: dict[bytes, int] = {}
    digests: dict[str, str] = {}
    while found.proposed < search.trials:
        trials = [asked.ask(space) for _ in range(min(search.batch, search.trials - found.proposed))]
        found = found._replace(proposed=found.proposed + len(trials))
        mine = []
        new: list[StudyRun] = []
        for trial in trials:
            setting = _setting(search, trial.params)
            key = msgspec.json.encode(setting, order="sorted")
            if key not in places:
                places[key] = len(found.settings)
                found.settings.append(setting)
                for seed in study.seeds or (None,):
                    options = {**study.options, **setting}
                    new.append(run_of(len(found.runs) + len(new), options, setting, seed, digests))
            mine.append(places[key])
        found.runs.extend(new)
        found.results.update(carry(new))
        each = len(study.seeds) or 1
        for place in range(len(found.values), len(found.settings)):
            results = [found.results[run.key] for run in found.runs[place * each : (place + 1) * each]]
            found.values.append(_value(search, results))
        for trial, place in zip(trials, mine, strict=True):
            value = found.values[place]
            state = optuna.trial.TrialState.FAIL if value is None else None
            asked.tell(trial, value, state=state)
    return found


def _space(search: StudySearch, kinds: Any) -> dict[str, Any]:
    def of(told: ValueRange | tuple[Any, ...]) -> Any:
        if isinstance(told, ValueRange):
            low, high, step = told.low, told.high, told.step
            whole = all(float(one).is_integer() for one in (low, high, step))
            return (
                kinds.IntDistribution(int(low), int(high), step=int(step))
                if whole
                else kinds.FloatDistribution(low, high, step=step)
            )
        return kinds.CategoricalDistribution(tuple(range(len(told))))

    space: dict[str, Any] = {}
    for option, told in search.over.items():
        if isinstance(told, dict):
            space.update({f"{option}.{queue}": of(one) for queue, one in told.items()})
        else:
            space[option] = of(told)
    return space


def _setting(search: StudySearch, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Values of options, of what the sampler chose."""

    def of(told: ValueRange | tuple[Any, ...], choice: Any) -> Any:
        # Steps of parts of a GPU are added up as binary fractions: what is meant has a few decimals.
        return round(choice, 6) if isinstance(told, ValueRange) else told[choice]

    setting: dict[str, Any] = {}
    for option, told in search.over.items():
        if isinstance(told, dict):
            setting[option] = {queue: of(one, chosen[f"{option}.{queue}"]) for queue, one in told.items()}
        else:
            setting[option] = of(told, chosen[option])
    return setting


def _value(search: StudySearch, results: Sequence[RunResult]) -> float | None:
    values = []
    for result in results:
        if result.error:
            return None
        row = next((row for row in result.rows if row["queue"] == search.queue), None)
        if row is None:
            raise InputError(f"search: {search.subject}: a run has no queue {search.queue!r}")
        value = row[search.measure]
        # What never came to a number, as the wait of jobs that never began, is as bad as can be.
        values.append((-inf if search.largest else inf) if value is None else float(value))
    return sum(values) / len(values)
