"""Records one lab, and writes its evidence into a folder.

While a lab runs, the recorder only keeps references (objects from a cluster never change), so recording costs little. ``write`` does the rest. Nothing here
reads a wall clock. Only the fields of objects that decisions need are kept, and text that quotes other fields is redacted (``sanitizing``); there is no
other way into the folder.

    lab.json                fleet, backend, scheduler under test, versions, settings
    fleet.yaml              the fleet's definition
    manifests/NN-name       applied manifests, written from the objects that were read
    steps.json              steps in order, with virtual time
    states/NN-operation.json    pods, PodGroups, queues and nodes after each step, as rows
    before/, after/         nodes, queues, PodGroups, pods, topologies and priority classes
    decisions.jsonl         the decisions of all cycles, with names
    cycles.jsonl            input and decisions of each cycle in the engine's form (``cycles``)
    events.json             Kubernetes Events
    pending.json            the PodGroups pending at the end, with reasons
    expectations.jsonl      expectations with what was observed
    timeline.json, timeline.txt
    metrics.jsonl           metrics over time, as series (``kailab.evidence.metrics``)

``write_test`` writes a test's result and the folders of its labs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import EvidenceError
from kailab.evidence import canonical, cycles
from kailab.evidence.cluster_state import RowCache, read_cluster_state
from kailab.evidence.cycles import CycleLog, LastRecordedCycle
from kailab.evidence.entries import (
    FORMAT,
    CheckedExpectation,
    ClusterState,
    Decision,
    OutcomeEntry,
    PendingReason,
    RecordedEvent,
    RecordedStep,
    SourceLine,
    TimelineEntry,
)
from kailab.evidence.large_files import write_stored_file
from kailab.evidence.recording import EXPECTATION, STEP, Recording, brief_timeline, render_timeline, timeline_entries
from kailab.evidence.sanitizing import CutCache, RecordCutter, Sanitizer, Scrubber
from kailab.model.objects import involved_of
from kailab.model.private_files import make_folder, write_bytes
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import DecidingScheduler, LabOpening, Observer

OBJECT_FILES = {
    "nodes": "Node",
    "queues": "Queue",
    "podgroups": "PodGroup",
    "pods": "Pod",
    "topologies": "Topology",
    "priorityclasses": "PriorityClass",
}
"""File in ``before/`` and ``after/`` -> the kind of its objects."""
METRICS = "metrics.jsonl"
_PLAIN = ("lab.json", "timeline.txt", "fleet.yaml")
"""Files that are never compressed: the first names the lab for readers of folders; people read the others and use them again, as they do manifests."""

_SPACED = re.compile(r"[\s/]+")


class Recorder(Observer):
    """Observes one lab. ``lab``: its name among the labs of a test."""

    wants_decisions = True

    def __init__(
        self, lab: str = "lab", so_far: Recording | None = None, source: Callable[[], SourceLine | None] = lambda: None
    ) -> None:
        """``so_far``: an earlier recording of the lab, to continue. ``source``: returns the line of the test that calls the lab now."""
        self.lab = lab
        self._source = source
        self.recording = so_far or Recording()
        self._log = CycleLog(self.recording.cycles)
        self._cluster: Cluster | None = None
        self._rows = RowCache()
        self._scheduler: DecidingScheduler | None = None
        self._read_state: Callable[[], ClusterState] | None = None

    def on_opened(self, opening: LabOpening) -> None:
        """Start the recording, or continue an earlier one."""
        recording = self.recording
        if recording.facts is None:
            recording.opened = opening.opened
            recording.facts = opening.facts()
            recording.fleet = None if opening.fleet is None else dict(opening.fleet)
            recording.before = _list_objects(opening.cluster)
        self.go_on(opening.cluster)

    def go_on(self, cluster: Cluster) -> None:
        """Continue with a lab that was opened before."""
        self._cluster = cluster

    def use_states_of(self, read_state: Callable[[], ClusterState]) -> None:
        """Use a state that another observer reads anyway, instead of reading the cluster."""
        self._read_state = read_state

    def begin_part(self) -> None:
        """Start a new part after the present one was saved. Its numbers and differences continue those of the saved part."""
        self.recording = self.recording.following()
        self._log.cycles = self.recording.cycles

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        """Have the scheduler report its records, so that cycles can be recorded."""
        # Not the default, because it costs time in each cycle.
        scheduler.follow_records()
        self._scheduler = scheduler

    def go_on_from(self, last: LastRecordedCycle) -> None:
        """Record the next cycle as a difference to the last recorded one."""
        if self._scheduler is not None:
            self._scheduler.go_on_from(last.records, last.decisions.pending)
            self._log.go_on(last)

    def _manifest(self, name: str, objects: Sequence[Object]) -> str:
        """Keep a manifest before it is applied. Return its file name."""
        plain = name.removesuffix(".json").removesuffix(".yml").removesuffix(".yaml")
        recording = self.recording
        # The count continues from command to command, so that no file name is used twice.
        number = recording.manifests_before + len(recording.manifests) + 1
        file_name = f"{number:02d}-{canonical.safe_name(_SPACED.sub('-', plain))}.yaml"
        recording.manifests.append(
            (file_name, msgspec.Raw(msgspec.json.encode(objects)))
        )  # encoded now, because the caller may change the objects
        return file_name

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        """Keep refused texts and objects, because errors may quote them."""
        self.recording.refused.extend(sources)

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        """Record an operation (apply, delete, scale, patch, settle, advance). ``state``: also record the state after it. ``detail``: fields of a RecordedStep, except
        manifests, which are (name, objects)."""
        if "manifests" in detail:
            detail["manifests"] = tuple(self._manifest(name, objects) for name, objects in detail["manifests"])
        recording = self.recording
        number = recording.steps_before + len(recording.steps) + 1
        entry = RecordedStep(n=number, t=self._t(), operation=operation, text=text, source=self._source(), **detail)
        recording.steps.append(entry)
        recording.order.append(STEP)
        if state and self._cluster is not None:
            now = self._current_state(self._cluster)
            # No state after a step that changed nothing, for example a settle of a settled lab.
            if not recording.states or recording.states[-1][1] != now:
                recording.states.append((f"{entry.n:02d}-{operation}", now))

    def catch_up(self) -> None:
        """Read the cluster's state, so that the next step finds most rows in the cache."""
        if self._cluster is not None:
            self._current_state(self._cluster)

    def _current_state(self, cluster: Cluster) -> ClusterState:
        return read_cluster_state(cluster, self._rows) if self._read_state is None else self._read_state()

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        """Record the entries that one cycle added to the decision log. ``record``: the cycle, if kailab's scheduler ran it; ``number``: its number in the log."""
        if record is not None:
            self._log.append(record, number)
        if entries:
            self.recording.decisions.extend(entries)
            self.recording.order.append(len(entries))

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        # The evidence of a lab ends with its last reading.
        if self._cluster is None:
            return
        entry = CheckedExpectation(
            t=self._t(), subject=subject, expected=expected, seen=seen, held=held, source=self._source()
        )
        self.recording.expectations.append(entry)
        self.recording.order.append(EXPECTATION)

    def on_closing(self, waiting: Callable[[], Sequence[PendingReason]]) -> None:
        """Record the last state."""
        if self._cluster is not None:
            self.recording.events = self._cluster.list("Event")
            self.record_final_state(waiting)

    def record_final_state(self, waiting: Callable[[], Sequence[PendingReason]]) -> None:
        """Record the last state, without events."""
        if self._cluster is not None:
            self.recording.after = _list_objects(self._cluster)
            self.recording.pending = waiting()
            self._cluster = None

    def brief_timeline(self, most: int) -> tuple[list[TimelineEntry], bool]:
        """At most ``most`` lines of the timeline, and whether it has more (``recording.brief_timeline``)."""
        entries, shorter = brief_timeline(self.recording.moments(), most)
        return self.text.entries(entries), shorter

    @property
    def text(self) -> Scrubber:
        """The scrubber for everything recorded so far: it removes from texts what evidence leaves out."""
        return self.sanitizer().text

    def scrub(self, text: str) -> str:
        """A text without what evidence leaves out."""
        return self.text.text(text) if text else text

    def write(self, folder: Path) -> None:
        """Write all evidence into a new folder."""
        make_folder(folder, new=True)
        sanitizer = self.sanitizer()
        recording, text = self.recording, sanitizer.text
        timeline = text.entries(timeline_entries(self.recording.moments()))
        files = {
            "lab.json": canonical.pretty_json(recording.facts),
            "steps.json": canonical.pretty_json(text.entries([sanitizer.step(step) for step in recording.steps])),
            "decisions.jsonl": canonical.json_lines(text.entries(recording.decisions)),
            "expectations.jsonl": canonical.json_lines(text.entries(recording.expectations)),
            "pending.json": canonical.pretty_json(text.entries(recording.pending)),
            "events.json": canonical.pretty_json(text.entries([read_event(event) for event in recording.events])),
            "timeline.json": canonical.pretty_json(timeline),
            "timeline.txt": render_timeline(timeline).encode(),
        }
        if recording.cycles:
            cutter = RecordCutter(sanitizer.keeps_label, text.text)
            # A list, because ``cutter.cut`` is complete only after all cycles.
            cut_cycles = list(cutter.cycles(recording.cycles))
            cycles.write_cycles_file(folder, recording.opened, len(cutter.cut), cut_cycles)
        # Imported here because it needs numpy, and tests without evidence do not.
        from kailab.evidence.metrics.over_time import encode_series

        files[METRICS] = encode_series(recording)
        if recording.fleet is not None:
            files["fleet.yaml"] = sanitizer.fleet(recording.fleet)
        for name, content in files.items():
            write = write_bytes if name in _PLAIN else write_stored_file
            write(folder / name, content)
        _write_all(folder / "manifests", sanitizer.manifests, write_bytes)
        states = {f"{name}.json": canonical.pretty_json(text.entry(state)) for name, state in recording.states}
        _write_all(folder / "states", states)
        for name, objects in (("before", sanitizer.before), ("after", sanitizer.after)):
            by_file = {f"{kind}.json": canonical.pretty_json(listed) for kind, listed in objects.items()}
            _write_all(folder / name, by_file)

    def sanitizer(self, cuts: CutCache | None = None) -> Sanitizer:
        """The sanitizer for all that is recorded now. ``cuts``: the cache of earlier readings."""
        recording = self.recording
        # While the lab is open (a failure is being reported) there is no last reading yet.
        after = recording.after if self._cluster is None else _list_objects(self._cluster)
        patches = [(step.kind, step.patch) for step in recording.steps if step.patch is not None]
        cuts = CutCache() if cuts is None else cuts
        cuts.read_names(recording.cycles)
        manifests = [(name, cuts.decoded(objects)) for name, objects in recording.manifests]
        return Sanitizer(manifests, recording.before, after, patches, recording.refused, cuts=cuts)

    def _t(self) -> float:
        if self._cluster is None:
            # The cluster and its clock are closed; nothing happens after the last step.
            return self.recording.steps[-1].t if self.recording.steps else 0.0
        return round(self._cluster.now() - self.recording.opened, 6)


def _list_objects(cluster: Cluster) -> dict[str, list[Object]]:
    return {name: cluster.list(kind) for name, kind in OBJECT_FILES.items()}


def _write_all(
    folder: Path, files: Mapping[str, bytes], write: Callable[[Path, bytes], None] = write_stored_file
) -> None:
    """Write files into a new folder; no folder without files, because evidence has no empty folders."""
    if not files:
        return
    make_folder(folder, new=True)
    for name, content in files.items():
        write(folder / name, content)


def read_event(event: Object) -> RecordedEvent:
    involved = involved_of(event)
    return RecordedEvent(
        type=event.get("type", ""),
        reason=event.get("reason", ""),
        message=event.get("message", ""),
        object=f"{involved.get('kind', '')} {involved.get('namespace', '')}/{involved.get('name', '')}",
        count=event.get("count", 1),
        first=event.get("firstTimestamp"),
        last=event.get("lastTimestamp"),
    )


RESULT = "result.json"


def write_test(
    folder: Path,
    test: str,
    recorders: Sequence[Recorder],
    outcome: str,
    message: str = "",
    sentence: str = "",
    reason: str = "",
    source: SourceLine | None = None,
) -> None:
    """Write result.json and a folder for each lab that was opened. The other arguments are fields of OutcomeEntry; ``message`` must be the same in every
    run."""
    opened = [recorder for recorder in recorders if recorder.recording.facts is not None]
    recordings = [recorder.recording for recorder in opened]
    for recorder in opened:
        recorder.write(folder / canonical.safe_name(recorder.lab))
    result = OutcomeEntry(
        format=FORMAT,
        test=test,
        outcome=outcome,
        message=message,
        labs=tuple(canonical.safe_name(recorder.lab) for recorder in opened),
        expectations=sum(len(recording.expectations) for recording in recordings),
        expectations_failed=sum(not entry.held for recording in recordings for entry in recording.expectations),
        decisions=sum(len(recording.decisions) for recording in recordings),
        cycles=sum(len(recording.cycles) for recording in recordings),
        sentence=sentence,
        reason=reason,
        source=source,
    )
    # A message or docstring may quote objects of any of the labs, so the rules of each lab apply. Without a lab, only texts in the form of a credential are cut.
    for text in [recorder.text for recorder in opened] or [Scrubber((), ())]:
        scrubbed = text.entry(result)
        result = structs.replace(scrubbed, test=result.test, outcome=result.outcome, labs=result.labs)
    write_bytes(folder / RESULT, canonical.pretty_json(result))


class ResultHead(msgspec.Struct):
    """The fields of result.json that every format has."""

    format: int = 1
    outcome: str = "unknown"


def check_format(format: int, place: Path) -> None:
    """Raise EvidenceError if evidence has another format than this version writes."""
    if format != FORMAT:
        whose = "a newer" if format > FORMAT else "an older"
        raise EvidenceError(
            f"{place}: evidence of {whose} kailab (format {format}; this one reads format {FORMAT}); `kailab evidence verify` "
            "still checks it, and the tests can be run again"
        )
