"""The objects and the configuration that come of documents' policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kailab.advice.policykinds.meaning import Given
from kailab.engine.config import ACTIONS
from kailab.engine.policies.switches import DEFAULT_PLUGINS
from kailab.errors import InputError
from kailab.model import labels
from kailab.model.kinds import api_version_of

Object = dict[str, Any]

UNLIMITED = -1
MAIN = "default"
"""The SchedulingShard that KAI's chart makes: of all nodes without a pool of their own."""


@dataclass
class Building:
    """``gpus``: of the cluster, where anybody says. ``placements``: strategies of all SchedulingPolicies; several take a shard
    each. ``given_classes``: values of PriorityClasses that are there."""

    gpus: Fraction | None = None
    placements: set[str] = field(default_factory=set)
    given_classes: dict[str, int] = field(default_factory=dict)
    queues: dict[str, Object] = field(default_factory=dict)
    shards: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    _said: dict[tuple[str, ...], tuple[Any, Given]] = field(default_factory=dict)

    def queue(self, name: str, given: Given, parent: str = "") -> Object:
        """The Queue's spec. One without an amount of its own gets nothing guaranteed and any amount at most."""
        if parent:
            self.once(("queue", name, "parentQueue"), parent, given)
        if name not in self.queues:
            amounts = {one: {"quota": 0, "limit": UNLIMITED, "overQuotaWeight": 1} for one in ("gpu", "cpu", "memory")}
            # What documents give by GPU alone leaves CPU and memory to whoever is first.
            amounts["cpu"]["quota"] = amounts["memory"]["quota"] = UNLIMITED
            spec: Object = {"resources": amounts}
            self.queues[name] = {
                "apiVersion": api_version_of("Queue"),
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            }
        spec = self.queues[name]["spec"]
        if parent:
            self.queues[name]["spec"] = spec = {"parentQueue": parent, **spec}
        return spec

    def amount(self, queue: str, resource: str, key: str, value: Any, given: Given) -> str:
        """Set one; says which field it is."""
        self.once(("queue", queue, resource, key), value, given)
        self.queue(queue, given)["resources"][resource][key] = value
        return f"Queue/{queue} spec.resources.{resource}.{key}: {value}"

    def shard(self, name: str, *path: str, value: Any, given: Given) -> str:
        """Set a field of a SchedulingShard; says which it is."""
        self.once(("shard", name, *path), value, given)
        made = {
            "apiVersion": api_version_of("SchedulingShard"),
            "kind": "SchedulingShard",
            "metadata": {"name": name},
            "spec": {},
        }
        at = self.shards.setdefault(name, made)["spec"]
        if name != MAIN:
            at["partitionLabelValue"] = name
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
        told = "true" if value is True else "false" if value is False else value
        return f"SchedulingShard/{name} spec.{'.'.join(path)}: {told}"

    def policy(self, *path: str | int, value: Any, given: Given) -> str:
        """Set a field of kailab's section of the scheduler's configuration; says which it is."""
        self.once(("config", *map(str, path)), value, given)
        at = self.config.setdefault("kailab", {})
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
        return f"kailab.{'.'.join(map(str, path))}: {value}"

    def without(self, action: str, given: Given) -> str:
        """Take an action out."""
        return self.shard(MAIN, "actions", action, "enabled", value=False, given=given)

    def priority_class(self, name: str, value: int, given: Given) -> str:
        self.once(("class", name), value, given)
        if (there := self.given_classes.get(name, value)) != value:
            raise given.refuse(f"{there}, the value of the PriorityClass {name} beside it")
        if name not in self.given_classes:
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            self.classes[name] = {**kind, "metadata": {"name": name}, "value": value}
        return f"PriorityClass/{name} value: {value}"

    def once(self, key: tuple[str, ...], value: Any, given: Given) -> None:
        """Raises InputError where two fields want different things of one of KAI's."""
        before, by = self._said.setdefault(key, (value, given))
        if before != value:
            raise InputError(
                f"{value} for {' '.join(key)}, where {by.manifest.where(by.path)} wants {before}: KAI has one such field",
                given.manifest.where(given.path),
            )

    def objects(self) -> list[Object]:
        """KAI's objects, parents before children."""
        return [*self.classes.values(), *self.queues.values(), *self.shards.values()]

    def configuration(self) -> Object:
        """The scheduler's configuration file: of the main shard, with kailab's own policies."""
        shard = self.shards.get(MAIN, {"spec": {}})["spec"]
        found: Object = {}
        off = {name for name, said in shard.get("actions", {}).items() if not said["enabled"]}
        if off:
            found["actions"] = ", ".join(name for name in ACTIONS if name not in off)
        if placement := shard.get("placementStrategy"):
            arguments = {"gpu": "binpack", "cpu": "binpack", **placement}
            told = {"nodeplacement": {"arguments": arguments}}
            found["tiers"] = [{"plugins": [{"name": name, **told.get(name, {})} for name in DEFAULT_PLUGINS]}]
        if depth := shard.get("queueDepthPerAction"):
            found["queueDepthPerAction"] = depth
        return {**found, **self.config}

    def pool(self, policy: str) -> str:
        """The shard of a SchedulingPolicy: the main one, or, where policies place differently, its own."""
        return MAIN if len(self.placements) < 2 else policy

    def pooled(self, name: str) -> str:
        return "" if name == MAIN else f"; nodes and work say {labels.NODE_POOL}: {name}"
