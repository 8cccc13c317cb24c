"""Commands in README.md and docs/: each exists with its options, and those of the page about one's own cluster run in order."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.lab.lab import Lab
from kailab.model.manifests import load_text
from tests.builders import job

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
OWN = ROOT / "docs" / "your-own-cluster.md"
_LINE = re.compile(r"^(?:    |\$ |    \$ )?(kailab (?!is )[a-z-]+.*)$")
_ENDS = re.compile(r"\s(?:#|\||&&|>|2>|<|;).*$")


def commands_in(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and words of each command of kailab in a code block."""
    fenced, before = False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        # An indented line after text goes on with it.
        indented = line.startswith("    ") and (not before.strip() or before.startswith("    "))
        before = line
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif (match := _LINE.match(line)) and (fenced or indented):
            text = _ENDS.sub("", match[1]).removesuffix("\\")
            try:
                yield number, shlex.split(text)[1:]
            except ValueError:
                continue  # a quoted text goes on in the next line


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_command_exists_with_its_options(page: Path) -> None:
    wrong = []
    for number, words in commands_in(page):
        command: click.Command = app
        context = click.Context(app, info_name="kailab")
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, *words = words
            found = command.get_command(context, name)
            if found is None:
                wrong.append(f"{page.name}:{number}: no command {name}")
                break
            command, context = found, click.Context(found, parent=context, info_name=name)
        else:
            if isinstance(command, click.Group):
                continue
            try:
                command.make_parser(context).parse_args([word for word in words if word not in ("--or", "...")])
            except click.UsageError as error:
                wrong.append(f"{page.name}:{number}: {error.format_message()}")
    assert wrong == []


QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: research}
spec: {resources: {gpu: {quota: %d, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: vision}
spec: {resources: {gpu: {quota: 16, limit: -1, overQuotaWeight: 1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page's kubectl writes, of a cluster that is full."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAILAB_STATE", raising=False)
    (tmp_path / "cluster").mkdir()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    with Lab.open() as lab:
        lab.apply([space, *load_text(QUEUES % 16).objects, job("render", "vision", 32)])
        lab.settle()
        lab.apply(job("train", "research", 20), namespace="research")
        lab.settle()
        items = [obj for kind in lab.cluster.kinds() for obj in lab.cluster.list(kind)]
    nodes = [obj for obj in items if obj["kind"] == "Node"]
    (tmp_path / "cluster" / "state.json").write_text(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}))
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "items": nodes, "kind": "List"}))
    (tmp_path / "queues.yaml").write_text(QUEUES % 24)
    return tmp_path


def test_the_page_about_ones_own_cluster_works(home: Path) -> None:
    text = OWN.read_text(encoding="utf-8")
    lines = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    assert len(lines) > 15
    for line in lines:
        program, *words = shlex.split(line)
        if program != "kailab":
            assert program in ("mkdir", "kubectl")
            continue
        done = CliRunner().invoke(app, words)
        found = 1 if words[0] in ("diff", "audit") else 0
        assert done.exit_code in (0, found), (line, done.output, done.stderr)


def test_the_test_of_that_page_passes(home: Path) -> None:
    (text,) = re.findall(r"^```python\n(.*?)^```", OWN.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    (home / "test_queues.py").write_text(text)
    (home / "queues.yaml").write_text(QUEUES % 16)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_queues.py"]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
