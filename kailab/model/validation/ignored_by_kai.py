"""What Kubernetes' own scheduler heeds and KAI does not: said when it is applied, because nothing shows it later.

No release of KAI reads them (v0.2 to v0.17): ``preemptionPolicy`` of a PriorityClass or a pod, and preferred node affinity
(its scoring knows preferred pod affinity and anti-affinity only). kailab's scheduler decides as KAI does.
"""

from __future__ import annotations

from typing import Any

from kailab.model import labels
from kailab.model.validation.fields import Faults
from kailab.model.validation.hints import pod_templates

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICY = (
    "is Never, but KAI's reclaim, preempt and consolidation do not look at it: work with it evicts others all the same; "
    f"{labels.PREEMPTION_DELAY} holds it back for a while"
)
_NODES = "has no effect: KAI does not score preferred node affinity, only preferred pod affinity and anti-affinity"


def advise_ignored(faults: Faults, obj: dict[str, Any]) -> None:
    """Advice for labs where KAI, or kailab's scheduler in its place, decides."""
    if obj["kind"] == "PriorityClass":
        _advise_policy(faults, obj, "")
    for path, pod in pod_templates(obj):
        spec = pod["spec"]
        _advise_policy(faults, spec, f"{path}spec.")
        affinity = spec.get("affinity")
        nodes = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
        if isinstance(nodes, dict) and nodes.get(_PREFERRED):
            faults.add(f"{path}spec.affinity.nodeAffinity.{_PREFERRED}", _NODES)


def _advise_policy(faults: Faults, block: dict[str, Any], prefix: str) -> None:
    if block.get("preemptionPolicy") == "Never":
        faults.add(f"{prefix}preemptionPolicy", _POLICY)
