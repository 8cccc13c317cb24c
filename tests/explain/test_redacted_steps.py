"""What programs are told of a step may be passed on: no values of environments, arguments or the like; what is carried out has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import Step
from kailab.lab.change import Apply, Patch, carry_out, read_changes
from kailab.lab.redacted_changes import redacted_data
from kailab.whatif.alternatives import Alternative, what_if
from kailab.whatif.simulation import simulate
from tests.explain.manifests import Object, deployment, fleet, job, queue

SECRET = "hunter2-hunter2"


def telling(obj: Object) -> Object:
    """With a secret wherever people put one."""
    obj["metadata"].setdefault("annotations", {})["example.com/token"] = SECRET
    [container] = obj["spec"]["template"]["spec"]["containers"]
    container |= {
        "env": [{"name": "TOKEN", "value": SECRET}],
        "args": [f"--token={SECRET}"],
        "command": ["run", SECRET],
    }
    container["image"] = f"https://user:{SECRET}@registry.example.com/train:1"
    obj["spec"]["template"]["metadata"] = {**obj["spec"]["template"].get("metadata", {})}
    obj["spec"]["template"]["metadata"].setdefault("annotations", {})["example.com/token"] = SECRET
    return obj


def too_large() -> list[Object]:
    return [queue("org"), queue("team", "org"), telling(job("big", "team", 6, 4, gang=True))]


@pytest.fixture
def lab():
    with Lab.open(fleet()) as lab:
        yield lab


def test_a_step_is_told_without_them_and_carried_out_with_them(lab: Lab) -> None:
    lab.apply(too_large())
    lab.settle()
    answer = ask(lab, "Job", "big")
    [step, *_] = answer.steps
    assert SECRET not in json.dumps(answer.data())
    assert SECRET not in str(answer)
    assert {"env", "args", "command"} <= set(step.data()["left_out"])
    carry_out(lab, read_changes([dict(change) for change in step.changes]))
    [container] = lab.cluster.get("Job", "big", "default")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "TOKEN", "value": SECRET}]


def test_what_the_reader_needs_of_it_stays(lab: Lab) -> None:
    lab.apply(too_large())
    lab.settle()
    [step, *_] = ask(lab, "Job", "big").steps
    _, made = step.data()["changes"]
    [obj] = made["apply"]
    assert (obj["metadata"]["name"], obj["spec"]["parallelism"], obj["spec"]["completions"]) == ("big", 4, 4)
    assert obj["metadata"]["annotations"] == {"kai.scheduler/batch-min-member": "4"}
    [container] = obj["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}


def test_a_short_patch_that_would_tell_one_is_told_without_its_command(lab: Lab) -> None:
    obj = deployment("web", "team", 1, 6)
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": SECRET}]
    lab.apply([queue("org"), queue("team", "org"), obj])
    lab.settle()
    steps = ask(lab, "Deployment", "web").steps
    assert any("Ask for 4 GPUs a pod" in step.do for step in steps)
    assert SECRET not in json.dumps([step.data() for step in steps])
    assert SECRET not in "".join(step.describe() for step in steps)


def test_a_simulation_and_a_what_if_tell_none(lab: Lab) -> None:
    lab.apply([queue("org"), queue("team", "org")])
    lab.settle()
    assert SECRET not in json.dumps(simulate(lab, [telling(job("big", "team", 6, 4, gang=True))]).data())
    tried = what_if(lab, [Alternative("a job", (Apply((telling(job("j", "team", 2)),)),))])
    assert SECRET not in json.dumps(tried.data())
    assert tried.data()["alternatives"][0]["changes"][0]["apply"][0]["spec"]["parallelism"] == 2


def test_a_patch_is_cut_by_the_rules_of_its_kind() -> None:
    container: dict[str, Any] = {
        "name": "main",
        "env": [{"name": "TOKEN", "value": SECRET}],
        "resources": {"limits": {"cpu": "2"}},
    }
    change = Patch("Deployment", "web", {"spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}}})
    told = redacted_data([change.data()])
    assert told["left_out"] == ["env"]
    assert told["changes"][0]["patch"]["patch"] == {
        "spec": {
            "replicas": 2,
            "template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}},
        }
    }


@pytest.mark.parametrize(
    "change",
    [
        {"patch": {"kind": "Node", "name": "n", "patch": {"metadata": {"labels": {"lab/rack": "r-1"}}}}},
        {"patch": {"kind": "Node", "name": "n", "patch": {"spec": {"unschedulable": False, "taints": []}}}},
        {"patch": {"kind": "Job", "name": "j", "namespace": "a", "patch": {"spec": {"suspend": True}}}},
        {
            "patch": {
                "kind": "Queue",
                "name": "q",
                "patch": {"spec": {"resources": {"gpu": {"quota": 4.5}}, "parentQueue": None}},
            }
        },
        {"delete": {"kind": "Job", "name": "j", "namespace": "a"}},
        {"advance": 60.0},
    ],
    ids=str,
)
def test_a_change_that_tells_nothing_else_is_told_whole(change: Any) -> None:
    assert Step("Do it", (change,)).data()["changes"] == [change]
    assert "left_out" not in Step("Do it", (change,)).data()
