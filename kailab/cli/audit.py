"""``audit``: the whole queue tree looked through: who is kept short, what is idle, what can never work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.advice.audit.finding import Audit

SHOWN = 10
"""Queues that are told with their waits where not all is asked for."""


@click.command()
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    default="warning",
    help="Exit with 1 if there is a finding as severe as this, or more.",
)
@click.option("--all", "everything", is_flag=True, help="Findings of every severity, and every queue that waits.")
@options.output
@options.state
def audit(fail_on: str, everything: bool, output: TextOrJson, state: Path) -> None:
    """Look through the whole queue tree: starved queues and who borrows from them, what stands against its return, idle
    quota, quotas beyond capacity, queues that can run nothing, work that fits nowhere, and how long work waits."""
    from kailab.advice.audit import audit as audited
    from kailab.advice.audit.finding import Severity

    with labfile.read_lab(state) as lab:
        found = audited(lab.picture())
    if output is TextOrJson.json:
        terminal.say(json.dumps(found.data(), indent=2))
    else:
        _say(found, everything)
    if found.at_least(Severity(fail_on)):
        raise click.exceptions.Exit(1)


def _say(found: Audit, everything: bool) -> None:
    from kailab.advice.audit.finding import Severity
    from kailab.cli.table import format_span, render_table

    shown = [one for one in found.findings if everything or one.severity is not Severity.INFO]
    if shown:
        terminal.say(
            render_table(("SEVERITY", "CODE", "WHAT"), [(one.severity, one.code, one.sentence) for one in shown])
        )
    else:
        terminal.say(f"Nothing is wrong with {found.queues} queues.")
    if left := len(found.findings) - len(shown):
        terminal.notice(f"{left} more are worth knowing: --all")
    if found.waits:
        waits = found.waits if everything else found.waits[:SHOWN]
        rows = [
            (
                one.queue,
                str(one.groups),
                format_span(one.seconds),
                format_span(one.p50),
                format_span(one.p99),
                one.longest,
            )
            for one in waits
        ]
        terminal.say("")
        terminal.say(render_table(("QUEUE", "WAITING", "LONGEST", "P50", "P99", "WAITS LONGEST"), rows))
        if len(waits) < len(found.waits):
            terminal.notice(f"work of {len(found.waits) - len(waits)} more queues waits: --all")
    for line in found.unknown:
        terminal.notice(line)
