"""``whatif`` and ``simulate``: try a change or new work on a copy of the lab, and compare with the lab without it. ``--or`` separates alternatives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kailab.cli import configurations, labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.evidence.shares import QueueAmounts
    from kailab.lab import Lab
    from kailab.lab.change import Change
    from kailab.whatif.comparison import Comparison, WorkloadChange
    from kailab.whatif.outcome import WorkloadState
    from kailab.whatif.simulation import Simulation, WorkloadForecast
    from kailab.whatif.trial import Alternative, WhatIf


SEPARATOR = "--or"


class AlternativesCommand(click.Command):
    """``own``: the names of parameters that each group has for itself; the callback gets them by group, as ``alternatives``. All
    others are said once, in any group."""

    def __init__(self, *given: Any, own: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*given, **named)
        self.own = tuple(own)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        groups: list[list[str]] = [[]]
        for word in args:
            if word == SEPARATOR:
                groups.append([])
            else:
                groups[-1].append(word)
        alternatives: list[dict[str, Any]] = []
        shared: dict[str, Any] = {}
        for group in groups:
            one = click.Context(
                self, parent=ctx.parent, info_name=ctx.info_name, resilient_parsing=ctx.resilient_parsing
            )
            super().parse_args(one, group)
            alternatives.append({name: one.params[name] for name in self.own if name in one.params})
            for name, value in one.params.items():
                if name in self.own:
                    continue
                if name not in shared or one.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    shared[name] = value
        ctx.params = {**shared, "alternatives": alternatives}
        return []


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
    from kailab.cli.options import parse_seconds
    from kailab.errors import InputError
    from kailab.whatif.simulation import simulate as simulated

    if not files:
        raise InputError("say what to simulate: -f FILE, -f FOLDER or -f -")
    if files.count("-") > 1:
        raise InputError("stdin (-f -) can be read once only")
    bound = parse_seconds("--for", duration) if duration else 0.0
    allowed = parse_seconds("--within", within) if within else 0.0
    with labfile.read_lab(state) as lab, terminal.spinner("trying it on a copy"):
        sources = [file if file == "-" else Path(file) for file in files]
        found = simulated(lab, *sources, namespace=namespace, bound=max(bound, allowed))
    for warning in found.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        terminal.say(json.dumps(found.data(), indent=2))
    else:
        terminal.say("\n".join(_simulation_lines(found)))
    if not found.within(allowed):
        raise click.exceptions.Exit(NOT_YET)


def _simulation_lines(found: Simulation) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.evidence.entries import MOVING

    for fate in found.fates:
        yield from _fate_lines(fate, found)
    for (workload, queue, action, beneficiary), number in Counter(
        (one.workload, one.queue, one.action, one.beneficiary) for one in found.comparison.evicted
    ).items():
        whom = f" for {beneficiary}" if beneficiary else ""
        what = "moved to other nodes" if action == MOVING else "evicted"
        yield f"{number} pod{'' if number == 1 else 's'} of {workload} ({queue}) {what}{whom} ({action})"
    yield f"Tried on a copy of the lab; {found.scheduler} decides."
    if rows := queue_rows([found.comparison], everything=False):
        yield ""
        yield render_table(["QUEUE", "BEFORE", "AFTER"], rows)


def _fate_lines(fate: WorkloadForecast, found: Simulation) -> Iterator[str]:
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
            yield f"  {'To let it run: ' if place == 0 else 'Or: '}{step.describe()}"


_OWN = {
    "sets": "--set",
    "files": "-f",
    "deletes": "--delete",
    "pools": "--add-nodes",
    "drains": "--drain",
    "selectors": "--without",
    "config": "--config",
}
MOST_SHOWN = 30
"""Workloads in the table where not all are asked for."""


@click.command(cls=AlternativesCommand, own=tuple(_OWN))
@click.option("--set", "sets", multiple=True, help="A field: queue/team-a.gpu.quota=24. May be repeated.")
@options.files
@click.option("--delete", "deletes", multiple=True, help="An object that goes: KIND/NAME. May be repeated.")
@click.option("--add-nodes", "pools", multiple=True, help="More nodes like those of a pool: a100:2. May be repeated.")
@click.option("--drain", "drains", multiple=True, help="A node that is emptied and cordoned. May be repeated.")
@click.option("--without", "selectors", multiple=True, help="Without the workloads of pods with these labels: app=x.")
@click.option(
    "--scheduler-config",
    "--config",
    "config",
    type=options.PATH,
    help="Another scheduler configuration, a file as KAI reads it.",
)
@click.option("--for", "duration", default="", show_default=False, help="Look after so long: 30s, 5m, 1h30m, 2d.")
@options.namespace
@click.option("--all", "everything", is_flag=True, help="Every workload and queue, not only those that end otherwise.")
@options.output
@options.state
def whatif(
    alternatives: list[dict[str, Any]],
    duration: str,
    namespace: str,
    everything: bool,
    output: TextOrJson,
    state: Path,
) -> None:
    """Say who would run, wait, move or be evicted if something were changed: tried on a copy, the lab stays as it is. It is compared
    with the lab left alone for the same time. After `--or` come the changes of another alternative, shown beside the first. With
    --for alone: what time does."""
    from kailab.cli.options import parse_seconds
    from kailab.errors import InputError
    from kailab.whatif.trial import compare_with_waiting, what_if

    seconds = parse_seconds("--for", duration) if duration else 0.0
    empty = [number for number, given in enumerate(alternatives, start=1) if not any(given.values())]
    if empty and (len(alternatives) > 1 or not duration):
        where = f" in alternative {empty[0]}" if len(alternatives) > 1 else ""
        raise InputError(f"say what to change{where}: {', '.join(_OWN.values())} (or --for alone)")
    if sum(given["files"].count("-") for given in alternatives) > 1:
        raise InputError("stdin (-f -) can be read once only")
    with labfile.read_lab(state) as lab, terminal.spinner("trying it on a copy"):
        if empty:
            found = compare_with_waiting(lab, seconds)
        else:
            found = what_if(lab, [_alternative(lab, given, namespace) for given in alternatives], seconds)
    for warning in found.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        data = found.data()
        terminal.say(json.dumps({**data, "before": found.before.data()} if everything else data, indent=2))
    else:
        terminal.say("\n".join(_whatif_lines(found, everything)))


def _alternative(lab: Lab, given: Mapping[str, Any], namespace: str) -> Alternative:
    """What one group of options says. Raises InputError that names the option at fault."""
    from kailab.lab import intake
    from kailab.lab.change import Apply
    from kailab.lab.disruption_budgets import violated_budgets
    from kailab.lab.node_changes import drain_node, nodes_to_add, pods_to_drain
    from kailab.whatif.fields import patch_of
    from kailab.whatif.removal import deletion_of, deletions_by_label
    from kailab.whatif.trial import Alternative

    changes: list[Change] = []
    for file in given["files"]:
        read = intake.read([file if file == "-" else Path(file)], namespace=namespace)
        objects = tuple(obj for _, part in read.parts for obj in part)
        if not objects:
            raise _of_option("-f", ValueError(f"no objects in {file}"))
        changes.append(Apply(objects, namespace, () if file == "-" else (Path(file),)))
    for name, make in (
        ("sets", lambda text: (patch_of(lab, text, namespace),)),
        ("pools", lambda text: (nodes_to_add(lab, text),)),
        ("drains", lambda text: drain_node(lab, text)),  # its pods go before their owners take them along
        ("deletes", lambda text: (deletion_of(lab, text, namespace),)),
        ("selectors", lambda text: deletions_by_label(lab, text)),
    ):
        for text in given[name]:
            changes += [change for change in _read_change(_OWN[name], make, text) if change not in changes]
    gone = {pod for node in given["drains"] for pod in pods_to_drain(lab, node)}
    for warning in violated_budgets(lab, gone) if gone else ():
        terminal.warn(warning)
    settings = None if given["config"] is None else configurations.read_settings(given["config"])
    title = " ".join(f"{_OWN[name]} {text}" for name in _OWN for text in _texts(given[name]))
    return Alternative(title, tuple(changes), settings)


def _read_change(option: str, make: Any, text: str) -> Iterable[Change]:
    from kailab.errors import InputError

    try:
        found: Iterable[Change] = make(text)
    except InputError as error:
        raise _of_option(option, error) from None
    return found


def _of_option(option: str, error: Exception) -> Exception:
    from kailab.errors import InputError

    return InputError(f"{option}: {error}")


def _texts(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))


def _whatif_lines(found: WhatIf, everything: bool) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.lab.wording import elapsed

    several = len(found.alternatives) > 1
    yield f"After {elapsed(found.end - found.start)} of lab time, tried on a copy of the lab ({found.scheduler} decides):"
    for number, (alternative, comparison) in enumerate(
        zip(found.alternatives, found.comparisons, strict=True), start=1
    ):
        name = f"  {number}: " if several else "  "
        yield f"{name}{alternative.title}: {comparison.summary()}"
    headers = [f"CHANGED {number}" for number in range(1, len(found.comparisons) + 1)] if several else ["CHANGED"]
    if queues := queue_rows(found.comparisons, everything):
        yield ""
        yield render_table(["QUEUE", "UNCHANGED", *headers], queues)
    workloads = _workload_rows(found.comparisons, everything)
    if workloads:
        shown = workloads if everything else workloads[:MOST_SHOWN]
        yield ""
        yield render_table(["QUEUE", "WORKLOAD", "UNCHANGED", *headers], shown)
        if len(shown) < len(workloads):
            yield f"... and {len(workloads) - len(shown)} more (--all)"


def queue_rows(comparisons: Sequence[Comparison], everything: bool) -> list[list[str]]:
    names = sorted({change.name for one in comparisons for change in (one.all_queues if everything else one.queues)})
    by_name = [{change.name: change for change in one.all_queues} for one in comparisons]
    rows = []
    for name in names:
        changes = [changes.get(name) for changes in by_name]
        before = next((change.before for change in changes if change), None)
        rows.append(
            [name, _format_queue(before), *(_format_queue(change.after if change else None) for change in changes)]
        )
    return rows


def _format_queue(queue: QueueAmounts | None) -> str:
    if queue is None:
        return "-"
    from kailab.model.quantities import format_gpu

    parts = [f"{format_gpu(queue.allocated)} GPUs"]
    if queue.fair_share is not None:
        parts.append(f"share {format_gpu(int(queue.fair_share))}")
    quota = "unlimited" if queue.quota < 0 else format_gpu(queue.quota)
    parts += [f"quota {quota}", *([f"waits for {format_gpu(queue.waiting)}"] if queue.waiting else [])]
    return ", ".join(parts)


def _workload_rows(comparisons: Sequence[Comparison], everything: bool) -> list[list[str]]:
    from kailab.whatif.comparison import changed_workloads

    by_workload = [{change.workload: change for change in one.all_workloads} for one in comparisons]
    every = list(dict.fromkeys(change.workload for one in comparisons for change in one.all_workloads))
    rows = []
    for workload in every if everything else changed_workloads(comparisons):
        changes = [changes.get(workload) for changes in by_workload]
        first = next(change for change in changes if change)
        rows.append([first.queue or "-", str(workload), _format_outcome(first.before), *map(_format_change, changes)])
    return rows


def _format_outcome(standing: WorkloadState | None) -> str:
    if standing is None:
        return "-"
    counted = {"run": standing.running, "wait": standing.waiting, "done": standing.done}
    return ", ".join(f"{number} {what}" for what, number in counted.items() if number) or "no pods"


def _format_change(change: WorkloadChange | None) -> str:
    from kailab.evidence.entries import MOVING

    if change is None:
        return "-"
    parts = [_format_outcome(change.after) if change.after else "gone"]
    if change.moved:
        parts.append(f"{change.moved} elsewhere")
    for (action, beneficiary), number in Counter((one.action, one.beneficiary) for one in change.evicted).items():
        what = "moved" if action == MOVING else "evicted"
        parts.append(f"{number} {what} {f'for {beneficiary} ' if beneficiary else ''}({action})")
    return "; ".join(parts)
