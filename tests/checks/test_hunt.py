"""The hunt: its samples, its differences, chance, and what it refuses. tests/extensions/test_planted_fault.py checks
that it finds a planted fault.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from checks.cli import app
from checks.fuzzing.walk_objects import queue
from checks.hunting.bench import SchedulerBench
from checks.hunting.judging import Judge
from checks.hunting.outcomes import DEFAULT_KINDS
from checks.hunting.random_sample import seeded
from checks.hunting.sample import HuntSample
from checks.hunting.shrinking import shrink
from checks.hunting.team_sample import seeded_in
from kailab.components import ComponentSet
from kailab.components.pins import PROGRAMS
from kailab.lab import Lab
from kailab.model.objects import Object


def one_gpu(pods: int = 1) -> Object:
    pool = {"name": "n", "count": 1, "gpus": pods, "gpuModel": "A100", "cpu": 64, "memory": "512Gi"}
    return {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "one", "pools": [pool]}


def pod(name: str, queue: str) -> Object:
    resources = {"limits": {"nvidia.com/gpu": 1}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, "kai.scheduler/queue": queue}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "image": "pause", "resources": resources}],
        },
    }


def sample(*steps: list[Object]) -> HuntSample:
    return HuntSample("by-hand", 0, one_gpu(), tuple({"apply": step} for step in steps))


def teams(*names: str) -> list[Object]:
    return [queue(name, "", 1, -1, 1) for name in names]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Of kube-scheduler, which knows no queues: first come, first served."""
    bench = SchedulerBench("embedded", {}, print)
    return Judge("kube-scheduler", "kube-scheduler", bench, bench, DEFAULT_KINDS, 2, tmp_path)


def test_a_seed_gives_the_same_scenario_each_time(tmp_path: Path) -> None:
    for seed in range(12):
        drawn = seeded(seed)
        assert drawn == seeded(seed)
        read = drawn.written(tmp_path)
        assert read.name == f"seed-{seed}"
        assert len(read.steps) == len(drawn.steps) > 3


def test_which_of_two_equals_came_first_is_chance(judge: Judge) -> None:
    """Both pods of one step have one age, and so have both queues: a real cluster orders them by random uids."""
    judged = judge.judge(sample(teams("a", "b"), [pod("of-b", "b"), pod("of-a", "a")]))
    assert judged.verdict == "chance"
    assert judged.why == "kailab decides so too with the objects of each step in reverse"


def test_who_knows_no_limit_differs_and_by_no_chance(judge: Judge) -> None:
    none = queue("none", "", 0, 0, 1)
    judged = judge.judge(sample(teams("a"), [none], [pod("held", "none")]))
    assert judged.verdict == "differs"
    assert [str(one) for one in judged.differences] == [
        "outcome: held after step 3: 0 running -> 1 running",
        "queues: none after step 3: 0 GPUs -> 1 GPU",
    ]


def test_what_could_not_be_carried_out_is_no_difference(judge: Judge) -> None:
    judged = judge.judge(sample(teams("a"), [{**pod("bad", "a"), "spec": {"containers": "none"}}]))
    assert judged.verdict == "error"
    assert judged.why.startswith("kailab: step 2: stopped: Pod/bad")
    assert judged.differences == ()


def test_what_has_no_part_in_a_difference_is_cut_away(judge: Judge) -> None:
    none = queue("none", "", 0, 0, 1)
    large = sample(teams("a", "b"), [none], [pod("one", "a")], [pod("held", "none")], [pod("late", "b")])
    large = HuntSample(large.name, 0, one_gpu(4), large.steps)
    small = shrink(large, judge.judge(large).differences, judge.differs, 60)
    assert [one["metadata"]["name"] for one in small.objects()] == ["none", "held"]


def test_it_stops_cutting_after_so_many_tries(judge: Judge) -> None:
    none = queue("none", "", 0, 0, 1)
    large = sample(teams("a", "b"), [none], [pod("held", "none")])
    asked: list[HuntSample] = []

    def differs(smaller: HuntSample) -> list[Any]:
        asked.append(smaller)
        return []

    assert shrink(large, judge.judge(large).differences, differs, 2) == large
    assert len(asked) == 2


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["hunt", "--isolation", "embedded", "--hunts", str(home / "hunts"), *arguments])


@pytest.fixture
def same(tmp_path: Path) -> str:
    """kailab by another name, which decides as kailab does."""
    (tmp_path / "kai.yaml").write_text('actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"\n')
    (tmp_path / "names.yaml").write_text("twin: {kind: kailab, config: kai.yaml}\n")
    return f"twin@{tmp_path / 'names.yaml'}"


def test_where_all_is_the_same_it_finds_nothing(tmp_path: Path, same: str) -> None:
    done = run(tmp_path, "--against", same, "--clusters", "2", "--seed", "7")
    assert (done.exit_code, done.stdout) == (0, "2 clusters, kailab and twin on embedded: 2 same, 0 differs\n"), done
    assert not (tmp_path / "hunts/twin-embedded/found").exists()
    # More of it goes on where that ended.
    more = run(tmp_path, "--against", same, "--clusters", "3", "--seed", "7")
    assert "3 clusters" in more.stdout
    other = run(tmp_path, "--against", same, "--clusters", "3", "--again", "5")
    assert other.exit_code == 2
    assert "the hunt kept there can't go on: it has another again (2); expected another --name" in other.stderr


@pytest.mark.slow
def test_a_control_plane_that_does_not_come_up_is_counted_and_passed_over(
    tmp_path: Path, components: ComponentSet
) -> None:
    """Its store ends at its first start; a store that never starts ends the hunt after three clusters."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(components.path(name))
    (programs / "etcd").unlink()
    (programs / "etcd").write_text(
        f"#!/bin/sh\ncase $1 in --version) exec {components.path('etcd')} --version;; esac\n"
        f"[ -e {tmp_path}/always ] && exit 7\n"
        f'[ -e {tmp_path}/once ] && exec {components.path("etcd")} "$@"\n'
        f"touch {tmp_path}/once\nexit 7\n"
    )
    (programs / "etcd").chmod(0o755)
    where = ("--isolation", "controlplane", "--components", str(programs), "--compare", "lowest")
    done = run(tmp_path, "--against", "kube-scheduler", *where, "--clusters", "2", "--again", "0", "--tries", "0")
    assert "seed 0 is not decided: etcd does not run: it ended with exit code 7" in done.stderr
    assert (done.exit_code, done.stdout.splitlines()[0].endswith("1 error")) == (1, True), done.output
    assert "2 clusters, kailab and kube-scheduler on controlplane" in done.stdout
    (tmp_path / "always").touch()
    ends = run(tmp_path, "--against", "kube-scheduler", *where, "--clusters", "9", "--seed", "20", "--name", "ends")
    assert ends.exit_code == 2
    assert "3 clusters in a row could not be decided; the last: etcd does not run" in ends.stderr
    assert len(list((tmp_path / "hunts/ends/clusters").glob("*.json"))) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--against", "kailab"), "kailab can't be compared with itself"),
        (("--against", "nobody"), "nobody"),
        (("--against", "kube-scheduler", "--compare", "colour"), "there is no kind of difference 'colour'"),
        (("--against", "kube-scheduler", "--clusters", "3", "--for", "1m"), "--clusters and --for"),
        (("--against", "kube-scheduler", "--for", "soon"), "'soon' is not a duration"),
        (("--against", "kai=/nowhere"), "a real KAI needs a real API server"),
        (("--against", "kube-scheduler", "--nodes", "16-24"), "--nodes: small clusters have one to four"),
        (("--against", "kube-scheduler", "--area", "topology", "--nodes", "24-16"), "--nodes 24-16: expected a number"),
    ],
)
def test_bad_input_is_told_before_anything_is_written(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert not (tmp_path / "hunts").exists()


@pytest.mark.parametrize("area", ["gpu-memory", "topology", "elastic-subgroups"])
def test_a_seed_of_an_area_gives_a_cluster_with_work_for_it(area: str, tmp_path: Path) -> None:
    drawn = seeded_in(area, 1)
    assert drawn == seeded_in(area, 1) != seeded_in(area, 2)
    scenario = drawn.written(tmp_path)
    assert len(scenario.steps) > 3
    with Lab.open(tmp_path / "fleet.yaml") as lab:
        for step in drawn.steps:
            lab.apply(step["apply"])
        lab.settle()
        assert [pod for pod in lab.get("pods") if pod["status"].get("phase") == "Running"]


def test_an_unknown_area_of_a_hunt_is_refused(tmp_path: Path) -> None:
    arguments = [
        "hunt",
        "--against",
        "kube-scheduler",
        "--isolation",
        "embedded",
        "--area",
        "nowhere",
        "--hunts",
        str(tmp_path),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--area: there is no area 'nowhere' of hunts; expected one of: cpu-quota" in result.output
    assert not list(tmp_path.iterdir())
