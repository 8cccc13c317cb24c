"""What is told of one lab as the page's data. Nothing is run again, nothing reckoned anew."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.report import of_decisions
from kailab.report.columns import Nodes, Pods, Queues
from kailab.report.form import NONE, LabForm, Moment, StepForm
from kailab.report.of_cycles import CycleMoments
from kailab.report.of_states import Now, StateMoments, moment, moment_now
from kailab.report.raw import Texts
from kailab.report.told import Told

LOOKS = ("nodes", "queues", "podgroups", "pods")


class Gathering:
    """Of one lab. ``raw`` gives entries their references."""

    def __init__(self, told: Told, raw: Texts) -> None:
        self._told, self._raw = told, raw
        self._history = told.history
        self._queues, self._nodes = Queues(), Nodes()
        self._pods = Pods(self._queues, self._nodes)
        self._racks = told.racks
        self._waiting = of_decisions.Waiting(self._pods)
        self._moments: list[Moment] = []
        self._looked: dict[str, dict[str, int]] = {}

    def form(self, now: Now | None = None) -> LabForm:
        """The lab, but for where its raw text is. ``now``: of a lab that goes on, how it stood when this was told, as the last moment.
        Raises EvidenceError."""
        raw, told = self._raw, self._told
        form = LabForm(name=told.name, facts=told.facts, facts_ref=raw.whole("lab.json"))
        first = raw.lines("decisions.jsonl")
        with_cycles = bool(self._history.cycles)
        if with_cycles:
            self._from_cycles(first)
        self._from_states(with_cycles, now)
        form.steps = self._steps(with_cycles)
        history = self._history
        form.decisions = of_decisions.columns(
            history.decisions, self._moment_of(with_cycles), first, self._pods, self._nodes, self._queues
        )
        of_decisions.count(history.decisions, form.decisions, self._moments)
        form.events_ref0 = raw.items("events.json")
        form.events = list(told.events)
        objects = {look: self._objects(look) for look in ("before", "after")}
        raw.lines("expectations.jsonl")
        form.moments = self._moments
        form.nodes, form.queues = self._nodes.form, self._queues.form
        form.nodes.by = self._racks.by
        form.pods = self._pods.form(
            self._by_name("before", objects["before"]["pods"]), self._by_name("after", objects["after"]["pods"])
        )
        form.groups = self._pods.groups
        workloads = history.workloads
        form.groups.workload = [workloads.get(name, "") for name in form.groups.name]
        form.waits = self._waiting.form
        return form

    def _from_cycles(self, first: int) -> None:
        cycles = CycleMoments(self._pods, self._nodes, self._queues, self._racks, self._raw, self._history.opened)
        cycles.take(self._history.cycles)
        self._moments = cycles.moments
        told = of_decisions.by_cycle(self._history.decisions)
        for place, one in enumerate(self._moments):
            self._waiting.keep_only(place, set(cycles.waiting[place]))
            for entry_place, entry in told.get(one.number, ()):
                self._waiting.begin(place, entry, first + entry_place)

    def _from_states(self, with_cycles: bool, now: Now | None) -> None:
        """After cycles only the last one: each cycle tells what it found."""
        told = list(zip(self._told.states, self._history.states, strict=True))
        # A cycle may have run after the last step that left a state.
        if with_cycles:
            told = [one for one in told[-1:] if not self._moments or one[1][0] >= self._moments[-1].t]
        if with_cycles and now is not None:
            told = []
        states = StateMoments(self._pods, self._nodes, self._queues, self._racks)
        specs = None
        if not with_cycles:
            looks = (*self._history.before.get("queues", ()), *self._history.after.get("queues", ()))
            specs = {queue["metadata"]["name"]: queue for queue in looks}
        for name, (t, state) in told:
            place = len(self._moments)
            rows = self._raw.rows(f"states/{name}.json", *LOOKS)
            refs = {kind: rows.get(kind, NONE) for kind in LOOKS}
            states.take(place, state, refs, specs)
            if not with_cycles:
                self._waiting.rows(place, state, refs["pods"])
            self._moments.append(moment(int(name.partition("-")[0]), t, self._history.opened, refs["pods"]))
        if now is not None:
            self._now(states, now, specs)
        if with_cycles and (told or now is not None):
            self._waiting.at_end(len(self._moments) - 1, self._history.pending, self._raw.items("pending.json"))

    def _now(self, states: StateMoments, now: Now, specs: dict[str, Object] | None) -> None:
        """As the objects are, with queues as they were asked for."""
        place, refs = len(self._moments), self._objects("after")
        states.take(place, now.state, refs, None if now.queues else specs, now.unavailable)
        objects = {row.name: refs["queues"] + at for at, row in enumerate(now.state.queues)}
        for queue in now.queues:
            self._queues.put(place, queue.name, queue, objects.get(queue.name, NONE))
        if now.queues:
            self._queues.keep_only(place, {queue.name for queue in now.queues})
        if specs is not None:
            self._waiting.rows(place, now.state, refs["pods"])
        # States are called after their steps: this one comes after all of them.
        number = self._history.steps[-1].n + 1 if self._history.steps else 0
        self._moments.append(moment_now(now, number, self._history.opened, refs["pods"]))

    def _objects(self, look: str) -> dict[str, int]:
        """Of each kind the reference of the first object. Asked again it is the same."""
        if look not in self._looked:
            self._looked[look] = {kind: self._raw.items(f"{look}/{kind}.json") for kind in LOOKS}
        return self._looked[look]

    def _steps(self, with_cycles: bool) -> list[StepForm]:
        first = self._raw.items("steps.json")
        steps = [
            StepForm(t=one.t, operation=one.operation, text=one.text, ref=first + place)
            for place, one in enumerate(self._history.steps)
        ]
        following = self._following_cycles() if with_cycles else self._following_states()
        for place, at in enumerate(following[: len(steps)]):
            if self._moments:
                self._moments[min(at, len(self._moments) - 1)].steps.append(place)
        return steps

    def _following_states(self) -> list[int]:
        """For each step the moment after it: states are called after their steps."""
        numbers = [one.number for one in self._moments]
        return [bisect_left(numbers, step.n) for step in self._history.steps]

    def _following_cycles(self) -> list[int]:
        """For each step the moment of the first cycle after it that decided something. Steps and cycles may have the same time; the
        timeline has their order."""
        numbers = {entry.cycle for entry in self._history.decisions}
        deciding = [place for place, one in enumerate(self._moments) if one.kind == "cycle" and one.number in numbers]
        found: list[int] = []
        at, stepped, open_steps = -1, True, 0
        for kind, t in self._told.order:
            if kind == "step":
                open_steps += 1
                stepped = True
            elif kind == "decision":
                at = self._next(deciding, at, t, stepped)
                stepped = False
                found += [deciding[at] if at < len(deciding) else len(self._moments) - 1] * open_steps
                open_steps = 0
        return found + [len(self._moments) - 1] * open_steps

    def _next(self, deciding: Sequence[int], at: int, t: float, stepped: bool) -> int:
        if 0 <= at < len(deciding) and not stepped and self._moments[deciding[at]].t == t:
            return at
        at += 1
        while at < len(deciding) and self._moments[deciding[at]].t < t:
            at += 1
        return at

    def _moment_of(self, with_cycles: bool) -> of_decisions.Of:
        if with_cycles:
            places = {one.number: place for place, one in enumerate(self._moments) if one.kind == "cycle"}
            return lambda entry: places.get(entry.cycle, NONE)
        times = [one.t for one in self._moments]
        last = len(times) - 1
        return lambda entry: min(bisect_left(times, entry.t), last)

    def _by_name(self, look: str, first: int) -> dict[str, int]:
        objects = (self._history.before if look == "before" else self._history.after).get("pods", ())
        return {
            f"{one['metadata'].get('namespace', '')}/{one['metadata']['name']}": first + place
            for place, one in enumerate(objects)
        }
