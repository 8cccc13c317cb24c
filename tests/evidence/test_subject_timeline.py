"""What happened to a subject, from the evidence of a test alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.history import LabHistory
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.evidence.subject_timeline import subject_timeline
from kailab.explain.evidence_answers import explain_evidence
from kailab.lab import Lab
from kailab.lab.answer import CauseCode, Verdict


def queue(name: str, quota: int) -> dict:
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    amounts = {"gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1}, "cpu": free, "memory": free}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": amounts},
    }


def template(app: str, queue: str, gpus: int = 1, seconds: int = 0, **spec: object) -> dict:
    notes = {"kailab.dev/run-seconds": str(seconds)} if seconds else {}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    labels = {"app": app, "kai.scheduler/queue": queue, "priorityClassName": "train"}
    return {
        "metadata": {"labels": labels, "annotations": notes},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container], **spec},
    }


def lived(root: Path, seconds: float) -> LabHistory:
    """A Deployment borrows all 32 GPUs; the owner of half of them comes with a Job that ends after 100 seconds."""
    recorder = Recorder()
    borrower = {"selector": {"matchLabels": {"app": "borrower"}}, "replicas": 32, "template": template("borrower", "a")}
    job = template("owner", "b", 8, 100, restartPolicy="Never")
    with Lab.open("lesson", observers=[recorder]) as lab:
        lab.apply([queue("a", 16), queue("b", 16)])
        lab.apply([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "borrower"}, "spec": borrower}])
        lab.settle()
        lab.advance(10)
        lab.apply([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "owner"}, "spec": {"template": job}}])
        lab.settle()
        lab.advance(seconds)
    run = RunFolder.begin(root)
    run.write("a", "test_one", lambda folder: write_test(folder, "a/test_one", [recorder], "passed"))
    run.finish()
    test, lab = store.find_lab(root, "a/test_one")
    return test.history(lab)


@pytest.fixture
def reclaimed(tmp_path: Path) -> LabHistory:
    """To the end of the Job, and beyond."""
    return lived(tmp_path, 200)


@pytest.fixture
def taken(tmp_path: Path) -> LabHistory:
    """To some moment at which the Job runs."""
    return lived(tmp_path, 20)


def test_a_workload_is_told_from_creation_to_eviction_and_for_whom(reclaimed: LabHistory) -> None:
    told = subject_timeline(reclaimed, "Deployment", "borrower")
    what = [one.what for one in told.happenings]
    assert what[:2] == ["created", "bound"]
    assert [len(one.pods) for one in told.happenings[:2]] == [32, 32]
    (evicted,) = [one for one in told.happenings if one.what == "evicted"]
    assert len(evicted.pods) == 8
    for said in ("by reclaim", "for Job default/owner of queue b", "a held 32 GPU", "beyond its fair share of 24"):
        assert said in evicted.text
    assert evicted.decision["decision"] == "evict"
    waits = [one for one in told.happenings if one.what == "waits"]
    assert waits[0].t >= evicted.t
    assert [one.t for one in told.happenings] == sorted(one.t for one in told.happenings)


def test_a_name_of_digits_is_told_without_the_quotes_of_yaml(tmp_path: Path) -> None:
    recorder = Recorder()
    with Lab.open("lesson", observers=[recorder]) as lab:
        pod = template("digits", "a", restartPolicy="Never")
        lab.apply([queue("a", 16)])
        lab.apply([{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "123"}, "spec": {"template": pod}}])
        lab.settle()
    run = RunFolder.begin(tmp_path)
    run.write("a", "test_one", lambda folder: write_test(folder, "a/test_one", [recorder], "passed"))
    run.finish()
    test, recorded = store.find_lab(tmp_path, "a/test_one")
    (past,) = test.history(recorded).pods.values()
    assert (past.owners, past.workload) == (["Job/123"], "Job default/123")


def test_what_ended_has_its_end(reclaimed: LabHistory) -> None:
    told = subject_timeline(reclaimed, "Job", "owner")
    ends = [one for one in told.happenings if one.what == "ended"]
    bound = next(one for one in told.happenings if one.what == "bound")
    assert [one.text.endswith("ended (Succeeded)") for one in ends] == [True]
    assert 100 <= ends[0].t - bound.t <= 103


def test_a_pod_a_podgroup_and_a_queue_can_be_asked_about(reclaimed: LabHistory) -> None:
    history = reclaimed
    gone = next(iter(entry for entry in history.decisions if entry.__struct_config__.tag == "evict"))
    pod = subject_timeline(history, "Pod", gone.pod.partition("/")[2])
    assert [one.what for one in pod.happenings] == ["created", "bound", "evicted", "gone"]
    group = subject_timeline(history, "PodGroup", gone.podgroup.partition("/")[2])
    assert [one.text for one in group.happenings] == [one.text for one in pod.happenings]
    assert {name for one in subject_timeline(history, "Queue", "b").happenings for name in one.pods} == {
        name for one in subject_timeline(history, "Job", "owner").happenings for name in one.pods
    }
    assert len(subject_timeline(history).happenings) > len(subject_timeline(history, "Job", "owner").happenings)


def test_what_there_never_was_is_refused_with_what_there_is(reclaimed: LabHistory) -> None:
    with pytest.raises(InputError, match="no Deployment 'lender' with pods in this history; there are: borrower"):
        subject_timeline(reclaimed, "Deployment", "lender")
    with pytest.raises(InputError, match="no queue 'c' in this history; there are: a, b"):
        subject_timeline(reclaimed, "Queue", "c")


def test_why_pods_were_evicted_is_explained_to_someone_who_was_not_there(taken: LabHistory) -> None:
    answer = explain_evidence(taken, "Deployment", "borrower")
    assert (answer.verdict, answer.cause and answer.cause.code) == (Verdict.GONE, CauseCode.EVICTED)
    assert answer.cause is not None
    for said in (
        "8 pods of it",
        "by reclaim for Job default/owner of queue b",
        "a held 32 GPU",
        "fair share of 24 GPU",
    ):
        assert said in answer.cause.sentence
    assert "24 of 32 pods running, 8 wait, 8 evicted before" in answer.head
    assert len(answer.notes) == 1
    assert answer.scheduler_reason.startswith("PodSchedulingErrors: ")
    owner = explain_evidence(taken, "Job", "owner")
    assert (owner.verdict, owner.cause, owner.steps) == (Verdict.RUNNING, None, ())
    gone = explain_evidence(taken, "Pod", answer.facts["evictions"][0]["pod"].partition("/")[2])
    assert gone.verdict == Verdict.GONE
    assert any("evicted from" in line for line in gone.details)
    with pytest.raises(InputError, match="there are: borrower"):
        explain_evidence(taken, "Deployment", "lender")


def test_what_is_whole_again_runs_and_its_evictions_are_told(reclaimed: LabHistory) -> None:
    answer = explain_evidence(reclaimed, "Deployment", "borrower")
    assert (answer.verdict, answer.cause, answer.scheduler_reason) == (Verdict.RUNNING, None, "")
    assert [line.endswith("8 pods by reclaim for Job default/owner.") for line in answer.notes] == [True]


def test_a_name_in_another_namespace_is_told_with_its_namespace(reclaimed: LabHistory) -> None:
    with pytest.raises(InputError, match="there are in other namespaces: default/borrower"):
        subject_timeline(reclaimed, "Deployment", "borrower", "elsewhere")
