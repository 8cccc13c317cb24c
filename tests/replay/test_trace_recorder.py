"""A trace recorded from a lab is read back as the jobs that ran in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.lab import Lab
from kailab.model.labels import QUEUE
from kailab.replay import tables
from kailab.replay.job import TraceJob
from kailab.replay.manifests import job_object, pods_of
from kailab.replay.trace import read_trace
from kailab.replay.trace_recorder import COLUMNS, TraceRecorder
from tests.replay.conftest import QUEUE as QUEUE_MANIFEST

JOBS = [
    TraceJob(name="gang", arrival=0, seconds=600, gpus=8),
    TraceJob(name="share", arrival=10, seconds=120, gpus=1, share=250, cpu_millis=500, memory_mib=1024),
    TraceJob(name="waits", arrival=20, seconds=60, gpus=4, models=("A100", "H100")),
    TraceJob(name="light", arrival=30, seconds=30, gpus=0),
    TraceJob(name="unended", arrival=40, seconds=100_000, gpus=1),
]


@pytest.fixture
def lab(two_nodes):
    with Lab.open(two_nodes) as lab:
        lab.apply(QUEUE_MANIFEST.format(name="blue", quota=-1))
        lab.settle()
        yield lab


def played(lab: Lab, jobs: list[TraceJob], look) -> float:
    """Apply each when it is due, and let time pass; ``look`` after each step. Given: when the first was applied."""
    zero = lab.now
    for job in sorted(jobs, key=lambda job: job.arrival):
        if (wait := zero + job.arrival - lab.now) > 0:
            lab.advance(wait)
        lab.cluster.create(job_object(job.name, job, "blue", pods_of(job, 4), endless=False))
        lab.settle()
        look()
    for _ in range(15):
        lab.advance(60)
        look()
    return zero


def written(recorder: TraceRecorder, path: Path) -> dict[str, TraceJob]:
    tables.write_table_file(path, COLUMNS, recorder.recorded().rows)
    return {job.name: job for job in read_trace(path).jobs}


@pytest.mark.parametrize("by_watch", [True, False])
def test_what_a_lab_ran_is_read_back_as_it_was(lab, tmp_path, by_watch) -> None:
    recorder = TraceRecorder()
    watch = lab.cluster.watch(("Pod",))

    def look() -> None:
        if by_watch:
            recorder.follow(watch.poll(), lab.now)
        else:
            recorder.observe(lab.cluster.list("Pod"), lab.now)

    played(lab, JOBS, look)
    found = written(recorder, tmp_path / "trace.csv")
    assert recorder.recorded().unfinished == 1
    assert set(found) == {f"default/{job.name}" for job in JOBS} - {"default/unended"}
    first = found["default/gang"].arrival
    for job in JOBS[:4]:
        read = found[f"default/{job.name}"]
        assert abs(read.arrival - first - job.arrival) <= 2
        assert abs(read.seconds - job.seconds) <= 1
        assert (read.gpus, read.share, read.models, read.team) == (job.gpus, job.share, job.models, "blue")
        assert (read.cpu_millis, read.memory_mib) == (job.cpu_millis, job.memory_mib)
        assert read.pods == pods_of(job, 4)


def test_what_was_cut_short_and_done_again_counts_once(lab, tmp_path) -> None:
    recorder = TraceRecorder()
    watch = lab.cluster.watch(("Pod",))
    job = TraceJob(name="again", arrival=0, seconds=300, gpus=2)
    lab.cluster.create(job_object(job.name, job, "blue", 1, endless=False))
    lab.settle()
    lab.advance(200)
    [pod] = lab.cluster.list("Pod")
    lab.cluster.delete("Pod", pod["metadata"]["name"], "default")
    lab.settle()
    lab.advance(600)
    recorder.follow(watch.poll(), lab.now)
    read = written(recorder, tmp_path / "trace.csv")["default/again"]
    assert (read.seconds, read.gpus, read.pods) == (300, 2, 1)


@pytest.mark.parametrize("seconds", [60, 0.2])
def test_a_gang_that_ended_before_the_first_look_has_all_of_its_gpus(lab, tmp_path, seconds) -> None:
    gang = job_object("gang", TraceJob(name="gang", arrival=0, seconds=60, gpus=6), "blue", 3, endless=False)
    gang["spec"]["template"]["metadata"]["annotations"]["kailab.dev/run-seconds"] = str(seconds)
    # One pod after the other holds no more than one pod does.
    row = job_object("row", TraceJob(name="row", arrival=0, seconds=60, gpus=6), "blue", 3, endless=False)
    row["spec"]["parallelism"] = 1
    row["metadata"].get("annotations", {}).pop("kai.scheduler/batch-min-member", None)
    lab.apply([gang, row])
    lab.settle()
    lab.advance(400)
    recorder = TraceRecorder()
    recorder.observe(lab.cluster.list("Pod"), lab.now)
    found = written(recorder, tmp_path / "trace.csv")
    assert (found["default/gang"].gpus, found["default/gang"].pods) == (6, 3)
    assert (found["default/row"].gpus, found["default/row"].pods) == (2, 1)


def test_what_the_form_has_no_column_for_is_left_out_and_told(lab) -> None:
    recorder = TraceRecorder()
    job = job_object("memory", TraceJob(name="memory", arrival=0, seconds=60, gpus=0), "blue", 1, endless=False)
    job["spec"]["template"]["metadata"]["annotations"]["gpu-memory"] = "2000"
    lab.apply([job])
    lab.settle()
    lab.advance(100)
    recorder.observe(lab.cluster.list("Pod"), lab.now)
    told = recorder.recorded()
    assert not told.rows
    assert list(told.left_out.values()) == [1]


def test_pods_without_an_owner_are_jobs_of_their_own_and_say_whose_they_are(lab) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "one",
            "labels": {QUEUE: "blue", "user": "eve"},
            "annotations": {"kailab.dev/run-seconds": "40"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "m", "image": "m", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    lab.apply([pod])
    lab.settle()
    lab.advance(100)
    recorder = TraceRecorder()
    recorder.observe(lab.cluster.list("Pod"), lab.now)
    [row] = recorder.recorded().rows
    assert dict(zip(COLUMNS, row, strict=True)) | {"submit": 0} == {
        "name": "default/one", "submit": 0, "seconds": 40, "gpus": 1, "share": "1", "pods": 1, "cpu": "0", "memory_mib": 0,
        "models": "", "team": "blue", "priority": "", "user": "eve", "mig": "",
    }  # fmt: skip
