"""The vocabulary: what holds passes, what does not is told with its reasons."""

from __future__ import annotations

import pytest

from kailab.errors import ExpectationFailed, InputError, NotFound, NothingThere
from kailab.lab import Lab, at_least, at_most, between, eventually, expect, never, stays

RUN_SECONDS = "kailab.dev/run-seconds"


@pytest.fixture
def lab():
    with Lab.open() as lab:
        yield lab


@pytest.fixture
def lent(lab, queue, job):
    """team-a asks for more than its quota while team-b asks for nothing."""
    lab.apply(queue("org", 32), queue("team-a", 16, parent="org"), queue("team-b", 16, parent="org"))
    lab.apply(job("a", "team-a", 24))
    return lab


def test_running_pending_and_shares(lent, job):
    expect(lent.queue("team-a")).running(gpus=24, pods=at_least(20)).borrows(gpus=8, from_queue="team-b")
    expect(lent.queue("team-b")).lends(gpus=8, to="team-a").running(pods=0)
    expect(lent.queue("org")).running(gpus=24).within_quota().holding(24)
    expect(lent).no_pending().running(pods=between(20, 30)).not_evicted()
    lent.apply(job("more", "team-a", 20))
    expect(lent.queue("team-a")).running(gpus=32).pending(pods=12, gpus=at_most(12)).fair_share(gpus=32)


def test_a_word_that_does_not_exist_is_told_with_those_that_do(lab):
    with pytest.raises(AttributeError, match=r"there is no expectation 'runing'; there are: running, .*pending"):
        expect(lab).runing(pods=1)


def test_the_owner_comes_back(lent, job):
    expect(lent.app("a")).running(pods=24)
    lent.apply(job("b", "team-b", 16))
    expect(lent.queue("team-b")).running(gpus=16).within_quota()
    expect(lent.queue("team-a")).running(gpus=16)
    expect(lent.job("a")).evicted(pods=8, by="reclaim", for_queue="team-b")
    expect(lent.job("b")).not_evicted()
    with pytest.raises(ExpectationFailed, match="8 pods evicted"):
        expect(lent.app("a")).evicted(pods=3)


def test_an_evicted_pod_is_explained_after_it_is_gone(lent, job):
    lent.settle()
    lent.apply(job("b", "team-b", 16))
    lent.settle()
    gone = lent.log.evictions[0].pod.partition("/")[2]
    text = str(lent.explain_pod(gone))
    assert "is gone" in text
    assert "by reclaim" in text
    assert "queue team-b" in text


def test_gangs(lab, queue, job):
    lab.apply(queue("team", 32), job("filler", "team", 24))
    lab.settle()
    lab.apply(job("gang", "team", 10, gang=True))
    expect(lab.job("gang")).waits_whole(pods=10)
    with pytest.raises(ExpectationFailed) as caught:
        expect(lab.job("gang")).runs_whole()
    text = str(caught.value)
    assert "expected job gang: to run whole" in text
    assert "seen     job gang: 10 Pending (10 GPUs)" in text
    assert "10 run together or none" in text
    lab.delete("job", "filler")
    expect(lab.job("gang")).runs_whole(pods=10)


def test_a_failure_explains_each_reason_once(lab, queue, job):
    lab.apply(queue("team", 4, limit=4), job("work", "team", 20))
    with pytest.raises(ExpectationFailed) as caught:
        expect(lab.queue("team")).running(gpus=20)
    text = str(caught.value)
    assert "Queue team: quota 4 GPUs, limit 4 GPUs" in text
    assert text.count("OverLimit: ") == 1


def test_reasons_are_compared(lab, queue, job):
    lab.apply(queue("team", 4, limit=4), job("work", "team", 6))
    expect(lab.app("work")).pending(pods=2, reason="OverLimit")
    with pytest.raises(ExpectationFailed, match="pending because of OverLimit"):
        expect(lab.app("work")).pending(reason="QueueDoesNotExist")


def test_places(lab, queue, job):
    lab.apply(queue("team", 32), job("big", "team", 2, gpus=8))
    placed = expect(lab.job("big")).spread_over(2).spread_over(at_most(2), "rack")
    nodes = sorted(placed._per_node())
    expect(lab.job("big")).on_nodes(nodes).on_nodes(dict.fromkeys(nodes, 1))
    expect(lab.node(nodes[0])).holding(8).running(pods=1)
    with pytest.raises(ExpectationFailed, match=f"1 on {nodes[0]}"):
        expect(lab.job("big")).on_nodes(["l40s-0"])
    with pytest.raises(InputError, match="no node has such a label"):
        expect(lab.job("big")).on_one("galaxy")


@pytest.mark.parametrize(
    "ask",
    [
        lambda lab: lab.explain_workload("Job", "nosuch"),
        lambda lab: lab.explain_pod("nosuch"),
        lambda lab: lab.explain_podgroup("nosuch"),
        lambda lab: lab.explain_queue("nosuch"),
    ],
)
def test_what_is_not_there(lab, ask):
    with pytest.raises(NotFound, match="nosuch"):
        ask(lab)


def test_a_share_of_what_is_no_queue(lab):
    with pytest.raises(InputError, match="only a queue"):
        expect(lab).borrows()


@pytest.mark.parametrize(
    "word",
    [
        lambda expectation: expectation.no_pending(),
        lambda expectation: expectation.running(gpus=0),
        lambda expectation: expectation.no_pods(),
        lambda expectation: expectation.not_evicted(),
        lambda expectation: expectation.borrows(),
        lambda expectation: expectation.holding(0),
    ],
)
@pytest.mark.parametrize("kind", ["queue", "app", "pod", "podgroup"])
def test_nothing_holds_of_what_was_never_there(lent, kind, word):
    with pytest.raises(NothingThere, match=f"no {kind} .*typo; there are: "):
        word(expect(getattr(lent, kind)("typo")))


@pytest.mark.parametrize("word", [lambda one: one.no_pending(), lambda one: one.running(gpus=0)])
@pytest.mark.parametrize(
    "subject",
    [
        lambda lab: lab.job("typo"),
        lambda lab: lab.deployment("typo"),
        lambda lab: lab.workload("pytorchjob", "typo"),
        lambda lab: lab.job("a", namespace="typo"),
        lambda lab: lab.node("typo"),
    ],
)
def test_nothing_holds_of_a_workload_or_node_that_was_never_there(lent, subject, word):
    with pytest.raises(NothingThere, match=r"typo.*; there are"):
        word(expect(subject(lent)))


@pytest.mark.parametrize(
    "word",
    [
        lambda one: one.borrows(gpus=0, from_queue="taem-b"),
        lambda one: one.lends(gpus=0, to="taem-b"),
        lambda one: one.evicted(pods=0, for_queue="taem-b"),
    ],
)
def test_a_queue_that_a_word_names_is_there_too(lent, word):
    with pytest.raises(NothingThere, match="no queue taem-b; there are: team-b, team-a, org"):
        word(expect(lent.queue("team-a")))


def test_an_action_that_nobody_has_evicts_nobody(lent):
    with pytest.raises(InputError, match="no evicting action has the name 'reclame'; there are: reclaim,"):
        expect(lent.queue("team-a")).evicted(pods=0, by="reclame")
    expect(lent.queue("team-a")).evicted(pods=0, by="reclaim")


def test_a_podgroup_is_no_pod_and_the_other_way_round(lent):
    lent.settle()
    picture = lent.picture()
    pod = picture.rows[0].name.partition("/")[2]
    group = next(name for _, name in picture.podgroups)
    with pytest.raises(NothingThere):
        expect(lent.pod(group)).no_pods()
    with pytest.raises(NothingThere):
        expect(lent.podgroup(pod)).no_pods()


def test_the_names_that_there_are_are_told(lent):
    with pytest.raises(ExpectationFailed, match="no queue typo; there are: org, team-a, team-b"):
        expect(lent.queue("typo")).no_pending()
    with pytest.raises(ExpectationFailed, match="no queue taem-b; there are: team-b, team-a, org"):
        expect(lent.queue("taem-b")).no_pending()
    with pytest.raises(NothingThere, match=r"no job default/typo; there are: default/a$"):
        expect(lent.job("typo"))
    with pytest.raises(NothingThere, match=r"no node a1OO-1; there are: a100-1, a100-0, "):
        expect(lent.node("a1OO-1"))
    with pytest.raises(NotFound, match=r"there are: a$"):
        lent.explain_workload("Job", "typo")
    with pytest.raises(NotFound, match=r"there are: team-b, team-a, org$"):
        lent.explain_queue("taem-b")
    with pytest.raises(NothingThere, match="no queue typo"):
        never(lambda: expect(lent.queue("typo")).running(), for_=60)


def test_what_is_gone_may_still_be_asked_about(lent):
    lent.settle()
    pod = next(row.name for row in lent.picture().rows).partition("/")[2]
    group = next(name for _, name in lent.picture().podgroups)
    lent.delete("job", "a")
    expect(lent.app("a")).no_pods().running(pods=0)
    expect(lent.pod(pod)).no_pods()
    expect(lent.podgroup(group)).no_pods()
    expect(lent.job("a")).no_pods().no_pending().running(gpus=0)


def test_a_queue_that_was_deleted_holds_nothing(lent):
    lent.delete("job", "a")
    lent.delete("queue", "team-b")
    gone = expect(lent.queue("team-b")).no_pods().running(gpus=0).not_evicted()
    gone.within_quota().lends(gpus=0).holding(0).fair_share(0)
    expect(lent.queue("team-a")).borrows(gpus=0, from_queue="team-b")
    with pytest.raises(ExpectationFailed, match="seen     queue team-b: no pods"):
        gone.running()


def test_workloads_that_went_another_way_may_be_asked_about(lent, job):
    """With their namespace, or when their time after the end had come."""
    lent.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    lent.apply(job("moved", "team-b", 1), namespace="other")
    short = job("short", "team-b", 1, annotations={RUN_SECONDS: "5"})
    short["spec"]["ttlSecondsAfterFinished"] = 10
    lent.apply(short)
    lent.settle()
    lent.delete("namespace", "other")
    lent.advance(60)
    assert [each["metadata"]["name"] for each in lent.get("job", namespace=None)] == ["a"]
    expect(lent.job("moved", namespace="other")).no_pods()
    expect(lent.job("short")).no_pods()


def test_a_fork_knows_whom_the_lab_knew(lent):
    lent.settle()
    lent.delete("job", "a")
    lent.delete("queue", "team-b")
    with lent.fork() as tried:
        expect(tried.job("a")).no_pods()
        expect(tried.queue("team-b")).no_pods()


def test_what_is_made_later_can_be_waited_for(lent):
    lent.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "later"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {
                "schedulerName": "kai-scheduler", "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "i"}]}}}}},
        }
    )  # fmt: skip

    def made():
        jobs = [one["metadata"]["name"] for one in lent.get("job") if one["metadata"]["name"].startswith("later-")]
        expect(lent.job(jobs[0] if jobs else "later-0"))

    with pytest.raises(NothingThere):
        made()
    eventually(made, within=120)


def test_pods_that_were_to_stay_and_were_evicted_are_explained(lent, job):
    lent.settle()
    lent.apply(job("b", "team-b", 16))
    lent.settle()
    gone = lent.log.evictions[0].pod
    with pytest.raises(ExpectationFailed) as caught:
        expect(lent.app("a")).not_evicted()
    text = str(caught.value)
    assert f"Pod {gone} was evicted at " in text
    assert "by reclaim" in text
    assert "Running on" not in text


def test_words_of_an_explanation(lab, queue, job):
    lab.apply(queue("team", 8), job("work", "nosuch", 1))
    expect(lab.app("work")).pending(reason="QueueDoesNotExist").says("QueueMissing", "queue nosuch", "team")


# --- over time ---------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(lab, queue, job):
    """``second`` can start only when ``first`` ends, an hour from now."""
    lab.apply(queue("team", 32), job("first", "team", 32, annotations={RUN_SECONDS: "3600"}))
    lab.settle()
    lab.apply(job("second", "team", 32))
    lab.settle()
    return lab


def test_eventually_stops_when_it_holds(waiting):
    begun = waiting.now
    eventually(lambda: expect(waiting.app("second")).running(pods=32), within=2 * 3600)
    assert 3500 < waiting.now - begun < 3700


def test_eventually_gives_up_with_the_reason(waiting):
    begun = waiting.now
    with pytest.raises(ExpectationFailed, match=r"not within 600 s(.|\n)*32 pods running"):
        eventually(lambda: expect(waiting.app("second")).running(pods=32), within=600)
    assert waiting.now - begun == 600


def test_stays_and_breaks(waiting):
    stays(lambda: expect(waiting.app("first")).running(pods=32), for_=3000)
    with pytest.raises(ExpectationFailed, match="it held for"):
        stays(lambda: expect(waiting.app("first")).running(pods=32), for_=3000)


def test_never(waiting):
    never(lambda: expect(waiting.app("second")).running(), for_=3000)
    with pytest.raises(ExpectationFailed, match="expected never"):
        never(lambda: expect(waiting.app("second")).running(), for_=3000)


def test_a_condition_that_is_no_expectation_needs_its_lab(waiting):
    with pytest.raises(InputError, match="looks at no lab"):
        eventually(lambda: True, within=5)
    begun = waiting.now
    eventually(lambda: waiting.now - begun >= 30, within=60, lab=waiting)


def test_a_day_passes_fast(waiting):
    waiting.advance(24 * 3600)
    expect(waiting.app("first")).succeeded(pods=32)
    assert waiting.log.cycle < 100


def test_time_goes_forward_only(lab):
    with pytest.raises(InputError, match="forward"):
        lab.advance(-1)


def test_a_cause_of_explain_is_named_as_such_with_the_reason_of_the_pods(lab, queue, job):
    gang = job("gang", "team", 3)
    gang["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "4"}
    lab.apply(queue("team", 8), gang)
    told = r"'GangIncomplete': GangIncomplete is a cause of `explain`.* Now waiting: 3 pods of it with NotReady; there are: "
    with pytest.raises(InputError, match=told):
        expect(lab.job("gang")).waits_whole(reason="GangIncomplete")
    expect(lab.job("gang")).waits_whole(reason="NotReady")


def test_pods_for_a_misspelt_queue_are_named_where_the_queue_fails(lab, queue, job):
    lab.apply(queue("prod", 8), queue("dev", 8), job("train", "prd", 2))
    with pytest.raises(
        ExpectationFailed, match=r"2 pods of Job/train for a queue that does not exist: prd; did you mean prod\?"
    ):
        expect(lab.queue("prod")).running(gpus=2)


def test_a_reason_that_nobody_has_is_no_reason(lent):
    """Also where nobody waits: it would hold for any word."""
    with pytest.raises(InputError, match="no reason for pending has the name 'OverLimitt'; there are: OverLimit,"):
        expect(lent.queue("team-a")).pending(pods=0, reason="OverLimitt")
    with pytest.raises(InputError, match="no reason for pending has the name 'Overlimit'"):
        expect(lent.queue("team-a")).waits_whole(reason="Overlimit")
    with pytest.raises(InputError, match=r"there are: OverLimit, .*Unschedulable$"):  # all of them
        expect(lent.queue("team-a")).pending(reason="Overlimit")
    expect(lent.queue("team-a")).pending(pods=0, reason="OverLimit")


@pytest.mark.parametrize("amount", ["8", None, True, at_least("8")])
def test_what_is_no_amount_is_refused(lent, amount):
    with pytest.raises(InputError, match="is no amount; expected a number, at_least"):
        expect(lent.queue("team-a")).fair_share(gpus=amount)


def test_an_expectation_is_about_a_lab_or_a_part_of_it(lent):
    with pytest.raises(InputError, match=r"such as lab.queue\('team-a'\), not 'team-a'"):
        expect("team-a")
