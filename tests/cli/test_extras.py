"""kailab without the libraries of its extras: the embedded lab works, and what needs an extra names it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]

HIDDEN = """
import sys
for library in {libraries!r}:
    sys.modules[library] = None
sys.argv = ["kailab", *{arguments!r}]
from kailab.cli.main import main
main()
"""


def run_without(libraries: tuple[str, ...], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = HIDDEN.format(libraries=libraries, arguments=list(arguments))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_embedded_lab_needs_no_extra(tmp_path) -> None:
    for arguments in (("up", "--fleet", "lesson"), ("get", "nodes"), ("status",), ("down",)):
        done = run_without(("aiohttp", "cryptography"), *arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_help_of_every_command_needs_no_extra(tmp_path) -> None:
    program = """
import sys
for library in ("aiohttp", "cryptography"):
    sys.modules[library] = None
import click
from kailab.cli.main import main
from kailab.cli.commands import SECTIONS
for name in [name for section in SECTIONS.values() for name in section]:
    sys.argv = ["kailab", name, "--help"]
    try:
        main()
    except SystemExit as end:
        assert not end.code, name
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("hidden", "arguments", "message"),
    [
        ("cryptography", ("up", "--backend", "controlplane"), "a real cluster needs cryptography"),
        ("aiohttp", ("snapshot", "take", "s.kailab", "--kubeconfig", "k"), "a real cluster needs aiohttp"),
        ("cryptography", ("evidence", "keygen", "key"), "signing evidence needs cryptography"),
        ("aiohttp", ("serve",), "the live page needs aiohttp"),
    ],
)
def test_a_missing_extra_is_named(tmp_path, hidden: str, arguments: tuple[str, ...], message: str) -> None:
    done = run_without((hidden,), *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "pip install 'kailab[" in done.stderr


def test_doctor_reports_a_missing_extra(tmp_path) -> None:
    done = run_without(("cryptography",), "doctor", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install 'kailab[cluster]'" in done.stdout


def test_extras_install_what_the_code_requires_of_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {
        name: {Requirement(one).name for one in several} for name, several in project["optional-dependencies"].items()
    }
    calls = [
        ast.literal_eval(ast.Tuple([*node.args[:2]], ast.Load()))
        for path in (ROOT / "kailab").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require_extra"
    ]
    assert len(calls) >= 3
    for extra, libraries in calls:
        assert set(libraries) == extras[extra]
