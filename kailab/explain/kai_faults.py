"""Say whether the answer about waiting work depends on a fault of KAI, in which kailab differs on purpose or which it imitates.

Two cycles are decided, one with all faults that can be imitated and one without any. If they treat the subject unlike each other, the faults
behind that are looked for, as ``kailab.engine.faults`` has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kailab.engine.decisions import ImitatedFaults
from kailab.engine.faults import FAULTS, KaiFault, faults_behind, imitated_faults
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Imitating
from kailab.evidence.wording import count
from kailab.explain.subject import PodsAtMoment

MOST_TASKS = 200
"""The number of pods in a lab above which no cycles are compared, because they take long there."""


class Treatment(NamedTuple):
    """What a cycle does to the subject: UIDs of the pods that start, are promised a place, and are evicted."""

    started: frozenset[str]
    promised: frozenset[str]
    evicted: frozenset[str]

    @classmethod
    def of(cls, outcome: RelaxedCycleOutcome) -> Treatment:
        evictions = outcome.decisions.evictions
        return cls(
            frozenset(bind.task for bind in outcome.binds),
            frozenset(promise.task for promise in outcome.promises),
            frozenset(eviction.task for eviction in evictions if eviction.podgroup in outcome.subject),
        )

    def text(self) -> str:
        """The treatment as a predicate in the infinitive."""
        parts = [
            f"{verb} {count(len(pods), 'pod')} of it"
            for verb, pods in (("start", self.started), ("promise places to", self.promised), ("evict", self.evicted))
            if pods
        ]
        return " and ".join(parts) or "let it wait"


def kai_fault_lines(state: PodsAtMoment) -> Iterator[str]:
    """Yield at most one line. If KAI would decide differently about the waiting pods, the line says how, and by which fault. If the lab
    imitates faults, it names the one behind the decision. No line if the lab's engine decides nothing about the subject, or has more than
    ``MOST_TASKS`` pods."""
    moment = state.moment
    waiting = {row.group for row in state.waiting}
    subject = [group.uid for group in moment.snapshot.podgroups if f"{group.namespace}/{group.name}" in waiting]
    if not subject or len(moment.snapshot.tasks) > MOST_TASKS:
        return
    # Separate cycles, because imitated faults change the working set's node table, which other code has read.
    cycles = RelaxedCycles(moment.snapshot, moment.config, moment.now, subject)

    def treat(faults: frozenset[KaiFault]) -> Treatment:
        numbers = tuple(sorted(fault.number for fault in faults))
        return Treatment.of(cycles(Imitating(numbers), everyone=True))

    here = imitated_faults(moment.config)
    imitated = here or frozenset(FAULTS)
    kais, right = treat(imitated), treat(frozenset())
    if kais == right:
        return
    behind = faults_behind(imitated, lambda faults: treat(faults) == kais)
    named = named_faults(behind.faults, behind.together)
    if here:
        yield f"The decision rests on {named}, as imitate_faults is on. Without it the next cycle would {right.text()}."
    else:
        yield (
            f"KAI would {kais.text()} in the next cycle, by {named}. "
            "kailab decides so only with imitate_faults (docs/conformance.md)."
        )


def decided_by(faults: ImitatedFaults | None) -> Iterator[str]:
    """At most one line: that a decision of an earlier cycle rests on imitated faults."""
    if faults is not None:
        named = named_faults([fault for fault in FAULTS if fault.number in faults.numbers], faults.together)
        yield f"This rests on {named}, as imitate_faults was on."


def named_faults(faults: Sequence[KaiFault], together: bool) -> str:
    """The faults by number, and what KAI does by each. ``together``: see ``FaultsBehind``."""
    if not faults:
        return "the order in which KAI takes equally full devices"
    numbers = (" and " if together else " or ").join(str(fault.number) for fault in faults)
    return f"fault {numbers} of KAI ({'; '.join(f'it {fault.does}' for fault in faults)})"
