"""Ray: one gang of the head and the worker groups of a RayCluster, with a subgroup for each.

RayJobs and RayServices name their RayCluster in their status; before that their pods can't be grouped. A worker group's minimum is its
``minReplicas``, or its ``replicas`` if that is 0, times ``numOfHosts``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family, MakePlan
from kailab.grouping.fields import boolean, integer, mapping, objects, string, title
from kailab.grouping.records import GroupingError, Plan, PlannedSubGroup, PlannedTopology, annotated_topology
from kailab.model.labels import TOPOLOGY
from kailab.model.objects import labels_of, namespace_of

_NODE_GROUP = "ray.io/group"
_HEAD = "headgroup"
_PRIORITY_CLASS = "ray.io/priority-class-name"


def _plan_with(cluster_of: Callable[[Object, Context], Object]) -> MakePlan:
    def plan(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
        cluster = cluster_of(top, context)
        grouping = default_grouping(top, pod, (), context)
        sub_groups = _sub_groups(cluster)
        grouping.min_member = sum(group.min_member for group in sub_groups)
        legacy = context.legacy_pod_group(grouping.namespace, grouping.name)
        # A PodGroup that an older KAI made without subgroups gets none.
        if legacy is None or legacy["spec"].get("subGroups"):
            grouping.sub_groups = sub_groups
        # Ray's own label for the class, which KAI does not check.
        grouping.priority_class = labels_of(top).get(_PRIORITY_CLASS, grouping.priority_class)
        names = frozenset(group.name for group in grouping.sub_groups)

        def sub_group_of(member: Object) -> str:
            named = labels_of(member).get(_NODE_GROUP, "")
            return named if named in names else ""

        return Plan(grouping, sub_group_of)

    return plan


def _named_in_status(*paths: tuple[str, ...]) -> Callable[[Object, Context], Object]:
    def cluster_of(top: Object, context: Context) -> Object:
        name = next(filter(None, (string(top, "status", *path) for path in paths)), None)
        if name is None:
            raise GroupingError(f"{title(top)} has no RayCluster yet: its status names none")
        cluster = context.reads.get(top["apiVersion"], "RayCluster", namespace_of(top), name)
        if cluster is None:
            raise GroupingError(f"RayCluster {namespace_of(top)}/{name} of {title(top)} does not exist")
        return cluster

    return cluster_of


def _sub_groups(cluster: Object) -> list[PlannedSubGroup]:
    head = mapping(cluster, "spec", "headGroupSpec") or {}
    groups = [PlannedSubGroup(_HEAD, 1, topology=_topology(head, "headGroupSpec"))]
    for index, spec in enumerate(objects(cluster, "spec", "workerGroupSpecs") or ()):
        replicas = _least_replicas(spec, cluster, index)
        if not replicas:
            continue
        hosts = integer(spec, "numOfHosts")
        name = string(spec, "groupName") or f"worker-group-{index}"
        topology = _topology(spec, f"workerGroupSpecs.{name}")
        groups.append(PlannedSubGroup(name, replicas * (1 if hosts is None else hosts), topology=topology))
    return groups


def _least_replicas(spec: dict[str, Any], cluster: Object, index: int) -> int:
    # KAI reads ``suspended``, while Ray's field is ``suspend``, so a suspended group still counts, as in KAI.
    if boolean(spec, "suspended"):
        return 0
    desired = integer(spec, "replicas") or 0
    least = integer(spec, "minReplicas") or 0
    if least > desired:
        raise GroupingError(
            f"{title(cluster)}: workerGroupSpecs.{index} has {desired} replicas, fewer than its minReplicas {least}"
        )
    return least if least > 0 else desired


def _topology(spec: dict[str, Any], where: str) -> PlannedTopology | None:
    annotations = mapping(spec, "template", "metadata", "annotations") or {}
    topology = annotated_topology(lambda key: string(annotations, key))
    if not topology.required_level and not topology.preferred_level:
        return None
    if not topology.topology:
        raise GroupingError(f"{where}: a topology placement needs the annotation {TOPOLOGY} too")
    return topology


RAY_CLUSTER = Family("raycluster", _plan_with(lambda top, context: top))
RAY_JOB = Family("rayjob", _plan_with(_named_in_status(("rayClusterName",))), per_owner=False)
RAY_SERVICE = Family(
    "rayservice",
    _plan_with(_named_in_status(("activeServiceStatus", "rayClusterName"), ("pendingServiceStatus", "rayClusterName"))),
    per_owner=False,
)
