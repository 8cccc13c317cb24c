"""Check LimitRanges, ResourceQuotas, PodDisruptionBudgets and PersistentVolumeClaims. Source: Kubernetes ValidateLimitRange, ValidateResourceQuotaSpec,
ValidatePodDisruptionBudgetSpec."""

from __future__ import annotations

from typing import Any

from kailab.model import quantities
from kailab.model.pod_resources import Amounts, format_amount
from kailab.model.validation.field_rules import field_faults
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import OWN_RESOURCES, check_selector

OF_CLAIMS = "VolumeAttributesClass"
"""The scope of volume claims; the others are of pods."""
SCOPES = (
    "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity", OF_CLAIMS,
)  # fmt: skip
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_OF_PODS = ("Container", "Pod")
LIMIT_TYPES = ("Container", "Pod", "PersistentVolumeClaim")
CLASS_SUFFIXES = (".storageclass.storage.k8s.io", ".deviceclass.resource.k8s.io")
"""Ends of the domains by which a quota names a class: ``fast.storageclass.storage.k8s.io/requests.storage``."""
_COMPUTE = (
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage",
)  # fmt: skip
_OBJECTS = (
    "services", "services.loadbalancers", "services.nodeports", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
)  # fmt: skip
_STORAGE = ("persistentvolumeclaims", "requests.storage")
_OPPOSITE = (("Terminating", "NotTerminating"), ("BestEffort", "NotBestEffort"))


def check_limit_range(faults: Faults, obj: dict[str, Any]) -> None:
    """The rules of a LimitRange by itself. Source: Kubernetes ValidateLimitRange."""
    spec = faults.mapping(obj, "spec", "spec") or {}
    seen: set[str] = set()
    for path, item in faults.mappings(spec, "limits", "spec.limits"):
        type = faults.text(item, "type", f"{path}.type", required=True)
        if type in seen:
            faults.add(f"{path}.type", f"{type} is given twice")
        # A name with a domain is another plugin's.
        if type and type not in LIMIT_TYPES and "/" not in type:
            faults.wrong(f"{path}.type", type, " or ".join(LIMIT_TYPES))
        seen.add(type or "")
        amounts: dict[str, Amounts] = {}
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            amounts[field] = _amounts(faults, item, field, f"{path}.{field}")
        if type == "Pod":
            for field in ("default", "defaultRequest"):
                if amounts[field]:
                    faults.add(f"{path}.{field}", "may not be given where the type is Pod")
        if type == "PersistentVolumeClaim" and "storage" not in {**amounts["min"], **amounts["max"]}:
            faults.add(f"{path}.{'max' if amounts['max'] else 'min'}", "needs a minimum or a maximum of storage")
        for low, high in (
            ("min", "defaultRequest"),
            ("min", "default"),
            ("min", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "max"),
            ("default", "max"),
        ):
            for name, amount in amounts[low].items():
                if name in amounts[high] and amount > amounts[high][name]:
                    faults.add(
                        f"{path}.{low}[{name}]", f"is more than {high}, {format_amount(name, amounts[high][name])}"
                    )
        for name, ratio in amounts["maxLimitRequestRatio"].items():
            least, most = amounts["min"].get(name), amounts["max"].get(name)
            if ratio < 1:
                faults.add(f"{path}.maxLimitRequestRatio[{name}]", "is less than 1")
            elif least and most and ratio > most / least:
                faults.add(f"{path}.maxLimitRequestRatio[{name}]", "is more than max is times min")
        for field, found in amounts.items():
            for name in found:
                if (
                    "/" not in name
                    and type in _OF_PODS
                    and name not in OWN_RESOURCES
                    and not name.startswith("hugepages-")
                ):
                    faults.add(f"{path}.{field}[{name:.80}]", f"is not a resource of a {type}")


def _amounts(faults: Faults, item: dict[str, Any], field: str, path: str) -> Amounts:
    """The readable amounts of a limit. Any quantity will do, of devices too."""
    found: Amounts = {}
    for name, amount in (faults.mapping(item, field, path) or {}).items():
        exact = faults.read(quantities.parse, amount, f"{path}[{name:.80}]")
        if exact is not None:
            found[name] = exact
    return found


def check_resource_quota(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec") or {}
    for name, amount in (faults.mapping(spec, "hard", "spec.hard") or {}).items():
        at = f"spec.hard[{name:.80}]"
        exact = faults.read(quantities.parse, amount, at)
        if exact is None:
            continue
        if not _is_counted(name):
            faults.add(
                at,
                "is not a resource that a quota can bound; expected cpu, memory or ephemeral-storage, alone or after requests. "
                "or limits., requests.DOMAIN/NAME, pods, count/PLURAL or count/PLURAL.GROUP",
            )
        elif exact.denominator != 1 and not name.rpartition(".")[2].endswith(("cpu", "memory", "storage")):
            faults.wrong(at, amount, "a whole number")
    scopes = [scope for scope in faults.items(spec, "scopes", "spec.scopes") or () if isinstance(scope, str)]
    selector = faults.mapping(spec, "scopeSelector", "spec.scopeSelector") or {}
    for index, scope in enumerate(scopes):
        if scope not in SCOPES:
            faults.wrong(f"spec.scopes[{index}]", scope, " or ".join(SCOPES))
    for path, term in faults.mappings(selector, "matchExpressions", "spec.scopeSelector.matchExpressions"):
        name_of_scope = faults.one_of(term, "scopeName", f"{path}.scopeName", SCOPES)
        operator = faults.one_of(term, "operator", f"{path}.operator", OPERATORS)
        values = faults.items(term, "values", f"{path}.values") or []
        if name_of_scope and name_of_scope not in ("PriorityClass", OF_CLAIMS) and operator not in (None, "Exists"):
            faults.wrong(f"{path}.operator", operator, f"Exists for the scope {name_of_scope}")
        if operator in ("In", "NotIn") and not values:
            faults.add(f"{path}.values", f"must not be empty for {operator}")
        if operator in ("Exists", "DoesNotExist") and values:
            faults.add(f"{path}.values", f"must be empty for {operator}")
    named = {
        *scopes,
        *(term.get("scopeName") for term in selector.get("matchExpressions") or () if isinstance(term, dict)),
    }
    for name in spec.get("hard") or () if isinstance(spec.get("hard"), dict) else ():
        for scope in sorted(scope for scope in named if isinstance(scope, str) and not _may_bound(scope, name)):
            faults.add(f"spec.hard[{name:.80}]", f"can't be bounded in the scope {scope}")
    for one, other in _OPPOSITE:
        if one in named and other in named:
            faults.add("spec.scopes", f"{one} and {other} can't be given together")


def _may_bound(scope: str, name: str) -> bool:
    """Whether Kubernetes takes a quota of this name in a scope. Names that are not Kubernetes' own it takes in each. Source:
    IsResourceQuotaScopeValidForResource."""
    if scope == OF_CLAIMS:
        return name not in ("pods", *_COMPUTE, *_OBJECTS)
    return name not in ((*_COMPUTE, *_OBJECTS, *_STORAGE) if scope == "BestEffort" else (*_OBJECTS, *_STORAGE))


def advise_resource_quota(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on names that Kubernetes takes and counts nothing for: of a resource with a domain a quota bounds only the requests."""
    for name in (obj.get("spec") or {}).get("hard") or ():
        bare = name.removeprefix("limits.")
        if bare.partition("/")[0].endswith(CLASS_SUFFIXES):
            continue
        if "/" in bare and not bare.startswith(("count/", "requests.")):
            faults.add(
                f"spec.hard[{name:.80}]", f"bounds nothing: of {bare:.80} a quota counts only requests.{bare:.80}"
            )


def _is_counted(name: str) -> bool:
    """Whether Kubernetes takes the name in a quota: an unknown bare name is refused, a name with a domain is counted for
    nothing. Source: IsStandardQuotaResourceName."""
    if "/" in name or name.startswith(("hugepages-", "requests.hugepages-")):
        return True
    return name in ("pods", *_COMPUTE, *_OBJECTS, *_STORAGE)


def check_disruption_budget(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        faults.add("spec.maxUnavailable", "can't be given together with minAvailable")
    for field in ("minAvailable", "maxUnavailable"):
        text = spec.get(field)
        if isinstance(text, str) and text.endswith("%") and text[:-1].isdecimal() and int(text[:-1]) > 100:
            faults.wrong(f"spec.{field}", text, "100% at most")
    policies = ("IfHealthyBudget", "AlwaysAllow")
    faults.one_of(spec, "unhealthyPodEvictionPolicy", "spec.unhealthyPodEvictionPolicy", policies)
    if selector := faults.mapping(spec, "selector", "spec.selector"):
        check_selector(faults, selector, "spec.selector")


ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


VOLUME_SOURCES = (
    "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker", "gcePersistentDisk",
    "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO",
    "storageos", "vsphereVolume",
)  # fmt: skip


def check_volume(faults: Faults, obj: dict[str, Any]) -> None:
    """The source and the values of a volume. A volume that only has to exist needs neither modes nor a size."""
    spec = faults.mapping(obj, "spec", "spec") or {}
    sources = [name for name in VOLUME_SOURCES if spec.get(name) is not None]
    if len(sources) > 1:
        faults.add(f"spec.{sources[1]}", f"can't be given together with {sources[0]}")
    _check_modes(faults, spec)
    faults.one_of(spec, "volumeMode", "spec.volumeMode", ("Filesystem", "Block"))
    policies = ("Retain", "Delete", "Recycle")
    faults.one_of(spec, "persistentVolumeReclaimPolicy", "spec.persistentVolumeReclaimPolicy", policies)
    if "local" in sources and not spec.get("nodeAffinity"):
        faults.add("spec.nodeAffinity", "is required for a local volume")
    for field, message in field_faults("V1PersistentVolumeSpec", spec):
        faults.ratchet(f"spec.{field}", message)


def check_storage_class(faults: Faults, obj: dict[str, Any]) -> None:
    faults.one_of(obj, "reclaimPolicy", "reclaimPolicy", ("Delete", "Retain"))
    faults.one_of(obj, "volumeBindingMode", "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))


def _check_modes(faults: Faults, spec: dict[str, Any]) -> None:
    modes = faults.items(spec, "accessModes", "spec.accessModes") or []
    for index, mode in enumerate(modes):
        if mode not in ACCESS_MODES:
            faults.wrong(f"spec.accessModes[{index}]", mode, " or ".join(ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        faults.add("spec.accessModes", "ReadWriteOncePod can't be given together with other modes")


def check_volume_claim(faults: Faults, obj: dict[str, Any]) -> None:
    """The values of a claim. Fields that an API server requires may be missing: a claim that only has to exist needs none."""
    spec = faults.mapping(obj, "spec", "spec") or {}
    _check_modes(faults, spec)
    faults.one_of(spec, "volumeMode", "spec.volumeMode", ("Filesystem", "Block"))
    if selector := faults.mapping(spec, "selector", "spec.selector"):
        check_selector(faults, selector, "spec.selector")
