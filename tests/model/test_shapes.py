"""The shapes of kinds: what an API server would refuse is refused, with its place; what it takes is taken."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.metadata import version

import pytest

from checks.fuzzing.odd_seeds import SEEDS
from kailab.components.pins import ADDONS
from kailab.errors import InputError
from kailab.model.kinds import KINDS, key_of_group, kind_key
from kailab.model.manifests import load_text
from kailab.model.validation import core, shape_of, validate
from kailab.operators import OPERATORS
from tools import core_table

OBJECTS = {
    f"{obj['kind']}/{obj['metadata']['name']}": obj
    for objects in SEEDS.values()
    for obj in objects
    if shape_of(kind_key(obj))
}


def faults(name, path, value):
    """Of an object with the value at a path replaced."""
    obj = deepcopy(OBJECTS[name])
    at = obj
    *way, last = path
    for step in way:
        at = at[step]
    at[last] = value
    return {fault.field: fault.message for fault in validate(obj, kind_key(obj))}


@pytest.mark.parametrize(
    ("name", "path", "value", "field", "expected"),
    [
        ("JobSet/jobset", ("spec", "replicatedJobs", 0, "replicas"), "two", "spec.replicatedJobs[0].replicas", "whole number"),
        ("JobSet/jobset", ("spec", "replicatedJobs", 0, "name"), None, "spec.replicatedJobs[0].name", "is required"),
        ("JobSet/jobset", ("spec", "failurePolicy"), [], "spec.failurePolicy", "a list is not valid; expected a mapping"),
        ("JobSet/jobset", ("spec", "replicatedJobs", 1, "name"), "a", "spec.replicatedJobs[1].name", "given twice"),
        ("TrainJob/trainjob", ("spec", "trainer", "env"), "x", "spec.trainer.env", "expected a list"),
        ("RayJob/rayjob", ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template", "spec"), 3,
         "spec.rayClusterSpec.workerGroupSpecs[0].template.spec", "3 is not valid; expected a mapping"),
        ("SparkApplication/spark", ("spec", "driver", "memory"), "²g", "spec.driver.memory", "512m or 4g"),
        ("SparkApplication/spark", ("spec", "driver", "memory"), "512ib", "spec.driver.memory", "512m or 4g"),
        ("Service/knative", ("spec", "template"), [], "spec.template", "expected a mapping"),
        ("MPIJob/mpijob", ("spec", "mpiReplicaSpecs", "Worker", "template"), None,
         "spec.mpiReplicaSpecs.Worker.template", "is required"),
        ("PyTorchJob/pytorchjob", ("spec", "pytorchReplicaSpecs", "a b"), {"template": {}}, "spec.pytorchReplicaSpecs.a b.template.spec", "is required"),
        ("Deployment/deployment", ("spec", "strategy", "rollingUpdate", "maxSurge"), "²%",
         "spec.strategy.rollingUpdate.maxSurge", "a percentage such as 25%"),
        ("StatefulSet/statefulset", ("spec", "ordinals", "start"), 2**31, "spec.ordinals.start", "2147483647"),
        ("Job/job", ("spec", "podFailurePolicy", "rules", 0, "action"), "Explode", "spec.podFailurePolicy.rules[0].action", "FailJob"),
        ("Pod/pod", ("spec", "containers", 0, "env"), [{"value": "x"}], "spec.containers[0].env[0].name", "is required"),
        ("Pod/pod", ("spec", "hostNetwork"), "yes", "spec.hostNetwork", "true or false"),
        ("NodeResourceTopology/spare", ("zones", 0, "resources", 0, "allocatable"), "lots",
         "zones[0].resources[0].allocatable", "is not a quantity"),
        ("NodeResourceTopology/spare", ("zones", 1, "resources", 0, "name"), None, "zones[1].resources[0].name", "is required"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(name, path, value, field, expected):
    found = faults(name, path, value)
    assert field in found
    assert expected in found[field]


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_every_field_of_the_sound_ones_is_taken(name):
    obj = OBJECTS[name]
    assert validate(obj, kind_key(obj)) == []


def test_a_null_counts_as_absent_and_unknown_fields_stay():
    found = load_text(
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a, labels: null},"
        " spec: {suspend: null, failurePolicy: null, replicatedJobs: [], invented: [1]}}"
    )
    assert found.objects[0]["spec"] == {"replicatedJobs": [], "invented": [1]}


def test_line_file_object_and_field_are_told():
    text = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n  replicatedJobs:\n  - name: x\n"
    with pytest.raises(InputError) as caught:
        load_text(text, "a.yaml")
    assert str(caught.value) == "a.yaml:6: JobSet/a: spec.replicatedJobs[0].template: is required"


@pytest.mark.parametrize("kind", ["Deployment/deployment", "StatefulSet/statefulset", "ReplicaSet/replicaset"])
def test_more_pods_than_a_lab_holds(kind):
    found = faults(kind, ("spec", "replicas"), 10**9)
    assert "20000" in found["spec.replicas"]


def test_faults_beyond_a_few_are_counted():
    found = faults("Pod/pod", ("spec", "containers", 0, "resources", "limits"), {f"k{n}": "v" for n in range(2000)})
    assert len(found) < 40
    assert any("more faults" in message for message in found.values())


@pytest.mark.skipif(not version("kubernetes").startswith("37."), reason="the table is that of another version")
def test_the_table_is_what_the_models_say():
    assert core.TABLE.read_text(encoding="utf-8") == core_table.written(core_table.made_table())


def test_every_type_of_the_table_can_be_made():
    for kind in (kind for kind in KINDS.values() if kind.schema):
        check = core.shape(kind.schema)
        assert all(fault.message == "is required" for fault in check({"metadata": {"name": "x"}}) or ())
        assert check([]) is not None
    for name in (*core.types(), *json.loads(core.KINDS_TABLE.read_text(encoding="utf-8"))):
        assert core.shape(name)({}) is None or core.required_fields(name)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"kValue": "abc"}, "spec.kValue"),
        ({"args": {"v": 5}}, "spec.args[v]"),
        ({"queueDepthPerAction": {"reclaim": 2**63}}, "spec.queueDepthPerAction[reclaim]"),
        ({"queueDepthPerAction": {"reclaim": 1.5}}, "spec.queueDepthPerAction[reclaim]"),
        ({"placementStrategy": "spread"}, "spec.placementStrategy"),
        ({"plugins": {"proportion": {"enabled": "yes"}}}, "spec.plugins[proportion].enabled"),
        ({"actions": {"reclaim": {"priority": 2**64}}}, "spec.actions[reclaim].priority"),
        ({"usageDBConfig": {}}, "spec.usageDBConfig.clientType"),
        ({"usageDBConfig": {"clientType": "p", "usageParams": {"tumblingWindowStartTime": "now"}}}, "spec.usageDBConfig.usageParams.tumblingWindowStartTime"),
        ({"kValue": 1, "plugins": {"own": {"priority": 5, "arguments": {"a": "b"}}}}, ""),
        ({"minRuntime": {"preemptMinRuntime": "1m"}, "partitionLabelValue": "a"}, ""),
    ],
)  # fmt: skip
def test_a_scheduling_shard_has_the_types_of_kais(spec, field):
    obj = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "s"}, "spec": spec}
    assert [fault.field for fault in validate(obj, "SchedulingShard")] == ([field] if field else [])


def test_a_config_has_the_types_of_kais():
    obj = {"apiVersion": "kai.scheduler/v1", "kind": "Config", "metadata": {"name": "c"}}
    assert not validate({**obj, "spec": {"scheduler": {"replicas": 2, "args": {"x": 1}}}}, "Config")
    (fault,) = validate({**obj, "spec": {"scheduler": {"replicas": 2**31}}}, "Config")
    assert fault.field == "spec.scheduler.replicas"


def test_numbers_have_the_bounds_that_an_api_server_gives_them():
    """Every number of 32 bits, of 64, every count and every port of the seeds, at the ends of what it holds."""
    bounds = {"int": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1), "count": (0, 2**31 - 1), "port": (0, 65535)}
    for type, (least, most) in bounds.items():
        check = core.shape(type)
        assert [check(value) is None for value in (least, most, least - 1, most + 1)] == [True, True, False, False]
    assert core.field_types("V1DeploymentSpec")["progressDeadlineSeconds"] == "count"
    assert core.field_types("V1PodSpec")["terminationGracePeriodSeconds"] == "int64"
    assert core.field_types("V1ServicePort")["nodePort"] == core.field_types("V1ContainerPort")["hostPort"] == "port"


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", "spec.minReadySeconds", 2**31),
        ("Deployment", "spec.progressDeadlineSeconds", -1),
        ("StatefulSet", "spec.ordinals.start", -1),
        ("CronJob", "spec.startingDeadlineSeconds", -1),
        ("CronJob", "spec.failedJobsHistoryLimit", -1),
        ("Job", "spec.activeDeadlineSeconds", 2**63),
        ("Job", "spec.maxFailedIndexes", -1),
        ("RayJob", "spec.activeDeadlineSeconds", 2**31),
        ("PyTorchJob", "spec.runPolicy.activeDeadlineSeconds", 2**63),
        ("PyTorchJob", "spec.runPolicy.ttlSecondsAfterFinished", 2**31),
    ],
)
def test_a_number_out_of_its_bounds_is_told_with_its_field(kind, path, value):
    obj = deepcopy(next(objects[-1] for name, objects in SEEDS.items() if name.startswith(f"{kind}/")))
    at = obj
    *way, last = path.split(".")
    for step in way:
        at = at.setdefault(step, {})
    at[last] = value
    assert [fault.field for fault in validate(obj, kind)] == [path]


# The table of the fields of operators' kinds belongs to the versions that are pinned.


def _definitions() -> dict[str, str]:
    """Kind key -> whose definition, of all kinds with a controller whose fields kailab has from nowhere else."""
    found = {}
    for key, kind in KINDS.items():
        if kind.controller is not None and not kind.schema:
            definition = core.operator_definition(kind.api_version, kind.kind)
            found[key] = definition.whose if definition else ""
    return found


def test_each_operators_kind_that_has_a_controller_has_its_fields() -> None:
    assert [key for key, whose in _definitions().items() if not whose] == []


def test_fields_are_those_of_the_pinned_versions() -> None:
    """If a pin was raised: ``python -m tools.operator_fields``."""
    pinned = {f"{operator.title} {ADDONS[name][0].version}" for name, operator in OPERATORS.items() if operator.kinds}
    assert pinned <= set(_definitions().values())


def test_types_that_fields_name_are_there() -> None:
    key = key_of_group("jobset.x-k8s.io", "JobSet")
    assert key is not None
    definition = core.operator_definition(KINDS[key].api_version, "JobSet")
    assert definition is not None
    todo, seen = [definition.type], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        todo += [
            of.strip("[]{}") for of in core.operator_field_types(name).values() if of.strip("[]{}")[:1] in ("O", "V")
        ]
    assert "V1JobSpec" in seen
