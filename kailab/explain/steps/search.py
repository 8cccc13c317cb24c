"""The steps of an answer: what the catalogue has for its causes, tried; where one change is not enough, two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import structs

from kailab.cluster.embedded.merge import merge_patch
from kailab.cluster.protocol import Object
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Draft, Relaxation
from kailab.errors import KailabError
from kailab.explain.answer import Cause, Code, Outcome, Step
from kailab.explain.grouping import causes_now
from kailab.explain.steps import node_steps, pod_requests, queue_steps, waiting_work
from kailab.explain.steps.proposals import Change, Disturbance, Proposal, Way, together
from kailab.explain.steps.setting import Setting, title
from kailab.explain.subject import Standing
from kailab.explain.verdict import could_run
from kailab.lab.change import carry_out, read_changes
from kailab.lab.fork import fork
from kailab.lab.owners import owners_of
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.queues import queue_record

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


Source: TypeAlias = Callable[[Setting], Iterable[Way]]

_ROOM: tuple[Source, ...] = (waiting_work.wait, node_steps.add_nodes, waiting_work.make_room)
_RIGHTS: tuple[Source, ...] = (queue_steps.raise_claim, queue_steps.raise_weight, queue_steps.raise_priority)
_TOPOLOGY: tuple[Source, ...] = (node_steps.wider_level, node_steps.prefer_level, node_steps.no_topology)

CATALOGUE: Mapping[Code, tuple[Source, ...]] = {
    Code.QUEUE_LABEL_MISSING: (queue_steps.another_queue, queue_steps.make_queue),
    Code.QUEUE_MISSING: (queue_steps.another_queue, queue_steps.make_queue),
    Code.QUEUE_NOT_LEAF: (queue_steps.another_queue,),
    Code.QUEUE_PARENT_MISSING: (queue_steps.mend_parents, queue_steps.another_queue),
    Code.QUEUE_HAS_NO_RESOURCES: (queue_steps.give_resources,),
    Code.OVER_LIMIT: (queue_steps.raise_limits, waiting_work.wait, waiting_work.make_room),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: (
        queue_steps.make_preemptible, queue_steps.raise_quotas, waiting_work.wait, waiting_work.make_room,
    ),
    Code.GANG_INCOMPLETE: (pod_requests.add_missing_pods, pod_requests.grow_to_minimum, pod_requests.lower_minimum),
    Code.SCHEDULING_GATED: (waiting_work.open_gates,),
    Code.SUSPENDED: (waiting_work.resume,),
    Code.PODS_NOT_CREATED: (pod_requests.start_missing, waiting_work.resume, waiting_work.make_priority_class, waiting_work.wait),
    Code.SELECTOR_MATCHES_NO_NODE: (node_steps.another_selector, node_steps.another_affinity, node_steps.label_nodes),
    Code.TAINT_NOT_TOLERATED: (node_steps.tolerate, node_steps.another_selector, node_steps.remove_taints),
    Code.NODES_CORDONED: (
        node_steps.uncordon, node_steps.make_ready, node_steps.another_selector, node_steps.add_nodes,
    ),
    Code.NOT_ENOUGH_GPUS: (node_steps.another_selector, *_RIGHTS, node_steps.uncordon, *_ROOM, pod_requests.fewer_gpus),
    Code.NOT_ENOUGH_RESOURCES: (node_steps.another_selector, *_RIGHTS, node_steps.uncordon, *_ROOM),
    Code.NOT_ENOUGH_CPU: (pod_requests.less_cpu, node_steps.another_selector, *_RIGHTS, *_ROOM),
    Code.NOT_ENOUGH_MEMORY: (pod_requests.less_memory, node_steps.another_selector, *_RIGHTS, *_ROOM),
    Code.NO_POD_SLOTS: (node_steps.another_selector, *_RIGHTS, *_ROOM),
    Code.FRAGMENTED: (node_steps.another_selector, *_TOPOLOGY, *_RIGHTS, node_steps.uncordon, *_ROOM, pod_requests.fewer_gpus),
    Code.LARGER_THAN_ANY_NODE: (
        node_steps.another_selector, pod_requests.fewer_gpus, pod_requests.less_cpu, pod_requests.less_memory,
    ),
    Code.LARGER_THAN_THE_FLEET: (node_steps.another_selector, pod_requests.smaller, node_steps.uncordon, node_steps.add_nodes),
    Code.GPU_SHARE_TOO_LARGE: (node_steps.another_selector, pod_requests.smaller_share),
    Code.GPU_MEMORY_UNKNOWN: (pod_requests.share_by_fraction, node_steps.tell_gpu_memory, node_steps.another_selector),
    Code.MIG_PROFILE_ABSENT: (pod_requests.another_profile,),
    Code.VOLUME_MISSING: (waiting_work.make_references,),
    Code.CLAIM_REFUSED: (waiting_work.label_claims,),
    Code.TOPOLOGY_UNKNOWN: (node_steps.existing_topology, node_steps.no_topology),
    Code.LARGER_THAN_ANY_DOMAIN: (*_TOPOLOGY, pod_requests.smaller),
    Code.NO_DOMAIN_FREE: (*_TOPOLOGY, *_RIGHTS, *_ROOM, pod_requests.smaller),
    Code.FAIR_SHARE_REACHED: (*_RIGHTS, *_ROOM),
    Code.NO_WEIGHT: (queue_steps.raise_weight, queue_steps.raise_claim, *_ROOM),
    Code.VICTIMS_PROTECTED: (waiting_work.wait, queue_steps.end_protection, node_steps.add_nodes, waiting_work.make_room),
    Code.VICTIMS_WITHIN_QUOTA: (*_RIGHTS, queue_steps.lower_others, *_ROOM),
    Code.VICTIMS_NON_PREEMPTIBLE: (*_RIGHTS, *_ROOM),
    Code.PREEMPTION_DELAY: (queue_steps.drop_delay, waiting_work.wait, node_steps.add_nodes, waiting_work.make_room),
    Code.BIND_REFUSED: (),
    Code.FAILED: (),
    Code.NO_CONTROLLER: (),
    Code.BIND_RETRIED: (waiting_work.wait,),
    Code.OTHER_SCHEDULER: (queue_steps.name_scheduler,),
    Code.GROUPING_FAILED: (),
    Code.POD_GROUP_MISSING: (),
    Code.STALE_GANG: (pod_requests.add_missing_pods, pod_requests.grow_to_minimum),
    Code.BEHIND_OTHERS: (
        waiting_work.withdraw_what_stands_in_front, queue_steps.raise_priority, queue_steps.raise_queue_priority, waiting_work.wait, node_steps.add_nodes,
        waiting_work.send_away_who_waits, waiting_work.make_room,
    ),
    Code.NODE_POOL_NOT_SERVED: (waiting_work.leave_node_pool,),
    Code.PRIORITY_CLASS_MISSING: (waiting_work.make_priority_class,),
    Code.KEPT_APART: (node_steps.apart_no_more, node_steps.uncordon, *_ROOM),
    Code.EVICTED: (
        *_RIGHTS, queue_steps.raise_limits, waiting_work.wait, node_steps.uncordon, node_steps.add_nodes, waiting_work.make_room,
        waiting_work.send_away_who_waits,
    ),
    Code.BORROWING: (),
}  # fmt: skip


_OF_OTHERS = (Disturbance.OTHERS, Disturbance.LINE)
MOST_SETS = 20
"""Of victims that are simulated for one job where a proposal is looked at."""


@dataclass(frozen=True)
class Carried(Relaxation):
    """The changes of a proposal, in the records. ``text``: the changes, by which equal ones are known."""

    text: str
    setting: Setting = field(compare=False)

    def change(self, draft: Draft) -> None:
        for one in json.loads(self.text):
            (form, given), *_ = one.items()
            _FORMS[form](self.setting, draft, given)


@dataclass(frozen=True)
class SearchBounded(Relaxation):
    """A search for victims ends after a few sets of them: what needs more would take as long again on the fork."""

    def change(self, draft: Draft) -> None:
        if not draft.config.search_budget.bounded:
            draft.config = structs.replace(draft.config, search_budget=SearchBudget(per_job=MOST_SETS))


def can_ask(way: Way) -> bool:
    """Whether the engine can be asked about all of a way."""
    return all(one.seen or _can_read(one.changes) for one in way.proposals)


def promising(setting: Setting, way: Way) -> Iterator[Proposal]:
    """What of a way may work, by the engine, looked for as it is asked for: of one that grows only the smallest that does."""
    # Where it does not run without others as it is, what becomes of them changes nothing.
    proposals = [one for one in way.proposals if not (setting.never and one.disturbance in _OF_OTHERS)]
    if not way.grows:
        yield from (one for one in proposals if _may_serve(setting, one) and _could_run(setting, one))
    elif proposals and (found := _smallest(setting, proposals)) is not None:
        yield found


def _smallest(setting: Setting, proposals: Sequence[Proposal]) -> Proposal | None:
    """None where not even the largest serves the subject. A cycle with the turns of others takes long, so few are run: what is enough for
    the subject alone mostly is enough, or all that waits before it has to be served as well. What a smaller change does a larger one does
    too, so it is not asked again."""
    last = len(proposals) - 1
    if not _serves(setting, proposals[last], before=False) or not _could_run(setting, proposals[last]):
        return None

    def whole(place: int, before: bool = True) -> bool:
        return _asked(setting, proposals[place], before).whole

    low = last if last and _is_one(setting) else 0
    # Where each of many PodGroups has a turn, they alone take as long as all that come before them.
    if low and whole(last, before=False):
        low = _first(0, last, lambda place: whole(place, before=False))
    # Of surplus pods an evicting action takes one a cycle: where even a large change serves only some of them at once, nothing shows
    # which smaller one is enough.
    before_last = max(low, last - 1)
    if before_last < last and whole(before_last):
        return proposals[low if whole(low) else _first(low + 1, before_last, whole)]
    some = any(_serves(setting, proposals[place], before=True) for place in (before_last, last))
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


def _may_serve(setting: Setting, proposal: Proposal) -> bool:
    """The subject alone is asked first, which costs little: what does not serve it then does not when others come before it."""
    return all(_serves(setting, proposal, before) for before in (False, True))


def _could_run(setting: Setting, proposal: Proposal) -> bool:
    """Whether all of it could run then, if there were nothing else: it may wait for two causes of which the proposal takes away one."""
    return not setting.never or could_run(setting.standing, *_seen(setting, proposal))


def _serves(setting: Setting, proposal: Proposal, before: bool) -> bool:
    """Whether the subject gets something, which takes less than all that it gets."""
    return _trials(setting).further(*_seen(setting, proposal), before=before)


def _asked(setting: Setting, proposal: Proposal, before: bool) -> RelaxedCycleOutcome:
    return _trials(setting)(*_seen(setting, proposal), before=before)


def _seen(setting: Setting, proposal: Proposal) -> tuple[Relaxation, ...]:
    return SearchBounded(), proposal.seen or Carried(json.dumps(proposal.changes), setting)


def _trials(setting: Setting) -> RelaxedCycles:
    uids = sorted(group["metadata"]["uid"] for group in setting.podgroups)
    return setting.standing.trials.about(*(uid for uid in uids if uid in setting.standing.records))


def _is_one(setting: Setting) -> bool:
    """Whether those who wait are of one PodGroup."""
    return len({row.podgroup for row in setting.waiting}) == 1


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


def _apply(setting: Setting, draft: Draft, given: list[dict[str, Any]]) -> None:
    for obj in given:
        if obj["kind"] == "Queue":
            draft.set("queues", queue_record(obj))
        else:
            draft.set("nodes", node_record(obj))


def _patch(setting: Setting, draft: Draft, given: dict[str, Any]) -> None:
    kind, name = given["kind"], given["name"]
    if kind == "Queue":
        draft.set("queues", queue_record(merge_patch(setting.queues[name], given["patch"])))
    elif kind == "Node":
        fresh = node_record(merge_patch(setting.nodes[name], given["patch"]))
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
        pods = list(_pods_of(setting, given))
        left = given["patch"]["spec"]["replicas"]
        for uid in pods[left:]:  # the youngest first, as far as nothing else tells them apart
            draft.remove("tasks", uid)


def _delete(setting: Setting, draft: Draft, given: dict[str, Any]) -> None:
    for uid in _pods_of(setting, given):
        draft.remove("tasks", uid)


def _advance(setting: Setting, draft: Draft, given: float) -> None:
    draft.now += given


def _pods_of(setting: Setting, given: dict[str, Any]) -> Iterator[str]:
    """UIDs of the pods of a workload that hold something, or of those that wait of one that is served before the subject."""
    name = "/".join(filter(None, (given["kind"], given.get("namespace"), given["name"])))
    for row in setting.others.get(name, (None, []))[1]:
        yield setting.pods[row.name]["metadata"]["uid"]
    for obj in setting.ahead if name not in setting.others else ():
        if title(obj) == name:
            yield from (pod["metadata"]["uid"] for pod in setting.picture.pods if title(setting.top(pod)) == name)


_FORMS: dict[str, Callable[[Setting, Draft, Any], None]] = {
    "apply": _apply,
    "patch": _patch,
    "delete": _delete,
    "advance": _advance,
}


MOST = 60
"""Trials for one answer in a small lab."""
LEAST = 2
"""The same in a large one."""
AFFORDABLE = 12_000
"""Pods that all trials of one answer may look at."""
SIFTED_FROM = 500
"""Pods from which on only that is tried of which the engine says that it may work."""


SLOW_FROM = 2_000
"""Pods from which on one trial takes a good part of a second."""


class Tried(NamedTuple):
    """A proposal that lets the subject run, and what was seen then."""

    proposal: Proposal
    outcome: Outcome

    @property
    def step(self) -> Step:
        return Step(self.proposal.said, self.proposal.changes, True, self.outcome)


class Trials:
    """All trials for one answer: a bounded number, fewer in a large lab. ``setting``: before anything is changed."""

    def __init__(self, setting: Setting) -> None:
        pods = max(1, len(setting.picture.pods))
        self.sifted, self.slow = pods >= SIFTED_FROM, pods >= SLOW_FROM
        self.left = max(LEAST, min(MOST, AFFORDABLE // pods))
        self._running = len(setting.standing.running)
        self._evictions = len(setting.picture.log.evictions)

    def spend(self) -> bool:
        """Whether one trial more may be made."""
        self.left -= 1
        return self.left >= 0

    def first(self, setting: Setting, way: Way) -> Tried | None:
        """The smallest change of a way that lets the subject run."""
        sifted = self.sifted and can_ask(way)
        if way.grows and len(way.proposals) > 1 and not sifted:
            return self._by_halving(setting, way.proposals)
        for one in promising(setting, way) if sifted else way.proposals:
            if (tried := self.of(setting, one)) is not None or self.left <= 0:
                return tried
        return None

    def of(self, setting: Setting, proposal: Proposal) -> Tried | None:
        """None where the lab refuses the change, where it does not let the subject run, and where no trial is left."""
        if not self.spend():
            return None
        with closing(fork(setting.lab)) as copy:
            try:
                self.carry_out(copy, proposal)
            except KailabError:
                return None
            outcome = self._outcome(setting, copy)
        return None if outcome is None else Tried(proposal, outcome)

    def carry_out(self, copy: Lab, proposal: Proposal) -> None:
        """Make its changes. Raises KailabError for what the lab refuses."""
        # In a large lab to settle takes its time: what one command changes is changed together.
        carry_out(copy, read_changes([dict(change) for change in proposal.changes]), together=self.sifted)

    def _by_halving(self, setting: Setting, proposals: Sequence[Proposal]) -> Tried | None:
        best = self.of(setting, proposals[-1])
        low, high = 0, len(proposals) - 1
        while best is not None and low < high:
            middle = (low + high) // 2
            if (tried := self.of(setting, proposals[middle])) is not None:
                high, best = middle, tried
            else:
                low = middle + 1
        return best

    def _outcome(self, setting: Setting, copy: Lab) -> Outcome | None:
        picture = copy.picture(setting.picture)
        try:
            after = setting.subject.standing(copy, picture)
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
        return Outcome(len(after.running), gone, moved, tuple(_failed(setting, copy, gone)))


def _failed(setting: Setting, copy: Lab, evicted: Sequence[str]) -> Iterator[str]:
    """Workloads of pods that were evicted which say on the copy that they have failed, and did not before."""
    owners = {uid: obj for pod in evicted if pod in setting.pods for uid, obj in _owners(setting, setting.pods[pod])}
    for obj in owners.values():
        try:
            now = copy.cluster.get(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        except KailabError:
            continue
        reason = _failure(now)
        if reason is not None and _failure(obj) is None:
            yield f"{obj['kind']} {obj['metadata']['name']}{f' ({reason})' if reason else ''}"


def _owners(setting: Setting, pod: Object) -> Iterator[tuple[str, Object]]:
    for owner in owners_of(setting.lab, pod):
        yield owner["metadata"]["uid"], owner


def _failure(obj: Object) -> str | None:
    """The reason that it gives for having failed; None where it has not."""
    states = (obj.get("status") or {}).get("conditions") or ()
    found = [one for one in states if one.get("type") == "Failed" and one.get("status") == "True"]
    return str(found[0].get("reason") or "") if found else None


ENOUGH = 5
"""Steps in an answer."""
OF_A_SORT = 2
"""Steps of one sort among them."""
PAIRED = 4
"""First halves of a pair that are looked at."""


def steps_for(
    standing: Standing, causes: Sequence[Cause], never: bool = False, everything: bool = False
) -> tuple[Step, ...]:
    """Changes that let the subject run, each tried: those that evict nobody first, then by how much they disturb. ``causes``: what
    keeps it from running, the first first. ``never``: it does not run where nothing else is, so that some changes need no trial.
    ``everything``: where trials take their time, too, more than the first change that does, and pairs of changes. Empty where nothing
    is known that would."""
    setting = Setting(standing, causes, never)
    trials = Trials(setting)
    found = list(islice(_working(setting, trials), _enough(trials, everything)))
    if not found and causes and (everything or not trials.slow):
        found = list(islice(_pairs(setting, trials), 1))
    return tuple(one.step for one in sorted(found, key=_order))


def _enough(trials: Trials, everything: bool) -> int:
    if not trials.sifted:
        return ENOUGH
    return 1 if trials.slow and not everything else 2


def _order(tried: Tried) -> tuple[bool, bool, bool, Disturbance]:
    """Who is evicted once time has passed is evicted whatever anybody does."""
    disturbance = tried.proposal.disturbance
    evicts = bool(tried.outcome.evicted or tried.outcome.moved) and disturbance is not Disturbance.WAITING
    return disturbance is Disturbance.OTHERS, bool(tried.outcome.failed), evicts, disturbance


def _working(setting: Setting, trials: Trials) -> Iterator[Tried]:
    """By the first cause; where that gives none, by the others."""
    some = False
    for cause in setting.causes:
        for source in () if some else CATALOGUE[cause.code]:
            number = 0
            for way in source(setting):
                if not way.proposals or (way.last and number) or trials.left <= 0:
                    continue
                if (tried := trials.first(setting, way)) is not None:
                    some, number = True, number + 1
                    yield tried
                    if number >= OF_A_SORT:
                        break


def _ways(setting: Setting, cause: Cause) -> Iterable[Way]:
    return (way for source in CATALOGUE[cause.code] for way in source(setting) if way.proposals)


def _pairs(setting: Setting, trials: Trials) -> Iterator[Tried]:
    """Two changes, where the first brings up another cause."""
    first_cause = setting.causes[0]
    for way in islice(_ways(setting, first_cause), PAIRED):
        one = way.proposals[-1 if way.grows else 0]
        if not trials.spend():
            return
        with closing(fork(setting.lab)) as copy:
            try:
                trials.carry_out(copy, one)
                there = setting.subject.standing(copy)
                causes = causes_now(there)
            except KailabError:
                continue
            if not causes or _alike(causes[0], first_cause):
                continue
            for second in _working(Setting(there, causes), trials):
                yield _smallest_pair(setting, trials, way, one, second)


def _smallest_pair(setting: Setting, trials: Trials, way: Way, one: Proposal, second: Tried) -> Tried:
    """The pair with the smallest first half that is enough."""
    firsts = way.proposals if way.grows else (one,)
    pairs = Way.of((together(first, second.proposal, one) for first in firsts), grows=True)
    return trials.first(setting, pairs) or Tried(together(one, second.proposal, one), second.outcome)


def _alike(one: Cause, other: Cause) -> bool:
    return one.code == other.code and one.objects == other.objects and one.facts == other.facts
