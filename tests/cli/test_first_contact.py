"""What a newcomer types first: a manifest from anywhere, and the usual slips, each answered with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec:
  resources:
    gpu: {quota: 4, limit: -1, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, labels: {kai.scheduler/queue: team-a}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: busybox, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


@pytest.mark.parametrize("fleet", ["lesson", "hundred", "racks", "mixed"])
def test_a_manifest_without_tolerations_runs(kailab, fleet: str) -> None:
    assert kailab("up", "--fleet", fleet).code == 0
    assert "1 pod running" in kailab("apply", "-f", "-", input=f"{QUEUE}---{POD}").err


def test_the_first_sentence_of_an_explanation_names_a_taint(kailab, home: Path) -> None:
    (home / "reserved.yaml").write_text(
        "{apiVersion: kailab.dev/v1, kind: Fleet, name: reserved, pools: [{name: n, count: 2, gpus: 8, cpu: 96, memory: 1Ti, "
        "taints: [{key: lab/reserved, value: frontier, effect: NoSchedule}]}]}"
    )
    assert kailab("up", "--fleet", "./reserved.yaml").code == 0
    assert kailab("apply", "-f", "-", input=f"{QUEUE}---{POD}").code == 0
    taint = "2 node(s) had untolerated taint {lab/reserved: frontier}"
    why = next(line for line in kailab("explain", "pod", "train").out.splitlines() if line.startswith("Why: "))
    assert taint in why
    assert taint in kailab("get", "pod", "train", "-o", "yaml").out
