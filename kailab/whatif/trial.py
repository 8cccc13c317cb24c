"""Changes tried on forks of a lab, and what became of each beside the lab left alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kailab.lab.change import Advance, Change
from kailab.lab.fork import fork
from kailab.lab.redacted_changes import redacted_data
from kailab.model.times import format_time
from kailab.whatif.comparison import Comparison
from kailab.whatif.outcome import Outcome

if TYPE_CHECKING:
    from kailab.lab.lab import Lab
    from kailab.scheduler import SchedulerSettings


@dataclass(frozen=True)
class Alternative:
    """Something that could be done. ``title``: what it is called; ``changes``: done one after the other before the lab settles;
    ``settings``: how the scheduler is to decide, None as it does."""

    title: str
    changes: tuple[Change, ...] = ()
    settings: SchedulerSettings | None = None

    def data(self) -> dict[str, Any]:
        """For programs, without what evidence leaves out: ``changes`` has all of it."""
        return {"title": self.title, **redacted_data(change.data() for change in self.changes)}


@dataclass(frozen=True)
class WhatIf:
    """``start``: when the lab was left alone or changed; ``end``: when it was looked at, seconds since the epoch. ``comparisons``: one
    for each alternative, all beside the same ``before``. ``scheduler``: who decided."""

    start: float
    end: float
    scheduler: str
    before: Outcome
    alternatives: tuple[Alternative, ...]
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...] = ()
    """What is worth saying about the changes, each once."""

    def _repr_html_(self) -> str:
        pairs = zip(self.alternatives, self.comparisons, strict=True)
        return "".join(comparison.html_table(alternative.title) for alternative, comparison in pairs)

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "start": format_time(self.start),
            "end": format_time(self.end),
            "seconds": round(self.end - self.start, 3),
            "scheduler": self.scheduler,
            "alternatives": [
                {**alternative.data(), **comparison.data()}
                for alternative, comparison in zip(self.alternatives, self.comparisons, strict=True)
            ],
            "warnings": list(self.warnings),
        }


def what_if(lab: Lab, alternatives: Sequence[Alternative], seconds: float = 0.0) -> WhatIf:
    """Try each alternative on a fork of the lab that settles after its changes; then all forks, and one to which nothing is done, are
    brought to the same moment, ``seconds`` from now or when the last of them settled. Raises InputError for a change that the lab refuses, and NotSettled."""
    since = len(lab.log.evictions)
    with ExitStack() as forks:
        # All are forks of one that nothing has been done to: what is kept in a file is unpacked once, and a real server asked once.
        alone = forks.enter_context(fork(lab))
        changed = [forks.enter_context(fork(alone, alternative.settings)) for alternative in alternatives]
        alone.settle()
        warnings: list[str] = []
        for trial, alternative in zip(changed, alternatives, strict=True):
            for change in alternative.changes:
                warnings += change.do(trial)
            trial.settle()
        end = max(lab.now + seconds, *(one.now for one in (alone, *changed)))
        for one in (alone, *changed):
            one.advance(end - one.now)
        before = Outcome.of(alone, since)
        comparisons = tuple(Comparison(before, Outcome.of(one, since)) for one in changed)
        told = tuple(dict.fromkeys(warnings))
        return WhatIf(lab.now, end, alone.scheduler, before, tuple(alternatives), comparisons, told)


def left_alone(lab: Lab, seconds: float) -> WhatIf:
    """What time does: the lab as it is, beside a fork to which nothing is done for ``seconds``. Raises NotSettled."""
    since = len(lab.log.evictions)
    before = Outcome.of(lab, since)
    with fork(lab) as alone:
        alone.settle()
        end = max(lab.now + seconds, alone.now)
        alone.advance(end - alone.now)
        waiting = Alternative("time passes", (Advance(seconds),))
        return WhatIf(
            lab.now, end, alone.scheduler, before, (waiting,), (Comparison(before, Outcome.of(alone, since)),)
        )


def agrees(foretold: Outcome, seen: Outcome) -> Mapping[str, tuple[Any, Any]]:
    """Where what was foretold differs from what was seen then; empty where it came true, workload by workload and queue by queue."""
    found: dict[str, tuple[Any, Any]] = {}
    for workload in sorted({*foretold.workloads, *seen.workloads}):
        pair = (foretold.workloads.get(workload), seen.workloads.get(workload))
        if pair[0] != pair[1]:
            found[str(workload)] = pair
    for name in sorted({*foretold.queues, *seen.queues}):
        standings = (foretold.queues.get(name), seen.queues.get(name))
        if standings[0] != standings[1]:
            found[f"Queue/{name}"] = standings
    if foretold.evictions != seen.evictions:
        found["evictions"] = (foretold.evictions, seen.evictions)
    return found
