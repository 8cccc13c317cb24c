"""Reads NUMA zones: those of nodes (NodeResourceTopology) and those that pods hold (annotations).

Source: KAI node_info.BuildNumaTopology, numa plugin's requests and seed_placements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import ContainerRequest, Numa, NumaZone, ZoneShare
from kailab.scheduler.reading import requests

OBSERVED = "kai.scheduler/numa-placement-observed"  # written by an agent on the node
PREDICTED = "kai.scheduler/numa-placement-predicted"  # written by the scheduler with the binding

_Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
_POLICIES: dict[str, _Policy] = {
    "best-effort": "best-effort",
    "restricted": "restricted",
    "single-numa-node": "single-numa-node",
    "BestEffort": "best-effort",  # names of the older field
    "Restricted": "restricted",
    "SingleNUMANode": "single-numa-node",
}


def numa_record(topology: Object) -> Numa | None:
    """The zones of a NodeResourceTopology; None if it has no NUMA zones."""
    zones = tuple(
        NumaZone(
            name=zone.get("name") or "",
            allocatable=tuple(
                sorted(
                    (r["name"], requests.amount_in_units(r["name"], r.get("allocatable")))
                    for r in zone.get("resources") or ()
                )
            ),
        )
        for zone in topology.get("zones") or ()
        # As in KAI and the upstream plugin, zones of other types are no NUMA nodes.
        if zone.get("type") == "Node"
    )
    if not zones:
        return None
    attributes = {entry.get("name"): entry.get("value") for entry in topology.get("attributes") or ()}
    legacy = next(iter(topology.get("topologyPolicies") or ()), "")
    policy = attributes.get("topologyManagerPolicy")
    if policy is None:
        pod_scope = legacy.endswith("PodLevel")
    else:
        pod_scope = attributes.get("topologyManagerScope") == "pod"
    policy = policy or legacy.removesuffix("PodLevel").removesuffix("ContainerLevel")
    return Numa(policy=_POLICIES.get(policy, "none"), scope="pod" if pod_scope else "container", zones=zones)


def zones_held(annotations: Mapping[str, str]) -> tuple[ZoneShare, ...]:
    """The amounts that a pod holds of its node's zones, by its annotations. Invalid text counts as absent."""
    # The observed placement takes precedence over the predicted one.
    for key in (OBSERVED, PREDICTED):
        if key not in annotations:
            continue
        try:
            entries = json.loads(annotations.get(key) or "[]")
            shares = tuple(
                ZoneShare(
                    zone=str(entry["zone"]),
                    amounts=tuple(
                        sorted((name, requests.amount_in_units(name, q)) for name, q in entry["amount"].items())
                    ),
                )
                for entry in entries
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if shares:
            return shares
    return ()


def zones_annotation(zones: tuple[ZoneShare, ...]) -> str:
    """The value of the annotation ``PREDICTED``; the inverse of ``zones_held``."""
    entries = [
        {"zone": share.zone, "amount": {name: f"{n}m" if name == "cpu" else str(n) for name, n in share.amounts}}
        for share in zones
    ]
    return json.dumps(entries, separators=(",", ":"))


def container_requests(spec: Mapping[str, Any]) -> tuple[ContainerRequest, ...]:
    """The requests of each container; empty if a single container has all requests of the pod."""
    init, apps = spec.get("initContainers") or (), spec.get("containers") or ()
    if not init and len(apps) == 1 and not spec.get("overhead"):
        return ()
    return tuple(_request(c, "sidecar" if c.get("restartPolicy") == "Always" else "init") for c in init) + tuple(
        _request(c, "app") for c in apps
    )


def _request(container: Mapping[str, Any], stage: Literal["app", "sidecar", "init"]) -> ContainerRequest:
    return ContainerRequest(amounts=tuple(sorted(requests.container_totals(container).items())), stage=stage)
