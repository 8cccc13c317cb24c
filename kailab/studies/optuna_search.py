"""Search over settings with Optuna, which proposes a batch at a time and receives the results.

Proposals depend only on the seed and on earlier results in order of proposal, not on who carries runs out. No search
state is stored: a search that starts again proposes the same settings and skips runs that are done.

Source: Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019; the sampler is its
tree-structured Parzen estimator.
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
"""Carries runs out and returns their results by key."""


class SearchedStudy(NamedTuple):
    """The result of a search.

    ``settings``: each proposed setting once, in order. ``runs``: one for each seed of each setting. ``values``: the
    objective of each setting, the mean over its seeds; None if a run failed. ``proposed``: number of proposals.
    """

    settings: list[dict[str, Any]]
    runs: list[StudyRun]
    results: dict[str, RunResult]
    values: list[float | None]
    proposed: int

    def best(self, search: StudySearch) -> int | None:
        """The index of the best setting, the first of equal ones; None if no setting has a finite value."""
        indices = [index for index, value in enumerate(self.values) if value is not None and abs(value) < inf]
        sign = -1 if search.largest else 1
        return min(indices, key=lambda index: sign * (self.values[index] or 0.0), default=None)


def check_optuna() -> Any:
    """Import Optuna. Raises InputError if it is not installed."""
    return import_optional("optuna", "optuna", "a study with search needs Optuna")


def search_settings(study: Study, search: StudySearch, carry: Carry) -> SearchedStudy:
    """Run the whole search. Raises InputError and what ``carry`` raises; completed runs stay stored."""
    optuna = check_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=search.seed)
    optimizer = optuna.create_study(sampler=sampler, direction="maximize" if search.largest else "minimize")
    space = _space(search, optuna.distributions)
    searched = SearchedStudy([], [], {}, [], 0)
    indices: dict[bytes, int] = {}
    digests: dict[str, str] = {}
    while searched.proposed < search.trials:
        trials = [optimizer.ask(space) for _ in range(min(search.batch, search.trials - searched.proposed))]
        searched = searched._replace(proposed=searched.proposed + len(trials))
        batch_indices = []
        new: list[StudyRun] = []
        for trial in trials:
            setting = _setting(search, trial.params)
            key = msgspec.json.encode(setting, order="sorted")
            if key not in indices:
                indices[key] = len(searched.settings)
                searched.settings.append(setting)
                for seed in study.seeds or (None,):
                    options = study.options_of(setting)
                    new.append(run_of(len(searched.runs) + len(new), options, setting, seed, digests))
            batch_indices.append(indices[key])
        searched.runs.extend(new)
        searched.results.update(carry(new))
        each = len(study.seeds) or 1
        for index in range(len(searched.values), len(searched.settings)):
            results = [searched.results[run.key] for run in searched.runs[index * each : (index + 1) * each]]
            searched.values.append(_value(search, results))
        for trial, index in zip(trials, batch_indices, strict=True):
            value = searched.values[index]
            state = optuna.trial.TrialState.FAIL if value is None else None
            optimizer.tell(trial, value, state=state)
    return searched


def _space(search: StudySearch, kinds: Any) -> dict[str, Any]:
    def distribution(values: ValueRange | tuple[Any, ...]) -> Any:
        if isinstance(values, ValueRange):
            low, high, step = values.low, values.high, values.step
            whole = all(float(number).is_integer() for number in (low, high, step))
            return (
                kinds.IntDistribution(int(low), int(high), step=int(step))
                if whole
                else kinds.FloatDistribution(low, high, step=step)
            )
        return kinds.CategoricalDistribution(tuple(range(len(values))))

    space: dict[str, Any] = {}
    for option, values in search.over.items():
        if isinstance(values, dict):
            space.update(
                {f"{option}.{queue}": distribution(range_of_queue) for queue, range_of_queue in values.items()}
            )
        else:
            space[option] = distribution(values)
    return space


def _setting(search: StudySearch, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the sampler's choices into option values."""

    def value_of_choice(values: ValueRange | tuple[Any, ...], choice: Any) -> Any:
        # Steps of fractions of a GPU accumulate binary rounding errors.
        return round(choice, 6) if isinstance(values, ValueRange) else values[choice]

    setting: dict[str, Any] = {}
    for option, values in search.over.items():
        if isinstance(values, dict):
            setting[option] = {
                queue: value_of_choice(range_of_queue, chosen[f"{option}.{queue}"])
                for queue, range_of_queue in values.items()
            }
        else:
            setting[option] = value_of_choice(values, chosen[option])
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
        # A missing number, such as the wait of jobs that never began, is the worst value.
        values.append((-inf if search.largest else inf) if value is None else float(value))
    return sum(values) / len(values)
