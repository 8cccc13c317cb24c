"""Find the fewest GPUs with which a trace meets its targets: bisect over fleet sizes, then check the result with fresh
seeds.

``required_gpus`` and ``required_quotas`` derive quotas from the GPUs that each queue's jobs would use without waiting.
``team_gains`` compares two fleets for each queue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from kailab.errors import InputError
from kailab.fleet.sizing import Sizes
from kailab.model.callbacks import Progress
from kailab.replay.job import WHOLE
from kailab.replay.queues import MODES, NO_QUOTA, ONE
from kailab.replay.trace import Trace
from kailab.studies.comparison import judge_setting
from kailab.studies.confidence import ERROR_RATE, ConfidenceBounds, Estimate, TargetVerdict, all_of, confidence_bounds
from kailab.studies.measures import RunResult
from kailab.studies.planning import plan_of, sizes_of, trace_of
from kailab.studies.runner import StudyRunner
from kailab.studies.study import StudyRun, run_of
from kailab.studies.study_folder import StudyFolder
from kailab.studies.target import ALL, StudyTarget

PART = 0.99
"""The required GPUs of a queue cover its demand in this part of the time in which it has any."""


def required_gpus(trace: Trace, of_team: Mapping[str, str]) -> dict[str, int]:
    """Map each queue to the whole GPUs that cover its demand for ``PART`` of its time. ``of_team``: maps teams to
    queues."""
    changes: dict[str, dict[int, int]] = {name: {} for name in of_team.values()}
    for job in trace.jobs:
        queue_changes = changes[of_team[job.team]]
        queue_changes[job.arrival] = queue_changes.get(job.arrival, 0) + job.milli
        queue_changes[job.arrival + job.seconds] = queue_changes.get(job.arrival + job.seconds, 0) - job.milli
    return {name: _covering_gpus(queue_changes) for name, queue_changes in sorted(changes.items())}


def required_quotas(needed: Mapping[str, int], gpus: int, first: Collection[str]) -> dict[str, int]:
    """Map each queue to a quota in whole GPUs, at most ``gpus`` in all.

    The queues in ``first`` get what they need, or a proportional part of ``gpus``. The others share the rest in
    proportion to their need.
    """
    prioritised = {name: amount for name, amount in needed.items() if name in first}
    quotas = _shared(prioritised, gpus)
    others = {name: amount for name, amount in needed.items() if name not in first}
    return {**quotas, **_shared(others, gpus - sum(quotas.values()))}


def _shared(needed: Mapping[str, int], gpus: int) -> dict[str, int]:
    total = sum(needed.values())
    if total <= gpus:
        return dict(needed)
    return {name: gpus * amount // total for name, amount in needed.items()}


def _covering_gpus(changes: Mapping[int, int]) -> int:
    """The amount that covers ``PART`` of the time with demand, rounded up to whole GPUs."""
    durations: dict[int, int] = {}
    held, since = 0, None
    for at in sorted(changes):
        if since is not None and held:
            durations[held] = durations.get(held, 0) + at - since
        held, since = held + changes[at], at
    remaining = PART * sum(durations.values())
    for amount in sorted(durations):
        remaining -= durations[amount]
        if remaining <= 0:
            return -(-amount // WHOLE)
    return 0


GIVEN, NEED = "given", "need"
"""Quotas: as the options say; or by need, queues with targets first."""
_BEYOND = 8
"""Steps to try above the smallest fleet that keeps the targets that more GPUs help."""
Nodes = Mapping[str, int]
Results = Callable[[Sequence[StudyRun]], Mapping[str, RunResult]]


@dataclass(frozen=True, kw_only=True)
class CapacityQuestion:
    """What to find.

    ``options``: of all runs, as in a study. ``seeds``: number of resampled traces; 0: the trace itself, once, without
    confidence. ``most``: maximum fleet as a multiple of the given nodes. ``step``: in nodes; None: a hundredth of the
    fleet, at least one.
    """

    name: str
    options: Mapping[str, Any]
    targets: tuple[StudyTarget, ...]
    seeds: int = 5
    most: int = 8
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class FleetProbe:
    """A fleet that was tried. ``quotas``: GIVEN or NEED. ``fresh``: with seeds that the search does not use."""

    nodes: Nodes
    gpus: Mapping[str, int]
    quotas: str
    runs: tuple[StudyRun, ...]
    results: tuple[RunResult, ...]
    estimates: tuple[Estimate, ...]
    fresh: bool = False

    @property
    def verdict(self) -> TargetVerdict:
        return all_of([estimate.verdict for estimate in self.estimates])

    @property
    def total(self) -> int:
        return sum(self.gpus.values())

    def keeps(self, targets: Sequence[StudyTarget]) -> bool:
        verdicts = [estimate.verdict for estimate in self.estimates if estimate.target in targets]
        return all_of(verdicts) is TargetVerdict.yes


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The answer.

    ``given``: the present fleet. ``found``: the smallest fleet that keeps all targets, None if none does. ``check``:
    the same with fresh seeds, None without seeds. ``below``: the largest smaller fleet that was tried and is not known
    to keep them. ``probes``: all, in order.
    """

    question: CapacityQuestion
    given: FleetProbe
    found: FleetProbe | None
    check: FleetProbe | None
    below: FleetProbe | None
    probes: tuple[FleetProbe, ...]
    before: int = 0


def find_capacity(
    question: CapacityQuestion,
    root: Path,
    *,
    workers: int | None = None,
    dask: str = "",
    progress: Progress = lambda step, done, total: None,
) -> Capacity:
    """Find the smallest fleet. Results stay in ``root``, the folder of studies.

    Raises InputError before anything is started and for a replay that cannot be done; StateError, ConnectError.
    """
    sizes = sizes_of(question.options["fleet"])
    check_question(question, sizes)
    folder = StudyFolder(root, question.name)
    with folder.locked():
        runner = StudyRunner(folder, workers=workers, dask=dask, progress=progress)
        capacity = CapacitySearch(question, sizes, runner.results).run()
    return replace(capacity, before=runner.before)


def check_question(question: CapacityQuestion, sizes: Sizes) -> None:
    """Raise InputError for a question that cannot be answered."""
    if not sizes.models:
        raise InputError(f"{question.options['fleet']}: the fleet has no GPUs; expected a fleet with GPUs")
    if not any(target.more_helps for target in question.targets):
        raise InputError(
            f"{question.targets[0]}: more GPUs do not help this target; expected another target that they help, such as 'p99 wait < 1h'"
        )
    plan = plan_of(_run(question, {}, None, {}))
    for target in question.targets:
        target.check(plan.queues.names, priced=plan.prices is not None)


def _run(question: CapacityQuestion, setting: dict[str, Any], seed: int | None, digests: dict[str, str]) -> StudyRun:
    return run_of(seed or 0, {**question.options, **setting}, setting, seed, digests)


def _mean_demand(trace: Trace) -> float:
    """Mean demand in GPUs from the first arrival to the last."""
    span = trace.jobs[-1].arrival - trace.jobs[0].arrival
    return sum(job.demand for job in trace.jobs) / WHOLE / max(1, span)


class CapacitySearch:
    """The search. ``results``: carries runs out and returns their results by key."""

    def __init__(self, question: CapacityQuestion, sizes: Sizes, results: Results) -> None:
        self._question = question
        self._sizes = sizes
        self._results = results
        self._digests: dict[str, str] = {}
        self._probes: list[FleetProbe] = []
        self._known: dict[tuple[Any, ...], FleetProbe] = {}
        self._checks = 0
        self._step = question.step or max(1, sum(sizes.given.values()) // 100)
        self._helped = tuple(target for target in question.targets if target.more_helps)
        plan = plan_of(_run(question, {}, None, {}))
        self._needs = required_gpus(trace_of(question.options), plan.queues.of_team)
        self._likely = sum(sizes.mixed_for(_mean_demand(trace_of(question.options))).values())
        mode = question.options.get("queues", NO_QUOTA)
        # A file of queues fixes the quotas, and a single queue needs none.
        self._schemes = (
            (GIVEN, NEED) if mode in MODES and mode != ONE and "quotas" not in question.options else (GIVEN,)
        )

    def run(self) -> Capacity:
        total = sum(self._sizes.given.values())
        given = self._probe(self._sizes.given, GIVEN)
        nodes = self._smallest(total)
        smallest = check = None
        if nodes is not None:
            smallest, check = self._checked(self._fewer_of_each(nodes))
            if smallest is None and self._helped != self._question.targets:
                smallest, check = self._larger(nodes)
        return Capacity(
            question=self._question,
            given=given,
            found=smallest,
            check=check,
            below=self._below(smallest),
            probes=tuple(self._probes),
        )

    # --- search --------------------------------------------------------------------------------------------------------

    def _smallest(self, given: int) -> Nodes | None:
        """The smallest fleet in the given proportion. A size that passes by luck is skipped: the next larger one must
        pass too."""
        most = self._question.most * given
        low, high = 0, given
        while True:
            while not self._keeps_in_proportion(high):
                if high >= most:
                    return None
                low, high = high, min(2 * high, most)
            high = self._bisected(low, high, self._keeps_in_proportion)
            beyond = high + self._step
            if beyond > most or self._keeps_in_proportion(beyond):
                return self._sizes.in_proportion(high)
            low = beyond
            high = beyond + self._step

    def _fewer_of_each(self, nodes: Nodes) -> Nodes:
        """Reduce each model until no step can be removed from any of them."""
        if len(nodes) == 1:
            return nodes
        nodes_left = dict(nodes)
        for model in sorted(nodes_left, key=lambda name: (-self._sizes.gpus(nodes_left)[name], name)):
            step, self._step = self._step, max(1, nodes_left[model] // 100)
            if nodes_left[model] and self._keeps({**nodes_left, model: 0}):
                nodes_left[model] = 0
            elif nodes_left[model]:
                nodes_left[model] = self._bisected(0, nodes_left[model], partial(self._keeps_with, nodes_left, model))
            self._step = step
        return nodes_left

    def _keeps_with(self, nodes: Nodes, model: str, count: int) -> bool:
        return self._keeps({**nodes, model: count})

    def _bisected(self, low: int, high: int, keeps: Callable[[int], bool]) -> int:
        """The smallest passing count above ``low``, to within a step. ``high`` passes."""
        while high - low > self._step:
            # Fleets below the mean demand take longest to replay, so the mean demand is tried first.
            middle = max((low + high) // 2, self._likely if low < self._likely < high else 0)
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return high

    def _checked(self, nodes: Nodes) -> tuple[FleetProbe | None, FleetProbe | None]:
        """Check the fleet with fresh seeds and grow it until these pass too."""
        most = {model: self._question.most * count for model, count in self._sizes.given.items()}
        while True:
            probe = self._best(nodes, self._question.targets)
            if not self._question.seeds or probe.verdict is not TargetVerdict.yes:
                return (probe if probe.verdict is TargetVerdict.yes else None), None
            check = self._probe(nodes, probe.quotas, fresh=True)
            if check.verdict is TargetVerdict.yes:
                return probe, check
            grown = {
                model: min(most[model], count + max(1, self._step * count // sum(nodes.values())))
                for model, count in nodes.items()
            }
            if grown == dict(nodes):
                return None, check
            nodes = grown

    def _larger(self, smallest: Nodes) -> tuple[FleetProbe | None, FleetProbe | None]:
        """Try fleets a few steps above the smallest, and those already tried.

        Use and cost do not change steadily with size: a larger fleet may finish so much earlier that it meets targets
        that the smallest misses.
        """
        count = sum(smallest.values())
        most = self._question.most * sum(self._sizes.given.values())
        for beyond in range(count + self._step, min(most, count + _BEYOND * self._step) + 1, self._step):
            self._best(self._sizes.in_proportion(beyond), self._question.targets)
        passing = [probe for probe in self._probes if not probe.fresh and probe.verdict is TargetVerdict.yes]
        check = None
        for candidate in sorted(passing, key=lambda probe: probe.total):
            if not self._question.seeds:
                return candidate, None
            check = self._probe(candidate.nodes, candidate.quotas, fresh=True)
            if check.verdict is TargetVerdict.yes:
                return candidate, check
        return None, check

    def _below(self, smallest: FleetProbe | None) -> FleetProbe | None:
        failed = [
            probe
            for probe in self._probes
            if not probe.fresh
            and probe.verdict is not TargetVerdict.yes
            and (smallest is None or probe.total < smallest.total)
        ]
        return max(failed, key=lambda probe: probe.total, default=None)

    def _keeps_in_proportion(self, count: int) -> bool:
        """True if this many nodes, mixed as in the given fleet, meet all targets that more GPUs help."""
        return self._keeps(self._sizes.in_proportion(count))

    def _keeps(self, nodes: Nodes) -> bool:
        """True if all targets that more GPUs help are met. The other targets are checked on the smallest such fleet."""
        return self._best(nodes, self._helped).keeps(self._helped)

    # --- probes --------------------------------------------------------------------------------------------------------

    def _best(self, nodes: Nodes, targets: Sequence[StudyTarget]) -> FleetProbe:
        """The probe with the first quota scheme that meets the targets, or else with the first scheme."""
        first = None
        for scheme in self._schemes:
            probe = self._probe(nodes, scheme)
            if probe.keeps(targets):
                return probe
            first = first or probe
        assert first is not None
        return first

    def _probe(self, nodes: Nodes, scheme: str, *, fresh: bool = False) -> FleetProbe:
        key = tuple(sorted(nodes.items())), scheme, fresh
        if key not in self._known:
            self._known[key] = self._tried(nodes, scheme, fresh)
            self._probes.append(self._known[key])
        return self._known[key]

    def _tried(self, nodes: Nodes, scheme: str, fresh: bool) -> FleetProbe:
        gpus = self._sizes.gpus(nodes)
        setting: dict[str, Any] = {"size": gpus}
        if scheme == NEED:
            first = {target.queue for target in self._question.targets if target.queue != ALL}
            setting["quotas"] = required_quotas(self._needs, sum(gpus.values()), first)
        count = self._question.seeds
        seeds = [None] if not count else range(count, 2 * count) if fresh else range(count)
        runs = tuple(_run(self._question, setting, seed, self._digests) for seed in seeds)
        results = self._results(runs)
        outcomes = tuple(results[run.key] for run in runs)
        if failed := next((outcome for outcome in outcomes if outcome.error), None):
            raise InputError(f"a replay on {sum(gpus.values())} GPUs cannot be done: {failed.error}")
        estimates = judge_setting(self._question.targets, outcomes, sampled=bool(count), error=self._error(fresh))
        return FleetProbe(
            nodes=dict(nodes), gpus=gpus, quotas=scheme, runs=runs, results=outcomes, estimates=estimates, fresh=fresh
        )

    def _error(self, fresh: bool) -> float:
        """The permitted error rate of a probe.

        The search itself may be wrong, because its result is checked with fresh seeds. Each check gets a smaller part
        of the error rate, so that any number of checks stays within it: 1/2 + 1/6 + 1/12 + ...
        """
        if not fresh:
            return ERROR_RATE
        self._checks += 1
        return ERROR_RATE / (self._checks * (self._checks + 1))


@dataclass(frozen=True, kw_only=True)
class MeanWait:
    """Waiting time in seconds as means over the seeds; None if too many jobs never began in one of them. ``began``:
    jobs."""

    quota: float
    mean: float | None
    p99: float | None
    began: float


@dataclass(frozen=True, kw_only=True)
class TeamGain:
    """Effect of another fleet on a queue.

    ``longer``: by how much its jobs wait longer, the mean of the differences by seed; None without numbers or with one
    seed. ``verdict``: ``gains``, ``loses``, ``same``, or ``open`` if the seeds do not decide with 95 % confidence.
    """

    queue: str
    before: MeanWait
    after: MeanWait
    longer: ConfidenceBounds | None
    verdict: str


def team_gains(given: FleetProbe, larger: FleetProbe) -> list[TeamGain]:
    """Compare two fleets with the same seeds for each queue. All verdicts together have 95 % confidence
    (Bonferroni)."""
    before, after = plan_of(given.runs[0]).queues.quotas, plan_of(larger.runs[0]).queues.quotas
    queues = [queue for queue in before if all(_rows(probe.results, queue) for probe in (given, larger))]
    error = ERROR_RATE / (2 * max(1, len(queues)))
    return [
        _gain(queue, _rows(given.results, queue), _rows(larger.results, queue), (before[queue], after[queue]), error)
        for queue in queues
    ]


def _rows(results: Sequence[RunResult], queue: str) -> list[dict[str, Any]]:
    """The queue's row of each seed; empty if the queue has no jobs in one of them."""
    rows = [row for result in results for row in result.rows if row["queue"] == queue != ALL]
    return rows if len(rows) == len(results) else []


def _gain(
    queue: str,
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    quotas: tuple[float, float],
    error: float,
) -> TeamGain:
    wait_before, wait_after = _wait(before, quotas[0]), _wait(after, quotas[1])
    if wait_before.mean is None or wait_after.mean is None:
        verdict = _verdict_by_starts(wait_before, wait_after)
        return TeamGain(queue=queue, before=wait_before, after=wait_after, longer=None, verdict=verdict)
    differences = [b["waits_mean"] - a["waits_mean"] for a, b in zip(before, after, strict=True)]
    longer = confidence_bounds(differences, error)
    if not any(differences):
        verdict = "same"
    elif longer is None:
        verdict = "loses" if differences[0] > 0 else "gains"
    else:
        verdict = "loses" if longer.low > 0 else "gains" if longer.high < 0 else "open"
    return TeamGain(queue=queue, before=wait_before, after=wait_after, longer=longer, verdict=verdict)


def _verdict_by_starts(before: MeanWait, after: MeanWait) -> str:
    """The verdict by how many jobs began, for queues whose waits have no mean."""
    if before.began == after.began:
        return "open"
    return "gains" if after.began > before.began else "loses"


def _wait(rows: list[dict[str, Any]], quota: float) -> MeanWait:
    return MeanWait(
        quota=quota,
        mean=_mean([row["waits_mean"] for row in rows]),
        p99=_mean([row["waits_p99"] for row in rows]),
        began=fmean(row["began"] for row in rows),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None
