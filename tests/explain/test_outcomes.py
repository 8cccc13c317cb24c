"""Answers about what runs on others' quota, what was evicted, and what runs again."""

from __future__ import annotations

from typing import Any

from kailab.lab import Lab
from kailab.lab.explain.answer import Verdict
from kailab.lab.explain.asking import ask
from kailab.lab.explain.cause import Code


def queue(name: str) -> dict[str, Any]:
    free = {"quota": -1, "limit": -1}
    resources = {"gpu": {"quota": 16, "limit": -1, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": metadata,
        "spec": {"resources": resources},
    }


def deployment(name: str, queue: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name, "kai.scheduler/queue": queue, "priorityClassName": "train"}
    container = {"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_from_borrowing_to_gone_to_whole_again() -> None:
    with Lab.open() as lab:
        lab.apply([queue("a"), queue("b"), deployment("guest", "a", 32)])
        lab.settle()
        borrowing = ask(lab, "Deployment", "guest")
        assert (borrowing.verdict, borrowing.cause.code) == (Verdict.RUNNING, Code.BORROWING)
        assert "16 GPUs of the quota of b" in borrowing.cause.sentence

        lab.apply(deployment("owner", "b", 16))
        lab.settle()
        gone = ask(lab, "Deployment", "guest", tried=False)
        assert (gone.verdict, gone.cause.code, gone.running) == (Verdict.GONE, Code.EVICTED, 16)
        assert "by reclaim for Deployment default/owner of queue b" in gone.cause.sentence
        evicted = gone.cause.facts["pods"][0].partition("/")[2]
        assert ask(lab, "Pod", evicted, tried=False).verdict is Verdict.GONE

        lab.delete("Deployment", "owner")
        lab.settle()
        assert ask(lab, "Deployment", "guest").verdict is Verdict.RUNNING
        # What is added now waits for room, not because of what was evicted then.
        lab.scale("Deployment", "guest", 33)
        lab.settle()
        assert ask(lab, "Deployment", "guest", tried=False).cause.code is not Code.EVICTED
