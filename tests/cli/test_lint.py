"""``kailab lint``: findings with place and cure, exit codes, what may be left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  resources:
    gpu: {quota: 8, limit: -1, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""


@pytest.fixture
def files(home: Path) -> Path:
    (home / "queue.yaml").write_text(QUEUE)
    (home / "good.yaml").write_text(QUEUE.replace("limit: -1", "limit: 16", 1))
    (home / "ring.yaml").write_text(QUEUE.replace("spec:\n", "spec:\n  parentQueue: team\n"))
    (home / "empty.yaml").write_text("# nothing\n")
    return home


def test_findings_have_rule_place_why_and_cure(kailab, files: Path) -> None:
    done = kailab("lint", "queue.yaml")
    assert done.code == 1
    first, second = done.out.splitlines()
    assert first.startswith("queue.yaml:6: Queue/team: spec.resources.gpu.limit: has no limit")
    assert first.endswith("[queue-no-limit]")
    assert second.startswith("    cure: set spec.resources.gpu.limit")
    (one,) = json.loads(kailab("lint", "queue.yaml", "-o", "json").out)["findings"]
    assert (one["rule"], one["file"], one["line"]) == ("queue-no-limit", "queue.yaml", 6)
    assert (one["object"], one["field"]) == ("Queue/team", "spec.resources.gpu.limit")


def test_clean_is_0_and_a_rule_may_be_left_out(kailab, files: Path) -> None:
    done = kailab("lint", "good.yaml", "--fleet", "lesson")
    assert (done.code, done.out) == (0, "Nothing found in 1 object.\n")
    assert kailab("lint", "queue.yaml", "--ignore", "queue-no-limit").code == 0


def test_files_are_named_as_for_apply_too(kailab, files: Path) -> None:
    assert kailab("lint", "-f", "queue.yaml").out == kailab("lint", "queue.yaml").out


def test_the_rules_are_listed(kailab) -> None:
    listed = kailab("lint", "--rules").out
    assert all(name in listed for name in json.loads(kailab("lint", "--rules", "-o", "json").out))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ([], "there is nothing to check"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["ring.yaml"], "its own parent"),
        (["empty.yaml"], "nothing to check"),
        (["good.yaml", "--ignore", "queue-nolimit"], "no such rule"),
        (["good.yaml", "--fleet", "nowhere"], "nowhere"),
        (["-", "-"], "only once"),
    ],
)
def test_bad_input(kailab, files: Path, arguments: list[str], what: str) -> None:
    done = kailab("lint", *arguments)
    assert (done.code, done.out) == (2, "")
    assert what in done.err
