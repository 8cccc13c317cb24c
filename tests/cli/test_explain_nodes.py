"""``kailab explain KIND NAME --nodes`` on the command line."""

from __future__ import annotations

import json

POD = """
apiVersion: v1
kind: Pod
metadata: {name: big, labels: {kai.scheduler/queue: team-a}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 9}}}]
"""


def test_a_table_and_the_same_as_data(busy, tmp_path) -> None:
    (tmp_path / "big.yaml").write_text(POD)
    busy("apply", "-f", str(tmp_path / "big.yaml"))
    told = busy("explain", "pod", "big", "--nodes")
    assert told.code == 0
    lines = told.out.splitlines()
    assert lines[0].startswith("Pod default/big: waits; by itself none of ")
    assert any(line.split()[:4] == ["NODES", "RULE", "ANSWER", "WHICH"] for line in lines)
    assert any("GPUs 8 in all, wants 9" in line for line in lines)
    data = json.loads(busy("explain", "pod", "big", "--nodes", "-o", "json").out)
    assert (data["kind"], data["namespace"], data["name"]) == ("Pod", "default", "big")
    [group] = data["groups"]
    assert sum(len(one["nodes"]) for one in group["answers"]) == group["nodes"]
    assert not any(one["takes"] for one in group["answers"])


def test_for_work_that_runs(busy) -> None:
    told = busy("explain", "job", "train", "--nodes")
    assert told.code == 0
    assert "runs on " in told.out
    assert "it is here" in told.out


def test_what_is_not_placed_is_refused_with_a_sentence(busy) -> None:
    told = busy("explain", "queue", "team-a", "--nodes")
    assert told.code == 2
    assert "a queue is not placed on nodes" in told.err
    assert busy("explain", "pod", "nobody", "--nodes").code != 0
