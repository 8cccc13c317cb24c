"""What was recorded of a lab so far, as one value: kept in memory while a test runs, and in parts between the commands of a lab
that outlives them (``kailab.evidence.journal``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.evidence.cycles import Cycle
from kailab.evidence.entries import Decision, Expected, LabFacts, Reason, State, Step
from kailab.evidence.timeline import Moment

STEP, EXPECTATION = -1, -2  # negative, since numbers from 1 on count decisions


class Recording(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``manifests``: name -> the objects as JSON. ``order``: what came when: ``STEP``, ``EXPECTATION``, or how many decisions a
    cycle had. ``steps_before``, ``manifests_before``: how many earlier parts have."""

    facts: LabFacts | None = None
    opened: float = 0.0
    fleet: dict[str, Any] | None = None
    steps_before: int = 0
    manifests_before: int = 0
    manifests: list[tuple[str, msgspec.Raw]] = []
    refused: list[str | Object] = []
    steps: list[Step] = []
    states: list[tuple[str, State]] = []
    decisions: list[Decision] = []
    expectations: list[Expected] = []
    order: list[int] = []
    cycles: list[Cycle] = []
    before: dict[str, list[Object]] = {}
    after: dict[str, list[Object]] = {}
    events: list[Object] = []
    pending: Sequence[Reason] = ()

    def following(self) -> Recording:
        """The part that comes after this one."""
        return Recording(
            facts=self.facts,
            opened=self.opened,
            fleet=self.fleet,
            steps_before=self.steps_before + len(self.steps),
            manifests_before=self.manifests_before + len(self.manifests),
        )

    def moments(self) -> Iterator[Moment]:
        """Steps, expectations and the decisions of cycles, in order."""
        steps, expectations = iter(self.steps), iter(self.expectations)
        decided = 0
        for what in self.order:
            if what == STEP:
                yield next(steps)
            elif what == EXPECTATION:
                yield next(expectations)
            else:
                # Decisions of all cycles stand in one list; the order says how many of them belong to each.
                yield self.decisions[decided : decided + what]
                decided += what


_JOINED = ("manifests", "refused", "steps", "states", "decisions", "expectations", "order", "cycles")


def joined(parts: Iterable[Recording]) -> Recording:
    """Parts one after the other, the first with how the lab began. A state that is as the one before is left out."""
    first, *later = parts
    for part in later:
        go_on(first, part)
    return first


def go_on(first: Recording, part: Recording) -> None:
    """Take in the part that comes after."""
    # Each command looks for itself whether a state is new, and does not know the last one of the command before.
    same = bool(first.states and part.states) and first.states[-1][1] == part.states[0][1]
    for name in _JOINED:
        getattr(first, name).extend(getattr(part, name)[1 if same and name == "states" else 0 :])


def copied(recording: Recording) -> Recording:
    """One that can go on by itself."""
    return structs.replace(recording, **{name: list(getattr(recording, name)) for name in _JOINED})
