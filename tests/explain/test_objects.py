"""Causes that stand in objects: queues, gates, suspension, and pods that nobody makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kailab.errors import NotFound
from kailab.lab import Lab
from kailab.lab.explain.asking import ask
from kailab.lab.explain.cause import Code


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


def asked(lab: Lab, kind: str, name: str) -> tuple[str, Code | None]:
    lab.settle()
    answer = ask(lab, kind, name)
    return str(answer.verdict), answer.cause.code if answer.cause else None


def test_a_pod_that_runs(lab: Lab) -> None:
    lab.apply([queue("team"), pod("one", "team")])
    assert asked(lab, "Pod", "one") == ("running", None)


def test_queues_that_run_nothing(lab: Lab) -> None:
    lab.apply([queue("org"), queue("team", "org"), queue("lost", "nowhere")])
    lab.apply([pod("none", ""), pod("astray", "taem"), pod("high", "org"), pod("adrift", "lost")])
    assert asked(lab, "Pod", "none") == ("never", Code.QUEUE_LABEL_MISSING)
    assert asked(lab, "Pod", "astray") == ("never", Code.QUEUE_MISSING)
    assert "team" in ask(lab, "Pod", "astray").cause.sentence
    assert asked(lab, "Pod", "high") == ("never", Code.QUEUE_NOT_LEAF)
    assert asked(lab, "Pod", "adrift") == ("never", Code.QUEUE_PARENT_MISSING)


def test_no_pods_to_run(lab: Lab) -> None:
    lab.apply([queue("team"), workload("Job", "held", "team", suspend=True, parallelism=3)])
    lab.apply([workload("Deployment", "none", "team", replicas=0)])
    assert asked(lab, "Job", "held") == ("never", Code.SUSPENDED)
    assert asked(lab, "Deployment", "none") == ("never", Code.PODS_NOT_CREATED)
    assert ask(lab, "Job", "held").wanted == 3


def test_a_gate(lab: Lab) -> None:
    lab.apply([queue("team"), pod("gated", "team", schedulingGates=[{"name": "example.com/budget"}])])
    assert asked(lab, "Pod", "gated") == ("never", Code.SCHEDULING_GATED)


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
