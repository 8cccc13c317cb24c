"""Checks over a set of queues: what no queue shows by itself.

Apply them to all queues there will be: those of a cluster and those about to join it. Errors are what makes
the tree unusable (KAI would loop or drop queues silently); warnings are what KAI accepts and few people mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from kailab.errors import InputError, Where
from kailab.model.manifests import Manifest, Notice
from kailab.model.quantities import format_number
from kailab.model.validation.scheduling import RESOURCES

Object: TypeAlias = dict[str, Any]

UNLIMITED = -1
_UNITS = {"gpu": "GPUs", "cpu": "millicores", "memory": "MB"}


def check_queues(queues: Iterable[Object | Manifest]) -> tuple[list[InputError], list[Notice]]:
    """(errors, warnings) about queues, given as objects or as manifests (which know their file and line).

    Errors: a name twice, a queue that is its own parent, a cycle. Warnings: an unknown parent, a child's
    quota beyond its parent's, children's quotas that add up to more than their parent's.
    """
    errors: list[InputError] = []
    warnings: list[Notice] = []
    tree: dict[str, Object | Manifest] = {}
    for queue in queues:
        name = _object(queue)["metadata"].get("name")
        if not isinstance(name, str):
            continue
        if name in tree:
            errors.append(InputError("there are two queues of this name", _where(queue, "metadata.name")))
        else:
            tree[name] = queue
    parents = {name: _parent(queue) for name, queue in tree.items()}
    _check_cycles(tree, parents, errors)
    for name, queue in tree.items():
        parent = parents[name]
        if parent and parent not in tree:
            text = f"there is no queue {parent!r}: until there is, work in this queue stays pending (QueueDoesNotExist)"
            warnings.append(Notice(text, _where(queue, "spec.parentQueue"), "parent-missing"))
    _check_quotas(tree, parents, warnings)
    return errors, warnings


def check_promises(queues: Iterable[Object | Manifest], gpus: int) -> list[Notice]:
    """A warning where queues without a parent promise more GPUs than the nodes have (``gpus``; 0: no nodes are there yet). Quotas without bound
    are left out: they are meant to take what there is."""
    promised = [
        (queue, quota) for queue in queues if not _parent(queue) and (quota := _quota(queue, "gpu") or Fraction(0)) > 0
    ]
    total = sum((quota for _, quota in promised), Fraction(0))
    if not gpus or total <= gpus:
        return []
    # Said of a queue that is among what is applied, if one is: there the line can be named.
    queue = max(promised, key=lambda one: (isinstance(one[0], Manifest), one[1]))[0]
    names = ", ".join(f"{_object(one)['metadata'].get('name')} {format_number(quota)}" for one, quota in promised)
    text = (
        f"the quotas of the queues without a parent ({names}) add up to {format_number(total)} GPUs, more than the {gpus} of the nodes: not all of "
        "them can be kept"
    )
    return [Notice(text, _where(queue, "spec.resources.gpu.quota"), "quotas-over-nodes")]


def check_workload_queues(used: Iterable[tuple[str, Where]], queues: Iterable[Object | Manifest]) -> list[Notice]:
    """Warnings about the queues that work names: not there, or not a leaf (only leaves schedule).

    ``used``: (queue name, the place that names it).
    """
    parents = {_object(queue)["metadata"].get("name"): _parent(queue) for queue in queues}
    inner = set(parents.values()) - {""}
    warnings = []
    for name, where in used:
        if name not in parents:
            text = f"there is no queue {name!r}: the work stays pending (QueueDoesNotExist)"
            warnings.append(Notice(text, where, "queue-missing"))
        elif name in inner:
            text = f"queue {name!r} has queues below it; only queues without any schedule: the work stays pending"
            warnings.append(Notice(text, where, "queue-not-leaf"))
    return warnings


def _check_cycles(tree: Mapping[str, Object | Manifest], parents: Mapping[str, str], errors: list[InputError]) -> None:
    safe: set[str] = set()  # queues whose way up has been walked: each is walked once
    for start in tree:
        path: list[str] = []
        at = start
        while at in tree and at not in safe and at not in path:
            path.append(at)
            at = parents[at]
        if at in path:
            ring = path[path.index(at) :]
            if len(ring) == 1:
                text = "a queue can't be its own parent"
            else:
                shown = " -> ".join([*ring, ring[0]])
                text = f"the queues form a cycle: {shown}; one of them needs another parent or none"
            errors.append(InputError(text, _where(tree[ring[0]], "spec.parentQueue")))
        safe.update(path)


def _check_quotas(tree: Mapping[str, Object | Manifest], parents: Mapping[str, str], warnings: list[Notice]) -> None:
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        if parent in tree and parent != name:
            children.setdefault(parent, []).append(name)
    for parent, names in children.items():
        for resource in RESOURCES:
            above = _quota(tree[parent], resource)
            if above is None or above == UNLIMITED:
                continue
            total = Fraction(0)
            each_fits = True
            for name in names:
                quota = _quota(tree[name], resource) or Fraction(0)
                path = f"spec.resources.{resource}.quota"
                if quota == UNLIMITED or quota > above:
                    each_fits = False
                    shown = "unlimited" if quota == UNLIMITED else format_number(quota)
                    text = f"{shown} is beyond the {format_number(above)} {_UNITS[resource]} of its parent {parent!r}"
                    warnings.append(Notice(text, _where(tree[name], path), "quota-over-parent"))
                # Unlimited is -1, which must not make the sum smaller.
                total += max(quota, Fraction(0))
            # One child that is beyond its parent by itself was told already; the sum would only say it again.
            if each_fits and total > above:
                sum_ = f"{format_number(total)} {_UNITS[resource]}"
                text = f"the queues below ({', '.join(names)}) have quotas of {sum_}, more than the {format_number(above)} here"
                where = _where(tree[parent], f"spec.resources.{resource}.quota")
                warnings.append(Notice(text, where, "children-over-parent"))


def _object(queue: Object | Manifest) -> Object:
    return queue.object if isinstance(queue, Manifest) else queue


def _parent(queue: Object | Manifest) -> str:
    spec = _object(queue).get("spec")
    parent = spec.get("parentQueue") if isinstance(spec, dict) else None
    return parent if isinstance(parent, str) else ""


def _quota(queue: Object | Manifest, resource: str) -> Fraction | None:
    """None where the queue has no resources block (its own warning says enough)."""
    spec = _object(queue).get("spec")
    resources = spec.get("resources") if isinstance(spec, dict) else None
    if not isinstance(resources, dict):
        return None
    block = resources.get(resource)
    value = block.get("quota", 0) if isinstance(block, dict) else 0
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return Fraction(repr(value)) if number else Fraction(0)


def _where(queue: Object | Manifest, path: str) -> Where:
    if isinstance(queue, Manifest):
        return queue.where(path)
    return Where(object=f"Queue/{queue['metadata'].get('name')}", field=path)
