"""What a replay is written to: tables, a figure, metrics over time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kailab.cli import options, replay_options

if TYPE_CHECKING:
    from kailab.replay.replaying import Replayed


class Files(NamedTuple):
    """As far as asked for. ``every``: seconds between samples of ``series``, None if not said. ``others``: what else the command reads or writes, by how
    it is told."""

    jobs: Path | None
    timeline: Path | None
    plot: Path | None
    series: Path | None
    every: int | None
    others: Mapping[str, Path]

    def check(self, *, clusters: bool) -> None:
        """Before anything is replayed. ``clusters``: on several. Raises InputError."""
        from kailab.errors import InputError
        from kailab.replay import plotting, tables

        for path in filter(None, (self.jobs, self.timeline)):
            tables.check_target(path)
        if self.plot is not None:
            plotting.check_target(self.plot)
        if self.every is not None and self.series is None:
            raise InputError("--every: expected --series with it")
        if self.series is not None and not self.series.parent.is_dir():
            raise InputError(f"{self.series}: there is no folder {self.series.parent}")
        if self.series is not None and self.series.is_dir():
            raise InputError(f"{self.series}: it is a folder; expected a file's name")
        self._check_apart()
        for option, drawn in (("--plot", self.plot), ("--series", self.series)):
            if clusters and drawn is not None:
                raise InputError(f"{option}: not with --clusters; --timeline has what each cluster held over time")

    def _check_apart(self) -> None:
        """No file is written over another one."""
        from kailab.errors import InputError

        own = {"--jobs": self.jobs, "--timeline": self.timeline, "--plot": self.plot, "--series": self.series}
        taken = {path.resolve(): name for name, path in self.others.items()}
        for name, target in own.items():
            if target is None:
                continue
            other = taken.setdefault(target.resolve(), name)
            if other != name:
                raise InputError(f"{name} {target}: {other} is that file; expected another one")

    def write(self, done: Replayed) -> None:
        """Raises InputError."""
        from kailab.evidence.metrics import figures, text
        from kailab.evidence.run import write_file
        from kailab.replay import plotting, tables

        if self.jobs is not None:
            tables.write(self.jobs, tables.JOBS, tables.job_rows(done))
        if self.timeline is not None:
            tables.write(self.timeline, tables.TIMELINE, tables.timeline_rows(done))
        if self.plot is not None:
            figures.save(plotting.figure_of(done), self.plot)
        if self.series is not None and done.meter is not None:
            told = text.of_series(done.meter.series, done.opened, done.meter.every)
            write_file(self.series, told.encode())


def of_files(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say so, given to the command as ``files``."""

    @click.option("--jobs", type=options.PATH, help="Write a row for each job there: .csv or .parquet.")
    @click.option("--timeline", type=options.PATH, help="Write the GPUs held over time there: .csv or .parquet.")
    @click.option("--plot", type=options.PATH, help="Draw use and waits into a file: .png, .svg or .pdf.")
    @click.option("--series", type=options.PATH, help="Write metrics over time there, as OpenMetrics text.")
    @click.option(
        "--every",
        default="",
        show_default=False,
        help="With --series: so long between samples: 5m. Else a 300th of the time of arrivals.",
    )
    @functools.wraps(command)
    def with_files(
        *, jobs: Path | None, timeline: Path | None, plot: Path | None, series: Path | None, every: str, **given: Any
    ) -> None:
        seconds = replay_options.seconds("--every", every)
        command(files=Files(jobs, timeline, plot, series, seconds, _others(given)), **given)

    return with_files


def _others(given: Mapping[str, Any]) -> dict[str, Path]:
    """What of a command's parameters is a file, by how it is told."""
    from kailab.scheduler.settings.policy_files import is_file

    found = {}
    for parameter in click.get_current_context().command.params:
        path = given.get(parameter.name or "")
        if parameter.name == "fleet" and path:  # a name, or a file
            path = Path(path)
        if isinstance(path, Path):
            found[parameter.opts[0] if isinstance(parameter, click.Option) else f"the {parameter.name}"] = path
    for name in (*given.get("policies", ()), given.get("dispatch", "")):
        if is_file(name):
            found[f"the policy {name}"] = Path(name.rpartition(":")[0])
    return found
