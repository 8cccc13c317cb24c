"""Compares grouping with KAI's podgrouper by its own test cases (podgrouper.json).

A group case has the owner, the pod, settings and every read of KAI's grouper. The family of the same plugin groups the
pod with those reads as its whole cluster, and the results are compared field by field. If KAI reported an error, kailab
must too, in its own words. A PodGroup case compares the object made from a grouping, or what an update preserves of an
existing PodGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from checks.recorded_files import read_json
from checks.report import Report, Result
from kailab.cluster.protocol import Object
from kailab.errors import InputError, Where
from kailab.grouping import Grouping, GroupingConfig, GroupingError, keep_foreign_fields, podgroup_object
from kailab.grouping.families import plain_workloads
from kailab.grouping.families.kubeflow import distributed_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.pod_grouping import families, with_pod
from kailab.grouping.records import GroupOwner, Plan, PlannedSubGroup, PlannedTopology
from kailab.model.labels import NODE_POOL, QUEUE

# KAI's plugin -> kailab's family, if the names differ by more than case and suffix.
_FAMILY_NAMES = {
    "K8sJobGrouper": "job",
    "LwsGrouper": "leaderworkerset",
    "skipTopOwnerGrouper": "wrapper",
    "PodJobGrouper": "pod",
    "SparkGrouper": "pod",
    "AmlGrouper": "amljob",
}
_FIELDS = (
    "name",
    "namespace",
    "queue",
    "priority_class",
    "preemptibility",
    "min_member",
    "min_sub_group",
    "labels",
    "annotations",
    "owner",
    "preemption_delay",
    "staleness_grace_period",
    "topology",
    "sub_groups",
)
_NOT_GIVEN = {
    "KartaGrouper": "the case does not give the Karta object that decides it",
}


class RecordedReads:
    """A Reader over the reads of one case: what KAI did not read does not exist."""

    def __init__(self, reads: Iterable[Mapping[str, Any]]) -> None:
        self._objects: dict[tuple[str, str | None, str], Object] = {}
        self._lists: dict[tuple[str, str], list[Object]] = {}
        for read in reads:
            kind = read["gvk"].rpartition("/")[2] if "gvk" in read else read["type"].rpartition(".")[2]
            if read["verb"] == "list":
                self._lists[kind.removesuffix("List"), read["namespace"]] = read["list"]["items"]
            elif "object" in read:
                self._objects[kind, read["namespace"] or None, read["name"]] = read["object"]

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        return self._objects.get((kind, namespace or None, name))

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        return self._lists.get((kind, namespace), [])


def run_file(path: str | Path) -> Report:
    """Run every case of a podgrouper.json. Raises InputError if it is not such a file."""
    try:
        cases = read_json(Path(path))
        group_cases, object_cases = cases["group_cases"], cases["podgroup_object_cases"]
    except (KeyError, TypeError) as problem:
        raise InputError(f"not a file of podgrouper cases ({problem})", Where(file=str(path))) from problem
    if not all(isinstance(case, dict) and {"id", "grouper", "expected"} <= case.keys() for case in group_cases):
        raise InputError("group_cases: expected entries with id, grouper, expected", Where(file=str(path)))
    if not all(isinstance(case, dict) and {"id", "kind"} <= case.keys() for case in object_cases):
        raise InputError("podgroup_object_cases: expected entries with id, kind", Where(file=str(path)))
    report = Report("grouping")
    report.results += [run_group_case(case) for case in group_cases]
    report.results += [run_object_case(case) for case in object_cases]
    return report


def run_group_case(case: Mapping[str, Any]) -> Result:
    """Group one pod of one owner by the family of the plugin that KAI's test called."""
    plugin, expected = case["grouper"], case["expected"]
    if plugin in _NOT_GIVEN:
        return Result(case["id"], plugin, ("not run",), notes=(_NOT_GIVEN[plugin],), counted=False)
    context = Context(RecordedReads(case["cluster_reads"]), _config(case), lambda group, kind: _delegate(case))
    try:
        plan = _plan(case, context)
        got = _as_case(with_pod(plan, case["pod"]))
    except GroupingError as refusal:
        if "error" in expected:
            return Result(case["id"], plugin, notes=(f"refused: {refusal}",))
        return Result(case["id"], plugin, (f"expected a grouping, got the error {refusal}",))
    if "error" in expected:
        return Result(case["id"], plugin, (f"expected the error {expected['error']!r}, got a grouping",))
    pairs = ((field, expected[field], got[field]) for field in _FIELDS)
    return Result(case["id"], plugin, _differences((f, _plain(want), _plain(have)) for f, want, have in pairs))


def run_object_case(case: Mapping[str, Any]) -> Result:
    """Run a case of kind ``create_pod_group`` or ``ignore_fields``."""
    given, expected = case["input"], case["output"]
    if case["kind"] == "create_pod_group":
        got = podgroup_object(_as_grouping(given))
    else:
        config = GroupingConfig(queue_label=given["queue_label_key"], node_pool_label=given["node_pool_key"])
        got = keep_foreign_fields(given["old"], given["new"], config)
    pairs = ((part, _plain(expected.get(part)), _plain(got.get(part))) for part in ("metadata", "spec"))
    return Result(case["id"], case["kind"], _differences(pairs))


def _plan(case: Mapping[str, Any], context: Context) -> Plan:
    top, pod = case["top_owner"] or {}, case["pod"]
    if case["grouper"] == "KubeflowDistributedGrouper":
        replica_specs, required = case["extra_args"]
        return Plan(distributed_grouping(top, pod, context, replica_specs, required))
    return _family(case["grouper"]).plan(top, pod, case["owners"], context)


def _family(plugin: str) -> Family:
    name = _FAMILY_NAMES.get(plugin, plugin.removesuffix("Grouper").lower())
    found = next((family for family in families() if family.name == name), None)
    if found is None:
        raise InputError(f"no family for KAI's plugin {plugin}")
    return found


def _delegate(case: Mapping[str, Any]) -> Family:
    """The family to which a wrapper delegates. KAI's test may have a smaller table than the real one."""
    delegates = case.get("delegates_to")
    return _family(delegates[0]) if delegates else plain_workloads.DEFAULT


def _config(case: Mapping[str, Any]) -> GroupingConfig:
    config, flags = case["config"], case["config"]["grouper_flags"]
    queue, node_pool = config["queue_label_key"], config["node_pool_label_key"]
    namespace, name = config["defaults_configmap"]
    return GroupingConfig(
        queue_label=QUEUE if queue is None else queue,
        node_pool_label=NODE_POOL if node_pool is None else node_pool,
        defaults_configmap=(namespace, name) if name else None,
        knative_gang=flags.get("gangSchedule", True),
        legacy_pod_groups=flags.get("searchForLegacyPodGroups", True),
    )


def _as_case(grouping: Grouping) -> dict[str, Any]:
    """A grouping in the form of the cases."""
    values: dict[str, Any] = {field: getattr(grouping, field) for field in _FIELDS}
    values["owner"] = grouping.owner.as_object()
    values["topology"] = grouping.topology._asdict()
    values["sub_groups"] = [
        {
            "name": each.name,
            "min_member": each.min_member,
            "min_sub_group": each.min_sub_group,
            "parent": each.parent,
            "pods": list(each.pods),
            "topology": each.topology._asdict() if each.topology else {},
        }
        for each in grouping.sub_groups
    ]
    return values


def _as_grouping(given: Mapping[str, Any]) -> Grouping:
    values = {field: given[field] for field in _FIELDS}
    values["owner"] = msgspec.convert(given["owner"], GroupOwner)
    values["topology"] = PlannedTopology(**given["topology"])
    values["sub_groups"] = [
        PlannedSubGroup(
            each["name"],
            each["min_member"],
            each["min_sub_group"],
            each["parent"],
            PlannedTopology(**each["topology"]) if each.get("topology") else None,
            tuple(each["pods"]),
        )
        for each in given["sub_groups"]
    ]
    return Grouping(**values)


def _plain(value: Any) -> Any:
    """The value without empty fields, because Go omits empty fields or writes them."""
    if isinstance(value, Mapping):
        plain = {key: _plain(each) for key, each in value.items()}
        return {key: each for key, each in plain.items() if each not in ({}, [], "", None)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _differences(pairs: Iterable[tuple[str, Any, Any]]) -> tuple[str, ...]:
    return tuple(f"{field}: expected {want!r}, got {got!r}" for field, want, got in pairs if want != got)
