"""``cost``: the present cost of the lab's GPUs, by use and by queue."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table

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
    help="File of prices: cost of a GPU-hour by model (docs/cost.md).",
)
@options.output
@options.state
def cost(prices: Path, output: TextOrJson, state: Path) -> None:
    """Calculate what the lab's GPUs cost per hour and month: GPUs at work, GPUs held by pods that can't work (half a gang, a node that is not
    ready), idle GPUs, and free GPUs that fit no waiting work; and for each queue the held, borrowed and unused GPUs."""
    from kailab.lab.costs import costs
    from kailab.model.prices import load_prices

    prices_by_model = load_prices(prices)
    with labfile.read_lab(state) as lab:
        priced_costs = costs(lab.picture(), prices_by_model)
    if output is TextOrJson.json:
        terminal.say_json(_data(priced_costs))
    else:
        _print(priced_costs)


def _data(costs: Costs) -> dict[str, object]:
    import msgspec

    data = msgspec.to_builtins(costs)
    return {**data, "whole_per_hour": costs.whole, "month": costs.month(costs.whole), "kilowatts": costs.kilowatts}


def _print(costs: Costs) -> None:
    total = costs.doing.all
    rows = [
        (
            DOING[state],
            f"{getattr(costs.doing, state) / 1000:g}",
            f"{getattr(costs.doing, state) / total:.1%}" if total else "-",
            f"{costs.per_hour[state]:,.2f}",
            f"{costs.month(costs.per_hour[state]):,.0f}",
        )
        for state in DOING
    ]
    rows.append(
        (
            "all",
            f"{total / 1000:g}",
            "100.0%" if total else "-",
            f"{costs.whole:,.2f}",
            f"{costs.month(costs.whole):,.0f}",
        )
    )
    terminal.say(render_table(("GPUS", "HOW MANY", "PART", f"{costs.currency}/HOUR", f"{costs.currency}/MONTH"), rows))
    if len(costs.models) > 1:
        terminal.say("")
        terminal.say(render_table(("MODEL", "GPUS", "AT WORK", "FREE", f"{costs.currency}/HOUR", "KW"), _models(costs)))
    if costs.queues:
        terminal.say("")
        heads = ("QUEUE", "PARENT", "QUOTA", "HELD", f"{costs.currency}/HOUR", "BORROWED", f"{costs.currency}/HOUR")
        terminal.say(render_table((*heads, "QUOTA UNUSED", f"{costs.currency}/HOUR"), _queues(costs)))
    if costs.kilowatts is not None:
        terminal.notice(f"power of the GPUs: {costs.kilowatts:,.1f} kW")


def _models(costs: Costs) -> list[tuple[str, ...]]:
    return [
        (
            model.model or "not told",
            f"{model.doing.all / 1000:g}",
            f"{model.doing.work / 1000:g}",
            f"{model.doing.wasted / 1000:g}",
            f"{model.per_hour * model.doing.all / 1000:,.2f}",
            "-" if model.kilowatts is None else f"{model.kilowatts:,.1f}",
        )
        for model in costs.models
    ]


def _queues(costs: Costs) -> list[tuple[str, ...]]:
    return [
        (
            queue.queue,
            queue.parent,
            "unlimited" if queue.quota is None else f"{queue.quota / 1000:g}",
            f"{queue.held / 1000:g}",
            f"{queue.per_hour:,.2f}",
            f"{queue.borrowed / 1000:g}",
            f"{queue.borrowed_per_hour:,.2f}",
            f"{queue.unused / 1000:g}",
            f"{queue.unused_per_hour:,.2f}",
        )
        for queue in costs.queues
    ]
