"""A kind is one registration: this file adds one, and a lab accepts it, makes its pods, groups, shows, scales and explains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.errors import InputError
from kailab.grouping.default import default_grouping
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer
from kailab.grouping.records import Plan
from kailab.lab import Lab, expect
from kailab.model.defaults import spec_defaults
from kailab.model.kind import AGE, NAME, Column, Kind
from kailab.model.kinds import registered_kinds
from kailab.model.objects import Object, is_active
from kailab.model.validation.core import shape
from kailab.model.validation.fields import Faults
from kailab.model.validation.shapes import PODS, Check, record, with_spec
from kailab.workloads.controller import Controller

# --- the kind ---------------------------------------------------------------------------------------------------------


def squad_shape() -> Check:
    return with_spec(record({"replicas": PODS, "template": shape("V1PodTemplateSpec")}, ("template",)))


def squad_check(faults: Faults, obj: Object) -> None:
    if (obj.get("spec") or {}).get("replicas") == 13:
        faults.add("spec.replicas", "13 brings bad luck; expected another number")


class SquadController(Controller):
    def sync(self, owner: Object) -> None:
        if "deletionTimestamp" in owner["metadata"]:
            return
        pods = [pod for pod in self._bench.owned(owner, "Pod") if is_active(pod)]
        wanted = owner["spec"]["replicas"]
        for pod in pods[wanted:]:
            self._bench.delete("Pod", pod)
        for number in range(len(pods), wanted):
            self._bench.create_pod(owner, owner["spec"]["template"], name=f"{owner['metadata']['name']}-{number}")
        self._bench.set_status(self.kind, owner, members=wanted)


def squad_plan(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    grouping.min_member = integer(top, "spec", "replicas") or 1
    return Plan(grouping)


SQUAD = Kind(
    group="example.com",
    kind="Squad",
    versions=("v1",),
    plural="squads",
    short=("sq",),
    defaults=spec_defaults({"replicas": 2}),
    shape=squad_shape,
    check=squad_check,
    immutable=("spec.template",),
    controller=SquadController,
    grouping=Family("squad", squad_plan),
    columns=(NAME, Column("MEMBERS", "status.members"), Column("MOTTO", "spec.motto", default="none"), AGE),
    in_all=True,
    scalable=True,
)

# --- what a lab makes of it -------------------------------------------------------------------------------------------


def squad(name: str, gpus: int = 1, **spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": name, "kai.scheduler/queue": "team"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
    }
    labels = {"kai.scheduler/queue": "team"}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Squad",
        "metadata": metadata,
        "spec": {"template": template, **spec},
    }


QUEUE: Object = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {
        "resources": {
            "gpu": {"quota": 8, "limit": 8, "overQuotaWeight": 1},
            "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
            "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
        }
    },
}


@pytest.fixture
def lab() -> Iterator[Lab]:
    with registered_kinds(SQUAD), Lab.open() as lab:
        lab.apply(QUEUE)
        yield lab


def test_its_pods_are_made_grouped_and_run_as_a_gang(lab: Lab) -> None:
    lab.apply(squad("red", replicas=3))
    lab.settle()
    expect(lab.workload("squad", "red")).running(pods=3)
    (group,) = lab.get("podgroups")
    assert group["spec"]["minMember"] == 3
    assert lab.get("sq", "red")["status"] == {"members": 3}


def test_a_lab_that_is_open_takes_in_a_kind() -> None:
    with Lab.open() as lab:
        lab.apply(QUEUE)
        lab.settle()
        with registered_kinds(SQUAD):
            lab.apply(squad("red"))
            lab.settle()
            expect(lab.workload("squad", "red")).running(pods=2)


def test_defaults_checks_and_what_is_immutable(lab: Lab) -> None:
    lab.apply(squad("red"))
    assert lab.get("squad", "red")["spec"]["replicas"] == 2
    with pytest.raises(InputError, match="brings bad luck"):
        lab.apply(squad("blue", replicas=13))
    with pytest.raises(InputError, match=r"spec\.replicas.*'two' is not valid"):
        lab.apply(squad("blue", replicas="two"))
    with pytest.raises(InputError, match=r"spec\.template: field is immutable"):
        lab.apply(squad("red", gpus=4))


def test_it_is_scaled_and_the_rest_waits_with_its_reason(lab: Lab) -> None:
    lab.apply(squad("red", gpus=4, replicas=2), squad("blue", gpus=4))
    lab.settle()
    expect(lab.workload("squad", "blue")).pending(reason="OverLimit")
    assert "OverLimit" in str(lab.explain_workload("squad", "blue"))
    lab.scale("squads", "red", 0)
    lab.settle()
    expect(lab.workload("squad", "blue")).running(pods=2)


def test_queues_that_its_templates_name_are_looked_at(lab: Lab) -> None:
    lost = squad("lost")
    for holder in (lost, lost["spec"]["template"]):
        holder["metadata"]["labels"]["kai.scheduler/queue"] = "nowhere"
    assert any("nowhere" in warning for warning in lab.apply(lost).warnings)


def test_its_pods_can_be_another_schedulers() -> None:
    with registered_kinds(SQUAD), Lab.open(scheduler="kube-scheduler") as lab:
        lab.apply(squad("red"))
        lab.settle()
        pods = lab.get("pods")
        assert {pod["spec"]["schedulerName"] for pod in pods} != {"kai-scheduler"}
        assert all(pod["spec"].get("nodeName") for pod in pods)


def test_the_command_line_shows_it(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    with registered_kinds(SQUAD):
        with Lab.open() as lab:
            lab.apply(QUEUE, squad("red", motto="onward"))
            lab.settle()
            lab.save(tmp_path / "lab")
        header, row = run.invoke(app, ["get", "squads", "--state", "lab"]).stdout.splitlines()
        assert header.split() == ["NAME", "MEMBERS", "MOTTO", "AGE"]
        assert row.split()[:3] == ["red", "2", "onward"]
        assert "squad.example.com/red" in run.invoke(app, ["get", "all", "--state", "lab"]).stdout
        told = run.invoke(app, ["explain", "squad/red", "--state", "lab"])
        assert "2 of 2 pods running" in told.stdout, told.output
