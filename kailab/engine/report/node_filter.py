"""What a node has and what a task wants, beside each other, in words."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.snapshot.amounts import number, resource_text
from kailab.engine.snapshot.records import CORDONED, GPU, NOT_READY, Node, Requirement, Shape, Taint
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo

NAMES = {"cpu": "CPU", "nvidia.com/gpu": "GPUs", "pods": "pod slots"}


def unavailable_text(node: Node) -> str:
    """``cordoned``, ``not ready``."""
    # Of a node that nobody hears of nothing else is known either.
    told = (
        [one for one in node.unavailable.split(", ") if one in (CORDONED, NOT_READY)]
        if NOT_READY in node.unavailable
        else []
    )
    return (", ".join(told) or node.unavailable).replace(CORDONED, "cordoned").replace(NOT_READY, "not ready")


def lack_text(name: str, free: int, capacity: int, wanted: int, leaving: int, *, ever: bool) -> str:
    """``CPU 3 free of 64, wants 8``. ``leaving``: what is free once leaving pods are gone. ``ever``: the node has as much in all."""
    title = NAMES.get(name, name)
    wants = f"wants {resource_text(name, wanted)}"
    if not capacity:
        return f"no {title}, {wants}"
    # What is free there now does not matter, as even the whole node is too small.
    if not ever:
        return f"{title} {resource_text(name, capacity)} in all, {wants}"
    more = f" ({resource_text(name, leaving)} more once pods that leave are gone)" if leaving > 0 else ""
    return f"{title} {resource_text(name, free)} free of {resource_text(name, capacity)}{more}, {wants}"


def affinity_text(node: str, labels: dict[str, str], shape: Shape) -> str:
    """The first requirement that the node does not meet: ``gpu.product=A100, wants H100``."""
    for requirement in shape.selector:
        if not fit.matches(requirement, labels):
            return _unmet(requirement, labels)
    texts = []
    # Terms are alternatives, so each is told with the first thing that it lacks.
    for term in shape.terms:
        fields = {"metadata.name": node}
        unmet = [(one, labels) for one in term.requirements if not fit.matches(one, labels)]
        unmet += [(one, fields) for one in term.fields if not fit.matches(one, fields)]
        texts.append(_unmet(*unmet[0]) if unmet else "an empty affinity term matches no node")
    if len(texts) > 1:
        return f"meets none of its {len(texts)} node affinity terms ({'; '.join(dict.fromkeys(texts))})"
    return texts[0] if texts else ""


def _unmet(requirement: Requirement, labels: dict[str, str]) -> str:
    key, has = requirement.key, labels.get(requirement.key)
    here = f"no label {key}" if has is None else f"{key}={has}"
    values = " or ".join(requirement.values)
    wants = {
        "In": values,
        "NotIn": f"not {values}",
        "Exists": "one",
        "DoesNotExist": "none",
        "Gt": f"more than {values}",
        "Lt": f"less than {values}",
    }
    return f"{here}, wants {wants[requirement.operator]}"


def taint_text(taint: Taint) -> str:
    """As kubectl writes it: ``key=value:effect``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def untolerated_taints(shape: Shape, taints: tuple[Taint, ...]) -> list[Taint]:
    """All taints that keep the shape off."""
    return [taint for taint in taints if fit.untolerated(shape, (taint,)) is not None]


def untolerated_text(shape: Shape, taints: tuple[Taint, ...]) -> str:
    """The first taint that the shape does not tolerate."""
    taint = fit.untolerated(shape, taints)
    return f"taint {taint_text(taint)}, not tolerated" if taint is not None else ""


def wanted_text(info: ShapeInfo) -> str:
    """What of GPUs a shape asks for."""
    gpu = info.shape.gpu
    each = f" on each of {gpu.devices} GPUs" if gpu.devices > 1 else " of a GPU"
    if gpu.mig:
        return " and ".join(f"{count} {name}" for name, count in gpu.mig)
    if gpu.memory_mib:
        return f"{gpu.memory_mib} MiB{each}"
    if gpu.shared:
        return f"{number(gpu.portion / GPU)}{each}"
    return f"{info.request // GPU} whole GPUs"


def kind_text(table: NodeTable, info: ShapeInfo, i: int, mig_fits: bool) -> str:
    """Why the node's kind of GPU is the wrong one. ``mig_fits``: whether that is not for being split, or not being it."""
    gpu, strategy = info.shape.gpu, table.mig[i]
    wants = f"wants {wanted_text(info)}"
    if not strategy and not table.allocatable[GPUS, i]:
        return f"no GPUs, {wants}"
    if not mig_fits:
        kind = f"its GPUs are split (MIG strategy {strategy})" if strategy else "its GPUs are whole (no MIG)"
        return f"{kind}, {wants}"
    if gpu.memory_mib and not table.memory_known[i]:
        return f"does not tell the memory of its GPUs (no label nvidia.com/gpu.memory), {wants}"
    return f"its GPUs are for resource claims, {wants}"


def share_text(table: NodeTable, info: ShapeInfo, i: int) -> str:
    """Why no device, or too few, can take the share."""
    gpu, wants = info.shape.gpu, f"wants {wanted_text(info)}"
    devices = int(table.allocatable[GPUS, i]) // GPU
    if devices < gpu.devices:
        return f"{'no GPUs' if not devices else f'{devices} GPUs in all'}, {wants}"
    if gpu.memory_mib > table.gpu_memory[i]:
        return f"its GPUs have {table.gpu_memory[i]} MiB each, {wants}"
    shared = table.shared.get(i)
    # The most that is free on one device: parts of several can't be put together.
    left = max((shared.left(group) for group in shared.groups.values()), default=0) if shared is not None else 0
    left = max(0, left)
    best = f"{left} MiB" if gpu.memory_mib else number(left / int(table.gpu_memory[i]))
    whole = max(0, int(table.idle[GPUS, i])) // GPU
    return f"{whole} GPUs free of {devices}, and at most {best} of a shared one, {wants}"


# Each node under the first rule that keeps a task off it, by the filters that place tasks.
#
# Two are told from this: how many nodes each reason holds for (``Pending.fits``), and what each node says with its values
# (``node_answers``).


class NodeRule(StrEnum):
    """What keeps a task off a node, in the order in which it is asked."""

    BLOCKED = "blocked"  # something is missing that it needs wherever it goes
    UNAVAILABLE = "unavailable"  # cordoned, not ready
    SELECTOR = "selector"
    TAINT = "taint"
    GPU_KIND = "gpu kind"  # MIG or whole; GPUs that are for claims
    GPU_MEMORY = "gpu memory"  # the node does not tell it
    CAPACITY = "capacity"  # the node never had as much
    CLAIM = "claim"
    FREE = "free"  # others hold it
    SHARE = "share"  # no device has so large a part free
    NUMA = "numa"
    AFFINITY = "pod affinity"  # it wants to be with pods that are not there
    ANTI_AFFINITY = "pod anti-affinity"
    PORT = "host port"
    RESERVATION = "reservation"  # a device to be shared anew needs a pod slot for its reservation
    QUEUE = "queue"  # what the share would count for here is more than its queue may have
    TOPOLOGY = "topology"  # the domain that the node is in has no room for the group


class FilterStage(NamedTuple):
    """``refused``: the nodes of which ``rule`` is the first to keep the task off. ``row``: the resource that it is about."""

    rule: NodeRule
    refused: np.ndarray
    row: int = -1


class NodeFilter:
    """``open``: the nodes that no rule has refused so far."""

    def __init__(self, count: int) -> None:
        self.open = np.ones(count, dtype=bool)
        self.stages: list[FilterStage] = []

    def keep(self, rule: NodeRule, passing: np.ndarray, row: int = -1) -> None:
        """Ask one rule. ``passing``: the nodes that it lets through."""
        refused = self.open & ~passing
        if refused.any():
            self.stages.append(FilterStage(rule, refused, row))
            self.open = self.open & passing


def filter_nodes(table: NodeTable, info: ShapeInfo, predicates: bool = True) -> NodeFilter:
    """Ask all rules that look at the shape alone; those between pods are not among them. ``predicates``: see ``EngineConfig``."""
    sieve = NodeFilter(len(table))
    for rule, passing, row in _rules(table, info, predicates, sieve):
        sieve.keep(rule, passing, row)
    return sieve


def refusals(table: NodeTable, info: ShapeInfo) -> list[FilterStage]:
    """The same rules, each with all nodes that it refuses, whether or not another has refused them."""
    everywhere = NodeFilter(len(table))
    found = [FilterStage(rule, ~passing, row) for rule, passing, row in _rules(table, info, True, everywhere)]
    return [stage for stage in found if stage.refused.any()]


def _rules(
    table: NodeTable, info: ShapeInfo, predicates: bool, sieve: NodeFilter
) -> Iterator[tuple[NodeRule, np.ndarray, int]]:
    """Each rule with the nodes that it lets through. What costs much for each node is asked of those that are open in ``sieve``."""
    shape = info.shape
    if predicates:
        yield NodeRule.UNAVAILABLE, table.available, -1
        yield NodeRule.SELECTOR, fit.affinity_mask(table, shape), -1
        yield NodeRule.TAINT, fit.taint_mask(table, shape), -1
        if shape.gpu.memory_mib:
            yield NodeRule.GPU_MEMORY, table.memory_known, -1
        yield NodeRule.GPU_KIND, fit.gpu_kind_mask(table, info), -1
    for row, amount in info.needs:
        yield NodeRule.CAPACITY, table.allocatable[row] >= amount, row
    if shape.claims:
        serving = table.all.copy()
        # The rules before this one have been kept by now: a generator goes on only when the next is asked for.
        for i in np.flatnonzero(sieve.open):
            serving[i] = table.claims.lacking(shape, int(i)) is None
        yield NodeRule.CLAIM, serving, -1
    idle = table.claims.counted(shape, table.idle) if shape.claims else table.idle
    for row, amount in info.needs:
        yield NodeRule.FREE, idle[row] >= amount, row
    if shape.gpu.shared:
        yield NodeRule.SHARE, fit.shared_fits(table, info, table.idle), -1
    if table.numa:
        aligned = table.all.copy()
        table.numa.narrow(info, aligned)
        yield NodeRule.NUMA, aligned, -1
