"""What a node has and what a task wants, beside each other, in words."""

from __future__ import annotations

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
