"""What Kubernetes' own scheduler heeds and KAI does not: said when it is applied, because nothing shows it later.

No release of KAI reads them (v0.2 to v0.17): ``preemptionPolicy`` of a PriorityClass or a pod, preferred node affinity
(its scoring knows preferred pod affinity and anti-affinity only), and constraints for spreading over a topology (it has no such plugin).
Of the label ``runai/queue`` releases up to v0.5 did. kailab's scheduler decides as KAI does; its grouping goes by that label still.
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

_SPREAD = (
    "has no effect: KAI does not spread pods by it, whether they must be spread or should be; pod anti-affinity by the same topologyKey keeps "
    "them apart"
)
_OLD_LABEL = f"KAI reads it no longer (since v0.6), so there the work goes to the queue default-queue; kailab goes by it still: say {labels.QUEUE}"


def advise_ignored(faults: Faults, obj: dict[str, Any]) -> None:
    """Advice for labs where KAI, or kailab's scheduler in its place, decides."""
    if obj["kind"] == "PriorityClass":
        _advise_policy(faults, obj, "")
    for path, pod in pod_templates(obj):
        spec = pod["spec"]
        _advise_policy(faults, spec, f"{path}spec.")
        if spec.get("topologySpreadConstraints"):
            faults.add(f"{path}spec.topologySpreadConstraints", _SPREAD)
        affinity = spec.get("affinity")
        nodes = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
        if isinstance(nodes, dict) and nodes.get(_PREFERRED):
            faults.add(f"{path}spec.affinity.nodeAffinity.{_PREFERRED}", _NODES)


def advise_old_label(faults: Faults, obj: dict[str, Any]) -> None:
    """Work, or a namespace, that says its queue by the label of an older KAI alone."""
    pods = list(pod_templates(obj))
    holders = [("", obj), *((path, pod) for path, pod in pods if path)]
    if not pods and obj["kind"] != "Namespace":
        return
    named = [(path, (holder.get("metadata") or {}).get("labels") or {}) for path, holder in holders]
    if any(name in found for _, found in named for name in (labels.QUEUE, "project")):
        return
    for path, found in named:
        if labels.QUEUE_RUNAI in found:
            faults.add(f"{path}metadata.labels[{labels.QUEUE_RUNAI}]", _OLD_LABEL)
            return


def _advise_policy(faults: Faults, block: dict[str, Any], prefix: str) -> None:
    if block.get("preemptionPolicy") == "Never":
        faults.add(f"{prefix}preemptionPolicy", _POLICY)
