"""Options of ``replay``, ``sweep`` and ``capacity``, and of the last two, which run replays in parallel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kailab.cli import options
from kailab.cli.options import parse_seconds
from kailab.errors import InputError

_ALL = (
    options.path_option(
        "--queues", help="File of Queues and PriorityClasses, with a leaf queue named after each team."
    ),
    options.flag(
        "--quota-by-share", help="Set each team's quota in proportion to its share of the GPU time in the trace."
    ),
    options.flag("--one-queue", help="Put the jobs of all teams into one queue."),
    options.text_option(
        "--format",
        "form",
        help="Format of the trace: openb, philly, helios, acme, pai, sacct or csv. By default kailab recognises it by its columns.",
    ),
    options.text_option(
        "--columns", help="With a CSV: the name of the column for each value: submit=NAME,seconds=NAME,gpus=NAME ..."
    ),
    options.flag("--skip-broken", help="Skip lines that can't be read, with a warning for each."),
    options.text_option("--for", "duration", help="Stop after this lab time: 12h, 7d."),
    options.text_option(
        "--checkpoint",
        help="Interval at which jobs save their work: 30m. By default evicted jobs restart from the beginning.",
    ),
    options.text_option(
        "--checkpoint-cost",
        "saving",
        help="Time that each save takes, in which no work is done: 20s. Needs --checkpoint.",
    ),
    options.text_option(
        "--restart",
        help="Time that an evicted job needs, once it runs again, before it continues its work: 30s, or 0s. With this option the job is queued again at once. Without it, after Kubernetes' back-off.",
    ),
    click.option(
        "--estimates",
        type=options.FiniteFloatRange(min=0),
        help="Draw the run time that users announce: between the real time and (1 + this factor) times as much. 0: the real time. Estimates of the trace are kept.",
    ),
    options.flag("--arrivals-only", help="Jobs arrive but never end."),
    options.scheduler_config,
    click.option(
        "--policy", "policies", multiple=True, help="Scheduling policy: fifo, fgd, best-fit ... May be repeated."
    ),
    options.path_option("--prices", help="File of prices, to report cost and energy (docs/cost.md)."),
)


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay as they are given."""

    queues: Path | None
    quota_by_share: bool
    one_queue: bool
    form: str
    columns: str
    skip_broken: bool
    duration: str
    checkpoint: str
    saving: str
    restart: str
    estimates: float | None
    arrivals_only: bool
    config: Path | None
    policies: tuple[str, ...]
    prices: Path | None

    def check(self) -> None:
        """Raises InputError if options contradict each other."""
        if self.saving and not self.checkpoint:
            raise InputError("--checkpoint-cost: needs --checkpoint, because nothing is saved without it")
        for option, given in (("--restart", self.restart), ("--estimates", self.estimates is not None)):
            if given and self.arrivals_only:
                raise _without_end(option)
        if sum((self.queues is not None, self.quota_by_share, self.one_queue)) > 1:
            raise InputError("--queues, --quota-by-share and --one-queue: expected at most one of them")
        if self.arrivals_only and self.checkpoint:
            raise _without_end("--checkpoint")

    @property
    def queues_mode(self) -> str:
        """The mode of queues in the form of ``queues_for``."""
        from kailab.replay.queues import BY_SHARE, NO_QUOTA, ONE

        if self.queues is not None:
            return str(self.queues.expanduser().absolute())
        return BY_SHARE if self.quota_by_share else ONE if self.one_queue else NO_QUOTA

    def seconds(self) -> dict[str, int]:
        """The times that are given, by their names in a study. Raises InputError."""
        texts = (
            ("for", "--for", self.duration, 1),
            ("checkpoint", "--checkpoint", self.checkpoint, 1),
            ("checkpointCost", "--checkpoint-cost", self.saving, 1),
            ("restart", "--restart", self.restart, 0),
        )
        found = {key: whole_seconds(option, text, least) for key, option, text, least in texts}
        return {key: seconds for key, seconds in found.items() if seconds is not None}


def _without_end(option: str) -> InputError:
    return InputError(f"{option}: has no effect with --arrivals-only, because jobs never end; leave out one of them")


replay_option_group = options.grouped("chosen", ReplayOptions, *_ALL)
"""All options of a replay, for a command that gets them as ``chosen``."""


def check_clusters(clusters: Path | None, fleet: str, dispatch: str) -> None:
    """Raises InputError if the options of clusters contradict each other."""
    if (clusters is None) == (not fleet):
        raise InputError("--fleet and --clusters: expected exactly one of them")
    if clusters is None and dispatch:
        raise InputError("--dispatch: needs --clusters")


def whole_seconds(option: str, text: str, least: int = 1) -> int | None:
    if not text:
        return None
    seconds = parse_seconds(option, text)
    if seconds < least or seconds != int(seconds):
        raise InputError(f"{option}: {text}: expected whole seconds, {'one' if least else 'none'} or more")
    return int(seconds)


def parse_columns(text: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, column = part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise InputError(f"--columns: {part!r}: expected NAME=COLUMN, as in submit=timestamp")
        if name.strip() in columns:
            raise InputError(f"--columns: {part!r}: {name.strip()} is declared already; expected each once")
        columns[name.strip()] = column.strip()
    return columns


def parallel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--workers`` and ``--dask`` to a command."""
    command = options.text_option("--dask", help="Run on a Dask cluster: address of its scheduler, tcp://HOST:PORT.")(
        command
    )
    return click.option(
        "--workers",
        type=click.IntRange(1, 256),
        help="Number of parallel runs on this machine.",
        show_default="one per processor",
    )(command)


def check_study_options(workers: int | None, dask: str) -> None:
    """Raises InputError if options contradict each other."""
    if dask and workers is not None:
        raise InputError("--workers: can't be used with --dask, because the Dask cluster has its own workers")
