"""Apply a case to a lab, object by object, and look at what came of it.

An embedded lab gets each object as a user's ``apply`` does. A real API server gets it as it is, without kailab's own checks before, so that the
answer is the server's.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from checks.manifests.manifest_case import ManifestCase
from kailab.cluster.protocol import Cluster
from kailab.errors import ApiError, InputError, KailabError
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from kailab.lab.venues import Venue
from kailab.model.kinds import KINDS, is_namespaced, kind_key
from kailab.model.labels import POD_GROUP, SCHEDULER_NAME
from kailab.model.objects import (
    Object,
    annotations_of,
    controller_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kailab.model.quantities import parse

COUNTED = ("ReplicaSet", "Job", "PodGroup", "PersistentVolumeClaim", "ResourceClaim")
"""Kinds whose objects controllers make; pods are compared one by one."""


@dataclass(frozen=True)
class Answer:
    """What ``apply`` said of one object. ``refused``: the reason, "" if the object was taken. ``names``: all texts in the object, among them
    the names of the objects that it uses."""

    object: str
    refused: str = ""
    warnings: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()


@dataclass
class Observation:
    answers: list[Answer] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    """Objects of the kinds of ``COUNTED``, by kind and namespace."""
    pods: dict[str, Counter[str]] = field(default_factory=dict)
    """Owner of pods -> how many have each phase, with the node if the pod chooses one."""
    specs: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    """Owner of pods -> field -> what admission wrote there in their specs: each value once, in an order of its own."""
    created: dict[str, str] = field(default_factory=dict)
    """Owner of pods -> when its first PodGroup was created, to the second."""
    quotas: dict[str, dict[str, str]] = field(default_factory=dict)
    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    stopped: str = ""


def observe(case: ManifestCase, backend: str, venue: Venue | None = None, scheduler: str = "kailab") -> Observation:
    """Run a case in a lab of its own. What ends it early is in ``stopped``."""
    seen = Observation()
    try:
        named = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "case", **case.fleet}
        fleet = read_fleet(json.dumps(named))
        with Lab.open(fleet, backend, scheduler, venue=venue) as lab:
            for step in case.steps:
                for obj in step:
                    seen.answers.append(offer(obj, lab if backend == "embedded" else None, lab.cluster))
                lab.settle()
            _look(lab, seen)
    except KailabError as error:
        seen.stopped = f"{type(error).__name__}: {error}"
    return seen


def offer(obj: Object, lab: Lab | None, cluster: Cluster) -> Answer:
    """Apply one object, and give the answer. ``lab``: an embedded lab, whose ``apply`` is asked; None: the server of ``cluster`` is."""
    title = object_title(obj)
    try:
        if lab is not None:
            return Answer(title, warnings=tuple(lab.apply([obj]).warnings), names=frozenset(_texts(obj)))
        kind = kind_key(obj)
        metadata = metadata_of(obj)
        if is_namespaced(kind, obj) and not metadata.get("namespace"):
            obj = {**obj, "metadata": {**metadata, "namespace": "default"}}
        if metadata.get("name"):
            cluster.apply(obj)
        else:
            cluster.create(obj)
    except (ApiError, InputError) as error:
        return Answer(title, refused=str(error) or type(error).__name__)
    return Answer(title)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _texts(inside)


def object_title(obj: Object) -> str:
    metadata = metadata_of(obj)
    # A generated name differs from run to run.
    name = metadata.get("generateName") or metadata.get("name", "")
    return f"{obj['kind']}/{metadata.get('namespace') or 'default'}/{name}"


def _look(lab: Lab, seen: Observation) -> None:
    for kind in COUNTED:
        for obj in lab.get(kind, namespace=None):
            seen.made[f"{kind} in {namespace_of(obj)}"] += 1
    begun = {
        (namespace_of(group), name_of(group)): str(metadata_of(group)["creationTimestamp"])
        for group in lab.get("PodGroup", namespace=None)
    }
    for pod in lab.get("Pod", namespace=None):
        if namespace_of(pod) in ("kube-system", "kai-resource-reservation"):
            continue
        root = _root(lab, pod)
        moment = begun.get((namespace_of(pod), annotations_of(pod).get(POD_GROUP, "")))
        if moment is not None:
            seen.created[root] = min(moment, seen.created.get(root, moment))
        node = spec_of(pod).get("nodeName", "")
        phase = status_of(pod).get("phase", "Pending")
        if metadata_of(pod).get("deletionTimestamp"):
            phase = "Terminating"
        elif phase == "Pending" and node:
            phase = "Running"  # its kubelet is about to start it
        where = f" on {node}" if node and _chooses(pod) else ""
        seen.pods.setdefault(root, Counter())[f"{phase}{where}"] += 1
        fields = seen.specs.setdefault(root, {})
        for part, value in _admitted(spec_of(pod)).items():
            if value not in (values := fields.setdefault(part, [])):
                values.append(value)
                values.sort(key=json.dumps)
    for quota in lab.get("ResourceQuota", namespace=None):
        used = status_of(quota).get("used") or {}
        seen.quotas[f"{namespace_of(quota)}/{name_of(quota)}"] = {key: str(parse(value)) for key, value in used.items()}
    for queue in lab.get("Queue"):
        allocated = status_of(queue).get("allocated") or {}
        seen.queues[name_of(queue)] = {key: str(parse(value)) for key, value in allocated.items() if parse(value)}


def _root(lab: Lab, obj: Object) -> str:
    """The object that a user made, for whose sake this one exists."""
    for _ in range(5):
        owner = controller_of(obj)
        if owner is None:
            break
        kind = kind_key({"apiVersion": owner["apiVersion"], "kind": owner["kind"]})
        try:
            obj = lab.get(kind, owner["name"], namespace_of(obj))
        except KailabError:
            return f"{owner['kind']}/{namespace_of(obj)}/{owner['name']}"
    return object_title(obj)


def _chooses(pod: Object) -> bool:
    spec = spec_of(pod)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if spec.get("schedulerName") != SCHEDULER_NAME:
        # kube-scheduler draws one of the nodes that a preference leaves equal.
        affinity = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return bool(spec.get("nodeSelector") or affinity or annotations_of(pod).get("node"))


def _admitted(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a pod's spec that admission may write."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return {
        "resources": [_amounts(container.get("resources") or {}) for container in containers],
        "hostPorts": sorted(
            (port.get("hostPort", 0), port.get("protocol") or "TCP")
            for container in containers
            for port in container.get("ports") or ()
            if port.get("hostPort")
        ),
        "priority": spec.get("priority", 0),
        "priorityClassName": spec.get("priorityClassName", ""),
        "overhead": {name: str(parse(amount)) for name, amount in (spec.get("overhead") or {}).items()},
        "nodeSelector": dict(spec.get("nodeSelector") or {}),
    }


def _amounts(resources: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    return {
        field: {name: str(parse(amount)) for name, amount in sorted((resources.get(field) or {}).items())}
        for field in ("requests", "limits")
    }


def known_kind(title: str) -> bool:
    return title.partition("/")[0] in {kind.kind for kind in KINDS.values()}


def without_names(text: str) -> str:
    """A reason without what differs from run to run."""
    return re.sub(r"-[bcdfghjklmnpqrstvwxz2456789]{5,10}\b", "-#", text)
