"""The record of a running lab in the form of its evidence, without writing and reading files. From look to look only new entries are cut.

``EventFeed`` follows the Kubernetes Events of the cluster. ``LiveRecord`` cuts new steps, decisions and objects as evidence does, and keeps the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from kailab.cluster.protocol import Cluster, Object
from kailab.evidence import canonical
from kailab.evidence.entries import CheckedExpectation, ClusterState, Decision, RecordedStep
from kailab.evidence.history import LabHistory, WorkloadIndex, time_states
from kailab.evidence.recorder import Recorder, read_event
from kailab.evidence.recording import EXPECTATION, STEP, Recording
from kailab.evidence.sanitizing import AFTER, BEFORE, CutCache, ObjectsByFile, RecordCutter, Sanitizer
from kailab.evidence.scrubbing import Scrubber
from kailab.lab.capture import EXERCISE, TEST
from kailab.report.lab_form import ROW_KINDS, RecordedLab
from kailab.report.racks import RackMap
from kailab.serve.raw_text import FACTS, EvidenceFiles, FileEntries, LiveRawText, ObjectsByPlace

_KIND = "Event"


class EventFeed(Sequence[Object]):
    """The Events of one cluster in the order of their first occurrence, until it is closed. Their objects are read on request."""

    def __init__(self, cluster: Cluster) -> None:
        self.about: list[str] = []
        """The involved object of each event, as evidence writes it."""
        self._cluster = cluster
        self._watch = cluster.watch((_KIND,))
        self._keys: list[tuple[str, str]] = []
        self._places: dict[tuple[str, str], int] = {}
        self._gone = 0
        self._read: dict[tuple[str, str], Object] | None = None

    def update(self) -> int | None:
        """Read new events. Return how many of the oldest were deleted, or None if others were deleted and all positions have changed."""
        gone: set[tuple[str, str]] = set()
        self._read = None
        for event in self._watch.poll():
            metadata = event.object["metadata"]
            key = metadata.get("namespace", ""), metadata["name"]
            if event.type == "DELETED":
                gone.add(key)
            elif key not in self._places:
                self._places[key] = self._gone + len(self._keys)
                self._keys.append(key)
                self.about.append(_about(event.object))
        count = len(gone)
        if not gone:
            return 0
        if gone == set(self._keys[:count]):
            self._gone += count
            del self._keys[:count], self.about[:count]
            for key in gone:
                del self._places[key]
            return count
        kept = [(key, about) for key, about in zip(self._keys, self.about) if key not in gone]
        self._keys, self.about = [key for key, _ in kept], [about for _, about in kept]
        self._places, self._gone = {key: place for place, key in enumerate(self._keys)}, 0
        return None

    def close(self) -> None:
        self._watch.close()

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, place: int) -> Object: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Object]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        if self._read is None:
            self._read = {
                (one["metadata"].get("namespace", ""), one["metadata"]["name"]): one
                for one in self._cluster.list(_KIND)
            }
        return self._read[self._keys[place]]

    def __iter__(self) -> Iterator[Object]:
        return (self[place] for place in range(len(self)))


def _about(event: Object) -> str:
    involved = event.get("involvedObject") or {}
    return f"{involved.get('kind', '')} {involved.get('namespace', '')}/{involved.get('name', '')}"


_NOTHING, _DECIDED = 0, 1

RAW = "raw"
"""The prefix of the names of chunks of raw text."""


class _RecordedSoFar:
    """All entries so far, as evidence keeps them."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.steps: list[RecordedStep] = []
        self.decisions: list[Decision] = []
        self.expectations: list[CheckedExpectation] = []
        self.events: list[str] = []
        self.order: list[tuple[str, float]] = []
        self.ordered = Counter[int]()
        """How many steps, expectations and decisions ``order`` has; under ``_NOTHING`` how many cycles without decisions."""
        self.stood = 0
        self.rows: set[int] = set()
        self.stands: ClusterState | None = None
        self.workloads = WorkloadIndex()
        self.looked = False
        self.cycles = 0
        self.racks: RackMap | None = None
        self.nodes: Any = None
        self.raw_text: LiveRawText | None = None


class LiveRecord:
    """The record of one lab, updated look by look."""

    def __init__(self) -> None:
        self._cuts = CutCache()
        self._so_far: _RecordedSoFar | None = None

    def update(self, recorder: Recorder, events: EventFeed | None = None) -> tuple[RecordedLab, LiveRawText, bool]:
        """Read what is new. ``recorder``: after its last look; ``events``: None if the recorder has the events. The third value is False if everything was read
        again, because increments to the state before are not possible."""
        recording, keeping = recorder.recording, recorder.keeping(self._cuts)
        text = keeping.text
        gone = 0 if events is None else events.update()
        found, continues = self._so_far, True
        if (
            found is None or found.generation != self._cuts.generation or gone is None or events is None
            or not found.cycles or found.nodes != self._nodes(recording)
        ):  # fmt: skip
            found, continues = _RecordedSoFar(self._cuts.generation), False
        self._so_far = found
        self._take(found, recording, keeping, text)
        objects = events if events is not None else recording.events
        about = events.about if events is not None else [read_event(event).object for event in recording.events]
        del found.events[: gone if continues and gone else 0]
        found.events += [text.text(one) for one in about[len(found.events) :]]
        cutter = RecordCutter(keeping.keeps_label, text.text)
        cutter.look_at(recording.cycles)
        files = self._files(found, recording, text, objects)
        if found.raw_text is None:
            found.raw_text = LiveRawText(files, cutter, f"{EXERCISE}/{TEST}/{recorder.lab}", RAW)
        else:
            found.raw_text.renew(files, cutter)
        return self._recorded_lab(found, recorder, keeping, gone or 0), found.raw_text, continues

    def set_state(self, state: ClusterState) -> None:
        """Set the lab's present state, whose rows repeat what its objects said."""
        if self._so_far is not None:
            self._so_far.rows = {id(row) for row in state.pods}
            self._so_far.stands = state

    def _recorded_lab(self, found: _RecordedSoFar, recorder: Recorder, keeping: Sanitizer, gone: int) -> RecordedLab:
        recording = recorder.recording
        facts, text = recording.facts, keeping.text
        assert facts is not None
        if found.racks is None:
            fleet = "" if recording.fleet is None else keeping.fleet(recording.fleet).decode()
            kinds = ("nodes", "topologies")
            looks = self._kept(BEFORE, recording.before, kinds), self._kept(AFTER, recording.after, kinds)
            found.racks, found.nodes = RackMap.of_looks(fleet, looks), self._nodes(recording)
        # With cycles, only the rows of states are used, and those are read in ``_take``.
        states = [] if recording.cycles else [(name, text.entry(state)) for name, state in recording.states]
        history = LabHistory(
            recording.opened,
            found.steps,
            found.decisions,
            time_states(states, found.steps),
            recording.cycles,
            self._kept(BEFORE, recording.before, ("queues", "pods")) if not found.looked else {},
            self._kept(AFTER, recording.after, ("queues",)),
            recording.pending,
        )
        found.looked = True
        return RecordedLab(
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

    def _take(self, found: _RecordedSoFar, recording: Recording, keeping: Sanitizer, text: Scrubber) -> None:
        """Cut and keep the new entries of the recording."""
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
            # The recording keeps the rows alive, so their identities stay unique.
            found.rows = {id(row) for row in state.pods}
        found.stood = len(recording.states)

    @staticmethod
    def _order(found: _RecordedSoFar, recording: Recording) -> None:
        """Continue the order of the timeline's entries."""
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

    def _kept(self, name: str, look: ObjectsByFile, kinds: Iterable[str]) -> dict[str, list[Object]]:
        return {kind: [self._cuts.kept(name, kind, one) for one in look[kind]] for kind in kinds if kind in look}

    def _nodes(self, recording: Recording) -> Any:
        """The data from which racks are derived."""
        nodes = {one["metadata"]["name"]: one["metadata"].get("labels") for one in recording.after.get("nodes", ())}
        return nodes, recording.after.get("topologies")

    def _files(
        self, found: _RecordedSoFar, recording: Recording, text: Scrubber, events: Sequence[Object]
    ) -> EvidenceFiles:
        def entry(one: Any) -> bytes:
            return canonical.compact_json(text.entry(one))

        def kept(look: str, kind: str) -> Callable[[Object], bytes]:
            return lambda obj: canonical.compact_json(text.value(self._cuts.kept(look, kind, obj)))

        files: dict[str, FileEntries | Mapping[str, FileEntries]] = {
            FACTS: FileEntries([recording.facts], canonical.pretty_json),
            "decisions.jsonl": FileEntries(found.decisions),
            "expectations.jsonl": FileEntries(found.expectations),
            "pending.json": FileEntries(recording.pending, entry),
            "events.json": FileEntries(events, lambda event: entry(read_event(event))),
            "steps.json": FileEntries(found.steps),
        }
        for kind in ROW_KINDS:
            files[f"before/{kind}.json"] = FileEntries(recording.before.get(kind, ()), kept(BEFORE, kind))
            files[f"after/{kind}.json"] = FileEntries(ObjectsByPlace(recording.after.get(kind, ())), kept(AFTER, kind))
        for name, state in recording.states if not recording.cycles else ():
            files[f"states/{name}.json"] = {kind: FileEntries(getattr(state, kind), entry) for kind in ROW_KINDS}
        return files
