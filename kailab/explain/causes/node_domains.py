"""Work that has to be in one domain of a topology: what it wants, and what the domains have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kailab.engine.placing.topology import joined
from kailab.engine.snapshot.records import Constraint
from kailab.engine.working.domains import Domain, DomainTree
from kailab.engine.working.state import Member, WSubGroup, WTask
from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.causes.node_ground import Ground
from kailab.explain.causes.node_words import amount, figure, row_wanted, rows_of, wants
from kailab.lab.wording import some


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
    label = constraint.required or constraint.preferred
    tree = ground.present.domain_tree(ground.present.topologies[constraint.topology])
    level = tree.levels.index(label)
    homes = _homes(ground, confined, tree) if free else []
    domains = homes or list(tree.by_level[level].values())
    found = _tightest(ground, tasks, domains, free)
    where = f"one {label} of topology {constraint.topology}"
    if homes:
        where += f", {some([one.id[-1] for one in homes])}, where pods of it run,"
    text = f"{_want(ground, tasks, found, where)}; "
    most, name = found.domain, ground.table.layout.names[found.row]
    deepest = tree.common(tree.member, constraint.preferred)
    if most is None:
        text += f"there is no {label} with a node that it may use"
    elif found.ratio > 1:
        head = f"the {label} with the most free" if free else f"the largest {label}"
        text += f"{most.id[-1] if homes else f'{head}, {most.id[-1]},'} has {figure(name, found.has)}{' free' if homes else ''}"
    elif deepest.level > level:
        text += (
            f"all nodes of the topology are in one {tree.levels[deepest.level]}, {deepest.id[-1]}, and KAI's scheduler looks for a "
            f"{label} only below it: it finds none. A node outside of it, or a preferred level, would let it look"
        )
    else:
        no = "it has no room" if homes else f"no {label} has room"
        text += f"{no} for all of them: {most.id[-1]} has {figure(name, found.has)} {'free ' if free else ''}in sum"
    return Cause(
        Code.NO_DOMAIN_FREE if free else Code.LARGER_THAN_ANY_DOMAIN,
        f"{text}.",
        (Ref("Topology", "", constraint.topology),),
        {
            "topology": constraint.topology, "level": label, "domain": most.id[-1] if most is not None else "",
            "resource": name, "wanted": found.wanted, "most": found.has,
        },
    )  # fmt: skip


def _homes(ground: Ground, confined: _Confined, tree: DomainTree) -> list[Domain]:
    """Where pods of the group run already that these have to join; none where none runs."""
    constraint, tasks = confined
    podsets = list(dict.fromkeys(task.podset for task in tasks if task.podset is not None))
    return joined(tree, constraint.required, podsets, ground.table.index) or [] if constraint.required else []


class _Tightest(NamedTuple):
    """The resource (a row of nodes) of which pods want the largest part of what a domain has. ``ratio``: that part, ``wanted`` of
    what ``domain`` has; above 1 of the first that is too little."""

    ratio: float
    row: int
    wanted: int
    has: int
    domain: Domain | None


def _tightest(ground: Ground, tasks: list[WTask], domains: list[Domain], free: bool) -> _Tightest:
    table, usable = ground.table, ground.usable(tasks)
    device = int(table.min_gpu_memory)
    pool = np.maximum(table.idle, 0) if free else table.allocatable
    best: _Tightest | None = None
    for row in rows_of(tasks):
        wanted = sum(row_wanted(task, row, device) for task in tasks)
        room = {domain.id: int(pool[row][domain.mask & usable].sum()) for domain in domains}
        most = max(domains, key=lambda domain: (room[domain.id], [-ord(c) for c in domain.name]), default=None)
        has = room[most.id] if most is not None else 0
        ratio = wanted / has if has else float("inf")
        if best is None or (ratio > 1 and best.ratio <= 1):
            best = _Tightest(ratio, row, wanted, has, most)
    assert best is not None
    return best


def _want(ground: Ground, tasks: list[WTask], found: _Tightest, where: str) -> str:
    """What the pods want together; of shares of GPUs, which count for less than they are called, what each is called as well."""
    table = ground.table
    each = wants(tasks[0].info, found.row, table)
    if len(tasks) == 1:
        return f"It has to be in {where} and wants {each}"
    text = f"Its {len(tasks)} pods have to be in {where} and want {amount(table.layout.names[found.row], found.wanted)}"
    return f"{text} ({each} each)" if tasks[0].info.shape.gpu.shared else text
