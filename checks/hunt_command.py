"""``hunt``: random clusters decided by kailab and by another scheduler, until something differs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from kailab.cli import options, signals, terminal
from kailab.cli.checkout import check
from kailab.cli.options import TextOrJson

CLUSTERS = 100


@click.command()
@click.option("--against", required=True, help="The other scheduler: kai=DIR, kai, kailab@FILE ...")
@click.option("--clusters", type=click.IntRange(min=1), help="How many clusters.", show_default=str(CLUSTERS))
@click.option("--for", "duration", help="How long instead: 30m, 4h. The cluster at hand is decided to its end.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="The seed of the first; each further one adds 1.")
@click.option("--isolation", default="controlplane", help="Where the other decides: a backend.")
@click.option(
    "--compare",
    "kinds",
    multiple=True,
    help="What counts as a difference: outcome, queues, evictions, lowest. Repeat it.",
    show_default="outcome and queues",
)
@click.option(
    "--again", type=click.IntRange(min=0), default=2, help="How often the other decides once more what differs."
)
@click.option("--tries", type=click.IntRange(min=0), default=40, help="Attempts to cut down what differs.")
@click.option("--name", default="", help="What the hunt is called, and its folder.", show_default="made up")
@click.option("--anew", is_flag=True, help="First decide those anew that differed.")
@click.option("--baseline", type=options.PATH, help="A file of differences that are accepted, each with its reason.")
@click.option(
    "--hunts",
    "root",
    type=options.PATH,
    default=Path("hunts"),
    envvar="KAILAB_HUNTS",
    show_envvar=True,
    help="The folder that hunts are kept in.",
)
@options.kubeconfig
@options.context
@options.components
@options.kubernetes
@options.output
@click.pass_context
def hunt(
    ctx: click.Context,
    against: str,
    clusters: int | None,
    duration: str | None,
    seed: int,
    isolation: str,
    kinds: tuple[str, ...],
    again: int,
    tries: int,
    name: str,
    anew: bool,
    baseline: Path | None,
    root: Path,
    output: TextOrJson,
    **place: Any,
) -> None:
    """Look for clusters that kailab and another scheduler decide otherwise.

    Random clusters are decided by both. What differs, and not by chance, is cut down to the smallest scenario that still does, and kept
    with both sides' evidence. Run again it goes on where it was. Exit code 1 if anything differs that is not accepted.
    """
    check("checks", ctx)
    from checks.hunting.hunt import carry_out, forget_differing, made_from, seeds_from
    from checks.hunting.result import Result
    from checks.hunting.store import HuntFolder
    from kailab.errors import InputError
    from kailab.model.times import duration_seconds
    from kailab.trials.baseline import Baseline, read_baseline

    if clusters is not None and duration is not None:
        raise InputError("--clusters and --for: expected one of them")
    until = None if duration is None else time.monotonic() + duration_seconds(duration, days=True)
    accepted = read_baseline(baseline) if baseline is not None else Baseline()
    where = {option: value for option, value in place.items() if value is not None}
    wanted = made_from(against, isolation, kinds, again, tries, name, where)
    folder = HuntFolder(root / wanted.name)
    seeds = seeds_from(seed, None if duration is not None else clusters or CLUSTERS)
    with signals.terminate_in_order(), folder.held(), terminal.progress_bars() as tell:
        folder.begin(wanted)
        if anew and (number := forget_differing(folder)):
            terminal.notice(f"{number} clusters are decided anew")
        carry_out(wanted, folder, seeds, until, where, tell, terminal.notice)
        result = Result(wanted, folder, folder.decided(), accepted)
    if output is TextOrJson.json:
        terminal.say(json.dumps(result.as_data(), indent=2))
    else:
        terminal.say("\n".join(result.lines()))
    if not result.same:
        raise click.exceptions.Exit(1)
