"""Jobs of one sort in a replay, as a line of its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.replay.summary import Row, Spread

HEADERS = ("JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST")


def cells(row: Row) -> list[str]:
    """Its name, and under each of ``HEADERS``."""
    from kailab.cli.table import age

    def cell(spread: Spread | None, pick: Callable[[Spread], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda one: one.mean, age),
        cell(row.waited, lambda one: one.p50, age),
        cell(row.waited, lambda one: one.p99, age),
        cell(row.took, lambda one: one.mean, age),
        cell(row.slowdown, lambda one: one.mean, lambda number: f"{number:.2f}"),
        str(row.evictions),
        f"{row.asked:.1f}",
        f"{row.lost:.1f}",
    ]
