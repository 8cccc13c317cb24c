"""A replay as a figure: GPUs held and jobs that wait over time, and how long the jobs of each queue waited.

matplotlib is optional (``pip install 'kailab[figures]'``) and loaded when a figure is made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.errors import InputError
from kailab.evidence.metrics import figures
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.run import CompletedReplay
from kailab.replay.tables import timeline_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_QUEUES = 8
"""Lines that can still be told apart; the queues with most jobs are drawn."""
_DAY = 24
"""Hours."""
_LINES = ("-", "--", ":", "-.")
"""Queues are told apart by these too: in black and white, and by whoever sees no colours."""
_MARKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_NAMES = ("1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d")


def check_target(path: Path) -> None:
    """Before anything is replayed: whether a figure can be written there. Raises InputError."""
    if path.suffix.lower() not in figures.SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(figures.SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent}")
    figures.load_plotting("matplotlib.figure")


def figure_of(replayed: CompletedReplay) -> Figure:
    """GPUs held below the line of all GPUs; jobs that wait; and which part of each queue's jobs had waited no longer than so. Jobs that never began
    wait without end: a queue's line that stays below 1 has such. Raises InputError where matplotlib is not installed."""
    found: Figure = figures.load_plotting("matplotlib.figure").Figure(figsize=(10, 8), layout="constrained")
    held, waiting, waits = found.subplots(3, 1, height_ratios=(3, 2, 3))
    waiting.sharex(held)
    _over_time(held, waiting, replayed)
    _waited(waits, replayed)
    found.suptitle(
        f"{Path(replayed.plan.trace.file).name} on {replayed.plan.fleet.name}: {len(replayed.accounts.works)} jobs"
    )
    return found


def _over_time(held: Any, waiting: Any, replayed: CompletedReplay) -> None:
    rows = list(timeline_rows(replayed))
    end = replayed.ended - replayed.began
    unit, name = (_DAY * HOUR, "days") if end > 3 * _DAY * HOUR else (HOUR, "hours")
    moments = [at / unit for at, *_ in rows] + [end / unit]
    # Each row holds until the next; the last until the end.
    gpus = [milli / WHOLE for _, milli, _, _ in rows]
    held.fill_between(moments, [*gpus, gpus[-1]], step="post", alpha=0.6, label="held")
    held.axhline(replayed.gpus, color="black", linestyle="--", label="all GPUs")
    changed, jobs = waiting_jobs(replayed)
    waiting.fill_between([at / unit for at in changed], jobs, step="post", color="grey")
    held.set_ylabel("GPUs")
    held.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    waiting.set_ylabel("jobs that wait")
    waiting.set_xlabel(f"{name} since the first arrival")
    for axes in (held, waiting):
        axes.set_ylim(bottom=0)
        axes.margins(x=0)


def _waited(axes: Any, replayed: CompletedReplay) -> None:
    for number, (queue, waits, jobs) in enumerate(waits_by_queue(replayed)):
        # Below a second is drawn at one: a logarithm has no 0.
        moments = sorted({max(1, wait) for wait in waits})
        parts = [bisect_right(waits, at) / jobs for at in moments]
        most = [*moments, _MARKS[-1]] if not moments or moments[-1] < _MARKS[-1] else moments
        style = _LINES[number % len(_LINES)]
        axes.step(
            most, parts + [len(waits) / jobs] * (len(most) - len(parts)), where="post", label=queue, linestyle=style
        )
    axes.set_xscale("log")
    axes.set_xlim(_MARKS[0], _MARKS[-1])
    axes.set_xticks(_MARKS, labels=_NAMES)
    axes.set_xticks([], minor=True)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("waited no longer than")
    axes.set_ylabel("part of the queue's jobs")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def waiting_jobs(replayed: CompletedReplay) -> tuple[list[int], list[int]]:
    """Moments, in seconds after the first arrival, and how many jobs wait from each on. One that began in the second in which it came never waited."""
    changes: Counter[int] = Counter({0: 0, replayed.ended - replayed.began: 0})
    for work in replayed.accounts.works.values():
        changes[work.arrived - replayed.began] += 1
        if work.began is not None:
            changes[work.began - replayed.began] -= 1
    moments = sorted(changes)
    return moments, list(accumulate(changes[at] for at in moments))


def waits_by_queue(replayed: CompletedReplay) -> Iterator[tuple[str, Sequence[int], int]]:
    """Of the queues with most jobs: the waits of those that began, in seconds and in order, and how many jobs arrived."""
    found: dict[str, list[int | None]] = {}
    for work in replayed.accounts.works.values():
        found.setdefault(work.queue, []).append(None if work.began is None else work.began - work.arrived)
    for queue in sorted(found, key=lambda name: (-len(found[name]), name))[:MOST_QUEUES]:
        yield queue, sorted(wait for wait in found[queue] if wait is not None), len(found[queue])
