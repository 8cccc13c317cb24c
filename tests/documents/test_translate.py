"""Every policy of the documents, translated: each field has a meaning, and what comes of it is KAI's."""

from __future__ import annotations

from fractions import Fraction

from kailab.advice.policykinds import translate
from kailab.lab import expect
from kailab.model.manifests import load_text


def test_each_field_of_each_policy_is_told(documents) -> None:
    told: dict[str, int] = {}
    for block in documents["gangs"]:
        if "apiVersion: kai.nvidia.com" in block.text:
            for field in translate(load_text(block.text), Fraction(100)).fields:
                kind = field.given.manifest.object["kind"]
                told[kind] = told.get(kind, 0) + 1
                assert "nor do the documents" not in field.meaning.text, field.given.path
    assert told == {
        "ResourceQuota": 18,
        "QueuePolicy": 5,
        "SchedulingPolicy": 10,
        "PreemptionPolicy": 13,
        "Quota": 19,
        "QueueMonitor": 2,
        "QueueDrainingPolicy": 10,
        "KAISchedulerConfig": 10,
    }


def test_the_hierarchy_of_the_article_is_its_table_of_gpus(block) -> None:
    found = translate(load_text(block("gangs", "name: fair-share-config").text), Fraction(100))
    quotas = {one["metadata"]["name"]: one["spec"]["resources"]["gpu"]["quota"] for one in found.objects}
    assert quotas == {
        "research": 40, "llm-team": 24, "vision-team": 16, "data-science": 35, "analytics": 24.5, "inference": 10.5,
        "infrastructure": 25,
    }  # fmt: skip


def test_the_quotas_of_the_article_hold_in_a_lab(block, open_lab, work) -> None:
    lab = open_lab("hundred")
    lab.apply(translate(load_text(block("gangs", "maxPodsPerDay: 100").text)).objects)
    for team in ("research-llm", "data-science-analytics"):
        lab.apply(work(team, team, 100))
    expect(lab.queue("research-llm")).running(gpus=24 + 12)
    expect(lab.queue("data-science-analytics")).running(gpus=24 + 15)


def test_the_topology_policy_is_told_field_by_field(block) -> None:
    """The page lost its indentation; the fields have theirs back here."""
    text = block("policies", "name: gpu-topology-aware\nspec").text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    depths = [0, 0, 0, 1, 0, 1, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 2]
    manifest = "\n".join("  " * depth + line for depth, line in zip(depths, lines, strict=True))
    meanings = {field.given.path: field.meaning.verdict.name for field in translate(load_text(manifest)).fields}
    assert meanings == {
        "spec.topologyPolicy.strategy": "KAI",
        "spec.topologyPolicy.preferNVLink": "NONE",
        "spec.memoryPolicy.strategy": "NONE",
        "spec.memoryPolicy.memoryThreshold": "NONE",
        "spec.multiGPUPolicy.preferSameSwitch": "NONE",
        "spec.multiGPUPolicy.maxGPUsPerNode": "NONE",
        "spec.preemption.enabled": "ALWAYS",
        "spec.preemption.gracePeriod": "KAI",
    }
