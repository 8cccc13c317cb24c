"""Build the page's data of one lab, from its evidence or from a running lab. Nothing is run or calculated again.

``read_recorded_lab`` reads a lab from evidence. ``LabFormBuilder`` turns it into a ``LabForm``; for a running lab it
then makes an ``Increment`` for each reading, which ``kailab/report/viewer/grown.js`` applies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.evidence.entries import GroupWaits, LabFacts
from kailab.evidence.history import LabHistory, WorkloadIndex
from kailab.evidence.large_files import stored_path
from kailab.evidence.sanitizing import Scrubber
from kailab.evidence.store import TestEvidence
from kailab.model.objects import name_of, namespace_of
from kailab.report import page_data
from kailab.report.columns import GroupColumns, NodeColumns, PodColumns, QueueColumns, UndoLog
from kailab.report.moments import (
    CycleMoments,
    DecisionColumns,
    PresentState,
    StateMoments,
    WaitColumns,
    present_moment,
    state_moment,
)
from kailab.report.racks import ObjectsByKind, RackMap
from kailab.report.raw import EntryReferences

T = TypeVar("T")
Columns = TypeVar("Columns", page_data.NodeForm, page_data.QueueForm, page_data.GroupForm)

_OBJECT_FOLDERS: tuple[Literal["before", "after"], ...] = ("before", "after")


class RecordedLab(NamedTuple):
    """A lab as it was recorded.

    ``states``: names of the history's states, in order. ``events``: the object of each event. ``order``: kind and time
    of each line of the timeline. ``workloads``: of PodGroups. ``events_gone``: number of oldest events that have been
    dropped since the last reading. ``text``: removes secrets from reasons at the end, if that has not been done.
    """

    name: str
    facts: LabFacts
    history: LabHistory
    states: Sequence[str]
    events: Sequence[str]
    order: Sequence[tuple[str, float]]
    racks: RackMap
    workloads: WorkloadIndex
    events_gone: int = 0
    text: Scrubber | None = None


def read_recorded_lab(test: TestEvidence, lab: str) -> RecordedLab:
    """Read a lab from evidence. Raises EvidenceError."""
    folder = test.path / lab
    fleet = test.text(lab, "fleet.yaml") if (folder / "fleet.yaml").exists() else ""
    listings: list[ObjectsByKind] = [
        {
            kind: test.objects(lab, moment, kind)
            for kind in ("nodes", "topologies")
            if stored_path(folder / moment / f"{kind}.json").exists()
        }
        for moment in _OBJECT_FOLDERS
    ]
    history = test.history(lab)
    return RecordedLab(
        name=lab,
        facts=test.labs[lab],
        history=history,
        states=list(test.states(lab)),
        events=[event.object for event in test.events(lab)],
        order=[(line.kind, line.t) for line in test.timeline(lab)],
        racks=RackMap.of_listings(fleet, listings),
        workloads=history.workloads,
    )


class FormCounts(NamedTuple):
    """Lengths before the change."""

    decisions: int
    evictions: int
    steps: int


def make_increment(
    form: page_data.LabForm,
    before: FormCounts,
    moments: Iterable[int],
    queues: Iterable[int],
    nodes: Iterable[int],
    groups: Iterable[int],
    waits: Iterable[int],
) -> page_data.Increment:
    """The changes of a form, except for pods, events and raw text. The other arguments are indices of changed items."""

    def some(places: Iterable[int], count: int) -> list[int]:
        return sorted(index for index in places if index < count)

    def changed(form: Columns, indices: Iterable[int], *whole: str) -> page_data.ChangedPlaces[Columns]:
        """The changed items of columns. ``whole``: fields that are not columns."""
        count = len(form.name)
        places = some(indices, count)
        values: dict[str, Any] = {
            name: value if name in whole else [value[index] for index in places]
            for name, value in structs.asdict(form).items()
        }
        return page_data.ChangedPlaces(count=count, places=places, values=type(form)(**values))

    def picked(items: list[T], indices: Iterable[int]) -> page_data.ChangedPlaces[list[T]]:
        places = some(indices, len(items))
        return page_data.ChangedPlaces(count=len(items), places=places, values=[items[index] for index in places])

    at = before.decisions
    new = {name: getattr(form.decisions, name)[at:] for name in ("moment", "kind", "action", "pod", "group", "node")}
    return page_data.Increment(
        moments=picked(form.moments, moments),
        steps=form.steps[before.steps :],
        nodes=changed(form.nodes, nodes, "racks", "models", "by"),
        queues=changed(form.queues, queues),
        groups=changed(form.groups, groups),
        pods=page_data.ChangedPlaces(count=0, places=[], values=page_data.PodForm()),
        waits=picked(form.waits, waits),
        decisions=structs.replace(form.decisions, **new, evictions=form.decisions.evictions[before.evictions :]),
        events=[],
        events_gone=0,
        parts=[],
    )


ROW_KINDS = ("nodes", "queues", "podgroups", "pods")


class LabFormBuilder:
    """Builds the form of one lab.

    ``raw`` gives references to entries. For a running lab with cycles, ``go_on`` undoes what was valid only for the
    last moment and adds what is new.
    """

    def __init__(self, recorded: RecordedLab, raw: EntryReferences) -> None:
        self._recorded, self._raw, self._history = recorded, raw, recorded.history
        self._firsts: dict[str, int] = {}
        self.expectations = page_data.NONE  # reference of the first expectation
        facts, first = self._first("lab.json", raw.whole), self._first("decisions.jsonl", raw.lines)
        self._form = form = page_data.LabForm(name=recorded.name, facts=recorded.facts, facts_ref=facts)
        self._holds = holds = UndoLog()
        self._queues, self._nodes = QueueColumns(holds), NodeColumns(holds)
        self._groups = GroupColumns(self._queues, holds)
        self._pods = PodColumns(self._groups, self._nodes, holds)
        self._waiting = WaitColumns(self._groups, holds)
        self._decisions = DecisionColumns(first, self._pods, self._nodes, self._queues)
        self._moments = form.moments
        form.nodes, form.queues, form.groups = self._nodes.form, self._queues.form, self._groups.form
        form.waits, form.decisions = self._waiting.form, self._decisions.form
        self._with_cycles = bool(recorded.history.cycles)
        self._cycles = CycleMoments(self._moments, self._pods, self._nodes, self._queues, raw, recorded.history.opened)
        self._states = StateMoments(self._pods, self._nodes, self._queues, self._with_cycles, raw.by_index)
        self._numbers: dict[int, int] = {}
        self._before: dict[str, int] = {}

    def form(self, now: PresentState | None = None) -> page_data.LabForm:
        """The form without its raw text. ``now``: the present state of a running lab, as the last moment. Raises
        EvidenceError."""
        self._take(now)
        form, recorded = self._form, self._recorded
        form.events_ref0 = self._first("events.json", self._raw.items)
        form.events = list(recorded.events)
        self._before = self._by_name("before")
        self._objects("after")
        self.expectations = self._first("expectations.jsonl", self._raw.lines)
        form.nodes.by = recorded.racks.by
        form.groups.workload[:] = [recorded.workloads.get(name) for name in form.groups.name]
        self._seen_through()
        return self.whole()

    def go_on(self, recorded: RecordedLab, now: PresentState) -> page_data.Increment:
        """The changes of a running lab with cycles since the last call. Raises EvidenceError."""
        form, changed = self._form, recorded.workloads.changed
        before = FormCounts(self._decisions.count, len(form.decisions.evictions), len(form.steps))
        steps_before = [moment.steps for moment in self._moments]
        self._holds.back()
        del self._moments[-1], steps_before[-1]
        cycles = len(self._moments)
        self._recorded, self._history = recorded, recorded.history
        self._take(now)
        events = len(form.events) - recorded.events_gone
        form.events[:] = recorded.events
        self._groups.touched |= {index for name in changed if (index := self._groups.index_of(name)) != page_data.NONE}
        for index in self._groups.touched:
            if index < len(form.groups.name):
                form.groups.workload[index] = recorded.workloads.get(form.groups.name[index])
        moments = {index for index, steps in enumerate(steps_before) if self._moments[index].steps != steps}
        increment = make_increment(
            form, before, moments | set(range(cycles, len(self._moments))), self._queues.touched, self._nodes.touched,
            self._groups.touched, self._waiting.touched,
        )  # fmt: skip
        increment.pods.count = len(self._pods.names)
        increment.pods.places = sorted(index for index in self._pods.touched if index < increment.pods.count)
        increment.pods.values = self._pods.form(self._before, self._after(), increment.pods.places)
        increment.events, increment.events_gone = form.events[events:], recorded.events_gone
        self._seen_through()
        return increment

    def whole(self) -> page_data.LabForm:
        """The form of everything added so far."""
        self._form.pods = self._pods.form(self._before, self._after())
        return self._form

    def names(self) -> dict[str, list[str]]:
        """Columns of names by kind."""
        return {
            "nodes": self._nodes.form.name,
            "queues": self._queues.form.name,
            "podgroups": self._groups.form.name,
            "pods": self._pods.names,
        }

    def _seen_through(self) -> None:
        for touched in (
            self._queues.touched, self._nodes.touched, self._groups.touched, self._pods.touched, self._waiting.touched,
            self._cycles.changed_pods, self._recorded.workloads.changed,
        ):  # fmt: skip
            touched.clear()

    # --- moments -----------------------------------------------------------------------------------------------------

    def _take(self, now: PresentState | None) -> None:
        if self._with_cycles:
            self._from_cycles()
        self._from_states(now)
        self._form.steps[:] = self._steps()
        if not self._with_cycles:
            times = [moment.t for moment in self._moments]
            for entry in self._history.decisions:
                index = min(bisect_left(times, entry.t), len(times) - 1)
                self._decisions.add(entry, self._moments, index)

    def _from_cycles(self) -> None:
        decisions = self._history.decisions
        for cycle in self._history.cycles[self._cycles.count :]:
            index = len(self._moments)
            waiting = self._cycles.add_cycle(cycle, self._recorded.racks)
            self._numbers[cycle.number] = index
            self._waiting.keep_only(index, set(waiting))
            # Take decisions right after their cycle: another pod may later reuse a name.
            while self._decisions.count < len(decisions) and decisions[self._decisions.count].cycle <= cycle.number:
                self._decide()
        while self._decisions.count < len(decisions):
            self._decide()

    def _decide(self) -> None:
        at = self._decisions.count
        entry = self._history.decisions[at]
        index = self._numbers.get(entry.cycle, page_data.NONE)
        self._decisions.add(entry, self._moments, index)
        if isinstance(entry, GroupWaits) and index == len(self._moments) - 1:
            self._waiting.begin(index, entry, self._decisions.form.ref0 + at)

    def _from_states(self, now: PresentState | None) -> None:
        """Add states. With cycles, only the last state counts, because each cycle has its own record of the
        cluster."""
        states = list(zip(self._recorded.states, self._history.states, strict=True))
        # A cycle may have run after the last step that left a state.
        if self._with_cycles:
            states = [entry for entry in states[-1:] if not self._moments or entry[1][0] >= self._moments[-1].t]
        if self._with_cycles and now is not None:
            states = []
            self._holds.begin()
        specs = None
        if not self._with_cycles:
            listings = (*self._history.before.get("queues", ()), *self._history.after.get("queues", ()))
            specs = {name_of(queue): queue for queue in listings}
        for name, (t, state) in states:
            index = len(self._moments)
            rows = self._raw.rows(f"states/{name}.json", *ROW_KINDS)
            refs = {kind: rows.get(kind, page_data.NONE) for kind in ROW_KINDS}
            self._states.add_state(index, state, refs, self._recorded.racks, specs)
            if not self._with_cycles:
                self._waiting.rows(index, state, refs["pods"])
            self._moments.append(state_moment(int(name.partition("-")[0]), t, self._history.opened, refs["pods"]))
        if now is not None:
            self._now(now, specs)
        if self._with_cycles and (states or now is not None):
            first = self._first("pending.json", self._raw.items)
            self._waiting.at_end(len(self._moments) - 1, self._history.pending, first, self._recorded.text)

    def _now(self, now: PresentState, specs: dict[str, Object] | None) -> None:
        """Add the present state, with queues as the scheduler reports them."""
        index, refs = len(self._moments), self._objects("after")
        if self._with_cycles and self._raw.by_index:
            self._states.update_state(index, now, refs, self._recorded.racks, self._cycles.changed_pods)
        else:
            queues = None if now.queues else specs
            self._states.add_state(index, now.state, refs, self._recorded.racks, queues)
        objects = {row.name: at for at, row in enumerate(now.state.queues)}
        for queue in now.queues:
            at = self._queues.add(queue.name) if self._raw.by_index else objects.get(queue.name, page_data.NONE)
            self._queues.put(index, queue.name, queue, refs["queues"] + at if queue.name in objects else page_data.NONE)
        if now.queues:
            self._queues.keep_only(index, {queue.name for queue in now.queues})
        if specs is not None:
            self._waiting.rows(index, now.state, refs["pods"])
        # States have the numbers of their steps; this one follows all of them.
        number = self._history.steps[-1].n + 1 if self._history.steps else 0
        pods, ref = now.state.pods, refs["pods"]
        if pods and self._raw.by_index:
            ref += self._pods.index_of(pods[0].name)
        self._moments.append(present_moment(now, number, self._history.opened, ref if pods else page_data.NONE))

    # --- steps -------------------------------------------------------------------------------------------------------

    def _steps(self) -> list[page_data.StepForm]:
        first = self._first("steps.json", self._raw.items)
        steps = [
            page_data.StepForm(
                t=step.t, operation=step.operation, text=step.text, ref=first + index, source=step.source
            )
            for index, step in enumerate(self._history.steps)
        ]
        for moment in self._moments:
            moment.steps = []
        following = self._following_cycles() if self._with_cycles else self._following_states()
        for index, at in enumerate(following[: len(steps)]):
            if self._moments:
                self._moments[min(at, len(self._moments) - 1)].steps.append(index)
        return steps

    def _following_states(self) -> list[int]:
        """For each step the index of the first state after it."""
        numbers = [moment.number for moment in self._moments]
        return [bisect_left(numbers, step.n) for step in self._history.steps]

    def checked(self) -> list[int]:
        """For each expectation the moment that shows the lab as it was then; -1 if there is none.

        It lies after the last decision before the expectation and before the next decision, and is the last one not
        later than the expectation.
        """
        steps = 0
        moments: list[int] = []
        deciding = [*self._deciding(), len(self._moments)]
        for kind, t, at in self._in_order():
            steps += kind == "step"
            if kind != "expectation":
                continue
            if self._with_cycles:
                first, beyond = (deciding[at] + 1 if at >= 0 else 0), deciding[min(at + 1, len(deciding) - 1)]
                later = [index for index in range(first + 1, beyond) if self._moments[index].t <= t]
                moments.append(min([first, *later][-1], len(self._moments) - 1))
            else:
                done = self._history.steps[:steps]
                before = [index for index, moment in enumerate(self._moments) if done and moment.number <= done[-1].n]
                moments.append([min(0, len(self._moments) - 1), *before][-1])
        return moments

    def _deciding(self) -> list[int]:
        return [index for index, moment in enumerate(self._moments) if moment.counts]

    def _in_order(self) -> Iterator[tuple[str, float, int]]:
        """Each line of the timeline with its time and the index of the last deciding moment reached; -1 if none. Steps
        and cycles may have equal times, so the timeline gives their order."""
        deciding = self._deciding()
        at, stepped = -1, True
        for kind, t in self._recorded.order:
            if kind == "step":
                stepped = True
            elif kind == "decision":
                at = self._next(deciding, at, t, stepped)
                stepped = False
            yield kind, t, at

    def _following_cycles(self) -> list[int]:
        """For each step the moment of the first cycle after it that decided something."""
        deciding = self._deciding()
        moments: list[int] = []
        open_steps = 0
        for kind, _, at in self._in_order():
            if kind == "step":
                open_steps += 1
            elif kind == "decision":
                moments += [deciding[at] if at < len(deciding) else len(self._moments) - 1] * open_steps
                open_steps = 0
        return moments + [len(self._moments) - 1] * open_steps

    def _next(self, deciding: Sequence[int], at: int, t: float, stepped: bool) -> int:
        if 0 <= at < len(deciding) and not stepped and self._moments[deciding[at]].t == t:
            return at
        at += 1
        while at < len(deciding) and self._moments[deciding[at]].t < t:
            at += 1
        return at

    # --- references --------------------------------------------------------------------------------------------------

    def _first(self, file: str, of: Callable[[str], int]) -> int:
        """The reference of the first entry of a file, read once."""
        if file not in self._firsts:
            self._firsts[file] = of(file)
        return self._firsts[file]

    def _objects(self, moment: str) -> dict[str, int]:
        """The reference of the first object of each kind."""
        return {kind: self._first(f"{moment}/{kind}.json", self._raw.items) for kind in ROW_KINDS}

    def _by_name(self, moment: str) -> dict[str, int]:
        """References to pods by name."""
        objects = (self._history.before if moment == "before" else self._history.after).get("pods", ())
        first = self._objects(moment)["pods"]
        return {f"{namespace_of(pod)}/{name_of(pod)}": first + index for index, pod in enumerate(objects)}

    def _after(self) -> Callable[[int], int]:
        """References to pods as they were at the end, by index."""
        names, first = self._pods.names, self._objects("after")["pods"]
        if self._raw.by_index:
            return lambda index: first + index if self._states.is_there(names[index]) else page_data.NONE
        by_name = self._by_name("after")
        return lambda index: by_name.get(names[index], page_data.NONE)
