"""Grove: PodCliqueSet, and what its operator makes of it (PodCliques, PodCliqueScalingGroups, PodGangs)."""

from __future__ import annotations

from typing import Any

from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type

_GROVE = "kailab.grouping.families.grove:GROVE"
_SCALED = "a HorizontalPodAutoscaler changes how many pods there are"
_SHARED = "pods share ResourceClaims that the operator makes, and wait for them"
_LATER = "an init container of each pod waits for other cliques, and the pod holds its resources meanwhile"


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
        shape=shape_of_type("PodCliqueSet"),
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
        shape=shape_of_type("PodClique"),
        describes="kailab.workloads.grove:pods_of_clique",
        wanted_pods="kailab.workloads.wanted_pods:replicas",
        scalable=True,
    ),
    _grove(
        "PodCliqueScalingGroup",
        "pcsg",
        controller="PodCliqueScalingGroupController",
        defaults=spec_defaults({"replicas": 1, "minAvailable": 1}, template=False),
        shape=shape_of_type("PodCliqueScalingGroup"),
        scalable=True,
    ),
    # It owns no pods, but pod grouping reads it as it reads owners.
    _grove("PodGang", "pgang", group="scheduler.grove.io", acts=True),
    _grove(
        "ClusterTopologyBinding",
        "ctb",
        controller="ClusterTopologyBindingController",
        shape=shape_of_type("ClusterTopologyBinding"),
        namespaced=False,
        owns_pods=False,
    ),
    _grove("PodGangSet", "pgs", grouping=_GROVE, in_cluster="an older operator of Grove makes the pods of its cliques"),
)
