"""Write the table of ``kailab.model.validation.core`` from the models of the installed package ``kubernetes``: ``python -m tools.core_table``."""

from __future__ import annotations

import json
import re
from typing import Any

from kailab.model.kinds import KINDS
from kailab.model.validation.core import SCALARS, TABLE

_MODELS = {"V1ResourceClaim": "ResourceV1ResourceClaim"}  # a pod's entry has that name too
# Types that the models do not tell apart: texts that are quantities, mappings of integers or texts, and 64-bit integers.
_QUANTITIES = {"limits", "requests", "capacity", "allocatable", "overhead", "hard", "used", "default", "defaultRequest",
               "max", "min", "maxLimitRequestRatio", "sizeLimit", "divisor", "podFixed", "consumedCapacity", "step", "maximumVolumeSize"}  # fmt: skip
_SHARES = {"maxSurge", "maxUnavailable", "minAvailable"}
_PODS = {"replicas", "parallelism"}
_LONG = re.compile(
    r"(terminationGracePeriod|deletionGracePeriod|activeDeadline|startingDeadline|toleration|expiration)Seconds|seconds|runAs.*|fsGroup"
    r"|int|count|resourceSliceCount|.*[gG]eneration|.*Groups|sizeBytes",
    re.ASCII,
)
# Fields that an API server requires to be 0 or more, in 32 bits.
_COUNTS = {"minReadySeconds", "progressDeadlineSeconds", "ttlSecondsAfterFinished", "revisionHistoryLimit", "failedJobsHistoryLimit",
           "successfulJobsHistoryLimit", "backoffLimit", "backoffLimitPerIndex", "completions", "maxFailedIndexes", "partition", "start",
           "succeededCount", "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
           "minDomains", "maxSkew"}  # fmt: skip
_PORTS = {"containerPort", "hostPort", "port", "nodePort", "healthCheckNodePort"}
# Fields for which an API server accepts only a few values, and a controller acts on them.
_CHOICES = {
    ("V1PodFailurePolicyRule", "action"): "FailJob|FailIndex|Ignore|Count",
    ("V1PodFailurePolicyOnExitCodesRequirement", "operator"): "In|NotIn",
    ("V1PodFailurePolicyOnPodConditionsPattern", "status"): "True|False|Unknown",
    ("V1JobSpec", "podReplacementPolicy"): "TerminatingOrFailed|Failed",
    ("V1DeploymentStrategy", "type"): "Recreate|RollingUpdate",
    ("V1StatefulSetUpdateStrategy", "type"): "RollingUpdate|OnDelete",
    ("V1DaemonSetUpdateStrategy", "type"): "RollingUpdate|OnDelete",
}
_AMOUNTS = {("V1DeviceCapacity", "value"): "quantity", ("V1Counter", "value"): "quantity"}
# Fields that an API server requires although its schema does not.
_NEEDED = {
    "V1ResourceClaimTemplate": {"spec"},
    "V1ResourceClaimTemplateSpec": {"spec"},
    "V1PodTemplateSpec": {"spec"},
    "V1JobTemplateSpec": {"spec"},
}
# Fields that its schema requires and an API server takes without: empty texts and zeros are values of them.
_MAY_LACK = {
    ("V1HTTPHeader", "value"),
    ("V1Sysctl", "value"),
    ("V1SleepAction", "seconds"),
    ("V1ISCSIVolumeSource", "lun"),
}
# Status and lists that components write: missing fields are no error of a manifest. A RoleRef has a default for its group.
_LENIENT = re.compile(
    r"V1(RoleRef|Node(?!Selector|Condition)|ContainerSt|ContainerImage|AttachedVolume|DaemonEndpoint|ResourcePool|ResourceClaimConsumer).*",
    re.ASCII,
)


def made_table() -> dict[str, dict[str, str]]:
    """The table of the installed package ``kubernetes``."""
    import kubernetes.client

    table: dict[str, dict[str, str]] = {}
    kinds = [kind.schema for kind in KINDS.values() if kind.schema]
    todo = [*kinds, *(kind.status_schema for kind in KINDS.values() if kind.status_schema)]
    while todo:
        name = todo.pop()
        if name in table:
            continue
        model = getattr(kubernetes.client, _MODELS.get(name, name))
        fields: dict[str, str] = {}
        for attribute, declared in model.openapi_types.items():
            field = model.attribute_map[attribute]
            if field in ("apiVersion", "kind", "managedFields") or (
                field == "status" and name in kinds and name != "V1Node"
            ):
                continue
            choices = _CHOICES.get((name, field))
            type = f"={choices}" if choices else _AMOUNTS.get((name, field)) or _type(field, declared)
            described = model.model_fields.get(
                attribute
            )  # those named like a word of Python go by other names; none is required
            required = described is not None and described.is_required() and not _LENIENT.fullmatch(name)
            required = required and (name, field) not in _MAY_LACK
            fields[field + "!" * (required or field in _NEEDED.get(name, ()))] = type
            inner = type.strip("[]{}")
            if inner not in SCALARS and not choices:
                todo.append(inner)
        table[name] = dict(sorted(fields.items()))
    return dict(sorted(table.items()))


def _type(field: str, declared: str) -> str:
    if inner := re.fullmatch(r"[Ll]ist\[(.*)\]", declared):
        return f"[{_type('', inner[1])}]"
    if inner := re.fullmatch(r"[Dd]ict[\[(]str, (.*)[\])]", declared):
        return "{" + _type(field, inner[1]) + "}"
    if declared == "str":
        return "quantity" if field in _QUANTITIES else "str"
    if declared == "int":
        if field in _PODS or field in _COUNTS or field in _PORTS:
            return "pods" if field in _PODS else "count" if field in _COUNTS else "port"
        return "int64" if _LONG.fullmatch(field) else "int"
    if declared == "object":
        return "share" if field in _SHARES else "int|str" if field in ("port", "targetPort") else "any"
    return {"datetime": "time", "bytes": "str"}.get(declared, declared)


def written(table: dict[str, Any]) -> str:
    """The text of a table: a line for each type."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(written(made_table()), encoding="utf-8")
