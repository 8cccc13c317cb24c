"""Reports of all checks: one result per case, a table by group, and a summary line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

AREA = "area-"
"""The beginning of the tag that tells what a randomly made case is about."""


class Agreement(NamedTuple):
    """Cases of one area: how many there are, in how many the status of every task agrees, and in how many its node and
    its sharing of devices as well.
    """

    cases: int
    status: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one case. It passed if ``differences`` is empty.

    ``differences`` are sentences: what was expected, what happened, and the engine's reason if known. ``notes``: parts
    of the case that could not be expressed or compared. ``counted`` False: the case was run but is not in the totals
    (its source says that parts of it cannot be expressed). ``same_status``: the status of every task agrees, whatever
    its node; None if nodes were not compared.
    """

    id: str
    suite: str
    differences: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counted: bool = True
    same_status: bool | None = None

    @property
    def passed(self) -> bool:
        return not self.differences

    @property
    def area(self) -> str:
        """The area of the case without its prefix, or ''."""
        return next((tag.removeprefix(AREA) for tag in self.tags if tag.startswith(AREA)), "")


@dataclass(slots=True)
class Report:
    """The results of a run. ``text()`` is for people, ``as_json()`` for programs."""

    title: str
    results: list[Result] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return sum(1 for result in self.results if result.counted and result.passed)

    @property
    def failed(self) -> int:
        return sum(1 for result in self.results if result.counted and not result.passed)

    @property
    def uncounted(self) -> list[Result]:
        return [result for result in self.results if not result.counted]

    def by_suite(self) -> dict[str, tuple[int, int]]:
        """Suite -> (passed, failed), sorted by name."""
        return _tally((result.suite, result) for result in self.results if result.counted)

    def by_tag(self) -> dict[str, tuple[int, int]]:
        """Tag -> (passed, failed), sorted by name. A case counts once for each of its tags."""
        return _tally((tag, result) for result in self.results if result.counted for tag in result.tags)

    def by_area(self) -> dict[str, Agreement]:
        """Area -> agreement, sorted by name, of the cases that have an area and whose nodes were compared."""
        areas: dict[str, Agreement] = {}
        for result in self.results:
            if result.counted and result.area and result.same_status is not None:
                cases, status, nodes = areas.get(result.area, (0, 0, 0))
                areas[result.area] = Agreement(cases + 1, status + result.same_status, nodes + result.passed)
        return dict(sorted(areas.items()))

    def text(self, verbose: bool = False, most: int = 6) -> str:
        """The differing cases, tables, and the last line ``N passed, M failed``.

        With ``verbose``, every difference is shown; otherwise only the first of each case.
        """
        lines: list[str] = []
        for result in self.results:
            if result.passed:
                continue
            mark = "DIFFERS" if result.counted else "differs (not counted)"
            shown = result.differences if verbose else result.differences[:1]
            more = len(result.differences) - len(shown)
            lines.append(f"{mark} {result.id}: {shown[0]}" + (f" (and {more} more)" if more else ""))
            lines.extend(f"        {difference}" for difference in shown[1:])
            if verbose:
                lines.extend(f"        note: {note}" for note in result.notes)
        for heading, tally in (("SUITE", self.by_suite()), ("TAG", self.by_tag())):
            if len(tally) > 1:
                lines += ["", *_table(heading, tally)]
        if self.uncounted:
            same = sum(1 for result in self.uncounted if result.passed)
            lines += [
                "",
                f"not counted: {len(self.uncounted)} cases with parts that can't be expressed, {same} agree",
            ]
        if areas := self.by_area():
            lines += ["", *_agreement_table(areas)]
        lines += ["", f"{self.passed} passed, {self.failed} failed"]
        return "\n".join(lines).lstrip("\n")

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "passed": self.passed,
            "failed": self.failed,
            "suites": {name: {"passed": good, "failed": bad} for name, (good, bad) in self.by_suite().items()},
            "areas": {name: agreement._asdict() for name, agreement in self.by_area().items()},
            "results": [
                {
                    "id": result.id,
                    "suite": result.suite,
                    "passed": result.passed,
                    "counted": result.counted,
                    "tags": list(result.tags),
                    "differences": list(result.differences),
                    "notes": list(result.notes),
                }
                for result in self.results
            ],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1, sort_keys=True)


def _tally(pairs: Iterable[tuple[str, Result]]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for name, result in pairs:
        good, bad = counts.get(name, (0, 0))
        counts[name] = (good + result.passed, bad + (not result.passed))
    return dict(sorted(counts.items()))


def _table(heading: str, tally: dict[str, tuple[int, int]]) -> list[str]:
    width = max(len(heading), *map(len, tally))
    lines = [f"{heading:<{width}}  PASSED  FAILED"]
    lines += [f"{name:<{width}}  {good:>6}  {bad or '':>6}" for name, (good, bad) in tally.items()]
    return lines


def _agreement_table(areas: dict[str, Agreement]) -> list[str]:
    every = Agreement(*(sum(amounts) for amounts in zip(*areas.values(), strict=True)))
    rows = {**areas, "all areas": every} if len(areas) > 1 else areas
    width = max(len("AREA"), *map(len, rows))
    lines = [f"{'AREA':<{width}}  CASES  STATUS   NODES"]
    for name, (cases, status, nodes) in rows.items():
        lines.append(f"{name:<{width}}  {cases:>5}  {status / cases:>6.1%}  {nodes / cases:>6.1%}")
    return lines
