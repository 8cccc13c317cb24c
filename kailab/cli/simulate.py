"""``simulate``: whether work would run in the lab, when, where, and who would go for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.lab.whatif.simulation import Fate, Simulation

NOT_YET = 1
"""Exit code where the work does not run in time, or kailab can't tell whether it would: a gate passes only what was seen to run."""


@click.command()
@options.files
@options.namespace
@click.option(
    "--for", "duration", default="24h", help="How much lab time to look at where it does not run at once: 30m, 8h, 2d."
)
@click.option("--within", default="", show_default=False, help="Succeed too if it runs after at most so long: 30m.")
@options.output
@options.state
def simulate(
    files: tuple[str, ...], namespace: str, duration: str, within: str, output: TextOrJson, state: Path
) -> None:
    """Say whether the work in manifests would run: now, after so long, not in the time looked at, or never; where its pods would go,
    who would be evicted, and what queues hold before and after. It is tried on a copy: the lab stays as it is.

    \b
    Exit code 0: it runs now (or --within).
    Exit code 1: it does not ("verdict" in -o json is later, waits or never), or kailab can't tell (unknown).
    Exit code 2: bad input."""
    from kailab.cli.durations import seconds_of
    from kailab.errors import InputError
    from kailab.lab.whatif.simulation import simulate as simulated

    if not files:
        raise InputError("say what to simulate: -f FILE, -f FOLDER or -f -")
    if files.count("-") > 1:
        raise InputError("stdin (-f -) can be read once only")
    bound = seconds_of("--for", duration) if duration else 0.0
    allowed = seconds_of("--within", within) if within else 0.0
    with labfile.looked_at(state) as lab, terminal.waiting("trying it on a copy"):
        sources = [file if file == "-" else Path(file) for file in files]
        found = simulated(lab, *sources, namespace=namespace, bound=max(bound, allowed))
    for warning in found.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        terminal.say(json.dumps(found.data(), indent=2))
    else:
        terminal.say("\n".join(_told(found)))
    if not found.within(allowed):
        raise click.exceptions.Exit(NOT_YET)


def _told(found: Simulation) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.cli.whatif import queue_rows
    from kailab.evidence.entries import MOVING

    for fate in found.fates:
        yield from _fate(fate, found)
    for (workload, queue, action, beneficiary), number in Counter(
        (one.workload, one.queue, one.action, one.beneficiary) for one in found.comparison.evicted
    ).items():
        whom = f" for {beneficiary}" if beneficiary else ""
        what = "moved to other nodes" if action == MOVING else "evicted"
        yield f"{number} pod{'' if number == 1 else 's'} of {workload} ({queue}) {what}{whom} ({action})"
    yield f"Tried on a copy of the lab; {found.scheduler} decides."
    if rows := queue_rows([found.comparison], everything=False):
        yield ""
        yield render(["QUEUE", "BEFORE", "AFTER"], rows)


def _fate(fate: Fate, found: Simulation) -> Iterator[str]:
    from kailab.lab.wording import elapsed

    told = {
        "now": "runs now",
        "later": f"runs after {elapsed(fate.seconds or 0)}",
        "waits": f"does not run within {elapsed(found.end - found.start)}",
        "unknown": "kailab can't tell whether it would run",
        "never": "never runs, whatever else ends",
    }[fate.when]
    places = ", ".join(f"{node} ({number})" for node, number in fate.nodes.items())
    pods = f"{len(fate.places)} of {fate.wanted} pods" if fate.places or fate.wanted else "no pods"
    yield f"{fate.workload}: {told}: {pods}{f' on {places}' if places else ''}"
    answer = fate.answer
    if answer is not None and answer.cause is not None:
        yield f"  {answer.cause.code}: {answer.cause.sentence}"
    if answer is not None and fate.when in ("waits", "never"):
        for place, step in enumerate(answer.steps[:3]):
            yield f"  {'It would run: ' if place == 0 else 'Or: '}{step.said()}"
