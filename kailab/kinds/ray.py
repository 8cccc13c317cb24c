"""Ray: RayCluster, and RayJob and RayService, which create one."""

from __future__ import annotations

from typing import Any

from kailab.kinds.kubernetes import spec_check
from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type
from kailab.model.validation.fields import Faults
from kailab.model.validation.pods import check_template


@spec_check
def _check_cluster(faults: Faults, spec: dict[str, Any]) -> None:
    head = faults.mapping(spec, "headGroupSpec", "spec.headGroupSpec", required=True)
    if head is not None:
        check_template(faults, head, "spec.headGroupSpec")
    for path, group in faults.mappings(spec, "workerGroupSpecs", "spec.workerGroupSpecs"):
        for key in ("replicas", "minReplicas", "maxReplicas"):
            faults.integer(group, key, f"{path}.{key}")
        faults.integer(group, "numOfHosts", f"{path}.numOfHosts", least=1)
        check_template(faults, group, path)


def _ray(kind: str, plural: str, name: str, *above: str, **parts: Any) -> Kind:
    """``above``: the path to the spec of the RayCluster that it makes."""
    return Kind(
        group="ray.io",
        kind=kind,
        versions=("v1", "v1alpha1"),
        plural=plural,
        shape=shape_of_type(kind),
        controller=f"kailab.workloads.ray:{kind}Controller",
        grouping=f"kailab.grouping.families.ray:{name}",
        wanted_pods=f"kailab.workloads.wanted_pods:{name.lower()}",
        label_domains=("ray.io",),
        immutable_while_set=("spec.managedBy", *(f"{path}.managedBy" for path in above)),
        **parts,
    )


_MANAGED_BY = Unread(("spec", "managedBy"), "the controller that it names makes the pods", ("ray.io/kuberay-operator",))


def _autoscaling(*above: str) -> Unread:
    """The unread field for autoscaling of a RayCluster's spec. ``above``: the path to the spec."""
    return Unread(
        (*above, "enableInTreeAutoscaling"),
        "Ray's autoscaler changes how many workers there are",
    )


KINDS = (
    _ray(
        "RayCluster",
        "rayclusters",
        "RAY_CLUSTER",
        check=_check_cluster,
        in_all=True,
        unread=(
            _autoscaling("spec"),
            Unread(("spec", "upgradeStrategy", "type"), "a change of a template replaces all pods", only=("Recreate",)),
            _MANAGED_BY,
        ),
    ),
    _ray(
        "RayJob",
        "rayjobs",
        "RAY_JOB",
        "spec.rayClusterSpec",
        needs="kailab.workloads.ray:needs_of_ray_job",
        suspended_by="suspend",
        watches=("RayCluster",),
        in_all=True,
        unread=(
            _autoscaling("spec", "rayClusterSpec"),
            _MANAGED_BY,
        ),
    ),
    _ray(
        "RayService",
        "rayservices",
        "RAY_SERVICE",
        "spec.rayClusterConfig",
        unread=(_autoscaling("spec", "rayClusterConfig"), _MANAGED_BY),
    ),
)
