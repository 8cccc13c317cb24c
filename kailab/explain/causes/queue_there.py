"""Whether work is in a queue in which work can run: there, a leaf, and below a root."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.causes.case import Case
from kailab.grouping.queues import DEFAULT_QUEUE
from kailab.lab.owners import owners_of
from kailab.lab.wording import some
from kailab.model.labels import QUEUE


def queue_there(case: Case) -> Iterable[Cause]:
    """At most one: a queue that is not there has no parent and no children. None of pods that no scheduler takes into a queue: others
    place them, or they can't be grouped."""
    if not case.pods or not case.picture.scheduler.knows_queues or not case.is_ours:
        return
    if case.podgroup is None and case.grouping is None:
        return
    queues = {one["metadata"]["name"]: one["spec"].get("parentQueue") or "" for one in case.lab.cluster.list("Queue")}
    name = case.queue
    leaves = sorted(set(queues) - set(queues.values()))
    if name not in queues:
        yield _missing(name, leaves, named=_names_it(case, name))
        return
    children = sorted(one for one, parent in queues.items() if parent == name)
    if children:
        yield Cause(
            Code.QUEUE_NOT_LEAF,
            f"Its queue {name} has child queues ({some(children, 4)}); only queues without children run work.",
            (Ref("Queue", "", name),),
            {"queue": name, "children": children},
        )
        return
    line = [name]
    while parent := queues.get(line[-1]):
        if parent not in queues or parent in line:
            what = "which there is not" if parent not in queues else "which is below itself"
            yield Cause(
                Code.QUEUE_PARENT_MISSING,
                f"Its queue {name} is there, but the parent of {line[-1]} is {parent}, {what}: nothing runs in a queue that "
                "leads to no root.",
                (Ref("Queue", "", line[-1]), Ref("Queue", "", parent)),
                {"queue": name, "below": line[-1], "parent": parent},
            )
            return
        line.append(parent)


def _names_it(case: Case, name: str) -> bool:
    """Whether the pod or an owner of it says so itself."""
    pod = case.pod(case.pods[0])
    owners = (case.podgroup, pod, *owners_of(case.lab, pod))
    return any(name in ((obj or {}).get("metadata", {}).get("labels") or {}).values() for obj in owners)


def _missing(name: str, leaves: list[str], *, named: bool) -> Cause:
    known = f" Leaf queues there are: {some(leaves, 6)}." if leaves else " There are no queues yet."
    if not name or (name == DEFAULT_QUEUE and not named):
        return Cause(
            Code.QUEUE_LABEL_MISSING,
            f"It has no label {QUEUE}, so it counts for {DEFAULT_QUEUE}, which there is not.{known}",
            (),
            {"label": QUEUE, "leaves": leaves},
        )
    close = get_close_matches(name, leaves, 1)
    meant = f" Did you mean {close[0]}?" if close else known
    return Cause(
        Code.QUEUE_MISSING,
        f"It names the queue {name}, which there is not.{meant}",
        (Ref("Queue", "", name),),
        {"queue": name, "close": close, "leaves": leaves},
    )
