"""KAI's Queue: its schema, the checks of one queue and of a tree of queues, and the functions that read and make Queue objects.

The schema is stated once, by ``QueueSpec`` and ``QueueResourceShare``: each field has a ``FieldForm``, which says how a value is
checked, what ``whatif --set`` accepts, and what evidence and anonymised snapshots keep of it. A new field takes:

- a line here: in ``QueueResourceShare`` if it is part of ``spec.resources``, where it holds for gpu, cpu and memory alike;
- ``kailab.engine.snapshot.records``: a field of ``Queue`` or of ``ResourceShare``, with a default for older snapshots;
- ``kailab.scheduler.reading.queues``: its conversion;
- ``kailab/cluster/install/crds/queues.yaml``: its entry in our copy of KAI's CRD;
- ``tools/field_coverage.py``: its row in ``_QUEUE_ACTS``. ``make docs`` then writes all that is generated;
- the rule that reads it: fair shares in ``kailab.engine.queueing.fairshare``, limits in ``capacity`` and the order in ``order`` beside it, rules
  about victims in ``kailab.engine.search``. What a cycle has to prepare for each queue is kept by ``kailab.engine.working.queues.WQueue``.

Few fields need more: ``Scheduler._starts_matter`` (the rule depends on start times), ``kailab.undertest.translation`` (another scheduler
can't express it), ``kailab.explain.steps.queue_steps`` (a step may set it), ``checks.fuzzing`` and ``checks.recorded`` (drawn and recorded cases have it), ``serve/page/forms.js`` (the live page has an input for it). Nothing
else lists the fields.

The rules are those of KAI's schema and webhooks, a little stricter on numbers: quota and limit are -1 (unlimited) or at least 0, the
weight is at least 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, get_type_hints

from msgspec import Meta, Struct

from kailab.errors import InputError, Where
from kailab.model import quantities
from kailab.model.manifests import Manifest, Notice
from kailab.model.multimap import multimap
from kailab.model.objects import Object, name_of, parent_of, share_of
from kailab.model.quantities import UNLIMITED, format_number
from kailab.model.times import duration_seconds
from kailab.model.validation.fields import Faults

RESOURCES = ("gpu", "cpu", "memory")
_MOST_NAMES = 6
_UNITS = {"gpu": "GPUs", "cpu": "millicores", "memory": "MB"}
_TO_ENGINE_UNITS = {"gpu": quantities.queue_gpu, "cpu": quantities.queue_cpu, "memory": quantities.queue_memory}


# --- forms of fields --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldForm:
    """How the values of a field look.

    ``check(faults, parent, key, path)`` reports a wrong value. ``expected`` describes the values, and ``parse`` reads one from text
    (ValueError or InputError if it is wrong); ``parse`` is None for a field that ``whatif --set`` does not set. ``is_name``: a
    text is a user's name, which anonymised snapshots replace. ``in_evidence``: evidence keeps the text. Numbers are always kept.
    """

    check: Callable[[Faults, dict[str, Any], str, str], Any]
    expected: str
    parse: Callable[[str], Any] | None
    is_name: bool = False
    in_evidence: bool = True


def parse_share_amount(text: str) -> int | float:
    """A number of at least 0, -1, or ``unlimited``, which is -1. Raises ValueError."""
    if text == "unlimited":
        return UNLIMITED
    value = float(text)
    # Not (...): so that "nan", which compares false with everything, is refused.
    if not (value >= 0 or value == UNLIMITED) or value == float("inf"):
        raise ValueError(text)
    return int(value) if value == int(value) else value


def _parse_weight(text: str) -> int | float:
    if (value := parse_share_amount(text)) < 0:
        raise ValueError(text)
    return value


def parse_name(text: str) -> str:
    """Any text but the empty one. Raises ValueError."""
    if not text:
        raise ValueError(text)
    return text


def _parse_duration(text: str) -> str:
    duration_seconds(text)
    return text


def _check_amount(faults: Faults, block: dict[str, Any], key: str, path: str) -> None:
    # The unit is that of the resource in the path, so this form is for amounts, not for counts.
    value = block.get(key)
    if value is None:
        return
    if not _is_number(value):
        faults.wrong(path, value, "a number: -1 for unlimited, or 0 and more")
        return
    resource = path.split(".")[-2]
    if value < 0 and value != UNLIMITED:
        faults.ratchet(
            path, f"{value:g} is negative; expected zero or more, or -1 for unlimited ({_below_zero(resource, key)})"
        )
        return
    faults.read(_TO_ENGINE_UNITS[resource], value, path)


def _below_zero(resource: str, key: str) -> str:
    """What KAI does by a negative amount, which its API server takes (``objects.share_of``)."""
    if resource == "memory":
        return "KAI takes it for unlimited"
    if key == "limit":
        return f"in a cluster work that asks for {resource} never runs in the queue"
    return f"in a cluster the queue has no quota of {resource}, and the fair shares of others grow by the amount; here it is 0"


def _check_weight(faults: Faults, block: dict[str, Any], key: str, path: str) -> None:
    weight = block.get(key)
    if weight is None:
        return
    if not _is_number(weight):
        faults.wrong(path, weight, "a number of 0 or more")
    elif weight < 0:
        faults.ratchet(path, f"{weight:g} is negative; expected a number of 0 or more (KAI takes it for 0)")
    elif not weight < 1e15:
        faults.wrong(path, weight, "a number of 0 or more (below 1e15)")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_AMOUNT = FieldForm(_check_amount, "a number, -1 or unlimited", parse_share_amount)
_WEIGHT = FieldForm(_check_weight, "a number of 0 or more", _parse_weight)
_PRIORITY = FieldForm(
    lambda faults, spec, key, path: faults.integer(spec, key, path, least=-(2**31)), "a whole number", int
)
_DURATION = FieldForm(
    lambda faults, spec, key, path: faults.duration(spec, key, path, signed=False),
    "a duration such as 10m",
    _parse_duration,
)
_QUEUE_NAME = FieldForm(Faults.text, "the name of a queue", parse_name, is_name=True)
_FREE_TEXT = FieldForm(Faults.text, "a text", None, is_name=True, in_evidence=False)


# --- the schema -------------------------------------------------------------------------------------------------------


class KubernetesRecord(Struct, rename="camel", frozen=True, kw_only=True):
    """Base: field names are those of manifests in snake case."""


class QueueResourceShare(KubernetesRecord, frozen=True, kw_only=True):
    """``quota`` and ``limit``: -1 is unlimited. The unit of gpu is a device, of cpu a millicore, of memory a megabyte (10^6 bytes)."""

    quota: Annotated[float, Meta(extra={"form": _AMOUNT})] = 0.0
    limit: Annotated[float, Meta(extra={"form": _AMOUNT})] = 0.0
    over_quota_weight: Annotated[float, Meta(extra={"form": _WEIGHT})] = 0.0


class QueueSpec(KubernetesRecord, frozen=True, kw_only=True):
    """The fields besides ``resources``, which has a ``QueueResourceShare`` for each of ``RESOURCES``. Without that block KAI takes every
    number as 0, the limit too."""

    display_name: Annotated[str, Meta(extra={"form": _FREE_TEXT})] = ""
    parent_queue: Annotated[str, Meta(extra={"form": _QUEUE_NAME})] = ""
    priority: Annotated[int | None, Meta(extra={"form": _PRIORITY})] = None
    preempt_min_runtime: Annotated[str | None, Meta(extra={"form": _DURATION})] = None
    reclaim_min_runtime: Annotated[str | None, Meta(extra={"form": _DURATION})] = None


def _forms(record: type[KubernetesRecord]) -> dict[str, FieldForm]:
    """The forms of a record's fields by their names in manifests, in the record's order."""
    hints = get_type_hints(record, include_extras=True)
    keys = zip(record.__struct_fields__, record.__struct_encode_fields__)
    return {
        key: hints[name].__metadata__[0].extra["form"] for name, key in keys if hasattr(hints[name], "__metadata__")
    }


SPEC_FIELDS: dict[str, FieldForm] = _forms(QueueSpec)
"""The fields of ``spec``, but ``resources``."""

SHARE_FIELDS: dict[str, FieldForm] = _forms(QueueResourceShare)
"""The fields of ``spec.resources.gpu``, ``.cpu`` and ``.memory``."""


# --- making -----------------------------------------------------------------------------------------------------------


def share(quota: float = UNLIMITED, limit: float = UNLIMITED, weight: float = 1) -> dict[str, float]:
    """A block of ``spec.resources``. By default there is no quota and no limit, and the weight is 1."""
    return {"quota": quota, "limit": limit, "overQuotaWeight": weight}


# --- checks of one queue ----------------------------------------------------------------------------------------------


def check_queue(faults: Faults, obj: dict[str, Any]) -> None:
    faults.mapping(obj, "status", "status")
    spec = faults.mapping(obj, "spec", "spec") or {}
    for key, form in SPEC_FIELDS.items():
        form.check(faults, spec, key, f"spec.{key}")
    meta, parent = obj.get("metadata"), spec.get("parentQueue")
    if parent and isinstance(meta, dict) and meta.get("name") == parent:
        faults.add("spec.parentQueue", "a queue can't be its own parent")
    resources = faults.mapping(spec, "resources", "spec.resources") or {}
    for name in RESOURCES:
        block = faults.mapping(resources, name, f"spec.resources.{name}") or {}
        for key, form in SHARE_FIELDS.items():
            form.check(faults, block, key, f"spec.resources.{name}.{key}")


def advise_queue(faults: Faults, obj: dict[str, Any]) -> None:
    spec = obj.get("spec") or {}
    resources = spec.get("resources")
    if resources is None:
        faults.add("spec.resources", "is missing: quota, weight and limit are 0 throughout, so the queue runs nothing")
        return
    missing = [name for name in RESOURCES if resources.get(name) is None]
    if len(missing) == 1:
        text = f"is missing: its quota and limit are 0, so work that asks for {missing[0]} never runs here"
        faults.add(f"spec.resources.{missing[0]}", text)
    elif missing:
        text = f"has no {' and no '.join(missing)}: their quotas and limits are 0, so work that asks for one of them never runs here"
        faults.add("spec.resources", text)
    for name in RESOURCES:
        if resources.get(name) is None:
            continue
        block, path = share_of(obj, name), f"spec.resources.{name}"
        if "limit" not in block:
            faults.add(f"{path}.limit", f"is missing, which means 0: work that asks for {name} never runs here")
        # A quota below 0 is unlimited, and so above any limit.
        elif block["limit"] >= 0 and (block.get("quota", 0) > block["limit"] or block.get("quota", 0) < 0):
            faults.add(f"{path}.quota", f"is more than the limit of {block['limit']}: the part above is never reached")


# --- checks of a tree of queues ---------------------------------------------------------------------------------------
#
# Pass all queues: those of the cluster and those about to be applied. Errors make the tree unusable: KAI would loop, or drop
# queues silently. Warnings are about states that KAI accepts and few people want.


def check_queue_tree(queues: Iterable[Object | Manifest]) -> tuple[list[InputError], list[Notice]]:
    """(errors, warnings) about queues, given as objects or as manifests (which know their file and line).

    Errors: a name twice, a queue that is its own parent, a cycle. Warnings: an unknown parent, a child's
    quota beyond its parent's, children's quotas that add up to more than their parent's.
    """
    errors: list[InputError] = []
    warnings: list[Notice] = []
    tree: dict[str, Object | Manifest] = {}
    for queue in queues:
        name = name_of(_object(queue))
        if not name:
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
    """Warn if quotas guarantee more GPUs than exist. A queue with an unlimited quota guarantees as much as the queues below it.
    ``gpus``: of all nodes. ``queues``: a tree without errors."""
    tree = {name_of(_object(queue)): queue for queue in queues}
    below = multimap((parent if (parent := _parent(queue)) in tree else "", name) for name, queue in tree.items())
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
    names = ", ".join(shown[:_MOST_NAMES]) + (
        f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    )
    text = (
        f"quotas guarantee {format_number(promised)} GPUs in all ({names}), more than the {format_number(gpus)} of all nodes: "
        "not all of that can be had at once"
    )
    # If a queue of the applied file is involved, the warning points to it.
    mine = [name for name in shown if isinstance(tree[name], Manifest)] or shown
    return [Notice(text, _where(tree[mine[-1]], "spec.resources.gpu.quota"), "quotas-over-share")]


def check_workload_queues(used: Iterable[tuple[str, Where]], queues: Iterable[Object | Manifest]) -> list[Notice]:
    """Warn about queues that workloads name and that do not exist or are not leaves (only leaves schedule).

    ``used``: (queue name, the place that names it).
    """
    parents = {name_of(_object(queue)): _parent(queue) for queue in queues}
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
    safe: set[str] = set()  # queues whose ancestors have been visited
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
    children = multimap((parent, name) for name, parent in parents.items() if parent in tree and parent != name)
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
                # Unlimited is -1, which must not reduce the sum.
                total += max(quota, Fraction(0))
            # If one child alone exceeds its parent, that warning suffices.
            if each_fits and total > above:
                sum_ = f"{format_number(total)} {_UNITS[resource]}"
                text = f"the queues below ({', '.join(names)}) have quotas of {sum_}, more than the {format_number(above)} here"
                where = _where(tree[parent], f"spec.resources.{resource}.quota")
                warnings.append(Notice(text, where, "children-over-parent"))


def _object(queue: Object | Manifest) -> Object:
    return queue.object if isinstance(queue, Manifest) else queue


def _parent(queue: Object | Manifest) -> str:
    obj = _object(queue)
    # The object may be unchecked.
    parent = parent_of(obj) if isinstance(obj.get("spec"), dict) else ""
    return parent if isinstance(parent, str) else ""


def _quota(queue: Object | Manifest, resource: str) -> Fraction | None:
    """None if the queue has no resources block, which has its own warning."""
    obj = _object(queue)
    spec = obj.get("spec")
    resources = spec.get("resources") if isinstance(spec, dict) else None
    if not isinstance(resources, dict):
        return None
    # The object may be unchecked.
    block = resources.get(resource)
    sound = isinstance(block, dict) and all(value is None or _is_number(value) for value in block.values())
    value = share_of(obj, resource).get("quota", 0) if sound else 0
    return Fraction(repr(value)) if _is_number(value) else Fraction(0)


def _where(queue: Object | Manifest, path: str) -> Where:
    if isinstance(queue, Manifest):
        return queue.where(path)
    return Where(object=f"Queue/{queue['metadata'].get('name')}", field=path)
