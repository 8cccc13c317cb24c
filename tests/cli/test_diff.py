"""``diff``, plans that ``apply`` takes, ``apply --strict`` and ``whatif --drain -l``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import MANIFESTS

CHANGED = MANIFESTS.replace("quota: 8, limit: 16", "quota: 12").replace(
    "name: main, image: busybox", "name: main, image: busybox"
)


@pytest.fixture
def queues(home: Path) -> Path:
    path = home / "changed.yaml"
    path.write_text(CHANGED.partition("---")[0])
    return path


def test_nothing_differs_from_what_was_applied(busy, home: Path) -> None:
    (home / "same.yaml").write_text(MANIFESTS)
    done = busy("diff", "-f", "same.yaml")
    assert (done.code, done.out) == (0, "No changes: 2 unchanged\n")


def test_changed_fields_and_their_consequence_are_shown(busy, queues: Path, state: Path) -> None:
    before = state.read_bytes()
    done = busy("diff", "-f", "changed.yaml")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[:3] == [
        "~ queue.scheduling.run.ai/team-a",
        "    ~ spec.resources.gpu.quota: 8 -> 12",
        "    - spec.resources.gpu.limit: 16",
    ]
    assert "0 to create, 1 to change, 0 unchanged" in lines
    assert "quota 12" in done.out
    assert state.read_bytes() == before
    data = json.loads(busy("diff", "-f", "changed.yaml", "-o", "json").out)
    assert data["objects"][0]["fields"][0] == {"path": "spec.resources.gpu.quota", "before": 8, "after": 12}
    assert data["consequence"]["alternatives"]


def test_new_objects_are_shown_as_given_and_values_of_environments_are_not(busy, home: Path) -> None:
    job = MANIFESTS.partition("---")[2].replace("name: train", "name: other")
    (home / "new.yaml").write_text(
        job.replace("image: busybox,", "image: busybox, env: [{name: TOKEN, value: hunter2}],")
    )
    done = busy("diff", "-f", "new.yaml")
    assert done.code == 1
    assert "+ job.batch/other" in done.out
    assert "+ spec.template.spec.containers[main].env[TOKEN].value: (not shown)" in done.out
    assert "hunter2" not in done.out
    assert "completionMode" not in done.out


def test_a_plan_is_applied_to_the_state_that_it_was_made_for(busy, queues: Path, home: Path) -> None:
    assert busy("diff", "-f", "changed.yaml", "--out", "plan").code == 1
    assert (home / "plan").stat().st_mode & 0o777 == 0o600
    queues.unlink()
    done = busy("apply", "plan")
    assert (done.code, done.out) == (0, "queue.scheduling.run.ai/team-a configured\n")
    done = busy("apply", "-f", "plan")
    assert done.code == 2
    assert "plan: the lab has changed since the plan was made" in done.err
    assert "Queue team-a" in done.err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["run", "--for", "10s"], "(10s of lab time has passed)"),
        (["label", "node", "a100-0", "x=y"], "(changed: Node a100-0)"),
        (["apply", "-f", "space.yaml"], "(created: Namespace new)"),
        (["delete", "job", "train"], "deleted: Job default/train, "),
    ],
)
def test_a_stale_plan_is_refused_and_the_change_is_named(
    busy, queues: Path, home: Path, command: list[str], told: str
) -> None:
    (home / "space.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: new}}\n")
    assert busy("diff", "-f", "changed.yaml", "--out", "plan").code == 1
    assert busy(*command).code == 0
    done = busy("apply", "plan")
    assert done.code == 2
    assert told in done.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["diff"], "there is nothing to compare"),
        (["diff", "-f", "none.yaml"], "none.yaml"),
        (["diff", "-f", "changed.yaml", "--out", "changed.yaml"], "exists already and is no plan"),
        (["apply", "plan", "-f", "changed.yaml"], "is a plan, which is applied alone"),
        (["apply", "none.plan"], "none.plan: there is no such file; expected a plan"),
        (["apply", "damaged"], "is no plan of `kailab diff`, or damaged"),
        (["apply", "newer"], "is in format 9"),
        (["apply", "edited"], "edited: was edited or damaged since `kailab diff` wrote it"),
        (["apply", "longer"], "longer: was edited or damaged since `kailab diff` wrote it"),
        (["apply", "looser"], "looser: was edited or damaged since `kailab diff` wrote it"),
    ],
)
def test_bad_input_is_told(busy, queues: Path, home: Path, state: Path, arguments: list[str], told: str) -> None:
    assert busy("diff", "-f", "changed.yaml", "--out", "plan").code == 1
    plan = (home / "plan").read_text()
    (home / "damaged").write_text(plan[:200])
    (home / "newer").write_text(plan.replace('"format":2', '"format":9'))
    (home / "edited").write_text(plan.replace("team-a", "team-b"))
    (home / "longer").write_text(plan.replace('"format":2', '"format":2,"later":true'))
    (home / "looser").write_text(plan.replace('"strict":true', '"strict":false'))
    before = state.read_bytes()
    done = busy(*arguments)
    assert done.code == 2
    assert told in done.err
    assert state.read_bytes() == before


def test_strict_applies_nothing_if_there_is_a_warning(busy, home: Path, state: Path) -> None:
    (home / "lost.yaml").write_text(
        MANIFESTS.partition("---")[2].replace("name: train,", "name: lost,").replace("queue: team-a", "queue: team-x")
    )
    before = state.read_bytes()
    done = busy("apply", "-f", "lost.yaml", "--strict")
    assert done.code == 2
    assert "team-x" in done.err
    assert "a warning is an error with --strict" in done.err
    assert state.read_bytes() == before
    assert busy("apply", "-f", "lost.yaml").code == 0


def test_nodes_to_drain_are_selected_by_label(busy) -> None:
    assert busy("label", "nodes", "a100-0", "a100-1", "rack=r1").code == 0
    done = busy("whatif", "--drain", "-l", "rack=r1")
    assert done.code == 0, done.err
    assert "--drain -l rack=r1: pods:" in done.out
    assert busy("whatif", "-l", "rack=r1").code == 2
    assert "no node has these labels" in busy("whatif", "--drain", "-l", "rack=r9").err
    assert "expected a node, or -l" in busy("whatif", "--drain").err
    assert busy("whatif", "--drain", "a100-0").code == 0
