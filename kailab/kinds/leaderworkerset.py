"""LeaderWorkerSet: groups of pods, each of a leader and its workers."""

from __future__ import annotations

from typing import Any

from kailab.kinds.kubernetes import check_claim_templates, spec_check, unread_of_claims
from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template
from kailab.model.validation.shapes import COUNT, MAPPING, PODS, TEXT, Check, items, record, with_spec


@spec_check
def _check(faults: Faults, spec: dict[str, Any]) -> None:
    faults.integer(spec, "replicas", "spec.replicas")
    path = "spec.leaderWorkerTemplate"
    template = faults.mapping(spec, "leaderWorkerTemplate", path, required=True)
    if template is None:
        return
    faults.integer(template, "size", f"{path}.size", least=1)
    check_claim_templates(faults, template, path)
    for key in ("leaderTemplate", "workerTemplate"):
        pod = faults.mapping(template, key, f"{path}.{key}", required=key == "workerTemplate")
        if pod is not None:
            inner = Faults()
            check_template(inner, {"template": pod}, "")
            for field, message in inner.found:
                faults.add(f"{path}.{key}{field.removeprefix('.template')}", message)


def _shape() -> Check:
    template = record(
        {
            "size": PODS,
            "leaderTemplate": shape("V1PodTemplateSpec"),
            "workerTemplate": shape("V1PodTemplateSpec"),
            "restartPolicy": TEXT,
            "subGroupPolicy": record({"subGroupSize": COUNT, "subGroupPolicyType": TEXT}),
            "volumeClaimTemplates": items(shape("V1PersistentVolumeClaim")),
            "persistentVolumeClaimRetentionPolicy": record({"whenDeleted": TEXT, "whenScaled": TEXT}),
        },
        ("workerTemplate",),
    )
    spec = {"replicas": PODS, "startupPolicy": TEXT, "leaderWorkerTemplate": template, "rolloutStrategy": MAPPING}
    return with_spec(record(spec, ("leaderWorkerTemplate",)))


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
        shape=_shape,
        controller="kailab.workloads.leaderworkerset:LeaderWorkerSetController",
        wanted_pods="kailab.workloads.wanted_pods:leader_worker_set",
        grouping="kailab.grouping.families.leaderworkerset:LEADER_WORKER_SET",
        in_all=True,
        scalable=True,
        unread=(
            Unread(
                (*_ROLLING, "maxUnavailable"), "so many groups are replaced at once; here one after the other", (1, "1")
            ),
            Unread((*_ROLLING, "maxSurge"), "more groups are made while others are replaced"),
            *unread_of_claims("spec", "leaderWorkerTemplate", "volumeClaimTemplates", "*", "spec"),
        ),
    ),
)
