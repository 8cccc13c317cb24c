"""What a pod asks of a node, summed over its containers.

Source: kubelet's rule as KAI applies it (pod_info.getPodResourceRequest): containers add up; init containers that
run one after another count by their peak; init containers that stay (sidecars, ``restartPolicy: Always``) add to all
that comes after them; the overhead of the runtime class is added. A limit stands in for a request that is not given,
as the API server does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.errors import InputError
from kailab.model.quantities import cpu_millis, mem_bytes

Totals = dict[str, int]
"""Resource name -> amount: cpu in millicores, everything else in whole units (bytes, devices)."""


def parse_amount(resource: str, quantity: Any) -> int:
    """One quantity in the units of ``Totals``. Text that is no quantity counts as 0: admission is not our task."""
    try:
        return cpu_millis(quantity) if resource == "cpu" else mem_bytes(quantity)
    except InputError:
        return 0


def container_amounts(container: Mapping[str, Any]) -> Totals:
    """Requests of one container, limits standing in where there is no request."""
    resources = container.get("resources")
    if not resources:
        return {}
    limits, requests = resources.get("limits"), resources.get("requests")
    # Also for objects that no API server has defaulted, those of a file for example.
    merged = {**limits, **requests} if limits and requests else (requests or limits or {})
    return {name: parse_amount(name, quantity) for name, quantity in merged.items()}


def add_amounts(into: Totals, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        into[name] = into.get(name, 0) + value


def sum_of_containers(containers: Iterable[Mapping[str, Any]]) -> Totals:
    """The plain sum, as KAI's podgroupcontroller counts."""
    total: Totals = {}
    for container in containers:
        add_amounts(total, container_amounts(container))
    return total


def pod_amounts(spec: Mapping[str, Any]) -> Totals:
    """What the whole pod needs on its node."""
    total = sum_of_containers(spec.get("containers") or ())
    init = spec.get("initContainers")
    if init:
        sidecars: Totals = {}
        peak: Totals = {}
        for container in init:
            wanted = container_amounts(container)
            if container.get("restartPolicy") == "Always":
                add_amounts(sidecars, wanted)
                continue
            # Sidecars that were started before it run on beside it.
            add_amounts(wanted, sidecars)
            for name, value in wanted.items():
                peak[name] = max(value, peak.get(name, 0))
        add_amounts(total, sidecars)
        # They have ended before the containers begin: of both needs the larger counts, resource by resource.
        for name, value in peak.items():
            total[name] = max(value, total.get(name, 0))
    overhead = spec.get("overhead")
    if overhead:
        add_amounts(total, {name: parse_amount(name, quantity) for name, quantity in overhead.items()})
    return total


def is_guaranteed(spec: Mapping[str, Any]) -> bool:
    """QoS class Guaranteed: every container has cpu and memory limits, and requests equal to them."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None or parse_amount(name, requests.get(name, limit)) != parse_amount(name, limit):
                return False
    return bool(containers)
