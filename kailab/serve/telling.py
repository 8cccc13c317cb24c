"""A lab that goes on, told as its evidence would tell it, without writing and reading it: what is new is cut, the rest is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.evidence import canonical
from kailab.evidence.cut_records import RecordCutter
from kailab.evidence.cuts import Cuts
from kailab.evidence.entries import Decision, Expected, State, Step
from kailab.evidence.history import History, timed
from kailab.evidence.recorder import Recorder, event_of
from kailab.evidence.recording import EXPECTATION, STEP, Recording
from kailab.evidence.sanitizing import AFTER, BEFORE, Looks, Sanitizer
from kailab.evidence.scrubbing import Scrubber
from kailab.evidence.workloads import Workloads
from kailab.lab.capture import EXERCISE, TEST
from kailab.report.gathering import LOOKS
from kailab.report.racks import Racks
from kailab.report.told import Told
from kailab.serve.asked import FACTS, Asked, Entries, Files
from kailab.serve.by_place import ByPlace
from kailab.serve.events import Events

_NOTHING, _DECIDED = 0, 1

RAW = "raw"
"""What names of chunks of raw text begin with."""


class _SoFar:
    """What was told, as evidence keeps it; it grows."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.steps: list[Step] = []
        self.decisions: list[Decision] = []
        self.expectations: list[Expected] = []
        self.events: list[str] = []
        self.order: list[tuple[str, float]] = []
        self.ordered = Counter[int]()
        """Of ``order``: how many steps and expectations; under 0 how many decisions."""
        self.stood = 0
        self.rows: set[int] = set()
        self.stands: State | None = None
        self.workloads = Workloads()
        self.looked = False
        self.cycles = 0
        self.racks: Racks | None = None
        self.nodes: Any = None
        self.asked: Asked | None = None


class Telling:
    """Of one lab, look by look."""

    def __init__(self) -> None:
        self._cuts = Cuts()
        self._so_far: _SoFar | None = None

    def told(self, recorder: Recorder, events: Events | None = None) -> tuple[Told, Asked, bool]:
        """``recorder``: after the last look; ``events``: None where the recorder has them. And whether this goes on from what was told
        before."""
        recording, keeping = recorder.recording, recorder.keeping(self._cuts)
        text = keeping.text
        gone = 0 if events is None else events.look()
        found, goes_on = self._so_far, True
        if (
            found is None or found.generation != self._cuts.generation or gone is None or events is None
            or not found.cycles or found.nodes != self._nodes(recording)
        ):  # fmt: skip
            found, goes_on = _SoFar(self._cuts.generation), False
        self._so_far = found
        self._take(found, recording, keeping, text)
        objects = events if events is not None else recording.events
        about = events.about if events is not None else [event_of(event).object for event in recording.events]
        del found.events[: gone if goes_on and gone else 0]
        found.events += [text.text(one) for one in about[len(found.events) :]]
        cutter = RecordCutter(keeping.keeps_label, text.text)
        cutter.look_at(recording.cycles)
        files = self._files(found, recording, text, objects)
        if found.asked is None:
            found.asked = Asked(files, cutter, f"{EXERCISE}/{TEST}/{recorder.lab}", RAW)
        else:
            found.asked.renew(files, cutter)
        return self._told(found, recorder, keeping, gone or 0), found.asked, goes_on

    def stands(self, state: State) -> None:
        """How the lab stands that was told: what its rows tell, its objects have told already."""
        if self._so_far is not None:
            self._so_far.rows = {id(row) for row in state.pods}
            self._so_far.stands = state

    def _told(self, found: _SoFar, recorder: Recorder, keeping: Sanitizer, gone: int) -> Told:
        recording = recorder.recording
        facts, text = recording.facts, keeping.text
        assert facts is not None
        if found.racks is None:
            fleet = "" if recording.fleet is None else keeping.fleet(recording.fleet).decode()
            kinds = ("nodes", "topologies")
            looks = self._kept(BEFORE, recording.before, kinds), self._kept(AFTER, recording.after, kinds)
            found.racks, found.nodes = Racks.of_looks(fleet, looks), self._nodes(recording)
        # Where there are cycles nothing is read of states, but the rows that are taken in above.
        states = [] if recording.cycles else [(name, text.entry(state)) for name, state in recording.states]
        history = History(
            recording.opened,
            found.steps,
            found.decisions,
            timed(states, found.steps),
            recording.cycles,
            self._kept(BEFORE, recording.before, ("queues", "pods")) if not found.looked else {},
            self._kept(AFTER, recording.after, ("queues",)),
            recording.pending,
        )
        found.looked = True
        return Told(
            name=recorder.lab,
            facts=facts,
            history=history,
            states=[name for name, _ in states],
            events=found.events,
            order=found.order,
            racks=found.racks,
            workloads=found.workloads,
            events_gone=gone,
            text=text,
        )

    def _take(self, found: _SoFar, recording: Recording, keeping: Sanitizer, text: Scrubber) -> None:
        """What is new of what was recorded."""
        new = [text.entry(entry) for entry in recording.decisions[len(found.decisions) :]]
        found.decisions += new
        found.steps += [text.entry(keeping.step(step)) for step in recording.steps[len(found.steps) :]]
        found.expectations += text.entries(recording.expectations[len(found.expectations) :])
        self._order(found, recording)
        found.cycles = len(recording.cycles)
        workloads = found.workloads
        workloads.decided(new)
        kinds = ("pods", "podgroups")
        if found.looked:
            fresh = keeping.fresh
            pods, groups = (fresh.new.get(kind, ()) for kind in kinds)
            workloads.looked(pods, groups, fresh.gone.get("podgroups", ()))
        else:
            for name, look in ((BEFORE, recording.before), (AFTER, recording.after)):
                kept = self._kept(name, look, kinds)
                workloads.looked(kept.get("pods", ()), kept.get("podgroups", ()))
        for _, state in recording.states[found.stood :]:
            workloads.stood([row for row in state.pods if id(row) not in found.rows])
            # The recording holds the rows: no other takes the identity of one.
            found.rows = {id(row) for row in state.pods}
        found.stood = len(recording.states)

    @staticmethod
    def _order(found: _SoFar, recording: Recording) -> None:
        """As a timeline has it."""
        ordered = found.ordered
        for what in recording.order[len(found.order) + ordered[_NOTHING] :]:
            if what == STEP:
                found.order.append(("step", found.steps[ordered[STEP]].t))
                ordered[STEP] += 1
            elif what == EXPECTATION:
                found.order.append(("expectation", found.expectations[ordered[EXPECTATION]].t))
                ordered[EXPECTATION] += 1
            elif what:
                found.order.append(("decision", found.decisions[ordered[_DECIDED]].t))
                ordered[_DECIDED] += what
            else:
                ordered[_NOTHING] += 1

    def _kept(self, name: str, look: Looks, kinds: Iterable[str]) -> dict[str, list[Object]]:
        return {kind: [self._cuts.kept(name, kind, one) for one in look[kind]] for kind in kinds if kind in look}

    def _nodes(self, recording: Recording) -> Any:
        """What racks go by."""
        nodes = {one["metadata"]["name"]: one["metadata"].get("labels") for one in recording.after.get("nodes", ())}
        return nodes, recording.after.get("topologies")

    def _files(self, found: _SoFar, recording: Recording, text: Scrubber, events: Sequence[Object]) -> Files:
        def entry(one: Any) -> bytes:
            return canonical.compact(text.entry(one))

        def kept(look: str, kind: str) -> Callable[[Object], bytes]:
            return lambda obj: canonical.compact(text.value(self._cuts.kept(look, kind, obj)))

        files: dict[str, Entries | Mapping[str, Entries]] = {
            FACTS: Entries([recording.facts], canonical.pretty),
            "decisions.jsonl": Entries(found.decisions),
            "expectations.jsonl": Entries(found.expectations),
            "pending.json": Entries(recording.pending, entry),
            "events.json": Entries(events, lambda event: entry(event_of(event))),
            "steps.json": Entries(found.steps),
        }
        for kind in LOOKS:
            files[f"before/{kind}.json"] = Entries(recording.before.get(kind, ()), kept(BEFORE, kind))
            files[f"after/{kind}.json"] = Entries(ByPlace(recording.after.get(kind, ())), kept(AFTER, kind))
        for name, state in recording.states if not recording.cycles else ():
            files[f"states/{name}.json"] = {kind: Entries(getattr(state, kind), entry) for kind in LOOKS}
        return files
