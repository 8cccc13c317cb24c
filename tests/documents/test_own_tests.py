"""The page about own tests is as the code is, and what it shows works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from kailab.lab.expectations import Expectation
from kailab.pytest_plugin.settings import MARKERS
from tools.own_tests import TARGET, page

PAGE = TARGET.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_page_is_current() -> None:
    assert page() == PAGE, "run `make docs`"


def test_every_word_and_every_mark_is_on_it() -> None:
    words = [name for name in vars(Expectation) if not name.startswith("_")]
    assert len(words) > 15
    assert [name for name in words if f"#### expect(...).{name}\n" not in PAGE] == []
    assert [marker for marker in MARKERS if marker.partition(": ")[2] not in PAGE] == []
    assert "<!--" not in PAGE


def test_its_tests_pass(tmp_path: Path) -> None:
    (first,) = [text for text in blocks("python") if text.startswith("# test_teams.py")]
    (tmp_path / "test_teams.py").write_text(first)
    (fleets,) = [text for text in blocks("python") if "FLEETS" in text]
    (tmp_path / "test_fleets.py").write_text(fleets)
    names: dict[str, Any] = {}
    exec(first, names)
    (tmp_path / "queues.yaml").write_text(names["QUEUES"])
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(names["job"]("train", "research", 4)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_its_recipes_are_yaml_and_keep_the_evidence() -> None:
    recipes = [yaml.safe_load(text) for text in blocks("yaml")]
    assert len(recipes) == 2
    for recipe in recipes:
        assert "evidence/" in str(recipe)
        assert "pytest --junitxml=junit.xml" in str(recipe)
