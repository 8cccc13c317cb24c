"""Read Kubernetes objects: the one module through which code reads metadata, owners, conditions, phases and nodes.

An object is a ``dict`` in Kubernetes' JSON form. The functions only read. They accept objects without ``metadata``, ``spec`` or
``status`` and with null in their place, and return an empty value for a field that is missing. For amounts see
``kailab.model.quantities``.

Functions that controllers call for every pod read the fields directly instead of calling each other. Loops over all pods of each
cycle may read ``obj["metadata"]`` once instead of calling several functions.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Namespace ("" for an object outside of namespaces) and name."""

ENDED_PHASES = ("Succeeded", "Failed")
"""Phases of a pod that has ended."""

_NOTHING: Mapping[str, Any] = {}


# --- metadata ---------------------------------------------------------------------------------------------------------


def metadata_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """``metadata``, or an empty mapping."""
    return obj.get("metadata") or _NOTHING


def name_of(obj: Mapping[str, Any]) -> str:
    """``metadata.name``, or "" for an object whose name is still to be generated."""
    return str((obj.get("metadata") or _NOTHING).get("name") or "")


def namespace_of(obj: Mapping[str, Any]) -> str:
    """``metadata.namespace``, or "" for an object outside of namespaces."""
    return str((obj.get("metadata") or _NOTHING).get("namespace") or "")


def full_name(obj: Mapping[str, Any]) -> str:
    """``namespace/name``, or the bare name of an object outside of namespaces."""
    metadata = obj.get("metadata") or _NOTHING
    namespace, name = metadata.get("namespace"), metadata.get("name") or ""
    return f"{namespace}/{name}" if namespace else str(name)


def object_key(obj: Mapping[str, Any]) -> Key:
    """The key by which stores and caches keep an object among those of its kind."""
    metadata = obj.get("metadata") or _NOTHING
    return metadata.get("namespace") or "", metadata.get("name") or ""


def uid_of(obj: Mapping[str, Any]) -> str:
    """``metadata.uid``, or "" for an object that no server has stored."""
    return str((obj.get("metadata") or _NOTHING).get("uid") or "")


def labels_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """``metadata.labels``, or an empty mapping."""
    return (obj.get("metadata") or _NOTHING).get("labels") or _NOTHING


@lru_cache(maxsize=1024)
def shared_labels(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The labels as a mapping that all objects with equal labels share, as thousands do that differ in nothing but their names. It must not be
    changed, as nothing in a stored object is."""
    return dict(labels)


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """``metadata.annotations``, or an empty mapping."""
    return (obj.get("metadata") or _NOTHING).get("annotations") or _NOTHING


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """True if the object has a deletion timestamp."""
    return bool((obj.get("metadata") or _NOTHING).get("deletionTimestamp"))


# --- owners -----------------------------------------------------------------------------------------------------------


def owner_references(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """``metadata.ownerReferences``, or an empty sequence."""
    return (obj.get("metadata") or _NOTHING).get("ownerReferences") or ()


def owner_uids(obj: Mapping[str, Any]) -> set[str]:
    """The UIDs of all owners."""
    return {reference["uid"] for reference in owner_references(obj)}


def is_owned(obj: Mapping[str, Any]) -> bool:
    """True if the object has an owner."""
    return bool(owner_references(obj))


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The owner reference of the object's controller, or None."""
    for reference in (obj.get("metadata") or _NOTHING).get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None


def controller_name(obj: Mapping[str, Any]) -> str:
    """``Kind/name`` of the controller; without one, of the first owner, by which KAI groups as well; "" without any owner."""
    owner = controller_of(obj) or next(iter(owner_references(obj)), None)
    return f"{owner['kind']}/{owner['name']}" if owner else ""


def as_owner_reference(owner: Mapping[str, Any]) -> Object:
    """The reference that makes an object the controller of another one."""
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


# --- spec and status --------------------------------------------------------------------------------------------------


def involved_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference of an Event to the object that it is about. It may lack any field, because a kube-apiserver also reports about
    objects that it could not create."""
    involved = event.get("involvedObject")
    return involved if isinstance(involved, dict) else _NOTHING


def reserving_pods(claim: Mapping[str, Any]) -> list[str]:
    """The UIDs for which a ResourceClaim is reserved."""
    return [str(user["uid"]) for user in status_of(claim).get("reservedFor") or () if user.get("uid")]


def spec_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """``spec``, or an empty mapping."""
    return obj.get("spec") or _NOTHING


def status_of(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """``status``, or an empty mapping."""
    return obj.get("status") or _NOTHING


def conditions_of(obj: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """``status.conditions``, or an empty sequence."""
    return (obj.get("status") or _NOTHING).get("conditions") or ()


def condition_of(obj: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    """The first condition of a type, or None."""
    for condition in (obj.get("status") or _NOTHING).get("conditions") or ():
        if condition.get("type") == type:
            return condition
    return None


def has_condition(obj: Mapping[str, Any], *types: str) -> bool:
    """True if a condition of one of these types has the status ``True``."""
    for condition in (obj.get("status") or _NOTHING).get("conditions") or ():
        if condition.get("type") in types and condition.get("status") == "True":
            return True
    return False


def is_ready(obj: Mapping[str, Any], *, unreported: bool = False) -> bool:
    """True if the condition ``Ready`` has the status ``True``. ``unreported`` is the result for an object without that condition:
    nodes count as ready then, pods do not."""
    for condition in (obj.get("status") or _NOTHING).get("conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return unreported


# --- pods and nodes ---------------------------------------------------------------------------------------------------


def phase_of(pod: Mapping[str, Any]) -> str:
    """``status.phase``, or ``Pending``."""
    return (pod.get("status") or _NOTHING).get("phase") or "Pending"


def shown_phase(pod: Mapping[str, Any]) -> str:
    """The phase as tables and evidence show it: ``Terminating`` for a pod that is being deleted."""
    return "Terminating" if is_terminating(pod) else phase_of(pod)


def pods_of_job(spec: Mapping[str, Any], succeeded: int = 0) -> int:
    """The most pods that a Job of this spec runs at a time, once so many have succeeded."""
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    most = 1 if parallelism is None else int(parallelism)
    return most if completions is None else min(most, int(completions) - succeeded)


def is_ended(pod: Mapping[str, Any]) -> bool:
    """True if the pod's phase is ``Succeeded`` or ``Failed``."""
    return (pod.get("status") or _NOTHING).get("phase") in ENDED_PHASES


def is_active(pod: Mapping[str, Any]) -> bool:
    """True if the pod has not ended and is not being deleted. Workload controllers count these pods."""
    return not is_terminating(pod) and not is_ended(pod)


def node_of(pod: Mapping[str, Any]) -> str:
    """``spec.nodeName``, or "" for a pod that is not bound."""
    return (pod.get("spec") or _NOTHING).get("nodeName") or ""


def allocatable_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """``status.allocatable``: resource name to quantity, or an empty mapping."""
    return status_of(node).get("allocatable") or _NOTHING


# --- queues -----------------------------------------------------------------------------------------------------------


def parent_of(queue: Mapping[str, Any]) -> str:
    """``spec.parentQueue`` of a KAI Queue, or "" for a queue at the root."""
    return spec_of(queue).get("parentQueue") or ""


def share_of(queue: Mapping[str, Any], resource: str = "gpu") -> Mapping[str, Any]:
    """``spec.resources.RESOURCE`` of a KAI Queue (quota, limit, overQuotaWeight), or an empty mapping, which means 0 for all three.

    Negative values are as KAI counts them: -1 is unlimited, and so is every negative amount of memory. Another negative amount of gpu or cpu
    is less than a queue can hold, and a negative weight gives a queue nothing, so these are 0. Source: KAI, plugins/proportion/proportion.go,
    capacity_policy, resource_division.
    """
    block = (spec_of(queue).get("resources") or _NOTHING).get(resource) or _NOTHING
    counted = {
        key: -1 if key != "overQuotaWeight" and (resource == "memory" or block[key] == -1) else 0
        for key in ("quota", "limit", "overQuotaWeight")
        if (block.get(key) or 0) < 0
    }
    return {**block, **counted} if counted else block


def priority_of(priority_class: Mapping[str, Any]) -> int:
    """``value`` of a PriorityClass, which is 0 if it is left out, as in a manifest that no cluster has completed yet."""
    return priority_class.get("value") or 0


# --- values inside objects --------------------------------------------------------------------------------------------


def rewrite(value: Any, change: Callable[[Object], Object]) -> Any:
    """The value with ``change`` applied to each mapping in it, the innermost first. What does not change is shared with the original, which
    stays as it is."""
    if isinstance(value, list):
        items = [rewrite(item, change) for item in value]
        return value if all(map(is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    inside = {key: rewrite(item, change) if isinstance(item, dict | list) else item for key, item in value.items()}
    return change(value if all(map(is_, inside.values(), value.values())) else inside)


# --- pod templates ----------------------------------------------------------------------------------------------------

DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")
"""Fields of a pod spec that Kueue and similar controllers set on suspended work, besides labels and annotations."""


def without_scheduling_directives(template: Object, *fields: str) -> Object:
    """A pod template without labels and annotations, and without these fields of its pod spec and of its affinity. A workload may
    change them while it is suspended."""
    meta = {
        key: value for key, value in (template.get("metadata") or {}).items() if key not in ("labels", "annotations")
    }
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in fields}
    if affinity := {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key not in fields}:
        spec["affinity"] = affinity
    rest = {key: value for key, value in template.items() if key not in ("metadata", "spec")}
    return {**rest, **({"metadata": meta} if meta else {}), "spec": spec}


def scheduling_directives(template: Object) -> Object:
    """Only the labels, annotations and scheduling fields of a pod template, as a template."""
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    spec = {key: value for key, value in template["spec"].items() if key in DIRECTIVES}
    return {key: value for key, value in (("metadata", meta), ("spec", spec)) if value}


def content_key(*parts: Any) -> bytes | None:
    """A key that is equal for equal values of equal types with the same order of keys. None if a value is not one of JSON's."""
    try:
        # Version 2 of the format: later ones depend on how many references an object has.
        return marshal.dumps(parts, 2)
    except ValueError:
        return None
