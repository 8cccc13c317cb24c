"""LeaderWorkerSet: groups of pods, each of a leader and its workers."""

from __future__ import annotations

from typing import Any

from kailab.kinds.kubernetes import check_claim_templates, spec_check, unread_of_claims, unread_retention
from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.labels import SUBGROUP_EXCLUSIVE
from kailab.model.objects import annotations_of
from kailab.model.validation.core import shape_of_type
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template
from kailab.model.validation.shapes import number_or_percentage

_TEMPLATE = "spec.leaderWorkerTemplate"


def _check(faults: Faults, obj: dict[str, Any]) -> None:
    _check_spec(faults, obj)
    annotations, spec = annotations_of(obj), obj.get("spec")
    template = spec.get("leaderWorkerTemplate") if isinstance(spec, dict) else None
    if SUBGROUP_EXCLUSIVE in annotations and isinstance(template, dict) and not template.get("subGroupPolicy"):
        faults.add(f"metadata.annotations[{SUBGROUP_EXCLUSIVE}]", f"needs {_TEMPLATE}.subGroupPolicy")


@spec_check
def _check_spec(faults: Faults, spec: dict[str, Any]) -> None:
    """Source: LeaderWorkerSet v0.9.0, pkg/webhooks/leaderworkerset_webhook.go."""
    faults.integer(spec, "replicas", "spec.replicas")
    _check_rollout(faults, spec)
    path = _TEMPLATE
    template = faults.mapping(spec, "leaderWorkerTemplate", path, required=True)
    if template is None:
        return
    size = faults.integer(template, "size", f"{path}.size", least=1)
    _check_subgroups(faults, template, 1 if size is None else size)
    check_claim_templates(faults, template, path)
    for key in ("leaderTemplate", "workerTemplate"):
        pod = faults.mapping(template, key, f"{path}.{key}", required=key == "workerTemplate")
        if pod is not None:
            inner = Faults()
            check_template(inner, {"template": pod}, "")
            for take, found in ((faults.add, inner.found), (faults.ratchet, inner.ratcheted)):
                for field, message in found:
                    take(f"{path}.{key}{field.removeprefix('.template')}", message)


def _check_subgroups(faults: Faults, template: dict[str, Any], size: int) -> None:
    path = f"{_TEMPLATE}.subGroupPolicy"
    policy = faults.mapping(template, "subGroupPolicy", path)
    length = faults.integer(policy, "subGroupSize", f"{path}.subGroupSize", least=1) if policy else None
    if policy is None or length is None or length < 1:
        return
    excluded = policy.get("subGroupPolicyType") == "LeaderExcluded"
    if length > size:
        faults.wrong(f"{path}.subGroupSize", length, f"at most the size of a group ({size})")
    elif (size - 1) % length and (excluded or size % length):
        expected = "a divisor of size - 1" if excluded else "a divisor of size or of size - 1"
        faults.wrong(f"{path}.subGroupSize", length, f"{expected} ({size} pods in a group)")


def _check_rollout(faults: Faults, spec: dict[str, Any]) -> None:
    path = "spec.rolloutStrategy.rollingUpdateConfiguration"
    strategy = spec.get("rolloutStrategy")
    rolling = strategy.get("rollingUpdateConfiguration") if isinstance(strategy, dict) else None
    if not isinstance(rolling, dict):
        return
    faults.integer(rolling, "partition", f"{path}.partition")
    amounts = {"maxUnavailable": rolling.get("maxUnavailable", 1), "maxSurge": rolling.get("maxSurge", 0)}
    for name, amount in amounts.items():
        if number_or_percentage(amount) or (isinstance(amount, str) and int(amount[:-1]) > 100):
            faults.wrong(f"{path}.{name}", amount, "a whole number of 0 or more, or a percentage up to 100%")
            return
    if all(amount in (0, "0%") for amount in amounts.values()) and spec.get("replicas", 1) != 0:
        faults.add(f"{path}.maxUnavailable", "is 0, and so is maxSurge; expected one of them above 0")


_ROLLING = ("spec", "rolloutStrategy", "rollingUpdateConfiguration")

KINDS = (
    Kind(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        versions=("v1",),
        plural="leaderworkersets",
        short=("lws",),
        defaults=spec_defaults({"replicas": 1, "startupPolicy": "LeaderCreated"}, template=False),
        check=_check,
        shape=shape_of_type("LeaderWorkerSet"),
        controller="kailab.workloads.leaderworkerset:LeaderWorkerSetController",
        watches=("Pod",),
        wanted_pods="kailab.workloads.wanted_pods:leader_worker_set",
        grouping="kailab.grouping.families.leaderworkerset:LEADER_WORKER_SET",
        in_all=True,
        scalable=True,
        immutable=(f"{_TEMPLATE}.subGroupPolicy.subGroupSize",),
        unread=(
            Unread(
                (*_ROLLING, "maxUnavailable"), "so many groups are replaced at once; here one after the other", (1, "1")
            ),
            Unread((*_ROLLING, "maxSurge"), "more groups are made while others are replaced"),
            *unread_of_claims("spec", "leaderWorkerTemplate", "volumeClaimTemplates", "*", "spec"),
            *unread_retention("spec", "leaderWorkerTemplate"),
        ),
    ),
)
