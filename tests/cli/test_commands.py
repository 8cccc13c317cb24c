"""The table of commands: each there is, and what costs nothing before it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import click
import pytest

from kailab.cli.commands import COMMANDS
from kailab.cli.main import app

HEAVY = {
    "aiohttp", "asyncio", "cryptography", "email", "http.client", "jinja2", "jsonschema", "kubernetes", "multiprocessing",
    "numpy", "prometheus_client", "psutil", "pydantic", "pytest", "rich", "ssl", "tenacity", "traceback", "typer", "yaml",
}  # fmt: skip
WORKING = (
    "importlib.metadata", "kailab.components", "kailab.engine.actions", "kailab.evidence.recorder", "kailab.fleet", "kailab.grouping",
    "kailab.lab.settle", "kailab.model.cron", "kailab.model.manifests", "kailab.scheduler.loop", "kailab.workloads", "zoneinfo",
)  # fmt: skip
"""What a lab at work needs: what decides, what acts on kinds, what reads manifests and entry points."""


def imported_by(*arguments: str) -> set[str]:
    """Every module that a command loads, in a process of its own."""
    script = (
        "import sys\nfrom kailab.cli.main import app\n"
        "try: app(prog_name='kailab')\n"
        "finally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_table_is_a_command(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_the_list_of_commands_imports_none() -> None:
    loaded = imported_by("--help")
    assert not loaded & HEAVY
    assert not loaded & {f"kailab.cli.{entry.module}" for entry in COMMANDS.values()}


@pytest.mark.parametrize(
    "command",
    ["get pods", "get pods -o wide", "get queues", "get nodes", "status"],
)
def test_a_look_at_a_lab_loads_neither_engine_nor_libraries(busy, command: str) -> None:
    loaded = imported_by(*command.split())
    assert not loaded & HEAVY
    assert not {name for name in loaded if f"{name}.".startswith(tuple(f"{part}." for part in WORKING))}


@pytest.mark.parametrize("name", WORKING)
def test_what_a_look_does_without_is_there_by_that_name(name: str) -> None:
    assert find_spec(name) is not None


@pytest.mark.parametrize(
    ("words", "offered"),
    [("kailab ge", ["get"]), ("kailab ex", ["explain"]), ("kailab get --no-", ["--no-headers"])],
)
def test_the_shell_completes(home, words: str, offered: list[str]) -> None:
    line = words.split()
    told = {"_KAILAB_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(line) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "kailab"], env={**os.environ, **told}, capture_output=True, text=True, check=True
    )
    assert [each.partition(",")[2] for each in done.stdout.split()] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(kailab, shell: str) -> None:
    done = kailab("completion", shell)
    assert done.code == 0
    assert f"_KAILAB_COMPLETE={shell}_complete" in done.out
