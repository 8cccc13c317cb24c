"""Carries out a hunt: cluster after cluster is decided, and differences are cut down and kept with the evidence of both
sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from checks.hunting.bench import SchedulerBench
from checks.hunting.history import with_changes
from checks.hunting.judging import OURS, Judge, JudgedSample
from checks.hunting.outcomes import DEFAULT_KINDS, with_expectations
from checks.hunting.outcomes import KINDS as COMPARED
from checks.hunting.random_sample import seeded
from checks.hunting.sample import SCENARIO, HuntSample
from checks.hunting.shrinking import shrink
from checks.hunting.store import Decided, Hunt, HuntFolder
from checks.hunting.team_sample import check_hunt_area, seeded_in
from kailab.cluster.backends import BACKENDS
from kailab.errors import ConnectError, InputError, StateError
from kailab.trials.definition import contender, make_trial, subjects_of
from kailab.trials.matrix import KINDS, TrialCell, TrialSubject
from kailab.trials.store import TrialFolder
from kailab.trials.trial import CellDigests, run_trial
from kailab.undertest.contract import SchedulerFailed
from kailab.undertest.selection import check_lab, choose_scheduler

HOME = "embedded"
"""Where kailab decides first: it is fast there, and deterministic."""

_VENUE_ERRORS = (ConnectError, StateError, SchedulerFailed)

MOST_NODES = 100
"""Of a drawn cluster: more would take a real cluster minutes for each."""

MOST_FAILED = 3
"""A hunt ends after this many clusters in a row for which no control plane could be started. A busy machine may fail
once or twice.
"""

Tell = Callable[[str, int, int], None]
Notice = Callable[[str], None]


def carry_out(
    hunt: Hunt,
    folder: HuntFolder,
    seeds: Iterable[int],
    until: float | None,
    options: Mapping[str, Any],
    tell: Tell,
    notice: Notice,
) -> None:
    """Decide the clusters of these seeds that are not decided yet; those that failed are tried again.

    ``until``: a time of the monotonic clock, or None for all seeds. ``options``: of the backend. A cluster for which no
    control plane starts is reported, counted and skipped. Raises StateError after ``MOST_FAILED`` of them in a row,
    KailabError, KeyboardInterrupt; decided clusters are kept.
    """
    bench = SchedulerBench(hunt.isolation, dict(options), notice)
    judge = Judge(
        hunt.against, hunt.column, bench, SchedulerBench(HOME, {}, notice), hunt.kinds, hunt.again, folder.work
    )
    done, failed = folder.decided(), 0
    try:
        for number, seed in enumerate(seeds):
            if until is not None and time.monotonic() >= until:
                return
            if seed in done and done[seed].judged.verdict != "error":
                continue
            tell(f"seed {seed}", number, 0)
            try:
                decided = _decide_seed(seed, hunt, folder, judge, bench, notice)
                failed = 0
            except _VENUE_ERRORS as error:
                bench.close()
                decided, failed = Decided(seed=seed, judged=JudgedSample(verdict="error", why=str(error))), failed + 1
                notice(f"seed {seed} is not decided: {error}")
            folder.keep(decided)
            if failed == MOST_FAILED:
                raise StateError(f"{failed} clusters in a row could not be decided; the last: {decided.judged.why}")
    finally:
        bench.close()


def _decide_seed(
    seed: int, hunt: Hunt, folder: HuntFolder, judge: Judge, bench: SchedulerBench, notice: Notice
) -> Decided:
    """Decide one cluster, and cut down a difference."""
    begun = time.monotonic()
    nodes = range(hunt.nodes[0], hunt.nodes[1] + 1) if hunt.nodes else None
    sample = seeded_in(hunt.area, seed, nodes) if hunt.area else seeded(seed)
    sample = with_changes(sample, hunt.changes)
    judged = judge.judge(sample)
    if judged.verdict != "differs":
        return Decided(seed=seed, judged=judged, seconds=_since(begun))
    notice(f"{sample.name} differs: {judged.differences[0]}; cutting it down")
    small = shrink(sample, judged.differences, judge.differs, hunt.tries)
    # The smaller sample may differ only by chance; then the original stands.
    again = judge.judge(small)
    if again.verdict == "differs":
        judged = again
    else:
        small = sample
    _keep_scenario(small, judged, hunt, folder, judge, bench, notice)
    return Decided(
        seed=seed,
        judged=judged,
        steps=len(small.steps),
        objects=len(list(small.objects())),
        nodes=sum(pool["count"] for pool in small.fleet["pools"]),
        seconds=_since(begun),
    )


def _keep_scenario(
    sample: HuntSample,
    judged: JudgedSample,
    hunt: Hunt,
    folder: HuntFolder,
    judge: Judge,
    bench: SchedulerBench,
    notice: Notice,
) -> None:
    """Write the sample with kailab's outcome as expectation, and run it as a trial of both."""
    place = folder.found(sample.seed)
    description = f"{OURS} -> {hunt.column}: " + "; ".join(map(str, judged.differences))
    with_expectations(sample, judge.ours(sample)).written(place, description)
    # The trial starts planes of its own, so this one is closed first.
    bench.close()
    trial = make_trial(
        [contender(OURS), contender(hunt.against, name=hunt.column)],
        subjects_of(str(place / SCENARIO)),
        [hunt.isolation],
        name="trial",
        compared=KINDS[:-1],
        jobs=1,
    )
    run_trial(trial, TrialFolder(place / trial.name), lambda *_: None, notice)


def _since(begun: float) -> float:
    return round(time.monotonic() - begun, 1)


def make_hunt(
    against: str,
    isolation: str,
    kinds: Sequence[str],
    again: int,
    tries: int,
    name: str,
    options: Mapping[str, Any],
    area: str = "",
    nodes: str = "",
    changes: int = 0,
) -> Hunt:
    """A hunt with defaults for what is not given. ``area``: of random clusters; "": small ones with a few of everything.
    ``nodes``: how many a cluster of an area has, as ``16-24``. ``changes``: of each cluster after its work has arrived.
    Raises InputError for an unknown area or scheduler, or one that cannot run in that isolation.
    """
    if area:
        check_hunt_area(area)
    if nodes and not area:
        raise InputError("--nodes: small clusters have one to four; expected an --area beside it")
    other = contender(against)
    if other.kind == OURS and other.name == OURS:
        raise InputError(
            f"--against {against}: {OURS} can't be compared with itself; expected another, or one of a file of names"
        )
    if unknown := [kind for kind in kinds if kind not in COMPARED]:
        expected = ", ".join(COMPARED)
        raise InputError(f"--compare: there is no kind of difference {unknown[0]!r}; expected some of: {expected}")
    BACKENDS.check(isolation)
    check_lab(isolation, other.scheduler, dict(options))
    choose_scheduler(other.scheduler).check_options()
    subject = TrialSubject(kind="scenarios", name="hunt", path="")
    cell = TrialCell(contender=other, isolation=isolation, subject=subject, fleet="")
    return Hunt(
        name=name or "-".join(filter(None, (other.name, isolation, area))),
        area=area,
        nodes=_read_range(nodes) if nodes else (),
        changes=changes,
        against=other.scheduler,
        column=other.name,
        isolation=isolation,
        kinds=tuple(kinds) or DEFAULT_KINDS,
        again=again,
        tries=tries,
        stands_on=CellDigests().of_cell(cell),
    )


def _read_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    numbers = [int(part) for part in (first, last or first) if part.isascii() and part.isdigit()]
    if len(numbers) < 2 or not 0 < numbers[0] <= numbers[1] <= MOST_NODES:
        raise InputError(f"--nodes {text}: expected a number, or two as in 16-24, from 1 to {MOST_NODES}")
    return numbers[0], numbers[1]


def seeds_from(first: int, clusters: int | None) -> Iterable[int]:
    """The seeds from ``first`` on; ``clusters`` None: endless."""
    return count(first) if clusters is None else range(first, first + clusters)


def forget_differing(folder: HuntFolder) -> int:
    """Forget the clusters that differ, or did by chance, so that they are decided again. Returns their number."""
    seeds = [seed for seed, decided in folder.decided().items() if decided.judged.verdict in ("differs", "chance")]
    for seed in seeds:
        folder.forget(seed)
    return len(seeds)
