"""Conditions, and annotations of domains that are kept: evidence has of them what decisions read, and no more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from kailab.evidence.recorder import Recorder
from kailab.lab import Lab
from tests.evidence.test_secrets import QUEUE, Secrets, around, pod, secrets, write

__all__ = ["secrets", "write"]  # fixtures


def test_conditions_and_notes_in_kailabs_own_domain(secrets: Secrets, write: Callable[..., Path]) -> None:
    """What somebody else's program wrote of a node or in a status, and what a user wrote into annotations of a domain that is kept."""
    recorder = Recorder()
    notes = {
        "kailab.dev/run-seconds": "600",
        "kailab.dev/fail": f"20:{secrets('reason of a failure')}",
        "kailab.dev/note": secrets("a note that nobody reads"),
        f"kailab.dev/{secrets('key of a note')}": "x",
    }
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said = [{**condition, "message": f"token {secrets('a message that was applied')}"}]
    one = pod(secrets, "one")
    one["metadata"]["annotations"] |= notes
    one["status"] = {"conditions": said}
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd", "annotations": {**notes, "kailab.dev/expected-seconds": secrets("expected seconds")}, "labels": {"kubernetes.io/hostname": "odd"}},
        "status": {
            "allocatable": {"cpu": "1", "pods": "1"}, "capacity": {"cpu": "1", "pods": "1"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": f"logged in with {secrets('message of a node')}"},
                {"type": "Odd", "status": "True", "reason": f"it said {secrets('reason that is a sentence')}", "message": ""},
            ],
        },
    }  # fmt: skip
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE, *around(secrets), one)
        lab.apply(node)
        lab.settle()
        lab.patch("Pod", "one", {"metadata": {"annotations": {"kailab.dev/fail": f"20:{secrets('patched note')}"}}})
    run = write(recorder)
    assert secrets.found_in(run) == []
    (after,) = json.loads((run / "e/t/lab/after/pods.json").read_bytes())
    assert after["metadata"]["annotations"]["kailab.dev/run-seconds"] == "600"


def test_what_a_scheduler_said_of_a_pod_stays(write: Callable[..., Path]) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE, pod(Secrets(), "one", gpus=9))
        lab.settle()
    (after,) = json.loads((write(recorder) / "e/t/lab/after/podgroups.json").read_bytes())
    assert after["status"]["schedulingConditions"][0]["message"]
