"""Work said in a line: what is written for it, and what becomes of it."""

from __future__ import annotations

import json

import pytest
import yaml


def test_a_gang_starts_whole_in_its_queue(busy) -> None:
    """The queue may hold 16 GPUs: two pods of eight start, three would not."""
    busy("delete", "job", "train")
    done = busy("submit", "llama", "--queue", "team-a", "--pods", "2", "--gpus", "8")
    assert (done.code, done.out) == (0, "job.batch/llama created\n")
    assert "2 pods running" in done.err
    [group] = json.loads(busy("get", "podgroups", "-o", "json").out)["items"]
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "team-a")
    busy("delete", "job", "llama")
    assert "3 pods pending" in busy("submit", "llama", "--queue", "team-a", "--pods", "3", "--gpus", "8").err
    busy("delete", "job", "llama")
    apart = busy("submit", "llama", "--queue", "team-a", "--pods", "3", "--gpus", "8", "--each")
    assert "2 pods running, 1 pending" in apart.err


def test_its_manifest_is_one_that_practice_finds_no_fault_with(started, home) -> None:
    """But for its grace, which only who wrote the work can know. Nothing is submitted; what is printed can be applied."""
    printed = started("submit", "llama", "-q", "team-a", "--pods", "4", "--priority", "train", "-o", "yaml").out
    assert started("get", "jobs", "-o", "name").out == ""
    job = yaml.safe_load(printed)
    assert job["metadata"]["annotations"] == {"kai.scheduler/batch-min-member": "4"}
    assert job["spec"]["template"]["spec"]["priorityClassName"] == "train"
    (home / "job.yaml").write_text(printed)
    found = started("lint", "job.yaml", "--ignore", "queue-missing", "--ignore", "no-grace")
    assert (found.code, found.out) == (0, "Nothing found in 1 object.\n")
    assert started("apply", "-f", "job.yaml").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("llama", "--queue", "ghost"), "--queue: there is no Queue 'ghost'; there are: team-a"),
        (("train", "--queue", "team-a"), "the Job 'train' exists already in namespace default; choose another name"),
        (("llama", "--queue", "team-a", "--priority", "urgent"), "--priority: there is no PriorityClass 'urgent'"),
        (("llama",), "Missing option '--queue'"),
        (("llama", "--queue", "team-a", "--pods", "0"), "Invalid value for '--pods'"),
        (("llama", "--queue", "team-a", "--gpus", "-1"), "Invalid value for '--gpus'"),
        (("No Name", "--queue", "team-a"), "metadata.name"),
        (("llama", "--queue", "team-a", "-n", "ghost"), "ghost"),
    ],
)
def test_what_can_not_be_is_refused(busy, arguments: tuple[str, ...], said: str) -> None:
    before = busy("get", "all", "-o", "name").out
    done = busy("submit", *arguments)
    assert done.code == 2
    assert said in done.err
    assert busy("get", "all", "-o", "name").out == before


def test_it_answers_for_programs_as_apply_does(busy) -> None:
    done = busy("submit", "llama", "--queue", "team-a", "-o", "json")
    assert json.loads(done.out)["objects"] == [
        {"kind": "Job", "namespace": "default", "name": "llama", "action": "created"}
    ]
    again = busy("submit", "llama", "--queue", "team-a", "-o", "json")
    (error,) = json.loads(again.out)["errors"]
    assert (again.code, "exists already" in error["message"]) == (2, True)
