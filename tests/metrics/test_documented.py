"""The page about metrics has every one of them."""

from __future__ import annotations

from pathlib import Path

import yaml

from kailab.evidence.metrics import RULES, read_packaged_file
from kailab.evidence.metrics.families import FAMILIES, sample_name

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_each_metric_is_on_the_page_with_its_labels_and_meaning() -> None:
    for family in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in family.labels) or " "
        assert f"| `{sample_name(family)}` | {labels} | {family.help} |" in PAGE


def test_each_alert_is_on_the_page() -> None:
    for group in yaml.safe_load(read_packaged_file(RULES))["groups"]:
        for rule in group["rules"]:
            assert f"| {rule['alert']} | `{rule['expr']}`" in PAGE
