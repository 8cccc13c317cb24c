"""Running work whose queue, PodGroup or owner is gone: it holds GPUs that no quota counts, or that no gang or controller manages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kailab.advice.findings import AuditFinding, FindingCode, Severity
from kailab.cluster.protocol import Object
from kailab.errors import InputError, NotFound
from kailab.evidence.entries import PodRow
from kailab.evidence.wording import count, gpus, some
from kailab.lab.picture import Picture, group_of
from kailab.model.kinds import KINDS, key_of
from kailab.model.objects import name_of, namespace_of, owner_references, uid_of


class _Missing(NamedTuple):
    """An object that does not exist. ``name``: ``namespace/name``, or the bare name of a queue."""

    kind: str
    name: str


_ADVICE = {
    "Queue": "Create the queue again, or move the work to a queue that exists (label kai.scheduler/queue of its owner), or delete it.",
    "PodGroup": "Delete the pods, so that their owner creates new ones that are grouped.",
    "owner": "Delete the pods if nobody needs them: nothing replaces them, and nothing else ends them.",
}
_MANY = 3
"""More missing owners of one kind than this are one finding."""
_EFFECT = {
    "Queue": "no queue counts what it holds, so no quota covers it",
    "PodGroup": "the scheduler does not know that they belong together",
    "owner": "no controller replaces or ends them",
}


def orphans(picture: Picture) -> Iterable[AuditFinding]:
    """One finding for each missing object."""
    if not picture.scheduler.knows_queues:
        return
    rows: dict[_Missing, list[PodRow]] = {}
    look_up = _owner_lookup(picture)
    ours = picture.scheduler.scheduler_names(False)
    for row in picture.rows:
        if not row.holds or not row.node:
            continue
        pod = picture.pods_by_name[row.name]
        for missing in _missing(picture, row, pod, look_up, (pod["spec"].get("schedulerName") or "") in ours):
            rows.setdefault(missing, []).append(row)
    # One finding covers all missing owners of a kind if the cluster has no object of that kind, or if they are many.
    numbers = Counter(missing.kind for missing in rows if missing.kind != "Queue")
    none_there = {kind for kind, number in numbers.items() if number > 1 and not picture.cluster.list(kind)}
    together = none_there | {kind for kind, number in numbers.items() if number > _MANY}
    for missing, pods in sorted(rows.items()):
        if missing.kind not in together:
            yield _finding(missing, pods)
    for kind in sorted(together):
        yield _absent_kind(
            {missing: pods for missing, pods in sorted(rows.items()) if missing.kind == kind}, kind in none_there
        )


def _missing(
    picture: Picture, row: PodRow, pod: Object, look_up: Callable[[str, str, str], str | None], ours: bool
) -> Iterator[_Missing]:
    namespace = row.name.partition("/")[0]
    group = picture.podgroups.get((namespace, row.podgroup))
    if row.podgroup and group is None:
        yield _Missing("PodGroup", group_of(row))
    queue = str((group or {}).get("spec", {}).get("queue") or "") if group is not None else row.queue
    if ours and queue and queue not in picture.shares:
        yield _Missing("Queue", queue)
    for reference in owner_references(pod):
        if not reference.get("controller"):
            continue
        try:
            kind = key_of(str(reference.get("apiVersion") or ""), str(reference.get("kind") or ""))
        except InputError:
            continue
        name = str(reference.get("name") or "")
        # Objects of kinds that kailab does not know may be left out of a snapshot.
        if kind in KINDS and look_up(kind, name, namespace) not in (None, str(reference.get("uid") or "")):
            yield _Missing(kind, f"{namespace}/{name}")


def _owner_lookup(picture: Picture) -> Callable[[str, str, str], str | None]:
    """The UID of an object by kind, name and namespace; "" if it does not exist, None if the cluster does not have the kind."""
    known: dict[str, dict[tuple[str, str], str] | None] = {}

    def uid(kind: str, name: str, namespace: str) -> str | None:
        if kind not in known:
            try:
                known[kind] = {(namespace_of(obj), name_of(obj)): uid_of(obj) for obj in picture.cluster.list(kind)}
            except (InputError, NotFound):
                known[kind] = None
        uids = known[kind]
        return None if uids is None else uids.get((namespace, name), "")

    return uid


def _absent_kind(rows: Mapping[_Missing, list[PodRow]], none: bool) -> AuditFinding:
    """Missing owners of one kind: most likely files that lack the kind, or its objects of a namespace. ``none``: the cluster has no object of the kind."""
    kind = next(iter(rows)).kind
    pods = [row for several in rows.values() for row in several]
    held = sum(row.milli_gpus for row in pods)
    owners = some([missing.name for missing in rows])
    role = kind if kind in _ADVICE else "owner"
    return AuditFinding(
        FindingCode.ORPHANED,
        Severity.WARNING,
        f"{count(len(pods), 'pod')} of {len(rows)} {kind}s ({owners}) hold {gpus(held)}, and "
        f"{f'there is no {kind} at all' if none else f'none of these {kind}s exists'}: {_EFFECT[role]}.",
        tuple(f"{kind.lower()}/{missing.name}" for missing in rows),
        {"pods": len(pods), "gpu": held, "missing": kind, "name": owners},
        _advice(kind, role),
    )


def _advice(kind: str, role: str) -> str:
    """What to do. A lab does not know whether it was opened from files that lack the object, in which case nobody should delete its pods."""
    advice = _ADVICE[role]
    if kind == "Queue":
        return advice
    lacking = f"If the lab was opened from files, add `kubectl get {KINDS[kind].resource} -A -o yaml`"
    return f"{lacking}; otherwise {advice[0].lower()}{advice[1:]}"


def _finding(missing: _Missing, pods: list[PodRow]) -> AuditFinding:
    held = sum(row.milli_gpus for row in pods)
    role = missing.kind if missing.kind in _ADVICE else "owner"
    names = [row.name for row in pods]
    whose = "its" if len(pods) == 1 else "their"
    their = f"{whose} {missing.kind}" if role != "owner" else f"{whose} owner {missing.kind}"
    return AuditFinding(
        FindingCode.ORPHANED,
        Severity.WARNING,
        f"{count(len(pods), 'pod')} ({some(names)}) {'holds' if len(pods) == 1 else 'hold'} {gpus(held)}, and {their} {missing.name} does not "
        f"exist: {_EFFECT[role]}.",
        (*(f"pod/{name}" for name in names), f"{missing.kind.lower()}/{missing.name}"),
        {"pods": len(pods), "gpu": held, "missing": missing.kind, "name": missing.name},
        _advice(missing.kind, role),
    )
