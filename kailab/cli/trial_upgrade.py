"""``trial upgrade``: one scheduler replaced by the next while work runs, and back."""

from __future__ import annotations

import json

import click

from kailab.cli import ending, options, terminal
from kailab.cli.options import TextOrJson


@click.command()
@click.argument("load", nargs=-1, metavar="[MANIFEST]...")
@click.option("--from", "before", required=True, help="What runs first, and is rolled back to: kai=DIR, kailab ...")
@click.option("--to", "after", required=True, help="What it is replaced by.")
@click.option(
    "--renew-account",
    "renew",
    is_flag=True,
    help="Make the scheduler's service account anew before the upgrade, and restart nothing.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=None,
    show_default="300",
    help="How many seconds a pod may wait before it counts as not scheduled.",
)
@click.option(
    "--rollback-within",
    "promise",
    type=click.FloatRange(min=0, min_open=True),
    help="In how many seconds a rollback is to schedule again.",
)
@click.option("--fleet", default="lesson", help="The fleet of fake nodes.")
@options.output
def upgrade(
    load: tuple[str, ...],
    before: str,
    after: str,
    renew: bool,
    patience: float | None,
    promise: float | None,
    fleet: str,
    output: TextOrJson,
) -> None:
    """Fill a lab under one scheduler, replace it by another while work runs, and roll back.

    Tells how long until it scheduled again each way, which pods and objects were lost, what was altered, and who was deaf though its
    process ran. With no MANIFEST it fills the lab itself, and tries reclaim and a gang after each change. Exit code 1 if anything is lost or
    does not come as it should.
    """
    import msgspec

    from kailab.fleet import load_fleet
    from kailab.model import manifests
    from kailab.trials.upgrade.course import PATIENCE_SECONDS, Plan, carry_out
    from kailab.trials.upgrade.result import lines
    from kailab.undertest.naming import chosen

    plan = Plan(
        chosen(before),
        chosen(after),
        load_fleet(fleet),
        manifests.load(load).objects if load else None,
        renew,
        patience or PATIENCE_SECONDS,
        promise,
    )
    with ending.in_order():
        came = carry_out(plan, terminal.notice)
    if output is TextOrJson.json:
        told = {**msgspec.to_builtins(came), "sound": came.sound, "kept": came.kept}
        terminal.say(json.dumps(told, indent=2))
    else:
        terminal.say("\n".join(lines(came)))
    if not came.sound:
        raise click.exceptions.Exit(1)
