"""ReplicaSet: as many pods as it says; the ones least worth keeping go first."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.workloads.bench import is_active, is_ready, owner_reference
from kailab.workloads.controller import Controller


def surplus_order(pod: Object) -> tuple[Any, ...]:
    """Sorts pods by who goes first when there are too many: unplaced, pending, not ready, the newest."""
    meta = pod["metadata"]
    phase = pod["status"].get("phase")
    # The order of Kubernetes' ActivePodsWithRanks, as far as a lab can tell pods apart.
    return (
        bool(pod["spec"].get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase, 2),
        is_ready(pod),
        -int(meta["uid"][-12:], 16),  # UIDs count up, also within one second
    )


class ReplicaSetController(Controller):
    one_look = True

    def sync(self, owner: Object) -> None:
        bench = self._bench
        pods = bench.owned(owner, "Pod")
        if "deletionTimestamp" in owner["metadata"]:
            return
        spec = owner["spec"]
        wanted = spec.get("replicas", 1)
        active = [pod for pod in pods if is_active(pod)]
        if len(active) > wanted:
            for pod in sorted(active, key=surplus_order)[: len(active) - wanted]:
                bench.delete("Pod", pod)
            active = [pod for pod in bench.owned(owner, "Pod") if is_active(pod)]
        reference = owner_reference(owner)
        count = len(active)
        for _ in range(wanted - count):
            if bench.create_pod(owner, spec["template"], reference=reference) is None:
                break
            count += 1
        ready = sum(map(is_ready, active))
        bench.set_status(
            self.kind,
            owner,
            replicas=count,
            fullyLabeledReplicas=count,
            readyReplicas=ready,
            availableReplicas=ready,
            observedGeneration=owner["metadata"]["generation"],
        )
