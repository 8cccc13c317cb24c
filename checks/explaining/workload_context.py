"""A workload in its lab, with the manifests that it was made from: the context in which a cause is removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from checks.explaining.situation import Situation, Step
from checks.explaining.workloads import AppliedWorkload
from kailab.cluster.protocol import Object
from kailab.lab.lab import Lab
from kailab.model import labels


@dataclass(frozen=True)
class WorkloadContext:
    """A workload in its lab, with the manifests that it was made from."""

    situation: Situation
    lab: Lab
    work: AppliedWorkload

    @property
    def manifests(self) -> list[Object]:
        """Its manifests as they were applied last; for a PodGroup, also its pods."""
        own = {(self.work.kind, self.work.name)}
        by_name: dict[tuple[str, str], Object] = {}
        for manifest in self.situation.applied():
            app = (manifest["metadata"].get("labels") or {}).get("app")
            member = self.work.kind == "PodGroup" and manifest["kind"] == "Pod" and app == self.work.name
            if member or (manifest["kind"], manifest["metadata"]["name"]) in own:
                by_name[manifest["kind"], manifest["metadata"]["name"]] = manifest
        return [deepcopy(manifest) for manifest in by_name.values()]

    @property
    def queues(self) -> dict[str, Object]:
        return {queue["metadata"]["name"]: queue for queue in self.lab.cluster.list("Queue")}

    @property
    def queue(self) -> str:
        """The queue that the workload names."""
        first = self.manifests[0]
        own_labels = first["metadata"].get("labels") or {}
        return str(first["spec"].get("queue") or own_labels.get(labels.QUEUE) or "")

    def queue_path(self) -> list[str]:
        """Its queue and the queue's ancestors, as far as they exist."""
        path, queues, name = [], self.queues, self.queue
        while name in queues and name not in path:
            path.append(name)
            name = queues[name]["spec"].get("parentQueue") or ""
        return path


Remover = Callable[[WorkloadContext], Iterator[Step]]
"""Steps that remove a cause in the lab of such a workload."""
