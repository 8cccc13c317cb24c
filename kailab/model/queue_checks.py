"""Checks over a set of queues: what no queue shows by itself.

Apply them to all queues there will be: those of a cluster and those about to join it. Errors are what makes
the tree unusable (KAI would loop or drop queues silently); warnings are what KAI accepts and few people mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from kailab.errors import InputError, Where
from kailab.model.manifests import Manifest, Notice
from kailab.model.objects import Object
from kailab.model.quantities import format_number
from kailab.model.validation.scheduling import RESOURCES

UNLIMITED = -1
_SHOWN = 6
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


def check_guaranteed(queues: Iterable[Object | Manifest], gpus: Fraction) -> list[Notice]:
    """A warning where quotas guarantee more GPUs than there are. A queue whose quota is unlimited guarantees what those below it do.
    ``gpus``: of all nodes. ``queues``: a tree without errors."""
    tree = {_object(queue)["metadata"]["name"]: queue for queue in queues}
    below: dict[str, list[str]] = {}
    for name, queue in tree.items():
        parent = _parent(queue)
        below.setdefault(parent if parent in tree else "", []).append(name)
    todo, counted = list(below.get("", ())), []
    while todo:
        name = todo.pop(0)
        quota = _quota(tree[name], "gpu")
        if quota == UNLIMITED:
            todo += below.get(name, ())
        elif quota:
            counted.append((quota, name))
    promised = sum((quota for quota, _ in counted), Fraction(0))
    if promised <= gpus:
        return []
    shown = [name for _, name in counted]
    names = ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")
    text = (
        f"quotas guarantee {format_number(promised)} GPUs in all ({names}), more than the {format_number(gpus)} of all nodes: "
        "not all of that can be had at once"
    )
    # Where the file that is applied says something of it, that is the place.
    mine = [name for name in shown if isinstance(tree[name], Manifest)] or shown
    return [Notice(text, _where(tree[mine[-1]], "spec.resources.gpu.quota"), "quotas-over-share")]


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
