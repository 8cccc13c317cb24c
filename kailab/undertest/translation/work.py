"""The work of objects: of each pod template the PodGroup that KAI would make for its pods.

Kailab's own grouping is asked, with a pod as the template describes it, so that a queue, a gang or a priority means here what it
means everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import NotFound
from kailab.grouping import Grouping, GroupingError, group
from kailab.grouping.fields import annotations_of, labels_of
from kailab.model import labels
from kailab.model.kinds import api_version_of, is_namespaced, key_of, kind_key
from kailab.model.manifests import object_name
from kailab.model.validation.hints import pod_templates
from kailab.scheduler.reading.podgroups import Priorities, is_preemptible
from kailab.undertest.contract import NotExpressible

DEFAULT_NAMESPACE = "default"
_PARTS_OF_GPUS = (labels.GPU_FRACTION, labels.GPU_MEMORY)


@dataclass(frozen=True)
class Work:
    """The pods of one template. ``path``: of the template in its object; ``gang``: the name that its pods' group can have, empty
    where each pod runs for itself; ``priority``: the number that ``priority_class`` stands for; ``min_member``: how many of them must start together."""

    path: str
    namespace: str
    queue: str
    priority_class: str
    priority: int
    preemptible: bool
    gang: str = ""
    min_member: int = 1


class Reading:
    """Reads the work of objects that are to be applied together. ``who``: the scheduler under test that is to have words for it."""

    def __init__(self, objects: Sequence[Object], there: Cluster, who: str) -> None:
        self._given = _Given(objects, there)
        self._who = who
        self._priorities = Priorities()
        for one in (*there.list("PriorityClass"), *(obj for obj in objects if obj["kind"] == "PriorityClass")):
            self._priorities.set(one)

    def of(self, obj: Object) -> list[Work]:
        """Of each template whose pods are KAI's to place; none where an object has no such pods. Raises NotExpressible for what
        is not to be said of any group of pods."""
        found = []
        for path, template in pod_templates(obj):
            if template["spec"].get("schedulerName") == labels.SCHEDULER_NAME:
                found.append(self._of(obj, path, template))
        return found

    def of_group(self, podgroup: Object) -> Work:
        """What a PodGroup that a user wrote says of the pods that name it."""
        metadata, spec = podgroup["metadata"], podgroup.get("spec") or {}
        if spec.get("subGroups") or spec.get("minSubGroup"):
            raise self._lacks("gang of parts, each with its own minimum", podgroup)
        if spec.get("topologyConstraint"):
            raise self._lacks("topology constraint", podgroup)
        named = spec.get("priorityClassName") or ""
        return Work(
            path="",
            namespace=metadata.get("namespace") or DEFAULT_NAMESPACE,
            queue=spec.get("queue") or "",
            priority_class=named if named in self._priorities.values else "",
            priority=self._priorities.of(named),
            preemptible=is_preemptible(spec, self._priorities.of(named)),
            gang=metadata["name"],
            min_member=int(spec.get("minMember") or 1),
        )

    def _of(self, obj: Object, path: str, template: Object) -> Work:
        if any(key in annotations_of(template) for key in _PARTS_OF_GPUS):
            raise self._lacks("part of a GPU", obj)
        pod, owners = _pod_of(obj, template)
        for owner in owners:
            self._given.know(owner)
        if (named := annotations_of(template).get(labels.POD_GROUP)) is not None:
            written = self._given.get(api_version_of("PodGroup"), "PodGroup", pod["metadata"]["namespace"], named)
            if written is None:
                raise self._lacks(f"PodGroup that is not there yet ({named})", obj)
            work = self.of_group(written)
            return replace(work, path=path)
        try:
            grouping = group(pod, owners, self._given)
        except GroupingError as error:
            raise self._lacks(f"pods of this kind ({error})", obj) from None
        self._check(grouping, obj)
        priority_class = grouping.priority_class
        priority = self._priorities.of(priority_class)
        least = grouping.min_member
        return Work(
            path=path,
            namespace=pod["metadata"]["namespace"],
            queue=grouping.queue,
            priority_class=priority_class if priority_class in self._priorities.values else "",
            priority=priority,
            preemptible=is_preemptible({"preemptibility": grouping.preemptibility}, priority),
            gang=self._gang(obj, grouping) if least > 1 else "",
            min_member=max(least, 1),
        )

    def _check(self, grouping: Grouping, obj: Object) -> None:
        if grouping.sub_groups or grouping.min_sub_group is not None:
            raise self._lacks("gang of parts, each with its own minimum", obj)
        if any(grouping.topology):
            raise self._lacks("topology constraint", obj)
        if grouping.preemption_delay:
            raise self._lacks("preemption delay", obj)

    def _gang(self, obj: Object, grouping: Grouping) -> str:
        # Several pods that stand for themselves share the one that they name.
        if grouping.shared:
            return grouping.name
        name = obj["metadata"].get("name")
        if not name:
            raise self._lacks("gang of an object whose name is still to be made", obj)
        return f"{obj['kind'].lower()}-{name}"

    def _lacks(self, concept: str, obj: Object) -> NotExpressible:
        return NotExpressible(self._who, concept, object_name(obj))


def _pod_of(obj: Object, template: Object) -> tuple[Object, list[Object]]:
    """A pod as an object makes it, and the owners that it has, nearest first."""
    namespace = obj["metadata"].get("namespace") or DEFAULT_NAMESPACE
    own = _known(obj, namespace)
    if template is obj:
        return own, []
    owners = [own]
    # A CronJob's pods belong to the Jobs that it makes.
    if kind_key(obj) == "CronJob":
        job = {"apiVersion": "batch/v1", "kind": "Job", **obj["spec"]["jobTemplate"]}
        metadata = {**(job.get("metadata") or {}), "name": f"{own['metadata']['name']}-0"}
        owners.insert(0, _known({**job, "metadata": {**metadata, "ownerReferences": [_reference(own)]}}, namespace))
    nearest = owners[0]
    own_metadata: dict[str, Any] = {
        **(template.get("metadata") or {}),
        "name": f"{nearest['metadata']['name']}-0",
        "namespace": namespace,
        "uid": "pod",
        "ownerReferences": [_reference(nearest)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own_metadata, "spec": template["spec"]}, owners


def _known(obj: Object, namespace: str) -> Object:
    """As it will be in the cluster, as far as grouping looks at it."""
    given = obj["metadata"]
    name = given.get("name") or f"{given.get('generateName', '')}0"
    return {**obj, "metadata": {**given, "name": name, "namespace": namespace, "uid": given.get("uid") or "given"}}


def _reference(owner: Object) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }


class _Given:
    """A ``kailab.grouping.reader.Reader`` of what there will be once objects are applied."""

    def __init__(self, objects: Sequence[Object], there: Cluster) -> None:
        self._there = there
        self._objects: dict[tuple[str, str, str], Object] = {}
        for obj in objects:
            if "name" in obj["metadata"]:
                self.know(obj)

    def know(self, obj: Object) -> None:
        metadata, key = obj["metadata"], kind_key(obj)
        space = (metadata.get("namespace") or DEFAULT_NAMESPACE) if is_namespaced(key, obj) else ""
        self._objects[key, space, metadata["name"]] = obj

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        key = key_of(api_version, kind)
        if (found := self._objects.get((key, namespace or "", name))) is not None:
            return found
        try:
            return self._there.get(key, name, namespace)
        except NotFound:
            return None

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        key = key_of(api_version, kind)
        found = {obj["metadata"]["name"]: obj for obj in self._there.list(key, namespace, labels)}
        return [
            *found.values(),
            *(obj for obj in self._matching(key, namespace, labels) if obj["metadata"]["name"] not in found),
        ]

    def _matching(self, key: str, namespace: str, wanted: Mapping[str, str] | None) -> Iterator[Object]:
        for (kind, space, _), obj in self._objects.items():
            if kind == key and space == namespace and (wanted or {}).items() <= labels_of(obj).items():
                yield obj
