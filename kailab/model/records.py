"""Typed records of the objects that scheduling decisions are made from. They hold the fields that scheduling reads.

Decode with ``decoding.convert(obj, PodObject)`` from a dict or ``decoding.decode_json(data, PodObject)`` from bytes. Unknown fields are
ignored. Field names are those of Kubernetes in snake case. Quantities keep their written form (int, float or text; see
``kailab.model.quantities``), and so do times (see ``kailab.model.times``). Records are read-only.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import field

# --- metadata and conditions ------------------------------------------------------------------------------------------

Quantity: TypeAlias = int | float | str
IntOrString: TypeAlias = int | str
Resources: TypeAlias = dict[str, Quantity]


class KubernetesRecord(msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Base: camelCase names, frozen, outside the cycle collector (the trees hold no cycles)."""


class OwnerReference(KubernetesRecord, frozen=True, kw_only=True):
    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(KubernetesRecord, frozen=True, kw_only=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(KubernetesRecord, frozen=True, kw_only=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class AnyObject(KubernetesRecord, frozen=True, kw_only=True):
    """An object of any kind: its metadata."""

    metadata: Metadata


# --- affinity, tolerations, topology spread ---------------------------------------------------------------------------


class SelectorRequirement(KubernetesRecord, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(KubernetesRecord, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()


class NodeSelectorTerm(KubernetesRecord, frozen=True, kw_only=True):
    match_expressions: tuple[SelectorRequirement, ...] = ()
    match_fields: tuple[SelectorRequirement, ...] = ()


class NodeSelector(KubernetesRecord, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(KubernetesRecord, frozen=True, kw_only=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(KubernetesRecord, frozen=True, kw_only=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(KubernetesRecord, frozen=True, kw_only=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubernetesRecord, frozen=True, kw_only=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(KubernetesRecord, frozen=True, kw_only=True):
    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(KubernetesRecord, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PodToleration(KubernetesRecord, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeTaint(KubernetesRecord, frozen=True, kw_only=True):
    key: str
    value: str = ""
    effect: str = "NoSchedule"


class TopologySpreadConstraint(KubernetesRecord, frozen=True, kw_only=True):
    topology_key: str
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None


# --- nodes ------------------------------------------------------------------------------------------------------------


class NodeSpec(KubernetesRecord, frozen=True, kw_only=True):
    unschedulable: bool = False
    taints: tuple[NodeTaint, ...] = ()


class NodeStatus(KubernetesRecord, frozen=True, kw_only=True):
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()


class NodeObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# --- pods -------------------------------------------------------------------------------------------------------------


class ClaimName(KubernetesRecord, frozen=True, kw_only=True):
    name: str
    request: str = ""


class ResourceRequirements(KubernetesRecord, frozen=True, kw_only=True):
    requests: Resources = {}
    limits: Resources = {}
    claims: tuple[ClaimName, ...] = ()


class ContainerPort(KubernetesRecord, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(KubernetesRecord, frozen=True, kw_only=True):
    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""  # "Always" on an init container makes it a sidecar


class SchedulingGate(KubernetesRecord, frozen=True, kw_only=True):
    name: str


class PodResourceClaim(KubernetesRecord, frozen=True, kw_only=True):
    """A claim of a pod: the name of a ResourceClaim, or of a template for one."""

    name: str
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class ClaimVolumeSource(KubernetesRecord, frozen=True, kw_only=True):
    claim_name: str = ""


class NamedSource(KubernetesRecord, frozen=True, kw_only=True):
    """A volume from a ConfigMap (``name``) or a Secret (``secretName``)."""

    name: str = ""
    secret_name: str = ""
    optional: bool = False


class Volume(KubernetesRecord, frozen=True, kw_only=True):
    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    config_map: NamedSource | None = None
    secret: NamedSource | None = None


class PodSpec(KubernetesRecord, frozen=True, kw_only=True):
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
    tolerations: tuple[PodToleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    overhead: Resources = {}
    resources: ResourceRequirements | None = None  # of the pod as a whole
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    host_network: bool = False
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class ClaimStatus(KubernetesRecord, frozen=True, kw_only=True):
    name: str
    resource_claim_name: str = ""


class PodStatus(KubernetesRecord, frozen=True, kw_only=True):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""
    resource_claim_statuses: tuple[ClaimStatus, ...] = ()


class PodObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# --- devices (dynamic resource allocation) ----------------------------------------------------------------------------


class CelSelector(KubernetesRecord, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(KubernetesRecord, frozen=True, kw_only=True):
    cel: CelSelector | None = None


class ExactDeviceRequest(KubernetesRecord, frozen=True, kw_only=True):
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceRequest(KubernetesRecord, frozen=True, kw_only=True):
    """In resource.k8s.io/v1 the request is under ``exactly``; earlier versions have its fields here."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    selectors: tuple[DeviceSelector, ...] = ()

    @property
    def wish(self) -> ExactDeviceRequest:
        """The request in the form of v1, whichever version was written."""
        if self.exactly is not None:
            return self.exactly
        return ExactDeviceRequest(
            device_class_name=self.device_class_name,
            allocation_mode=self.allocation_mode,
            count=self.count,
            selectors=self.selectors,
        )


class DeviceClaim(KubernetesRecord, frozen=True, kw_only=True):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(KubernetesRecord, frozen=True, kw_only=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceResult(KubernetesRecord, frozen=True, kw_only=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceAllocation(KubernetesRecord, frozen=True, kw_only=True):
    results: tuple[DeviceResult, ...] = ()


class ClaimAllocation(KubernetesRecord, frozen=True, kw_only=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None


class ClaimConsumer(KubernetesRecord, frozen=True, kw_only=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(KubernetesRecord, frozen=True, kw_only=True):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaimObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(KubernetesRecord, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplateObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(KubernetesRecord, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClassObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


class SliceDevice(KubernetesRecord, frozen=True, kw_only=True):
    name: str = ""
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}


class ResourcePool(KubernetesRecord, frozen=True, kw_only=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(KubernetesRecord, frozen=True, kw_only=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    all_nodes: bool = False
    devices: tuple[SliceDevice, ...] = ()


class ResourceSliceObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- KAI: PodGroup, Topology; PriorityClass --------------------------------------------------------------------


class TopologyConstraint(KubernetesRecord, frozen=True, kw_only=True):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroupSpec(KubernetesRecord, frozen=True, kw_only=True):
    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(KubernetesRecord, frozen=True, kw_only=True):
    queue: str = ""
    min_member: int | None = None
    min_sub_group: int | None = None
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint = TopologyConstraint()
    sub_groups: tuple[SubGroupSpec, ...] = ()
    mark_unschedulable: bool | None = None
    scheduling_backoff: int | None = None
    preemption_delay: str | None = None
    staleness_grace_period: str | None = None


class PodGroupObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: PodGroupSpec = PodGroupSpec()
    status: dict[str, Any] = {}


class TopologyLevel(KubernetesRecord, frozen=True, kw_only=True):
    node_label: str
    alias: str = ""


class TopologySpec(KubernetesRecord, frozen=True, kw_only=True):
    levels: tuple[TopologyLevel, ...] = ()


class TopologyObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    spec: TopologySpec = TopologySpec()


class PriorityClassObject(KubernetesRecord, frozen=True, kw_only=True):
    metadata: Metadata
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
    description: str = ""
