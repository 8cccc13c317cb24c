"""``audit``: check all queues for starvation, idle quota and work that can't run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.table import format_span, render_table
from kailab.evidence.wording import count

if TYPE_CHECKING:
    from kailab.advice.audit import Audit

SHOWN = 10
"""Queues in the table of waiting times unless ``--all`` is given."""


@click.command()
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "info"]),
    default="warning",
    help="Exit with 1 if a finding is at least as severe as this.",
)
@options.flag("--all", "everything", help="Show findings of every severity, and every queue with waiting work.")
@options.output
@options.state
def audit(fail_on: str, everything: bool, output: TextOrJson, state: Path) -> None:
    """Check the whole queue tree, and list how long work waits in each queue.

    \b
    Findings are about
      queues that get less than their quota or fair share, and what prevents reclaim
      queues that hold more than their limit, or more non-preemptible work than their quota
      quotas that are idle, beyond the capacity, or for GPU models that their work can't use
      queues that can run nothing, and work that fits on no node
      GPU models without free GPUs
      running pods whose queue, PodGroup or owner is gone

    \b
    Exit code 0: no finding as severe as --fail-on.
    Exit code 1: such a finding.
    Exit code 2: bad input.
    """
    from kailab.advice.audit import audit as audited
    from kailab.advice.findings import Severity

    with labfile.read_lab(state) as lab:
        result = audited(lab)
    if output is TextOrJson.json:
        terminal.say_json(result.data())
    else:
        _print(result, everything)
    if result.at_least(Severity(fail_on)):
        raise click.exceptions.Exit(1)


def _print(result: Audit, everything: bool) -> None:
    from kailab.advice.findings import Severity

    findings = [finding for finding in result.findings if everything or finding.severity is not Severity.INFO]
    if findings:
        rows = [
            (finding.severity, finding.code, " ".join(filter(None, (finding.sentence, finding.do))))
            for finding in findings
        ]
        terminal.say(render_table(("SEVERITY", "CODE", "WHAT"), rows))
    elif not result.queues:
        terminal.say(
            "There are no queues, so there is nothing to audit: work of KAI's runs in queues only. Apply some."
        )
    else:
        terminal.say(f"Nothing is wrong with {count(result.queues, 'queue')}.")
    if hidden := len(result.findings) - len(findings):
        terminal.notice(f"{count(hidden, 'more finding')} of severity info: --all shows the rest")
    if result.waits:
        waits = result.waits if everything else result.waits[:SHOWN]
        cells = [
            (
                wait.queue,
                str(wait.groups),
                format_span(wait.seconds),
                format_span(wait.p50),
                format_span(wait.p99),
                wait.workload,
            )
            for wait in waits
        ]
        terminal.say("")
        terminal.say(render_table(("QUEUE", "WAITING", "LONGEST", "P50", "P99", "WAITS LONGEST"), cells))
        if len(waits) < len(result.waits):
            terminal.notice(
                f"{count(len(result.waits) - len(waits), 'more queue')} with waiting work: --all shows the rest"
            )
    for line in result.unknown:
        terminal.notice(line)
