"""``cost``: what the lab's GPUs cost as it stands, by what they do and who holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.lab.costs import Costs

DOING = {
    "work": "at work",
    "held": "held, can't work",
    "scattered": "free, of no use to what waits",
    "closed": "free, node takes nothing",
    "idle": "idle",
}


@click.command()
@click.option(
    "--prices",
    type=options.PATH,
    required=True,
    help="A file of prices: what an hour of a GPU costs, by model (docs/cost.md).",
)
@options.output
@options.state
def cost(prices: Path, output: TextOrJson, state: Path) -> None:
    """Tell what the lab's GPUs cost an hour and a month: those at work, those held by what can't work (half a gang, a node that is not
    ready), the idle ones and those that are free where nothing that waits fits; and what each queue holds, borrows and leaves unused."""
    from kailab.lab.costs import costs
    from kailab.model.prices import load_prices

    priced = load_prices(prices)
    with labfile.read_lab(state) as lab:
        found = costs(lab.picture(), priced)
    if output is TextOrJson.json:
        terminal.say(json.dumps(_data(found), indent=2))
    else:
        _say(found)


def _data(found: Costs) -> dict[str, object]:
    import msgspec

    told = msgspec.to_builtins(found)
    return {**told, "whole_per_hour": found.whole, "month": found.month(found.whole), "kilowatts": found.kilowatts}


def _say(found: Costs) -> None:
    from kailab.cli.table import render_table

    whole = found.doing.all
    rows = [
        (
            DOING[state],
            f"{getattr(found.doing, state) / 1000:g}",
            f"{getattr(found.doing, state) / whole:.1%}" if whole else "-",
            f"{found.per_hour[state]:,.2f}",
            f"{found.month(found.per_hour[state]):,.0f}",
        )
        for state in DOING
    ]
    rows.append(
        (
            "all",
            f"{whole / 1000:g}",
            "100.0%" if whole else "-",
            f"{found.whole:,.2f}",
            f"{found.month(found.whole):,.0f}",
        )
    )
    terminal.say(render_table(("GPUS", "HOW MANY", "PART", f"{found.currency}/HOUR", f"{found.currency}/MONTH"), rows))
    if len(found.models) > 1:
        terminal.say("")
        terminal.say(render_table(("MODEL", "GPUS", "AT WORK", "FREE", f"{found.currency}/HOUR", "KW"), _models(found)))
    if found.queues:
        terminal.say("")
        heads = ("QUEUE", "PARENT", "QUOTA", "HELD", f"{found.currency}/HOUR", "BORROWED", f"{found.currency}/HOUR")
        terminal.say(render_table((*heads, "QUOTA UNUSED", f"{found.currency}/HOUR"), _queues(found)))
    if found.kilowatts is not None:
        terminal.notice(f"power of the GPUs: {found.kilowatts:,.1f} kW")


def _models(found: Costs) -> list[tuple[str, ...]]:
    return [
        (
            one.model or "not told",
            f"{one.doing.all / 1000:g}",
            f"{one.doing.work / 1000:g}",
            f"{one.doing.wasted / 1000:g}",
            f"{one.per_hour * one.doing.all / 1000:,.2f}",
            "-" if one.kilowatts is None else f"{one.kilowatts:,.1f}",
        )
        for one in found.models
    ]


def _queues(found: Costs) -> list[tuple[str, ...]]:
    return [
        (
            one.queue,
            one.parent,
            "unlimited" if one.quota is None else f"{one.quota / 1000:g}",
            f"{one.held / 1000:g}",
            f"{one.per_hour:,.2f}",
            f"{one.borrowed / 1000:g}",
            f"{one.borrowed_per_hour:,.2f}",
            f"{one.unused / 1000:g}",
            f"{one.unused_per_hour:,.2f}",
        )
        for one in found.queues
    ]
