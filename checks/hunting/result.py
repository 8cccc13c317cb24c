"""A hunt as it stands: counts, and what differs, accepted or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from checks.hunting.judging import OURS
from checks.hunting.sample import SCENARIO
from checks.hunting.store import Decided, Hunt, HuntFolder
from kailab.trials.baseline import AcceptedBaseline, AcceptedDifference
from kailab.trials.differences import describe_first_decision as first_decision
from kailab.trials.outcome import TrialOutcome
from kailab.trials.store import TrialFolder
from kailab.trials.trial import read_outcome

MOST_SHOWN = 4


@dataclass(frozen=True)
class HuntResult:
    hunt: Hunt
    folder: HuntFolder
    decided: Mapping[int, Decided]
    baseline: AcceptedBaseline = field(default_factory=AcceptedBaseline)

    def acceptance(self, one: Decided) -> AcceptedDifference | None:
        """What accepts all that differs in a cluster; None: something is not accepted."""
        found = [self.baseline.accepts(each) for each in one.judged.differences]
        return found[0] if found and all(found) else None

    @cached_property
    def counts(self) -> dict[str, int]:
        found = Counter(self._state(one) for one in self.decided.values())
        return {name: found[name] for name in ("same", "chance", "accepted", "differs", "error")}

    def _state(self, one: Decided) -> str:
        verdict = one.judged.verdict
        return "accepted" if verdict == "differs" and self.acceptance(one) else verdict

    @property
    def same(self) -> bool:
        """Nothing differs but what is accepted, and all could be decided."""
        return not self.counts["differs"] and not self.counts["error"]

    def lines(self) -> list[str]:
        hunt, counts = self.hunt, self.counts
        told = ", ".join(f"{number} {name}" for name, number in counts.items() if number or name == "differs")
        found = [f"{len(self.decided)} clusters, {OURS} and {hunt.column} on {hunt.isolation}: {told or 'none'}"]
        for one in self.decided.values():
            state = self._state(one)
            if state != "same":
                found += ["", *self._lines_of(one, state)]
        return found

    def _lines_of(self, one: Decided, state: str) -> list[str]:
        head = f"seed {one.seed}: {state}"
        if one.steps:
            head += f" ({one.steps} steps, {one.objects} objects, {one.nodes} nodes): {self.scenario(one)}"
        found = [head, *(f"  {each}" for each in one.judged.differences[:MOST_SHOWN])]
        if left := len(one.judged.differences) - MOST_SHOWN:
            found += [f"  and {left} more"] if left > 0 else []
        accepted = self.acceptance(one)
        found += [f"  accepted: {accepted.reason}"] if state == "accepted" and accepted else []
        found += [f"  {line}" for line in one.judged.why.splitlines()]
        if one.steps:
            first = self._first_decision(one)
            found += [f"  {first}"] if first else []
        return found

    def scenario(self, one: Decided) -> Path:
        return self.folder.found(one.seed) / SCENARIO

    def trial(self, one: Decided) -> TrialOutcome:
        """The two on what is left, with the evidence of both. Raises StateError."""
        return read_outcome(TrialFolder(self.folder.found(one.seed) / "trial"))

    def _first_decision(self, one: Decided) -> str:
        (row,) = self.trial(one).rows
        return first_decision(row.evidence(OURS), row.evidence(self.hunt.column))

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        clusters = [
            {
                **msgspec.to_builtins(one),
                "state": self._state(one),
                **({"scenario": str(self.scenario(one))} if one.steps else {}),
            }
            for one in self.decided.values()
        ]
        hunt = {"name": self.hunt.name, "against": self.hunt.against, "isolation": self.hunt.isolation}
        return {**hunt, "counts": self.counts, "clusters": clusters}
