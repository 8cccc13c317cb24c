"""Work that has to be in one domain of a topology: what it wants, and what the domains have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kailab.engine.snapshot.records import Constraint
from kailab.engine.working.domains import Domain
from kailab.engine.working.state import Member, WSubGroup, WTask
from kailab.lab.explain.cause import Cause, Code, Ref
from kailab.lab.explain.causes.node_ground import Ground
from kailab.lab.explain.causes.node_words import amount, figure, row_wanted, rows_of


class _Confined(NamedTuple):
    constraint: Constraint
    tasks: list[WTask]


def domain_cause(ground: Ground, tasks: list[WTask], *, free: bool) -> Cause:
    """Why no domain holds these pods. ``free``: by what is free now, else by all that the nodes have. Pods beyond a minimum have to be
    where the first are: no going of others helps where the whole group is larger than each domain."""
    if free:
        larger = _short(_cause(ground, one, free=False) for one in _confined(ground.to_place([ground.uid])))
        if larger:
            return larger[0]
    told = [_cause(ground, one, free) for one in _confined(tasks)]
    return (_short(told) or told)[0]


def _short(causes: Iterable[Cause]) -> list[Cause]:
    """Those of which the largest domain has less than is wanted."""
    return [cause for cause in causes if cause.facts["wanted"] > cause.facts["most"]]


def _confined(tasks: list[WTask]) -> Iterator[_Confined]:
    """The groups with a required level that pods are in, the widest first."""
    job = tasks[0].job
    assert job is not None

    def visit(member: Member) -> Iterator[_Confined]:
        inside = set(member.podsets)
        own = [task for task in tasks if task.podset in inside]
        if member.constraint is not None and member.constraint.topology and own:
            yield _Confined(member.constraint, own)
        if isinstance(member, WSubGroup):
            for below in member.members:
                yield from visit(below)

    yield from visit(job.root)


def _cause(ground: Ground, confined: _Confined, free: bool) -> Cause:
    constraint, tasks = confined
    working, table = ground.present, ground.table
    topology = working.topologies[constraint.topology]
    label = constraint.required or constraint.preferred
    level = topology.levels.index(label)
    usable = ground.usable(tasks)
    domains = list(working.domain_tree(topology).by_level[level].values())
    device = int(table.min_gpu_memory)
    pool = np.maximum(table.idle, 0) if free else table.allocatable
    best: tuple[float, int, int, int, Domain | None] | None = None
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        room = {domain.id: int(pool[row][domain.mask & usable].sum()) for domain in domains}
        most = max(domains, key=lambda domain: (room[domain.id], [-ord(c) for c in domain.name]), default=None)
        has = room[most.id] if most is not None else 0
        ratio = wanted / has if has else float("inf")
        if best is None or (ratio > 1 and best[0] <= 1):
            best = (ratio, row, wanted, has, most)
    assert best is not None
    ratio, row, wanted, has, most = best
    name = table.layout.names[row]
    where = f"one {label} of topology {constraint.topology}"
    pods = f"Its {len(tasks)} pods have" if len(tasks) > 1 else "It has"
    text = f"{pods} to be in {where} and want{'' if len(tasks) > 1 else 's'} {amount(name, wanted)}"
    head = f"the {label} with the most free" if free else f"the largest {label}"
    if most is None:
        text += f"; there is no {label} with a node that it may use"
    elif ratio > 1:
        text += f"; {head}, {most.id[-1]}, has {figure(name, has)}"
    else:
        text += f"; no {label} has room for all of them: {most.id[-1]} has {figure(name, has)} {'free ' if free else ''}in sum"
    return Cause(
        Code.NO_DOMAIN_FREE if free else Code.LARGER_THAN_ANY_DOMAIN,
        f"{text}.",
        (Ref("Topology", "", constraint.topology),),
        {
            "topology": constraint.topology, "level": label, "domain": most.id[-1] if most is not None else "",
            "resource": name, "wanted": wanted, "most": has,
        },
    )  # fmt: skip
