"""The record of a running lab in the form of its evidence, without writing and reading files. From one reading to the next only new entries are cut.

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
from kailab.evidence.sanitizing import AFTER, BEFORE, CutCache, ObjectsByFile, RecordCutter, Sanitizer, Scrubber
from kailab.lab.capture import EXERCISE, TEST
from kailab.model.objects import involved_of, labels_of, name_of, namespace_of
from kailab.report.lab_form import ROW_KINDS, RecordedLab
from kailab.report.racks import RackMap
from kailab.serve.raw_text import FACTS, EvidenceFiles, FileEntries, LiveRawText, ObjectsByIndex

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
        deleted: set[tuple[str, str]] = set()
        self._read = None
        for event in self._watch.poll():
            key = namespace_of(event.object), name_of(event.object)
            if event.type == "DELETED":
                deleted.add(key)
            elif key not in self._places:
                self._places[key] = self._gone + len(self._keys)
                self._keys.append(key)
                self.about.append(_about(event.object))
        count = len(deleted)
        if not deleted:
            return 0
        if deleted == set(self._keys[:count]):
            self._gone += count
            del self._keys[:count], self.about[:count]
            for key in deleted:
                del self._places[key]
            return count
        remaining = [(key, about) for key, about in zip(self._keys, self.about) if key not in deleted]
        self._keys, self.about = [key for key, _ in remaining], [about for _, about in remaining]
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
            self._read = {(namespace_of(event), name_of(event)): event for event in self._cluster.list(_KIND)}
        return self._read[self._keys[place]]

    def __iter__(self) -> Iterator[Object]:
        return (self[place] for place in range(len(self)))


def _about(event: Object) -> str:
    involved = involved_of(event)
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
        self.begun = False
        self.cycles = 0
        self.racks: RackMap | None = None
        self.nodes: Any = None
        self.raw_text: LiveRawText | None = None


class LiveRecord:
    """The record of one lab, updated reading by reading."""

    def __init__(self) -> None:
        self._cuts = CutCache()
        self._so_far: _RecordedSoFar | None = None

    def update(self, recorder: Recorder, events: EventFeed | None = None) -> tuple[RecordedLab, LiveRawText, bool]:
        """Read what is new. ``recorder``: after its last reading; ``events``: None if the recorder has the events. The third value is False if everything was read
        again, because increments to the state before are not possible."""
        recording, keeping = recorder.recording, recorder.sanitizer(self._cuts)
        text = keeping.text
        deleted = 0 if events is None else events.update()
        so_far, continues = self._so_far, True
        if (
            so_far is None or so_far.generation != self._cuts.generation or deleted is None or events is None
            or not so_far.cycles or so_far.nodes != self._nodes(recording)
        ):  # fmt: skip
            so_far, continues = _RecordedSoFar(self._cuts.generation), False
        self._so_far = so_far
        self._add_entries(so_far, recording, keeping, text)
        objects = events if events is not None else recording.events
        about = events.about if events is not None else [read_event(event).object for event in recording.events]
        del so_far.events[: deleted if continues and deleted else 0]
        so_far.events += [text.text(involved) for involved in about[len(so_far.events) :]]
        cutter = RecordCutter(keeping.keeps_label, text.text)
        cutter.look_at(recording.cycles)
        files = self._files(so_far, recording, text, objects)
        if so_far.raw_text is None:
            so_far.raw_text = LiveRawText(files, cutter, f"{EXERCISE}/{TEST}/{recorder.lab}", RAW)
        else:
            so_far.raw_text.renew(files, cutter)
        return self._recorded_lab(so_far, recorder, keeping, deleted or 0), so_far.raw_text, continues

    def set_state(self, state: ClusterState) -> None:
        """Set the lab's present state, whose rows repeat what its objects said."""
        if self._so_far is not None:
            self._so_far.rows = {id(row) for row in state.pods}
            self._so_far.stands = state

    def _recorded_lab(
        self, so_far: _RecordedSoFar, recorder: Recorder, keeping: Sanitizer, deleted: int
    ) -> RecordedLab:
        recording = recorder.recording
        facts, text = recording.facts, keeping.text
        assert facts is not None
        if so_far.racks is None:
            fleet = "" if recording.fleet is None else keeping.fleet(recording.fleet).decode()
            kinds = ("nodes", "topologies")
            objects = self._kept(BEFORE, recording.before, kinds), self._kept(AFTER, recording.after, kinds)
            so_far.racks, so_far.nodes = RackMap.of_listings(fleet, objects), self._nodes(recording)
        # With cycles, only the rows of states are used, and those are read in ``_add_entries``.
        states = [] if recording.cycles else [(name, text.entry(state)) for name, state in recording.states]
        history = LabHistory(
            recording.opened,
            so_far.steps,
            so_far.decisions,
            time_states(states, so_far.steps),
            recording.cycles,
            self._kept(BEFORE, recording.before, ("queues", "pods")) if not so_far.begun else {},
            self._kept(AFTER, recording.after, ("queues",)),
            recording.pending,
        )
        so_far.begun = True
        return RecordedLab(
            name=recorder.lab,
            facts=facts,
            history=history,
            states=[name for name, _ in states],
            events=so_far.events,
            order=so_far.order,
            racks=so_far.racks,
            workloads=so_far.workloads,
            events_gone=deleted,
            text=text,
        )

    def _add_entries(self, so_far: _RecordedSoFar, recording: Recording, keeping: Sanitizer, text: Scrubber) -> None:
        """Cut and keep the new entries of the recording."""
        new = [text.entry(entry) for entry in recording.decisions[len(so_far.decisions) :]]
        so_far.decisions += new
        so_far.steps += [text.entry(keeping.step(step)) for step in recording.steps[len(so_far.steps) :]]
        so_far.expectations += text.entries(recording.expectations[len(so_far.expectations) :])
        self._order(so_far, recording)
        so_far.cycles = len(recording.cycles)
        workloads = so_far.workloads
        workloads.add_decisions(new)
        kinds = ("pods", "podgroups")
        if so_far.begun:
            fresh = keeping.fresh
            pods, groups = (fresh.new.get(kind, ()) for kind in kinds)
            workloads.add_objects(pods, groups, fresh.gone.get("podgroups", ()))
        else:
            for name, listed in ((BEFORE, recording.before), (AFTER, recording.after)):
                objects = self._kept(name, listed, kinds)
                workloads.add_objects(objects.get("pods", ()), objects.get("podgroups", ()))
        for _, state in recording.states[so_far.stood :]:
            workloads.add_rows([row for row in state.pods if id(row) not in so_far.rows])
            # The recording keeps the rows alive, so their identities stay unique.
            so_far.rows = {id(row) for row in state.pods}
        so_far.stood = len(recording.states)

    @staticmethod
    def _order(so_far: _RecordedSoFar, recording: Recording) -> None:
        """Continue the order of the timeline's entries."""
        ordered = so_far.ordered
        for entry in recording.order[len(so_far.order) + ordered[_NOTHING] :]:
            if entry == STEP:
                so_far.order.append(("step", so_far.steps[ordered[STEP]].t))
                ordered[STEP] += 1
            elif entry == EXPECTATION:
                so_far.order.append(("expectation", so_far.expectations[ordered[EXPECTATION]].t))
                ordered[EXPECTATION] += 1
            elif entry:
                so_far.order.append(("decision", so_far.decisions[ordered[_DECIDED]].t))
                ordered[_DECIDED] += entry
            else:
                ordered[_NOTHING] += 1

    def _kept(self, name: str, objects: ObjectsByFile, kinds: Iterable[str]) -> dict[str, list[Object]]:
        return {kind: [self._cuts.kept(name, kind, obj) for obj in objects[kind]] for kind in kinds if kind in objects}

    def _nodes(self, recording: Recording) -> Any:
        """The data from which racks are derived."""
        nodes = {name_of(node): labels_of(node) for node in recording.after.get("nodes", ())}
        return nodes, recording.after.get("topologies")

    def _files(
        self, so_far: _RecordedSoFar, recording: Recording, text: Scrubber, events: Sequence[Object]
    ) -> EvidenceFiles:
        def entry(value: Any) -> bytes:
            return canonical.compact_json(text.entry(value))

        def kept(moment: str, kind: str) -> Callable[[Object], bytes]:
            return lambda obj: canonical.compact_json(text.value(self._cuts.kept(moment, kind, obj)))

        files: dict[str, FileEntries | Mapping[str, FileEntries]] = {
            FACTS: FileEntries([recording.facts], canonical.pretty_json),
            "decisions.jsonl": FileEntries(so_far.decisions),
            "expectations.jsonl": FileEntries(so_far.expectations),
            "pending.json": FileEntries(recording.pending, entry),
            "events.json": FileEntries(events, lambda event: entry(read_event(event))),
            "steps.json": FileEntries(so_far.steps),
        }
        for kind in ROW_KINDS:
            files[f"before/{kind}.json"] = FileEntries(recording.before.get(kind, ()), kept(BEFORE, kind))
            files[f"after/{kind}.json"] = FileEntries(ObjectsByIndex(recording.after.get(kind, ())), kept(AFTER, kind))
        for name, state in recording.states if not recording.cycles else ():
            files[f"states/{name}.json"] = {kind: FileEntries(getattr(state, kind), entry) for kind in ROW_KINDS}
        return files
