"""Devices by claim (dynamic resource allocation)."""

from __future__ import annotations

from typing import Any

from kailab.model.objects.affinity import NodeSelector
from kailab.model.objects.base import Metadata, Record


class CelSelector(Record, frozen=True, kw_only=True):
    expression: str = ""


class DeviceSelector(Record, frozen=True, kw_only=True):
    cel: CelSelector | None = None


class ExactDeviceRequest(Record, frozen=True, kw_only=True):
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceRequest(Record, frozen=True, kw_only=True):
    """In resource.k8s.io/v1 the wish is under ``exactly``; in the versions before it stood here itself."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    selectors: tuple[DeviceSelector, ...] = ()

    @property
    def wish(self) -> ExactDeviceRequest:
        """The one form, whichever version was written."""
        if self.exactly is not None:
            return self.exactly
        return ExactDeviceRequest(
            device_class_name=self.device_class_name,
            allocation_mode=self.allocation_mode,
            count=self.count,
            selectors=self.selectors,
        )


class DeviceClaim(Record, frozen=True, kw_only=True):
    requests: tuple[DeviceRequest, ...] = ()


class ResourceClaimSpec(Record, frozen=True, kw_only=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceResult(Record, frozen=True, kw_only=True):
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""


class DeviceAllocation(Record, frozen=True, kw_only=True):
    results: tuple[DeviceResult, ...] = ()


class ClaimAllocation(Record, frozen=True, kw_only=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None


class ClaimConsumer(Record, frozen=True, kw_only=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ResourceClaimStatus(Record, frozen=True, kw_only=True):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()


class ResourceClaim(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Record, frozen=True, kw_only=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Record, frozen=True, kw_only=True):
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceClass(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()


class Device(Record, frozen=True, kw_only=True):
    name: str = ""
    attributes: dict[str, Any] = {}
    capacity: dict[str, Any] = {}


class ResourcePool(Record, frozen=True, kw_only=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class ResourceSliceSpec(Record, frozen=True, kw_only=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str = ""
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()


class ResourceSlice(Record, frozen=True, kw_only=True):
    metadata: Metadata
    spec: ResourceSliceSpec = ResourceSliceSpec()
