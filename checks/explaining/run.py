"""Judges many situations, one per seed, and reports the share of right answers by cause."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from time import monotonic

from checks.explaining.judging import JudgedAnswer, judge_situation
from checks.explaining.platform_cluster import SIZES, platform_situation
from checks.explaining.random_situation import seeded
from checks.explaining.situation import Situation
from checks.fuzzing.walk import Tell
from kailab.errors import KailabError

MISTAKES = "mistakes"
"""The area of small clusters with misconfigured work."""
AREAS = (MISTAKES, *SIZES)
PARTS = ("verdict", "cause", "naming", "number", "screens", "step", "words", "outcome", "failed")
"""What is judged of an answer."""


def situation_of(seed: int, area: str = MISTAKES) -> Situation:
    """The situation of a seed in one of ``AREAS``."""
    return platform_situation(seed, area) if area in SIZES else seeded(seed)


@dataclass(frozen=True)
class SeedResult:
    """The judged answers of a seed. ``broken``: why the situation could not be carried out, which is a fault of the
    generator, not of an answer.
    """

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
    """The results of a run in an area."""

    results: list[SeedResult] = field(default_factory=list)
    area: str = MISTAKES

    @property
    def all(self) -> list[tuple[int, JudgedAnswer]]:
        """All judged answers."""
        return [(result.seed, judged) for result in self.results for judged in result.judged if not judged.restless]

    @property
    def restless(self) -> list[tuple[int, JudgedAnswer]]:
        """Answers that could not be judged, because a lab never settles."""
        return [(result.seed, judged) for result in self.results for judged in result.judged if judged.restless]

    @property
    def failed(self) -> list[tuple[int, JudgedAnswer]]:
        return [(seed, answer) for seed, answer in self.all if not answer.right]

    @property
    def asked(self) -> int:
        return len(self.all)

    @property
    def share(self) -> float:
        """The percentage of right answers; 100 without answers."""
        return 100.0 if not self.asked else 100.0 * (self.asked - len(self.failed)) / self.asked

    def failures_by_variety(self) -> list[tuple[int, JudgedAnswer]]:
        """The failures, one of each cause and part before a second of any."""
        kinds: dict[tuple[str, str], int] = {}
        ranked = []
        for place, (seed, answer) in enumerate(self.failed):
            kind = (answer.code, answer.faults[0][0])
            kinds[kind] = rank = kinds.get(kind, 0) + 1
            ranked.append((rank, place, (seed, answer)))
        return [failure for _, _, failure in sorted(ranked, key=lambda entry: entry[:2])]

    def by_code(self) -> dict[str, Tally]:
        """By first cause, the most frequent first."""
        tallies: dict[str, Tally] = {}
        for _, answer in self.all:
            tally = tallies.setdefault(answer.code or "(none)", Tally())
            tally.right += answer.right
            tally.wrong += not answer.right
            tally.with_steps += answer.steps > 0
        return dict(sorted(tallies.items(), key=lambda entry: (-entry[1].asked, entry[0])))

    def text(self, most: int = 10) -> str:
        """The share by cause, the first ``most`` failures, and the total share as the last line."""
        lines = [f"{'FIRST CAUSE':<28}{'RIGHT':>7}{'WRONG':>7}{'SHARE':>9}{'WITH A STEP':>13}"]
        for code, tally in self.by_code().items():
            share = 100.0 * tally.right / tally.asked
            lines.append(f"{code:<28}{tally.right:>7}{tally.wrong or '':>7}{share:>8.1f}%{tally.with_steps:>13}")
        for seed, answer in self.failures_by_variety()[:most]:
            lines += ["", f"case {seed}, {answer.work}: {answer.verdict} {answer.code}".rstrip()]
            lines += [f"    {answer.sentence}"] if answer.sentence else []
            lines += [f"    {part}: {sentence}" for part, sentence in answer.faults]
        rest = len(self.failed) - most
        if rest > 0:
            lines += ["", f"and {rest} more"]
        for result in self.results:
            if result.broken:
                lines += ["", f"case {result.seed} can't be carried out: {result.broken}"]
        for seed, answer in self.restless:
            lines += ["", f"case {seed}, {answer.work} is not judged: {answer.restless}"]
        lines += ["", self.summary()]
        return "\n".join(lines)

    def summary(self) -> str:
        named = [answer.named_next for _, answer in self.all if answer.named_next is not None]
        chained = f"; the next cause had been named in {sum(named)} of {len(named)}" if named else ""
        right = self.asked - len(self.failed)
        chained += f"; {self._parts()}"
        left = f"; not judged {len(self.restless)}, whose lab never comes to rest" if self.restless else ""
        return f"{right} of {self.asked} answers right in {len(self.results)} cases: {self.share:.2f} %{chained}{left}"

    def with_faults(self, *parts: str) -> int:
        """The number of answers with a fault in one of these parts."""
        return sum(any(part in parts for part, _ in answer.faults) for _, answer in self.all)

    @property
    def steps(self) -> int:
        """The number of judged steps."""
        return sum(answer.steps for _, answer in self.all)

    def _parts(self) -> str:
        wrong = self.with_faults("verdict", "cause", "naming", "failed")
        causes = 100.0 if not self.asked else 100.0 * (self.asked - wrong) / self.asked
        steps = f"{self.steps} steps, {self.with_faults('step', 'words', 'outcome')} answers with a step that does other than it says"
        return (
            f"causes {causes:.2f} %, {steps}, {self.with_faults('number')} with a number that contradicts the objects, "
            f"{self.with_faults('screens')} with screens that disagree"
        )

    def as_json(self) -> str:
        return json.dumps(
            {
                "area": self.area,
                "cases": len(self.results),
                "asked": self.asked,
                "right": self.asked - len(self.failed),
                "share": self.share,
                "steps": self.steps,
                "parts": {part: self.with_faults(part) for part in PARTS},
                "codes": {code: asdict(tally) for code, tally in self.by_code().items()},
                "failed": [{"case": seed, **asdict(result)} for seed, result in self.failed],
                "restless": [
                    {"case": seed, "work": str(result.work), "why": result.restless} for seed, result in self.restless
                ],
                "broken": {str(result.seed): result.broken for result in self.results if result.broken},
            },
            indent=1,
        )


def run_seed(seed: int, *, steps: bool = False, area: str = MISTAKES) -> SeedResult:
    """Judge the situation of a seed in an area, see ``judge_situation``."""
    most = SIZES[area].judged if area in SIZES else None
    try:
        return SeedResult(seed, tuple(judge_situation(situation_of(seed, area), steps=steps, most=most)))
    except KailabError as error:
        return SeedResult(seed, broken=f"{type(error).__name__}: {error}")


def run_seeds(
    seeds: Sequence[int],
    workers: int = 1,
    budget: float | None = None,
    tell: Tell | None = None,
    *,
    steps: bool = False,
    area: str = MISTAKES,
) -> Findings:
    """Judge the situations of these seeds in an area. Results are in the order of the seeds for any number of ``workers``
    (processes). ``budget``: seconds after which no further one begins. ``tell("situations", done, total)`` is called
    after each.
    """
    findings = Findings(area=area)
    end = None if budget is None else monotonic() + budget
    for result in _results(seeds, workers, partial(run_seed, steps=steps, area=area)):
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
