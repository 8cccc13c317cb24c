"""Explanations say what is, why, what would change it, and who is ahead."""

from __future__ import annotations

import pytest

from kailab.explain.questions import ask
from kailab.lab import Lab


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


def first_pending(lab) -> str:
    row = next(row for row in lab.picture().rows if row.phase == "Pending")
    return row.name.partition("/")[2]


def why(lab) -> str:
    lab.settle()
    # Without steps: each is tried on a copy of the lab, and none is read here.
    return str(ask(lab, "Pod", first_pending(lab), tried=False))


def test_over_the_limit(lab, queue, job):
    lab.apply(queue("org", 32), queue("team", 2, limit=4, parent="org"), job("work", "team", 6))
    text = why(lab)
    assert "Pending, wants 1 GPU, queue team" in text
    assert "OverLimit" in text


def test_non_preemptible_over_quota(lab, queue, job):
    lab.apply(queue("team", 4), job("work", "team", 6, labels={"priorityClassName": "build"}))
    text = why(lab)
    assert "NonPreemptibleOverQuota" in text


def test_a_limit_of_zero(lab, job):
    bare = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}
    applied = lab.apply(bare, job("work", "team", 1))
    assert applied.warnings
    lab.settle()
    assert "Its limit is 0" in str(ask(lab, "Queue", "team", tried=False))


def test_a_queue_that_is_not_there(lab, queue, job):
    lab.apply(queue("real", 4), job("work", "unreal", 1))
    text = why(lab)
    assert "QueueMissing: It names the queue unreal, which does not exist. Did you mean real?" in text


def test_work_in_a_parent_queue(lab, queue, job):
    lab.apply(queue("org", 4), queue("team", 4, parent="org"), job("work", "org", 1))
    text = why(lab)
    assert "QueueNotLeaf: Its queue org has child queues (team)" in text


def test_who_is_ahead(lab, queue, job):
    lab.apply(queue("team", 4, limit=4), job("running", "team", 4))
    lab.settle()
    lab.apply(job("earlier", "team", 1), job("urgent", "team", 1, labels={"priorityClassName": "build-preemptible"}))
    lab.settle()
    lab.apply(job("last", "team", 1))
    lab.settle()
    groups = [name for _, name in lab.picture().podgroups if "-last-" in name]
    text = str(lab.explain_podgroup(groups[0]))
    assert "Ahead of it in team:" in text
    assert "earlier" in text


def test_a_queue_that_borrows_and_one_that_lends(lab, queue, job):
    lab.apply(queue("a", 8), queue("b", 24), job("work", "a", 20))
    lab.settle()
    told = ask(lab, "Queue", "a", tried=False)
    assert told.verdict == "running"
    assert told.cause.code == "Borrowing"
    lines = told.lines()
    assert lines[0] == "Queue a: quota 8 GPUs, limit unlimited, fair share now 20 GPUs."
    assert [line for line in lines[1:] if not line.startswith("Borrowing: ")] == [
        "It holds 20 GPUs of 20 GPUs asked for.",
        "It borrows 12 GPUs, while 24 GPUs of the quota of b are unused.",
        "Queues that could reclaim it by asking: b (up to 12 GPUs of its quota).",
        "GPU share of a: 32 GPUs (all there is), divided among 2 queues.",
        "  Quota first: a 8 GPUs (quota 8 GPUs, asks for 20 GPUs), b 0 GPUs (asks for 0 GPUs, quota 24 GPUs); 24 GPUs left.",
        "  Priority 100, 24 GPUs by weight: a 12 GPUs (weight 1: 100 %, all it wants).",
        "  So a is due 20 GPUs; 12 GPUs left undivided.",
    ]
    lender = ask(lab, "Queue", "b", tried=False)
    assert (
        "Of its quota 24 GPUs are unused, while a holds 12 GPUs beyond its own; it gets them back by reclaim when it asks."
        in lender.lines(everything=True)
    )
    assert lender.data()["lent_to"] == {"a": 12000}


def who_could_reclaim(lab, name):
    told = ask(lab, "Queue", name, tried=False)
    return told.data()["could_reclaim"], next(
        line for line in told.lines(everything=True) if line.startswith(("Nobody could", "Queues that could"))
    )


def test_who_could_reclaim_is_the_engines_word(lab, queue, job):
    """Through the parents; within its limit; and without end where the quota has none."""
    lab.apply(queue("org-a", 8), queue("a", 4, parent="org-a"), queue("rest", 0, parent="org-a"))
    lab.apply(queue("org-b", 16, limit=6), queue("b", 16, parent="org-b"), job("work", "a", 12))
    lab.settle()
    assert who_could_reclaim(lab, "a") == (
        ["org-b"],
        "Queues that could reclaim it by asking: org-b (up to 4 GPUs of its quota).",
    )
    lab.apply(queue("endless", -1))
    assert who_could_reclaim(lab, "a") == (
        ["endless", "org-b"],
        "Queues that could reclaim it by asking: endless (its quota is unlimited), org-b (up to 4 GPUs of its quota).",
    )


@pytest.mark.parametrize("actions", ["allocate", "allocate, reclaim"])
def test_who_could_reclaim_up_to_the_fair_share(queue, job, actions):
    """Whoever waits below its fair share, from a queue above its own. One that borrows its fair share keeps it."""
    with Lab.open("lesson", config={"actions": actions}) as lab:
        lab.apply(queue("a", 0), queue("b", 0), job("work", "a", 32))
        lab.settle()
        nobody = ([], "Nobody could reclaim it: no other queue is below its quota.")
        assert who_could_reclaim(lab, "a") == nobody
        lab.apply(job("more", "b", 20))
        lab.settle()
        b = (["b"], "Queues that could reclaim it: b, below their fair share now.")
        assert who_could_reclaim(lab, "a") == (b if actions == "allocate" else nobody)
        assert lab.picture().shares["a"].borrowed == (32000 if actions == "allocate" else 16000)


def test_a_running_pod(lab, queue, job):
    lab.apply(queue("team", 4), job("work", "team", 1))
    lab.settle()
    (row,) = lab.picture().rows
    assert str(lab.explain_pod(row.name.partition("/")[2])).startswith(f"Pod {row.name}: Running on ")


def test_a_pod_with_gates(lab, queue, job):
    gated = job("work", "team", 1)
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    lab.apply(queue("team", 4), gated)
    assert "example.com/wait" in why(lab)


def test_a_saved_lab_explains_as_before(lab, queue, job, tmp_path):
    lab.apply(queue("a", 16), queue("b", 16), job("work", "a", 24))
    lab.settle()
    lab.apply(job("back", "b", 16))
    lab.settle()
    lab.save(tmp_path / "state")
    gone = lab.log.evictions[0].pod.partition("/")[2]
    with Lab.resume(tmp_path / "state") as again:
        assert (again.fleet, again.scheduler, again.now, again.opened) == (
            lab.fleet,
            lab.scheduler,
            lab.now,
            lab.opened,
        )
        told = lab.explain_pod(gone)
        assert again.explain_pod(gone) == told
        ground = told.data()["eviction"]["ground"]
        assert (ground["rule"], ground["queue"], ground["beside"], ground["resource"]) == (
            "fair share",
            "a",
            "b",
            "GPU",
        )
        assert "a held 24 GPUs, beyond its fair share of 16 GPUs, and 23 GPUs after it." in str(told)
        assert again.explain_queue("b") == lab.explain_queue("b")
        again.settle()
        assert again.get("pod") == lab.get("pod")


@pytest.mark.parametrize("scheduler", ["kailab", "kube-scheduler"])
def test_a_resumed_lab_carries_on_as_if_never_stopped(scheduler, queue, job, tmp_path):
    first = [queue("a", 16), queue("b", 16), job("work", "a", 40)]
    then = [job("back", "b", 16)]
    with Lab.open(scheduler=scheduler) as straight:
        straight.apply(*first)
        straight.settle()
        straight.apply(*then)
        straight.settle()
        expected = {row.name: (row.phase, row.node) for row in straight.picture().rows}
    with Lab.open(scheduler=scheduler) as lab:
        lab.apply(*first)
        lab.settle()
        lab.save(tmp_path / "state")
    with Lab.resume(tmp_path / "state") as lab:
        lab.apply(*then)
        lab.settle()
        assert {row.name: (row.phase, row.node) for row in lab.picture().rows} == expected


def test_a_damaged_state_file(tmp_path, lab):
    from kailab.errors import StateError

    with pytest.raises(StateError, match="no lab is here"):
        Lab.resume(tmp_path / "state")
    lab.cluster.save(tmp_path / "bare")
    with pytest.raises(StateError, match="damaged"):
        Lab.resume(tmp_path / "bare")


def test_under_kube_scheduler_nobody_gets_anything_back(queue, job):
    with Lab.open(scheduler="kube-scheduler") as lab:
        lab.apply(queue("a", 8), queue("b", 24), job("work", "a", 20))
        lab.settle()
        assert "knows no queues" in str(ask(lab, "Queue", "a", tried=False))


def test_when_a_delay_runs_out_is_told(lab, queue, job):
    delayed = job("late", "b", 4, annotations={"kai.scheduler/preemption-delay": "10m"})
    lab.apply(queue("a", 16), queue("b", 16), job("work", "a", 32))
    lab.settle()
    lab.apply(delayed)
    lab.settle()
    assert lab.get("podgroup", namespace=None)
    pending = [entry for entry in lab.picture().pending.values() if entry.reason == "PreemptionDelayNotElapsed"]
    assert pending
    group = pending[0].podgroup.partition("/")[2]
    left = pending[0].numbers["until"] - lab.now
    assert 0 < left <= 600
    assert f"for another {left + 1:g} s" in str(lab.explain_podgroup(group))


def test_what_queues_hold_is_told_as_of_now(lab, queue, job):
    """Not as of the beginning of the last cycle: pods that were bound in it count, and those deleted since do not."""
    lab.apply(queue("team", 16), job("work", "team", 16))
    lab.cluster.advance(1)
    for part in lab._parts.controllers:
        part.step()
    lab._parts.scheduler.step()
    assert lab.log.last.queues[0].gpu.allocated < 16_000
    assert "It holds 16 GPUs of 16 GPUs asked for." in ask(lab, "Queue", "team", tried=False).lines(everything=True)
    lab.settle()
    name = lab.picture().rows[0].name.partition("/")[2]
    lab.cluster.delete("Pod", name, "default", 0)
    assert ask(lab, "Queue", "team", tried=False).data()["allocated"] == 15_000


def test_a_daemonset_that_nobody_has_looked_at_does_not_want_no_pods(lab, queue, job):
    made = job("each", "team", 1)
    template = made["spec"]["template"]
    template["spec"]["restartPolicy"] = "Always"
    template["metadata"]["labels"]["app"] = "each"
    spec = {"selector": {"matchLabels": {"app": "each"}}, "template": template}
    lab.apply(
        queue("team", -1), {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "each"}, "spec": spec}
    )
    told = ask(lab, "DaemonSet", "each", tried=False)
    assert told.verdict == "later"
    assert "wants no pods" not in told.cause.sentence
    assert "it runs" in told.cause.sentence


def test_a_queue_waits_no_longer_than_the_work_in_it(lab, queue, job):
    lab.apply(queue("team", -1), job("first", "team", 20, gang=True))
    lab.settle()
    lab.apply(job("second", "team", 20, gang=True))
    lab.settle()
    assert ask(lab, "Job", "second", tried=False).verdict == "later"
    assert ask(lab, "Queue", "team", tried=False).verdict == "later"


def test_a_queue_whose_waiting_work_fits_nowhere_waits_for_ever(lab, queue, job):
    lab.apply(queue("team", -1), job("first", "team", 20, gang=True), job("huge", "team", 40, gang=True))
    lab.settle()
    assert ask(lab, "Queue", "team", tried=False).verdict == "never"
