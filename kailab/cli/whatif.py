"""``whatif`` and ``simulate``: try a change or new work on a copy of the lab, and compare with the lab without it. ``--or`` separates alternatives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kailab.cli import configurations, labfile, options, terminal
from kailab.cli.objects import errors_as_json
from kailab.cli.options import TextOrJson, parse_seconds
from kailab.cli.selection import select_objects
from kailab.cli.signals import defer_interrupts
from kailab.cli.table import render_table
from kailab.errors import InputError
from kailab.evidence.entries import MOVING
from kailab.evidence.wording import count, elapsed, gpus
from kailab.lab.change import Apply, Delete
from kailab.model.kinds import kind_key
from kailab.model.objects import name_of, namespace_of
from kailab.model.quantities import format_gpu
from kailab.model.times import DAY, spoken_duration

if TYPE_CHECKING:
    from kailab.evidence.shares import QueueAmounts
    from kailab.lab import Lab
    from kailab.lab.change import Change
    from kailab.whatif.alternatives import Alternative, UntilRuns, WhatIf
    from kailab.whatif.outcome import Comparison, WorkloadChange, WorkloadState
    from kailab.whatif.simulation import Simulation, WorkloadForecast


SEPARATOR = "--or"


class AlternativesCommand(click.Command):
    """A command whose arguments are separated into groups by ``--or``.

    ``own``: names of the parameters that belong to one group; the callback gets them by group, as ``alternatives``. All other parameters
    apply to all groups and may be given in any of them."""

    def __init__(self, *args: Any, own: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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
            group_context = click.Context(
                self, parent=ctx.parent, info_name=ctx.info_name, resilient_parsing=ctx.resilient_parsing
            )
            super().parse_args(group_context, group)
            alternatives.append({name: group_context.params[name] for name in self.own if name in group_context.params})
            for name, value in group_context.params.items():
                if name in self.own:
                    continue
                if name not in shared or group_context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    shared[name] = value
        ctx.params = {**shared, "alternatives": alternatives}
        return []


NOT_YET = 1
"""Exit code if the work does not run in time, or kailab can't tell whether it would: a gate passes only work that ran in the simulation."""


@click.command()
@options.files
@options.namespace
@click.option(
    "--for", "duration", default="24h", help="Lab time to simulate if the work does not run at once: 30m, 8h, 2d."
)
@options.text_option("--within", help="Succeed also if the work runs within this time: 30m.")
@options.no_steps
@options.timeout
@options.output
@errors_as_json
@options.state
def simulate(
    files: tuple[str, ...],
    namespace: str,
    duration: str,
    within: str,
    no_steps: bool,
    timeout: str,
    output: TextOrJson,
    state: Path,
) -> None:
    """Predict whether the work in manifests would run: now, later, not within the simulated time, or never; on which nodes its pods would run,
    which pods would be evicted, and what queues hold before and after. The prediction runs on a copy; the lab does not change.
    For work that does not run at once, steps are tried within --timeout. Ctrl-C ends the trials and the simulated time, and what is
    known is printed; a second Ctrl-C ends the command.

    \b
    Exit code 0: the work runs now (or within --within).
    Exit code 1: it does not ("verdict" in -o json is later, waits or never), or kailab can't tell (unknown).
    Exit code 2: bad input."""
    from kailab.explain.step_budget import StepBudget
    from kailab.whatif.simulation import simulate as simulated

    if not files:
        raise InputError("there is nothing to simulate; expected -f FILE, -f FOLDER or -f -")
    options.check_stdin(files.count("-"), "-f -")
    if no_steps and options.is_given("timeout"):
        raise click.UsageError("--timeout can't be used with --no-steps, which tries no steps")
    limit = options.parse_limit("--timeout", timeout)
    bound = parse_seconds("--for", duration) if duration else 0.0
    allowed = parse_seconds("--within", within) if within else 0.0
    with labfile.read_lab(state) as lab, terminal.progress_line() as progress, defer_interrupts() as interrupt:
        sources = [file if file == "-" else Path(file) for file in files]

        def report(activity: str) -> None:
            progress.show(f"trying it on a copy: {activity}")

        def report_step(tried: int, known: int, proposal: str) -> None:
            report(f"step {min(tried + 1, known)} of {known}: {proposal}")

        budget = StepBudget(limit, interrupted=lambda: interrupt() is not None, on_progress=report_step)
        simulation = simulated(
            lab,
            *sources,
            namespace=namespace,
            bound=max(bound, allowed),
            tried=not no_steps,
            budget=budget,
            on_progress=report,
        )
        ended_by = interrupt()
    for warning in simulation.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        terminal.say_json(simulation.data())
    else:
        terminal.say("\n".join(_simulation_lines(simulation, bound=max(bound, allowed))))
    # What is known is kept, and the command ends as every interrupted one does.
    if ended_by is not None:
        raise ended_by
    if not simulation.within(allowed):
        raise click.exceptions.Exit(NOT_YET)


def _simulation_lines(simulation: Simulation, bound: float) -> Iterator[str]:
    """``bound``: seconds of lab time that were asked for."""
    for fate in simulation.fates:
        yield from _fate_lines(fate, simulation)
    for loss in simulation.losses:
        yield from loss.lines()
    yield f"Tried on a copy of the lab; {simulation.scheduler} decides."
    if simulation.interrupted:
        yield f"Interrupted: {elapsed(simulation.end - simulation.start)} of {elapsed(bound)} of lab time were simulated."
    if rows := queue_rows([simulation.comparison], everything=False):
        yield ""
        yield render_table(["QUEUE", "BEFORE", "AFTER"], rows)


def _fate_lines(fate: WorkloadForecast, simulation: Simulation) -> Iterator[str]:
    prediction = {
        "now": "runs now",
        "later": f"runs after {spoken_duration(fate.seconds or 0)}",
        "waits": f"does not run within {spoken_duration(simulation.end - simulation.start)}",
        "unknown": "kailab can't tell whether it would run",
        "never": "never runs, whatever else ends",
    }[fate.when]
    places = ", ".join(f"{node} ({number})" for node, number in fate.nodes.items())
    pods = f"{len(fate.places)} of {count(fate.wanted, 'pod')}" if fate.places or fate.wanted else "no pods"
    yield f"{fate.workload}: {prediction}: {pods}{f' on {places}' if places else ''}"
    answer = fate.answer
    if answer is not None and answer.cause is not None:
        yield f"  {answer.cause.code}: {answer.cause.sentence}"
    if answer is not None and fate.when in ("waits", "never"):
        for line, losses in zip(answer.step_lines(), fate.must_go, strict=False):
            yield f"  {line}"
            # The step itself names only the first pods.
            yield from (f"    {text}" for loss in losses for text in loss.lines())
        if answer.search_note:
            yield f"  {answer.search_note}"


_OWN = {
    "sets": "--set",
    "files": "-f",
    "deletes": "--delete",
    "pools": "--add-nodes",
    "drains": "--drain",
    "node_selectors": "--drain -l",
    "selectors": "--without",
    "config": "--config",
}
BY_LABEL = "-l"
"""The value of a ``--drain`` without a node."""
MOST_SHOWN = 30
"""Workloads in the table unless ``--all`` is given."""


@click.command(cls=AlternativesCommand, own=tuple(_OWN))
@click.option("--set", "sets", multiple=True, help="Set a field: queue/team-a.gpu.quota=24. May be repeated.")
@options.files
@click.option("--delete", "deletes", multiple=True, help="Delete an object: KIND/NAME. May be repeated.")
@click.option("--add-nodes", "pools", multiple=True, help="Add nodes like those of a pool: a100:2. May be repeated.")
@click.option(
    "--drain",
    "drains",
    multiple=True,
    is_flag=False,
    flag_value=BY_LABEL,
    help="Cordon a node and delete its pods; with -l, those of all nodes with these labels. May be repeated.",
)
@click.option(
    "--selector", "-l", "node_selectors", multiple=True, help="With --drain: nodes with these labels, rack=r1."
)
@click.option("--without", "selectors", multiple=True, help="Delete the workloads of pods with these labels: app=x.")
@options.path_option(
    "--scheduler-config", "--config", "config", help="Use another scheduler configuration, a file in KAI's format."
)
@options.text_option("--for", "duration", help="Compare after this lab time: 30s, 5m, 1h30m, 2d.")
@options.text_option(
    "--until-runs",
    "until",
    metavar="JOB",
    help="Compare when this work runs, and say when that is: the name of a Job, or KIND/NAME. At most --for, else 24h.",
)
@options.namespace
@options.flag("--all", "everything", help="Show every workload and queue, not only those with a different outcome.")
@options.output
@errors_as_json
@options.state
def whatif(
    alternatives: list[dict[str, Any]],
    duration: str,
    until: str,
    namespace: str,
    everything: bool,
    output: TextOrJson,
    state: Path,
) -> None:
    """Preview a change: which work would run, wait, move or be evicted. The change is tried on a copy and compared with an unchanged copy after
    the same time; the lab does not change. `--or` separates alternatives, which are shown side by side. With --for or --until-runs alone, the
    preview shows the effect of time."""
    from kailab.whatif.alternatives import compare_with_waiting, what_if

    seconds = parse_seconds("--for", duration) if duration else DAY if until else 0.0
    empty = [number for number, options in enumerate(alternatives, start=1) if not any(options.values())]
    if empty and (len(alternatives) > 1 or not (duration or until)):
        where = f" in alternative {empty[0]}" if len(alternatives) > 1 else ""
        raise InputError(
            f"there is no change{where}; expected one of {', '.join(_OWN.values())} (or --for or --until-runs alone)"
        )
    options.check_stdin(sum(own["files"].count("-") for own in alternatives), "-f -")
    with labfile.read_lab(state) as lab, terminal.spinner("trying it on a copy"):
        subject = _until_subject(lab, until, namespace) if until else None
        if empty:
            result = compare_with_waiting(lab, seconds, subject)
        else:
            tried = [_alternative(lab, options, namespace) for options in alternatives]
            result = what_if(lab, tried, seconds, subject)
    for warning in result.warnings:
        terminal.warn(warning)
    if output is TextOrJson.json:
        data = result.data()
        terminal.say_json({**data, "before": result.before.data()} if everything else data)
    else:
        terminal.say("\n".join(whatif_lines(result, everything)))


def _until_subject(lab: Lab, text: str, namespace: str) -> tuple[str, str, str]:
    """Kind, name and namespace of ``NAME`` (a Job) or ``KIND/NAME``. Raises InputError."""
    word, slash, name = text.partition("/")
    if not (name if slash else word):
        raise InputError(f"--until-runs: {text!r}: expected the name of a Job or KIND/NAME, as in pytorchjob/train")
    return lab.kind(word if slash else "Job"), name if slash else word, namespace


def _alternative(lab: Lab, options: Mapping[str, Any], namespace: str) -> Alternative:
    """Build the alternative of one group of options. Raises InputError that names the wrong option."""
    from kailab.lab import intake
    from kailab.lab.node_changes import drain_node, nodes_to_add, pods_to_drain
    from kailab.whatif.alternatives import Alternative
    from kailab.whatif.fields import deletion_of, deletions_by_label, patch_of
    from kailab.workloads.disruption import violated_budgets

    changes: list[Change] = []
    shown = {**options, "drains": [name for name in options["drains"] if name != BY_LABEL]}
    options = {**options, "drains": _drained_nodes(lab, options["drains"], options["node_selectors"])}
    for file in options["files"]:
        manifests = intake.load_sources([file if file == "-" else Path(file)], namespace=namespace)
        objects = tuple(obj for _, objects_of_part in manifests.parts for obj in objects_of_part)
        if not objects:
            raise InputError(f"-f: no objects in {file}")
        changes.append(Apply(objects, namespace, () if file == "-" else (Path(file),)))
    for name, make in (
        ("sets", lambda text: (patch_of(lab, text, namespace),)),
        ("pools", lambda text: (nodes_to_add(lab, text),)),
        (
            "drains",
            lambda text: drain_node(lab, text),
        ),  # before deletions, which would delete pods together with their owners
        ("deletes", lambda text: (deletion_of(lab, text, namespace),)),
        ("selectors", lambda text: deletions_by_label(lab, text)),
    ):
        for text in options[name]:
            changes += [change for change in _read_change(_OWN[name], make, text) if change not in changes]
    drained_pods = {pod for node in options["drains"] for pod in pods_to_drain(lab, node)}
    for warning in violated_budgets(lab.cluster, drained_pods) if drained_pods else ():
        terminal.warn(warning)
    settings = None if options["config"] is None else configurations.settings_of_file(options["config"])
    title = " ".join(f"{_OWN[name]} {text}" for name in _OWN for text in _texts(shown[name]))
    return Alternative(title, tuple(_replaced_first(changes)), settings)


def _replaced_first(changes: Sequence[Change]) -> Iterable[Change]:
    """The changes with deletions of objects that are also applied before all others: such an object is replaced, as a field that never
    changes requires."""
    applied = {
        (kind_key(obj), namespace_of(obj) or change.namespace, name_of(obj))
        for change in changes
        if isinstance(change, Apply)
        for obj in change.objects
    }
    first = [one for one in changes if isinstance(one, Delete) and (one.kind, one.namespace, one.name) in applied]
    return [*first, *(change for change in changes if change not in first)]


def _drained_nodes(lab: Lab, drains: Sequence[str], selectors: Sequence[str]) -> list[str]:
    """The nodes to drain, by name. Raises InputError."""
    named = [name for name in drains if name != BY_LABEL]
    if selectors and not drains:
        raise InputError(f"-l {selectors[0]}: selects nodes to drain; give it with --drain")
    if BY_LABEL in drains and not selectors:
        raise InputError("--drain: expected a node, or -l with labels of nodes")
    for selector in selectors:
        keys = select_objects(lab, ["nodes"], "", selector, False)
        if not keys:
            raise InputError(f"--drain -l {selector}: no node has these labels")
        named += [key.name for key in keys]
    return list(dict.fromkeys(named))


def _read_change(option: str, make: Any, text: str) -> Iterable[Change]:
    try:
        changes: Iterable[Change] = make(text)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
    return changes


def _texts(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    return (str(value),) if isinstance(value, str | Path) else tuple(map(str, value))


def whatif_lines(result: WhatIf, everything: bool) -> Iterator[str]:
    several = len(result.alternatives) > 1
    yield f"After {elapsed(result.end - result.start)} of lab time, tried on a copy of the lab ({result.scheduler} decides):"
    for number, (alternative, comparison) in enumerate(
        zip(result.alternatives, result.comparisons, strict=True), start=1
    ):
        name = f"  {number}: " if several else "  "
        yield f"{name}{alternative.title}: {comparison.summary()}"
    for grace in result.open_graces:
        yield f"{grace.sentence} --for {elapsed(result.end - result.start + grace.seconds + 60)} looks further."
    if result.until is not None:
        yield from _until_lines(result.until, [alternative.title for alternative in result.alternatives])
    headers = [f"CHANGED {number}" for number in range(1, len(result.comparisons) + 1)] if several else ["CHANGED"]
    if queues := queue_rows(result.comparisons, everything):
        yield ""
        yield render_table(["QUEUE", "UNCHANGED", *headers], queues)
    workloads = _workload_rows(result.comparisons, everything)
    if workloads:
        visible = workloads if everything else workloads[:MOST_SHOWN]
        yield ""
        yield render_table(["QUEUE", "WORKLOAD", "UNCHANGED", *headers], visible)
        if len(visible) < len(workloads):
            yield f"... and {len(workloads) - len(visible)} more (--all)"


def _until_lines(until: UntilRuns, titles: Sequence[str]) -> Iterator[str]:
    def when(seconds: float | None) -> str:
        if seconds is None:
            return f"does not run within {spoken_duration(until.bound)}"
        return f"runs after {spoken_duration(seconds)}" if seconds > 0 else "runs at once"

    title = until.subject.title
    yield f"{title} {when(until.unchanged)}{' without a change' if until.changed else ''}."
    for number, (name, seconds) in enumerate(zip(titles, until.changed, strict=bool(until.changed)), start=1):
        yield f"{title} {when(seconds)} with {f'{number}: ' if len(until.changed) > 1 else ''}{name}."


def queue_rows(comparisons: Sequence[Comparison], everything: bool) -> list[list[str]]:
    names = sorted(
        {
            change.name
            for comparison in comparisons
            for change in (comparison.all_queues if everything else comparison.queues)
        }
    )
    by_name = [{change.name: change for change in comparison.all_queues} for comparison in comparisons]
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
    parts = [gpus(queue.allocated)]
    if queue.fair_share is not None:
        parts.append(f"share {format_gpu(int(queue.fair_share))}")
    quota = "unlimited" if queue.quota < 0 else format_gpu(queue.quota)
    parts += [f"quota {quota}", *([f"waits for {format_gpu(queue.waiting)}"] if queue.waiting else [])]
    return ", ".join(parts)


def _workload_rows(comparisons: Sequence[Comparison], everything: bool) -> list[list[str]]:
    from kailab.whatif.outcome import changed_workloads

    by_workload = [{change.workload: change for change in comparison.all_workloads} for comparison in comparisons]
    all_workloads = list(
        dict.fromkeys(change.workload for comparison in comparisons for change in comparison.all_workloads)
    )
    rows = []
    for workload in all_workloads if everything else changed_workloads(comparisons):
        changes = [changes.get(workload) for changes in by_workload]
        first = next(change for change in changes if change)
        rows.append([first.queue or "-", str(workload), _format_outcome(first.before), *map(_format_change, changes)])
    return rows


def _format_outcome(counts: WorkloadState | None) -> str:
    if counts is None:
        return "-"
    numbers = {
        "run": counts.running,
        "wait": counts.waiting,
        "done": counts.done,
        "refused by the API server": counts.refused,
    }
    return ", ".join(f"{number} {state}" for state, number in numbers.items() if number) or "no pods"


def _format_change(change: WorkloadChange | None) -> str:
    if change is None:
        return "-"
    parts = [_format_outcome(change.after) if change.after else "gone"]
    if change.moved:
        parts.append(f"{change.moved} elsewhere")
    for (action, beneficiary), number in Counter(
        (eviction.action, eviction.beneficiary) for eviction in change.evicted
    ).items():
        outcome = "moved" if action == MOVING else "evicted"
        parts.append(f"{number} {outcome} {f'for {beneficiary} ' if beneficiary else ''}({action})")
    return "; ".join(parts)
