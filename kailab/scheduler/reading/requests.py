"""The resource requests of a pod, summed over its containers.

Containers add up. Init containers run one after another, so their peak counts; sidecars (``restartPolicy: Always``) add to everything that
starts after them. The overhead of the runtime class is added. A limit without a request counts as the request, as in the API server.
Source: KAI pod_info.getPodResourceRequest, which follows the kubelet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.errors import InputError
from kailab.model.quantities import cpu_millis, mem_bytes

Totals = dict[str, int]
"""Resource name -> amount: cpu in millicores, everything else in whole units (bytes, devices)."""


def parse_amount(resource: str, quantity: Any) -> int:
    """A quantity in the units of ``Totals``. Invalid text counts as 0: admission checks it."""
    try:
        return cpu_millis(quantity) if resource == "cpu" else mem_bytes(quantity)
    except InputError:
        return 0


def container_amounts(container: Mapping[str, Any]) -> Totals:
    """The requests of one container; limits where there is no request."""
    resources = container.get("resources")
    if not resources:
        return {}
    limits, requests = resources.get("limits"), resources.get("requests")
    # Objects of a file have no defaults of an API server.
    merged = {**limits, **requests} if limits and requests else (requests or limits or {})
    return {name: parse_amount(name, quantity) for name, quantity in merged.items()}


def add_amounts(into: Totals, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        into[name] = into.get(name, 0) + value


def sum_of_containers(containers: Iterable[Mapping[str, Any]]) -> Totals:
    """The plain sum over containers, as KAI's podgroupcontroller counts."""
    total: Totals = {}
    for container in containers:
        add_amounts(total, container_amounts(container))
    return total


def pod_amounts(spec: Mapping[str, Any]) -> Totals:
    """The requests of the whole pod on its node."""
    total = sum_of_containers(spec.get("containers") or ())
    init = spec.get("initContainers")
    if init:
        sidecars: Totals = {}
        peak: Totals = {}
        for container in init:
            amounts = container_amounts(container)
            if container.get("restartPolicy") == "Always":
                add_amounts(sidecars, amounts)
                continue
            # Sidecars started earlier run beside this init container.
            add_amounts(amounts, sidecars)
            for name, value in amounts.items():
                peak[name] = max(value, peak.get(name, 0))
        add_amounts(total, sidecars)
        # Init containers end before the containers start: the larger amount counts for each resource.
        for name, value in peak.items():
            total[name] = max(value, total.get(name, 0))
    overhead = spec.get("overhead")
    if overhead:
        add_amounts(total, {name: parse_amount(name, quantity) for name, quantity in overhead.items()})
    return total


def is_guaranteed(spec: Mapping[str, Any]) -> bool:
    """Whether the QoS class is Guaranteed: every container has cpu and memory limits and equal requests."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None or parse_amount(name, requests.get(name, limit)) != parse_amount(name, limit):
                return False
    return bool(containers)
