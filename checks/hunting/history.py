"""Changes of a cluster after its work has arrived, as further steps of a sample: work ends, is deleted or scaled; nodes are cordoned, go and
come back; queues get other amounts; PodGroups another priority.

The steps are drawn without knowing what runs, so they are the same for every scheduler. A change that finds nothing to do (an end of work that
only waits) is a step in which nothing may happen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from checks.hunting.random_sample import GONE_WHEN_EVICTED, SCALED
from checks.hunting.sample import HuntSample, Step
from kailab.cluster.protocol import Object
from kailab.fleet.reading import read_fleet
from kailab.model.objects import labels_of
from kailab.model.yamltext import write_documents

ENDING = ("Job", "Pod", "PodGroup")
"""Kinds whose pods may end: those of the others run until they are deleted."""
PRIORITIES = ("train", "build-preemptible", "build", "inference")
QUOTAS = (0, 1, 2, 4, 8, -1)
WEIGHTS = (0, 1, 2)


def with_changes(sample: HuntSample, changes: int) -> HuntSample:
    """The sample with so many further steps, which follow from its name. Fewer if nothing can be changed."""
    history = _History(Random(f"changes {sample.name}"), _nodes(sample.fleet))
    for step in sample.steps:
        history.take(step)
    return sample.with_steps([*sample.steps, *history.draw(changes)])


def _nodes(fleet: Object) -> dict[str, Object]:
    return {node["metadata"]["name"]: node for node in read_fleet(write_documents([fleet])).nodes()}


@dataclass
class _History:
    """What the steps so far have left. ``work``, ``queues``: the applied manifests that may be changed, by name."""

    chance: Random
    nodes: dict[str, Object]
    work: dict[str, Object] = field(default_factory=dict)
    queues: dict[str, Object] = field(default_factory=dict)
    gone: list[Object] = field(default_factory=list)
    cordoned: list[str] = field(default_factory=list)

    def take(self, step: Step) -> None:
        """Note what a step applies and deletes."""
        for manifest in step.get("apply") or ():
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            if kind == "Queue":
                self.queues[name] = manifest
            elif (
                kind != "Pod" or labels_of(manifest).get("app") == name
            ):  # pods of a PodGroup have its name as their app
                self.work[name] = manifest
        if "delete" in step:
            self.work.pop(step["delete"]["name"], None)

    def draw(self, changes: int) -> Iterator[Step]:
        for _ in range(changes):
            drawn: list[Callable[[], Step | None]] = [
                self._end, self._delete, self._scale, self._cordon, self._remove_node, self._bring_node, self._queue, self._priority,
            ]  # fmt: skip
            self.chance.shuffle(drawn)
            step = next((step for make in drawn if (step := make())), None)
            if step is None:
                return
            yield step

    def _of_kinds(self, kinds: tuple[str, ...]) -> Object | None:
        fitting = [manifest for manifest in self.work.values() if manifest["kind"] in kinds]
        return self.chance.choice(fitting) if fitting else None

    def _end(self) -> Step | None:
        manifest = self._of_kinds(ENDING)
        if manifest is None:
            return None
        del self.work[manifest["metadata"]["name"]]
        return {"end": manifest["metadata"]["name"]}

    def _delete(self) -> Step | None:
        kinds = tuple({manifest["kind"] for manifest in self.work.values()} - set(GONE_WHEN_EVICTED))
        manifest = self._of_kinds(tuple(sorted(kinds)))
        if manifest is None:
            return None
        del self.work[manifest["metadata"]["name"]]
        return {"delete": _reference(manifest)}

    def _scale(self) -> Step | None:
        manifest = self._of_kinds(SCALED)
        return manifest and {"scale": {**_reference(manifest), "replicas": self.chance.randrange(8)}}

    def _cordon(self) -> Step | None:
        if self.cordoned and self.chance.random() < 0.5:
            name = self.cordoned.pop(self.chance.randrange(len(self.cordoned)))
            return {"patch": {"kind": "Node", "name": name, "patch": {"spec": {"unschedulable": None}}}}
        free = [name for name in self.nodes if name not in self.cordoned]
        if len(free) < 2:
            return None
        name = self.chance.choice(free)
        self.cordoned.append(name)
        return {"patch": {"kind": "Node", "name": name, "patch": {"spec": {"unschedulable": True}}}}

    def _remove_node(self) -> Step | None:
        if len(self.nodes) < 2:
            return None
        name = self.chance.choice(list(self.nodes))
        self.gone.append(self.nodes.pop(name))
        if name in self.cordoned:
            self.cordoned.remove(name)
        return {"delete": {"kind": "Node", "name": name}}

    def _bring_node(self) -> Step | None:
        if not self.gone:
            return None
        node = self.gone.pop(self.chance.randrange(len(self.gone)))
        self.nodes[node["metadata"]["name"]] = node
        return {"apply": [json.loads(json.dumps(node))]}  # its parts are shared, which YAML would write as anchors

    def _queue(self) -> Step | None:
        parents = {manifest["spec"].get("parentQueue") for manifest in self.queues.values()}
        leaves = [name for name in self.queues if name not in parents]
        if not leaves:
            return None
        manifest = deepcopy(self.queues[self.chance.choice(leaves)])
        manifest["spec"]["resources"]["gpu"] |= {
            "quota": self.chance.choice(QUOTAS),
            "overQuotaWeight": self.chance.choice(WEIGHTS),
        }
        self.queues[manifest["metadata"]["name"]] = manifest
        return {"apply": [deepcopy(manifest)]}

    def _priority(self) -> Step | None:
        manifest = self._of_kinds(("PodGroup",))
        if manifest is None:
            return None
        others = [name for name in PRIORITIES if name != manifest["spec"].get("priorityClassName")]
        changed = {"spec": {"priorityClassName": self.chance.choice(others)}}
        self.work[manifest["metadata"]["name"]] = {**manifest, "spec": {**manifest["spec"], **changed["spec"]}}
        return {"patch": {**_reference(manifest), "patch": changed}}


def _reference(manifest: Object) -> dict[str, str]:
    return {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
