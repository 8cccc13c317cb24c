"""``lint``: manifests held against what practice asks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from kailab.cli import completion, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.advice.practice.rules import PracticeFinding


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option(
    "--fleet",
    default="",
    show_default=False,
    shell_complete=completion.fleets,
    help="The cluster: a fleet or its file.",
)
@click.option("--ignore", "ignored", multiple=True, metavar="RULE", help="Leave a rule out. May be repeated.")
@click.option("--rules", is_flag=True, help="List the rules.")
@options.output
def lint(files: tuple[str, ...], fleet: str, ignored: tuple[str, ...], rules: bool, output: TextOrJson) -> None:
    """Hold manifests against what practice asks for: queues with quota and limit, quotas that add up, gangs that can run, labels that
    agree, work that survives its eviction. Give what is applied together: queues and work. Nothing is applied.

    \b
    Exit code 0: nothing found.
    Exit code 1: findings, each with its rule, place, why and cure.
    Exit code 2: bad input."""
    from kailab.advice.practice.checking import lint as linted
    from kailab.advice.practice.rules import RULES
    from kailab.errors import InputError
    from kailab.fleet import load_fleet
    from kailab.model.manifests import load

    if unknown := [rule for rule in ignored if rule not in RULES]:
        raise InputError(f"--ignore {unknown[0]}: no such rule; expected one of {', '.join(RULES)}")
    if rules:
        _list(output)
        return
    if not files:
        raise InputError("say what to check: FILE, FOLDER or -")
    if files.count("-") > 1:
        raise InputError("stdin (-) can be read once only")
    manifests = load(files)
    if not manifests:
        raise InputError("nothing to check: there are no objects in it")
    done = linted(manifests, load_fleet(fleet) if fleet else None)
    found = [one for one in done.findings if one.rule not in ignored]
    if output is TextOrJson.json:
        data = {"findings": [one.data() for one in found], "unknown": done.unknown}
        terminal.say(json.dumps(data, indent=2))
    else:
        _say(found, len(manifests))
    for line in done.unknown:
        terminal.notice(line)
    if found:
        raise click.exceptions.Exit(1)


def _say(found: list[PracticeFinding], objects: int) -> None:
    for one in found:
        terminal.say(f"{one.where}: {one.why} [{one.rule}]")
        terminal.say(f"    cure: {one.cure}")
    if not found:
        terminal.say(f"Nothing found in {objects} object{'' if objects == 1 else 's'}.")


def _list(output: TextOrJson) -> None:
    from kailab.advice.practice.rules import RULES
    from kailab.cli.table import render_table

    if output is TextOrJson.json:
        rules = {name: {"asks": rule.asks, "cure": rule.cure} for name, rule in RULES.items()}
        terminal.say(json.dumps(rules, indent=2))
    else:
        terminal.say(
            render_table(("RULE", "ASKS THAT", "CURE"), [(name, rule.asks, rule.cure) for name, rule in RULES.items()])
        )
