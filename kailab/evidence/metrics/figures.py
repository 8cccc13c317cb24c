"""Series as a figure or as a table: for notebooks, slides and reports.

matplotlib and pandas are optional (``pip install 'kailab[figures]'``) and loaded when a figure or a table is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.errors import InputError
from kailab.evidence.history import LabHistory
from kailab.evidence.metrics.families import MetricSeries, collect_series
from kailab.evidence.metrics.over_time import read_series, snapshots_over_time
from kailab.evidence.recording import Recording
from kailab.evidence.run import write_file
from kailab.model.optional_imports import import_optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

SUFFIXES = (".png", ".svg", ".pdf")
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo", "++")
"""Areas are told apart by these too: in black and white, and by whoever sees no colours."""


def series_of(source: Path | str | LabHistory | Recording) -> list[MetricSeries]:
    """Of a lab in hand (the ``recording`` of a Recorder that observes it), of a run in hand, or of a file ``metrics.jsonl`` of evidence.
    Raises EvidenceError."""
    if isinstance(source, Path | str):
        return read_series(Path(source))
    history = LabHistory.of_recording(source) if isinstance(source, Recording) else source
    return collect_series(snapshots_over_time(history)).every()


def frame(series: Iterable[MetricSeries]) -> DataFrame:
    """A row for each point: ``metric``, ``seconds`` since the lab opened, ``value`` (NaN: the series ended), and a column for each label.
    A value holds until the next row of its series. Raises InputError where pandas is not installed."""
    several = list(series)
    labels = sorted({name for one in several for name in one.labels})
    rows = [
        (one.name, when, value, *(one.labels.get(name, "") for name in labels))
        for one in several
        for when, value in one.points
    ]
    found: DataFrame = load_plotting("pandas").DataFrame(rows, columns=["metric", "seconds", "value", *labels])
    return found.astype({"seconds": float, "value": float})


def use_over_time(series: Iterable[MetricSeries], title: str = "") -> Figure:
    """GPUs that the queues with work hold, stacked, below the line of all GPUs; and below it how many PodGroups wait and how many pods
    were evicted so far. A notebook shows it. Raises InputError where matplotlib is not installed, or nobody looked at queues."""
    several = list(series)
    held = held_by_queue(several)
    if not held:
        raise InputError("the series tell of no queue with work, so there is nothing to draw")
    moments = sorted({when for one in several for when, _ in one.points})
    figure = _figure(figsize=(10, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    bottom = [0.0] * len(moments)
    for number, (queue, one) in enumerate(held.items()):
        top = [low + more for low, more in zip(bottom, _sampled(one, moments), strict=True)]
        hatch = _HATCHES[number % len(_HATCHES)]
        above.fill_between(
            moments, bottom, top, step="post", label=queue, hatch=hatch, edgecolor="black", linewidth=0.3
        )
        bottom = top
    _steps(above, moments, _one(several, "kailab_gpus", state="all"), label="all GPUs", color="black", linestyle="--")
    _steps(below, moments, _one(several, "kai_queue_depth_total"), label="PodGroups that wait", color="black")
    _steps(below, moments, *_all(several, "kailab_evictions_total"), label="pods evicted so far", linestyle=":")
    above.set_ylabel("GPUs held")
    below.set_ylabel("number")
    below.set_xlabel("seconds since the lab opened")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    if title:
        figure.suptitle(title)
    return figure


def _figure(**how: Any) -> Figure:
    """One that a notebook shows by itself: it shows matplotlib's own only after ``%matplotlib``, and else prints their size."""
    base: type[Figure] = load_plotting("matplotlib.figure").Figure

    class Shown(base):  # type: ignore[misc,valid-type]
        def _repr_png_(self) -> bytes:
            told = BytesIO()
            self.savefig(told, format="png")
            return told.getvalue()

    return Shown(**how)


def held_by_queue(series: Iterable[MetricSeries]) -> Mapping[str, MetricSeries]:
    """GPUs that each queue with work of its own holds: those above it count the same GPUs again."""
    several = list(series)
    working = {one.labels["queue"] for one in several if one.name == "kailab_pods"}
    found = {one.labels["queue_name"]: one for one in several if one.name == "kai_queue_allocated_gpus"}
    return {queue: found[queue] for queue in sorted(working & found.keys())}


def save_figure(figure: Figure, path: Path) -> None:
    """As its suffix says, whole or not at all. Raises InputError for another suffix, and where the file can't be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    drawn = BytesIO()
    figure.savefig(drawn, dpi=120, format=path.suffix.lower()[1:])
    write_file(path, drawn.getvalue())


def load_plotting(module: str) -> Any:
    """A module of the extra ``figures``. Raises InputError where it is not installed."""
    return import_optional(module, "figures", f"this needs {module.partition('.')[0]}")


def _one(series: Sequence[MetricSeries], name: str, **labels: str) -> MetricSeries | None:
    return next((one for one in series if one.name == name and labels.items() <= one.labels.items()), None)


def _all(series: Sequence[MetricSeries], name: str) -> list[MetricSeries | None]:
    return [one for one in series if one.name == name]


def _steps(axes: Any, moments: Sequence[float], *several: MetricSeries | None, **how: str) -> None:
    """The sum of series, as a line."""
    known = [one for one in several if one is not None]
    if known:
        sums = [sum(values) for values in zip(*(_sampled(one, moments) for one in known), strict=True)]
        axes.step(moments, sums, where="post", **how)


def _sampled(one: MetricSeries, moments: Sequence[float]) -> Iterator[float]:
    """As ``MetricSeries.at`` at each of the moments, which are in order: points are gone through once. 0 where there is none."""
    points = iter(one.points)
    value, following = 0.0, next(points, None)
    for when in moments:
        while following is not None and following[0] <= when:
            value, following = following[1] or 0.0, next(points, None)
        yield value
