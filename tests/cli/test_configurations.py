"""What of a scheduler configuration has no effect here is told by each command that is given one."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from importlib import import_module

import pytest

import kailab.cli

CONFIG = """\
actions: "allocate, consolidation, reclaim, preempt"
tiers:
- plugins:
  - name: predicates
  - name: proportion
    arguments: {reclaimerUtilizationMultiplier: "1.2"}
"""
TOLD = "reclaimerUtilizationMultiplier"
TRACE = "name,submit,seconds,gpus,team\na,0,100,4,blue\n"
STUDY = "trace: trace.csv\nfleet: lesson\n"
CLUSTERS = "apiVersion: kailab.dev/v1\nkind: Clusters\nclusters:\n- {name: west, fleet: lesson, config: new.yaml}\n"


@pytest.fixture
def files(home) -> None:
    (home / "new.yaml").write_text(CONFIG)
    (home / "trace.csv").write_text(TRACE)
    (home / "fixed.yaml").write_text(f"{STUDY}config: new.yaml\ngrid: {{limits: [{{blue: 8}}]}}\n")
    (home / "varied.yaml").write_text(f"{STUDY}grid: {{config: [new.yaml]}}\n")
    (home / "clusters.yaml").write_text(CLUSTERS)
    (home / "names.yaml").write_text("ours: {kind: kailab, config: new.yaml}\n")
    (home / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: x}]}}\n"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("up", "--config", "new.yaml"),
        ("replay", "trace.csv", "--fleet", "lesson", "--config", "new.yaml"),
        ("replay", "trace.csv", "--clusters", "clusters.yaml"),
        ("sweep", "fixed.yaml", "--workers", "1"),
        ("sweep", "varied.yaml", "--workers", "1"),
        # Refused once the configuration was read.
        (
            "capacity",
            "--trace",
            "trace.csv",
            "--fleet",
            "lesson",
            "--config",
            "new.yaml",
            "--target",
            "green p99 wait < 1h",
        ),
    ],
    ids=" ".join,
)
def test_an_argument_without_effect_is_told(kailab, files, arguments: tuple[str, ...]) -> None:
    done = kailab(*arguments)
    assert done.code in (0, 2), done.err
    assert done.err.count(TOLD) == 1, done.err


def test_what_if_tells_it_too(started, files) -> None:
    done = started("whatif", "--config", "new.yaml")
    assert done.code == 0, done.err
    assert done.err.count(TOLD) == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--config", "new.yaml"), ()], ids=("option", "name"))
def test_a_trial_tells_it_too(kailab, files, how: tuple[str, ...]) -> None:
    scheduler = "kailab" if how else "ours@names.yaml"
    done = kailab("trial", "run", "--scheduler", scheduler, *how, "pod.yaml")
    assert done.err.count(TOLD) == 1, done.err


def test_commands_read_configurations_in_one_place() -> None:
    """So that none of them can forget to tell."""
    readers = set()
    for module in pkgutil.iter_modules(kailab.cli.__path__):
        tree = ast.parse(inspect.getsource(import_module(f"kailab.cli.{module.name}")))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        if names & {"settings_of", "load_settings", "settings_from"}:
            readers.add(module.name)
    assert readers == {"configurations"}
