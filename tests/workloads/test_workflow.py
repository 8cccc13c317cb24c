"""Argo Workflows: pods in the order of steps and of a DAG."""

from __future__ import annotations

import pytest

from kailab.errors import Invalid

RUN = "kailab.dev/run-seconds"
FAIL = "kailab.dev/fail"


def work(name="work", seconds="10", **more):
    """A template of a pod that runs for a while."""
    container = {"image": "x", "resources": {"limits": {"cpu": "{{inputs.parameters.cpu}}"}}}
    inputs = {"parameters": [{"name": "cpu", "default": "1"}]}
    return {"name": name, "container": container, "inputs": inputs, "metadata": {"annotations": {RUN: seconds}}, **more}


def failing(name="bad", **more):
    return work(name, "5", metadata={"annotations": {FAIL: "5"}}, **more)


def workflow(world, *templates, **spec):
    full = {"entrypoint": templates[0]["name"], "templates": list(templates), **spec}
    return world.add("argoproj.io/v1alpha1", "Workflow", full)


def steps(*groups, name="main", **more):
    return {"name": name, "steps": [list(group) for group in groups], **more}


def dag(*tasks, name="main", **more):
    return {"name": name, "dag": {"tasks": list(tasks), **more}}


def step(name, template="work", **more):
    return {"name": name, "template": template, **more}


def ran(world):
    """The nodes that have or had a pod, without the workflow's name."""
    return {pod["metadata"]["annotations"]["workflows.argoproj.io/node-name"][1:] for pod in world.pods()}


def active(world):
    return sum(pod["status"]["phase"] in ("Pending", "Running") for pod in world.pods())


def phase(world):
    return world.get("Workflow")["status"]["phase"]


def test_a_template_with_a_container_is_a_pod_of_the_workflows_name(world):
    workflow(world, work(), schedulerName="kai-scheduler", nodeSelector={"a": "b"})
    world.settle()
    (pod,) = world.pods()
    assert pod["metadata"]["name"] == "a"
    assert (pod["spec"]["schedulerName"], pod["spec"]["nodeSelector"]) == ("kai-scheduler", {"a": "b"})
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    world.pass_time(20)
    assert phase(world) == "Succeeded"


def test_steps_run_group_after_group(world):
    workflow(world, steps([step("a"), step("b")], [step("c")]), work())
    world.settle()
    assert ran(world) == {"[0].a", "[0].b"}
    world.pass_time(15)
    assert ran(world) == {"[0].a", "[0].b", "[1].c"}
    assert phase(world) == "Running"
    world.pass_time(15)
    assert phase(world) == "Succeeded"


def test_a_failed_step_ends_the_workflow(world):
    workflow(world, steps([step("a"), step("b", "bad")], [step("c")]), work(), failing())
    world.pass_time(60)
    assert ran(world) == {"[0].a", "[0].b"}
    assert phase(world) == "Failed"


def test_a_failed_step_that_may_fail_does_not(world):
    workflow(world, steps([step("a", "bad", continueOn={"failed": True})], [step("b")]), work(), failing())
    world.pass_time(60)
    assert phase(world) == "Succeeded"


def test_tasks_of_a_dag_wait_for_those_that_they_depend_on(world):
    tasks = step("a"), step("b", dependencies=["a"]), step("c", depends="a && !b.Failed")
    workflow(world, dag(*tasks), work())
    world.settle()
    assert ran(world) == {".a"}
    world.pass_time(15)
    assert ran(world) == {".a", ".b"}
    world.pass_time(30)
    assert ran(world) == {".a", ".b", ".c"}
    assert phase(world) == "Succeeded"


@pytest.mark.parametrize(
    ("depends", "runs", "ends"), [("a", False, "Failed"), ("a.Failed || a.Errored", True, "Succeeded"), ("!a.Succeeded", True, "Succeeded")]
)  # fmt: skip
def test_a_task_may_depend_on_a_failure(world, depends, runs, ends):
    workflow(world, dag(step("a", "bad"), step("b", depends=depends)), work(), failing())
    world.pass_time(60)
    assert (".b" in ran(world)) == runs
    assert phase(world) == ends


@pytest.mark.parametrize(("fail_fast", "runs"), [(True, False), (False, True)])
def test_after_a_failure_other_branches_go_on_only_without_fail_fast(world, fail_fast, runs):
    tasks = step("a", "bad"), step("b"), step("c", dependencies=["b"])
    workflow(world, dag(*tasks, failFast=fail_fast), work(), failing())
    world.pass_time(60)
    assert (".c" in ran(world)) == runs
    assert phase(world) == "Failed"


def test_items_fill_in_what_the_pods_ask_for(world):
    arguments = {"parameters": [{"name": "cpu", "value": "{{item.cpu}}"}]}
    fan = step("fan", withItems=[{"cpu": 1}, {"cpu": 3}], arguments=arguments)
    workflow(world, steps([fan, step("three", withSequence={"count": "3"})]), work())
    world.settle()
    asked = sorted(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in world.pods())
    assert asked == ["1", "1", "1", "1", "3"]


@pytest.mark.parametrize("where", ["workflow", "template"])
def test_no_more_pods_run_at_once_than_its_parallelism(world, where):
    fan = step("fan", withSequence={"count": "5"})
    limit = {"parallelism": 2}
    workflow(
        world, steps([fan], **(limit if where == "template" else {})), work(), **(limit if where == "workflow" else {})
    )
    most = 0
    for _ in range(40):
        world.pass_time(1)
        most = max(most, active(world))
    assert most == 2
    assert (len(world.pods()), phase(world)) == (5, "Succeeded")


def test_a_patch_changes_the_pods(world):
    patch = "containers:\n- name: main\n  resources: {limits: {nvidia.com/gpu: 2}}\n"
    workflow(world, work(podSpecPatch=patch), podSpecPatch="schedulerName: kai-scheduler")
    world.settle()
    spec = world.pods()[0]["spec"]
    assert spec["schedulerName"] == "kai-scheduler"
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "1", "nvidia.com/gpu": 2}


def test_a_failed_pod_is_tried_again(world):
    workflow(world, failing(retryStrategy={"limit": "2"}))
    world.pass_time(60)
    assert ran(world) == {"(0)", "(1)", "(2)"}
    assert phase(world) == "Failed"


@pytest.mark.parametrize(("policy", "pods"), [(None, 0), ("Always", 1)])
def test_a_deleted_pod_is_lost(world, policy, pods):
    retry = {"retryStrategy": {"limit": 1, "retryPolicy": policy}} if policy else {}
    workflow(world, work(seconds="1000", **retry))
    world.settle()
    world.cluster.delete("Pod", world.names()[0], "default")
    world.pass_time(60)
    assert len(world.pods()) == pods
    assert phase(world) == ("Running" if policy else "Error")


@pytest.mark.parametrize("where", ["template", "workflow"])
def test_a_retry_policy_that_is_no_text_is_refused(world, where):
    retries = {"retryStrategy": {"retryPolicy": ["Always"]}}
    with pytest.raises(Invalid, match="retryPolicy: a list is not valid; expected text"):
        workflow(
            world, work("main", **(retries if where == "template" else {})), **(retries if where == "workflow" else {})
        )


def test_a_workflow_past_its_deadline_frees_its_pods(world):
    workflow(world, work(seconds="1000"), activeDeadlineSeconds=30)
    world.pass_time(20)
    assert active(world) == 1
    world.pass_time(50)
    assert active(world) == 0
    assert phase(world) == "Failed"


def test_a_suspended_workflow_makes_no_pods_until_it_is_resumed(world):
    workflow(world, work(), suspend=True)
    world.settle()
    assert world.pods() == []
    world.cluster.patch("Workflow", "a", "default", {"spec": {"suspend": None}})
    world.settle()
    assert len(world.pods()) == 1


def test_a_template_that_suspends_waits(world):
    workflow(
        world, steps([step("wait", "pause")], [step("a")]), {"name": "pause", "suspend": {"duration": "30s"}}, work()
    )
    world.pass_time(20)
    assert world.pods() == []
    world.pass_time(20)
    assert ran(world) == {"[1].a"}


def test_the_exit_handler_runs_whatever_became_of_the_workflow(world):
    workflow(world, failing(), work(), onExit="work")
    world.pass_time(60)
    assert ran(world) == {"", ".onExit"}
    assert phase(world) == "Failed"


def test_an_ended_workflow_goes_after_its_time_to_live(world):
    workflow(world, work(), ttlStrategy={"secondsAfterCompletion": 1000, "secondsAfterSuccess": 60})
    world.pass_time(40)
    assert len(world.pods()) == 1
    world.pass_time(60)
    assert world.pods() == [] == world.cluster.list("Workflow")


def test_templates_come_from_a_workflow_template_too(world):
    metadata = {"name": "shared", "namespace": "default"}
    world.cluster.create({"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowTemplate", "metadata": metadata,
                          "spec": {"entrypoint": "work", "templates": [work()]}})  # fmt: skip
    world.add("argoproj.io/v1alpha1", "Workflow", {"workflowTemplateRef": {"name": "shared"}})
    reference = {"name": "a", "templateRef": {"name": "shared", "template": "work"}}
    world.add("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "m", "templates": [steps([reference], name="m")]}, "b")
    world.settle()
    assert len(world.pods()) == 2


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (steps([step("a", "nothing")]), "no template 'nothing'"),
        (dag(step("a", dependencies=["b"]), step("b", dependencies=["a"])), "wait for each other"),
        (dag(step("a"), step("b", depends="a &&")), "no expression"),
    ],
)
def test_a_workflow_that_can_not_run_says_why(world, template, says):
    workflow(world, template, work())
    world.pass_time(60)
    assert says in world.get("Workflow")["status"]["message"]


@pytest.mark.parametrize("form", [steps, dag])
def test_a_template_that_calls_itself_without_end_ends_the_workflow(world, form):
    calls = [step("again", "main"), step("twice", "main")]
    workflow(world, form(*([calls] if form is steps else calls)))
    world.settle()
    status = world.get("Workflow")["status"]
    assert (status["phase"], status["message"]) == (
        "Error",
        "Maximum recursion depth exceeded: a template calls itself 100 times",
    )


def test_it_goes_on_in_a_resumed_lab(world):
    workflow(world, steps([step("a")], [step("b")]), work())
    world.settle()
    world.resume()
    world.pass_time(60)
    assert ran(world) == {"[0].a", "[1].b"}
    assert phase(world) == "Succeeded"


def test_a_pause_that_is_no_duration_fails_its_step(world):
    """It may come from a parameter, so that only the controller sees it."""
    workflow(world, {"name": "main", "suspend": {"duration": "soon"}})
    world.settle()
    assert phase(world) in ("Failed", "Error")
    nodes = world.get("Workflow")["status"]["nodes"].values()
    assert any("'soon' is not a duration" in node.get("message", "") for node in nodes)


def test_parameters_of_the_workflow_are_filled_in_its_own_fields_too(world):
    patch = '{"containers": [{"name": "main", "resources": {"limits": {"memory": "{{workflow.parameters.size}}"}}}]}'
    workflow(world, work(), podSpecPatch=patch, arguments={"parameters": [{"name": "size", "value": "2Gi"}]})
    world.step()
    assert world.pods()[0]["spec"]["containers"][0]["resources"]["limits"]["memory"] == "2Gi"
