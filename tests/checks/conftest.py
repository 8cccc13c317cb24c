from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from checks.cli import app
from checks.recorded_files import VARIABLE, shared_folder
from tests.cli.conftest import Done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def checks(home: Path) -> Callable[..., Done]:
    """Runs `python -m checks` in this process."""

    def run(*arguments: str) -> Done:
        result = CliRunner().invoke(app, list(arguments))
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def conformance_folder() -> Path:
    folder = shared_folder() / "conformance"
    if not folder.is_dir():
        pytest.skip(f"no recorded cases at {folder} (set {VARIABLE})")
    return folder
