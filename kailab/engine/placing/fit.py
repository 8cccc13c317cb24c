"""Node filters: which nodes a task may go to.

``static_mask`` covers what tasks cannot change (labels, taints, availability, kind of GPU) and is computed once per
shape. ``fits`` covers resources, shared devices and pod slots. Source: KAI's predicates plugin and node_info.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kailab.engine.snapshot.records import GPU, NodeTerm, Requirement, Shape, Taint, Toleration
from kailab.engine.working.layout import GPUS
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo

UNTOLERATED = "node(s) had untolerated taint"
"""The beginning of Kubernetes' message about an untolerated taint."""


def meets(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            # As in Kubernetes, NotIn matches if the label is missing.
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    try:
        # Kubernetes compares whole numbers; other values match neither operator.
        number, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def requirement_mask(table: NodeTable, requirement: Requirement) -> np.ndarray:
    column, codes = table.column(requirement.key)
    match requirement.operator:
        case "Exists":
            return column >= 0
        case "DoesNotExist":
            return column < 0
    # Evaluated once for each value, not for each node.
    hit = np.zeros(len(codes) + 1, dtype=bool)  # the last entry answers for code -1: no such label
    for value, code in codes.items():
        hit[code] = meets(requirement, {requirement.key: value})
    hit[-1] = requirement.operator == "NotIn"
    mask: np.ndarray = hit[column]
    return mask


def _term_mask(table: NodeTable, term: NodeTerm) -> np.ndarray:
    mask = np.ones(len(table), dtype=bool)
    for requirement in term.requirements:
        mask &= requirement_mask(table, requirement)
    for field in term.fields:
        if field.key == "metadata.name":
            mask &= np.array([meets(field, {field.key: node.name}) for node in table.nodes], dtype=bool)
        else:
            # Kubernetes supports only metadata.name as a field.
            mask &= False
    if not term.requirements and not term.fields:
        mask &= False  # Kubernetes: an empty term matches nothing
    return mask


def affinity_mask(table: NodeTable, shape: Shape) -> np.ndarray:
    """The nodes that match the nodeSelector and the required node affinity."""
    mask = np.ones(len(table), dtype=bool)
    for requirement in shape.selector:
        mask &= requirement_mask(table, requirement)
    if shape.terms:
        any_term = np.zeros(len(table), dtype=bool)
        for term in shape.terms:
            any_term |= _term_mask(table, term)
        mask &= any_term
    return mask


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        # Without a key only Exists is valid, which tolerates every taint.
        if not toleration.key:
            if toleration.operator == "Exists":
                return True
            continue
        if toleration.key == taint.key and (toleration.operator == "Exists" or toleration.value == taint.value):
            return True
    return False


def untolerated(shape: Shape, taints: tuple[Taint, ...]) -> Taint | None:
    for taint in taints:
        # A soft taint could only affect scores, and KAI has none for it.
        if taint.effect != "PreferNoSchedule" and not tolerates(shape.tolerations, taint):
            return taint
    return None


def untolerated_reason(taint: Taint) -> str:
    """Why a taint keeps a task off a node, in Kubernetes' words."""
    return f"{UNTOLERATED} {{{taint.key}: {taint.value}}}"


def taint_mask(table: NodeTable, shape: Shape) -> np.ndarray:
    verdicts: dict[tuple[Taint, ...], bool] = {}
    mask = np.ones(len(table), dtype=bool)
    for i, node in enumerate(table.nodes):
        if node.taints:
            # Nodes of a pool have equal taints, so one check per pool is enough.
            verdict = verdicts.get(node.taints)
            if verdict is None:
                verdict = verdicts[node.taints] = untolerated(shape, node.taints) is None
            mask[i] = verdict
    return mask


def mig_mask(table: NodeTable, info: ShapeInfo) -> np.ndarray:
    """Nodes for MIG work, or for other work, by the node's MIG strategy."""
    gpu = info.shape.gpu
    mask = np.ones(len(table), dtype=bool)
    if not info.cpu_only and (gpu.by_profile or any(table.mig)):
        for i, strategy in enumerate(table.mig):
            # As in KAI (PredicateByNodeResourcesType), the strategy "none" allows both.
            if not strategy:
                mask[i] = not gpu.by_profile
            elif strategy == "single":
                mask[i] = not gpu.by_profile and not gpu.shared
            elif strategy == "mixed":
                mask[i] = gpu.by_profile
    return mask


def gpu_kind_mask(table: NodeTable, info: ShapeInfo) -> np.ndarray:
    """Nodes with the right kind of GPU: MIG or whole. No shares of GPUs on nodes whose GPUs are for claims (KAI:
    HasDRAGPUs).
    """
    mask = mig_mask(table, info)
    return mask & ~table.claimed_gpus if info.shape.gpu.shared else mask


def static_mask(table: NodeTable, info: ShapeInfo, version: int) -> np.ndarray:
    """Nodes where only resources and other pods could keep the task off. Cached with the shape."""
    # The version of the node table: labels and taints are constant within one.
    if info.mask is None or info.mask_version != version:
        shape = info.shape
        mask = table.available.copy()
        mask &= affinity_mask(table, shape)
        mask &= taint_mask(table, shape)
        mask &= gpu_kind_mask(table, info)
        if shape.gpu.by_memory:
            # Memory cannot be shared out on devices that do not report theirs (KAI: GpuMemorySynced).
            mask &= table.memory_known
        info.mask = mask
        info.mask_version = version
    return info.mask


def fits(table: NodeTable, info: ShapeInfo, pool: np.ndarray | None = None) -> np.ndarray:
    """Nodes where the shape's resources fit: in ``idle`` by default, or in another pool of the same form."""
    if pool is None:
        pool = table.idle
        # KAI's IsTaskAllocatable accepts a best-effort pod without checking idle resources.
        if info.empty:
            return table.all
    needs = info.needs
    row, amount = needs[0]
    mask: np.ndarray = pool[row] >= amount
    for row, amount in needs[1:]:
        mask &= pool[row] >= amount
    if info.shape.gpu.shared:
        mask &= shared_fits(table, info, pool)
    elif table.lacking_gpus_refuse:
        mask &= pool[GPUS] >= 0
    return mask


def shared_fits(table: NodeTable, info: ShapeInfo, pool: np.ndarray) -> np.ndarray:
    """Nodes where enough devices can take a share: whole devices of the pool, and groups with room."""
    gpu = info.shape.gpu
    # As in KAI (isTaskAllocatableOnNonAllocatedResources), whole devices that are missing count against the shared ones.
    if gpu.devices == 1:
        mask: np.ndarray = (pool[GPUS] >= GPU) | (table.shares.some_fit(gpu) & (pool[GPUS] >= 0))
    else:
        mask = pool[GPUS] // GPU + np.minimum(table.shares.fitting(gpu), gpu.devices) >= gpu.devices
    if gpu.by_memory:
        mask &= table.memory_fits(gpu)
    return mask
