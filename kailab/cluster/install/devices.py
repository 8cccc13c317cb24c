"""The GPUs of a fleet for dynamic resource allocation: a DeviceClass, and ResourceSlices for each node.

They look as NVIDIA's DRA driver publishes them: driver ``gpu.nvidia.com``, a pool per node, a device per GPU with its
type, model and UUID as attributes and its memory as capacity. Split GPUs (MIG) are not published.

A GPU is handed out either by the device plugin (``nvidia.com/gpu``) or by claims, because schedulers add up both. So
nodes whose GPUs are published here are those of ``claimed_nodes``, without the device plugin's resource.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from kailab.cluster.protocol import Object
from kailab.fleet.fleet import Fleet, Pool
from kailab.model import labels

API_VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = "gpu.nvidia.com"
MOST_DEVICES = 128
"""Devices in one ResourceSlice. Source: resource.k8s.io/v1."""


def furnishings(fleet: Fleet, devices: bool, *, beside_real: bool = False) -> list[Object]:
    """All objects of a fleet, nodes included. ``devices``: publish its GPUs for claims instead of the device plugin's
    resource. ``beside_real``: see ``Fleet.nodes``."""
    others = [obj for obj in fleet.objects() if obj["kind"] != "Node"]
    if not devices:
        return [*others, *fleet.nodes(beside_real=beside_real)]
    return [*others, *claimed_nodes(fleet, beside_real=beside_real), *fleet_devices(fleet)]


def fleet_devices(fleet: Fleet) -> list[Object]:
    """resource.k8s.io/v1 objects: the DeviceClass, then ResourceSlices in the order of the fleet's nodes."""
    return [_device_class(), *(slice_ for pool in fleet.pools for slice_ in _slices(pool))]


def claimed_nodes(fleet: Fleet, *, beside_real: bool = False) -> list[Object]:
    """The fleet's nodes without the device plugin's resource, for a cluster that has ``fleet_devices``.
    ``beside_real``: see ``Pool.nodes``."""
    return [_without_plugin(node) for node in fleet.nodes(beside_real=beside_real)]


def _without_plugin(node: Object) -> Object:
    status = node["status"]
    left = {
        field: {name: amount for name, amount in status[field].items() if name != labels.GPU_RESOURCE}
        for field in ("capacity", "allocatable")
    }
    return {**node, "status": {**status, **left}}


def _device_class() -> Object:
    wanted = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": DEVICE_CLASS},
        "spec": {"selectors": [{"cel": {"expression": wanted}}]},
    }


def _slices(pool: Pool) -> Iterator[Object]:
    if not pool.whole_gpus:
        return
    # resourceSliceCount says how many slices belong together, so that nobody allocates from an incomplete set.
    parts = [range(first, min(first + MOST_DEVICES, pool.gpus)) for first in range(0, pool.gpus, MOST_DEVICES)]
    for position in range(pool.count):
        node = pool.node_name(position)
        for number, part in enumerate(parts):
            yield {
                "apiVersion": API_VERSION,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-{DRIVER}-{number}"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": len(parts)},
                    "devices": [_device(pool, node, index) for index in part],
                },
            }


def _device(pool: Pool, node: str, index: int) -> Object:
    attributes = {
        "type": {"string": "gpu"},
        "index": {"int": index},
        # Derived from the name, so that the same fleet has the same devices.
        "uuid": {"string": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{node}')}"},
    }
    if pool.gpu_model:
        attributes["productName"] = {"string": pool.gpu_model[:64]}
    device: Object = {"name": f"gpu-{index}", "attributes": attributes}
    if pool.gpu_memory_mib:
        device["capacity"] = {"memory": {"value": f"{pool.gpu_memory_mib}Mi"}}
    return device
