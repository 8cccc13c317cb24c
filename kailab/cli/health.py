"""``health``: check the scheduler of a lab, or a scheduler process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson, parse_seconds
from kailab.errors import InputError
from kailab.evidence.wording import count

if TYPE_CHECKING:
    from kailab.advice.health import Health

SHOWN = 5
"""Beneficiaries of evictions in the output unless ``--all`` is given."""


@click.command()
@click.option("--window", default="10m", help="Period in which evictions are counted: 30s, 5m, 1h30m, 2d.")
@options.path_option("--decisions", help="Check a scheduler process by its file of `kailab scheduler run --decisions`.")
@options.text_option("--url", help="Check a scheduler process by the URL of its health and metrics.")
@options.flag("--all", "everything", help="Show all work for which pods were evicted.")
@options.output
@options.state
def health(window: str, decisions: Path | None, url: str, everything: bool, output: TextOrJson, state: Path) -> None:
    """Check the scheduler: its last cycle, binds that the cluster refuses, evictions and their beneficiaries, workloads that
    evict each other endlessly, node pools and queues without a scheduler, binds that have no effect. Exit code 1 if it is
    not healthy."""
    seconds = parse_seconds("--window", window)
    if seconds <= 0:
        raise InputError(f"--window: {window}: expected more than 0 seconds")
    result = _check(seconds, decisions, url, state)
    if output is TextOrJson.json:
        terminal.say_json(result.data())
    else:
        _print(result, everything)
    if not result.healthy:
        raise click.exceptions.Exit(1)


def _check(seconds: float, decisions: Path | None, url: str, state: Path) -> Health:
    from kailab.advice.health import health as of_lab
    from kailab.advice.health import health_of_process

    if decisions is None and not url:
        with labfile.read_lab(state) as lab:
            return of_lab(lab, seconds)
    from kailab.evidence.decision_file import read_decisions

    return health_of_process(None if decisions is None else read_decisions(decisions), url or None, seconds)


def _print(result: Health, everything: bool) -> None:
    terminal.say(f"{result.scheduler}: {'healthy' if result.healthy else 'not healthy'}")
    for problem in result.problems:
        terminal.say(f"  {problem}")
    if (cycle := result.cycle) is not None:
        took = "" if cycle.took is None else f", took {cycle.took:.3g} s"
        terminal.say(
            f"Last cycle: number {cycle.number}, {cycle.age:.3g} s ago{took}; {cycle.bound} bound, {cycle.evicted} evicted, "
            f"{count(cycle.waiting, 'group')} left waiting"
        )
    evictions = result.evictions
    terminal.say(f"Evictions: {evictions.pods} in {evictions.seconds:.4g} s ({evictions.per_minute:.3g} a minute)")
    for served in evictions.served if everything else evictions.served[:SHOWN]:
        beneficiary = f"for {served.beneficiary} of queue {served.queue}" if served.beneficiary else "for nobody"
        terminal.say(f"  {served.pods} by {served.action} {beneficiary}")
    if not everything and len(evictions.served) > SHOWN:
        terminal.notice(f"evictions for {len(evictions.served) - SHOWN} more: --all shows them")
    for line in result.unknown:
        terminal.notice(f"not known: {line}")
