"""What happened to a subject, from the evidence of a test alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.evidence import store
from kailab.evidence.history import History
from kailab.evidence.record import write_test
from kailab.evidence.recorder import Recorder
from kailab.evidence.run import RunFolder
from kailab.evidence.story import story
from kailab.lab import Lab


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


@pytest.fixture
def reclaimed(tmp_path: Path) -> tuple[History, Path]:
    """A Deployment borrows all 32 GPUs; the owner of half of them comes with a Job that ends."""
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
        lab.advance(200)
    run = RunFolder.begin(tmp_path)
    run.write("a", "test_one", lambda folder: write_test(folder, "a/test_one", [recorder], "passed"))
    run.finish()
    return History.of_test(*store.find_lab(tmp_path, "a/test_one")), tmp_path


def test_a_workload_is_told_from_creation_to_eviction_and_for_whom(reclaimed) -> None:
    told = story(reclaimed[0], "Deployment", "borrower")
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


def test_what_ended_has_its_end(reclaimed) -> None:
    told = story(reclaimed[0], "Job", "owner")
    ends = [one for one in told.happenings if one.what == "ended"]
    bound = next(one for one in told.happenings if one.what == "bound")
    assert [one.text.endswith("ended (Succeeded)") for one in ends] == [True]
    assert 100 <= ends[0].t - bound.t <= 103


def test_a_pod_a_podgroup_and_a_queue_can_be_asked_about(reclaimed) -> None:
    history = reclaimed[0]
    gone = next(iter(entry for entry in history.decisions if entry.__struct_config__.tag == "evict"))
    pod = story(history, "Pod", gone.pod.partition("/")[2])
    assert [one.what for one in pod.happenings] == ["created", "bound", "evicted", "gone"]
    group = story(history, "PodGroup", gone.podgroup.partition("/")[2])
    assert [one.text for one in group.happenings] == [one.text for one in pod.happenings]
    assert {name for one in story(history, "Queue", "b").happenings for name in one.pods} == {
        name for one in story(history, "Job", "owner").happenings for name in one.pods
    }
    assert len(story(history).happenings) > len(story(history, "Job", "owner").happenings)


def test_what_there_never_was_is_refused_with_what_there_is(reclaimed) -> None:
    with pytest.raises(InputError, match="no Deployment 'lender' with pods in this history; there are: borrower"):
        story(reclaimed[0], "Deployment", "lender")
    with pytest.raises(InputError, match="no queue 'c' in this history; there are: a, b"):
        story(reclaimed[0], "Queue", "c")
