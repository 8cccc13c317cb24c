"""Grove: the PodGang that Grove's operator makes of a PodCliqueSet is the gang, and its pod groups are the subgroups.

Groups of cliques that share a topology constraint become a parent subgroup. Labels and annotations of the top owner (the PodCliqueSet or
its owner) count where the PodGang lacks them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping, duration
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, objects, string, strings, title
from kailab.grouping.records import (
    Grouping,
    GroupingError,
    Plan,
    PlannedSubGroup,
    PlannedTopology,
    annotated_topology,
)
from kailab.model.labels import PREEMPTIBILITY, PREEMPTION_DELAY, PRIORITY_CLASS, TOPOLOGY
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of

_POD_GANG = "grove.io/podgang"
_TOPOLOGY_NAME = "grove.io/topology-name"
_PACKING = ("topologyConstraint", "packConstraint")


def _grove(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    gang = context.labelled(pod, _POD_GANG, "scheduler.grove.io/v1alpha1", "PodGang")
    # The PodGang takes the place of the owner: the PodGroup gets its name, labels and UID.
    grouping = default_grouping(gang, pod, (), context)
    own = annotations_of(gang)
    topology = own.get(_TOPOLOGY_NAME, own.get(TOPOLOGY, ""))
    grouping.topology = _constraint(gang, topology, "spec", *_PACKING) or grouping.topology
    # As in KAI, the class need not exist.
    named_class = string(gang, "spec", "priorityClassName")
    if named_class is not None:
        grouping.priority_class = named_class
    for key, value in labels_of(top).items():
        grouping.labels.setdefault(key, value)
    for key, value in annotations_of(top).items():
        grouping.annotations.setdefault(key, value)
    # After the merge: labels of the top owner count like those of the PodGang.
    _apply_inherited(grouping)
    parents, parent_of = _parents(gang, topology)
    specs = objects(gang, "spec", "podgroups") or ()
    leaves = [_leaf(gang, spec, index, topology, parent_of) for index, spec in enumerate(specs)]
    grouping.sub_groups = [*parents, *leaves]
    grouping.min_member = sum(leaf.min_member for leaf in leaves)
    # Reversed, so that the first leaf that names a pod wins.
    leaf_of = {pod_name: leaf.name for leaf in reversed(leaves) for pod_name in leaf.pods}
    return Plan(grouping, lambda member: leaf_of.get(name_of(member), ""))


def _apply_inherited(grouping: Grouping) -> None:
    """Apply the merged labels and annotations, as for any other owner."""
    grouping.priority_class = grouping.labels.get(PRIORITY_CLASS, grouping.priority_class)
    preemptibility = grouping.labels.get(PREEMPTIBILITY)
    if preemptibility is not None:
        if preemptibility not in ("preemptible", "non-preemptible", ""):
            raise GroupingError(f"label {PREEMPTIBILITY}: {preemptibility!r} is no preemptibility")
        grouping.preemptibility = preemptibility
    delay = grouping.annotations.get(PREEMPTION_DELAY)
    if delay is not None:
        grouping.preemption_delay = duration(delay) or grouping.preemption_delay
    inherited = annotated_topology(grouping.annotations.get)
    grouping.topology = PlannedTopology(
        *(own or other for own, other in zip(grouping.topology, inherited, strict=True))
    )


def _parents(gang: Object, topology: str) -> tuple[list[PlannedSubGroup], dict[str, str]]:
    parents: list[PlannedSubGroup] = []
    parent_of: dict[str, str] = {}
    for index, config in enumerate(objects(gang, "spec", "topologyConstraintGroupConfigs") or ()):
        name = string(config, "name")
        if name is None:
            raise GroupingError(f"{title(gang)}: spec.topologyConstraintGroupConfigs.{index}.name is missing")
        children = strings(config, "podGroupNames")
        if children:
            parent_of.update(dict.fromkeys(children, name))
            constraint = _constraint(config, topology, *_PACKING)
            parents.append(PlannedSubGroup(name, min_sub_group=len(children), topology=constraint))
    return parents, parent_of


def _leaf(
    gang: Object, spec: dict[str, Any], index: int, topology: str, parent_of: Mapping[str, str]
) -> PlannedSubGroup:
    where = f"{title(gang)}: spec.podgroups.{index}"
    name = string(spec, "name")
    least = integer(spec, "minReplicas")
    references = objects(spec, "podReferences")
    if name is None or least is None or references is None:
        raise GroupingError(f"{where} needs name, minReplicas and podReferences")
    if least <= 0:
        raise GroupingError(f"{where}.minReplicas is {least}, expected 1 or more")
    pods = tuple(_referenced_pod(gang, reference, where) for reference in references)
    constraint = _constraint(spec, topology, *_PACKING)
    return PlannedSubGroup(name, least, parent=parent_of.get(name), topology=constraint, pods=pods)


def _referenced_pod(gang: Object, reference: dict[str, Any], where: str) -> str:
    namespace, name = string(reference, "namespace"), string(reference, "name")
    if namespace is None or name is None:
        raise GroupingError(f"{where}.podReferences: each needs namespace and name")
    if namespace != namespace_of(gang):
        raise GroupingError(f"{where}.podReferences: pod {namespace}/{name} is in another namespace")
    return name


def _constraint(obj: Object, topology: str, *path: str) -> PlannedTopology | None:
    preferred, required = string(obj, *path, "preferred"), string(obj, *path, "required")
    if preferred is None and required is None:
        return None
    if not topology:
        raise GroupingError(f"{'.'.join(path)}: a topology constraint needs the name of a topology")
    return PlannedTopology(topology, required or "", preferred or "")


GROVE = Family("grove", _grove, per_owner=False)
