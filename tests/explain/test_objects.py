"""Causes that stand in objects: queues, gates, suspension, and pods that nobody makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.advice.health import health
from kailab.errors import NotFound, Unavailable
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from kailab.model.labels import PREEMPTIBILITY
from tests.explain import building


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.open() as lab:
        yield lab


def queue(name: str, parent: str = "") -> dict[str, Any]:
    free = {"quota": -1, "limit": -1}
    spec: dict[str, Any] = {"resources": {"gpu": {"quota": 8, "limit": -1}, "cpu": free, "memory": free}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def template(queue: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    labels = {"kai.scheduler/queue": queue} if queue else {}
    own = {"schedulerName": "kai-scheduler", "containers": [container], "tolerations": [{"operator": "Exists"}], **spec}
    return {"metadata": {"labels": labels}, "spec": own}


def pod(name: str, queue: str, **spec: Any) -> dict[str, Any]:
    made = template(queue, **spec)
    return {"apiVersion": "v1", "kind": "Pod", **made, "metadata": {**made["metadata"], "name": name}}


def workload(kind: str, name: str, queue: str, **spec: Any) -> dict[str, Any]:
    if kind == "Job":
        inner = template(queue, restartPolicy="Never")
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}, "spec": {**spec, "template": inner}}
    inner = template(queue)
    inner["metadata"]["labels"]["app"] = name
    own = {"selector": {"matchLabels": {"app": name}}, "template": inner, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": own}


def asked(lab: Lab, kind: str, name: str) -> tuple[str, CauseCode | None]:
    lab.settle()
    answer = ask(lab, kind, name)
    return str(answer.verdict), answer.cause.code if answer.cause else None


def test_a_pod_that_runs(lab: Lab) -> None:
    lab.apply([queue("team"), pod("one", "team")])
    assert asked(lab, "Pod", "one") == ("running", None)


def test_a_podgroup_that_names_no_queue(lab: Lab) -> None:
    """One that was applied by hand: labels count only for the PodGroups that KAI's grouper makes."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": {"minMember": 1, "queue": ""},
    }
    own = pod("own-0", "")
    own["metadata"].setdefault("annotations", {})["pod-group-name"] = "own"
    lab.apply([queue("team"), group, own])
    cause = ask(lab, "PodGroup", "own").cause
    assert cause is not None
    assert cause.code == CauseCode.QUEUE_LABEL_MISSING
    assert cause.sentence == "PodGroup default/own names no queue (its spec.queue is empty). The leaf queues are: team."


def test_queues_that_run_nothing(lab: Lab) -> None:
    lab.apply([queue("org"), queue("team", "org"), queue("lost", "nowhere")])
    lab.apply([pod("none", ""), pod("astray", "taem"), pod("high", "org"), pod("adrift", "lost")])
    assert asked(lab, "Pod", "none") == ("never", CauseCode.QUEUE_LABEL_MISSING)
    assert asked(lab, "Pod", "astray") == ("never", CauseCode.QUEUE_MISSING)
    assert "team" in ask(lab, "Pod", "astray").cause.sentence
    assert asked(lab, "Pod", "high") == ("never", CauseCode.QUEUE_NOT_LEAF)
    assert asked(lab, "Pod", "adrift") == ("never", CauseCode.QUEUE_PARENT_MISSING)


def test_no_pods_to_run(lab: Lab) -> None:
    lab.apply([queue("team"), workload("Job", "held", "team", suspend=True, parallelism=3)])
    lab.apply([workload("Deployment", "none", "team", replicas=0)])
    assert asked(lab, "Job", "held") == ("never", CauseCode.SUSPENDED)
    assert asked(lab, "Deployment", "none") == ("never", CauseCode.PODS_NOT_CREATED)
    assert ask(lab, "Job", "held").wanted == 3


def test_a_gate(lab: Lab) -> None:
    lab.apply([queue("team"), pod("gated", "team", schedulingGates=[{"name": "example.com/budget"}])])
    assert asked(lab, "Pod", "gated") == ("never", CauseCode.SCHEDULING_GATED)


def test_what_never_was(lab: Lab) -> None:
    with pytest.raises(NotFound):
        ask(lab, "Job", "none")
    with pytest.raises(NotFound):
        ask(lab, "Queue", "none")


def test_the_answer_as_data(lab: Lab) -> None:
    lab.apply([queue("team"), workload("Deployment", "web", "taem", replicas=3)])
    lab.settle()
    data = ask(lab, "Deployment", "web").data()
    assert data["cause"]["objects"] == [{"kind": "Queue", "name": "taem"}]
    assert (data["running"], data["wanted"], [len(group["pods"]) for group in data["groups"]]) == (0, 3, [3])


def test_a_label_that_names_the_default_queue_is_no_missing_label(lab: Lab) -> None:
    lab.apply([queue("team"), pod("plain", ""), pod("said", "default-queue")])
    assert asked(lab, "Pod", "plain")[1] == CauseCode.QUEUE_LABEL_MISSING
    assert asked(lab, "Pod", "said")[1] == CauseCode.QUEUE_MISSING


def test_a_misspelt_priority_class_makes_a_deployment_inference(lab: Lab) -> None:
    typo = workload("Deployment", "web", "small", replicas=2)
    typo["spec"]["template"]["metadata"]["labels"]["priorityClassName"] = "trian"
    small = queue("small")
    small["spec"]["resources"]["gpu"]["quota"] = 1
    lab.apply([small, typo])
    assert asked(lab, "Deployment", "web") == ("never", CauseCode.PRIORITY_CLASS_MISSING)
    assert "trian" in ask(lab, "Deployment", "web").cause.sentence


@pytest.mark.parametrize(
    ("own", "code"),
    [({}, CauseCode.NOT_ENOUGH_GPUS), ({PREEMPTIBILITY: "preemptible"}, CauseCode.PRIORITY_CLASS_MISSING)],
)
def test_the_value_of_a_class_decides_whether_work_is_preemptible(own: dict[str, str], code: CauseCode) -> None:
    """Preemption takes a value above 125, with which the work would be non-preemptible and beyond its quota unless it says otherwise."""
    with building.lab() as lab:
        holders = building.pods(8, "held", "small", priority="inference")
        for holder in holders:
            holder["metadata"]["labels"][PREEMPTIBILITY] = "preemptible"
        building.settled(lab, building.queue("small", quota=0), *holders)
        waits = building.pod("waits", "small", priority="absent")
        waits["metadata"]["labels"] |= own
        building.settled(lab, waits)
        assert building.causes(lab, "Pod", "waits")[0].code == code


def test_time_makes_no_priority_class(lab: Lab) -> None:
    job = workload("Job", "batch", "team")
    job["spec"]["template"]["spec"]["priorityClassName"] = "trian"
    lab.apply([queue("team"), job])
    assert asked(lab, "Job", "batch") == ("never", CauseCode.PRIORITY_CLASS_MISSING)


def test_a_podgroup_without_pods(lab: Lab) -> None:
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "ring"}}
    lab.apply([queue("team"), {**group, "spec": {"queue": "team", "minMember": 3}}])
    assert asked(lab, "PodGroup", "ring") == ("never", CauseCode.GANG_INCOMPLETE)


def test_a_pod_of_a_deployment_is_judged_beside_its_siblings(lab: Lab) -> None:
    """They are no other work: nobody's going lets more replicas run than the quota holds."""
    small = queue("small")
    small["spec"]["resources"]["gpu"]["quota"] = 1
    lab.apply([small, workload("Deployment", "web", "small", replicas=2)])
    lab.settle()
    waiting = next(row for row in lab.picture().rows if not row.node)
    assert asked(lab, "Pod", waiting.name.partition("/")[2])[0] == "never"


def test_a_refused_binding_is_told_of_a_saved_lab_too(lab: Lab, tmp_path: Path) -> None:
    lab.apply(queue("team"))
    lab.cluster.refuse_binds("default", "led", "cost centre is missing")
    lab.apply(pod("ledger", "team"))
    assert asked(lab, "Pod", "ledger") == ("never", CauseCode.BIND_REFUSED)
    lab.save(tmp_path / "state")
    with Lab.resume(tmp_path / "state", read_only=True) as saved:
        answer = saved.explain_pod("ledger")
        assert (str(answer.verdict), answer.cause.code) == ("never", CauseCode.BIND_REFUSED)
        assert "cost centre is missing" in answer.cause.sentence


def test_what_is_complete_runs(lab: Lab) -> None:
    short = workload("Job", "short", "team", parallelism=1, completions=1)
    short["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "5"}
    lab.apply([queue("team"), short])
    lab.settle()
    lab.advance(20)
    assert asked(lab, "Job", "short") == ("running", None)


def test_a_refusal_that_was_lifted_is_no_cause_any_more(lab: Lab) -> None:
    """The event stays; the pod was tried again since, and waits for room."""
    free = queue("team")
    free["spec"]["resources"]["gpu"]["quota"] = -1
    lab.cluster.refuse_binds("default", "ledger", "cost centre is missing")
    lab.apply([free, pod("ledger", "team")])
    assert asked(lab, "Pod", "ledger") == ("never", CauseCode.BIND_REFUSED)
    lab.cluster._refusals.clear()
    lab.apply(workload("Deployment", "web", "team", replicas=100))
    lab.settle()
    lab.advance(3600)
    assert asked(lab, "Pod", "ledger") == ("later", CauseCode.NOT_ENOUGH_GPUS)


def test_a_refusal_is_the_cause_as_long_as_it_is_tried_and_refused(lab: Lab) -> None:
    lab.cluster.refuse_binds("default", "ledger", "cost centre is missing")
    lab.apply([queue("team"), pod("ledger", "team")])
    lab.settle()
    lab.advance(100)
    answer = ask(lab, "Pod", "ledger")
    assert (str(answer.verdict), answer.cause.code) == ("never", CauseCode.BIND_REFUSED)
    assert "cost centre is missing" in answer.cause.sentence
    assert "cost centre is missing" in health(lab).problems[0]


def test_a_binding_that_got_no_answer_was_not_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether it was carried out, and it is tried again."""

    def lost(*_: Any, **__: Any) -> None:
        error = Unavailable("the server did not answer in time")
        error.unanswered = True
        raise error

    monkeypatch.setattr(type(lab.cluster), "bind", lost)
    lab.apply([queue("team"), pod("ledger", "team")])
    lab.settle()
    for _ in range(2):
        answer = ask(lab, "Pod", "ledger", tried=False)
        assert (str(answer.verdict), answer.cause.code) == ("later", CauseCode.BIND_RETRIED)
        assert "did not answer in time" in answer.cause.sentence
        assert not health(lab).refusals
        lab.advance(100)


def test_what_was_evicted_under_the_same_name_before_is_no_history_of_the_new_one(lab: Lab) -> None:
    owner, borrower = queue("owner"), queue("borrower")
    for each, quota in ((owner, -1), (borrower, 0)):
        each["spec"]["resources"]["gpu"]["quota"] = quota
    mine = workload("Deployment", "mine", "owner", replicas=100)
    loan = workload("Job", "loan", "borrower", parallelism=1)
    loan["spec"]["template"]["metadata"]["labels"]["priorityClassName"] = "train"
    lab.apply([owner, borrower, loan])
    lab.settle()
    lab.advance(10)
    lab.apply(mine)
    assert asked(lab, "Job", "loan") == ("gone", CauseCode.EVICTED)
    lab.advance(10)
    lab.delete("Job", "loan")
    lab.settle()
    lab.apply({**loan, "spec": {**loan["spec"], "suspend": True}})
    assert asked(lab, "Job", "loan") == ("never", CauseCode.SUSPENDED)
