"""Room made by others: workloads that are scaled down or go. Named, and the last thing to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import Relaxation, WaitingWithdrawn
from kailab.evidence.entries import PodRow
from kailab.explain.causes.queue_line import IN_FRONT
from kailab.explain.steps.proposal import After, Change, Disturbance, Proposal, Way, delete, patch
from kailab.explain.steps.setting import Setting, named, title
from kailab.lab.wording import count, gpus, some
from kailab.model.kind import field_of
from kailab.model.kinds import KINDS, kind_key

SUSPENDED_BY: Mapping[str, str] = {
    **dict.fromkeys(("Job", "JobSet", "TrainJob", "RayJob"), "suspend"),
    **dict.fromkeys(("PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob", "MPIJob"), "runPolicy.suspend"),
}
"""Kind key -> the field below ``spec`` that holds a workload of it back."""

SINGLE = 6
"""Workloads that are tried each by itself."""
LEVELS = 64
"""Numbers of pods by which a workload is scaled down that are tried."""
_PLURAL = {"waits": "wait", "is served": "are served"}


def make_room(setting: Setting) -> Iterator[Way]:
    """One workload scaled down or deleted, the least that is enough; else several."""
    workloads = sorted(setting.others.values(), key=lambda one: _order(setting, one))
    for obj, rows in workloads[:SINGLE]:
        yield Way(tuple(_less_of(obj, rows)), grows=True)
    if len(workloads) > 1:
        several = [_gone(workloads[:number]) for number in range(2, min(len(workloads), 64) + 1)]
        yield Way(tuple(several), grows=True, last=True)


def withdraw_what_stands_in_front(setting: Setting) -> Iterator[Way]:
    """Suspend, or else delete, what waits and by which its queue is ranked (see ``causes.queue_line``)."""
    works = _in_front(setting)
    if 0 < len(works) <= SINGLE:
        yield Way.of(_withdrawals(setting, works, "waits"))


def send_away_who_waits(setting: Setting) -> Iterator[Way]:
    """Suspend or delete what is served before it and waits, and what was evicted for."""
    for obj in setting.ahead[:SINGLE]:
        if [obj] != _in_front(setting):
            yield Way.of(_withdrawals(setting, [obj], "is served"))


def _in_front(setting: Setting) -> list[Object]:
    groups = {
        (one.namespace, one.name)
        for cause in setting.causes
        if IN_FRONT in cause.facts
        for one in cause.objects
        if one.kind == "PodGroup"
    }
    return [obj for obj in setting.ahead if groups & setting.groups_of(obj)]


def _withdrawals(setting: Setting, works: Sequence[Object], stands: str) -> Iterator[Proposal]:
    names = some([named(obj) for obj in works])
    which = f"which {stands if len(works) == 1 else _PLURAL[stands]} before it"
    runs = sum(len(setting.others[title(obj)][1]) for obj in works if title(obj) in setting.others)
    if runs:
        which += f", and end {count(runs, 'pod')} that {'runs' if runs == 1 else 'run'}"
    # Who has pods that run loses these too, so that the engine is not asked about those that wait alone.
    disturbance, seen = (Disturbance.OTHERS, None) if runs else (Disturbance.LINE, _withdrawn(setting, works))
    if runs and len(works) == 1 and (scaled := _scaled_to_what_runs(setting, works[0])) is not None:
        yield scaled
    suspended = [suspension(obj) for obj in works]
    if all(change is not None for change in suspended):
        changes = tuple(change for change in suspended if change is not None)
        yield Proposal(f"Suspend {names}, {which}", changes, disturbance, seen)
    yield Proposal(f"Delete {names}, {which}", tuple(map(delete, works)), disturbance, seen)


def _scaled_to_what_runs(setting: Setting, obj: Object) -> Proposal | None:
    known, replicas = KINDS.get(kind_key(obj)), obj.get("spec", {}).get("replicas")
    running = len(setting.others[title(obj)][1])
    if known is None or not known.scalable or not isinstance(replicas, int) or not 0 < running < replicas:
        return None

    def words(after: After) -> str:
        return (
            f"Scale {named(obj)} down from {replicas} to {after.of(obj)['spec']['replicas']}, so that none of it waits"
        )

    return Proposal(words, (patch(obj, {"spec": {"replicas": running}}),), Disturbance.LINE)


def _withdrawn(setting: Setting, works: Sequence[Object]) -> Relaxation:
    groups = {name for obj in works for name in setting.groups_of(obj)}
    uids = [setting.picture.podgroups[name]["metadata"]["uid"] for name in groups if name in setting.picture.podgroups]
    return WaitingWithdrawn(tuple(sorted(uids)))


def suspension(obj: Object) -> Change | None:
    """None for a kind that can't be suspended, and for what is suspended already."""
    path = SUSPENDED_BY.get(kind_key(obj))
    if path is None or field_of(obj, f"spec.{path}"):
        return None
    change: object = True
    for name in reversed(path.split(".")):
        change = {name: change}
    return patch(obj, {"spec": change})


def _order(setting: Setting, one: tuple[Object, list[PodRow]]) -> tuple[bool, bool, int, str]:
    """Whatever it was evicted for first, then who holds something where it may run, or in its queue; of those who holds least, but
    enough."""
    obj, rows = one
    held = sum(row.milli_gpus for row in rows)
    enough = held >= setting.asked.gpu
    groups = {row.podgroup for row in rows}
    near = bool(groups & setting.holders) or any(row.queue in setting.line for row in rows)
    beneficiary = obj["metadata"]["name"] in setting.beneficiaries
    return not beneficiary, not near, held if enough else 10**12 - held, named(obj)


def _less_of(obj: Object, rows: Sequence[PodRow]) -> Iterator[Proposal]:
    known = KINDS.get(kind_key(obj))
    replicas = obj.get("spec", {}).get("replicas")
    if known is not None and known.scalable and isinstance(replicas, int) and replicas > 1:
        apart = -(-replicas // LEVELS)
        for fewer in range(1, replicas, apart):
            change = patch(obj, {"spec": {"replicas": replicas - fewer}})
            yield Proposal(lambda after: _scaled(obj, after.of(obj)), (change,), Disturbance.OTHERS)
    held = gpus(sum(row.milli_gpus for row in rows))
    yield Proposal(f"Delete {named(obj)}, which holds {held}", (delete(obj),), Disturbance.OTHERS)


def _scaled(before: Object, after: Object) -> str:
    was, left = before["spec"]["replicas"], after["spec"]["replicas"]
    return f"Scale {named(before)} down from {was} to {left}, which ends {count(was - left, 'pod')} of it"


def _gone(workloads: Sequence[tuple[Object, list[PodRow]]]) -> Proposal:
    changes: list[Change] = [delete(obj) for obj, _ in workloads]
    names = some([named(obj) for obj, _ in workloads])
    return Proposal(f"Delete {names}", tuple(changes), Disturbance.OTHERS)
