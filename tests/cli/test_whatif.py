"""``whatif`` and ``simulate`` on the command line: the lab's file stays as it is."""

from __future__ import annotations

import json
import re

import pytest

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {{kai.scheduler/queue: team-a}}, annotations: {{kai.scheduler/batch-min-member: "{pods}"}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    metadata: {{labels: {{app: {name}, kai.scheduler/queue: team-a}}}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{{name: c, image: i, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""


@pytest.fixture
def jobs(home):
    """Files of Jobs: ``jobs(4)`` is the name of one."""

    def write(pods: int) -> str:
        file = home / f"job-{pods}.yaml"
        file.write_text(JOB.format(name=f"new-{pods}", pods=pods))
        return file.name

    return write


def test_a_limit_raised_lets_more_run_and_the_file_stays(busy, state) -> None:
    saved = state.read_bytes()
    done = busy("whatif", "--set", "queue/team-a.gpu.limit=20")
    assert done.code == 0
    assert "pods: 4 more run; 1 workload changed, 0 as before" in done.out
    row = next(line for line in done.out.splitlines() if "Job/train" in line)
    assert row.split("   ") == ["team-a", "Job/train", "16 run, 4 wait", "20 run"]
    assert state.read_bytes() == saved


def test_two_alternatives_stand_side_by_side(busy, state) -> None:
    saved = state.read_bytes()
    done = busy(
        "whatif", "--set", "queue/team-a.gpu.limit=18", "--for", "1h", "--or", "--drain", "a100-0", "--delete", "job/train",
        "-o", "json",
    )  # fmt: skip
    data = json.loads(done.out)
    assert data["seconds"] == 3600
    assert [one["title"] for one in data["alternatives"]] == [
        "--set queue/team-a.gpu.limit=18", "--delete job/train --drain a100-0",
    ]  # fmt: skip
    first, second = (one["workloads"][0] for one in data["alternatives"])
    assert (first["before"]["running"], first["after"]["running"]) == (16, 18)
    assert second["before"]["running"] == 16
    assert second["after"] is None or second["after"]["running"] == 0
    shown = busy("whatif", "--set", "queue/team-a.gpu.limit=18", "--or", "--set", "queue/team-a.gpu.limit=8").out
    assert "CHANGED 1   " in shown
    assert "  2: --set queue/team-a.gpu.limit=8: " in shown
    assert state.read_bytes() == saved


def test_time_alone_and_all_of_it(busy) -> None:
    done = busy("whatif", "--for", "10m", "--all")
    assert "After 10m of lab time" in done.out
    assert "time passes: no workload and no queue changes" in done.out
    assert "16 run, 4 wait" in done.out


def test_an_object_that_is_deleted_and_applied_is_replaced(busy, home) -> None:
    """As a step of explain says it: delete the Job, and apply it with the change of a field that never changes."""
    (home / "again.yaml").write_text(JOB.format(name="train", pods=2))
    done = busy("whatif", "--delete", "job/train", "-f", "again.yaml", "-o", "json")
    assert done.code == 0
    (alternative,) = json.loads(done.out)["alternatives"]
    train = {one["name"]: one for one in alternative["workloads"]}["train"]
    assert train["after"]["running"] == 2


def test_manifests_and_configurations_are_tried(busy, home, jobs) -> None:
    (home / "config.yaml").write_text("actions: allocate\n")
    done = busy("whatif", "-f", jobs(2), "--config", "config.yaml", "--add-nodes", "a100:1", "-o", "json")
    data = json.loads(done.out)
    (alternative,) = data["alternatives"]
    assert "--config config.yaml" in alternative["title"]
    assert {one["name"]: one["what"] for one in alternative["workloads"]}["new-2"][0] == "new"


def test_a_quota_above_the_limit_is_told(busy) -> None:
    done = busy("whatif", "--set", "queue/team-a.gpu.quota=40")
    assert done.code == 0
    assert "Queue/team-a: spec.resources.gpu.quota: is more than the limit of 16" in done.err
    assert "limit" not in busy("whatif", "--set", "queue/team-a.gpu.quota=10").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "there is no change; expected one of --set, -f"),
        (("--for", "soon"), "--for: "),
        (("--set", "queue/team-a.gpu.limit=x"), "--set: 'queue/team-a.gpu.limit=x': gpu.limit is a number"),
        (("--drain", "n-0"), "--drain: "),
        (("--add-nodes", "a100"), "--add-nodes: 'a100': expected POOL:COUNT"),
        (("--without", "app=no"), "--without: 'app=no': no pod has these labels"),
        (("--delete", "job"), "--delete: 'job': expected KIND/NAME"),
        (("--delete", "job/no"), "--delete: 'job/no': "),
        (("-f", "no.yaml"), "no.yaml"),
        (("--config", "no.yaml"), "no.yaml"),
        (("--drain", "a100-0", "--or"), "there is no change in alternative 2"),
        (("--drain", "a100-0", "--or", "--for", "1h"), "there is no change in alternative 2"),
        (("-f", "-", "--or", "-f", "-"), "stdin (-f -) can be read only once"),
    ],
)
def test_bad_input_is_refused(busy, state, words, told) -> None:
    saved = state.read_bytes()
    done = busy("whatif", *words)
    assert done.code == 2
    assert told in done.err
    assert done.out == ""
    assert state.read_bytes() == saved


def test_a_mistake_in_a_manifest_is_told_with_its_line(busy, home) -> None:
    (home / "bad.yaml").write_text(JOB.format(name="bad", pods=2).replace("parallelism: 2", "parallelism: two"))
    for command in ("whatif", "simulate"):
        done = busy(command, "-f", "bad.yaml")
        assert done.code == 2
        assert "bad.yaml:6" in done.err
        assert "parallelism" in done.err


def test_simulate_says_whether_work_runs_and_ends_so(busy, state, jobs) -> None:
    saved = state.read_bytes()
    never = busy("simulate", "-f", jobs(64))
    assert never.code == 1
    assert "Job/new-64: never runs" in never.out
    waits = busy("simulate", "-f", jobs(4), "--for", "1h", "-o", "json")
    assert waits.code == 1
    data = json.loads(waits.out)
    assert data["verdict"] == "waits"
    assert data["workloads"][0].keys() >= {"cause", "steps", "seconds", "pods"}
    assert state.read_bytes() == saved
    busy("delete", "job", "train")
    now = busy("simulate", "-f", jobs(4))
    assert now.code == 0
    assert "Job/new-4: runs now: 4 of 4 pods on " in now.out


def test_simulate_within(busy, home, jobs) -> None:
    ends = (
        JOB.format(name="ends", pods=16)
        .replace("{app: ends", "{app: ends, x: y")
        .replace(
            "template:\n    metadata: {", 'template:\n    metadata: {annotations: {kailab.dev/run-seconds: "600"}, '
        )
    )
    (home / "ends.yaml").write_text(ends)
    busy("delete", "job", "train")
    assert busy("apply", "-f", "ends.yaml").code == 0
    assert busy("simulate", "-f", jobs(8), "--within", "1m").code == 1
    later = busy("simulate", "-f", jobs(8), "--within", "30m", "-o", "json")
    assert later.code == 0
    data = json.loads(later.out)
    assert data["verdict"] == "later"
    assert 590 < data["workloads"][0]["seconds"] < 620


def test_simulate_bounds_its_steps(busy, jobs) -> None:
    short = busy("simulate", "-f", jobs(64), "--timeout", "1ns")
    assert "proposals were tried within 0s of processor time; --timeout 1m tries more." in short.out
    data = json.loads(busy("simulate", "-f", jobs(64), "--no-steps", "-o", "json").out)
    assert (data["workloads"][0]["steps"], data["workloads"][0]["steps_incomplete"]) == ([], None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "there is nothing to simulate"),
        (("-f", "work.yaml", "--timeout", "x"), "--timeout: "),
        (("-f", "work.yaml", "--timeout", "1s", "--no-steps"), "--timeout can't be used with --no-steps"),
        (("-f", "no.yaml"), "no.yaml"),
        (("-f", "work.yaml", "--within", "x"), "--within: "),
        (("-f", "work.yaml", "--for", "-1h"), "--for: "),
        (("-f", "queue.yaml"), "nothing to simulate"),
    ],
)
def test_bad_input_of_simulate(busy, home, words, told) -> None:
    (home / "queue.yaml").write_text(
        "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: q}, spec: {resources: {gpu: {quota: 1}}}}\n"
    )
    done = busy("simulate", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_until_a_job_runs(busy, state) -> None:
    saved = state.read_bytes()
    done = busy("whatif", "--set", "queue/team-a.gpu.limit=20", "--until-runs", "train", "--for", "2h")
    assert done.code == 0
    assert "Job default/train does not run within 2 h without a change." in done.out
    assert re.search(
        r"^Job default/train runs after \d s with --set queue/team-a.gpu.limit=20\.$", done.out, re.MULTILINE
    )
    alone = json.loads(busy("whatif", "--until-runs", "job/train", "-o", "json").out)
    assert (alone["until_runs"]["unchanged"], alone["until_runs"]["bound"], alone["seconds"]) == (None, 86400, 86400)
    for wrong in ("job/", "ghost", "nokind/x"):
        refused = busy("whatif", "--until-runs", wrong)
        assert (refused.code != 0, refused.err.startswith("error: ")) == (True, True), wrong
    assert state.read_bytes() == saved
