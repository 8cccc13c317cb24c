"""The resources of a whole pod, summed over its containers as the kubelet does.

Containers add up. Init containers run one after another, so their peak counts; sidecars (``restartPolicy: Always``) add to everything that
starts after them. The overhead of the runtime class is added. Source: Kubernetes resource helpers (PodRequests, PodLimits); KAI
pod_info.getPodResourceRequest follows the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal, TypeVar

from kailab.model.quantities import format_bytes, format_cpu, is_bytes, parse

Number = TypeVar("Number", int, Fraction)
Amounts = dict[str, Fraction]
"""Resource name -> exact amount in base units (cores, bytes, devices)."""


def sum_over_pod(
    spec: Mapping[str, Any],
    of_container: Callable[[Mapping[str, Any]], dict[str, Number]],
    of_overhead: Callable[[Mapping[str, Any]], dict[str, Number]],
) -> dict[str, Number]:
    """The amounts of a pod from those of its containers. ``of_overhead`` reads the pod's overhead, if it has one."""
    total: dict[str, Number] = {}
    for container in spec.get("containers") or ():
        add_amounts(total, of_container(container))
    init = spec.get("initContainers")
    if init:
        sidecars: dict[str, Number] = {}
        peak: dict[str, Number] = {}
        for container in init:
            amounts = of_container(container)
            if container.get("restartPolicy") == "Always":
                add_amounts(sidecars, amounts)
                continue
            # Sidecars started earlier run beside this init container.
            add_amounts(amounts, sidecars)
            for name, value in amounts.items():
                peak[name] = max(value, peak[name]) if name in peak else value
        add_amounts(total, sidecars)
        # Init containers end before the containers start: the larger amount counts for each resource.
        for name, value in peak.items():
            total[name] = max(value, total[name]) if name in total else value
    overhead = spec.get("overhead")
    if overhead:
        add_amounts(total, of_overhead(overhead))
    return total


def add_amounts(into: dict[str, Number], other: Mapping[str, Number]) -> None:
    for name, value in other.items():
        into[name] = into[name] + value if name in into else value


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    """What a pod asks for, exactly. Of a template, a limit without a request counts as the request, which its pods get."""
    return sum_over_pod(
        spec,
        lambda container: {**container_amounts(container, "limits"), **container_amounts(container, "requests")},
        parsed,
    )


def pod_limits(spec: Mapping[str, Any]) -> Amounts:
    """What a pod may use at most. The overhead is added only where a limit exists."""
    limits = sum_over_pod(spec, lambda container: container_amounts(container, "limits"), lambda overhead: {})
    for name, amount in parsed(spec.get("overhead") or {}).items():
        if name in limits:
            limits[name] += amount
    return limits


def container_amounts(container: Mapping[str, Any], field: Literal["requests", "limits"]) -> Amounts:
    """The requests or limits of one container as they are written."""
    return parsed((container.get("resources") or {}).get(field) or {})


def parsed(amounts: Mapping[str, Any]) -> Amounts:
    """Raises InputError for what is no quantity."""
    return {name: parse(amount) for name, amount in amounts.items()}


def containers_of(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The containers of a pod, init containers last."""
    return (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))


def format_amount(resource: str, amount: Fraction) -> str:
    """An amount as an API server writes it. ``resource`` may have a prefix, as in ``requests.cpu``."""
    bare = resource.removeprefix("requests.").removeprefix("limits.").rpartition("/")[2]
    if amount.denominator == 1:
        return format_bytes(int(amount)) if is_bytes(bare.removeprefix("requests.")) else str(int(amount))
    return format_cpu(-(-amount.numerator * 1000 // amount.denominator))
