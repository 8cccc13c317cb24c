"""Hooks that other plugins and conftest.py can implement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kailab.scheduler.observers import Observer


@pytest.hookspec
def pytest_kailab_observers(item: pytest.Item, lab: str) -> Sequence[Observer]:  # type: ignore[empty-body]
    """Return further observers of a test's lab, which is about to be opened under this name."""
