"""Queues in which nothing can ever run as they are, and work that names no queue that could run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kailab.advice.audit.finding import Finding, FindingCode, Severity
from kailab.advice.audit.sharing import RESOURCES, standings
from kailab.cluster.protocol import Object
from kailab.evidence.shares import queue_ancestry
from kailab.lab.picture import Picture
from kailab.lab.pools import served_pool
from kailab.lab.ungrouped import ungrouped, unscheduled
from kailab.lab.wording import count, some
from kailab.scheduler.reading.podgroups import node_pool


def unusable(picture: Picture) -> Iterable[Finding]:
    """Where work waits in such a queue, or names it, this is an error, else a warning."""
    if not picture.scheduler.knows_queues:
        return
    objects = {queue["metadata"]["name"]: queue for queue in picture.cluster.list("Queue")}
    waiting = Counter(entry.queue for entry in picture.pending.values())
    parents = {name: (queue.get("spec") or {}).get("parentQueue") or "" for name, queue in objects.items()}
    inner = set(parents.values())
    served = served_pool(picture.scheduler)
    for name in sorted(objects):
        line = queue_ancestry(name, parents)
        # A parent keeps back what waits in any queue below it.
        below = sum(number for queue, number in waiting.items() if name in queue_ancestry(queue, parents))
        if name in inner and waiting[name]:
            yield _finding(FindingCode.QUEUE_NOT_LEAF, name, waiting[name], _not_leaf(name, parents))
        # The end of the line still names a parent: one that is not there, or one that comes round again.
        if (top := parents[line[-1]]) and (len(line) == 1 or name not in inner):
            yield _finding(FindingCode.QUEUE_PARENT_MISSING, name, below, _no_root(line, top, objects))
        elif served is not None and (pool := node_pool(objects[name]["metadata"])) != served:
            told = f"belongs to node pool {pool}, which this scheduler does not serve (it serves {served})"
            yield _finding(FindingCode.NODE_POOL_NOT_SERVED, name, below, told)
        elif not any(((objects[name].get("spec") or {}).get("resources") or {}).values()):
            told = "has no resources block, so its limits are 0 and nothing in it can run"
            yield _finding(FindingCode.QUEUE_HAS_NO_RESOURCES, name, below, told)
        else:
            yield from _limits(picture, name, below)
    for name in sorted(waiting.keys() - objects.keys()):
        which = f"names queue {name}, which is not there" if name else "names no queue"
        yield Finding(
            FindingCode.QUEUE_MISSING,
            Severity.ERROR,
            f"Work of {count(waiting[name], 'pod group')} {which}.",
            (f"queue/{name}",) if name else (),
            {"waiting": waiting[name]},
        )
    # What names other schedulers too, as a lab may be told, is not known of a picture: those that name this one are looked at.
    for why, pods in ungrouped(picture, picture.scheduler.scheduler_names(False)).items():
        yield Finding(
            FindingCode.NOT_GROUPED,
            Severity.ERROR,
            f"{count(len(pods), 'pod')} ({some(pods)}) can't be grouped, so the scheduler never looks at {'it' if len(pods) == 1 else 'them'}: "
            f"{why}.",
            tuple(f"pod/{name}" for name in pods),
            {"pods": len(pods), "reason": why},
        )
    for scheduler, pods in unscheduled(picture).items():
        yield Finding(
            FindingCode.SCHEDULER_MISSING,
            Severity.ERROR,
            f"{count(len(pods), 'pod')} ({some(pods)}) {'waits' if len(pods) == 1 else 'wait'} for the scheduler {scheduler}, which is not "
            f"here: {picture.scheduler.scheduler_name} leaves {'it' if len(pods) == 1 else 'them'} alone.",
            tuple(f"pod/{name}" for name in pods),
            {"pods": len(pods), "scheduler": scheduler},
        )


def _finding(code: FindingCode, name: str, waiting: int, told: str) -> Finding:
    tail = f"; {count(waiting, 'pod group')} of it {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    severity = Severity.ERROR if waiting else Severity.WARNING
    return Finding(code, severity, f"{name} {told}{tail}.", (f"queue/{name}",), {"waiting": waiting})


def _not_leaf(name: str, parents: dict[str, str]) -> str:
    children = sorted(child for child, parent in parents.items() if parent == name)
    return f"has child queues ({some(children)}), so it runs no work itself"


def _no_root(line: list[str], top: str, objects: dict[str, Object]) -> str:
    if top in objects:
        return f"leads to no root: its parents are a ring ({' < '.join([*line, top])})"
    via = f" of {line[-1]}" if len(line) > 1 else ""
    return f"leads to no root: the parent{via}, {top}, is not there"


def _limits(picture: Picture, name: str, below: int) -> Iterable[Finding]:
    """A limit of 0 here; that of a parent is told of the parent."""
    none = [
        RESOURCES[one] for one in RESOURCES if name in (shares := standings(picture, one)) and shares[name].limit == 0
    ]
    if none:
        told = f"has a limit of 0 for {', '.join(none)}: nothing that asks for {'it' if len(none) == 1 else 'one of them'} can run"
        yield _finding(FindingCode.LIMIT_ZERO, name, below, told)
