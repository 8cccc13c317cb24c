"""The fixture ``kailab`` where no kind cluster can be made: said before pytest-kind makes or downloads anything."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

_TEST = """
def test_mine(kailab):
    pass

def test_both(kind_cluster, kailab):
    pass
"""


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", ".", "test_mine.py"]
    environment = {**os.environ, "DOCKER_HOST": f"unix://{folder}/nobody.sock"}
    return subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.skipif(find_spec("pytest_kind") is None, reason="pytest-kind is not installed (kailab[kind])")
def test_no_engine(tmp_path: Path) -> None:
    skipped = _run(tmp_path)
    assert skipped.returncode == 0, skipped.stdout
    assert "2 skipped" in skipped.stdout
    assert "no kind cluster can be created: " in skipped.stdout
    assert "docker command" in skipped.stdout or "Docker engine can't be reached" in skipped.stdout
    refused = _run(tmp_path, "--kailab-required")
    assert refused.returncode == 1
    assert "2 errors" in refused.stdout
    assert not (tmp_path / ".pytest-kind").exists()


@pytest.mark.skipif(find_spec("pytest_kind") is not None, reason="pytest-kind is installed")
def test_no_pytest_kind(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(kailab):\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", ".", "test_mine.py"]
    skipped = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert skipped.returncode == 0, skipped.stdout
    assert "pytest-kind is not installed; install kailab[kind]" in skipped.stdout


def test_a_fixture_of_ones_own_by_that_name(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef kailab():\n    return 42\n")
    (tmp_path / "test_mine.py").write_text("def test_mine(kailab):\n    assert kailab == 42\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--rootdir", ".", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout
