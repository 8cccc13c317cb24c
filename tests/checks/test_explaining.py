"""Random situations, and the judge of their explanations: every wrong answer is found."""

from __future__ import annotations

import json

import pytest
import yaml

from checks.explaining import judging, removal
from checks.explaining.ground_truth import GroundTruth, without_others
from checks.explaining.judging import JudgedAnswer, judge_situation
from checks.explaining.naming import missing_names
from checks.explaining.random_situation import seeded
from checks.explaining.run import Findings, SeedResult, run_seeds
from checks.explaining.shares import table as shares_table
from checks.explaining.shrinking import shrink
from checks.explaining.situation import Situation, carry_out_steps
from checks.explaining.workload_context import WorkloadContext
from checks.explaining.workloads import AppliedWorkload, waiting_workloads
from checks.fuzzing.walk_objects import queue
from kailab.errors import InputError
from kailab.lab.answer import Answer, Cause, CauseCode, Step, Verdict

FLEET = yaml.safe_load("""
apiVersion: kailab.dev/v1
kind: Fleet
name: one
pools: [{name: a100, count: 2, gpus: 4, gpuModel: A100, cpu: 64, memory: 512Gi, taints: []}]
""")


def job(name: str, gpus: int, pods: int = 1, **spec: object) -> dict:
    labels = {"app": name, "kai.scheduler/queue": "team"}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    pod = {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container], **spec}
    template = {"metadata": {"labels": dict(labels), "annotations": {}}, "spec": pod}
    metadata = {"name": name, "labels": labels, "annotations": {"kai.scheduler/batch-min-member": str(pods)}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


LIMITED = Situation("limited", FLEET, ({"apply": [queue("team", "", 4, 2, 1)]}, {"apply": [job("work", 4)]}))
CROWDED = Situation(
    "crowded",
    FLEET,
    (
        {"apply": [queue("team", "", 8, -1, 1)]},
        {"apply": [job("first", 4, 2)]},
        {"advance": 5},
        {"apply": [job("work", 4)]},
    ),
)
WORK = AppliedWorkload("Job", "work")


SENTENCE = "Its queue team has a limit of 2; it wants 4 GPUs."


def make_answer(verdict: Verdict, code: CauseCode, *steps: Step, sentence: str = SENTENCE) -> Answer:
    return Answer("Job", "default", "work", verdict, Cause(code, sentence), steps=steps)


def judged(monkeypatch: pytest.MonkeyPatch, situation: Situation, *answers: Answer) -> JudgedAnswer:
    """What is thought of an answer; the last of ``answers`` is given again and again."""
    given = list(answers)
    monkeypatch.setattr(judging, "ask", lambda *_, **__: given.pop(0) if len(given) > 1 else given[0])
    (result,) = judge_situation(situation, steps=True)
    return result


def parts(found: JudgedAnswer) -> list[str]:
    return [part for part, _ in found.faults]


LIFT = {"patch": {"kind": "Queue", "name": "team", "patch": {"spec": {"resources": {"gpu": {"limit": -1}}}}}}


def test_a_right_answer_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    right = make_answer(
        Verdict.NEVER,
        CauseCode.OVER_LIMIT,
        Step("Raise the gpu limit of queue team to -1 (unlimited).", (LIFT,), checked=True),
    )
    assert judged(monkeypatch, LIMITED, right).right


def test_a_wrong_verdict_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts(judged(monkeypatch, LIMITED, make_answer(Verdict.LATER, CauseCode.OVER_LIMIT))) == ["verdict"]
    assert parts(judged(monkeypatch, CROWDED, make_answer(Verdict.NEVER, CauseCode.NOT_ENOUGH_GPUS))) == ["verdict"]
    assert parts(judged(monkeypatch, CROWDED, make_answer(Verdict.GONE, CauseCode.EVICTED))) == ["verdict"]


def test_a_cause_that_is_none_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    same = make_answer(Verdict.NEVER, CauseCode.TAINT_NOT_TOLERATED)
    again = ("cause", "the same again once TaintNotTolerated is no more")
    # The tables say OverLimit of the same moment.
    assert judged(monkeypatch, LIMITED, same).faults[1:] == (again,)
    then = make_answer(Verdict.NEVER, CauseCode.OVER_LIMIT)
    beside = judged(monkeypatch, LIMITED, same, then)
    assert beside.faults[1:] == (("cause", "it runs once OverLimit is no more: TaintNotTolerated does not keep it"),)
    assert parts(beside) == ["screens", "cause"]


def test_a_step_that_does_not_help_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Step("Wait 5s.", ({"advance": 5},), checked=True)
    result = judged(monkeypatch, LIMITED, make_answer(Verdict.NEVER, CauseCode.OVER_LIMIT, idle))
    assert result.faults == (("step", "Wait 5s.: 0 pods of it run then, 0 before, and not all"),)
    untried = Step("Wait 5s.", ({"advance": 5},))
    assert judged(monkeypatch, LIMITED, make_answer(Verdict.NEVER, CauseCode.OVER_LIMIT, untried)).right


def test_a_sentence_without_its_numbers_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    vague = make_answer(Verdict.NEVER, CauseCode.OVER_LIMIT, sentence="Its queue team has a limit of 20.")
    assert parts(judged(monkeypatch, LIMITED, vague)) == ["naming"]


def test_a_failure_is_a_fault_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> Answer:
        raise KeyError("queue")

    monkeypatch.setattr(judging, "ask", fails)
    (result,) = judge_situation(LIMITED)
    assert parts(result) == ["failed"]


def test_the_emptied_lab_tells_what_waiting_for_others_can_bring() -> None:
    with CROWDED.opened() as crowded, LIMITED.opened() as limited:
        truth = GroundTruth(CROWDED, crowded)
        assert truth.runs_alone_in_fork(WORK)
        assert not truth.runs_within_a_day(WORK)
        assert not GroundTruth(LIMITED, limited).runs_alone_in_fork(WORK)


def test_no_pod_of_other_work_stays_in_the_emptied_lab() -> None:
    """Not on a node that has failed either, where it would hold its part of a ResourceQuota for ever."""
    hard = {"requests.nvidia.com/gpu": "4"}
    bound = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": {"hard": hard}}
    steps = ({"apply": [queue("team", "", 8, -1, 1), bound]}, {"apply": [job("first", 1)]}, {"apply": [job("work", 4)]})
    with (bounded := Situation("bounded", FLEET, steps)).opened() as lab:
        [node] = {node for pod in lab.cluster.list("Pod") if (node := pod["spec"].get("nodeName"))}
        lab.fail_node(node)
        lab.settle()
        with without_others(bounded, lab, WORK) as emptied:
            assert [pod for pod in emptied.cluster.list("Pod") if pod["metadata"]["name"].startswith("first-")] == []


@pytest.mark.parametrize("seed", range(12))
def test_a_seed_gives_a_situation_that_can_be_carried_out_and_written_down(seed: int) -> None:
    situation = seeded(seed)
    assert situation == seeded(seed)
    again = yaml.safe_load(situation.as_yaml())
    assert (again["fleet"], again["steps"]) == (situation.fleet, list(situation.steps))
    with situation.opened() as lab:
        assert all(work.wanted(lab) > 0 for work in waiting_workloads(situation, lab))


def test_situations_are_of_many_kinds() -> None:
    made = [seeded(seed) for seed in range(300)]
    assert {one["kind"] for situation in made for one in situation.applied()} >= {
        "Job", "Deployment", "StatefulSet", "Pod", "PodGroup", "Queue",
    }  # fmt: skip
    forms = {form for situation in made for step in situation.steps for form in step}
    assert forms == {"apply", "patch", "delete", "advance", "refuse"}


NOT_DRAWN = {
    CauseCode.OTHER_SCHEDULER,
    CauseCode.GROUPING_FAILED,
    CauseCode.POD_GROUP_MISSING,
    CauseCode.BIND_RETRIED,
    CauseCode.FAILED,
    CauseCode.NO_CONTROLLER,
}
"""Causes that no situation has that is made at random."""


@pytest.mark.parametrize(
    "code",
    sorted(
        set(CauseCode)
        - {CauseCode.EVICTED, CauseCode.BORROWING, CauseCode.STALE_GANG, CauseCode.PODS_NOT_CREATED}
        - NOT_DRAWN
    ),
)
def test_every_cause_of_waiting_can_be_taken_away(code: CauseCode) -> None:
    assert code in removal._REMOVERS or code == CauseCode.BIND_REFUSED


def in_queue(name: str, work: dict) -> dict:
    work["metadata"]["labels"]["kai.scheduler/queue"] = name
    work["spec"]["template"]["metadata"]["labels"]["kai.scheduler/queue"] = name
    return work


def split_job() -> dict:
    split = job("work", 0)
    split["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-3g.40gb": 1}}
    return split


def test_gpus_that_are_split_are_there_where_a_profile_was_absent() -> None:
    (result,) = judge_situation(Situation("split", FLEET, ({"apply": [queue("team", "", 4, -1, 1), split_job()]},)))
    assert (result.code, result.faults) == (CauseCode.MIG_PROFILE_ABSENT, ())


def test_a_claim_that_several_templates_of_a_workload_name_is_made_once() -> None:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "corpus"}}
    pod = {"schedulerName": "kai-scheduler", "containers": [container], "volumes": [volume]}
    group = {"rayStartParams": {}, "template": {"spec": pod}}
    workers = {"groupName": "workers", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, **group}
    metadata = {"name": "work", "labels": {"app": "work", "kai.scheduler/queue": "team"}}
    spec = {"headGroupSpec": group, "workerGroupSpecs": [workers]}
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}
    (result,) = judge_situation(Situation("shared", FLEET, ({"apply": [queue("team", "", 4, -1, 1), cluster]},)))
    assert (result.code, result.faults) == (CauseCode.VOLUME_MISSING, ())


def test_a_priority_class_that_comes_late_counts_for_work_that_is_there() -> None:
    named = job("work", 1, 2)
    named["metadata"]["labels"]["priorityClassName"] = "research-high"
    situation = Situation("named", FLEET, ({"apply": [queue("team", "", 8, -1, 1)]}, {"apply": [named]}))
    with situation.opened() as lab:
        result = removal.cause_removal(situation, lab, WORK, CauseCode.PRIORITY_CLASS_MISSING)
    assert result is not None
    with situation.opened(result.steps) as lab:
        assert [one["spec"]["priorityClassName"] for one in lab.cluster.list("PodGroup")] == ["research-high"]


def test_work_without_its_runtime_class_runs_once_there_is_one() -> None:
    named = job("work", 1, 2)
    named["spec"]["template"]["spec"]["runtimeClassName"] = "kata"
    steps = ({"apply": [queue("team", "", 8, -1, 1)]}, {"apply": [named]})
    (result,) = judge_situation(Situation("refused", FLEET, steps))
    assert (result.code, result.next_code) == (CauseCode.RUNTIME_CLASS_MISSING, "")
    assert result.right


def test_a_priority_class_has_the_value_that_lets_the_work_run() -> None:
    full, named = job("first", 4, 2), job("work", 4)
    for made, name in ((full, "build-preemptible"), (named, "research-high")):
        made["metadata"]["labels"]["priorityClassName"] = name
    steps = ({"apply": [queue("team", "", 8, 8, 1)]}, {"apply": [full]}, {"apply": [named]})
    (result,) = judge_situation(Situation("valued", FLEET, steps))
    assert (result.code, result.next_code) == (CauseCode.PRIORITY_CLASS_MISSING, "")
    assert result.right


def test_a_cause_that_kept_some_of_the_work_is_one_whatever_else_would_let_it_run() -> None:
    """With its priority class two of three pods take the place of another's; with a higher limit all would run beside it."""
    first, remaining, named = job("first", 2, 2), job("kept", 2), job("work", 2, 3)
    for made, name in ((first, "build-preemptible"), (remaining, "build"), (named, "research-high")):
        made["metadata"]["labels"]["priorityClassName"] = name
    named["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "2"}
    fleet = {**FLEET, "pools": [{**FLEET["pools"][0], "count": 3}]}
    steps = ({"apply": [queue("team", "", 6, 6, 1)]}, {"apply": [first, remaining]}, {"apply": [named]})
    (result,) = judge_situation(Situation("some", fleet, steps))
    assert (result.code, result.next_code) == (CauseCode.PRIORITY_CLASS_MISSING, CauseCode.OVER_LIMIT)
    assert result.right


def test_a_cause_without_which_it_does_not_wait_for_ever_is_one_whatever_else_would_let_it_run() -> None:
    """The cordoned node would do once the first has ended; two that are reserved would do at once."""
    pool, reserved = FLEET["pools"][0], {"key": "lab/reserved", "value": "yes", "effect": "NoSchedule"}
    others = {**pool, "name": "h100", "gpuModel": "H100", "count": 3, "taints": [reserved]}
    closed = {"patch": {"kind": "Node", "name": "a100-1", "patch": {"spec": {"unschedulable": True}}}}
    steps = (
        {"apply": [queue("team", "", -1, -1, 1)]},
        {"apply": [job("first", 4)]},
        closed,
        {"apply": [job("work", 4, 2)]},
    )
    (result,) = judge_situation(Situation("closed", {**FLEET, "pools": [pool, others]}, steps))
    assert (result.verdict, result.code, result.next_code) == (
        Verdict.NEVER,
        CauseCode.NODES_CORDONED,
        CauseCode.TAINT_NOT_TOLERATED,
    )
    assert result.right


def test_a_quota_is_named_where_what_is_taken_back_counts_against_a_limit_no_more() -> None:
    queues = [queue("org", "", 8, 8, 1), queue("team", "org", 4, -1, 1), queue("other", "org", -1, -1, 1)]
    full = in_queue("other", job("first", 4, 2))
    (result,) = judge_situation(
        Situation("held", FLEET, ({"apply": queues}, {"apply": [full]}, {"apply": [job("work", 4)]}))
    )
    assert (result.code, result.next_code) == (CauseCode.VICTIMS_WITHIN_QUOTA, "")
    assert result.right


def test_a_share_of_a_gpu_is_named_by_its_size() -> None:
    shared = job("work", 0)
    shared["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
    for holder in (shared["metadata"], shared["spec"]["template"]["metadata"]):
        holder["annotations"]["gpu-memory"] = "40000"
    situation = Situation("shared", FLEET, ({"apply": [queue("team", "", 4, -1, 1), shared]},))
    with situation.opened() as lab:
        place = WorkloadContext(situation, lab, WORK)
        assert missing_names(place, CauseCode.NOT_ENOUGH_GPUS, "It wants 40000 MiB of a GPU.") == ""
        assert "40000" in missing_names(place, CauseCode.NOT_ENOUGH_GPUS, "It wants much of a GPU.")


def test_a_share_grows_where_others_have_no_quota_any_more() -> None:
    crowd = in_queue("other", job("first", 4, 2))
    owed = [queue("team", "", 0, -1, 1), queue("other", "", 8, -1, 1)]
    (result,) = judge_situation(
        Situation("owed", FLEET, ({"apply": owed}, {"apply": [crowd]}, {"apply": [job("work", 4)]}))
    )
    assert (result.code, result.next_code) == (CauseCode.FAIR_SHARE_REACHED, CauseCode.VICTIMS_WITHIN_QUOTA)
    assert result.right


def test_what_a_parent_is_made_for_is_needed_where_its_limit_has_to_go_too() -> None:
    orphan = queue("team", "nowhere", 8, 1, 1)
    (result,) = judge_situation(Situation("orphan", FLEET, ({"apply": [orphan]}, {"apply": [job("work", 4)]})))
    assert (result.code, result.next_code) == (CauseCode.QUEUE_PARENT_MISSING, CauseCode.OVER_LIMIT)
    assert result.right


def test_nodes_that_are_made_for_a_later_cause_have_what_the_first_one_is_about() -> None:
    """Copies of nodes of another pool are of that pool, where it is still to be served."""
    elsewhere = {**FLEET, "pools": [{**FLEET["pools"][0], "labels": {"kai.scheduler/node-pool": "workers"}}]}
    (result,) = judge_situation(Situation("pool", elsewhere, ({"apply": [queue("team", "", 4, -1, 1), split_job()]},)))
    assert (result.code, result.next_code) == (CauseCode.NODE_POOL_NOT_SERVED, CauseCode.MIG_PROFILE_ABSENT)
    assert result.right


def test_a_pod_that_was_evicted_before_it_was_to_be_deleted_is_gone() -> None:
    alone = {"apiVersion": "v1", "kind": "Pod", **job("alone", 4)["spec"]["template"]}
    alone["metadata"] |= {"name": "alone"}
    owner = in_queue("owner", job("first", 4, 2))
    queues = [queue("team", "", 0, -1, 1), queue("owner", "", 8, -1, 1)]
    gone = {"delete": {"kind": "Pod", "name": "alone"}}
    made = Situation("evicted", FLEET, ({"apply": queues}, {"apply": [alone]}, {"apply": [owner]}, gone))
    with made.opened() as lab:
        assert [one.pod for one in lab.log.evictions] == ["default/alone"]
        assert waiting_workloads(made, lab) == []
    with pytest.raises(InputError, match="'first' not found"):
        made.with_steps((*made.steps, {"delete": {"kind": "Pod", "name": "first"}})).opened()


def test_a_job_that_has_completed_does_not_wait_without_its_pods() -> None:
    short = job("short", 4)
    short["spec"]["template"]["metadata"]["annotations"]["kailab.dev/run-seconds"] = "10"
    applied = [queue("team", "", 8, -1, 1), short]
    made = Situation("completed", FLEET, ({"apply": applied}, {"advance": 60}))
    with made.opened() as lab:
        (pod,) = lab.cluster.list("Pod")
        lab.cluster.delete("Pod", pod["metadata"]["name"], "default")
        assert AppliedWorkload("Job", "short").pods(lab) == []
        assert waiting_workloads(made, lab) == []


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_what_others_run_stays_where_only_their_turn_is_taken_away(kind: str) -> None:
    elastic = job("elastic", 1, 5)
    elastic["metadata"]["annotations"] = {}
    if kind == "Deployment":
        selector = {"matchLabels": {"app": "elastic"}}
        template = elastic["spec"]["template"]
        del template["spec"]["restartPolicy"]
        spec = {"replicas": 5, "selector": selector, "template": template}
        elastic |= {"apiVersion": "apps/v1", "kind": kind, "spec": spec}
    limited = queue("team", "", 8, 4, 1)
    full = Situation("full", FLEET, ({"apply": [limited]}, {"apply": [elastic]}, {"apply": [job("work", 4)]}))
    with full.opened() as lab:
        taken = removal.cause_removal(full, lab, WORK, CauseCode.BEHIND_OTHERS)
    assert taken is not None
    with full.opened(taken.steps) as lab:
        assert (AppliedWorkload(kind, "elastic").running(lab), len(AppliedWorkload(kind, "elastic").pods(lab))) == (
            4,
            4,
        )
        assert waiting_workloads(full, lab) == [WORK]


def test_a_limit_may_be_kept_where_all_that_others_hold_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    full = CROWDED.with_steps(({"apply": [queue("team", "", 8, 8, 1)]}, *CROWDED.steps[1:]))
    over = make_answer(Verdict.LATER, CauseCode.OVER_LIMIT, sentence="Its queue team has a limit of 8 GPUs.")
    assert judged(monkeypatch, full, over, make_answer(Verdict.LATER, CauseCode.VICTIMS_NON_PREEMPTIBLE)).faults == ()


def test_nodes_are_made_as_large_as_any_pod() -> None:
    poor = {**FLEET, "pools": [{**FLEET["pools"][0], "cpu": 2, "memory": "2Gi"}]}
    vast = job("work", 1)
    vast["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "100", "memory": "2Ti"}
    large = Situation("large", poor, ({"apply": [queue("team", "", -1, -1, 1)]}, {"apply": [vast]}))
    with large.opened() as lab:
        assert not WORK.runs(lab)
        taken = removal.cause_removal(large, lab, WORK, CauseCode.LARGER_THAN_ANY_NODE)
    assert taken is not None
    with large.opened(taken.steps) as lab:
        assert WORK.runs(lab)


def test_a_failing_situation_is_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    large = LIMITED.with_steps((*LIMITED.steps, {"advance": 5}, {"apply": [queue("b", "", 4, -1, 1), job("more", 1)]}))
    monkeypatch.setattr(judging, "ask", lambda *_, **__: make_answer(Verdict.LATER, CauseCode.OVER_LIMIT))
    failed = next(one for one in judge_situation(large) if one.work == WORK)
    small = shrink(large, failed)
    assert small.steps == LIMITED.steps[1:]  # without its queue it is as wrong
    assert small.fleet["pools"][0]["count"] == 1


def test_what_is_explained_of_random_situations_is_so() -> None:
    findings = run_seeds(range(6))
    assert findings.asked > 15
    assert findings.share >= 90, findings.text()


@pytest.mark.slow
def test_what_is_explained_of_many_random_situations_is_so_steps_too() -> None:
    findings = run_seeds(range(400, 412), steps=True)
    assert sum(tally.with_steps for tally in findings.by_code().values()) > 10
    assert findings.share >= 90, findings.text()


def test_processes_that_share_the_work_find_the_same() -> None:
    seeds = (30005, 30009, 30011)  # cheap ones
    assert run_seeds(seeds, workers=2) == run_seeds(seeds)


def test_steps_are_judged_where_that_is_asked_for() -> None:
    assert [one.steps > 0 for one in judge_situation(LIMITED, steps=True)] == [True]
    assert [one.steps for one in judge_situation(LIMITED)] == [0]


def test_a_day_tells_of_all_that_comes_to_run_in_it() -> None:
    ending = job("first", 4, 2)
    ending["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "400"}
    steps = ({"apply": [queue("team", "", 8, -1, 1), ending]}, {"apply": [job("work", 4), job("large", 16)]})
    situation = Situation("ending", FLEET, steps)
    with situation.opened() as lab:
        truth = GroundTruth(situation, lab)
        assert [truth.runs_within_a_day(one) for one in waiting_workloads(situation, lab)] == [True, False]


def test_findings_tell_the_share_by_cause() -> None:
    good = JudgedAnswer(WORK, "later", "NotEnoughGPUs", "It wants 4.", steps=1)
    bad = JudgedAnswer(WORK, "never", "OverLimit", "It is over.", (("verdict", "never, and it runs"),))
    findings = Findings([SeedResult(3, (good, good)), SeedResult(4, (good, bad))])
    assert findings.share == 75.0
    lines = findings.text().splitlines()
    assert lines[1].split() == ["NotEnoughGPUs", "3", "100.0%", "3"]
    assert "case 4, job work: never OverLimit" in lines
    assert lines[-1].startswith(
        "3 of 4 answers right in 2 cases: 75.00 %; causes 75.00 %, 3 steps, 0 answers with a step"
    )
    assert json.loads(findings.as_json())["failed"][0]["case"] == 4


def test_the_table_of_shares_adds_up_the_runs_of_an_area() -> None:
    work = {"kind": "Job", "name": "w", "namespace": "default"}
    run = {"area": "platform-small", "cases": 2, "asked": 4, "right": 3, "steps": 5}
    run["failed"] = [{"case": 1, "work": work, "faults": [["screens", "..."], ["number", "..."]]}]
    _, _, row = shares_table([run, {**run, "asked": 6, "right": 6, "failed": []}])
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells == ["`platform-small`", "4 to 9", "4", "10", "10 (100.00 %)", "10", "0", "1", "1", "9 (90.00 %)"]


def test_pods_that_terminate_for_ever_are_made_anew_for_a_smaller_gang() -> None:
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "labels": {"app": "gang"}},
        "spec": {"minMember": 2, "queue": "team"},
    }
    template = job("gang", 4)["spec"]["template"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "gang"}, "annotations": {"pod-group-name": "gang"}},
            "spec": template["spec"],
        }
        for name in ("gang-0", "gang-1")
    ]
    lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    steps = (
        {"apply": [queue("team", "", 8, -1, 1)]},
        {"apply": [group, *pods]},
        {"advance": 5},
        {"patch": {"kind": "Node", "name": "a100-0", "subresource": "status", "patch": lost}},
        {"delete": {"kind": "Pod", "name": "gang-0"}},
        {"delete": {"kind": "Pod", "name": "gang-1"}},
    )
    situation, work = Situation("lost", FLEET, steps), AppliedWorkload("PodGroup", "gang")
    with situation.opened() as lab:
        change = removal.cause_removal(situation, lab, work, CauseCode.GANG_INCOMPLETE)
        assert change is not None
        with lab.fork() as trial:
            carry_out_steps(trial, change.steps)
            assert [pod["metadata"]["name"] for pod in work.pods(trial)] == ["gang-0-anew", "gang-1"]
            assert not work.runs(lab)
