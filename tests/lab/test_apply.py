"""Manifests come in whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError, InputErrors
from kailab.lab import Lab, expect


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


def queues(lab):
    return {queue["metadata"]["name"] for queue in lab.get("queue")}


def test_says_what_changed(lab, queue):
    assert lab.apply(queue("a", 8), queue("b", 8)).summary() == "2 Queues created"
    assert lab.apply([queue("a", 4), queue("b", 8)]).summary() == "1 Queue configured, 1 Queue unchanged"


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"spec": {"resources": {"gpu": {"quota": "many"}}}}, "quota"),
        ({"spec": {"parentQueue": "bad"}}, "own parent"),
    ],
)
def test_one_bad_object_keeps_all_out(lab, queue, bad, message):
    broken = {**queue("bad", 8), **bad}
    with pytest.raises(InputError, match=message):
        lab.apply(queue("good", 8), broken)
    assert queues(lab) == set()


def test_every_problem_is_told(lab, queue):
    one = {**queue("one", 8), "spec": {"resources": {"gpu": {"quota": -7}}}}
    two = {**queue("two", 8), "spec": {"priority": "high"}}
    with pytest.raises(InputErrors) as caught:
        lab.apply([one], [two])
    assert "Queue/one" in str(caught.value)
    assert "Queue/two" in str(caught.value)


def test_a_cycle_through_queues_that_exist(lab, queue):
    lab.apply(queue("a", 8), queue("b", 8, parent="a"))
    with pytest.raises(InputError, match="cycle"):
        lab.apply(queue("a", 8, parent="b"))
    assert "parentQueue" not in lab.get("queue", "a")["spec"]


def test_a_namespace_that_does_not_exist(lab, queue, job):
    lost = job("x", "a", 1)
    lost["metadata"]["namespace"] = "nowhere"
    with pytest.raises(InputError, match='namespace "nowhere" does not exist'):
        lab.apply(queue("a", 8), lost)
    assert queues(lab) == set()
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nowhere"}}, lost)


def test_what_the_cluster_refuses_is_undone(lab, queue, job):
    lab.apply(queue("a", 8), job("x", "a", 2))
    changed = job("x", "a", 2)
    changed["spec"]["completions"] = 5  # immutable in Kubernetes
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "another"
    with pytest.raises(InputError):
        lab.apply(queue("a", 4), queue("new", 1), changed)
    assert queues(lab) == {"a"}
    assert lab.get("queue", "a")["spec"]["resources"]["gpu"]["quota"] == 8


def test_warnings_are_told(lab, queue, job):
    applied = lab.apply(queue("org", 8), queue("team", 16, parent="org"), job("x", "missing", 1))
    text = "\n".join(applied.warnings)
    assert "beyond the 8 GPUs of its parent" in text
    assert "no queue 'missing'" in text


NEVER = {
    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "patient"}, "value": 90,
    "preemptionPolicy": "Never",
}  # fmt: skip


def test_a_policy_never_to_preempt_binds_nobody_and_is_said_to(lab, queue, job):
    applied = lab.apply(queue("a", 8, limit=8), NEVER, job("low", "a", 1, gpus=8))
    [warning] = applied.warnings
    assert "preemptionPolicy" in warning
    assert "do not look at it" in warning
    lab.settle()
    high = job("high", "a", 1, gpus=8, labels={"priorityClassName": "patient"})
    high["spec"]["template"]["spec"] |= {"priorityClassName": "patient", "preemptionPolicy": "Never"}
    [warning] = lab.apply(high).warnings
    assert "spec.template.spec.preemptionPolicy" in warning
    lab.settle()
    expect(lab.app("high")).running(gpus=8)
    expect(lab.app("low")).evicted(by="preempt")


def test_what_only_kai_passes_over_is_no_warning_where_kube_scheduler_decides(queue, job):
    work = job("x", "a", 1)
    term = {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    rule = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    work["spec"]["template"]["spec"]["affinity"] = rule
    with Lab.open(scheduler="kube-scheduler") as lab:
        assert lab.apply(queue("a", 8), NEVER, work).warnings == []
    with Lab.open() as lab:
        policy, preferred = lab.apply(queue("a", 8), NEVER, work).warnings
    assert "preemptionPolicy" in policy
    assert "KAI does not score preferred node affinity" in preferred


def test_paths_are_seen_from_the_base(lab, tmp_path: Path):
    (tmp_path / "q.yaml").write_text(
        "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: a}\nspec: {resources: {gpu: {quota: 1}}}\n"
    )
    lab.base = tmp_path
    lab.apply("q.yaml")
    assert queues(lab) == {"a"}
    lab.delete("q.yaml")
    assert queues(lab) == set()


def test_delete_is_whole_too(lab, queue):
    lab.apply(queue("a", 8))
    text = "".join(
        f"---\napiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{}}\n" for name in "ab"
    )
    with pytest.raises(InputError, match="'b' not found"):
        lab.delete(text)
    assert queues(lab) == {"a"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queue", "a", 3), "can't be scaled"),
        (("deployment", "x", 3), "not found"),
        (("deployment", "x", -1), "0 or more"),
    ],
)
def test_scale_refuses(lab, queue, arguments, message):
    lab.apply(queue("a", 8))
    with pytest.raises(InputError, match=message):
        lab.scale(*arguments)


def test_the_same_manifests_run_under_kube_scheduler(queue, job):
    manifest = job("x", "a", 40)
    with Lab.open(scheduler="kube-scheduler") as lab:
        lab.apply(queue("a", 8), manifest)
        assert lab.get("job", "x")["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
        expect(lab.app("x")).running(pods=32, gpus=32).pending(pods=8, reason="Unschedulable")
    assert manifest["spec"]["template"]["spec"]["schedulerName"] == "kai-scheduler"


@pytest.mark.parametrize("given", [{"scheduler": "other"}, {"backend": "moon"}, {"fleet": "nosuch"}])
def test_open_refuses(given):
    with pytest.raises(InputError, match=r"'other'|'moon'|'nosuch'"):
        Lab.open(**given)


def test_what_the_cluster_refuses_to_delete_is_told_as_bad_input(lab):
    with pytest.raises(InputError, match="may not be deleted"):
        lab.delete("namespace", "default")


def web(gpus: int):
    container = {"name": "main", "image": "web", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    template = {
        "metadata": {"labels": {"app": "web", "kai.scheduler/queue": "q"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_a_limit_of_gpus_in_a_template_can_be_changed(lab, queue):
    """As in Kubernetes, pods get the limit as their request, and templates stay as they were written."""
    lab.apply(queue("q", 8), web(1))
    lab.settle()
    lab.apply(web(2))
    lab.settle()
    expect(lab.queue("q")).running(gpus=2)


def test_an_object_that_its_caller_changes_later_stays_as_it_was_applied(lab, queue):
    work = web(1)
    lab.apply(queue("q", 8), work)
    work["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 2
    lab.settle()
    expect(lab.queue("q")).running(gpus=1)
    lab.apply(work)
    lab.settle()
    expect(lab.queue("q")).running(gpus=2)


def test_advice_is_about_the_queue_as_it_is_after_applying(lab, queue):
    """What another tool made keeps the fields that a manifest leaves out; what was applied from a manifest with them loses them."""
    for made in (queue("org", 8), {**queue("team", 8), "spec": {**queue("team", 8)["spec"], "parentQueue": "org"}}):
        lab.cluster.create(made)
    only_gpu = queue("team", 4)
    only_gpu["spec"]["resources"] = {"gpu": only_gpu["spec"]["resources"]["gpu"]}
    assert not [text for text in lab.apply(only_gpu).warnings if "spec.resources" in text]
    assert "cpu" in lab.get("Queue", "team")["spec"]["resources"]

    lab.apply(queue("other", 4))
    only_gpu["metadata"]["name"] = "other"
    assert [text for text in lab.apply(only_gpu).warnings if "has no cpu and no memory" in text]
    assert "cpu" not in lab.get("Queue", "other")["spec"]["resources"]


def test_an_object_that_contains_itself_is_refused(lab):
    endless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    endless["data"] = endless
    with pytest.raises(InputError, match="nested deeper than"):
        lab.apply(endless)
