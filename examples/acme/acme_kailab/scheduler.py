"""A scheduler under test: each pod to the first node, by name, that has enough idle GPUs; no queues, no gangs, no evictions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.model.objects import Object, is_ended
from kailab.undertest.contract import InProcessScheduler, SchedulerUnderTest, SchedulerWiring
from kailab.undertest.registry import SchedulerKind

FIRST_FIT = SchedulerKind("the first node that fits", made="acme_kailab.scheduler:FirstFit")


@dataclass(frozen=True)
class FirstFit(SchedulerUnderTest):
    """It decides in the process of the lab, over the embedded cluster."""

    title = "first-fit"
    scheduler_name = labels.SCHEDULER_NAME  # so that manifests written for KAI go to it as they are

    def within(self, wiring: SchedulerWiring) -> InProcessScheduler | None:
        if wiring.live:
            return None
        return InProcessScheduler(Decider(wiring.cluster, self.scheduler_names(wiring.adopt_default_scheduler)))

    def version(self, live: bool) -> str:
        return "first-fit 1.0"


class Decider:
    wake_at: float | None = None
    """Nothing here waits for a time."""

    def __init__(self, cluster: Cluster, scheduler_names: Collection[str]) -> None:
        self._cluster = cluster
        self._names = scheduler_names
        self._watch = cluster.watch(("Node", "Pod"))

    def step(self) -> bool:
        """Place what can be placed, if anything changed; True if anything was bound."""
        if not list(self._watch.poll()):
            return False
        free = {node["metadata"]["name"]: gpus(node["status"]["allocatable"]) for node in self._cluster.list("Node")}
        pods = self._cluster.list("Pod")
        for pod in pods:
            if pod["spec"].get("nodeName") and not is_ended(pod):
                free[pod["spec"]["nodeName"]] -= wanted(pod)
        bound = False
        for pod in pods:
            if pod["spec"].get("nodeName") or pod["spec"].get("schedulerName") not in self._names:
                continue
            node = next((name for name in sorted(free) if free[name] >= wanted(pod)), None)
            if node is not None:
                self._cluster.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], node)
                free[node] -= wanted(pod)
                bound = True
        return bound

    def close(self) -> None:
        self._watch.close()


def wanted(pod: Object) -> int:
    return sum(gpus((container.get("resources") or {}).get("limits") or {}) for container in pod["spec"]["containers"])


def gpus(amounts: Object) -> int:
    return int(amounts.get("nvidia.com/gpu", 0))
