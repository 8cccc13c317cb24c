"""Hooks that kailab's plugin calls, for other plugins and for conftest.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kailab.scheduler.observers import Observer


@pytest.hookspec
def pytest_kailab_observers(item: pytest.Item, lab: str) -> Sequence[Observer]:  # type: ignore[empty-body]
    """Who else is to be told what happens in a test's lab that is about to be opened under this name."""
