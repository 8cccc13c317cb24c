"""Series as a figure or as a table: for notebooks, slides and reports.

matplotlib and pandas are optional (``pip install 'kailab[figures]'``) and loaded when a figure or a table is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
"""Hatches distinguish areas in black and white, and for readers who do not see colours."""


def series_of(source: Path | str | LabHistory | Recording) -> list[MetricSeries]:
    """Return the series of a recorded lab (``Recorder.recording``), of a history, or of a file ``metrics.jsonl`` of evidence. Raises
    EvidenceError."""
    if isinstance(source, Path | str):
        return read_series(Path(source))
    history = LabHistory.of_recording(source) if isinstance(source, Recording) else source
    return collect_series(snapshots_over_time(history)).every()


def frame(series: Iterable[MetricSeries]) -> DataFrame:
    """Return a table with a row per point: ``metric``, ``seconds`` since the lab opened, ``value`` (NaN: the series ended), and a column per label.
    A value holds until the next row of its series. Raises InputError if pandas is not installed."""
    several = list(series)
    labels = sorted({name for item in several for name in item.labels})
    rows = [
        (item.name, when, value, *(item.labels.get(name, "") for name in labels))
        for item in several
        for when, value in item.points
    ]
    table: DataFrame = load_plotting("pandas").DataFrame(rows, columns=["metric", "seconds", "value", *labels])
    return table.astype({"seconds": float, "value": float})


def use_over_time(series: Iterable[MetricSeries], title: str = "") -> Figure:
    """Draw two plots: the GPUs that queues with work hold, stacked, with a line for all GPUs; and the pending PodGroups with the number of pods
    evicted so far. A notebook shows the figure. Raises InputError if matplotlib is not installed, or if the series have no queue with work."""
    several = list(series)
    by_queue = held_by_queue(several)
    if not by_queue:
        raise InputError("there is nothing to draw, because the series have no queue with work")
    moments = sorted({when for item in several for when, _ in item.points})
    figure = _figure(figsize=(10, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    bottom = [0.0] * len(moments)
    for number, (queue, item) in enumerate(by_queue.items()):
        top = [low + (more or 0.0) for low, more in zip(bottom, item.sampled(moments), strict=True)]
        hatch = _HATCHES[number % len(_HATCHES)]
        above.fill_between(
            moments, bottom, top, step="post", label=queue, hatch=hatch, edgecolor="black", linewidth=0.3
        )
        bottom = top
    _steps(above, moments, _find(several, "kailab_gpus", state="all"), label="all GPUs", color="black", linestyle="--")
    _steps(below, moments, _find(several, "kai_queue_depth_total"), label="PodGroups that wait", color="black")
    _steps(below, moments, _find(several, "kailab_evictions_total"), label="pods evicted so far", linestyle=":")
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


def _figure(**options: Any) -> Figure:
    """Return a figure that notebooks show without ``%matplotlib``."""
    base: type[Figure] = load_plotting("matplotlib.figure").Figure

    class Shown(base):  # type: ignore[misc,valid-type]
        def _repr_png_(self) -> bytes:
            content = BytesIO()
            self.savefig(content, format="png")
            return content.getvalue()

    return Shown(**options)


def held_by_queue(series: Iterable[MetricSeries]) -> Mapping[str, MetricSeries]:
    """The series of held GPUs of each queue with work of its own; parent queues would count the same GPUs again."""
    several = list(series)
    working = {item.labels["queue"] for item in several if item.name == "kailab_pods"}
    by_queue = {item.labels["queue_name"]: item for item in several if item.name == "kai_queue_allocated_gpus"}
    return {queue: by_queue[queue] for queue in sorted(working & by_queue.keys())}


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the suffix. Raises InputError for another suffix, and if the file can't be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: expected a name that ends in {', '.join(SUFFIXES)}")
    drawn = BytesIO()
    figure.savefig(drawn, dpi=120, format=path.suffix.lower()[1:])
    write_file(path, drawn.getvalue())


def load_plotting(module: str) -> Any:
    """Import a module of the extra ``figures``. Raises InputError if it is not installed."""
    return import_optional(module, "figures", f"this needs {module.partition('.')[0]}")


def _find(series: Sequence[MetricSeries], name: str, **labels: str) -> list[MetricSeries]:
    return [item for item in series if item.name == name and labels.items() <= item.labels.items()]


def _steps(axes: Any, moments: Sequence[float], several: Sequence[MetricSeries], **options: str) -> None:
    """Draw the sum of series as a step line; nothing without series."""
    if several:
        samples = zip(*(item.sampled(moments) for item in several), strict=True)
        axes.step(moments, [sum(value or 0.0 for value in values) for values in samples], where="post", **options)
