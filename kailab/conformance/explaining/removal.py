"""Causes taken away in the manifests: for each code the change after which that very cause can be none any more.

This is the oracle's own list. It is made of the codes' meanings alone and shares nothing with the steps that answers print, which
are the smallest that help; here nothing is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from kailab.cluster.protocol import Object
from kailab.conformance.explaining.situation import Situation, Step
from kailab.conformance.explaining.subject import Work, others, waiting
from kailab.conformance.explaining.troubles import label, note, template_of
from kailab.conformance.fuzzing.walk_objects import queue
from kailab.errors import NotFound
from kailab.lab.explain.cause import Code
from kailab.lab.lab import Lab
from kailab.model import labels
from kailab.model.kinds import api_version_of

TWINS = 12
"""Copies of each node, empty ones: more room of each kind that there is, where it is."""
_TWIN = "-twin"
_AMPLE = {"cpu": "4096", "memory": "64Ti", "pods": "1000"}
"""What the largest copies offer: many times a small node's memory would still be too little."""
_UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_FREE = {"gpu": _UNBOUNDED, "cpu": _UNBOUNDED, "memory": _UNBOUNDED}


@dataclass(frozen=True)
class Removed:
    """What takes a cause away. ``refusals``: False where binds are to be refused no longer."""

    steps: tuple[Step, ...]
    refusals: bool = True


@dataclass(frozen=True)
class Place:
    """A workload in its lab as it stands, and the manifests that it was made from."""

    situation: Situation
    lab: Lab
    work: Work

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


Remover = Callable[[Place], Iterator[Step]]


MORE_ROOM = frozenset(
    {
        Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_CPU, Code.NOT_ENOUGH_MEMORY, Code.NO_POD_SLOTS, Code.FRAGMENTED, Code.NO_DOMAIN_FREE,
        Code.KEPT_APART, Code.LARGER_THAN_THE_FLEET, Code.LARGER_THAN_ANY_NODE, Code.LARGER_THAN_ANY_DOMAIN,
        Code.VICTIMS_NON_PREEMPTIBLE,
    }
)  # fmt: skip
"""Taken away by more nodes or with all that others hold, which makes good other causes as well: of nodes, and of limits."""


def removed(situation: Situation, lab: Lab, work: Work, code: str) -> Removed | None:
    """None where a cause of that code can't be taken away so."""
    if code == Code.BIND_REFUSED:
        return Removed((), refusals=False)
    remover = _REMOVERS.get(code)
    return None if remover is None else Removed(tuple(remover(Place(situation, lab, work))))


# --- the workload itself ----------------------------------------------------------------------------------------------


def _written_anew(change: Callable[[Object, Place], None]) -> Remover:
    """The workload deleted and applied as it was, but for a change of each manifest with pods."""

    def steps(place: Place) -> Iterator[Step]:
        made = place.manifests
        yield {"delete": {"kind": place.work.kind, "name": place.work.name}}
        for one in made:
            if one["kind"] == "Pod" and place.work.kind != "Pod":
                yield {"delete": {"kind": "Pod", "name": one["metadata"]["name"]}}
            if one["kind"] != "PodGroup":
                change(one, place)
        yield {"apply": made}

    return steps


def _without(*fields: str) -> Remover:
    def change(one: Object, _: Place) -> None:
        for field in fields:
            template_of(one)["spec"].pop(field, None)

    return _written_anew(change)


def _labelled(key: str, value: Callable[[Place], str | None]) -> Remover:
    return _written_anew(lambda one, place: label(one, key, value(place)))


def _some_leaf(place: Place) -> str:
    """The leaf below its queue, else any."""
    parents = {name: one["spec"].get("parentQueue") or "" for name, one in place.queues.items()}
    leaves = [name for name in parents if name not in parents.values() and name not in ("bare", "orphan")]
    below = [name for name in leaves if parents[name] == place.queue]
    return (below or leaves)[0]


def _smaller_gang(place: Place) -> Iterator[Step]:
    there = max(1, len(place.work.pods(place.lab)))
    if place.work.kind == "PodGroup":
        patch = {"spec": {"minMember": there}}
        yield {"patch": {"kind": "PodGroup", "name": place.work.name, "patch": patch}}
    else:
        yield from _written_anew(lambda one, _: note(one, labels.BATCH_MIN_MEMBER, str(there)))(place)


def _smaller_share(one: Object, _: Place) -> None:
    for metadata in (one["metadata"], template_of(one)["metadata"]):
        notes = metadata.get("annotations") or {}
        if labels.GPU_MEMORY in notes:
            notes[labels.GPU_MEMORY] = "1000"
        if labels.GPU_FRACTION_DEVICES in notes:
            notes[labels.GPU_FRACTION_DEVICES] = "1"


def _not_suspended(place: Place) -> Iterator[Step]:
    yield {"patch": {"kind": place.work.kind, "name": place.work.name, "patch": {"spec": {"suspend": False}}}}


def _impatient(one: Object, _: Place) -> None:
    note(one, labels.PREEMPTION_DELAY, "0s")


# --- queues -----------------------------------------------------------------------------------------------------------


def _queue_there(place: Place) -> Iterator[Step]:
    yield {"apply": [queue(place.queue or "default-queue", "", -1, -1, 1)]}


def _parents_there(place: Place) -> Iterator[Step]:
    top = place.queues[place.line()[-1]]["spec"].get("parentQueue")
    yield {"apply": [queue(top, "", -1, -1, 1)]}


def _each(names: Sequence[str], patch: Callable[[Object], Any]) -> Callable[[Place], Iterator[Step]]:
    def steps(place: Place) -> Iterator[Step]:
        for name in names or place.line():
            yield {"patch": {"kind": "Queue", "name": name, "patch": {"spec": patch(place.queues[name]["spec"])}}}

    return steps


def _amounts(**fields: int) -> Remover:
    """The same amounts of each resource for its queue and all above."""

    def patch(spec: Object) -> Object:
        return {"resources": dict.fromkeys(spec.get("resources") or {}, fields)}

    return _each((), patch)


def _missing_amounts(spec: Object) -> Object:
    there = spec.get("resources") or {}
    return {"resources": {name: amount for name, amount in _FREE.items() if name not in there}}


def _no_min_runtimes(place: Place) -> Iterator[Step]:
    names = list(place.queues)
    yield from _each(names, lambda _: {"reclaimMinRuntime": "0s", "preemptMinRuntime": "0s"})(place)


def _others_poor(place: Place) -> Iterator[Step]:
    """No other queue, but those above, has a quota."""
    names = [name for name in place.queues if name not in place.line()]
    if names:
        yield from _each(
            names, lambda spec: {"resources": {name: {"quota": 0} for name in spec.get("resources") or {}}}
        )(place)


# --- nodes and what else there is ---------------------------------------------------------------------------------------


def _nodes(patch: Callable[[Object], Object]) -> Remover:
    def steps(place: Place) -> Iterator[Step]:
        for node in place.lab.cluster.list("Node"):
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": patch(node)}}

    return steps


def _twins(places: Sequence[str] = (), factor: int = 1, offered: Mapping[str, str] | None = None) -> Remover:
    """Empty copies of each node. ``places``: labels by which each copy is in a place of its own. ``factor``: how many times as large
    they are. ``offered``: what they offer beside."""

    def steps(place: Place) -> Iterator[Step]:
        nodes = {node["metadata"]["name"]: node for node in place.lab.cluster.list("Node")}
        own = [node for name, node in nodes.items() if not is_twin(name)]
        made = [_twin(node, number, places, factor, offered or {}) for node in own for number in range(TWINS)]
        missing = [one for one in made if one["metadata"]["name"] not in nodes]
        if missing:
            yield {"apply": missing}

    return steps


def is_twin(name: str) -> bool:
    """Whether a node of that name is a copy."""
    return _TWIN in name


def _twin(node: Object, number: int, places: Sequence[str], factor: int, beside: Mapping[str, str]) -> Object:
    name = f"{node['metadata']['name']}{_TWIN}-{factor}{'-split' if beside else ''}-{number}"
    named = {**(node["metadata"].get("labels") or {}), labels.HOSTNAME: name}
    named |= {key: f"{named[key]}{_TWIN}-{number}" for key in places if key in named}
    offered = {key: _times(amount, factor) for key, amount in node["status"]["allocatable"].items()}
    if factor > 1:  # with whole GPUs, whatever those of the node are split into
        offered = {key: amount for key, amount in offered.items() if not key.startswith(labels.MIG_PREFIX)}
        offered |= {labels.GPU_RESOURCE: str(8 * factor), **_AMPLE}
        named = {key: value for key, value in named.items() if "mig" not in key}
    if beside:
        offered |= beside
        named["node-role.kubernetes.io/mig-enabled"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": named,
            "annotations": dict(node["metadata"].get("annotations") or {}),
        },
        "spec": {key: value for key, value in (node.get("spec") or {}).items() if key in ("taints", "unschedulable")},
        "status": {**deepcopy(node["status"]), "capacity": offered, "allocatable": dict(offered)},
    }


def _times(amount: Any, factor: int) -> str:
    """A quantity, so many times.

    >>> _times("512Gi", 2), _times(8, 2)
    ('1024Gi', '16')
    """
    text = str(amount)
    digits = text.rstrip("KMGTPEkimunp")
    return f"{int(digits) * factor}{text[len(digits) :]}"


def _without_others(place: Place) -> Iterator[Step]:
    for one in others(place.situation, place.lab, place.work):
        yield {"delete": {"kind": one.kind, "name": one.name}}


def _nobody_else_waits(place: Place) -> Iterator[Step]:
    """What others run stays: its going would make room."""
    for one in waiting(place.situation, place.lab):
        if one == place.work:
            continue
        running = one.running(place.lab)
        if not running:
            yield {"delete": {"kind": one.kind, "name": one.name}}
        elif one.kind == "PodGroup":
            for pod in one.pods(place.lab):
                if not pod["spec"].get("nodeName"):
                    yield {"delete": {"kind": "Pod", "name": pod["metadata"]["name"]}}
        else:
            fewer = {"spec": {one.field: running}}
            yield {"patch": {"kind": one.kind, "name": one.name, "patch": fewer}}


def _volumes(place: Place) -> Iterator[Step]:
    made: list[Object] = []
    for volume in (one for made_of in place.manifests for one in _volumes_of(made_of)):
        if "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
            made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
        elif "configMap" in volume:
            name = volume["configMap"]["name"]
            made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
    if made:
        yield {"apply": made}


def _volumes_of(one: Object) -> list[Object]:
    return [] if one["kind"] == "PodGroup" else list(template_of(one)["spec"].get("volumes") or ())


def _topology(place: Place) -> Iterator[Step]:
    """The one that it names, with the level that it names, and that on each node."""
    notes = place.manifests[0]["metadata"].get("annotations") or {}
    name, level = notes[labels.TOPOLOGY], notes[labels.TOPOLOGY_REQUIRED]
    try:
        there = place.lab.cluster.get("Topology", name)["spec"]["levels"]
    except NotFound:
        there = []
    for node in place.lab.cluster.list("Node"):
        if level not in (node["metadata"].get("labels") or {}):
            own = {"metadata": {"labels": {level: "one"}}}
            yield {"patch": {"kind": "Node", "name": node["metadata"]["name"], "patch": own}}
    levels = [*({"nodeLabel": level} for level in [level] if {"nodeLabel": level} not in there), *there]
    kind = {"apiVersion": api_version_of("Topology"), "kind": "Topology"}
    if there:
        yield {"delete": {"kind": "Topology", "name": name}}
    yield {"apply": [{**kind, "metadata": {"name": name}, "spec": {"levels": levels}}]}


def _priority_class(place: Place) -> Iterator[Step]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    yield {"apply": [{**kind, "metadata": {"name": "research-high"}, "value": 60}]}
    # PodGroups that are there keep the priority class that they got without it.
    yield from _written_anew(lambda _, __: None)(place)


def _served(place: Place) -> Iterator[Step]:
    """Neither nodes nor the workload are of a node pool."""
    yield from _nodes(lambda _: {"metadata": {"labels": {labels.NODE_POOL: None}}})(place)
    yield from _labelled(labels.NODE_POOL, lambda _: None)(place)


_LARGER = _twins(factor=16)
_MORE = _twins(places=("lab/rack",))
# A patch of a node does not reach what it offers, so the nodes that are split are new ones.
_SPLIT = _twins(offered={f"{labels.MIG_PREFIX}{name}": "12" for name in ("1g.10gb", "3g.40gb", "7g.80gb")})

_REMOVERS: Mapping[str, Remover] = {
    Code.QUEUE_LABEL_MISSING: _labelled(labels.QUEUE, _some_leaf),
    Code.QUEUE_MISSING: _queue_there,
    Code.QUEUE_NOT_LEAF: _labelled(labels.QUEUE, _some_leaf),
    Code.QUEUE_PARENT_MISSING: _parents_there,
    Code.QUEUE_HAS_NO_RESOURCES: _each((), _missing_amounts),
    Code.OVER_LIMIT: _amounts(limit=-1),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: _amounts(quota=-1),
    Code.FAIR_SHARE_REACHED: _amounts(quota=-1),
    Code.NO_WEIGHT: _amounts(overQuotaWeight=5),
    Code.GANG_INCOMPLETE: _smaller_gang,
    Code.SCHEDULING_GATED: _without("schedulingGates"),
    Code.SUSPENDED: _not_suspended,
    Code.SELECTOR_MATCHES_NO_NODE: _without("nodeSelector", "affinity"),
    Code.TAINT_NOT_TOLERATED: _nodes(lambda _: {"spec": {"taints": None}}),
    Code.NODES_CORDONED: _nodes(lambda _: {"spec": {"unschedulable": None}}),
    Code.NOT_ENOUGH_GPUS: _MORE,
    Code.NOT_ENOUGH_CPU: _MORE,
    Code.NOT_ENOUGH_MEMORY: _MORE,
    Code.NO_POD_SLOTS: _MORE,
    Code.FRAGMENTED: _MORE,
    Code.NO_DOMAIN_FREE: _MORE,
    Code.KEPT_APART: _MORE,
    Code.LARGER_THAN_THE_FLEET: _MORE,
    Code.LARGER_THAN_ANY_NODE: _LARGER,
    Code.LARGER_THAN_ANY_DOMAIN: _LARGER,
    Code.GPU_SHARE_TOO_LARGE: _written_anew(_smaller_share),
    Code.GPU_MEMORY_UNKNOWN: _nodes(lambda _: {"metadata": {"labels": {labels.GPU_NODE_MEMORY: "81920"}}}),
    Code.MIG_PROFILE_ABSENT: _SPLIT,
    Code.VOLUME_MISSING: _volumes,
    Code.TOPOLOGY_UNKNOWN: _topology,
    Code.VICTIMS_PROTECTED: _no_min_runtimes,
    Code.VICTIMS_WITHIN_QUOTA: _others_poor,
    Code.VICTIMS_NON_PREEMPTIBLE: _without_others,
    Code.PREEMPTION_DELAY: _written_anew(_impatient),
    Code.BEHIND_OTHERS: _nobody_else_waits,
    Code.NODE_POOL_NOT_SERVED: _served,
    Code.PRIORITY_CLASS_MISSING: _priority_class,
}
