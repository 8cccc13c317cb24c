"""Reports of all checks: one result per case, a table by group, and a summary line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kailab.engine.faults import FaultsBehind

AREA = "area-"
"""The beginning of the tag that tells what a randomly made case is about."""


SIZES = (4, 8, 16, 32)
"""The largest number of nodes in each class of sizes; larger clusters are a class of their own."""

Grouping = Literal["area", "size"]
GROUPINGS: tuple[Grouping, ...] = ("area", "size")


class Agreement(NamedTuple):
    """Cases of one area or size: how many there are, in how many the status of every task agrees, and in how many its
    node and its sharing of devices as well; the latter two also with KAI's faults imitated, or None.
    """

    cases: int
    status: int
    nodes: int
    status_imitating: int | None = None
    nodes_imitating: int | None = None


class ImitatedOutcome(NamedTuple):
    """A case decided with KAI's faults imitated: whether the status of every task agrees, and everything. ``behind``:
    the faults without which the case would differ; None if it agrees without them too, or differs all the same.
    """

    same_status: bool
    passed: bool
    behind: FaultsBehind | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one case. It passed if ``differences`` is empty.

    ``differences`` are sentences: what was expected, what happened, and the engine's reason if known. ``notes``: parts
    of the case that could not be expressed or compared. ``counted`` False: the case was run but is not in the totals
    (its source says that parts of it cannot be expressed). ``same_status``: the status of every task agrees, whatever
    its node; None if nodes were not compared. ``size``: the number of nodes, 0 if not told. ``imitating``: the
    outcome with KAI's faults imitated, if that was asked for.
    """

    id: str
    suite: str
    differences: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    counted: bool = True
    same_status: bool | None = None
    size: int = 0
    imitating: ImitatedOutcome | None = None

    @property
    def passed(self) -> bool:
        return not self.differences

    @property
    def area(self) -> str:
        """The area of the case without its prefix, or ''."""
        return next((tag.removeprefix(AREA) for tag in self.tags if tag.startswith(AREA)), "")

    @property
    def size_class(self) -> str:
        """The number of nodes as a range, such as ``9 to 16 nodes``."""
        least = 1
        for most in SIZES:
            if self.size <= most:
                return f"{least} to {most} nodes"
            least = most + 1
        return f"{least} nodes and more"

    def group(self, by: Sequence[Grouping]) -> str:
        """What the case counts for in a table by these properties."""
        return ", ".join(self.area if name == "area" else self.size_class for name in by)

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "suite": self.suite,
            "passed": self.passed,
            "counted": self.counted,
            "tags": list(self.tags),
            "differences": list(self.differences),
            "notes": list(self.notes),
        }

    @property
    def cause(self) -> str:
        """Why a case differs from KAI, as far as imitating KAI's faults tells. '' if it agrees or was not tried."""
        if self.passed or self.imitating is None:
            return ""
        behind = self.imitating.behind
        if behind is None:
            return "not explained by faults that can be imitated"
        if not behind.faults:
            return "the order of equally full devices"
        numbers = [str(fault.number) for fault in behind.faults]
        if len(numbers) == 1:
            return f"fault {numbers[0]}"
        return f"faults {' and '.join(numbers)} together" if behind.together else f"fault {' or '.join(numbers)}"


@dataclass(slots=True)
class Report:
    """The results of a run. ``text()`` is for people, ``as_json()`` for programs."""

    title: str
    results: list[Result] = field(default_factory=list)
    by: tuple[Grouping, ...] = ("area",)

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
        """Area (or size, or both: ``by``) -> agreement, of the cases that have an area and whose nodes were compared."""
        groups: dict[str, list[Result]] = {}
        compared = [
            result for result in self.results if result.counted and result.area and result.same_status is not None
        ]
        for result in sorted(compared, key=lambda one: (one.area if "area" in self.by else "", one.size)):
            groups.setdefault(result.group(self.by), []).append(result)
        return {name: _agreement(results) for name, results in groups.items()}

    def by_cause(self) -> dict[str, list[str]]:
        """Cause -> ids of the cases that differ for it (``Result.cause``)."""
        causes: dict[str, list[str]] = {}
        for result in self.results:
            if result.counted and result.cause:
                causes.setdefault(result.cause, []).append(result.id)
        return dict(sorted(causes.items()))

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
            lines += ["", *_agreement_table(" AND ".join(self.by).upper(), areas)]
        if causes := self.by_cause():
            lines += ["", "CASES  WHY THEY DIFFER"]
            lines += [f"{len(ids):>5}  {cause}: {', '.join(sorted(ids))}" for cause, ids in causes.items()]
        lines += ["", f"{self.passed} passed, {self.failed} failed"]
        return "\n".join(lines).lstrip("\n")

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "passed": self.passed,
            "failed": self.failed,
            "suites": {name: {"passed": good, "failed": bad} for name, (good, bad) in self.by_suite().items()},
            "areas": {
                name: {column: value for column, value in agreement._asdict().items() if value is not None}
                for name, agreement in self.by_area().items()
            },
            "causes": self.by_cause(),
            "results": [result.as_dict() for result in self.results],
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


def _agreement(results: Sequence[Result]) -> Agreement:
    imitated = [result.imitating for result in results if result.imitating is not None]
    whole = len(imitated) == len(results)
    return Agreement(
        len(results),
        sum(bool(result.same_status) for result in results),
        sum(result.passed for result in results),
        sum(outcome.same_status for outcome in imitated) if whole else None,
        sum(outcome.passed for outcome in imitated) if whole else None,
    )


def _summed(groups: Sequence[Agreement]) -> Agreement:
    imitating = [
        (group.status_imitating, group.nodes_imitating)
        for group in groups
        if group.status_imitating is not None and group.nodes_imitating is not None
    ]
    whole = len(imitating) == len(groups)
    return Agreement(
        sum(group.cases for group in groups),
        sum(group.status for group in groups),
        sum(group.nodes for group in groups),
        sum(status for status, _ in imitating) if whole else None,
        sum(nodes for _, nodes in imitating) if whole else None,
    )


def _agreement_table(heading: str, groups: dict[str, Agreement]) -> list[str]:
    every = _summed(list(groups.values()))
    rows = {**groups, "all": every} if len(groups) > 1 else groups
    width = max(len(heading), *map(len, rows))
    imitated = "" if every.nodes_imitating is None else "  IMITATING: STATUS   NODES"
    lines = [f"{heading:<{width}}  CASES  STATUS   NODES{imitated}"]
    for name, (cases, status, nodes, *imitating) in rows.items():
        line = f"{name:<{width}}  {cases:>5}  {status / cases:>6.1%}  {nodes / cases:>6.1%}"
        amounts = [amount for amount in imitating if amount is not None]
        if amounts:
            line += f"  {amounts[0] / cases:>17.1%}  {amounts[1] / cases:>6.1%}"
        lines.append(line)
    return lines
