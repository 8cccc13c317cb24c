"""``kailab audit``: its table, its data and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-b}
spec: {parentQueue: nowhere, resources: {gpu: {quota: 4, limit: -1, overQuotaWeight: 1}}}
"""


@pytest.fixture
def faulty(busy, home: Path):
    """team-a at its limit of 16 GPUs with four pods that wait; a queue without a root."""
    (home / "queue.yaml").write_text(QUEUE)
    busy("apply", "-f", "queue.yaml")
    return busy


def test_findings_as_a_table(faulty) -> None:
    done = faulty("audit")
    assert done.code == 1
    rows = [line.split(None, 2) for line in done.out.splitlines()]
    assert rows[0] == ["SEVERITY", "CODE", "WHAT"]
    assert ["warning", "QueueParentMissing", "team-b leads to no root: the parent, nowhere, does not exist."] in rows
    assert rows[-2][:2] == ["QUEUE", "WAITING"]
    assert rows[-1][0] == "team-a"
    assert rows[-1][-1].endswith("Job default/train"), "the workload, whose name people know"
    assert "1 more finding of severity info: --all" in done.err
    assert "team-a holds 8 GPUs beyond its quota" in faulty("audit", "--all").out


def test_findings_as_data(faulty) -> None:
    data = json.loads(faulty("audit", "-o", "json").out)
    assert data["counts"] == {"error": 0, "warning": 1, "info": 1}
    assert {one["code"] for one in data["findings"]} == {"QueueParentMissing", "Borrowing"}
    assert data["findings"][0]["objects"] == ["queue/team-b"]
    assert data["waits"][0]["queue"] == "team-a"


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1)])
def test_what_it_fails_on(faulty, fail_on: str, code: int) -> None:
    assert faulty("audit", "--fail-on", fail_on).code == code


def test_bad_input(kailab) -> None:
    assert kailab("audit", "--fail-on", "everything").code == 2
    done = kailab("audit")
    assert done.code == 2
    assert "no lab is here" in done.err


def test_a_lab_without_queues_is_said_to_have_none(kailab) -> None:
    kailab("up")
    assert kailab("audit").out.startswith("There are no queues, so there is nothing to audit")
    assert kailab("timeline").out == "All pods: nothing has happened since 2026-01-01T00:00:00Z.\n"
    tree = kailab("get", "queues", "-o", "tree")
    assert (tree.out, tree.err) == ("", "No resources found\n")
