"""Jobs of one sort in a replay, as a line of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kailab.replay.summary import Row, Spread
    from kailab.replay.unbegun import Unbegun

HEADERS = ("JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST")


def jobs_told(total: Row, in_trace: int) -> str:
    """How many jobs it was; with a replay that was cut off not all of the trace."""
    from kailab.lab.wording import count

    return count(total.jobs, "job") if total.jobs == in_trace else f"The first {total.jobs} of {in_trace} jobs"


def left_out_told(left_out: Mapping[str, int]) -> Iterator[str]:
    """``left_out``: lines of the trace that gave no job, by their reason."""
    from kailab.lab.wording import count

    for reason, number in left_out.items():
        yield f"Left out: {count(number, 'line')}: {reason}"


def unbegun_told(unbegun: Sequence[Unbegun], cluster: str = "") -> Iterator[str]:
    """``cluster``: in which of several."""
    from kailab.lab.wording import count

    where = f" in {cluster}" if cluster else ""
    for one in unbegun:
        yield f"Never began{where}: {count(one.jobs, 'job')}, {one.reason}; {one.example}: {one.message}"


def cells(row: Row) -> list[str]:
    """Its name, and under each of ``HEADERS``."""
    from kailab.cli.table import span

    def cell(spread: Spread | None, pick: Callable[[Spread], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda one: one.mean, span),
        cell(row.waited, lambda one: one.p50, span),
        cell(row.waited, lambda one: one.p99, span),
        cell(row.took, lambda one: one.mean, span),
        cell(row.slowdown, lambda one: one.mean, lambda number: f"{number:.2f}"),
        str(row.evictions),
        f"{row.asked:.1f}",
        f"{row.lost:.1f}",
    ]
