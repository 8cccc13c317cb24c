"""Waiting for objects, in lab time."""

from __future__ import annotations

import json
import re

import pytest

SHORT = """\
apiVersion: v1
kind: Pod
metadata:
  name: short
  labels: {kai.scheduler/queue: team-a}
  annotations: {kailab.dev/run-seconds: "90"}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  containers:
  - {name: main, image: x}
"""


def lab_seconds(kailab) -> float:
    return json.loads(kailab("status", "-o", "json").out)["age_seconds"]


def test_what_is_so_already_takes_no_time(busy) -> None:
    before = lab_seconds(busy)
    done = busy("wait", "queue/team-a", "--for", "jsonpath={.spec.resources.gpu.quota}=8")
    assert (done.code, done.out) == (0, "queue.scheduling.run.ai/team-a condition met\n")
    assert lab_seconds(busy) == before


def test_time_passes_until_it_is_so_and_no_longer(busy) -> None:
    busy("apply", "-f", "-", input=SHORT)
    done = busy("wait", "pod", "short", "--for=jsonpath={.status.phase}=Succeeded", "--timeout", "10m")
    assert (done.code, done.out) == (0, "pod/short condition met\n")
    assert 90 <= lab_seconds(busy) < 200


def test_when_the_time_is_up_it_says_what_is_still_missing(busy) -> None:
    before = lab_seconds(busy)
    done = busy("wait", "pods", "--all", "--for", "condition=Ready", "--timeout", "1m")
    assert done.code == 1
    assert len(done.out.splitlines()) == 16
    assert len(done.err.splitlines()) == 4
    assert re.search(
        r"error: pod/train-\S+: has no condition Ready \(it has: PodScheduled\), after 1m of lab time", done.err
    )
    assert lab_seconds(busy) == pytest.approx(before + 60)


def test_the_object_may_come_later_or_be_gone_already(busy) -> None:
    assert busy("wait", "pod/nope", "--for", "delete").out == "pod/nope deleted\n"
    done = busy("wait", "pod/nope", "--for", "create", "--timeout", "5s")
    assert (done.code, done.err) == (1, "error: pod/nope: does not exist, after 5s of lab time\n")


@pytest.mark.parametrize(
    "options, said",
    [
        (["pod/nope", "--for", "condition=Ready"], "'nope' not found"),
        (["queue/team-a", "--for", "ready"], "expected condition=NAME"),
        (["queue/team-a", "--for", "jsonpath={.spec[}=1"], "is no JSONPath"),
        (["queue/team-a", "--for", "delete", "--timeout", "soon"], "--timeout:"),
        (["pods", "-l", "app=none", "--for", "delete"], "no objects to wait for"),
    ],
)
def test_what_can_not_be_waited_for_is_refused(busy, options, said) -> None:
    before = lab_seconds(busy)
    done = busy("wait", *options)
    assert done.code == 2
    assert said in done.err
    assert lab_seconds(busy) == before
