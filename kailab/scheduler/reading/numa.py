"""NUMA zones as the cluster tells of them: what nodes report (NodeResourceTopology) and what pods hold (annotations).

Source: KAI node_info.BuildNumaTopology, numa plugin's requests and seed_placements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import ContainerRequest, Numa, NumaZone, ZoneShare
from kailab.scheduler.reading import requests

OBSERVED = "kai.scheduler/numa-placement-observed"  # by an agent on the node, which knows
PREDICTED = "kai.scheduler/numa-placement-predicted"  # by the scheduler, when it bound the pod

_NOTHING: Mapping[str, Any] = {}
_Policy = Literal["none", "best-effort", "restricted", "single-numa-node"]
_POLICIES: dict[str, _Policy] = {
    "best-effort": "best-effort",
    "restricted": "restricted",
    "single-numa-node": "single-numa-node",
    "BestEffort": "best-effort",  # the older field's names
    "Restricted": "restricted",
    "SingleNUMANode": "single-numa-node",
}


def numa_record(topology: Object) -> Numa | None:
    """A NodeResourceTopology object as zones; None if it reports no NUMA zones."""
    zones = tuple(
        NumaZone(
            name=zone.get("name") or "",
            allocatable=tuple(
                sorted(
                    (r["name"], requests.parse_amount(r["name"], r.get("allocatable")))
                    for r in zone.get("resources") or ()
                )
            ),
        )
        for zone in topology.get("zones") or ()
        # As KAI and the upstream plugin: zones of other types are no NUMA nodes.
        if zone.get("type") == "Node"
    )
    if not zones:
        return None
    told = {entry.get("name"): entry.get("value") for entry in topology.get("attributes") or ()}
    old = next(iter(topology.get("topologyPolicies") or ()), "")
    policy = told.get("topologyManagerPolicy") or old.removesuffix("PodLevel").removesuffix("ContainerLevel")
    of_pod = told.get("topologyManagerScope") == "pod" if "topologyManagerPolicy" in told else old.endswith("PodLevel")
    return Numa(policy=_POLICIES.get(policy, "none"), scope="pod" if of_pod else "container", zones=zones)


def zones_held(annotations: Mapping[str, str]) -> tuple[ZoneShare, ...]:
    """What a pod holds of its node's zones, if its annotations say so. Text that can't be read counts as absent."""
    # What was seen on the node goes before what was expected.
    for key in (OBSERVED, PREDICTED):
        if key not in annotations:
            continue
        try:
            entries = json.loads(annotations.get(key) or "[]")
            shares = tuple(
                ZoneShare(
                    zone=str(entry["zone"]),
                    amounts=tuple(
                        sorted((name, requests.parse_amount(name, q)) for name, q in entry["amount"].items())
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
    """The text of ``PREDICTED`` for zones; the inverse of ``zones_held``."""
    entries = [
        {"zone": share.zone, "amount": {name: f"{n}m" if name == "cpu" else str(n) for name, n in share.amounts}}
        for share in zones
    ]
    return json.dumps(entries, separators=(",", ":"))


def container_requests(spec: Mapping[str, Any]) -> tuple[ContainerRequest, ...]:
    """Requests container by container; empty where one container asks for all that the pod asks for."""
    init, apps = spec.get("initContainers") or (), spec.get("containers") or ()
    if not init and len(apps) == 1 and not spec.get("overhead"):
        return ()
    return tuple(_request(c, "sidecar" if c.get("restartPolicy") == "Always" else "init") for c in init) + tuple(
        _request(c, "app") for c in apps
    )


def _request(container: Mapping[str, Any], stage: Literal["app", "sidecar", "init"]) -> ContainerRequest:
    return ContainerRequest(amounts=tuple(sorted(requests.container_amounts(container).items())), stage=stage)
