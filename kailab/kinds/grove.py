"""Grove: PodCliqueSet, and what its operator makes of it (PodCliques, PodCliqueScalingGroups, PodGangs)."""

from __future__ import annotations

from typing import Any

from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape
from kailab.model.validation.shapes import COUNT, PODS, TEXT, Check, items, named, record, table, with_spec

_GROVE = "kailab.grouping.families.grove:GROVE"
_TOPOLOGY = record({"topologyName": TEXT, "packDomain": TEXT, "pack": record({"required": TEXT, "preferred": TEXT})})
_SCALED = "a HorizontalPodAutoscaler changes how many pods there are"
_SHARED = "pods share ResourceClaims that the operator makes, and wait for them"
_LATER = "an init container of each pod waits for other cliques, and the pod holds its resources meanwhile"


def _clique_spec() -> dict[str, Check]:
    return {
        "roleName": TEXT,
        "replicas": PODS,
        "minAvailable": COUNT,
        "podSpec": shape("V1PodSpec"),
        "startsAfter": items(TEXT),
    }


def _set_shape() -> Check:
    clique = record(
        {
            "name": TEXT,
            "labels": table(TEXT),
            "annotations": table(TEXT),
            "topologyConstraint": _TOPOLOGY,
            "spec": record(_clique_spec(), ("podSpec",)),
        },
        ("name", "spec"),
    )
    group = record(
        {
            "name": TEXT,
            "cliqueNames": items(TEXT),
            "annotations": table(TEXT),
            "replicas": PODS,
            "minAvailable": COUNT,
            "topologyConstraint": _TOPOLOGY,
        },
        ("name", "cliqueNames"),
    )
    template = record(
        {
            "cliques": named(clique),
            "cliqueStartupType": TEXT,
            "priorityClassName": TEXT,
            "topologyConstraint": _TOPOLOGY,
            "podCliqueScalingGroups": named(group),
        },
        ("cliques",),
    )
    return with_spec(record({"replicas": PODS, "template": template}, ("template",)))


def _clique_shape() -> Check:
    return with_spec(record(_clique_spec(), ("podSpec",)))


def _scaling_group_shape() -> Check:
    return with_spec(record({"replicas": PODS, "minAvailable": COUNT, "cliqueNames": items(TEXT)}, ("cliqueNames",)))


def _topology_binding_shape() -> Check:
    level = record({"domain": TEXT, "key": TEXT}, ("domain", "key"))
    return with_spec(record({"levels": items(level)}, ("levels",)))


def _grove(kind: str, short: str, *, controller: str = "", group: str = "grove.io", **parts: Any) -> Kind:
    return Kind(
        group=group,
        label_domains=("grove.io",),
        kind=kind,
        versions=("v1alpha1",),
        plural=f"{kind.lower()}s",
        short=(short,),
        controller=f"kailab.workloads.grove:{controller}" if controller else None,
        **parts,
    )


_CLIQUES = ("spec", "template", "cliques", "*")
_GROUPS = ("spec", "template", "podCliqueScalingGroups", "*")

KINDS = (
    _grove(
        "PodCliqueSet",
        "pcs",
        controller="PodCliqueSetController",
        defaults=spec_defaults({"replicas": 0}, template=False),
        shape=_set_shape,
        check="kailab.workloads.grove:check_pod_clique_set",
        immutable=tuple(
            f"spec.template.{field}"
            for field in ("cliques", "cliqueStartupType", "podCliqueScalingGroups", "topologyConstraint")
        ),
        fixed="kailab.workloads.grove:fixed_of_pod_clique_set",
        describes="kailab.workloads.grove:pods_of_set",
        grouping=_GROVE,
        wanted_pods="kailab.workloads.wanted_pods:pod_clique_set",
        watches=("ClusterTopologyBinding",),
        in_all=True,
        scalable=True,
        unread=(
            Unread((*_CLIQUES, "spec", "autoScalingConfig"), _SCALED),
            Unread((*_GROUPS, "scaleConfig"), _SCALED),
            Unread((*_CLIQUES, "spec", "startsAfter"), _LATER),
            Unread(("spec", "template", "cliqueStartupType"), _LATER, ("CliqueStartupTypeAnyOrder",)),
            Unread(
                ("spec", "updateStrategy", "type"),
                "pods of an older template stay until somebody deletes them",
                only=("OnDelete",),
            ),
            Unread(("spec", "template", "resourceSharing"), _SHARED),
            Unread((*_CLIQUES, "resourceSharing"), _SHARED),
            Unread((*_GROUPS, "resourceSharing"), _SHARED),
            Unread(
                ("spec", "template", "terminationDelay"),
                "a replica of which too few pods have been running for so long is deleted and made again",
            ),
        ),
    ),
    _grove(
        "PodClique",
        "pclq",
        controller="PodCliqueController",
        shape=_clique_shape,
        describes="kailab.workloads.grove:pods_of_clique",
        wanted_pods="kailab.workloads.wanted_pods:replicas",
        scalable=True,
    ),
    _grove(
        "PodCliqueScalingGroup",
        "pcsg",
        controller="PodCliqueScalingGroupController",
        shape=_scaling_group_shape,
        scalable=True,
    ),
    # It owns no pods, but pod grouping reads it as it reads owners.
    _grove("PodGang", "pgang", group="scheduler.grove.io", acts=True),
    _grove(
        "ClusterTopologyBinding",
        "ctb",
        controller="ClusterTopologyBindingController",
        shape=_topology_binding_shape,
        namespaced=False,
        owns_pods=False,
    ),
    _grove("PodGangSet", "pgs", grouping=_GROVE, in_cluster="an older operator of Grove makes the pods of its cliques"),
)
