"""What is known of an object, on one page."""

from __future__ import annotations

import json

import pytest


def test_a_pod_that_waits(busy) -> None:
    pods = json.loads(busy("get", "pods", "-o", "json").out)["items"]
    name = next(pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName"))
    lines = busy("describe", "pod", name).out.splitlines()
    assert lines[0] == f"Name:            {name}"
    assert "Controlled by:   Job/train" in lines
    assert "Queue:           team-a" in lines
    assert any(line.startswith("Waits:           OverLimit: ") for line in lines)
    assert f"                 `kailab explain pod {name}` finds what would let it run" in lines
    assert lines.index("Conditions:") < lines.index("Events:")
    assert not any("last-applied" in line for line in lines)


def test_a_node_tells_what_it_holds(busy) -> None:
    lines = busy("describe", "node", "a100-0").out.splitlines()
    at = lines.index("Pods:") if "Pods:" in lines else -1
    told = next(line for line in lines if line.startswith("GPUs:")).split()[1]
    assert told.endswith("/8")
    assert at < 0 or lines[at + 1].split() == ["NAME", "PHASE", "GPUS", "QUEUE"]
    assert sum(line.strip().startswith("default/train-") for line in lines) == int(told.split("/")[0])


def test_a_kind_alone_means_all_of_it(busy) -> None:
    assert busy("describe", "nodes").out.count("Name:  ") == 5
    assert busy("describe", "nodes", "-l", "nvidia.com/gpu.product=H100").out.count("Name:  ") == 1
    assert busy("describe", "topologies").err == "No resources found\n"


def test_what_is_not_there(busy) -> None:
    done = busy("describe", "pod/nope")
    assert (done.code, done.out) == (2, "")
    assert "'nope' not found" in done.err


@pytest.mark.timeout(600)
def test_why_a_pod_waits_is_told_whole_on_a_narrow_terminal(busy, on_a_terminal) -> None:
    pods = json.loads(busy("get", "pods", "-o", "json").out)["items"]
    pod = next(pod for pod in pods if not pod["spec"].get("nodeName"))
    lines = on_a_terminal(80, "describe", "pod", pod["metadata"]["name"])
    events = lines[lines.index("Events:") :]
    assert [line for line in events if len(line) > 80] == []
    conditions = pod["status"]["conditions"]
    told = " ".join(" ".join(lines[lines.index("Conditions:") : lines.index("Events:")]).split())
    assert conditions
    assert all(" ".join(one["message"].split()) in told for one in conditions if one.get("message"))
