"""The state of a hunt: counts, and the differences, accepted or not."""

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
    """The clusters decided so far, with the accepted differences."""

    hunt: Hunt
    folder: HuntFolder
    decided: Mapping[int, Decided]
    baseline: AcceptedBaseline = field(default_factory=AcceptedBaseline)

    def acceptance(self, cluster: Decided) -> AcceptedDifference | None:
        """The entry that accepts all differences of a cluster, or None."""
        accepted = [self.baseline.accepts(each) for each in cluster.judged.differences]
        return accepted[0] if accepted and all(accepted) else None

    @cached_property
    def counts(self) -> dict[str, int]:
        counted = Counter(self._state(cluster) for cluster in self.decided.values())
        return {name: counted[name] for name in ("same", "chance", "accepted", "differs", "error")}

    def _state(self, cluster: Decided) -> str:
        verdict = cluster.judged.verdict
        return "accepted" if verdict == "differs" and self.acceptance(cluster) else verdict

    @property
    def same(self) -> bool:
        """True if only accepted differences exist, and all clusters could be decided."""
        return not self.counts["differs"] and not self.counts["error"]

    def lines(self) -> list[str]:
        hunt, counts = self.hunt, self.counts
        counts_text = ", ".join(f"{number} {name}" for name, number in counts.items() if number or name == "differs")
        lines = [f"{len(self.decided)} clusters, {OURS} and {hunt.column} on {hunt.isolation}: {counts_text or 'none'}"]
        for cluster in self.decided.values():
            state = self._state(cluster)
            if state != "same":
                lines += ["", *self._lines_of(cluster, state)]
        return lines

    def _lines_of(self, cluster: Decided, state: str) -> list[str]:
        head = f"seed {cluster.seed}: {state}"
        if cluster.steps:
            head += (
                f" ({cluster.steps} steps, {cluster.objects} objects, {cluster.nodes} nodes): {self.scenario(cluster)}"
            )
        lines = [head, *(f"  {each}" for each in cluster.judged.differences[:MOST_SHOWN])]
        if left := len(cluster.judged.differences) - MOST_SHOWN:
            lines += [f"  and {left} more"] if left > 0 else []
        accepted = self.acceptance(cluster)
        lines += [f"  accepted: {accepted.reason}"] if state == "accepted" and accepted else []
        lines += [f"  {line}" for line in cluster.judged.why.splitlines()]
        if cluster.steps:
            first = self._first_decision(cluster)
            lines += [f"  {first}"] if first else []
        return lines

    def scenario(self, cluster: Decided) -> Path:
        return self.folder.found(cluster.seed) / SCENARIO

    def trial(self, cluster: Decided) -> TrialOutcome:
        """The trial of both on the remaining scenario, with the evidence of both. Raises StateError."""
        return read_outcome(TrialFolder(self.folder.found(cluster.seed) / "trial"))

    def _first_decision(self, cluster: Decided) -> str:
        (row,) = self.trial(cluster).rows
        return first_decision(row.evidence(OURS), row.evidence(self.hunt.column))

    def as_data(self) -> dict[str, Any]:
        """The result for programs."""
        clusters = [
            {
                **msgspec.to_builtins(cluster),
                "state": self._state(cluster),
                **({"scenario": str(self.scenario(cluster))} if cluster.steps else {}),
            }
            for cluster in self.decided.values()
        ]
        hunt = {"name": self.hunt.name, "against": self.hunt.against, "isolation": self.hunt.isolation}
        return {**hunt, "counts": self.counts, "clusters": clusters}
