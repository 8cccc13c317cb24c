"""Draw a replay: GPUs held and waiting jobs over time, and the waiting times of each queue's jobs.

matplotlib is optional (``pip install 'kailab[figures]'``) and is imported when a figure is drawn.
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
from kailab.model.multimap import multimap
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.run import CompletedReplay
from kailab.replay.tables import timeline_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_QUEUES = 8
"""Number of lines that remain distinguishable; the queues with the most jobs are drawn."""
_DAY = 24
"""Hours in a day."""
_LINES = ("-", "--", ":", "-.")
"""Line styles distinguish queues in black and white and for colour-blind readers."""
_MARKS = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_NAMES = ("1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d")


def check_figure_target(path: Path) -> None:
    """Check before a replay that a figure can be written to ``path``. Raises InputError."""
    if path.suffix.lower() not in figures.SUFFIXES:
        raise InputError(f"{path}: expected a file name that ends in {', '.join(figures.SUFFIXES)}")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist")
    figures.load_plotting("matplotlib.figure")


def figure_of(replayed: CompletedReplay) -> Figure:
    """Draw three panels: GPUs held, waiting jobs, and the share of each queue's jobs that waited at most a given time.

    A queue's line stays below 1 if some of its jobs never began. Raises InputError if matplotlib is not installed.
    """
    figure: Figure = figures.load_plotting("matplotlib.figure").Figure(figsize=(10, 8), layout="constrained")
    held, waiting, waits = figure.subplots(3, 1, height_ratios=(3, 2, 3))
    waiting.sharex(held)
    _over_time(held, waiting, replayed)
    _waited(waits, replayed)
    figure.suptitle(
        f"{Path(replayed.plan.trace.file).name} on {replayed.plan.fleet.name}: {len(replayed.accounts.works)} jobs"
    )
    return figure


def _over_time(held: Any, waiting: Any, replayed: CompletedReplay) -> None:
    rows = list(timeline_rows(replayed))
    end = replayed.ended - replayed.began
    unit, name = (_DAY * HOUR, "days") if end > 3 * _DAY * HOUR else (HOUR, "hours")
    moments = [at / unit for at, *_ in rows] + [end / unit]
    # Each row is valid until the next one, the last until the end.
    gpus = [milli / WHOLE for _, milli, _, _ in rows]
    held.fill_between(moments, [*gpus, gpus[-1]], step="post", alpha=0.6, label="held")
    held.axhline(replayed.gpus, color="black", linestyle="--", label="all GPUs")
    changed, jobs = waiting_over_time(replayed)
    waiting.fill_between([at / unit for at in changed], jobs, step="post", color="grey")
    held.set_ylabel("GPUs")
    held.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    waiting.set_ylabel("waiting jobs")
    waiting.set_xlabel(f"{name} since the first arrival")
    for axes in (held, waiting):
        axes.set_ylim(bottom=0)
        axes.margins(x=0)


def _waited(axes: Any, replayed: CompletedReplay) -> None:
    for number, (queue, waits, jobs) in enumerate(waits_by_queue(replayed)):
        # The axis is logarithmic, so waits below one second are drawn at one second.
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
    axes.set_xlabel("waited at most")
    axes.set_ylabel("share of the queue's jobs")
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def waiting_over_time(replayed: CompletedReplay) -> tuple[list[int], list[int]]:
    """Moments in seconds after the first arrival, and the number of waiting jobs from each on.

    A job that begins in the second of its arrival does not count as waiting.
    """
    changes: Counter[int] = Counter({0: 0, replayed.ended - replayed.began: 0})
    for work in replayed.accounts.works.values():
        changes[work.arrived - replayed.began] += 1
        if work.began is not None:
            changes[work.began - replayed.began] -= 1
    moments = sorted(changes)
    return moments, list(accumulate(changes[at] for at in moments))


def waits_by_queue(replayed: CompletedReplay) -> Iterator[tuple[str, Sequence[int], int]]:
    """For the queues with the most jobs, yield (queue, sorted waits in seconds of the jobs that began, number of
    jobs)."""
    waits = multimap(
        (work.queue, None if work.began is None else work.began - work.arrived)
        for work in replayed.accounts.works.values()
    )
    for queue in sorted(waits, key=lambda name: (-len(waits[name]), name))[:MOST_QUEUES]:
        yield queue, sorted(wait for wait in waits[queue] if wait is not None), len(waits[queue])
