"""A lab that goes on, told as its evidence would tell it, without writing and reading it: what is new is cut, the rest is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.evidence import canonical
from kailab.evidence.cut_records import RecordCutter
from kailab.evidence.cuts import Cuts
from kailab.evidence.entries import Expected, State, Step
from kailab.evidence.history import History
from kailab.evidence.recorder import Recorder, event_of
from kailab.evidence.recording import Recording
from kailab.evidence.sanitizing import Sanitizer
from kailab.evidence.scrubbing import Scrubber
from kailab.lab.capture import EXERCISE, TEST
from kailab.report.gathering import LOOKS
from kailab.report.racks import Looks, Racks
from kailab.report.told import Told
from kailab.serve.asked import Asked, Entries

RAW = "raw"
"""What names of chunks of raw text begin with."""


class Telling:
    """Of one lab, look by look."""

    def __init__(self) -> None:
        self._cuts = Cuts()

    def told(self, recorder: Recorder) -> tuple[Told, Asked]:
        """``recorder``: after the last look."""
        recording, keeping = recorder.recording, recorder.keeping(self._cuts)
        facts = recording.facts
        assert facts is not None
        text, before, after = keeping.text, *keeping.kept
        told = self._scrubbed(recording, keeping, text, before, after)
        fleet = "" if recording.fleet is None else keeping.fleet(recording.fleet).decode()
        files = _files(told, text, before, after)
        cutter = RecordCutter(keeping.keeps_label, text.text)
        cutter.look_at(recording.cycles)
        return (
            Told(
                name=recorder.lab,
                facts=facts,
                history=History.of_recording(told),
                states=[name for name, _ in told.states],
                events=[text.text(event_of(event).object) for event in recording.events],
                order=list(_order(recording)),
                racks=Racks.of_looks(fleet, (before, after)),
            ),
            Asked(files, cutter, f"{EXERCISE}/{TEST}/{recorder.lab}", RAW),
        )

    def _scrubbed(
        self, recording: Recording, keeping: Sanitizer, text: Scrubber, before: Looks, after: Looks
    ) -> Recording:
        """What is known of the lab, without what evidence leaves out."""
        each = self._cuts.each

        def state(told: State) -> State:
            # Where there are cycles nothing but names is read of states; they are kept.
            return told if recording.cycles else each([told], text.entry)[0]

        def step(told: Step) -> Step:
            return text.entry(keeping.step(told))

        return structs.replace(
            recording,
            steps=each(recording.steps, step),
            decisions=each(recording.decisions, text.entry),
            expectations=each(recording.expectations, text.entry),
            pending=[text.entry(one) for one in recording.pending],
            states=[(name, state(told)) for name, told in recording.states],
            before=before,
            after=after,
        )


def _files(
    told: Recording, text: Scrubber, before: Looks, after: Looks
) -> Mapping[str, Entries | Mapping[str, Entries]]:
    def entry(one: Any) -> bytes:
        return canonical.compact(text.entry(one))

    def scrubbed(obj: Object) -> bytes:
        return canonical.compact(text.value(obj))

    files: dict[str, Entries | Mapping[str, Entries]] = {
        "lab.json": Entries([told.facts], canonical.pretty),
        "decisions.jsonl": Entries(told.decisions),
        "expectations.jsonl": Entries(told.expectations),
        "pending.json": Entries(told.pending),
        "events.json": Entries(told.events, lambda event: entry(event_of(event))),
        "steps.json": Entries(told.steps),
    }
    for name, state in told.states:
        files[f"states/{name}.json"] = {kind: Entries(getattr(state, kind), entry) for kind in LOOKS}
    for look, objects in (("before", before), ("after", after)):
        files |= {f"{look}/{kind}.json": Entries(objects.get(kind, ()), scrubbed) for kind in LOOKS}
    return files


def _order(recording: Recording) -> Iterator[tuple[str, float]]:
    """As a timeline has it."""
    for moment in recording.moments():
        if isinstance(moment, Step):
            yield "step", moment.t
        elif isinstance(moment, Expected):
            yield "expectation", moment.t
        elif moment:
            yield "decision", moment[0].t
