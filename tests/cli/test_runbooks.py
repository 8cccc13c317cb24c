"""The runbooks, typed as they stand: on a lab that has the fault they lead to the answer, and after the cure it is gone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.advice.findings import FindingCode
from kailab.engine.decisions import PendingCode
from kailab.evidence.metrics import RULES, read_packaged_file
from kailab.lab.answer import CauseCode
from kailab.model.yamltext import write_documents
from tests.metrics.conftest import job, queue

PAGE = Path(__file__).parents[2] / "docs" / "runbooks.md"
LOAN = [job(f"a-{number}", "team-a", 1) for number in range(32)]


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def commands(section: str) -> list[list[str]]:
    (block,) = re.findall(r"^```sh\n(.*?)^```", sections()[section], flags=re.MULTILINE | re.DOTALL)
    return [line.split()[1:] for line in block.splitlines()]


def followed(kailab: Any, section: str, name: str) -> str:
    """What all commands of a runbook say. ``name`` stands for the one of the alert."""
    told = []
    for words in commands(section):
        done = kailab(*(name if word.isupper() else word for word in words))
        assert done.code in (0, 1), done.err
        told.append(done.out)
    return "\n".join(told)


def apply(kailab: Any, *objects: dict[str, Any]) -> None:
    assert kailab("apply", "-f", "-", input=write_documents(objects)).code == 0


def test_a_queue_that_starves(started) -> None:
    protected = queue("team-a", 16, "org", reclaimMinRuntime="24h")
    apply(started, queue("org", 32), protected, queue("team-b", 16, "org"), *LOAN)
    apply(started, job("train", "team-b", 16))
    told = followed(started, "A queue starves", "team-b")
    assert "Starved" in told
    assert "VictimsProtected" in told
    apply(started, queue("team-a", 16, "org"))
    assert started("run", "--for", "2m").code == 0
    told = followed(started, "A queue starves", "team-b")
    assert "Starved" not in told
    assert "It holds 16 GPUs of 16 GPUs asked for." in told


def test_a_gang_that_does_not_start(started) -> None:
    apply(started, queue("org", 32), queue("team-a", 8, "org", limit=8), job("train", "team-a", 16, gang=True))
    (group,) = started("get", "podgroups", "-o", "name").out.split()
    name = group.rpartition("/")[2]
    told = followed(started, "Gangs do not start", name)
    assert "OverLimit" in told
    apply(started, queue("team-a", 8, "org", limit=16))
    told = followed(started, "Gangs do not start", name)
    assert "OverLimit" not in told
    assert "16/16" in told


def test_idle_gpus_while_work_waits(started) -> None:
    apply(started, queue("org", 32), queue("team-a", 8, "org", limit=8), job("train", "team-a", 20))
    told = followed(started, "GPUs are idle while work waits", "team-a")
    assert "8 of 32 in use" in told
    assert "OverLimit" in told
    apply(started, queue("team-a", 8, "org"))
    told = followed(started, "GPUs are idle while work waits", "team-a")
    assert "20 of 32 in use" in told
    assert "OverLimit" not in told


def test_a_disputed_quota(started) -> None:
    apply(started, queue("org", 32), queue("team-a", 16, "org"), queue("team-b", 16, "org"), *LOAN)
    assert "Borrowing" in followed(started, "Two teams dispute a quota", "team-a")
    apply(started, job("train", "team-b", 16))
    told = followed(started, "Two teams dispute a quota", "team-a")
    assert "by reclaim for Job default/train of queue team-b" in told
    assert "beyond its fair share of 16 GPU" in told
    assert "Borrowing" not in told


def test_each_alert_has_a_runbook() -> None:
    groups = yaml.safe_load(read_packaged_file(RULES))["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    text = PAGE.read_text(encoding="utf-8")
    assert [alert for alert in sorted(alerts) if alert not in text] == []


@pytest.mark.parametrize("section", list(sections()))
def test_each_answer_is_one_that_is_given(section: str) -> None:
    answers = [row.split("|")[1] for row in sections()[section].splitlines() if row.startswith("| ")]
    words = {word for answer in answers for word in re.findall(r"`([A-Z]\w+)`", answer)}
    assert words
    assert words <= {*map(str, PendingCode), *map(str, CauseCode), *map(str, FindingCode)}
