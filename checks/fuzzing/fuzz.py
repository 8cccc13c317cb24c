"""Checks random clusters against the invariants. Failures are shrunk and written as a manifest and as a case.

Case ``i`` of a run is the cluster of seed ``seed + i`` in each of its areas (``areas``), so any of them can be run
alone. Several processes may share the work; the report is the same.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from msgspec import structs

from checks.case_input import CaseInput
from checks.fuzzing.areas import SMALL, seeded
from checks.fuzzing.between_cycles import drawn_changes, violations_of_changes
from checks.fuzzing.case_manifest import as_yaml
from checks.fuzzing.shrinking import shrink
from checks.invariants import Decide, run_rounds, undetermined
from checks.recorded.case_writing import as_case
from checks.report import Report, Result
from kailab.engine.cycle import run_cycle
from kailab.errors import InputError

ROUNDS = 12
PIECE = 25
MOST_SHRUNK = 5

Tell = Callable[[str, int, int], None]
"""Progress callback: name, done, total."""


def violations(case_input: CaseInput, decide: Decide = run_cycle, rounds: int = ROUNDS) -> list[str]:
    """The violated invariants of a cluster that is run until it settles, and decided twice. A failure of the engine is
    a violation.
    """
    return _guarded(lambda: run_rounds(case_input, decide, rounds) + undetermined(case_input, decide))


def _guarded(run: Callable[[], list[str]]) -> list[str]:
    try:
        return run()
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        last = traceback.format_exception_only(error)[-1].strip()
        return [f"the engine failed: {last} ({Path(place.filename).name}:{place.lineno})"]


def kind_of(violation: str) -> str:
    """A violation without its names and numbers, by which two failures are recognised as the same."""
    bare = re.sub(r"^cycle \d+: ", "", violation)
    bare = re.sub(r"\{.*\}|: (?:binds|evicts) .*", "", bare)
    return " ".join("#" if any(c.isdigit() for c in word) else word for word in bare.split())


def run_seed(seed: int, area: str = SMALL, decide: Decide = run_cycle, most: int = ROUNDS, changes: int = 0) -> Result:
    """Run the cluster of a seed in an area; with ``changes`` also change it that often. Raises ``InputError`` for an
    unknown area.
    """
    case_input = seeded(seed, area)
    found = violations(case_input, decide, most)
    if changes and not found:
        found = _guarded(lambda: violations_of_changes(case_input, seed, changes, decide, most))
    return Result(id=f"{area}/{seed}", suite=area, differences=tuple(found))


def run_seeds(
    seeds: Sequence[int],
    workers: int = 1,
    tell: Tell | None = None,
    areas: Sequence[str] = (SMALL,),
    changes: int = 0,
) -> Report:
    """Run the clusters of these seeds in each area, each changed ``changes`` times. ``tell("random clusters", done,
    total)`` is called after each.

    Raises ``InputError`` for an unknown area.
    """
    report = Report("random clusters")
    clusters = [(seed, area) for area in areas for seed in seeds]
    for result in _results(clusters, workers, changes):
        report.results.append(result)
        if tell is not None:
            tell("random clusters", len(report.results), len(clusters))
    return report


def _results(clusters: Sequence[tuple[int, str]], workers: int, changes: int) -> Iterator[Result]:
    run = partial(run_seed, changes=changes)
    if workers <= 1:
        yield from starmap(run, clusters)
        return
    piece = PIECE if all(area == SMALL for _, area in clusters) else 1
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(partial(_run_pair, changes), clusters, piece)


def _run_pair(changes: int, cluster: tuple[int, str]) -> Result:
    return run_seed(*cluster, changes=changes)


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest cluster found that fails like the one of ``seed`` in ``area``, and its violation."""

    seed: int
    area: str
    case_input: CaseInput
    violation: str

    @property
    def id(self) -> str:
        return case_id(self.seed, self.area)

    def manifest(self) -> str:
        """Kubernetes YAML; the head names the violation and how to reproduce it."""
        return as_yaml(self.case_input, [f"{self.id}, shrunk: {self.violation}"])

    def case(self) -> dict[str, Any]:
        return as_case(self.case_input, self.id, ROUNDS)


def shrink_seed(seed: int, decide: Decide = run_cycle, most_tries: int = 3_000, area: str = SMALL) -> Shrunk:
    """Shrink the failing cluster of a seed in an area, keeping the kind of its first violation.

    Raises ``InputError`` if it does not fail.
    """
    case_input = seeded(seed, area)
    first_violations = violations(case_input, decide)
    if not first_violations:
        raise InputError(f"the cluster of seed {seed} in {area} keeps every invariant: there is nothing to shrink")
    kind = kind_of(first_violations[0])
    smallest = shrink(case_input, partial(_fails_as, kind, decide), most_tries)
    violation = next(each for each in violations(smallest, decide) if kind_of(each) == kind)
    return Shrunk(seed, area, smallest, violation)


def case_id(seed: int, area: str = SMALL) -> str:
    """The id of the case of a seed in an area."""
    return f"random/{seed}" if area == SMALL else f"random/{area}/{seed}"


def drawn_case(seed: int, area: str = SMALL, cycles: int = ROUNDS, changes: int = 0) -> dict[str, Any]:
    """The cluster of a seed as a case of so many cycles, tagged with its area; with ``changes`` it is changed that
    often, with as many cycles after each change. Raises InputError for an unknown area.

    Consolidation may move any number of victims: KAI picks those of a bound in the order of a Go map, so a case with a
    bound has no single outcome.
    """
    drawn = seeded(seed, area)
    config = structs.replace(drawn.config, max_consolidation_victims=-1)
    return as_case(
        structs.replace(drawn, config=config),
        case_id(seed, area),
        cycles * (1 + changes),
        [f"area-{area}"],
        drawn_changes(drawn, seed, changes, cycles),
    )


def _fails_as(kind: str, decide: Decide, case_input: CaseInput) -> bool:
    return any(kind_of(violation) == kind for violation in violations(case_input, decide))


def shrink_failures(report: Report, most: int = MOST_SHRUNK) -> list[Shrunk]:
    """The first failures of a run, shrunk; one of each kind of violation before a second of any."""
    # A violation after a change is not shrunk: the changes follow from the seed and the whole cluster.
    failing = [
        result
        for result in report.results
        if not result.passed and not result.differences[0].startswith("after change")
    ]
    kinds: dict[str, list[tuple[int, str]]] = {}
    for result in failing:
        area, _, seed = result.id.rpartition("/")
        kinds.setdefault(kind_of(result.differences[0]), []).append((int(seed), area))
    order = sorted((rank, cluster) for clusters in kinds.values() for rank, cluster in enumerate(clusters))
    return [shrink_seed(seed, area=area) for _, (seed, area) in order[:most]]
