from __future__ import annotations

from pathlib import Path

import pytest

from checks.shared import VARIABLE, shared_folder


@pytest.fixture(scope="session")
def conformance_folder() -> Path:
    folder = shared_folder() / "conformance"
    if not folder.is_dir():
        pytest.skip(f"no recorded cases at {folder} (set {VARIABLE})")
    return folder
