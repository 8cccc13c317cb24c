"""``health``: how the scheduler of a lab, or a scheduler as a process, is doing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.advice.health.report import Health

SHOWN = 5
"""Beneficiaries of evictions that are told where not all is asked for."""


@click.command()
@click.option("--window", default="10m", help="Look at evictions of so long: 30s, 5m, 1h30m, 2d.")
@click.option(
    "--decisions", type=options.PATH, help="Instead of a lab: the file that `kailab scheduler run --decisions` writes."
)
@click.option("--url", default="", help="Instead of a lab: where a scheduler serves its health and metrics.")
@click.option("--all", "everything", is_flag=True, help="Everybody for whom pods were evicted.")
@options.output
@options.state
def health(window: str, decisions: Path | None, url: str, everything: bool, output: TextOrJson, state: Path) -> None:
    """Say how the scheduler is doing: its last cycle, binds that the cluster refuses, evictions and whom they serve,
    workloads that evict each other for ever, node pools and queues that nobody serves, binds that do not show.
    Exits with 1 if it is not healthy."""
    from kailab.cli.options import parse_seconds
    from kailab.errors import InputError

    seconds = parse_seconds("--window", window)
    if seconds <= 0:
        raise InputError(f"--window: {window}: expected more than nothing")
    found = _looked_at(seconds, decisions, url, state)
    if output is TextOrJson.json:
        terminal.say(json.dumps(found.data(), indent=2))
    else:
        _say(found, everything)
    if not found.healthy:
        raise click.exceptions.Exit(1)


def _looked_at(seconds: float, decisions: Path | None, url: str, state: Path) -> Health:
    from kailab.advice.health import health as of_lab
    from kailab.advice.health import health_of_process

    if decisions is None and not url:
        with labfile.read_lab(state) as lab:
            return of_lab(lab, seconds)
    from kailab.evidence.decision_file import read_decisions

    return health_of_process(None if decisions is None else read_decisions(decisions), url or None, seconds)


def _say(found: Health, everything: bool) -> None:
    from kailab.lab.wording import count

    terminal.say(f"{found.scheduler}: {'healthy' if found.healthy else 'not healthy'}")
    for problem in found.problems:
        terminal.say(f"  {problem}")
    if (cycle := found.cycle) is not None:
        took = "" if cycle.took is None else f", took {cycle.took:.3g} s"
        terminal.say(
            f"Last cycle: number {cycle.number}, {cycle.age:.3g} s ago{took}; {cycle.bound} bound, {cycle.evicted} evicted, "
            f"{count(cycle.waiting, 'group')} left waiting"
        )
    evictions = found.evictions
    terminal.say(f"Evictions: {evictions.pods} in {evictions.seconds:.4g} s ({evictions.per_minute:.3g} a minute)")
    for one in evictions.served if everything else evictions.served[:SHOWN]:
        whom = f"for {one.beneficiary} of queue {one.queue}" if one.beneficiary else "for nobody"
        terminal.say(f"  {one.pods} by {one.action} {whom}")
    if not everything and len(evictions.served) > SHOWN:
        terminal.notice(f"for {len(evictions.served) - SHOWN} more: --all")
    for line in found.unknown:
        terminal.notice(f"not known: {line}")
