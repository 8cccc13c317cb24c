"""Kinds for devices: the devices of nodes and drivers (DRA, NodeResourceTopology), and claims for them."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind
from kailab.model.validation.core import shape_of_type


def _dra(kind: str, plural: str, check: str, **parts: Any) -> Kind:
    return Kind(
        group="resource.k8s.io",
        kind=kind,
        versions=("v1", "v1beta2", "v1beta1", "v1alpha3"),
        plural=plural,
        schema=f"V1{kind}",
        check=f"kailab.model.validation.devices:{check}",
        owns_pods=False,
        **parts,
    )


KINDS = (
    _dra(
        "ResourceClaim",
        "resourceclaims",
        "check_resource_claim",
        status_schema="V1ResourceClaimStatus",
        immutable=("spec",),
    ),
    _dra("ResourceClaimTemplate", "resourceclaimtemplates", "check_resource_claim_template", immutable=("spec",)),
    _dra("DeviceClass", "deviceclasses", "check_device_class", namespaced=False),
    _dra(
        "ResourceSlice",
        "resourceslices",
        "check_resource_slice",
        namespaced=False,
        immutable=("spec.driver", "spec.nodeName", "spec.pool.name"),
    ),
    Kind(
        group="topology.node.k8s.io",
        kind="NodeResourceTopology",
        versions=("v1alpha2", "v1alpha1"),
        plural="noderesourcetopologies",
        namespaced=False,
        short=("nrt",),
        shape=shape_of_type("NodeResourceTopology"),
        owns_pods=False,
    ),
)
