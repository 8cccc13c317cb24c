"""The story of a lab in order of time: what was done, what the scheduler decided, what was expected and seen.

One line per kind of thing that happened in a cycle ("bind 8 pods of trainer (team-a)"), not one per pod: the
decision log has each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.entries import (
    CheckedExpectation,
    ClusterState,
    Decision,
    GroupWaits,
    LabFacts,
    PendingReason,
    PodBound,
    PodEvicted,
    RecordedStep,
    TimelineEntry,
    WriteRefused,
)

TimelineMoment = RecordedStep | CheckedExpectation | Sequence[Decision]
"""What the recorder keeps in order; decisions are those of one cycle."""


def timeline_entries(moments: Iterable[TimelineMoment]) -> list[TimelineEntry]:
    """The lines of a timeline."""
    entries: list[TimelineEntry] = []
    for moment in moments:
        if isinstance(moment, RecordedStep):
            entries.append(TimelineEntry(t=moment.t, kind="step", text=f"{moment.operation} {moment.text}".rstrip()))
        elif isinstance(moment, CheckedExpectation):
            entries.append(TimelineEntry(t=moment.t, kind="expectation", text=_expectation(moment)))
        elif moment:
            entries += (TimelineEntry(t=moment[0].t, kind="decision", text=text) for text in _cycle(moment))
    return entries


def render_timeline(entries: Iterable[TimelineEntry]) -> str:
    """Entries as text, the time in seconds since the lab opened in front of each.

    >>> render([Told(t=3.0, kind="step", text="apply queues.yaml")])
    '       3 s  apply queues.yaml\\n'
    """
    marks = {"step": "", "decision": "    ", "expectation": "  "}
    return "".join(f"{entry.t:>8g} s  {marks[entry.kind]}{entry.text}\n" for entry in entries)


def _expectation(entry: CheckedExpectation) -> str:
    verdict = "held" if entry.held else "FAILED"
    seen = "" if entry.held else f"; seen: {entry.seen}"
    return f"expected {entry.expected}: {verdict}{seen}"


def _cycle(entries: Sequence[Decision]) -> Iterable[str]:
    counts: dict[tuple[str, ...], int] = {}
    for entry in entries:
        # Dicts keep the order of insertion, so lines stand where the first of their kind was decided.
        key = _kind_of(entry)
        counts[key] = counts.get(key, 0) + 1
    for (decision, action, what, queue, extra), count in counts.items():
        if decision == "pending":
            yield f"pending: {count} pod group{_s(count)} of {queue or 'no queue'}: {extra}"
            continue
        text = f"{decision} {count} pod{_s(count)}"
        if what:
            text += f" of {what}"
        if decision == "failed to":
            text = f"{decision} {action} {count} pod{_s(count)}" + (f" of {what}" if what else "") + f": {extra}"
        else:
            text += f" ({queue})" if queue else ""
        if decision == "evict":
            text += f" by {action}" + (f" for {extra}" if extra else "")
        elif action != "allocate" and decision != "failed to":
            text += f" by {action}"
        yield text


def _kind_of(entry: Decision) -> tuple[str, str, str, str, str]:
    if isinstance(entry, GroupWaits):
        return ("pending", "", "", entry.queue, entry.reason)
    if isinstance(entry, WriteRefused):
        return ("failed to", entry.verb, entry.app, "", entry.reason)
    if isinstance(entry, PodEvicted):
        return ("evict", entry.action, entry.app, entry.queue, entry.beneficiary_queue)
    return ("bind" if isinstance(entry, PodBound) else "pipeline", entry.action, entry.app, entry.queue, "")


def _s(count: int) -> str:
    return "" if count == 1 else "s"


# What was recorded of a lab so far, as one value: kept in memory while a test runs, and in parts between the commands of a lab
# that outlives them (``kailab.evidence.lab_record``).

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
    steps: list[RecordedStep] = []
    states: list[tuple[str, ClusterState]] = []
    decisions: list[Decision] = []
    expectations: list[CheckedExpectation] = []
    order: list[int] = []
    cycles: list[RecordedCycle] = []
    before: dict[str, list[Object]] = {}
    after: dict[str, list[Object]] = {}
    events: list[Object] = []
    pending: Sequence[PendingReason] = ()

    def following(self) -> Recording:
        """The part that comes after this one."""
        return Recording(
            facts=self.facts,
            opened=self.opened,
            fleet=self.fleet,
            steps_before=self.steps_before + len(self.steps),
            manifests_before=self.manifests_before + len(self.manifests),
        )

    def moments(self) -> Iterator[TimelineMoment]:
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


def join_recordings(parts: Iterable[Recording]) -> Recording:
    """Parts one after the other, the first with how the lab began. A state that is as the one before is left out."""
    first, *later = parts
    for part in later:
        append_recording(first, part)
    return first


def append_recording(first: Recording, part: Recording) -> None:
    """Take in the part that comes after."""
    # Each command looks for itself whether a state is new, and does not know the last one of the command before.
    same = bool(first.states and part.states) and first.states[-1][1] == part.states[0][1]
    for name in _JOINED:
        getattr(first, name).extend(getattr(part, name)[1 if same and name == "states" else 0 :])


def copy_recording(recording: Recording) -> Recording:
    """One that can go on by itself."""
    return structs.replace(recording, **{name: list(getattr(recording, name)) for name in _JOINED})
