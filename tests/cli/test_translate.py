"""``kailab translate``: fields for people and programs, objects and configuration that are taken as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUOTA = """\
apiVersion: kai.nvidia.com/v1
kind: Quota
metadata: {name: llm}
spec:
  namespace: llm
  guaranteedQuota: {gpus: 8, maxPodsPerDay: 50}
  burstQuota: {gpus: 4}
---
apiVersion: kai.nvidia.com/v1
kind: QueueDrainingPolicy
metadata: {name: drain}
spec:
  selectionCriteria:
  - {criterion: wait-time, weight: 1}
---
apiVersion: v1
kind: Namespace
metadata: {name: llm}
"""


@pytest.fixture
def policies(home: Path) -> Path:
    (home / "policies.yaml").write_text(QUOTA)
    return home


def test_each_field_is_told(kailab, policies: Path) -> None:
    done = kailab("translate", "policies.yaml")
    assert done.code == 0
    assert kailab("translate", "-f", "policies.yaml").out == done.out
    assert "Quota/llm\n" in done.out
    assert "  spec.guaranteedQuota.gpus: 8\n      acts as: Queue/llm spec.resources.gpu.quota: 8\n" in done.out
    assert "      KAI has none: no queue counts pods or days" in done.out
    assert "      kailab only: kailab.jobOrder.weights.waiting" in done.out
    assert "Namespace" in done.err
    fields = json.loads(kailab("translate", "policies.yaml", "-o", "json").out)["fields"]
    assert [one["line"] for one in fields if one["field"] == "spec.burstQuota.gpus"] == [7]


def test_what_it_writes_is_taken(kailab, policies: Path) -> None:
    (policies / "queues.yaml").write_text(kailab("translate", "policies.yaml", "-o", "yaml").out)
    (policies / "scheduler.yaml").write_text(kailab("translate", "policies.yaml", "-o", "config").out)
    assert kailab("up", "--scheduler-config", "scheduler.yaml").code == 0
    assert kailab("apply", "-f", "queues.yaml").code == 0
    assert "12" in kailab("get", "queues").out
    assert kailab("down").code == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "there is nothing to translate"),
        (["-", "-"], "only once"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["policies.yaml", "--gpus", "0"], "--gpus: 0"),
        (["other.yaml"], "nothing to translate; expected kinds of kai.nvidia.com"),
        (["bad.yaml"], "bad.yaml:4: Quota/x: spec.preemptionAllowed: 3: expected true or false"),
    ],
)
def test_bad_input(kailab, policies: Path, arguments: list[str], what: str) -> None:
    (policies / "other.yaml").write_text(QUOTA.rpartition("---\n")[2])
    head = "apiVersion: kai.nvidia.com/v1\nkind: Quota\nmetadata: {name: x}\n"
    (policies / "bad.yaml").write_text(f"{head}spec: {{preemptionAllowed: 3}}\n")
    done = kailab("translate", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert what in done.err
