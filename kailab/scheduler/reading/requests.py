"""The resource requests of a pod in the scheduler's units, summed over its containers by ``kailab.model.pod_resources``.

A limit without a request counts as the request, as in the API server. Source: KAI pod_info.getPodResourceRequest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kailab.errors import InputError
from kailab.model.pod_resources import add_amounts, sum_over_pod
from kailab.model.quantities import cpu_millis, mem_bytes

Totals = dict[str, int]
"""Resource name -> amount: cpu in millicores, everything else in whole units (bytes, devices)."""


def amount_in_units(resource: str, quantity: Any) -> int:
    """A quantity in the units of ``Totals``. Invalid text counts as 0: admission checks it."""
    try:
        return cpu_millis(quantity) if resource == "cpu" else mem_bytes(quantity)
    except InputError:
        return 0


def container_totals(container: Mapping[str, Any]) -> Totals:
    """The requests of one container; limits where there is no request."""
    resources = container.get("resources")
    if not resources:
        return {}
    limits, requests = resources.get("limits"), resources.get("requests")
    # Objects of a file have no defaults of an API server.
    merged = {**limits, **requests} if limits and requests else (requests or limits or {})
    return {name: amount_in_units(name, quantity) for name, quantity in merged.items()}


def sum_of_containers(containers: Iterable[Mapping[str, Any]]) -> Totals:
    """The plain sum over containers, as KAI's podgroupcontroller counts."""
    total: Totals = {}
    for container in containers:
        add_amounts(total, container_totals(container))
    return total


def pod_amounts(spec: Mapping[str, Any]) -> Totals:
    """The requests of the whole pod on its node."""
    return sum_over_pod(spec, container_totals, _overhead)


def _overhead(overhead: Mapping[str, Any]) -> Totals:
    return {name: amount_in_units(name, quantity) for name, quantity in overhead.items()}


def is_guaranteed(spec: Mapping[str, Any]) -> bool:
    """Whether the QoS class is Guaranteed: every container has cpu and memory limits and equal requests."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit = limits.get(name)
            if limit is None or amount_in_units(name, requests.get(name, limit)) != amount_in_units(name, limit):
                return False
    return bool(containers)
