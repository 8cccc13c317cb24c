"""The steps of an answer: the step families of its causes (``cause_kinds``), tried on forks; if one change is not enough, two.

The number of forks is bounded. In a lab of many pods or nodes the engine filters proposals before a fork is made: their changes are read into the engine's
records, and one cycle shows whether they may serve the subject. A proposal that fails is dropped;
the others are still tried on a fork.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

from msgspec import structs

from kailab.cluster.embedded.merge import merge_patch
from kailab.cluster.protocol import Object
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import CycleInputDraft, Relaxation
from kailab.engine.search.alike import searches_shared
from kailab.errors import KailabError, NotFound
from kailab.explain.cause_groups import causes_now
from kailab.explain.cause_kinds import CAUSE_KINDS, Ending, StepFunction
from kailab.explain.step_budget import StepBudget, StepsStopped
from kailab.explain.steps import work_steps
from kailab.explain.steps.proposals import ChangeData, Disturbance, Proposal, ProposalFamily, combined
from kailab.explain.steps.question_context import QuestionContext, object_path
from kailab.explain.subject import PodsAtMoment, failed_condition
from kailab.explain.verdict import could_run, verdict_of
from kailab.lab.answer import Cause, Forecast, Step, StepOutcome, Verdict
from kailab.lab.change import carry_out, read_changes
from kailab.lab.lab import Lab
from kailab.lab.owners import owners_of, top_of
from kailab.lab.picture import Picture
from kailab.model.kinds import kind_key
from kailab.model.objects import ENDED_PHASES, name_of, namespace_of, uid_of
from kailab.model.times import parse_time
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.queues import queue_record

_OF_OTHERS = (Disturbance.FRONT, Disturbance.LINE, Disturbance.OTHERS)
MOST_VICTIM_SETS = 20
"""Sets of victims that are simulated for one job while a proposal is filtered."""


@dataclass(frozen=True)
class ChangesMade(Relaxation):
    """The changes of a proposal as a relaxation. ``text``: the changes as JSON, so that equal ones compare equal."""

    text: str
    context: QuestionContext = field(compare=False)

    def change(self, draft: CycleInputDraft) -> None:
        for change in json.loads(self.text):
            (form, value), *_ = change.items()
            _FORMS[form](self.context, draft, value)


@dataclass(frozen=True)
class BoundedVictimSearch(Relaxation):
    """Limits the search for victims while proposals are filtered, because the fork repeats the search."""

    def change(self, draft: CycleInputDraft) -> None:
        if not draft.config.search_budget.bounded:
            draft.config = structs.replace(draft.config, search_budget=SearchBudget(per_job=MOST_VICTIM_SETS))


def engine_can_judge(family: ProposalFamily) -> bool:
    return all(proposal.seen or _can_read(proposal.changes) for proposal in family.proposals)


def promising_proposals(context: QuestionContext, family: ProposalFamily) -> Iterator[Proposal]:
    """Yield the proposals of a family that pass the engine's filter; of a growing family, only the smallest."""
    # Work that would not run without other work is not helped by changes of other work.
    proposals = [
        proposal for proposal in family.proposals if not (context.never and proposal.disturbance in _OF_OTHERS)
    ]
    if not family.grows:
        yield from (
            proposal for proposal in proposals if _may_serve(context, proposal) and _could_run(context, proposal)
        )
    elif proposals and (smallest := _smallest(context, proposals)) is not None:
        yield smallest


def _smallest(context: QuestionContext, proposals: Sequence[Proposal]) -> Proposal | None:
    """The smallest proposal that serves the subject; None if not even the largest does.

    A cycle that also schedules the work ahead of the subject is slow, so only few are run: usually the smallest change that serves the
    subject alone suffices. Bisection applies, because a larger change has at least the effect of a smaller one.
    """
    last = len(proposals) - 1
    if not _serves(context, proposals[last], ahead=False) or not _could_run(context, proposals[last]):
        return None

    def serves_all(index: int, ahead: bool = True) -> bool:
        return _outcome(context, proposals[index], ahead).whole

    low = last if last and _is_one(context) else 0
    # For many PodGroups of the subject a cycle of its own takes as long as one with all others.
    if low and serves_all(last, ahead=False):
        low = _first(0, last, lambda index: serves_all(index, ahead=False))
    # Evicting actions serve one surplus pod per cycle. So if even a large change serves only some pods in one cycle, that cycle does not
    # show which smaller change suffices.
    before_last = max(low, last - 1)
    if before_last < last and serves_all(before_last):
        return proposals[low if serves_all(low) else _first(low + 1, before_last, serves_all)]
    some = any(_serves(context, proposals[index], ahead=True) for index in (before_last, last))
    return proposals[last] if some else None


def _first(low: int, high: int, works: Callable[[int], bool]) -> int:
    """The first index from ``low`` that works, by bisection; ``high`` works."""
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _may_serve(context: QuestionContext, proposal: Proposal) -> bool:
    """Whether a proposal serves the subject. A cycle of the subject alone is cheap and comes first; one with all that is served before it
    follows only if that succeeds."""
    return all(_serves(context, proposal, ahead) for ahead in (False, True))


def _could_run(context: QuestionContext, proposal: Proposal) -> bool:
    """Whether all of the subject could run without other work after the proposal, which may remove only one of two causes."""
    if not context.never:
        return True
    context.budget.check()
    with context.budget.ends_cycles():
        return could_run(context.state, *_relaxations(context, proposal))


def _serves(context: QuestionContext, proposal: Proposal, ahead: bool) -> bool:
    """Whether the subject gets any placement. ``ahead``: with the turns of all work served before it."""
    context.budget.check()
    with context.budget.ends_cycles():
        return _relaxed_cycles(context).further(*_relaxations(context, proposal), ahead=ahead)


def _outcome(context: QuestionContext, proposal: Proposal, ahead: bool) -> RelaxedCycleOutcome:
    context.budget.check()
    with context.budget.ends_cycles():
        return _relaxed_cycles(context)(*_relaxations(context, proposal), ahead=ahead)


def _relaxations(context: QuestionContext, proposal: Proposal) -> tuple[Relaxation, ...]:
    return BoundedVictimSearch(), proposal.seen or ChangesMade(json.dumps(proposal.changes), context)


def _relaxed_cycles(context: QuestionContext) -> RelaxedCycles:
    uids = sorted(group["metadata"]["uid"] for group in context.podgroups)
    return context.state.relaxed_cycles.about(*(uid for uid in uids if uid in context.state.records))


def _is_one(context: QuestionContext) -> bool:
    """Whether all waiting pods share one PodGroup."""
    return len({row.podgroup for row in context.waiting}) == 1


def _can_read(changes: Sequence[ChangeData]) -> bool:
    # A patch of an object that another of the changes creates can't be read.
    created = {(obj["kind"], obj["metadata"].get("name")) for change in changes for obj in change.get("apply", ())}
    patched = {(patch["kind"], patch["name"]) for change in changes if (patch := change.get("patch")) is not None}
    return created.isdisjoint(patched) and all(_readable(*next(iter(change.items()))) for change in changes)


def _readable(form: str, value: Any) -> bool:
    if form == "apply":
        return all(obj["kind"] in ("Queue", "Node") for obj in value)
    if form == "patch":
        return value["kind"] in ("Queue", "Node") or set(value["patch"].get("spec", {})) == {"replicas"}
    return form in ("delete", "advance")


def _apply(context: QuestionContext, draft: CycleInputDraft, value: list[dict[str, Any]]) -> None:
    for obj in value:
        if obj["kind"] == "Queue":
            draft.set("queues", queue_record(obj))
        else:
            draft.set("nodes", node_record(obj))


def _patch(context: QuestionContext, draft: CycleInputDraft, value: dict[str, Any]) -> None:
    kind, name = value["kind"], value["name"]
    if kind == "Queue":
        draft.set("queues", queue_record(merge_patch(context.queues[name], value["patch"])))
    elif kind == "Node":
        fresh = node_record(merge_patch(context.nodes[name], value["patch"]))
        record = draft.record("nodes", name) or fresh
        draft.set(
            "nodes",
            structs.replace(
                record,
                labels=fresh.labels,
                taints=fresh.taints,
                unavailable=fresh.unavailable,
                gpu_memory_mib=fresh.gpu_memory_mib,
            ),
        )
    else:
        pods = list(_pods_of(context, value))
        left = value["patch"]["spec"]["replicas"]
        for uid in pods[left:]:  # the controller deletes the youngest first
            draft.remove("tasks", uid)


def _delete(context: QuestionContext, draft: CycleInputDraft, value: dict[str, Any]) -> None:
    for uid in _pods_of(context, value):
        draft.remove("tasks", uid)


def _advance(context: QuestionContext, draft: CycleInputDraft, value: float) -> None:
    draft.now += value


def _pods_of(context: QuestionContext, value: dict[str, Any]) -> Iterator[str]:
    """UIDs of the pods of another workload that hold something, or that wait and are served before the subject."""
    name = "/".join(filter(None, (value["kind"], value.get("namespace"), value["name"])))
    for row in context.others.get(name, (None, []))[1]:
        yield context.pods[row.name]["metadata"]["uid"]
    for obj in context.ahead if name not in context.others else ():
        if object_path(obj) == name:
            yield from (pod["metadata"]["uid"] for pod in context.picture.pods if object_path(context.top(pod)) == name)


_FORMS: dict[str, Callable[[QuestionContext, CycleInputDraft, Any], None]] = {
    "apply": _apply,
    "patch": _patch,
    "delete": _delete,
    "advance": _advance,
}


FILTERED_FROM = 500
"""In a lab of this many pods the engine filters proposals."""

FILTERED_FROM_NODES = 100
"""On this many nodes the engine filters proposals too, but every amount is tried that may be the smallest."""

SLOW_FROM = 2_000
"""In a lab of this many pods one try takes a good part of a second."""


def is_large(pods: int, nodes: int) -> bool:
    """Whether the engine filters proposals in a lab, and changes of one form in a row settle together."""
    return pods >= FILTERED_FROM or nodes >= FILTERED_FROM_NODES


class StepCandidate(NamedTuple):
    """A proposal that may become a step. ``outcome``: of the fork on which the subject ran. The correction of a mistyped name has none if it
    was not tried, or did not help; ``unchecked`` says which. ``corrects``: it names what was meant, so its evictions do not lower its rank."""

    proposal: Proposal
    outcome: StepOutcome | None
    unchecked: str = ""
    corrects: bool = False

    @property
    def step(self) -> Step:
        text, changes, intent = self.proposal.text, self.proposal.changes, self.proposal.intent()
        if self.outcome is None:
            return Step(text, changes, unchecked=self.unchecked, intent=intent)
        return Step(text, changes, True, self.outcome, intent=intent)


class _Lost(NamedTuple):
    """Pods that are evicted, and workloads that fail, each with the lab time when that happens."""

    evicted: Mapping[str, float]
    failed: Mapping[str, float]

    def until(self, end: float) -> _Lost:
        """What is lost until a time."""
        evicted, failed = ({name: at for name, at in lost.items() if at <= end} for lost in self)
        return _Lost(evicted, failed)


class StepTries:
    """The tries of one answer, within the budget of its context. ``context``: of the lab without changes."""

    def __init__(self, context: QuestionContext, everything: bool = False) -> None:
        pods = len(context.picture.pods)
        self.many_pods, self.slow = pods >= FILTERED_FROM, pods >= SLOW_FROM
        self._asks_engine = is_large(pods, len(context.nodes))
        self.budget = context.budget
        self.budget.begin(pods, everything)
        self._running = {row.name for row in context.state.running}
        self._serves_parts = context.subject.kind == "Queue"
        self._context = context
        self._tried_parts: list[StepCandidate] = []
        self.parts: list[tuple[StepCandidate, ProposalFamily]] = []
        self._evictions = len(context.picture.log.evictions)
        self._unchanged: tuple[float, _Lost] = -1.0, _Lost({}, {})

    def first_that_works(self, context: QuestionContext, family: ProposalFamily) -> StepCandidate | None:
        """The smallest proposal of a family that lets the subject run. If there is none, the one that serves the largest part of a queue's
        work is added to ``parts``."""
        self._tried_parts.clear()
        try:
            return self._first_that_works(context, family)
        finally:
            if self._tried_parts and context is self._context:
                self.parts.append((max(self._tried_parts, key=_running), family))

    def smallest_part(self, context: QuestionContext, part: StepCandidate, family: ProposalFamily) -> StepCandidate:
        """The smallest proposal of a growing family that serves as many pods as ``part`` does."""
        low, high = 0, family.proposals.index(part.proposal)
        while family.grows and low < high and not self.budget.used_up:
            middle = (low + high) // 2
            tried = self._try_proposal(context, family.proposals[middle])
            if tried is not None and _running(tried) >= _running(part):
                high, part = middle, tried
            else:
                low = middle + 1
        return part

    def _first_that_works(self, context: QuestionContext, family: ProposalFamily) -> StepCandidate | None:
        engine_filters = self._asks_engine and engine_can_judge(family)
        if family.grows and len(family.proposals) > 1 and not (engine_filters and self.many_pods):
            return self._by_halving(context, family.proposals, engine_filters)
        for proposal in promising_proposals(context, family) if engine_filters else family.proposals:
            if (tried := self.try_proposal(context, proposal)) is not None or self.budget.used_up:
                return tried
        return None

    def try_proposal(self, context: QuestionContext, proposal: Proposal) -> StepCandidate | None:
        """Try one proposal on a fork. None if the lab refuses it, the subject does not run, or no try is left. One that serves a part of a
        queue's work is kept for ``first_that_works``."""
        tried = self._try_proposal(context, proposal)
        if tried is not None and tried.outcome is not None and tried.outcome.waiting:
            self._tried_parts.append(tried)
            return None
        return tried

    def _try_proposal(self, context: QuestionContext, proposal: Proposal) -> StepCandidate | None:
        if not self.budget.spend():
            self.budget.skip()
            return None
        with closing(context.lab.fork()) as copy, self.budget.ends_cycles(), searches_shared():
            try:
                self.carry_out(copy, proposal)
            except KailabError:
                return None
            outcome = self._outcome(context, copy)
        return None if outcome is None else StepCandidate(proposal, outcome)

    def carry_out(self, copy: Lab, proposal: Proposal) -> None:
        """Carry out its changes. Raises KailabError if the lab refuses one."""
        changes = read_changes([dict(change) for change in proposal.changes])
        # Settling a large lab is slow.
        carry_out(copy, changes, together=self._asks_engine, between=self.budget.check)

    def _by_halving(
        self, context: QuestionContext, proposals: Sequence[Proposal], engine_filters: bool
    ) -> StepCandidate | None:
        """The smallest proposal that works. ``engine_filters``: begin with the one that the engine takes for the smallest."""
        low, high = 0, len(proposals) - 1
        begin = high
        if engine_filters and (smallest := _smallest(context, proposals)) is not None:
            begin = proposals.index(smallest)
        best = self.try_proposal(context, proposals[begin])
        if best is not None:
            high = begin
        elif begin < high:
            low, best = begin + 1, self.try_proposal(context, proposals[high])
        # The engine's proposal is mostly the smallest, which the one before it shows.
        middle = high - 1 if best is not None and high == begin < len(proposals) - 1 else (low + high) // 2
        while best is not None and low < high:
            try:
                tried = self.try_proposal(context, proposals[middle])
            except (StepsStopped, KeyboardInterrupt) as error:
                self.budget.stop(error)
                break  # the larger amount works
            if tried is not None:
                high, best = middle, tried
            else:
                low = middle + 1
            middle = (low + high) // 2
        return best

    def _outcome(self, context: QuestionContext, copy: Lab) -> StepOutcome | None:
        picture = copy.picture(context.picture)
        try:
            after = context.subject.state(copy, picture)
        except KailabError:  # the change deleted it
            return None
        if len(after.running) <= len(self._running):
            return None
        withdrawn = _withdrawn_pods(context, copy) if self._serves_parts else 0
        waiting = (0 if after.runs else len(after.waiting)) + withdrawn
        if waiting or not after.runs:
            # A step may serve a part of a queue's work, but at no cost to another part of it.
            keeps_all = self._running <= {row.name for row in after.running}
            if not (self._serves_parts and waiting and keeps_all):
                return None
        own = {id(entry) for entry in after.evictions}
        # Changes follow one another: what got a place after the first and lost it after the second had none before.
        placed = {row.name for row in context.picture.rows if row.node}
        others = [entry for entry in picture.log.evictions[self._evictions :] if id(entry) not in own]
        evicted = [entry for entry in others if entry.pod in placed]
        served = {f"{row.name.partition('/')[0]}/{row.podgroup}" for row in after.pods}
        victims = {entry.podgroup for entry in evicted if entry.beneficiary in served}
        # A gang that falls below its minimum by an eviction for the subject is evicted for nobody.
        for_it = [
            entry
            for entry in evicted
            if entry.beneficiary in served or (not entry.beneficiary and entry.podgroup in victims)
        ]
        gone, moved = (
            tuple(dict.fromkeys(entry.pod for entry in for_it if entry.is_move is moves)) for moves in (False, True)
        )
        moved = tuple(name for name in moved if name not in gone)
        lost, again = _restarted(context, copy, picture, {*gone, *moved})
        gone, moved = (*gone, *lost), (*moved, *again)
        besides = tuple(dict.fromkeys(entry.pod for entry in evicted if entry.pod not in {*gone, *moved}))
        if besides:
            anyway = self._anyway(copy.now - self._context.lab.now).evicted
            besides = tuple(name for name in besides if name not in anyway)
            lost, again = _restarted(context, copy, picture, {*besides, *gone, *moved})
            besides = (*besides, *(name for name in (*lost, *again) if name not in anyway))
        failed = self._failed(copy)
        if failed:
            anyway_failed = self._anyway(copy.now - self._context.lab.now).failed
            failed = {title: at for title, at in failed.items() if title not in anyway_failed}
        return StepOutcome(len(after.running), gone, moved, tuple(failed), waiting, besides)

    def _failed(self, copy: Lab) -> dict[str, float]:
        """Workloads, with reasons, that have failed on a fork and had not before, and when. Their pods need not have lost a place by that: those
        that terminate on a node that is not ready fail once it is ready."""
        failed: dict[str, float] = {}
        for obj in self._owners:
            try:
                now = copy.cluster.get(kind_key(obj), name_of(obj), namespace_of(obj) or None)
            except KailabError:
                continue
            if (condition := failed_condition(now)) is not None:
                reason, at = condition.get("reason"), condition.get("lastTransitionTime")
                title = f"{obj['kind']} {name_of(obj)}{f' ({reason})' if reason else ''}"
                failed[title] = parse_time(at) if at else copy.now
        return failed

    @cached_property
    def _owners(self) -> Sequence[Object]:
        """The owners of all pods that have not failed."""
        cluster = self._context.lab.cluster
        owners = {uid_of(owner): owner for pod in self._context.pods.values() for owner in owners_of(cluster, pod)}
        return [owner for owner in owners.values() if failed_condition(owner) is None]

    def _anyway(self, seconds: float) -> _Lost:
        """What is lost within these seconds of lab time if nothing is changed."""
        until, lost = self._unchanged
        if until < seconds:
            lab = self._context.lab
            with closing(lab.fork()) as copy, self.budget.ends_cycles():
                try:
                    copy.settle_if_changed(self.budget.check)
                    copy.advance(max(0.0, seconds - (copy.now - lab.now)))
                except KailabError:
                    pass  # it never settles, and its evictions until then count
                evictions = copy.picture().log.evictions[self._evictions :]
                lost = _Lost({entry.pod: lab.opened + entry.t for entry in reversed(evictions)}, self._failed(copy))
            self._unchanged = seconds, lost
        return lost.until(self._context.lab.now + seconds)


def _withdrawn_pods(context: QuestionContext, copy: Lab) -> int:
    """Waiting pods of a queue whose work the changes have suspended or deleted. They wait no more, but it does not run."""
    withdrawn = set()
    for work in context.works:
        try:
            now = copy.cluster.get(kind_key(work), name_of(work), namespace_of(work) or None)
        except NotFound:
            withdrawn.add(object_path(work))
        else:
            if work_steps.suspension(work) is not None and work_steps.suspension(now) is None:
                withdrawn.add(object_path(work))
    waiting = (context.pods[row.name] for row in context.waiting if row.name in context.pods)
    return sum(object_path(context.top(pod)) in withdrawn for pod in waiting) if withdrawn else 0


def _restarted(
    context: QuestionContext, copy: Lab, picture: Picture, displaced: Collection[str]
) -> tuple[list[str], list[str]]:
    """Pods that stop because a controller starts their whole workload anew after others of it lost their place: those without a place
    afterwards, and those with one. A new pod of the workload on the fork counts as the replacement of one that is gone."""
    works = {object_path(context.top(context.pods[name])) for name in displaced if name in context.pods}
    if not works:
        return [], []
    held = {row.name: picture.pods_by_name[row.name] for row in picture.rows if row.node}
    stopped: dict[str, list[str]] = {}
    for row in context.picture.rows:
        if not row.node or row.name in displaced or row.phase in ENDED_PHASES:
            continue
        before = context.pods[row.name]
        if held.get(row.name, {}).get("metadata", {}).get("uid") != before["metadata"]["uid"]:
            stopped.setdefault(object_path(context.top(before)), []).append(row.name)
    fresh = Counter(object_path(top_of(copy.cluster, pod)) for name, pod in held.items() if name not in context.pods)
    lost: list[str] = []
    again: list[str] = []
    for work in sorted(works & stopped.keys()):
        for name in stopped[work]:
            replaced = name in held or fresh[work] > 0
            fresh[work] -= name not in held
            (again if replaced else lost).append(name)
    return lost, again


MOST_STEPS = 5
"""Steps in an answer at most."""
STEPS_OF_A_FAMILY = 2
"""Steps of one step function in an answer at most."""
MOST_FIRST_HALVES = 4
"""First changes of a pair that are looked at."""


def search_steps(
    state: PodsAtMoment,
    causes: Sequence[Cause],
    never: bool,
    everything: bool,
    budget: StepBudget,
    known_forecast: Forecast | None = None,
) -> Iterator[Step]:
    """Steps that let the subject run, each tried on a fork, one by one.

    In order: safe steps before those that raise a priority or change other work; of these, steps that fail no workload first, then those
    that evict nobody, then the least disturbing. A step is held back until no proposal that is left could come before it. ``causes``: the first cause first. ``never``: the
    subject would not run without other work, so changes of other work need no try. ``everything``: look for more than one step, and for
    pairs of changes, in a large lab too. ``budget``: it may end the search; the steps found until then are
    still yielded. ``known_forecast``: when the subject runs if nothing is changed, if known. If no step lets all of a queue's work run, yields those
    that let a part of it run. Yields nothing if no change helps.
    """
    context = QuestionContext(state, causes, never, budget, known_forecast)
    tries = StepTries(context, everything)
    agenda = _Agenda()
    number, enough = 0, _wanted_steps(tries, everything)
    held: list[StepCandidate] = []
    corrections: list[StepCandidate] = []  # that do not let it run, so that a pair of changes may be needed
    try:
        for candidate in _step_candidates(context, tries, agenda):
            if candidate is not None and candidate.outcome is None:
                enough -= 1
                if not tries.many_pods:
                    corrections.append(candidate)
                    continue
                yield candidate.step
                if not everything:
                    yield from (correction.step for correction in agenda.corrections())
                    return
            elif candidate is not None:
                held.append(candidate)
                number += 1
            if number >= enough:
                break
            ready = _steps_to_yield(held, agenda)
            yield from (candidate.step for candidate in (*(corrections if ready else ()), *ready))
            if ready:
                corrections.clear()
        if not number and causes and (everything or not tries.slow):
            held += islice(_pairs(context, tries), 1)
    except (StepsStopped, KeyboardInterrupt) as error:
        budget.stop(error)
    held.sort(key=_order)
    if not number:
        held = held or _steps_for_parts(context, tries)[:enough]
    # A pair of changes may begin with the correction.
    begun = [candidate.proposal.first.changes for candidate in held if candidate.proposal.first is not None]
    yield from (correction.step for correction in corrections if correction.proposal.changes not in begun)
    yield from (candidate.step for candidate in held)


class _Agenda:
    """The proposal families of the cause whose steps are looked for, in order. All proposals of a cause are made before the first is
    tried, so that their number and their smallest disturbance are known."""

    def __init__(self) -> None:
        self.families: list[tuple[int, ProposalFamily | None]] = []

    def begin(self, context: QuestionContext, cause: Cause) -> Iterator[tuple[int, ProposalFamily]]:
        """Yield each family with the number of its step function. A family leaves the list when the caller asks for the next one."""
        functions = CAUSE_KINDS[cause.code].steps
        self.families = []
        for number, propose in enumerate(functions):
            # To look ahead in time takes a fork, so it is done when its turn comes.
            if propose is work_steps.wait:
                self.families.append((number, None))
            else:
                self.families += [(number, family) for family in _families_of(context, propose)]
        context.budget.known += len(self.families)
        while self.families:
            number, family = self.families[0]
            if family is not None:
                yield number, family
            else:
                context.budget.report("Wait")
                waits = tuple(functions[number](context))
                context.budget.known += len(waits) - 1
                yield from ((number, wait) for wait in waits)
            self.families.pop(0)

    def corrections(self) -> Iterator[StepCandidate]:
        """The corrections that are left after the present family, as they are proposed without a try."""
        for _, family in self.families[1:]:
            if family is not None and family.corrects:
                yield _untried(family)

    def least_disturbance(self) -> Disturbance | None:
        """The least disturbance of the proposals that are left after the present family; None if there are none."""
        kinds = (
            Disturbance.WAITING if family is None else min(proposal.disturbance for proposal in family.proposals)
            for _, family in self.families[1:]
        )
        return min(kinds, default=None)


def _untried(family: ProposalFamily) -> StepCandidate:
    return StepCandidate(family.proposals[0], None, f"not tried: {family.corrects}")


def _steps_to_yield(held: list[StepCandidate], agenda: _Agenda) -> list[StepCandidate]:
    """Take from ``held`` the steps that no later one comes before, in their order."""
    held.sort(key=_order)
    least = agenda.least_disturbance()
    first = None if least is None else (least.is_unsafe, False, False, least)
    ready = [candidate for candidate in held if first is None or _order(candidate) <= first]
    del held[: len(ready)]
    return ready


def _wanted_steps(tries: StepTries, everything: bool) -> int:
    if not tries.many_pods:
        return MOST_STEPS
    return 1 if tries.slow and not everything else 2


def _order(tried: StepCandidate) -> tuple[bool, bool, bool, Disturbance]:
    """The sort key of steps. Evictions after waiting do not count, as they would happen anyway."""
    disturbance, outcome = tried.proposal.disturbance, tried.outcome
    evicts = outcome is not None and bool(outcome.evicted or outcome.moved or outcome.besides)
    # Work that is deleted counts as no eviction, so of unsafe steps the number of evictions says little.
    evicts = evicts and not (disturbance is Disturbance.WAITING or disturbance.is_unsafe or tried.corrects)
    return disturbance.is_unsafe, outcome is not None and bool(outcome.failed), evicts, disturbance


def _step_candidates(context: QuestionContext, tries: StepTries, agenda: _Agenda) -> Iterator[StepCandidate | None]:
    """Proposals that work: those of the first cause, or, if there are none, those of the other causes. Yields None after a family without a
    working proposal."""
    has_step, budget = False, tries.budget
    for cause in context.causes:
        if has_step:
            return
        found: Counter[int] = Counter()
        for number, family in agenda.begin(context, cause):
            if family.corrects and tries.many_pods:
                # What it corrects needs no try, which takes long in a large lab.
                budget.known -= 1
                yield _untried(family)
                continue
            if (family.last and found[number]) or found[number] >= STEPS_OF_A_FAMILY:
                budget.known -= 1
                continue
            if budget.used_up:
                budget.skip()
                return
            budget.report(family.proposals[0].do)
            candidate = tries.first_that_works(context, family)
            if budget.stopped is None:
                budget.tried += 1
            if candidate is not None:
                candidate = candidate._replace(corrects=bool(family.corrects))
                has_step = True
                found[number] += 1
            elif family.corrects and budget.stopped is None:
                candidate = StepCandidate(
                    family.proposals[0], None, f"{family.corrects}; tried on a copy: it still waits"
                )
            yield candidate


def _families(context: QuestionContext, cause: Cause) -> Iterable[ProposalFamily]:
    return (family for propose in CAUSE_KINDS[cause.code].steps for family in _families_of(context, propose))


def _families_of(context: QuestionContext, propose: StepFunction) -> Iterator[ProposalFamily]:
    """The families of a step function that have proposals, only with safe ones if the budget allows no others."""
    for family in propose(context):
        allowed = family.safe() if context.budget.safe else family
        if allowed.proposals:
            yield allowed


def _pairs(context: QuestionContext, tries: StepTries) -> Iterator[StepCandidate]:
    """Pairs of changes, where the first reveals another cause."""
    first_cause = context.causes[0]
    for family in islice(_families(context, first_cause), MOST_FIRST_HALVES):
        first_half = family.proposals[-1 if family.grows else 0]
        if not tries.budget.spend():
            tries.budget.skip()
            return
        with closing(context.lab.fork()) as copy:
            try:
                with tries.budget.ends_cycles():
                    tries.carry_out(copy, first_half)
                state = context.subject.state(copy)
                causes = causes_now(state)
            except KailabError:
                continue
            if not causes or _is_same_cause(causes[0], first_cause):
                continue
            after = QuestionContext(state, causes, _surely_never(state, causes[0]), context.budget)
            for second in _step_candidates(after, tries, _Agenda()):
                if (
                    second is not None
                    and second.outcome is not None
                    and _names_present(context, first_half, second)
                    and not _overwrites(first_half, second.proposal)
                ):
                    pair = _smallest_pair(context, tries, family, first_half, second)
                    if pair is not None:
                        yield pair


def _surely_never(state: PodsAtMoment, first: Cause) -> bool:
    """Whether the verdict of a fork is ``never`` and nothing that ends by itself, as the work's own pods do, could make it another. So no
    change of other work, and no waiting, need be tried there."""
    own_work_ends = state.subject.kind == "Queue" or bool(state.running)
    passes = CAUSE_KINDS[first.code].ending in (Ending.PASSES, Ending.OWN_PODS)
    return not own_work_ends and not passes and verdict_of(state, first) is Verdict.NEVER


def _names_present(context: QuestionContext, first: Proposal, second: StepCandidate) -> bool:
    """Whether all that the second change patches or deletes exists before the first, or is made by it. Nobody can name pods that
    controllers have yet to create."""
    made = {(obj["kind"], obj["metadata"]["name"]) for change in first.changes for obj in change.get("apply", ())}
    for change in second.proposal.changes:
        named = change.get("patch") or change.get("delete")
        if named is None or (named["kind"], named["name"]) in made:
            continue
        try:
            context.lab.cluster.get(named["kind"], named["name"], named.get("namespace"))
        except NotFound:
            return False
    return True


def _steps_for_parts(context: QuestionContext, tries: StepTries) -> list[StepCandidate]:
    """The steps that serve a part of a queue's work, those that serve most pods first, for work of which a part can't be served by any step."""
    if not tries.parts:
        return []
    with closing(context.lab.fork()) as copy:
        try:
            copy.settle()
            unchanged = len(context.subject.state(copy).running)
        except KailabError:
            return []
    smallest: dict[str, StepCandidate] = {}
    for part, family in tries.parts:
        if _running(part) > unchanged:
            try:
                part = tries.smallest_part(context, part, family)
            except (StepsStopped, KeyboardInterrupt) as error:
                tries.budget.stop(error)
            smallest.setdefault(json.dumps(part.proposal.changes, sort_keys=True), part)
    return sorted(
        smallest.values(), key=lambda part: (part.proposal.disturbance.is_unsafe, -_running(part), _order(part))
    )


def _running(tried: StepCandidate) -> int:
    return tried.outcome.running if tried.outcome is not None else 0


def _overwrites(first: Proposal, second: Proposal) -> bool:
    """Whether the second change sets a field again that the first has set. The first then has no effect of its own, and its words, which read
    amounts after both changes, would name the wrong amount."""
    return first.intent(combined(first, second, first).changes) != first.intent()


def _smallest_pair(
    context: QuestionContext, tries: StepTries, family: ProposalFamily, first_half: Proposal, second: StepCandidate
) -> StepCandidate | None:
    """The pair with the smallest first change that is enough. None if the pair as a whole does not let the subject run: its second change
    worked after the copy had settled with the first, and may not where both come as one. The whole is tried in any case, as the outcome of
    the second change does not tell what the first does to other work."""
    firsts = family.proposals if family.grows else (first_half,)
    pairs = ProposalFamily.of((combined(first, second.proposal, first_half) for first in firsts), grows=True)
    try:
        with tries.budget.one_more():
            return tries.first_that_works(context, pairs)
    except (StepsStopped, KeyboardInterrupt) as error:
        tries.budget.stop(error)
        return None


def _is_same_cause(cause: Cause, other: Cause) -> bool:
    return cause.code == other.code and cause.objects == other.objects and cause.facts == other.facts
