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
    why = next(line for line in kailab("explain", "pod", "train").out.splitlines() if line.startswith("Why: "))
    assert "have the taint lab/reserved=frontier:NoSchedule" in why
    told = "2 node(s) had untolerated taint {lab/reserved: frontier}"
    assert told in kailab("get", "pod", "train", "-o", "yaml").out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("kai.scheduler/queue: team-a", "app: x"), "goes to the queue default-queue, which does not exist"),
        (("kai.scheduler/queue: team-a", "kai.scheduler/queue: team-b"), "there is no queue 'team-b'"),
        (
            ("schedulerName: kai-scheduler", "restartPolicy: Never"),
            "schedulerName: is missing: only pods that say kai-",
        ),
        (("schedulerName: kai-scheduler", "schedulerName: kai"), "schedulerName: is 'kai': only pods that say kai-sch"),
    ],
)
def test_a_misspelled_field_is_reported_by_apply(started, change: tuple[str, str], said: str) -> None:
    assert POD.count(change[0]) == 1
    applied = started("apply", "-f", "-", input=f"{QUEUE}---{POD.replace(*change)}")
    assert applied.code == 0
    (warning,) = (line for line in applied.err.splitlines() if line.startswith("warning: "))
    assert said in warning


def test_a_manifest_without_slips_is_taken_without_a_word(started) -> None:
    assert "warning" not in started("apply", "-f", "-", input=f"{QUEUE}---{POD}").err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("logs", "x"), "no processes run in the pods of fake nodes"),
        (("edit", "deployment", "x"), "`kailab patch` changes a field"),
        (("rollout", "restart", "deployment/x"), "edit the manifest"),
        (("get", "pods", "-o", "go-template={{.items}}"), "-o json"),
        (("apply", "queues.yaml"), "kailab apply -f queues.yaml"),
    ],
)
def test_commands_of_kubectl_are_answered_with_their_replacement(started, command: tuple[str, ...], said: str) -> None:
    refused = started(*command)
    assert refused.code == 2
    assert said in " ".join(refused.err.split())


def test_an_unknown_command_gets_no_hint(started) -> None:
    assert "No such command 'frobnicate'." in started("frobnicate").err
