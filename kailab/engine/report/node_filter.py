"""The node rules that place tasks, applied one after the other, and texts with a node's and a task's values.

``Pending.fits`` counts the nodes per rule; ``node_answers`` words the answer of each node.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.snapshot.amounts import format_thousandths, resource_text
from kailab.engine.snapshot.records import CORDONED, GPU, NOT_READY, Node, Requirement, Shape, Taint
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo

NAMES = {"cpu": "CPU", "nvidia.com/gpu": "GPUs", "pods": "pod slots"}


def unavailable_text(node: Node) -> str:
    """``cordoned``, ``not ready``."""
    # A node that does not report its state has no other reason that is up to date.
    reasons = (
        [reason for reason in node.unavailable.split(", ") if reason in (CORDONED, NOT_READY)]
        if NOT_READY in node.unavailable
        else []
    )
    return (", ".join(reasons) or node.unavailable).replace(CORDONED, "cordoned").replace(NOT_READY, "not ready")


def lack_text(name: str, free: int, capacity: int, wanted: int, leaving: int, *, ever: bool) -> str:
    """A text such as ``CPU 3 free of 64, wants 8``. ``leaving``: what leaving pods will free. ``ever``: the whole node
    would suffice.
    """
    title = NAMES.get(name, name)
    wants = f"wants {resource_text(name, wanted)}"
    if not capacity:
        return f"no {title}, {wants}"
    # Even the whole node is too small, so what is free does not matter.
    if not ever:
        return f"{title} {resource_text(name, capacity)} in all, {wants}"
    more = f" ({resource_text(name, leaving)} more once pods that leave are gone)" if leaving > 0 else ""
    return f"{title} {resource_text(name, free)} free of {resource_text(name, capacity)}{more}, {wants}"


def affinity_text(node: str, labels: dict[str, str], shape: Shape) -> str:
    """The first requirement that the node does not meet: ``gpu.product=A100, wants H100``."""
    for requirement in shape.selector:
        if not fit.meets(requirement, labels):
            return _unmet(requirement, labels)
    texts = []
    # Terms are alternatives, so each is reported with its first unmet requirement.
    for term in shape.terms:
        fields = {"metadata.name": node}
        unmet = [(requirement, labels) for requirement in term.requirements if not fit.meets(requirement, labels)]
        unmet += [(field, fields) for field in term.fields if not fit.meets(field, fields)]
        texts.append(_unmet(*unmet[0]) if unmet else "an empty affinity term matches no node")
    if len(texts) > 1:
        return f"meets none of its {len(texts)} node affinity terms ({'; '.join(dict.fromkeys(texts))})"
    return texts[0] if texts else ""


def _unmet(requirement: Requirement, labels: dict[str, str]) -> str:
    key, has = requirement.key, labels.get(requirement.key)
    present = f"no label {key}" if has is None else f"{key}={has}"
    values = " or ".join(requirement.values)
    wants = {
        "In": values,
        "NotIn": f"not {values}",
        "Exists": "one",
        "DoesNotExist": "none",
        "Gt": f"more than {values}",
        "Lt": f"less than {values}",
    }
    return f"{present}, wants {wants[requirement.operator]}"


def taint_text(taint: Taint) -> str:
    """As kubectl writes it: ``key=value:effect``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def untolerated_taints(shape: Shape, taints: tuple[Taint, ...]) -> list[Taint]:
    """The taints that keep the shape off."""
    return [taint for taint in taints if fit.untolerated(shape, (taint,)) is not None]


def untolerated_text(shape: Shape, taints: tuple[Taint, ...]) -> str:
    """The first taint that the shape does not tolerate, as text."""
    taint = fit.untolerated(shape, taints)
    return f"taint {taint_text(taint)}, not tolerated" if taint is not None else ""


def kind_text(table: NodeTable, info: ShapeInfo, i: int, mig_fits: bool) -> str:
    """Why the node's kind of GPU is wrong. ``mig_fits``: MIG is not the reason."""
    gpu, strategy = info.shape.gpu, table.mig[i]
    wants = f"wants {info.shape.gpu.text()}"
    if not strategy and not table.allocatable[GPUS, i]:
        return f"no GPUs, {wants}"
    if not mig_fits:
        kind = f"its GPUs are split (MIG strategy {strategy})" if strategy else "its GPUs are whole (no MIG)"
        return f"{kind}, {wants}"
    if gpu.by_memory and not table.memory_known[i]:
        return f"does not tell the memory of its GPUs (no label nvidia.com/gpu.memory), {wants}"
    return f"its GPUs are for resource claims, {wants}"


MULTIPLE = "a whole multiple, which KAI binds to a single GPU of that size, by a fault"
"""The words about a request for a multiple of a device's memory (``NodeTable.whole_multiples``)."""


def share_text(table: NodeTable, info: ShapeInfo, i: int) -> str:
    """Why no device, or too few devices, can take the share."""
    gpu, wants = info.shape.gpu, f"wants {info.shape.gpu.text()}"
    devices = int(table.allocatable[GPUS, i]) // GPU
    if devices < gpu.devices:
        return f"{'no GPUs' if not devices else f'{devices} GPUs in all'}, {wants}"
    if gpu.memory_mib > table.gpu_memory[i]:
        text = f"its GPUs have {table.gpu_memory[i]} MiB each, {wants}"
        if not table.whole_multiples(gpu)[i]:
            return text
        if not table.multiples_fit:
            return f"{text} ({MULTIPLE})"
        whole = max(0, int(table.idle[GPUS, i])) // GPU
        return f"{whole} GPUs free of {devices}; {text} ({MULTIPLE})"
    shared = table.shared.get(i)
    # The most that is free on one device, because parts of several cannot be combined.
    left = max((shared.free_mib(group) for group in shared.groups.values()), default=0) if shared is not None else 0
    left = max(0, left)
    best = f"{left} MiB" if gpu.by_memory else format_thousandths(left / int(table.gpu_memory[i]))
    whole = max(0, int(table.idle[GPUS, i])) // GPU
    return f"{whole} GPUs free of {devices}, and at most {best} of a shared one, {wants}"


class NodeRule(StrEnum):
    """The rules that can keep a task off a node, in the order of evaluation."""

    BLOCKED = "blocked"  # an object that the pod names is missing
    UNAVAILABLE = "unavailable"  # cordoned, not ready
    SELECTOR = "selector"
    TAINT = "taint"
    GPU_KIND = "gpu kind"  # MIG or whole; GPUs that are for claims
    GPU_MEMORY = "gpu memory"  # the node does not report it
    CAPACITY = "capacity"  # the node is too small
    CLAIM = "claim"
    FREE = "free"  # other tasks hold it
    SHARE = "share"  # no device has as large a part free
    NUMA = "numa"
    AFFINITY = "pod affinity"  # pods that it must be with are not there
    ANTI_AFFINITY = "pod anti-affinity"
    PORT = "host port"
    RESERVATION = "reservation"  # a newly shared device needs a pod slot for its reservation pod
    QUEUE = "queue"  # the share would exceed the bounds of its queue
    TOPOLOGY = "topology"  # the node's domain has no room for the group


class FilterStage(NamedTuple):
    """``refused``: the nodes for which ``rule`` is the first to refuse the task. ``row``: the resource in question."""

    rule: NodeRule
    refused: np.ndarray
    row: int = -1


class NodeFilter:
    """Applies rules one by one. ``open``: the nodes that no rule has refused so far."""

    def __init__(self, count: int) -> None:
        self.open = np.ones(count, dtype=bool)
        self.stages: list[FilterStage] = []

    def keep(self, rule: NodeRule, passing: np.ndarray, row: int = -1) -> None:
        """Apply one rule, which lets the nodes of ``passing`` through."""
        refused = self.open & ~passing
        if refused.any():
            self.stages.append(FilterStage(rule, refused, row))
            self.open = self.open & passing


def filter_nodes(table: NodeTable, info: ShapeInfo, predicates: bool = True) -> NodeFilter:
    """Apply all rules about the shape alone, not those between pods. ``predicates``: see ``EngineConfig``."""
    node_filter = NodeFilter(len(table))
    for rule, passing, row in _rules(table, info, predicates, node_filter):
        node_filter.keep(rule, passing, row)
    return node_filter


def refusals(table: NodeTable, info: ShapeInfo) -> list[FilterStage]:
    """The same rules, each with all nodes that it refuses, also those that another rule refuses."""
    everywhere = NodeFilter(len(table))
    stages = [FilterStage(rule, ~passing, row) for rule, passing, row in _rules(table, info, True, everywhere)]
    return [stage for stage in stages if stage.refused.any()]


def _rules(
    table: NodeTable, info: ShapeInfo, predicates: bool, node_filter: NodeFilter
) -> Iterator[tuple[NodeRule, np.ndarray, int]]:
    """Each rule with the nodes that it lets through. Expensive rules look only at nodes that are open in ``node_filter``."""
    shape = info.shape
    if predicates:
        yield NodeRule.UNAVAILABLE, table.available, -1
        yield NodeRule.SELECTOR, fit.affinity_mask(table, shape), -1
        yield NodeRule.TAINT, fit.taint_mask(table, shape), -1
        if shape.gpu.by_memory:
            yield NodeRule.GPU_MEMORY, table.memory_known, -1
        yield NodeRule.GPU_KIND, fit.gpu_kind_mask(table, info), -1
    for row, amount in info.needs:
        yield NodeRule.CAPACITY, table.allocatable[row] >= amount, row
    if shape.claims:
        serving = table.all.copy()
        # The rules before this one are applied by now, because the generator continues only when the next rule is
        # requested.
        for i in np.flatnonzero(node_filter.open):
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
