"""Many situations judged, one seed after the other, and what came of it: the share that is right, by cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from time import monotonic

from checks.explaining.judging import JudgedAnswer, judge_situation
from checks.explaining.random_situation import seeded
from checks.fuzzing.walk import Tell
from kailab.errors import KailabError


@dataclass(frozen=True)
class SeedResult:
    """``broken``: why the situation could not be carried out; a fault of the generator, not of an answer."""

    seed: int
    judged: tuple[JudgedAnswer, ...] = ()
    broken: str = ""


@dataclass
class Tally:
    right: int = 0
    wrong: int = 0
    with_steps: int = 0

    @property
    def asked(self) -> int:
        return self.right + self.wrong


@dataclass
class Findings:
    """Of a run. ``cases``: situations that were carried out."""

    results: list[SeedResult] = field(default_factory=list)

    @property
    def all(self) -> list[tuple[int, JudgedAnswer]]:
        """Whatever was judged."""
        return [(one.seed, judged) for one in self.results for judged in one.judged if not judged.restless]

    @property
    def restless(self) -> list[tuple[int, JudgedAnswer]]:
        """What could not be judged, because a lab never comes to rest."""
        return [(one.seed, judged) for one in self.results for judged in one.judged if judged.restless]

    @property
    def failed(self) -> list[tuple[int, JudgedAnswer]]:
        return [(seed, one) for seed, one in self.all if not one.right]

    @property
    def asked(self) -> int:
        return len(self.all)

    @property
    def share(self) -> float:
        """Per cent that are right; 100 where nothing was asked."""
        return 100.0 if not self.asked else 100.0 * (self.asked - len(self.failed)) / self.asked

    def unlike_each_other(self) -> list[tuple[int, JudgedAnswer]]:
        """What failed, one of each cause and part before a second of any."""
        kinds: dict[tuple[str, str], int] = {}
        ranked = []
        for place, (seed, one) in enumerate(self.failed):
            kind = (one.code, one.faults[0][0])
            kinds[kind] = rank = kinds.get(kind, 0) + 1
            ranked.append((rank, place, (seed, one)))
        return [found for _, _, found in sorted(ranked, key=lambda entry: entry[:2])]

    def by_code(self) -> dict[str, Tally]:
        """Sorted by how often a code came first."""
        found: dict[str, Tally] = {}
        for _, one in self.all:
            tally = found.setdefault(one.code or "(none)", Tally())
            tally.right += one.right
            tally.wrong += not one.right
            tally.with_steps += one.steps > 0
        return dict(sorted(found.items(), key=lambda entry: (-entry[1].asked, entry[0])))

    def text(self, most: int = 10) -> str:
        """The share by cause, the first ``most`` that failed, and the share of all as the last line."""
        lines = [f"{'FIRST CAUSE':<28}{'RIGHT':>7}{'WRONG':>7}{'SHARE':>9}{'WITH A STEP':>13}"]
        for code, tally in self.by_code().items():
            share = 100.0 * tally.right / tally.asked
            lines.append(f"{code:<28}{tally.right:>7}{tally.wrong or '':>7}{share:>8.1f}%{tally.with_steps:>13}")
        for seed, one in self.unlike_each_other()[:most]:
            lines += ["", f"case {seed}, {one.work}: {one.verdict} {one.code}".rstrip()]
            lines += [f"    {one.sentence}"] if one.sentence else []
            lines += [f"    {part}: {what}" for part, what in one.faults]
        rest = len(self.failed) - most
        if rest > 0:
            lines += ["", f"and {rest} more"]
        for result in self.results:
            if result.broken:
                lines += ["", f"case {result.seed} can't be carried out: {result.broken}"]
        for seed, one in self.restless:
            lines += ["", f"case {seed}, {one.work} is not judged: {one.restless}"]
        lines += ["", self.summary()]
        return "\n".join(lines)

    def summary(self) -> str:
        named = [one.named_next for _, one in self.all if one.named_next is not None]
        chained = f"; the next cause had been named in {sum(named)} of {len(named)}" if named else ""
        right = self.asked - len(self.failed)
        left = f"; not judged {len(self.restless)}, whose lab never comes to rest" if self.restless else ""
        return f"{right} of {self.asked} answers right in {len(self.results)} cases: {self.share:.2f} %{chained}{left}"

    def as_json(self) -> str:
        return json.dumps(
            {
                "cases": len(self.results),
                "asked": self.asked,
                "right": self.asked - len(self.failed),
                "share": self.share,
                "codes": {code: asdict(tally) for code, tally in self.by_code().items()},
                "failed": [{"case": seed, **asdict(one)} for seed, one in self.failed],
                "restless": [{"case": seed, "work": str(one.work), "why": one.restless} for seed, one in self.restless],
                "broken": {str(one.seed): one.broken for one in self.results if one.broken},
            },
            indent=1,
        )


def run_seed(seed: int, *, steps: bool = False) -> SeedResult:
    """See ``judge``."""
    try:
        return SeedResult(seed, tuple(judge_situation(seeded(seed), steps=steps)))
    except KailabError as error:
        return SeedResult(seed, broken=f"{type(error).__name__}: {error}")


def run_seeds(
    seeds: Sequence[int],
    workers: int = 1,
    budget: float | None = None,
    tell: Tell | None = None,
    *,
    steps: bool = False,
) -> Findings:
    """In the order of the seeds, whatever the number of ``workers`` (processes). ``budget``: seconds after which no further one is begun. ``tell("situations", done, total)`` is called as they are done."""
    findings = Findings()
    end = None if budget is None else monotonic() + budget
    for result in _results(seeds, workers, partial(run_seed, steps=steps)):
        findings.results.append(result)
        if tell is not None:
            tell("situations", len(findings.results), len(seeds))
        if end is not None and monotonic() >= end:
            break
    return findings


def _results(seeds: Sequence[int], workers: int, judged: Callable[[int], SeedResult]) -> Iterator[SeedResult]:
    if workers <= 1:
        yield from map(judged, seeds)
        return
    with get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(judged, seeds)
