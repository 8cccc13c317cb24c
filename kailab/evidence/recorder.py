"""Keeps what happens in one lab, and writes it into a folder.

While a lab runs this only holds on to references (objects handed out by a cluster never change), so recording costs
next to nothing; all the writing happens in ``write``. Nothing here looks at a wall clock. Objects are cut to what decisions
need (``kailab.evidence.redaction``), and free text that quotes the rest is, too: there is no other way into the folder.

    lab.json                fleet, backend, scheduler under test, versions, settings
    fleet.yaml              the fleet's definition
    manifests/NN-name       what was applied, written anew from the objects that were read
    steps.json              what was done, in order, with the virtual time
    states/NN-operation.json    pods, PodGroups, queues and nodes after each step, a row each
    before/, after/         nodes, queues, PodGroups, pods, topologies and priority classes
    decisions.jsonl         every decision of every cycle, with names
    cycles.jsonl            what each cycle was decided on and decided, as the engine has it (kailab.evidence.cycles)
    events.json             Kubernetes Events
    pending.json            what stayed pending, and why
    expectations.jsonl      what was expected and seen
    timeline.json, timeline.txt
    metrics.jsonl           how queues, waits, gangs, decisions and use went over time, as series (kailab.evidence.metrics)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import EvidenceError
from kailab.evidence import canonical, cycles
from kailab.evidence import recording as timeline
from kailab.evidence.cluster_state import RowCache, read_cluster_state
from kailab.evidence.cycles import CycleLog, LastRecordedCycle, RecordedCycle
from kailab.evidence.entries import (
    FORMAT,
    CheckedExpectation,
    ClusterState,
    Decision,
    LabFacts,
    PendingReason,
    RecordedEvent,
    RecordedStep,
    SourceLine,
    TestOutcome,
    TimelineEntry,
)
from kailab.evidence.recording import EXPECTATION, STEP, Recording
from kailab.evidence.sanitizing import CutCache, RecordCutter, Sanitizer, record_names
from kailab.evidence.scrubbing import Scrubber
from kailab.model.private_files import make_folder, write_bytes
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Deciding, Observer, Opening

OBJECT_FILES = {
    "nodes": "Node",
    "queues": "Queue",
    "podgroups": "PodGroup",
    "pods": "Pod",
    "topologies": "Topology",
    "priorityclasses": "PriorityClass",
}
"""File -> the kind of which it has every object, before and after."""
METRICS = "metrics.jsonl"


class Recorder(Observer):
    """One lab's record. ``lab`` names it among the labs of a test."""

    wants_decisions = True

    def __init__(
        self, lab: str = "lab", so_far: Recording | None = None, source: Callable[[], SourceLine | None] = lambda: None
    ) -> None:
        """``so_far``: what was recorded of the lab before, to go on from there. ``source``: tells from where the lab is called now."""
        self.lab = lab
        self._source = source
        self.recording = so_far or Recording()
        self._log = CycleLog(self.recording.cycles)
        self._cluster: Cluster | None = None
        self._rows = RowCache()
        self._scheduler: Deciding | None = None
        self._stands: Callable[[], ClusterState] | None = None

    @property
    def facts(self) -> LabFacts | None:
        return self.recording.facts

    @property
    def steps(self) -> list[RecordedStep]:
        return self.recording.steps

    @property
    def decisions(self) -> list[Decision]:
        return self.recording.decisions

    @property
    def expectations(self) -> list[CheckedExpectation]:
        return self.recording.expectations

    @property
    def cycles(self) -> list[RecordedCycle]:
        return self.recording.cycles

    @property
    def is_open(self) -> bool:
        return self._cluster is not None

    def on_opened(self, opening: Opening) -> None:
        """Of a lab that was recorded before, this goes on with it."""
        recording = self.recording
        if recording.facts is None:
            recording.opened = opening.opened
            recording.facts = opening.facts()
            recording.fleet = None if opening.fleet is None else dict(opening.fleet)
            recording.before = _looked_at(opening.cluster)
        self.go_on(opening.cluster)

    def go_on(self, cluster: Cluster) -> None:
        """With a lab that was opened before."""
        self._cluster = cluster

    def ask(self, stands: Callable[[], ClusterState]) -> None:
        """Ask somebody else how the cluster stands, who looks at it as well."""
        self._stands = stands

    def begin_part(self) -> None:
        """What was recorded so far is kept elsewhere; what comes is a part of its own, told by what came before."""
        self.recording = self.recording.following()
        self._log.cycles = self.recording.cycles

    def on_begin(self, scheduler: Deciding) -> None:
        """What it decides on is kept, too."""
        # Not by default: following costs something in each cycle, and only who keeps cycles needs it.
        scheduler.follow_records()
        self._scheduler = scheduler

    def go_on_from(self, last: LastRecordedCycle) -> None:
        """The next cycle is told by what is another than in the last one that was recorded of the lab."""
        if self._scheduler is not None:
            self._scheduler.go_on_from(last.records, last.decisions.pending)
            self._log.go_on(last)

    def _manifest(self, name: str, objects: Sequence[Object]) -> str:
        """Keep what is about to be applied. Returns the name under which it is kept."""
        plain = name.removesuffix(".json").removesuffix(".yml").removesuffix(".yaml")
        recording = self.recording
        # Goes on from command to command where a lab outlives them, so that no file stands for two manifests.
        number = recording.manifests_before + len(recording.manifests) + 1
        kept = f"{number:02d}-{canonical.safe_name(f'{plain}.yaml')}"
        recording.manifests.append(
            (kept, msgspec.Raw(msgspec.json.encode(objects)))
        )  # whoever gave them may go on with them
        return kept

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        """Texts or objects that were not taken: errors may quote them."""
        self.recording.refused.extend(sources)

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        """Something was done (apply, delete, scale, settle, advance). ``state``: note how the cluster stands
        after it. ``detail``: fields of a Step, but manifests as (name, objects)."""
        if "manifests" in detail:
            detail["manifests"] = tuple(self._manifest(name, objects) for name, objects in detail["manifests"])
        recording = self.recording
        number = recording.steps_before + len(recording.steps) + 1
        entry = RecordedStep(n=number, t=self._t(), operation=operation, text=text, source=self._source(), **detail)
        recording.steps.append(entry)
        recording.order.append(STEP)
        if state and self._cluster is not None:
            now = self._standing(self._cluster)
            # A step that changed nothing (a settle with nothing to do) leaves no state.
            if not recording.states or recording.states[-1][1] != now:
                recording.states.append((f"{entry.n:02d}-{operation}", now))

    def catch_up(self) -> None:
        """Look at the cluster as a step would have it looked at, so that the next one finds most of it known."""
        if self._cluster is not None:
            self._standing(self._cluster)

    def _standing(self, cluster: Cluster) -> ClusterState:
        return read_cluster_state(cluster, self._rows) if self._stands is None else self._stands()

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        """The named entries that one cycle added to the decision log. ``record``: the cycle, where it was kailab's scheduler's,
        and its ``number`` in the log."""
        if record is not None:
            self._log.take(record, number)
        if entries:
            self.recording.decisions.extend(entries)
            self.recording.order.append(len(entries))

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        # The evidence of a lab goes from its opening to its last look.
        if not self.is_open:
            return
        entry = CheckedExpectation(
            t=self._t(), subject=subject, expected=expected, seen=seen, held=held, source=self._source()
        )
        self.recording.expectations.append(entry)
        self.recording.order.append(EXPECTATION)

    def on_closing(self, waiting: Callable[[], Sequence[PendingReason]]) -> None:
        """Take the last look."""
        if self._cluster is not None:
            self.recording.events = self._cluster.list("Event")
            self.look(waiting)

    def look(self, waiting: Callable[[], Sequence[PendingReason]]) -> None:
        """The last look, but for events."""
        if self._cluster is not None:
            self.recording.after = _looked_at(self._cluster)
            self.recording.pending = waiting()
            self._cluster = None

    def timeline(self) -> list[TimelineEntry]:
        """See kailab.evidence.recording."""
        return self.text.entries(timeline.timeline_entries(self.recording.moments()))

    @property
    def text(self) -> Scrubber:
        """Cuts what evidence leaves out of texts that tell of this lab, as it is known by now."""
        return self._sanitizer().text

    def scrub(self, text: str) -> str:
        """Text that tells of this lab, without what evidence leaves out."""
        return self.text.text(text) if text else text

    def write(self, folder: Path) -> None:
        """All of it into ``folder``, which is made."""
        make_folder(folder, new=True)
        keeping = self._sanitizer()
        recording, text = self.recording, keeping.text
        told = text.entries(timeline.timeline_entries(self.recording.moments()))
        files = {
            "lab.json": canonical.pretty_json(self.facts),
            "steps.json": canonical.pretty_json(text.entries([keeping.step(step) for step in self.steps])),
            "decisions.jsonl": canonical.json_lines(text.entries(self.decisions)),
            "expectations.jsonl": canonical.json_lines(text.entries(self.expectations)),
            "pending.json": canonical.pretty_json(text.entries(recording.pending)),
            "events.json": canonical.pretty_json(text.entries([read_event(event) for event in recording.events])),
            "timeline.json": canonical.pretty_json(told),
            "timeline.txt": timeline.render_timeline(told).encode(),
        }
        if self.cycles:
            cutter = RecordCutter(keeping.keeps_label, text.text)
            # A list, because what was cut is known only once all of them are through.
            kept = list(cutter.cycles(self.cycles))
            cycles.write_cycles_file(folder, recording.opened, len(cutter.cut), kept)
        # With numpy under it, what reckons is loaded when there is something to write.
        from kailab.evidence.metrics.over_time import encode_series

        files[METRICS] = encode_series(recording)
        if recording.fleet is not None:
            files["fleet.yaml"] = keeping.fleet(recording.fleet)
        for name, content in files.items():
            write_bytes(folder / name, content)
        _write_all(folder / "manifests", keeping.manifests)
        states = {f"{name}.json": canonical.pretty_json(text.entry(state)) for name, state in recording.states}
        _write_all(folder / "states", states)
        for name, objects in (("before", keeping.before), ("after", keeping.after)):
            looks = {f"{kind}.json": canonical.pretty_json(found) for kind, found in objects.items()}
            _write_all(folder / name, looks)

    def keeping(self, cuts: CutCache) -> Sanitizer:
        """What of all that is known by now evidence keeps. ``cuts``: what was cut before."""
        return self._sanitizer(cuts)

    def _sanitizer(self, cuts: CutCache | None = None) -> Sanitizer:
        recording = self.recording
        # While the lab is open (a failure is told) there is no last look yet.
        after = recording.after if self._cluster is None else _looked_at(self._cluster)
        patches = [(step.kind, step.patch) for step in self.steps if step.patch is not None]
        if cuts is None:
            manifests = [(name, msgspec.json.decode(objects)) for name, objects in recording.manifests]
            return Sanitizer(manifests, recording.before, after, patches, recording.refused, record_names(self.cycles))
        cuts.names(self.cycles)
        manifests = [(name, cuts.decoded(objects)) for name, objects in recording.manifests]
        return Sanitizer(manifests, recording.before, after, patches, recording.refused, cuts=cuts)

    def _t(self) -> float:
        if self._cluster is None:
            # The cluster's clock is gone with it; nothing happens after the last step.
            return self.steps[-1].t if self.steps else 0.0
        return round(self._cluster.now() - self.recording.opened, 6)


def _looked_at(cluster: Cluster) -> dict[str, list[Object]]:
    return {name: cluster.list(kind) for name, kind in OBJECT_FILES.items()}


def _write_all(folder: Path, files: Mapping[str, bytes]) -> None:
    """Without files there is no folder: none that is empty is evidence."""
    if not files:
        return
    make_folder(folder, new=True)
    for name, content in files.items():
        write_bytes(folder / name, content)


def read_event(event: Object) -> RecordedEvent:
    """As evidence has it."""
    involved = event.get("involvedObject") or {}
    return RecordedEvent(
        type=event.get("type", ""),
        reason=event.get("reason", ""),
        message=event.get("message", ""),
        object=f"{involved.get('kind', '')} {involved.get('namespace', '')}/{involved.get('name', '')}",
        count=event.get("count", 1),
        first=event.get("firstTimestamp"),
        last=event.get("lastTimestamp"),
    )


# The evidence of one test: its labs' records and how it came out.

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
    """result.json, and a folder for each lab that was opened: none of a test that was skipped before.

    The rest is as ``Result`` has it, ``message`` in words that are the same in every run.
    """
    opened = [recorder for recorder in recorders if recorder.facts is not None]
    for recorder in opened:
        recorder.write(folder / canonical.safe_name(recorder.lab))
    result = TestOutcome(
        format=FORMAT,
        test=test,
        outcome=outcome,
        message=message,
        labs=tuple(canonical.safe_name(recorder.lab) for recorder in opened),
        expectations=sum(len(recorder.expectations) for recorder in opened),
        expectations_failed=sum(not entry.held for recorder in opened for entry in recorder.expectations),
        decisions=sum(len(recorder.decisions) for recorder in opened),
        cycles=sum(len(recorder.cycles) for recorder in opened),
        sentence=sentence,
        reason=reason,
        source=source,
    )
    # A failure may quote objects of any of the labs, as may a docstring, so what each of them leaves out is cut from all of it. Where no
    # lab was opened, what has the form of a credential.
    for text in [recorder.text for recorder in opened] or [Scrubber((), ())]:
        kept = text.entry(result)
        result = structs.replace(kept, test=result.test, outcome=result.outcome, labs=result.labs)
    write_bytes(folder / RESULT, canonical.pretty_json(result))


class ResultHead(msgspec.Struct):
    """As much of a result as every format has."""

    format: int = 1
    outcome: str = "unknown"


def check_format(found: int, place: Path) -> None:
    """Raises EvidenceError for evidence in another format than this kailab's."""
    if found != FORMAT:
        whose = "a newer" if found > FORMAT else "an older"
        raise EvidenceError(
            f"{place}: evidence of {whose} kailab (format {found}; this one reads format {FORMAT}); `kailab evidence verify` "
            "still checks it, and the tests can be run again"
        )
