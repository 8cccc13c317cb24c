"""Pods."""

from __future__ import annotations

from msgspec import field

from kailab.model.objects.affinity import Affinity, Toleration, TopologySpreadConstraint
from kailab.model.objects.base import Condition, Metadata, Record, Resources


class ClaimName(Record, frozen=True, kw_only=True):
    name: str
    request: str = ""


class ResourceRequirements(Record, frozen=True, kw_only=True):
    requests: Resources = {}
    limits: Resources = {}
    claims: tuple[ClaimName, ...] = ()


class ContainerPort(Record, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Record, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar


class SchedulingGate(Record, frozen=True, kw_only=True):
    name: str


class PodResourceClaim(Record, frozen=True, kw_only=True):
    """A claim of the pod's own: by the name of a ResourceClaim, or a template from which one is made."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class ClaimVolumeSource(Record, frozen=True, kw_only=True):
    claim_name: str = ""


class NamedSource(Record, frozen=True, kw_only=True):
    """A volume from a ConfigMap (``name``) or a Secret (``secretName``)."""

    name: str = ""
    secret_name: str = ""
    optional: bool = False


class Volume(Record, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    config_map: NamedSource | None = None
    secret: NamedSource | None = None


class PodSpec(Record, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None  # of the pod as a whole
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class ClaimStatus(Record, frozen=True, kw_only=True):
    name: str
    resource_claim_name: str = ""


class PodStatus(Record, frozen=True, kw_only=True):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class Pod(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
