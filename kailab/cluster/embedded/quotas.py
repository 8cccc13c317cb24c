"""ResourceQuotas, as the ResourceQuota admission plugin and its controller keep them.

A new object is refused if a quota of its namespace would be exceeded, or if it bounds cpu or memory and the pod names none. ``status.used``
follows every change: a pod that has ended no longer counts for what pods use, only for how many there are (``count/pods``).

Usage is counted once for each quota, then kept up to date by each change. A lab without quotas pays nothing: the store is followed from the
first quota on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import EventType, Object
from kailab.errors import Forbidden
from kailab.model.kinds import KINDS, kind_key
from kailab.model.objects import Key, is_ended, namespace_of
from kailab.model.pod_resources import (
    Amounts,
    add_amounts,
    container_amounts,
    containers_of,
    format_amount,
    parsed,
    pod_limits,
    pod_requests,
)
from kailab.model.quantities import parse
from kailab.model.validation.budgets import OF_CLAIMS
from kailab.model.validation.fields import is_extended

_COUNTED_BY_NAME = {
    "Pod": "pods",
    "Service": "services",
    "ReplicationController": "replicationcontrollers",
    "ResourceQuota": "resourcequotas",
    "Secret": "secrets",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
_MUST_BE_GIVEN = ("cpu", "memory")
_MOST_DEVICES = 32
"""What a request for all devices counts. Source: Kubernetes AllocationResultsMaxSize."""
_CLASS = ".storageclass.storage.k8s.io/"


class ResourceQuotas:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        # None: to be counted when it is first needed.
        self._used: dict[Key, Amounts | None] = {}
        self._following = False
        store.hook("ResourceQuota", self._quota_changed)

    def restore(self) -> None:
        """Resume the quotas of a saved or forked store."""
        if self._store.table("ResourceQuota").objects:
            self._follow()
            self._used = dict.fromkeys(self._store.table("ResourceQuota").objects)

    def check(self, kind: str, obj: Object, name: str, old: Object | None = None) -> None:
        """Raises Forbidden if a new object, or a stored one that changes, would exceed a quota. ``old``: the stored one."""
        if not self._used:
            return
        namespace = namespace_of(obj)
        if not namespace:
            return
        broken: list[str] = []
        for key, quota in self._of(namespace):
            hard = _hard(quota)
            if not _concerns(quota, kind, obj):
                continue
            before = usage_of(kind, old) if old is not None and _concerns(quota, kind, old) else {}
            if kind == "Pod" and old is None and (lacking := _lacking(hard, obj["spec"])):
                broken.append(f"failed quota: {key[1]}: must specify {'; '.join(lacking)}")
                continue
            wanted = {
                resource: amount - before.get(resource, 0)
                for resource, amount in usage_of(kind, obj).items()
                if resource in hard and amount > before.get(resource, 0)
            }
            used = self._amounts(key, quota)
            over = sorted(r for r, amount in wanted.items() if used.get(r, 0) + amount > hard[r])
            if over:
                broken.append(
                    f"exceeded quota: {key[1]}, requested: {_shown(wanted, over)}, used: {_shown(used, over)}, "
                    f"limited: {_shown(hard, over)}"
                )
        if broken:
            raise Forbidden(f"{kind} {name!r} is forbidden: {'; '.join(broken)}")

    def _amounts(self, key: Key, quota: Object) -> Amounts:
        used = self._used.get(key)
        if used is None:
            used = self._used[key] = self._count(key, quota)
        return used

    def _of(self, namespace: str) -> Iterator[tuple[Key, Object]]:
        for key, quota in self._store.table("ResourceQuota").objects.items():
            if key[0] == namespace:
                yield key, quota

    def _follow(self) -> None:
        if not self._following:
            self._following = True
            self._store.hook("*", self._changed)

    def _quota_changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if type == "DELETED" or new is None:
            self._used.pop(key, None)
            return
        if old is not None and old.get("spec") is new.get("spec"):
            return  # only its status, which is written here
        self._follow()
        self._used[key] = None
        self._write(key, new)

    def _count(self, key: Key, quota: Object) -> Amounts:
        """What the objects of the quota's namespace use, from the beginning."""
        used: Amounts = {}
        for kind in self._store.kinds_with_objects():
            for (namespace, _), obj in self._store.table(kind).objects.items():
                if namespace == key[0] and _concerns(quota, kind, obj):
                    add_amounts(used, usage_of(kind, obj))
        return {resource: used.get(resource, parse(0)) for resource in _hard(quota)}

    def _changed(self, type: EventType, key: Key, old: Object | None, new: Object | None) -> None:
        if not key[0] or not self._used:
            return
        obj = new if new is not None else old
        assert obj is not None
        kind = kind_key(obj)
        if type == "MODIFIED" and _same_for_quotas(kind, old, new):
            return
        for quota_key, quota in list(self._of(key[0])):
            used = self._used.get(quota_key)
            if used is None or (kind == "ResourceQuota" and key == quota_key):
                self._write(quota_key, quota)  # counting it now includes this change
                continue
            before = usage_of(kind, old) if old is not None and type != "ADDED" and _concerns(quota, kind, old) else {}
            after = usage_of(kind, new) if new is not None and type != "DELETED" and _concerns(quota, kind, new) else {}
            changed = {
                resource: amount + after.get(resource, 0) - before.get(resource, 0)
                for resource, amount in used.items()
                if after.get(resource, 0) != before.get(resource, 0)
            }
            if changed:
                used.update(changed)
                self._write(quota_key, quota)

    def _write(self, key: Key, quota: Object) -> None:
        hard = _hard(quota)
        amounts = self._amounts(key, quota)
        used = {resource: format_amount(resource, amounts.get(resource, parse(0))) for resource in hard}
        status = {"hard": (quota.get("spec") or {}).get("hard") or {}, "used": used}
        current = self._store.find("ResourceQuota", key)
        if current is not None and current.get("status") != status:
            self._store.replace("ResourceQuota", key, current, {**current, "status": status})


def usage_of(kind: str, obj: Object) -> Amounts:
    """What one object uses, by each name that a quota may give it."""
    known = KINDS.get(kind)
    resource = known.resource if known is not None else ""
    used: Amounts = {f"count/{resource}": parse(1)} if resource else {}
    if (bare := _COUNTED_BY_NAME.get(kind)) and kind != "Pod":
        used[bare] = parse(1)
    spec = obj.get("spec") or {}
    if kind == "Pod":
        if is_ended(obj):
            return used
        used["pods"] = parse(1)
        for name, amount in pod_requests(spec).items():
            used[f"requests.{name}"] = amount
            if not is_extended(name):
                used[name] = amount
        # Only the limits of these can be bounded.
        for name, amount in pod_limits(spec).items():
            if not is_extended(name):
                used[f"limits.{name}"] = amount
    elif kind == "PersistentVolumeClaim":
        asked = parsed((spec.get("resources") or {}).get("requests") or {}).get("storage", parse(0))
        used["requests.storage"] = asked
        if storage_class := spec.get("storageClassName"):
            used[f"{storage_class}{_CLASS}requests.storage"] = asked
            used[f"{storage_class}{_CLASS}persistentvolumeclaims"] = parse(1)
    elif kind == "Service":
        type = spec.get("type")
        if type == "LoadBalancer":
            used["services.loadbalancers"] = parse(1)
        if type in ("LoadBalancer", "NodePort") and spec.get("allocateLoadBalancerNodePorts") is not False:
            used["services.nodeports"] = parse(len(spec.get("ports") or ()))
    elif kind == "ResourceClaim":
        for request in (spec.get("devices") or {}).get("requests") or ():
            # Of alternatives, the most of each class.
            most: Amounts = {}
            for exact in request.get("firstAvailable") or (request.get("exactly") or request,):
                if device_class := exact.get("deviceClassName"):
                    name = f"{device_class}.deviceclass.resource.k8s.io/devices"
                    every = exact.get("allocationMode") == "All"
                    most[name] = max(most.get(name, parse(0)), parse(_MOST_DEVICES if every else exact.get("count", 1)))
            add_amounts(used, most)
    return used


def _hard(quota: Object) -> Amounts:
    return parsed((quota.get("spec") or {}).get("hard") or {})


def _same_for_quotas(kind: str, old: Object | None, new: Object | None) -> bool:
    """Whether a change leaves what the object uses as it was: most changes of pods are of their status, and only their end counts."""
    if kind in ("PersistentVolumeClaim", "Service"):
        return False
    if kind != "Pod" or old is None or new is None:
        return True
    if old.get("spec") is not new.get("spec"):
        return False
    return is_ended(old) == is_ended(new)


def _lacking(hard: Iterable[str], spec: Mapping[str, Any]) -> list[str]:
    """The resources that the quota bounds and a container does not name. Source: Kubernetes podEvaluator.Constraints."""
    result = []
    for resource in sorted(hard):
        field, _, name = resource.rpartition(".")
        if name not in _MUST_BE_GIVEN or field not in ("", "requests", "limits"):
            continue
        where: Literal["requests", "limits"] = "limits" if field == "limits" else "requests"
        containers = [
            str(container.get("name", ""))
            for container in containers_of(spec)
            if name not in container_amounts(container, where)
        ]
        if containers:
            result.append(f"{resource} for: {','.join(containers)}")
    return result


def _shown(amounts: Mapping[str, Any], resources: Iterable[str]) -> str:
    return ",".join(f"{name}={format_amount(name, parse(0) + amounts.get(name, 0))}" for name in resources)


# --- scopes -----------------------------------------------------------------------------------------------------------


def _concerns(quota: Object, kind: str, obj: Object) -> bool:
    """Whether an object is in the scopes of a quota. A quota with scopes counts nothing but pods, or volume claims of some classes."""
    spec = quota.get("spec") or {}
    terms = [
        *({"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()),
        *((spec.get("scopeSelector") or {}).get("matchExpressions") or ()),
    ]
    if not terms:
        return True
    of_claims = any(term.get("scopeName") == OF_CLAIMS for term in terms)
    return kind == ("PersistentVolumeClaim" if of_claims else "Pod") and all(
        _in_scope(term, obj.get("spec") or {}) for term in terms
    )


def _in_scope(term: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    scope = term.get("scopeName")
    if scope in ("Terminating", "NotTerminating"):
        return (spec.get("activeDeadlineSeconds") is not None) == (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return is_best_effort(spec) == (scope == "BestEffort")
    if scope == "CrossNamespacePodAffinity":
        return _looks_elsewhere(spec)
    name = spec.get("volumeAttributesClassName" if scope == OF_CLAIMS else "priorityClassName") or ""
    values = term.get("values") or ()
    return {
        "In": name in values,
        "NotIn": name not in values,
        "Exists": bool(name),
        "DoesNotExist": not name,
    }.get(str(term.get("operator")), False)


def is_best_effort(spec: Mapping[str, Any]) -> bool:
    """Whether no container names cpu or memory."""
    return not any(
        amount
        for container in containers_of(spec)
        for amounts in (container_amounts(container, "requests"), container_amounts(container, "limits"))
        for name, amount in amounts.items()
        if name in _MUST_BE_GIVEN
    )


def _looks_elsewhere(spec: Mapping[str, Any]) -> bool:
    affinity = spec.get("affinity") or {}
    for key in ("podAffinity", "podAntiAffinity"):
        rule = affinity.get(key) or {}
        terms = [
            *(rule.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(
                weighted.get("podAffinityTerm") or {}
                for weighted in rule.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            ),
        ]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False
