"""``lint``: check manifests against best practices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kailab.cli import completion, options, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.errors import InputError

if TYPE_CHECKING:
    from kailab.advice.practice import PracticeFinding


@click.command()
@click.argument("bare", nargs=-1, metavar="FILE...")
@options.files
@options.text_option(
    "--fleet", shell_complete=completion.fleets, help="Check against this cluster: a fleet or its file."
)
@click.option("--ignore", "ignored", multiple=True, metavar="RULE", help="Ignore a rule. May be repeated.")
@options.flag("--rules", help="List the rules.")
@options.output
def lint(
    bare: tuple[str, ...], files: tuple[str, ...], fleet: str, ignored: tuple[str, ...], rules: bool, output: TextOrJson
) -> None:
    """Check manifests against best practices: queues with quota and limit, quotas that add up, gangs that can run, labels that
    agree, work that survives eviction. Give all manifests that are applied together: queues and work. Nothing is applied.

    \b
    Exit code 0: no findings.
    Exit code 1: findings, each with its rule, location, reason and fix.
    Exit code 2: bad input."""
    from kailab.advice.practice import RULES
    from kailab.advice.practice import lint as linted
    from kailab.fleet.reading import load_fleet
    from kailab.model.manifests import load

    if unknown := [rule for rule in ignored if rule not in RULES]:
        raise InputError(f"--ignore {unknown[0]}: no such rule; expected one of {', '.join(RULES)}")
    if rules:
        _print_rules(output)
        return
    files = (*bare, *files)
    if not files:
        raise InputError("there is nothing to check; expected FILE, FOLDER or -")
    options.check_stdin(files.count("-"), "-")
    manifests = load(files)
    if not manifests:
        raise InputError("there is nothing to check: the files have no objects")
    result = linted(manifests, load_fleet(fleet) if fleet else None)
    findings = [finding for finding in result.findings if finding.rule not in ignored]
    if output is TextOrJson.json:
        data = {"findings": [finding.data() for finding in findings], "unknown": result.unknown}
        terminal.say_json(data)
    else:
        _print_findings(findings, len(manifests))
    for line in result.unknown:
        terminal.notice(line)
    if findings:
        raise click.exceptions.Exit(1)


def _print_findings(findings: list[PracticeFinding], objects: int) -> None:
    for finding in findings:
        terminal.say(f"{finding.where}: {finding.why} [{finding.rule}]")
        terminal.say(f"    cure: {finding.cure}")
    if not findings:
        terminal.say(f"Nothing found in {objects} object{'' if objects == 1 else 's'}.")


def _print_rules(output: TextOrJson) -> None:
    from kailab.advice.practice import RULES

    if output is TextOrJson.json:
        rules = {name: {"asks": rule.asks, "cure": rule.cure} for name, rule in RULES.items()}
        terminal.say_json(rules)
    else:
        terminal.say(
            render_table(("RULE", "ASKS THAT", "CURE"), [(name, rule.asks, rule.cure) for name, rule in RULES.items()])
        )
