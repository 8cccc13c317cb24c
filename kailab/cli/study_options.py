"""How the runs of a study are carried out: the options of ``sweep`` and ``capacity``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def side_by_side(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--workers``, ``--dask``."""
    command = click.option(
        "--dask", default="", show_default=False, help="Run on a Dask cluster: its scheduler, tcp://HOST:PORT."
    )(command)
    return click.option(
        "--workers", type=click.IntRange(1, 256), help="Runs side by side here.", show_default="one for each processor"
    )(command)


def check(workers: int | None, dask: str) -> None:
    """Raises InputError where they contradict each other."""
    from kailab.errors import InputError

    if dask and workers is not None:
        raise InputError("--workers: with --dask the cluster has as many as it has")
