"""Changes as the engine sees them, so that a proposal can be looked at without a copy of the lab: one cycle instead of many.

Only what is read straight off objects is looked at: queues, nodes, time, pods that go. That one cycle serves the subject is less
than that it runs once the lab has settled. So it only chooses what is tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from kailab.cluster.embedded.merge import merge_patch
from kailab.engine.policies.settings import SearchBudget
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Draft, Relaxation
from kailab.explain.steps.proposal import Change, Disturbance, Proposal, Way
from kailab.explain.steps.setting import Setting, title
from kailab.explain.verdict import could_run
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.queues import queue_record

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
