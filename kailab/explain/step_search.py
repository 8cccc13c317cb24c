"""The steps of an answer: what the catalogue has for its causes, tried; where one change is not enough, two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from kailab.cluster.embedded.merge import merge_patch
from kailab.cluster.protocol import Object
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Draft, Relaxation
from kailab.errors import KailabError
from kailab.explain.answer import Cause, Step, TrialOutcome
from kailab.explain.cause_groups import causes_now
from kailab.explain.cause_kinds import CAUSE_KINDS
from kailab.explain.steps.proposals import Change, Disturbance, Proposal, ProposalFamily, combined
from kailab.explain.steps.question_context import QuestionContext, object_key
from kailab.explain.subject import PodsAtMoment
from kailab.explain.verdict import could_run
from kailab.lab.change import carry_out, read_changes
from kailab.lab.fork import fork
from kailab.lab.owners import owners_of
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.queues import queue_record

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


_OF_OTHERS = (Disturbance.OTHERS, Disturbance.LINE)
MOST_VICTIM_SETS = 20
"""Of victims that are simulated for one job where a proposal is looked at."""


@dataclass(frozen=True)
class ChangesMade(Relaxation):
    """The changes of a proposal, in the records. ``text``: the changes, by which equal ones are known."""

    text: str
    context: QuestionContext = field(compare=False)

    def change(self, draft: Draft) -> None:
        for one in json.loads(self.text):
            (form, given), *_ = one.items()
            _FORMS[form](self.context, draft, given)


@dataclass(frozen=True)
class BoundedVictimSearch(Relaxation):
    """A search for victims ends after a few sets of them: what needs more would take as long again on the fork."""

    def change(self, draft: Draft) -> None:
        if not draft.config.search_budget.bounded:
            draft.config = structs.replace(draft.config, search_budget=SearchBudget(per_job=MOST_VICTIM_SETS))


def engine_can_judge(family: ProposalFamily) -> bool:
    """Whether the engine can be asked about all of a family."""
    return all(one.seen or _can_read(one.changes) for one in family.proposals)


def promising_proposals(context: QuestionContext, family: ProposalFamily) -> Iterator[Proposal]:
    """What of a way may work, by the engine, looked for as it is asked for: of one that grows only the smallest that does."""
    # Where it does not run without others as it is, what becomes of them changes nothing.
    proposals = [one for one in family.proposals if not (context.never and one.disturbance in _OF_OTHERS)]
    if not family.grows:
        yield from (one for one in proposals if _may_serve(context, one) and _could_run(context, one))
    elif proposals and (found := _smallest(context, proposals)) is not None:
        yield found


def _smallest(context: QuestionContext, proposals: Sequence[Proposal]) -> Proposal | None:
    """None where not even the largest serves the subject. A cycle with the turns of others takes long, so few are run: what is enough for
    the subject alone mostly is enough, or all that waits before it has to be served as well. What a smaller change does a larger one does
    too, so it is not asked again."""
    last = len(proposals) - 1
    if not _serves(context, proposals[last], before=False) or not _could_run(context, proposals[last]):
        return None

    def whole(place: int, before: bool = True) -> bool:
        return _asked(context, proposals[place], before).whole

    low = last if last and _is_one(context) else 0
    # Where each of many PodGroups has a turn, they alone take as long as all that come before them.
    if low and whole(last, before=False):
        low = _first(0, last, lambda place: whole(place, before=False))
    # Of surplus pods an evicting action takes one a cycle: where even a large change serves only some of them at once, nothing shows
    # which smaller one is enough.
    before_last = max(low, last - 1)
    if before_last < last and whole(before_last):
        return proposals[low if whole(low) else _first(low + 1, before_last, whole)]
    some = any(_serves(context, proposals[place], before=True) for place in (before_last, last))
    return proposals[last] if some else None


def _first(low: int, high: int, works: Callable[[int], bool]) -> int:
    """The first place that works, of those up to ``high``, which does, by halving."""
    while low < high:
        middle = (low + high) // 2
        if works(middle):
            high = middle
        else:
            low = middle + 1
    return high


def _may_serve(context: QuestionContext, proposal: Proposal) -> bool:
    """The subject alone is asked first, which costs little: what does not serve it then does not when others come before it."""
    return all(_serves(context, proposal, before) for before in (False, True))


def _could_run(context: QuestionContext, proposal: Proposal) -> bool:
    """Whether all of it could run then, if there were nothing else: it may wait for two causes of which the proposal takes away one."""
    return not context.never or could_run(context.state, *_seen(context, proposal))


def _serves(context: QuestionContext, proposal: Proposal, before: bool) -> bool:
    """Whether the subject gets something, which takes less than all that it gets."""
    return _trials(context).further(*_seen(context, proposal), before=before)


def _asked(context: QuestionContext, proposal: Proposal, before: bool) -> RelaxedCycleOutcome:
    return _trials(context)(*_seen(context, proposal), before=before)


def _seen(context: QuestionContext, proposal: Proposal) -> tuple[Relaxation, ...]:
    return BoundedVictimSearch(), proposal.seen or ChangesMade(json.dumps(proposal.changes), context)


def _trials(context: QuestionContext) -> RelaxedCycles:
    uids = sorted(group["metadata"]["uid"] for group in context.podgroups)
    return context.state.trials.about(*(uid for uid in uids if uid in context.state.records))


def _is_one(context: QuestionContext) -> bool:
    """Whether those who wait are of one PodGroup."""
    return len({row.podgroup for row in context.waiting}) == 1


def _can_read(changes: Sequence[Change]) -> bool:
    # What is made by one of the changes is no object yet that another could be read over.
    made = {(obj["kind"], obj["metadata"].get("name")) for change in changes for obj in change.get("apply", ())}
    patched = {(one["kind"], one["name"]) for change in changes if (one := change.get("patch")) is not None}
    return made.isdisjoint(patched) and all(_readable(*next(iter(change.items()))) for change in changes)


def _readable(form: str, given: Any) -> bool:
    if form == "apply":
        return all(obj["kind"] in ("Queue", "Node") for obj in given)
    if form == "patch":
        return given["kind"] in ("Queue", "Node") or set(given["patch"].get("spec", {})) == {"replicas"}
    return form in ("delete", "advance")


def _apply(context: QuestionContext, draft: Draft, given: list[dict[str, Any]]) -> None:
    for obj in given:
        if obj["kind"] == "Queue":
            draft.set("queues", queue_record(obj))
        else:
            draft.set("nodes", node_record(obj))


def _patch(context: QuestionContext, draft: Draft, given: dict[str, Any]) -> None:
    kind, name = given["kind"], given["name"]
    if kind == "Queue":
        draft.set("queues", queue_record(merge_patch(context.queues[name], given["patch"])))
    elif kind == "Node":
        fresh = node_record(merge_patch(context.nodes[name], given["patch"]))
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
        pods = list(_pods_of(context, given))
        left = given["patch"]["spec"]["replicas"]
        for uid in pods[left:]:  # the youngest first, as far as nothing else tells them apart
            draft.remove("tasks", uid)


def _delete(context: QuestionContext, draft: Draft, given: dict[str, Any]) -> None:
    for uid in _pods_of(context, given):
        draft.remove("tasks", uid)


def _advance(context: QuestionContext, draft: Draft, given: float) -> None:
    draft.now += given


def _pods_of(context: QuestionContext, given: dict[str, Any]) -> Iterator[str]:
    """UIDs of the pods of a workload that hold something, or of those that wait of one that is served before the subject."""
    name = "/".join(filter(None, (given["kind"], given.get("namespace"), given["name"])))
    for row in context.others.get(name, (None, []))[1]:
        yield context.pods[row.name]["metadata"]["uid"]
    for obj in context.ahead if name not in context.others else ():
        if object_key(obj) == name:
            yield from (pod["metadata"]["uid"] for pod in context.picture.pods if object_key(context.top(pod)) == name)


_FORMS: dict[str, Callable[[QuestionContext, Draft, Any], None]] = {
    "apply": _apply,
    "patch": _patch,
    "delete": _delete,
    "advance": _advance,
}


MOST_TRIALS = 60
"""Trials for one answer in a small lab."""
LEAST_TRIALS = 2
"""The same in a large one."""
AFFORDABLE_PODS = 12_000
"""Pods that all trials of one answer may look at."""
FILTERED_FROM = 500
"""Pods from which on only that is tried of which the engine says that it may work."""


SLOW_FROM = 2_000
"""Pods from which on one trial takes a good part of a second."""


class WorkingProposal(NamedTuple):
    """A proposal that lets the subject run, and what was seen then."""

    proposal: Proposal
    outcome: TrialOutcome

    @property
    def step(self) -> Step:
        return Step(self.proposal.said, self.proposal.changes, True, self.outcome)


class StepTrials:
    """All trials for one answer: a bounded number, fewer in a large lab. ``context``: before anything is changed."""

    def __init__(self, context: QuestionContext) -> None:
        pods = max(1, len(context.picture.pods))
        self.sifted, self.slow = pods >= FILTERED_FROM, pods >= SLOW_FROM
        self.left = max(LEAST_TRIALS, min(MOST_TRIALS, AFFORDABLE_PODS // pods))
        self._running = len(context.state.running)
        self._evictions = len(context.picture.log.evictions)

    def spend(self) -> bool:
        """Whether one trial more may be made."""
        self.left -= 1
        return self.left >= 0

    def first(self, context: QuestionContext, family: ProposalFamily) -> WorkingProposal | None:
        """The smallest change of a way that lets the subject run."""
        sifted = self.sifted and engine_can_judge(family)
        if family.grows and len(family.proposals) > 1 and not sifted:
            return self._by_halving(context, family.proposals)
        for one in promising_proposals(context, family) if sifted else family.proposals:
            if (tried := self.of(context, one)) is not None or self.left <= 0:
                return tried
        return None

    def of(self, context: QuestionContext, proposal: Proposal) -> WorkingProposal | None:
        """None where the lab refuses the change, where it does not let the subject run, and where no trial is left."""
        if not self.spend():
            return None
        with closing(fork(context.lab)) as copy:
            try:
                self.carry_out(copy, proposal)
            except KailabError:
                return None
            outcome = self._outcome(context, copy)
        return None if outcome is None else WorkingProposal(proposal, outcome)

    def carry_out(self, copy: Lab, proposal: Proposal) -> None:
        """Make its changes. Raises KailabError for what the lab refuses."""
        # In a large lab to settle takes its time: what one command changes is changed together.
        carry_out(copy, read_changes([dict(change) for change in proposal.changes]), together=self.sifted)

    def _by_halving(self, context: QuestionContext, proposals: Sequence[Proposal]) -> WorkingProposal | None:
        best = self.of(context, proposals[-1])
        low, high = 0, len(proposals) - 1
        while best is not None and low < high:
            middle = (low + high) // 2
            if (tried := self.of(context, proposals[middle])) is not None:
                high, best = middle, tried
            else:
                low = middle + 1
        return best

    def _outcome(self, context: QuestionContext, copy: Lab) -> TrialOutcome | None:
        picture = copy.picture(context.picture)
        try:
            after = context.subject.state(copy, picture)
        except KailabError:  # it is gone
            return None
        if not after.runs or len(after.running) <= self._running:
            return None
        own = {id(entry) for entry in after.evictions}
        evicted = [entry for entry in picture.log.evictions[self._evictions :] if id(entry) not in own]
        gone, moved = (
            tuple(dict.fromkeys(entry.pod for entry in evicted if entry.is_move is moves)) for moves in (False, True)
        )
        moved = tuple(name for name in moved if name not in gone)
        return TrialOutcome(len(after.running), gone, moved, tuple(_failed(context, copy, gone)))


def _failed(context: QuestionContext, copy: Lab, evicted: Sequence[str]) -> Iterator[str]:
    """Workloads of pods that were evicted which say on the copy that they have failed, and did not before."""
    owners = {uid: obj for pod in evicted if pod in context.pods for uid, obj in _owners(context, context.pods[pod])}
    for obj in owners.values():
        try:
            now = copy.cluster.get(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        except KailabError:
            continue
        reason = _failure(now)
        if reason is not None and _failure(obj) is None:
            yield f"{obj['kind']} {obj['metadata']['name']}{f' ({reason})' if reason else ''}"


def _owners(context: QuestionContext, pod: Object) -> Iterator[tuple[str, Object]]:
    for owner in owners_of(context.lab, pod):
        yield owner["metadata"]["uid"], owner


def _failure(obj: Object) -> str | None:
    """The reason that it gives for having failed; None where it has not."""
    states = (obj.get("status") or {}).get("conditions") or ()
    found = [one for one in states if one.get("type") == "Failed" and one.get("status") == "True"]
    return str(found[0].get("reason") or "") if found else None


MOST_STEPS = 5
"""Steps in an answer."""
STEPS_OF_A_FAMILY = 2
"""Steps of one sort among them."""
MOST_FIRST_HALVES = 4
"""First halves of a pair that are looked at."""


def find_steps(
    state: PodsAtMoment, causes: Sequence[Cause], never: bool = False, everything: bool = False
) -> tuple[Step, ...]:
    """Changes that let the subject run, each tried: those that evict nobody first, then by how much they disturb. ``causes``: what
    keeps it from running, the first first. ``never``: it does not run where nothing else is, so that some changes need no trial.
    ``everything``: where trials take their time, too, more than the first change that does, and pairs of changes. Empty where nothing
    is known that would."""
    context = QuestionContext(state, causes, never)
    trials = StepTrials(context)
    found = list(islice(_working(context, trials), _enough(trials, everything)))
    if not found and causes and (everything or not trials.slow):
        found = list(islice(_pairs(context, trials), 1))
    return tuple(one.step for one in sorted(found, key=_order))


def _enough(trials: StepTrials, everything: bool) -> int:
    if not trials.sifted:
        return MOST_STEPS
    return 1 if trials.slow and not everything else 2


def _order(tried: WorkingProposal) -> tuple[bool, bool, bool, Disturbance]:
    """Who is evicted once time has passed is evicted whatever anybody does."""
    disturbance = tried.proposal.disturbance
    evicts = bool(tried.outcome.evicted or tried.outcome.moved) and disturbance is not Disturbance.WAITING
    return disturbance is Disturbance.OTHERS, bool(tried.outcome.failed), evicts, disturbance


def _working(context: QuestionContext, trials: StepTrials) -> Iterator[WorkingProposal]:
    """By the first cause; where that gives none, by the others."""
    some = False
    for cause in context.causes:
        for propose in () if some else CAUSE_KINDS[cause.code].steps:
            number = 0
            for family in propose(context):
                if not family.proposals or (family.last and number) or trials.left <= 0:
                    continue
                if (tried := trials.first(context, family)) is not None:
                    some, number = True, number + 1
                    yield tried
                    if number >= STEPS_OF_A_FAMILY:
                        break


def _families(context: QuestionContext, cause: Cause) -> Iterable[ProposalFamily]:
    return (family for propose in CAUSE_KINDS[cause.code].steps for family in propose(context) if family.proposals)


def _pairs(context: QuestionContext, trials: StepTrials) -> Iterator[WorkingProposal]:
    """Two changes, where the first brings up another cause."""
    first_cause = context.causes[0]
    for family in islice(_families(context, first_cause), MOST_FIRST_HALVES):
        one = family.proposals[-1 if family.grows else 0]
        if not trials.spend():
            return
        with closing(fork(context.lab)) as copy:
            try:
                trials.carry_out(copy, one)
                there = context.subject.state(copy)
                causes = causes_now(there)
            except KailabError:
                continue
            if not causes or _alike(causes[0], first_cause):
                continue
            for second in _working(QuestionContext(there, causes), trials):
                yield _smallest_pair(context, trials, family, one, second)


def _smallest_pair(
    context: QuestionContext, trials: StepTrials, family: ProposalFamily, one: Proposal, second: WorkingProposal
) -> WorkingProposal:
    """The pair with the smallest first half that is enough."""
    firsts = family.proposals if family.grows else (one,)
    pairs = ProposalFamily.of((combined(first, second.proposal, one) for first in firsts), grows=True)
    return trials.first(context, pairs) or WorkingProposal(combined(one, second.proposal, one), second.outcome)


def _alike(one: Cause, other: Cause) -> bool:
    return one.code == other.code and one.objects == other.objects and one.facts == other.facts
