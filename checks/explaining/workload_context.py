"""Where a cause is taken away: a workload in its lab as it stands, and the manifests that it was made from."""

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
    """A workload in its lab as it stands, and the manifests that it was made from."""

    situation: Situation
    lab: Lab
    work: AppliedWorkload

    @property
    def manifests(self) -> list[Object]:
        """Those of the workload, as they were applied last; of a PodGroup its pods too."""
        own = {(self.work.kind, self.work.name)}
        found: dict[tuple[str, str], Object] = {}
        for one in self.situation.applied():
            app = (one["metadata"].get("labels") or {}).get("app")
            member = self.work.kind == "PodGroup" and one["kind"] == "Pod" and app == self.work.name
            if member or (one["kind"], one["metadata"]["name"]) in own:
                found[one["kind"], one["metadata"]["name"]] = one
        return [deepcopy(one) for one in found.values()]

    @property
    def queues(self) -> dict[str, Object]:
        return {one["metadata"]["name"]: one for one in self.lab.cluster.list("Queue")}

    @property
    def queue(self) -> str:
        """The one that the workload names."""
        first = self.manifests[0]
        named = first["metadata"].get("labels") or {}
        return str(first["spec"].get("queue") or named.get(labels.QUEUE) or "")

    def line(self) -> list[str]:
        """Its queue and those above, as far as they are there."""
        found, queues, name = [], self.queues, self.queue
        while name in queues and name not in found:
            found.append(name)
            name = queues[name]["spec"].get("parentQueue") or ""
        return found


Remover = Callable[[WorkloadContext], Iterator[Step]]
"""What takes a cause away: steps to be carried out on such a lab."""
