"""The table of what an embedded lab does with each field agrees with the definitions, with the notices of apply, and with the page."""

from __future__ import annotations

import itertools
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kailab.lab import Lab
from kailab.lab.unknown_fields import refused_fields
from kailab.model.kinds import KINDS
from kailab.model.manifests import from_objects
from kailab.model.validation import core
from tools.coverage_table import FILE, render
from tools.field_coverage import COVERED, OPERATORS_ACT, Effect, Field, fields_of, stale_rows

ROOT = Path(__file__).parents[2]
ACTING = ("cluster", "grouping", "kinds", "lab", "model", "scheduler", "workloads")
TYPES = {
    "spec.": "V1PodSpec",
    "spec.containers.*.": "V1Container",
    "spec.initContainers.*.": "V1Container",
    "spec.volumes.*.": "V1Volume",
}
TOLD = [
    pytest.param(kind, row, id=row.path)
    for kind in ("Pod", "Job")
    for row in fields_of(kind)
    if row.effect is Effect.TOLD
]


def test_the_page_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run `make docs`"


def test_every_field_of_a_pod_and_a_job_has_a_row_and_no_row_is_stale() -> None:
    assert stale_rows() == []
    pod = {row.path for row in fields_of("Pod")}
    for above, type in TYPES.items():
        for name in core.field_types(type):
            assert any(path == f"{above}{name}" or path.startswith(f"{above}{name}.") for path in pod)
    assert {f"spec.{name}" for name in core.field_types("V1JobSpec")} <= {row.path for row in fields_of("Job")}


@cache
def names_that_are_read() -> set[str]:
    texts = "".join(
        path.read_text(encoding="utf-8")
        for part in ACTING
        for path in (ROOT / "kailab" / part).rglob("*.py")
        if path.name != "core.json"
    )
    return set(re.findall(r"""["'.](\w+)["'\]]""", texts)) | set(re.findall(r"\b(\w+):", texts))


@pytest.mark.parametrize("kind", [*COVERED, *OPERATORS_ACT])
def test_something_reads_each_field_that_is_said_to_act(kind: str) -> None:
    acting = [row.path for row in fields_of(kind) if row.effect is Effect.ACTS]
    assert acting
    assert [path for path in acting if path.rpartition(".")[2] not in names_that_are_read()] == []


@pytest.mark.parametrize("kind", OPERATORS_ACT)
def test_every_field_of_an_operators_kind_has_a_row(kind: str) -> None:
    known = KINDS[kind]
    definition = core.operator_definition(known.api_version, known.kind)
    assert definition is not None
    spec = core.operator_field_types(definition.type)["spec"]
    named = {row.path.split(".")[1] for row in fields_of(kind) if row.path.startswith("spec.")}
    assert set(core.operator_field_types(spec)) <= named


VALUES: dict[str, Any] = {
    "spec.preemptionPolicy": "Never",
    "spec.serviceAccountName": "none-such",
    "spec.topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
    ],
    "spec.readinessGates": [{"conditionType": "example.com/ready"}],
    "spec.schedulingGroup": {"podGroupName": "a"},
    "spec.resources": {"requests": {"cpu": "1"}},
    "spec.successPolicy": {"rules": [{"succeededCount": 1}]},
    "spec.scheduling": {"enabled": True},
    "restartPolicy": "OnFailure",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}],
}


@pytest.mark.parametrize(("kind", "row"), TOLD)
def test_a_field_that_is_told_is_named_at_apply(kind: str, row: Field) -> None:
    steps = row.path.split(".")
    value = VALUES.get(row.path, VALUES.get(steps[-1]))
    assert value is not None, f"this test needs a value for {row.path}"
    pod: dict[str, Any] = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "x"}]}
    if steps[1] == "initContainers":
        pod["initContainers"] = [{"name": "first", "image": "x"}]
    if steps[1] == "volumes":
        pod["volumes"] = [{"name": "data"}]
    spec = (
        pod
        if kind == "Pod"
        else {"completionMode": "Indexed", "completions": 1, "template": {"spec": {**pod, "restartPolicy": "Never"}}}
    )
    at: Any = spec
    for step, below in itertools.pairwise(steps[1:]):
        at = at[0] if step == "*" else at.setdefault(step, {} if below != "*" else [])
    at[steps[-1]] = value
    api_version = "v1" if kind == "Pod" else "batch/v1"
    obj = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "work", "labels": {"kai.scheduler/queue": "q"}},
        "spec": spec,
    }
    with Lab.open("lesson") as lab:
        warnings = lab.apply([obj], validate="warn").warnings
    named = re.sub(r"\.\*", r"\\[0\\]", row.path)
    assert [text for text in warnings if re.search(rf"{named}\b", text)], warnings


def test_a_field_without_a_row_is_refused() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "image": "x"}], "zzz": 1},
    }
    (error,) = refused_fields(from_objects([pod]))
    assert "spec.zzz: unknown field" in str(error)
