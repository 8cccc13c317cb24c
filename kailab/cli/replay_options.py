"""Options of all commands that replay traces, and of those that run several replays in parallel (``sweep``, ``capacity``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from kailab.cli import options

Command = TypeVar("Command", bound=Callable[..., Any])

_ALL = (
    click.option(
        "--queues",
        type=options.PATH,
        help="A file of Queues, and PriorityClasses: each team has a leaf of its name there.",
    ),
    click.option("--quota-by-share", is_flag=True, help="Quotas from each team's part of the GPU time in the trace."),
    click.option("--one-queue", is_flag=True, help="All jobs in one queue, whoever's they are."),
    click.option(
        "--format",
        "form",
        default="",
        show_default=False,
        help="openb, philly, helios, acme, pai, sacct or csv, if not known by its columns.",
    ),
    click.option("--columns", default="", show_default=False, help="Of a CSV: submit=NAME,seconds=NAME,gpus=NAME ..."),
    click.option(
        "--skip-broken", is_flag=True, help="Replay without lines that can't be read; each is told and counted."
    ),
    click.option("--for", "duration", default="", show_default=False, help="Cut it off after so long: 12h, 7d."),
    click.option(
        "--checkpoint",
        default="",
        show_default=False,
        help="Jobs save their work so often: 30m. Else evicted ones begin anew.",
    ),
    click.option("--arrivals-only", is_flag=True, help="Jobs arrive and never end."),
    click.option(
        "--scheduler-config",
        "--config",
        "config",
        type=options.PATH,
        help="The scheduler's configuration, as KAI reads it.",
    ),
    click.option(
        "--policy", "policies", multiple=True, help="A policy by its name: fifo, fgd, best-fit ... May be repeated."
    ),
    click.option("--prices", type=options.PATH, help="A file of prices: tells cost and energy (docs/cost.md)."),
)


def replay_option_group(command: Command) -> Command:
    """With all of them."""
    for one in reversed(_ALL):
        command = one(command)
    return command


def check_replay_options(
    queues: Path | None, quota_by_share: bool, one_queue: bool, arrivals_only: bool, checkpoint: str
) -> None:
    """Whether they go together. Raises InputError."""
    from kailab.errors import InputError

    if sum((queues is not None, quota_by_share, one_queue)) > 1:
        raise InputError("--queues, --quota-by-share and --one-queue: expected one of them at most")
    if arrivals_only and checkpoint:
        raise InputError("--checkpoint: with --arrivals-only no job has an end that it could come nearer to")


def check_clusters(clusters: Path | None, fleet: str, dispatch: str) -> None:
    """Whether what is said of clusters goes together. Raises InputError."""
    from kailab.errors import InputError

    if (clusters is None) == (not fleet):
        raise InputError("--fleet and --clusters: expected one of them")
    if clusters is None and dispatch:
        raise InputError("--dispatch: expected --clusters with it")


def queues_mode(queues: Path | None, quota_by_share: bool, one_queue: bool) -> str:
    """As ``queues_for`` takes it."""
    return quota_mode(quota_by_share, one_queue) if queues is None else str(queues.expanduser().absolute())


def quota_mode(quota_by_share: bool, one_queue: bool) -> str:
    """Without a file of Queues."""
    from kailab.replay.queues import BY_SHARE, NO_QUOTA, ONE

    return BY_SHARE if quota_by_share else ONE if one_queue else NO_QUOTA


def whole_seconds(option: str, text: str) -> int | None:
    from kailab.cli.options import parse_seconds
    from kailab.errors import InputError

    if not text:
        return None
    found = parse_seconds(option, text)
    if found < 1 or found != int(found):
        raise InputError(f"{option}: {text}: expected whole seconds, one or more")
    return int(found)


def parse_columns(text: str) -> dict[str, str]:
    from kailab.errors import InputError

    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        own, equals, named = part.partition("=")
        if not equals or not own.strip() or not named.strip():
            raise InputError(f"--columns: {part!r}: expected NAME=COLUMN, as in submit=timestamp")
        if own.strip() in found:
            raise InputError(f"--columns: {part!r}: {own.strip()} is declared already; expected each once")
        found[own.strip()] = named.strip()
    return found


def parallel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--workers``, ``--dask``."""
    command = click.option(
        "--dask", default="", show_default=False, help="Run on a Dask cluster: its scheduler, tcp://HOST:PORT."
    )(command)
    return click.option(
        "--workers", type=click.IntRange(1, 256), help="Runs side by side here.", show_default="one for each processor"
    )(command)


def check_study_options(workers: int | None, dask: str) -> None:
    """Raises InputError where they contradict each other."""
    from kailab.errors import InputError

    if dask and workers is not None:
        raise InputError("--workers: with --dask the cluster has as many as it has")
