"""What the workload names, made: volumes, a topology, a priority class."""

from __future__ import annotations

from collections.abc import Iterator

from checks.explaining.place import Place
from checks.explaining.removers.workload import written_anew
from checks.explaining.situation import Step, go_on
from checks.explaining.troubles import template_of
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.fork import fork
from kailab.model import labels
from kailab.model.kinds import api_version_of

VALUES = (60, 99, 1000)
"""Of the priority class that is made: above what is preemptible without a class, above all that is preemptible, above everything."""


def volumes(place: Place) -> Iterator[Step]:
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


def claims(place: Place) -> Iterator[Step]:
    """Each carries the label of the queue whose work shares it."""
    label = {"metadata": {"labels": {labels.QUEUE: place.queue}}}
    for claim in place.lab.cluster.list("ResourceClaim"):
        own = claim["metadata"]
        named = {"kind": "ResourceClaim", "name": own["name"], "namespace": own["namespace"]}
        yield {"patch": {**named, "patch": label}}


def topology(place: Place) -> Iterator[Step]:
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


def priority_class(place: Place) -> Iterator[Step]:
    """Nobody knows what value its author meant: the one by which most of the work runs."""
    yield from max((_of_value(place, value) for value in VALUES), key=lambda steps: _running(place, steps))


def _of_value(place: Place, value: int) -> list[Step]:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    made: Step = {"apply": [{**kind, "metadata": {"name": "research-high"}, "value": value}]}
    # PodGroups that are there keep the priority class that they got without it.
    return [made, *written_anew(lambda _, __: None)(place)]


def _running(place: Place, steps: list[Step]) -> int:
    with fork(place.lab) as lab:
        go_on(lab, steps)
        return place.work.running(lab)
