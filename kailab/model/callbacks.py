"""Functions that callers pass to hear how long work goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Tell: TypeAlias = Callable[[str], None]
"""Gets a text for the user."""
Progress: TypeAlias = Callable[[str, int, int], None]
"""Gets the present step, how much is done, and how much there is in all."""
