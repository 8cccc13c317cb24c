"""Answers about what runs on others' quota, what was evicted, and what runs again."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.explain import step_budget
from kailab.explain.questions import ask
from kailab.fleet.reading import read_fleet
from kailab.lab import Lab
from kailab.lab.answer import CauseCode, Verdict
from kailab.lab.lab_changes import LabChanges
from tests.builders import job


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
        assert (borrowing.verdict, borrowing.cause.code) == (Verdict.RUNNING, CauseCode.BORROWING)
        assert "16 GPUs of the quota of b" in borrowing.cause.sentence

        lab.apply(deployment("owner", "b", 16))
        lab.settle()
        gone = ask(lab, "Deployment", "guest", tried=False)
        assert (gone.verdict, gone.cause.code, gone.running) == (Verdict.GONE, CauseCode.EVICTED, 16)
        assert "by reclaim for Deployment default/owner of queue b" in gone.cause.sentence
        evicted = gone.cause.facts["pods"][0].partition("/")[2]
        assert ask(lab, "Pod", evicted, tried=False).verdict is Verdict.GONE
        # Also the short text says why it waits now, right after what happened to it, and the full one says it once.
        [now] = [cause for cause in gone.more if cause.code is CauseCode.FAIR_SHARE_REACHED]
        line = f"It waits now: {now.code}: {now.sentence}"
        assert gone.lines()[gone.lines().index(f"Why: {gone.cause.code}: {gone.cause.sentence}") + 1] == line
        assert sum(now.sentence in one for one in gone.lines(everything=True)) == 1

        lab.delete("Deployment", "owner")
        lab.settle()
        assert ask(lab, "Deployment", "guest").verdict is Verdict.RUNNING
        # What is added now waits for room, not because of what was evicted then.
        lab.scale("Deployment", "guest", 33)
        lab.settle()
        assert ask(lab, "Deployment", "guest", tried=False).cause.code is not CauseCode.EVICTED


def test_whose_quota_covers_what_can_t_be_taken_away_is_told_by_the_numbers() -> None:
    """Inside the quota as long as that is so; a quota lowered under it, and a queue that is gone, are told as they are."""
    firm = deployment("firm", "a", 6)
    firm["spec"]["template"]["metadata"]["labels"]["priorityClassName"] = "build"
    with Lab.open() as lab:
        lab.apply([queue("a"), firm])
        lab.settle()
        text = str(ask(lab, "Deployment", "firm"))
        assert "non-preemptible, inside quotas: its queue a holds 6 GPUs of such work with a quota of 16 GPUs." in text
        lowered = queue("a")
        lowered["spec"]["resources"]["gpu"]["quota"] = 2
        lab.apply(lowered)
        lab.settle()
        text = str(ask(lab, "Deployment", "firm"))
        assert "non-preemptible, beyond quotas: a holds 6 GPUs of such work with a quota of 2 GPUs." in text
        assert "inside" not in text
        lab.delete("Queue", "a")
        lab.settle()
        text = str(ask(lab, "Deployment", "firm"))
        assert "queue a does not exist: no quota covers it" in text
        assert "inside" not in text


def test_a_loan_is_told_with_all_quota_that_is_unused_and_without_a_lender() -> None:
    """No GPU belongs to a queue: with two that leave quota unused nobody can say whose is borrowed."""
    with Lab.open() as lab:
        queues = [queue(name) for name in ("a", "b", "c")]
        for one, quota in zip(queues, (4, 10, 12), strict=True):
            one["spec"]["resources"]["gpu"]["quota"] = quota
        lab.apply([*queues, deployment("guest", "a", 8)])
        lab.settle()
        sentence = ask(lab, "Deployment", "guest").cause.sentence
        assert (
            "4 GPUs beyond its quota of 4 GPUs, while 12 GPUs of the quota of c, 10 GPUs of the quota of b" in sentence
        )
        assert "b may take" not in sentence


def test_a_queue_above_a_limit_that_was_lowered_is_not_at_it() -> None:
    with Lab.open() as lab:
        lab.apply([queue("a"), deployment("work", "a", 8)])
        lab.settle()
        lowered = queue("a")
        lowered["spec"]["resources"]["gpu"]["limit"] = 4
        lab.apply(lowered)
        lab.settle()
        text = str(ask(lab, "Queue", "a"))
        assert "a holds 8 GPUs, above its limit of 4 GPUs" in text
        assert "at its limit" not in text


def test_a_parent_that_borrows_lets_others_take_what_is_inside_the_quota_below_it() -> None:
    with Lab.open() as lab:
        org = queue("org")
        org["spec"]["resources"]["gpu"]["quota"] = 2
        below = queue("a")
        below["spec"]["parentQueue"] = "org"
        lab.apply([org, below, deployment("work", "a", 8)])
        lab.settle()
        text = str(ask(lab, "Deployment", "work"))
        assert "no other queue may take that" not in text
        assert "org holds 6 GPUs beyond its quota of 2 GPUs" in text


def test_pods_that_consolidation_places_elsewhere_are_moved_and_not_evicted() -> None:
    """Each node has half its GPUs free; once its limit lets it, the large one gets a whole node."""
    fleet = read_fleet(
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: two\npools: [{name: n, count: 2, gpus: 8, cpu: 64, memory: 256Gi, taints: []}]"
    )
    with Lab.open(fleet) as lab:
        bounded = queue("b")
        bounded["spec"]["resources"]["gpu"]["limit"] = 4
        lab.apply([queue("a"), bounded])
        for number in range(2):
            half = job(f"half-{number}", "a", 1, gpus=4)
            half["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"n-{number}"}
            lab.apply(half)
            lab.settle()
        for number in range(2):
            free = job(f"free-{number}", "a", 1, gpus=2)
            free["spec"]["template"]["spec"]["affinity"] = {}
            lab.apply(free)
        lab.settle()
        lab.delete("Job", "half-0")
        lab.settle()
        lab.apply(job("whole", "b", 1, gpus=8))
        lab.settle()
        answer = ask(lab, "Job", "whole")
        assert answer.cause.code == CauseCode.OVER_LIMIT
        (step, *_) = answer.steps
        assert step.outcome.evicted == ()
        assert len(step.outcome.moved) >= 1
        assert "stopped and placed again for it" in step.describe()
        before = LabChanges(lab)
        bounded["spec"]["resources"]["gpu"]["limit"] = -1
        lab.apply(bounded)
        lab.settle()
        moved = {entry.owner for entry in lab.log.evictions}
        told = before.describe()
        assert f"{len(step.outcome.moved)} moved to other nodes" in told
        assert "evicted" not in told
        (owner, *_) = sorted(moved)
        lines = ask(lab, "Job", owner.partition("/")[2]).lines()
        assert any(line.startswith("Moved at ") for line in lines)


def test_pods_that_a_controller_starts_again_with_a_moved_one_are_told() -> None:
    """A LeaderWorkerSet starts a whole group anew if one of its pods goes, also those that nobody evicted."""
    fleet = read_fleet(
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: two\npools: [{name: n, count: 2, gpus: 4, cpu: 64, memory: 256Gi, taints: []}]"
    )
    worker = deployment("serve", "a", 1)["spec"]["template"]
    group = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 3, "workerTemplate": worker}},
    }
    with Lab.open(fleet) as lab:
        bounded = queue("b")
        bounded["spec"]["resources"]["gpu"]["limit"] = 2
        lab.apply([queue("a"), bounded])
        filler = job("filler", "a", 1, gpus=2)
        filler["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n-0"}
        lab.apply(filler)
        lab.settle()
        lab.apply(group)
        lab.settle()
        lab.delete("Job", "filler")
        lab.settle()
        lab.apply(job("whole", "b", 1, gpus=4))
        lab.settle()
        pods = {row.name for row in lab.picture().rows if row.node}
        step = ask(lab, "Job", "whole").steps[0]
    assert step.outcome is not None
    assert set(step.outcome.moved) | set(step.outcome.evicted) == pods, step.describe()


@pytest.mark.parametrize("most", range(1, 13))
def test_a_job_that_first_gets_a_place_and_then_fails_is_told(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two changes lets other waiting work run, and the second takes its place: it had none to lose before. The outcome is that
    of both, however few trials there are."""
    monkeypatch.setattr(step_budget, "MOST_TRIES", most)
    with Lab.open(
        read_fleet(
            "apiVersion: kailab.dev/v1\nkind: Fleet\nname: one\npools: [{name: n, count: 1, gpus: 8, cpu: 64, memory: 256Gi, taints: []}]"
        )
    ) as lab:
        shut = queue("a")
        shut["spec"]["resources"]["gpu"] |= {"quota": 0, "limit": 0}
        lab.apply(shut)
        first = job("first", "a", 1, gpus=4)
        first["spec"]["backoffLimit"] = 0
        for each in (first, job("gang", "a", 1, gpus=8)):
            lab.apply(each)
            lab.settle()
        answer = ask(lab, "Job", "gang")
    assert answer.steps or answer.incomplete is not None
    for step in answer.steps:
        assert step.outcome is not None
        assert (step.outcome.evicted, step.outcome.moved) == ((), ())
        assert step.outcome.failed == ("Job first (BackoffLimitExceeded)",), step.describe()


def test_work_that_fails_by_a_step_is_told_although_nothing_of_it_is_evicted() -> None:
    """Its pod terminates on a node that is not ready, and has failed once the node is ready."""
    nodes = read_fleet(
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: one\npools: [{name: n, count: 1, gpus: 8, cpu: 64, memory: 256Gi, taints: []}]"
    )
    one = job("first", "a", 1, gpus=4)["spec"] | {"backoffLimit": 0}
    one["template"]["spec"]["terminationGracePeriodSeconds"] = 30
    first = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "first", "labels": {"kai.scheduler/queue": "a"}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": one}}]},
    }  # fmt: skip
    with Lab.open(nodes) as lab:
        lab.apply([queue("a"), first])
        lab.settle()
        lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        lab.cluster.patch("Node", "n-0", None, lost, "status")
        lab.settle()
        lab.advance(400)
        lab.apply(job("next", "a", 1, gpus=8))
        lab.settle()
        [step] = [step for step in ask(lab, "Job", "next").steps if "ready again" in step.do]
    assert step.outcome is not None
    assert step.outcome.evicted == ()
    assert any(failed.startswith("JobSet first") for failed in step.outcome.failed), step.describe()


def test_work_that_fails_without_a_step_too_is_not_its_outcome() -> None:
    """The pods on the node that is not ready are evicted while the step waits for others to leave."""
    nodes = read_fleet(
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: two\npools: [{name: n, count: 2, gpus: 8, cpu: 64, memory: 256Gi, taints: []}]"
    )
    doomed = job("doomed", "a", 1, gpus=8)
    doomed["spec"]["backoffLimit"] = 0
    doomed["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n-0"}
    with Lab.open(nodes) as lab:
        lab.apply([queue("a"), queue("b"), doomed])
        lab.settle()
        ending = job("ending", "a", 1, gpus=8, annotations={"kailab.dev/run-seconds": "1000"})
        lab.apply(ending)
        lab.settle()
        lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        lab.cluster.patch("Node", "n-0", None, lost, "status")
        lab.settle()
        lab.apply(job("next", "b", 1, gpus=8))
        lab.settle()
        [step] = [step for step in ask(lab, "Job", "next").steps if "Wait" in step.do]
        assert step.outcome is not None
        assert step.outcome.failed == (), step.describe()
        lab.advance(1100)
        assert lab.cluster.get("Job", "doomed", "default")["status"]["failed"] == 1


def test_what_ran_whole_again_since_an_eviction_is_not_gone() -> None:
    """Its pods came back and ended; those that wait now wait for something else."""
    with Lab.open() as lab:
        lender = queue("b")
        lender["spec"]["resources"]["gpu"]["quota"] = 32
        borrower = queue("a")
        borrower["spec"]["resources"]["gpu"]["quota"] = 0
        guest = job(
            "guest", "a", 2, annotations={"kailab.dev/run-seconds": "100"}, labels={"priorityClassName": "train"}
        )
        guest["spec"]["completions"] = 4
        lab.apply([lender, borrower, guest])
        lab.settle()
        lab.advance(10)
        lab.apply(deployment("owner", "b", 32))
        lab.settle()
        assert ask(lab, "Job", "guest", tried=False).verdict == Verdict.GONE
        lab.delete("Deployment", "owner")
        lab.settle()
        assert ask(lab, "Job", "guest", tried=False).running == 2
        lab.advance(60)
        borrower["spec"]["resources"]["gpu"]["limit"] = 0
        lab.apply(borrower)
        lab.settle()
        lab.advance(50)
        answer = ask(lab, "Job", "guest", tried=False)
        assert (answer.verdict, answer.cause.code, answer.running) == (Verdict.NEVER, CauseCode.OVER_LIMIT, 0)
