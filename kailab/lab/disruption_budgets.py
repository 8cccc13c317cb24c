"""PodDisruptionBudgets that draining violates: kailab deletes pods, while ``kubectl drain`` evicts them one by one, as budgets allow."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.engine.placing.fit import matches
from kailab.model.objects import is_terminating, labels_of, name_of, namespace_of
from kailab.scheduler.reading.affinity import label_selector

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


def violated_budgets(lab: Lab, leaving: Collection[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each budget that would keep fewer pods than it asks for. ``leaving``: namespace and name of pods."""
    budgets = lab.cluster.list("PodDisruptionBudget")
    pods = [pod for pod in lab.cluster.list("Pod") if _runs(pod)] if budgets else []
    for budget in budgets:
        namespace, spec = namespace_of(budget), budget.get("spec") or {}
        wanted = label_selector(spec.get("selector"))
        if wanted is None:
            continue
        own = [
            (namespace, name_of(pod))
            for pod in pods
            if namespace_of(pod) == namespace
            and all(matches(requirement, dict(labels_of(pod))) for requirement in wanted)
        ]
        going = [pod for pod in own if pod in leaving]
        least = _least(spec, len(own))
        if going and len(own) - len(going) < least:
            yield (
                f"PodDisruptionBudget {namespace}/{name_of(budget)} asks for {least} of {len(own)} pods, and {len(own) - len(going)} "
                "would remain: kailab ignores it; kubectl drain evicts pods one by one and waits while the budget allows no other"
            )


def _least(spec: dict[str, Any], pods: int) -> int:
    """How many pods must remain. Source: Kubernetes' disruption controller, which rounds both percentages up."""
    if (least := spec.get("minAvailable")) is not None:
        return _count(least, pods)
    if (most := spec.get("maxUnavailable")) is not None:
        return max(0, pods - _count(most, pods))
    return 0


def _count(value: int | str, pods: int) -> int:
    text = str(value)
    number = int(text.removesuffix("%")) if text.removesuffix("%").isdecimal() else 0
    return math.ceil(number * pods / 100) if text.endswith("%") else number


def _runs(pod: Object) -> bool:
    return pod["status"].get("phase") == "Running" and not is_terminating(pod)
