"""What quotas each queue would need: the GPUs that its jobs ask for at once, were each begun as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from kailab.errors import InputError
from kailab.fleet.sizing import Sizes
from kailab.replay.job import WHOLE
from kailab.replay.queues import MODES, NO_QUOTA, ONE
from kailab.replay.trace import Trace
from kailab.studies.comparison import judge_setting
from kailab.studies.confidence import ERROR_RATE, ConfidenceBounds, Estimate, TargetVerdict, all_of, confidence_bounds
from kailab.studies.measures import RunResult
from kailab.studies.planning import plan_of, sizes_of, trace_of
from kailab.studies.runner import Progress, StudyRunner
from kailab.studies.study import StudyRun, run_of
from kailab.studies.study_folder import StudyFolder
from kailab.studies.target import ALL, StudyTarget

PART = 0.99
"""Of the time in which a queue asks for anything: for so much of it the need is enough."""


def required_gpus(trace: Trace, of_team: Mapping[str, str]) -> dict[str, int]:
    """Queue -> whole GPUs that are enough for ``PART`` of its time. ``of_team``: team -> queue."""
    changes: dict[str, dict[int, int]] = {name: {} for name in of_team.values()}
    for job in trace.jobs:
        own = changes[of_team[job.team]]
        own[job.arrival] = own.get(job.arrival, 0) + job.milli
        own[job.arrival + job.seconds] = own.get(job.arrival + job.seconds, 0) - job.milli
    return {name: _enough(own) for name, own in sorted(changes.items())}


def required_quotas(needed: Mapping[str, int], gpus: int, first: Collection[str]) -> dict[str, int]:
    """Queue -> whole GPUs, no more than there are in all. The queues ``first`` get what they need, or as much of it as there is; the others
    share the rest in proportion to their need, and have no more than that."""
    own = {name: amount for name, amount in needed.items() if name in first}
    quotas = _shared(own, gpus)
    rest = {name: amount for name, amount in needed.items() if name not in first}
    return {**quotas, **_shared(rest, gpus - sum(quotas.values()))}


def _shared(needed: Mapping[str, int], gpus: int) -> dict[str, int]:
    total = sum(needed.values())
    if total <= gpus:
        return dict(needed)
    return {name: gpus * amount // total for name, amount in needed.items()}


def _enough(changes: Mapping[int, int]) -> int:
    """Rounded up to whole GPUs."""
    lasting: dict[int, int] = {}
    held, since = 0, None
    for at in sorted(changes):
        if since is not None and held:
            lasting[held] = lasting.get(held, 0) + at - since
        held, since = held + changes[at], at
    left = PART * sum(lasting.values())
    for amount in sorted(lasting):
        left -= lasting[amount]
        if left <= 0:
            return -(-amount // WHOLE)
    return 0


# The fewest GPUs with which a trace's jobs are served as asked: replayed on fleets of other sizes, found by bisection, and then checked.

GIVEN, NEED = "given", "need"
"""Quotas: as the options say; what each queue needs, those of the targets first."""
_BEYOND = 8
"""Steps above the smallest fleet that keeps the targets that more GPUs help."""
Nodes = Mapping[str, int]
Results = Callable[[Sequence[StudyRun]], Mapping[str, RunResult]]


@dataclass(frozen=True, kw_only=True)
class CapacityQuestion:
    """``options``: of all runs, as a study's. ``seeds``: so many resampled traces; 0: the trace as it is, once, without any confidence. ``most``: how many times the nodes
    of the fleet at most. ``step``: nodes; None: a hundredth of the fleet's, one at least."""

    name: str
    options: Mapping[str, Any]
    targets: tuple[StudyTarget, ...]
    seeds: int = 5
    most: int = 8
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class FleetProbe:
    """A fleet that was tried. ``quotas``: how they were set. ``fresh``: with seeds that the search does not use."""

    nodes: Nodes
    gpus: Mapping[str, int]
    quotas: str
    runs: tuple[StudyRun, ...]
    results: tuple[RunResult, ...]
    estimates: tuple[Estimate, ...]
    fresh: bool = False

    @property
    def verdict(self) -> TargetVerdict:
        return all_of([one.verdict for one in self.estimates])

    @property
    def total(self) -> int:
        return sum(self.gpus.values())


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """``given``: the fleet as it is. ``found``: the smallest that keeps all targets, None where none does; ``check``: that with fresh seeds, None
    without seeds. ``below``: the largest fleet with fewer GPUs that was tried and is not known to keep them. ``probes``: all, in the order in which they were tried."""

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
    progress: Progress = lambda what, done, total: None,
) -> Capacity:
    """``root``: the folder of studies; what is done stays done there. Raises InputError before anything is begun, and for a replay that can't be done;
    StateError, ConnectError."""
    sizes = sizes_of(question.options["fleet"])
    check_question(question, sizes)
    folder = StudyFolder(root, question.name)
    with folder.held():
        runner = StudyRunner(folder, workers=workers, dask=dask, progress=progress)
        found = CapacitySearch(question, sizes, runner.results).run()
    return replace(found, before=runner.before)


def check_question(question: CapacityQuestion, sizes: Sizes) -> None:
    """Raises InputError where it can't be answered."""
    if not sizes.models:
        raise InputError(f"{question.options['fleet']}: it has no GPUs; expected a fleet that has")
    if not any(target.more_helps for target in question.targets):
        raise InputError(
            f"{question.targets[0]}: more GPUs do not bring that nearer; expected beside it a target that they do, such as 'p99 wait < 1h'"
        )
    plan = plan_of(_run(question, {}, None, {}))
    for target in question.targets:
        target.check(plan.queues.names, priced=plan.prices is not None)


def _run(question: CapacityQuestion, own: dict[str, Any], seed: int | None, digests: dict[str, str]) -> StudyRun:
    return run_of(seed or 0, {**question.options, **own}, own, seed, digests)


def _asked_on_average(trace: Trace) -> float:
    """GPUs, from the first arrival to the last."""
    span = trace.jobs[-1].arrival - trace.jobs[0].arrival
    return sum(job.demand for job in trace.jobs) / WHOLE / max(1, span)


class CapacitySearch:
    """``results``: of runs, by their keys."""

    def __init__(self, question: CapacityQuestion, sizes: Sizes, results: Results) -> None:
        self._question = question
        self._sizes = sizes
        self._results = results
        self._digests: dict[str, str] = {}
        self._probes: list[FleetProbe] = []
        self._known: dict[tuple[Any, ...], FleetProbe] = {}
        self._looks = 0
        self._step = question.step or max(1, sum(sizes.given.values()) // 100)
        self._helped = tuple(target for target in question.targets if target.more_helps)
        plan = plan_of(_run(question, {}, None, {}))
        self._needs = required_gpus(trace_of(question.options), plan.queues.of_team)
        self._likely = sum(sizes.mixed_for(_asked_on_average(trace_of(question.options))).values())
        mode = question.options.get("queues", NO_QUOTA)
        # A file of queues says what is promised; one queue owes nothing to another.
        self._schemes = (
            (GIVEN, NEED) if mode in MODES and mode != ONE and "quotas" not in question.options else (GIVEN,)
        )

    def run(self) -> Capacity:
        total = sum(self._sizes.given.values())
        given = self._probe(self._sizes.given, GIVEN)
        nodes = self._smallest(total)
        found = check = None
        if nodes is not None:
            found, check = self._checked(self._fewer_of_each(nodes))
            if found is None and self._helped != self._question.targets:
                found, check = self._larger(nodes)
        return Capacity(
            question=self._question,
            given=given,
            found=found,
            check=check,
            below=self._below(found),
            probes=tuple(self._probes),
        )

    # --- the search ----------------------------------------------------------------------------------------------------

    def _smallest(self, given: int) -> Nodes | None:
        """In the proportion of the fleet. One that keeps the targets by luck is passed over: the next larger one has to keep them too."""
        most = self._question.most * given
        low, high = 0, given
        while not self._enough(high):
            if high >= most:
                return None
            low, high = high, min(2 * high, most)
        while True:
            high = self._bisected(low, high, lambda count: self._enough(count))
            beyond = high + self._step
            if beyond > most or self._enough(beyond):
                return self._sizes.in_proportion(high)
            low = beyond
            high = beyond + self._step
            while not self._enough(high):
                if high >= most:
                    return None
                low, high = high, min(2 * high, most)

    def _fewer_of_each(self, nodes: Nodes) -> Nodes:
        """Of no model can a step be left out then, all else as it is."""
        if len(nodes) == 1:
            return nodes
        left = dict(nodes)
        for model in sorted(left, key=lambda one: (-self._sizes.gpus(left)[one], one)):
            step, self._step = self._step, max(1, left[model] // 100)
            if left[model] and self._keeps({**left, model: 0}):
                left[model] = 0
            elif left[model]:
                left[model] = self._bisected(0, left[model], partial(self._keeps_with, left, model))
            self._step = step
        return left

    def _keeps_with(self, nodes: Nodes, model: str, count: int) -> bool:
        return self._keeps({**nodes, model: count})

    def _bisected(self, low: int, high: int, keeps: Callable[[int], bool]) -> int:
        """The least count above ``low`` that keeps, to a step; ``high`` does."""
        while high - low > self._step:
            # Fleets with less than what is asked for on average take longest to replay: one that has just that is tried before them.
            middle = max((low + high) // 2, self._likely if low < self._likely < high else 0)
            low, high = (low, middle) if keeps(middle) else (middle, high)
        return high

    def _checked(self, nodes: Nodes) -> tuple[FleetProbe | None, FleetProbe | None]:
        """With seeds that the search did not see; grown until these say so too."""
        most = {model: self._question.most * count for model, count in self._sizes.given.items()}
        while True:
            found = self._best(nodes, self._question.targets)
            if not self._question.seeds or found.verdict is not TargetVerdict.yes:
                return (found if found.verdict is TargetVerdict.yes else None), None
            check = self._probe(nodes, found.quotas, fresh=True)
            if check.verdict is TargetVerdict.yes:
                return found, check
            grown = {
                model: min(most[model], count + max(1, self._step * count // sum(nodes.values())))
                for model, count in nodes.items()
            }
            if grown == dict(nodes):
                return None, check
            nodes = grown

    def _larger(self, smallest: Nodes) -> tuple[FleetProbe | None, FleetProbe | None]:
        """Use and cost don't go steadily with size: a somewhat larger fleet may be done so much sooner that it keeps what the smallest does not. Those a few
        steps above it are tried, and those that were tried already."""
        count = sum(smallest.values())
        most = self._question.most * sum(self._sizes.given.values())
        for beyond in range(count + self._step, min(most, count + _BEYOND * self._step) + 1, self._step):
            self._best(self._sizes.in_proportion(beyond), self._question.targets)
        kept = [one for one in self._probes if not one.fresh and one.verdict is TargetVerdict.yes]
        check = None
        for found in sorted(kept, key=lambda one: one.total):
            if not self._question.seeds:
                return found, None
            check = self._probe(found.nodes, found.quotas, fresh=True)
            if check.verdict is TargetVerdict.yes:
                return found, check
        return None, check

    def _below(self, found: FleetProbe | None) -> FleetProbe | None:
        failed = [
            one
            for one in self._probes
            if not one.fresh and one.verdict is not TargetVerdict.yes and (found is None or one.total < found.total)
        ]
        return max(failed, key=lambda one: one.total, default=None)

    def _enough(self, count: int) -> bool:
        return self._keeps(self._sizes.in_proportion(count))

    def _keeps(self, nodes: Nodes) -> bool:
        """All targets that more GPUs help: of the others those of the smallest fleet decide."""
        return (
            all_of([one.verdict for one in self._best(nodes, self._helped).estimates if one.target in self._helped])
            is TargetVerdict.yes
        )

    # --- what was tried ------------------------------------------------------------------------------------------------

    def _best(self, nodes: Nodes, targets: Sequence[StudyTarget]) -> FleetProbe:
        """With the first way of setting quotas that keeps the targets, else with the first."""
        first = None
        for scheme in self._schemes:
            probe = self._probe(nodes, scheme)
            if all_of([one.verdict for one in probe.estimates if one.target in targets]) is TargetVerdict.yes:
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
        own: dict[str, Any] = {"size": gpus}
        if scheme == NEED:
            first = {target.queue for target in self._question.targets if target.queue != ALL}
            own["quotas"] = required_quotas(self._needs, sum(gpus.values()), first)
        count = self._question.seeds
        seeds = [None] if not count else range(count, 2 * count) if fresh else range(count)
        runs = tuple(_run(self._question, own, seed, self._digests) for seed in seeds)
        results = self._results(runs)
        there = tuple(results[run.key] for run in runs)
        if failed := next((one for one in there if one.error), None):
            raise InputError(f"a replay on {sum(gpus.values())} GPUs can't be done: {failed.error}")
        estimates = judge_setting(self._question.targets, there, sampled=bool(count), error=self._error(fresh))
        return FleetProbe(
            nodes=dict(nodes), gpus=gpus, quotas=scheme, runs=runs, results=there, estimates=estimates, fresh=fresh
        )

    def _error(self, fresh: bool) -> float:
        """The search may be wrong: what it finds is looked at with fresh seeds. Fleets are grown until one passes that, so each look has a smaller part of the chance to be wrong, and
        however many there are, they have no more than all of it: 1/2 + 1/6 + 1/12 ..."""
        if not fresh:
            return ERROR_RATE
        self._looks += 1
        return ERROR_RATE / (self._looks * (self._looks + 1))


# What each queue gains or loses by another fleet, seed by seed: how much longer or shorter its jobs wait.


@dataclass(frozen=True, kw_only=True)
class MeanWait:
    """Means over the seeds, in seconds; None where in a seed too many jobs never began. ``began``: jobs."""

    quota: float
    mean: float | None
    p99: float | None
    began: float


@dataclass(frozen=True, kw_only=True)
class TeamGain:
    """Of a queue. ``longer``: by how much its jobs wait longer in the mean, each seed against itself; None where there is no number, or one seed.
    ``verdict``: ``gains``, ``loses``, ``same``, or ``open`` where the seeds do not tell with 95 % confidence."""

    queue: str
    before: MeanWait
    after: MeanWait
    longer: ConfidenceBounds | None
    verdict: str


def team_gains(given: FleetProbe, found: FleetProbe) -> list[TeamGain]:
    """Both with the same seeds. The verdicts of all queues together have 95 % confidence: they share the chance to be wrong."""
    before, after = plan_of(given.runs[0]).queues.quotas, plan_of(found.runs[0]).queues.quotas
    queues = [queue for queue in before if all(_rows(probe.results, queue) for probe in (given, found))]
    error = ERROR_RATE / (2 * max(1, len(queues)))
    return [
        _gain(queue, _rows(given.results, queue), _rows(found.results, queue), (before[queue], after[queue]), error)
        for queue in queues
    ]


def _rows(results: Sequence[RunResult], queue: str) -> list[dict[str, Any]]:
    """Of each seed its row; none where a seed has no job of the queue."""
    found = [row for result in results for row in result.rows if row["queue"] == queue != ALL]
    return found if len(found) == len(results) else []


def _gain(
    queue: str,
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    quotas: tuple[float, float],
    error: float,
) -> TeamGain:
    one, other = _wait(before, quotas[0]), _wait(after, quotas[1])
    if one.mean is None or other.mean is None:
        verdict = _by_begun(one, other)
        return TeamGain(queue=queue, before=one, after=other, longer=None, verdict=verdict)
    differences = [b["waits_mean"] - a["waits_mean"] for a, b in zip(before, after, strict=True)]
    longer = confidence_bounds(differences, error)
    if not any(differences):
        verdict = "same"
    elif longer is None:
        verdict = "loses" if differences[0] > 0 else "gains"
    else:
        verdict = "loses" if longer.low > 0 else "gains" if longer.high < 0 else "open"
    return TeamGain(queue=queue, before=one, after=other, longer=longer, verdict=verdict)


def _by_begun(one: MeanWait, other: MeanWait) -> str:
    if one.began == other.began:
        return "open"
    return "gains" if other.began > one.began else "loses"


def _wait(rows: list[dict[str, Any]], quota: float) -> MeanWait:
    return MeanWait(
        quota=quota,
        mean=_mean([row["waits_mean"] for row in rows]),
        p99=_mean([row["waits_p99"] for row in rows]),
        began=fmean(row["began"] for row in rows),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if len(there) == len(values) else None
