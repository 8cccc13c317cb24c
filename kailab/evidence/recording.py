"""The recording of one lab as a value, and its timeline.

``Recording`` is kept in memory while a test runs, and in parts between the commands of a lab that outlives them (``lab_record``). ``timeline_entries`` lists steps,
decisions and expectations in order, with one line for each kind of decision in a cycle ("bind 8 pods of trainer (team-a)") and not one for each pod.
``brief_timeline`` is the same for readers of a failure: one line for each kind of decision between two steps, whatever number of cycles made them.
"""

from __future__ import annotations

from collections import Counter
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
from kailab.evidence.wording import count

TimelineMoment = RecordedStep | CheckedExpectation | Sequence[Decision]
"""An entry of the order: a step, an expectation, or the decisions of one cycle."""


def timeline_entries(moments: Iterable[TimelineMoment]) -> list[TimelineEntry]:
    """The lines of a timeline, in order."""
    entries: list[TimelineEntry] = []
    for moment in moments:
        if isinstance(moment, RecordedStep | CheckedExpectation):
            entries += _test_lines(moment)
        elif moment:
            entries += _decision_lines([moment])
    return entries


def brief_timeline(moments: Iterable[TimelineMoment], most: int) -> tuple[list[TimelineEntry], bool]:
    """The lines of a timeline in which the cycles between two steps or expectations are joined; of more than ``most`` lines, the first fifth and the last. Also
    whether the timeline has more lines."""
    entries: list[TimelineEntry] = []
    cycles: list[Sequence[Decision]] = []
    every = 0
    for moment in moments:
        if isinstance(moment, RecordedStep | CheckedExpectation):
            entries += _decision_lines(cycles)
            cycles = []
            lines = _test_lines(moment)
            every += len(lines)
            entries += lines
        elif moment:
            every += len(_decision_lines([moment]))
            cycles.append(moment)
    entries += _decision_lines(cycles)
    shorter = every > len(entries) or len(entries) > most
    if len(entries) > most:
        # One line says how many are left out.
        first, left_out = most // 5, len(entries) - most + 1
        cut = TimelineEntry(t=entries[first].t, kind="decision", text=f"... {count(left_out, 'line')} left out")
        entries[first : first + left_out] = [cut]
    return entries, shorter


def _test_lines(moment: RecordedStep | CheckedExpectation) -> list[TimelineEntry]:
    """The lines of a step with its warnings, or of an expectation."""
    if isinstance(moment, CheckedExpectation):
        return [TimelineEntry(t=moment.t, kind="expectation", text=_expectation(moment))]
    step = TimelineEntry(t=moment.t, kind="step", text=moment.title)
    return [step, *(TimelineEntry(t=moment.t, kind="warning", text=f"warning: {text}") for text in moment.warnings)]


def render_timeline(entries: Iterable[TimelineEntry]) -> str:
    """Format a timeline as text; each line begins with seconds since the lab opened.

    >>> render_timeline([TimelineEntry(t=3.0, kind="step", text="apply queues.yaml")])
    '       3 s  apply queues.yaml\\n'
    """
    marks = {"step": "", "warning": "  ", "decision": "    ", "expectation": "  "}
    return "".join(f"{entry.t:>8g} s  {marks[entry.kind]}{entry.text}\n" for entry in entries)


def _expectation(entry: CheckedExpectation) -> str:
    verdict = "held" if entry.held else "FAILED"
    seen = "" if entry.held else f"; seen: {entry.seen}"
    return f"expected {entry.expected}: {verdict}{seen}"


def _decision_lines(cycles: Sequence[Sequence[Decision]]) -> list[TimelineEntry]:
    """A line for each kind of decision in cycles, in the order of the first decision of each kind."""
    first: dict[_DecisionKind, float] = {}
    last: dict[_DecisionKind, float] = {}
    total: Counter[_DecisionKind] = Counter()
    for cycle in cycles:
        for kind, number in Counter(map(_kind_of, cycle)).items():
            first.setdefault(kind, cycle[0].t)
            last[kind] = cycle[0].t
            # A group that waits is reported by each cycle whose reason differs, so reports do not add up.
            total[kind] = max(total[kind], number) if kind[0] == "pending" else total[kind] + number
    return [
        TimelineEntry(
            t=first[kind],
            kind="decision",
            text=_decision_text(kind, number)
            # Nothing is logged when waiting ends, so its last report is no end.
            + (f", until {last[kind]:g} s" if last[kind] > first[kind] and kind[0] != "pending" else ""),
        )
        for kind, number in total.items()
    ]


def _decision_text(kind: _DecisionKind, number: int) -> str:
    decision, action, app, queue, detail = kind
    if decision == "pending":
        return f"pending: {count(number, 'pod group')} of {queue or 'no queue'}: {detail}"
    pods = count(number, "pod") + (f" of {app}" if app else "")
    if decision == "failed to":
        return f"failed to {action} {pods}: {detail}"
    text = f"{decision} {pods}" + (f" ({queue})" if queue else "")
    if decision == "evict":
        return text + f" by {action}" + (f" for {detail}" if detail else "")
    return text if action == "allocate" else f"{text} by {action}"


_DecisionKind = tuple[str, str, str, str, str]


def _kind_of(entry: Decision) -> _DecisionKind:
    """The parts of a decision's line: decision, action, app, queue, and a detail that depends on the decision."""
    if isinstance(entry, GroupWaits):
        return ("pending", "", "", entry.queue, entry.reason)
    if isinstance(entry, WriteRefused):
        return ("failed to", entry.verb, entry.app, "", entry.reason)
    if isinstance(entry, PodEvicted):
        return ("evict", entry.action, entry.app, entry.queue, entry.beneficiary_queue)
    return ("bind" if isinstance(entry, PodBound) else "pipeline", entry.action, entry.app, entry.queue, "")


STEP, EXPECTATION = -1, -2  # negative, because positive numbers count decisions


class Recording(msgspec.Struct, kw_only=True, omit_defaults=True):
    """``manifests``: (file name, objects as JSON). ``order``: ``STEP``, ``EXPECTATION``, or the number of decisions of a cycle. ``steps_before``,
    ``manifests_before``: the numbers of steps and manifests in earlier parts."""

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
        """An empty part that continues this one."""
        return Recording(
            facts=self.facts,
            opened=self.opened,
            fleet=self.fleet,
            steps_before=self.steps_before + len(self.steps),
            manifests_before=self.manifests_before + len(self.manifests),
        )

    def moments(self) -> Iterator[TimelineMoment]:
        """Yield steps, expectations and the decisions of each cycle, in order."""
        steps, expectations = iter(self.steps), iter(self.expectations)
        decided = 0
        for entry in self.order:
            if entry == STEP:
                yield next(steps)
            elif entry == EXPECTATION:
                yield next(expectations)
            else:
                # The decisions of all cycles are in one list; ``order`` has their number for each cycle.
                yield self.decisions[decided : decided + entry]
                decided += entry


_JOINED = ("manifests", "refused", "steps", "states", "decisions", "expectations", "order", "cycles")


def join_recordings(parts: Iterable[Recording]) -> Recording:
    """Join parts in order; the first one has the start of the lab. Equal consecutive states are dropped."""
    first, *later = parts
    for part in later:
        append_recording(first, part)
    return first


def append_recording(first: Recording, part: Recording) -> None:
    # Each command drops equal states itself, but does not know the last state of the command before.
    same = bool(first.states and part.states) and first.states[-1][1] == part.states[0][1]
    for name in _JOINED:
        getattr(first, name).extend(getattr(part, name)[1 if same and name == "states" else 0 :])


def copy_recording(recording: Recording) -> Recording:
    """A copy that can be extended independently."""
    return structs.replace(recording, **{name: list(getattr(recording, name)) for name in _JOINED})
