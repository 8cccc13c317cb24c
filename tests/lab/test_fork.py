"""Forks of labs: the same lab, in which anything can be tried, with the original untouched."""

from __future__ import annotations

import random

import pytest

from checks.fuzzing.walk import Walk, steps_of
from kailab.errors import StateError
from kailab.lab import Lab

CONFIG = {"tiers": [{"plugins": [{"name": "proportion", "arguments": {"kValue": "1.0"}}]}]}


def all_of(lab):
    """Everything there is to know of an embedded lab's cluster."""
    return lab.cluster.dump()


def walked(seed: int, steps: int, every: int) -> None:
    """Fork a lab on a random walk again and again; at each fork let both go on alone, and compare them byte for byte."""
    walk, chance = Walk(seed), random.Random(seed)
    try:
        for number, step in enumerate(steps_of(seed, steps), start=1):
            walk.take(step)
            if number % every:
                continue
            if chance.random() < 0.5:  # fork it before it has settled, too
                walk.lab.advance(chance.choice((1, 7, 60, 600)))
            before = all_of(walk.lab)
            with walk.lab.fork() as fork:
                assert all_of(fork) == before
                seconds = chance.choice((1, 30, 400, 4000))
                fork.settle()
                fork.advance(seconds)
                assert all_of(walk.lab) == before
                walk.lab.settle()
                walk.lab.advance(seconds)
                assert all_of(fork) == all_of(walk.lab)
                assert fork.log.last == walk.lab.log.last
                assert fork.log.evictions == walk.lab.log.evictions
    finally:
        walk.close()


@pytest.mark.parametrize("seed", range(2))
def test_a_fork_to_which_nothing_is_done_goes_on_as_the_lab(seed):
    walked(seed, steps=12, every=6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 20))
def test_a_fork_goes_on_as_the_lab_wherever_it_is_taken(seed):
    walked(seed, steps=40, every=5)


@pytest.fixture
def crowded(queue, job):
    """Two queues have half of the lesson's GPUs each; one took them all, and the other reclaimed some for a gang."""
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16), queue("b", 16), job("first", "b", 32)])
        lab.settle()
        lab.apply([job("second", "a", 12, gang=True)])
        lab.settle()
        yield lab


def test_what_happens_in_a_fork_stays_there(crowded, queue, job):
    before, picture = all_of(crowded), crowded.picture().rows
    with crowded.fork() as fork:
        fork.delete("Job", "first")
        fork.apply([queue("c", 4), job("third", "c", 4)])
        fork.patch("Node", "a100-0", {"spec": {"unschedulable": True}})
        fork.settle()
        fork.advance(3600)
        assert {row.app for row in fork.picture().rows if row.phase == "Running"} == {"second", "third"}
    assert all_of(crowded) == before
    assert crowded.picture().rows == picture
    crowded.settle()
    assert all_of(crowded) == before


@pytest.mark.parametrize(
    "news",
    [
        lambda lab, job: lab.delete("Job", "first"),
        lambda lab, job: lab.apply([job("third", "a", 1)]),
        lambda lab, job: lab.patch("PodGroup", lab.get("PodGroup")[0]["metadata"]["name"], {"spec": {"queue": "a"}}),
        lambda lab, job: lab.patch("Node", "a100-0", {"spec": {"unschedulable": True}}),
        lambda lab, job: lab.advance(3600),
    ],
)
def test_a_picture_like_another_shows_what_there_is(crowded, job, news):
    before = crowded.picture()
    with crowded.fork() as fork:
        assert fork.picture(before).rows == before.rows
        news(fork, job)
        fork.settle()
        assert fork.picture(before).rows == fork.picture().rows


def test_a_fork_may_be_made_without_some_of_the_objects(crowded):
    first = crowded.get("Job", "first")
    by_both = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": crowded.get("Job", name)["metadata"]["uid"]}
        for name in ("first", "second")
    ]
    for name, owners in (("of-first", by_both[:1]), ("of-both", by_both)):
        crowded.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
    with crowded.fork(without=[("Job", ("default", "first"))]) as without:
        without.settle()
        assert {row.app for row in without.picture().rows} == {"second"}
        left = {
            (kind, obj["metadata"]["name"]) for kind in without.cluster.kinds() for obj in without.cluster.list(kind)
        }
        assert ("ConfigMap", "of-both") in left
        assert ("ConfigMap", "of-first") not in left
        assert not [name for kind, name in left if kind == "PodGroup" and first["metadata"]["uid"] in name]
        # What is left goes with the owner that is left.
        without.delete("Job", "second")
        without.settle()
        assert [obj["metadata"]["name"] for obj in without.cluster.list("ConfigMap")] == []
    assert {row.app for row in crowded.picture().rows} == {"first", "second"}


def test_forks_of_forks_know_nothing_of_each_other(crowded, job):
    with crowded.fork() as one, one.fork() as two:
        two.delete("Job", "first")
        two.settle()
        one.apply([job("third", "a", 1)])
        one.settle()
        assert not two.get("Job", namespace=None) or {j["metadata"]["name"] for j in two.get("Job")} == {"second"}
        assert {j["metadata"]["name"] for j in one.get("Job")} == {"first", "second", "third"}


def test_a_fork_of_a_lab_from_its_file_is_that_lab(crowded, tmp_path):
    file = tmp_path / "lab.state"
    crowded.save(file)
    saved = file.read_bytes()
    outcomes = []
    for read_only in (False, True):
        with Lab.resume(file, read_only=read_only) as lab, lab.fork() as fork:
            fork.delete("Job", "first")
            fork.settle()
            fork.advance(60)
            outcomes.append(all_of(fork))
            if read_only:
                with pytest.raises(StateError, match="open read-only"):
                    lab.delete("Job", "first")
    assert outcomes[0] == outcomes[1]
    assert file.read_bytes() == saved


def test_a_fork_has_the_settings_of_the_lab(queue, job):
    with Lab.open("lesson", config=CONFIG, adopt_default_scheduler=True) as lab:
        lab.apply([queue("a", 0), queue("b", 0), job("first", "a", 8)])
        lab.settle()
        lab.advance(600)
        with lab.fork() as fork:
            assert (fork.config, fork.usage, fork.adopt_default_scheduler) == (lab.config, lab.usage, True)
            assert fork.now == lab.now
            assert fork.explain_queue("a").lines(everything=True) == lab.explain_queue("a").lines(everything=True)
            for one in (fork, lab):
                one.apply([job("second", "b", 32)])
                one.settle()
                one.advance(300)
            assert all_of(fork) == all_of(lab)


def test_the_baseline_is_forked_too(job):
    with Lab.open("lesson", scheduler="kube-scheduler") as lab:
        lab.apply([job("first", "a", 40)])
        lab.settle()
        with lab.fork() as fork:
            assert fork.scheduler == "kube-scheduler"
            fork.delete("Job", "first")
            fork.apply([job("second", "a", 3)])
            fork.settle()
            assert {row.app for row in fork.picture().rows if row.phase == "Running"} == {"second"}
        assert {row.app for row in lab.picture().rows} == {"first"}


def test_refused_binds_stay_refused_in_forks(queue, job):
    with Lab.open("lesson") as lab:
        lab.cluster.refuse_binds("default", "shut-", "the webhook says no")
        lab.apply([queue("a", 32), job("shut", "a", 2), job("open", "a", 2)])
        lab.settle()
        assert {row.app for row in lab.picture().rows if row.phase == "Running"} == {"open"}
        with lab.fork() as fork, fork.fork() as again:
            for one in (fork, again):
                one.delete("Job", "open")
                one.settle()
                one.advance(600)
                assert {(row.app, row.phase) for row in one.picture().rows} == {("shut", "Pending")}
        before = all_of(lab)
        with lab.fork() as fork:  # in the middle of the pause after a try
            fork.settle()
            fork.advance(100)
            lab.settle()
            lab.advance(100)
            assert all_of(fork) == all_of(lab) != before


def test_a_fork_names_who_is_gone(crowded):
    crowded.delete("Job", "first")
    assert crowded.log.evictions
    with crowded.fork() as fork:
        assert fork.log.evictions == crowded.log.evictions
        assert {name.name for name in fork.log.names.everyone()} >= {one.pod for one in crowded.log.evictions}
