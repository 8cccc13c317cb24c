"""``capacity``: find the smallest fleet that meets targets for a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import configurations, options, replay_options, signals, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.replay_options import ReplayOptions
from kailab.cli.table import render_table
from kailab.errors import InputError
from kailab.model.wording import count
from kailab.studies.confidence import CONFIDENCE
from kailab.studies.target import format_measure, read_target

if TYPE_CHECKING:
    from kailab.studies.capacity import Capacity, FleetProbe, MeanWait, TeamGain


@click.command()
@click.option("--trace", type=options.PATH, required=True, help="Trace, as for `kailab replay`.")
@click.option("--fleet", required=True, help="Fleet to start from: a name, a file, or openb's list of nodes (.csv).")
@click.option(
    "--target", "targets", multiple=True, required=True,
    help="Target: 'p99 wait < 1h', 'team-b mean wait < 10min', 'use > 60%'. May be repeated.",
)  # fmt: skip
@replay_options.replay_option_group
@click.option(
    "--seeds",
    type=click.IntRange(0, 1000),
    default=5,
    help="Number of resampled traces that are replayed on each fleet size. 0: only the trace itself.",
)
@click.option(
    "--most",
    type=click.IntRange(1, 1000),
    default=8,
    help="Largest fleet to try, as a multiple of the nodes of --fleet.",
)
@click.option(
    "--step",
    type=click.IntRange(1),
    help="Find the smallest fleet to within this number of nodes.",
    show_default="a hundredth of the fleet's nodes",
)
@options.text_option("--name", help="Name of the folder in --studies for the runs. Default: capacity-TRACE.")
@replay_options.parallel_options
@options.studies
@options.output
def capacity(
    trace: Path, fleet: str, targets: tuple[str, ...], chosen: ReplayOptions, seeds: int, most: int, step: int | None, name: str,
    workers: int | None, dask: str, root: Path, output: TextOrJson,
) -> None:  # fmt: skip
    """Find the smallest fleet that meets targets for a trace: the trace is replayed on smaller and larger fleets, with several seeds. The report has
    the required quotas, and what each queue gains or loses. Exit code 1 if no fleet meets the targets."""
    from kailab.replay.trace import describe_broken_lines
    from kailab.studies.capacity import CapacityQuestion
    from kailab.studies.capacity import find_capacity as carry_out
    from kailab.studies.planning import trace_of
    from kailab.studies.study_file import NAME, placed

    chosen.check()
    replay_options.check_study_options(workers, dask)
    given = {
        "trace": str(trace), "format": chosen.form, "columns": replay_options.parse_columns(chosen.columns), "skipBroken": chosen.skip_broken,
        "fleet": fleet, "queues": chosen.queues_mode, "arrivalsOnly": chosen.arrivals_only, "policies": list(chosen.policies),
        "config": _text(chosen.config), "prices": _text(chosen.prices),
    }  # fmt: skip
    run_options = {key: placed(key, value, Path.cwd()) for key, value in given.items() if value}
    if chosen.estimates is not None:
        run_options["estimates"] = chosen.estimates
    run_options |= chosen.seconds()
    name = name or f"capacity-{trace.name.partition('.')[0].lower()}"
    if not NAME.fullmatch(name):
        raise InputError(f"--name: {name!r:.80}: expected lower-case letters, digits, '-' and '.'")
    question = CapacityQuestion(
        name=name, options=run_options, targets=tuple(map(read_target, targets)), seeds=seeds, most=most, step=step
    )
    if chosen.prices is not None and not any(target.priced for target in question.targets):
        raise InputError("--prices: no target needs prices; expected one such as 'cost < 1000' or 'energy < 500'")
    configurations.print_notices_of_files([] if chosen.config is None else [chosen.config])
    for line in describe_broken_lines(trace_of(run_options)):
        terminal.warn(line)
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        result = carry_out(question, root, workers=workers, dask=dask, progress=tell)
    terminal.say(json.dumps(_data(result), indent=2) if output is TextOrJson.json else "\n".join(_lines(result)))
    if result.found is None:
        raise click.exceptions.Exit(1)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _data(result: Capacity) -> dict[str, Any]:
    from kailab.studies.capacity import team_gains

    question = result.question
    return {
        "targets": [str(target) for target in question.targets],
        "seeds": question.seeds,
        "confidence": CONFIDENCE if question.seeds else None,
        "given": _probe_data(result.given),
        "found": None if result.found is None else _probe_data(result.found) | {"quotas": _quotas(result.found)},
        "check": None if result.check is None else _probe_data(result.check),
        "below": None if result.below is None else _probe_data(result.below),
        "queues": [] if result.found is None else [_gain_data(item) for item in team_gains(result.given, result.found)],
        "tried": [_probe_data(item) for item in result.probes],
    }


def _probe_data(probe: FleetProbe) -> dict[str, Any]:
    return {
        "gpus": dict(probe.gpus), "total": probe.total, "nodes": dict(probe.nodes), "quotas_by": probe.quotas, "fresh_seeds": probe.fresh,
        "keeps": str(probe.verdict),
        "targets": [
            {"target": str(estimate.target), "keeps": str(estimate.verdict), "mean": estimate.mean, "bound": estimate.bound, "seeds": len(estimate.values), "missing": estimate.missing}
            for estimate in probe.estimates
        ],
    }  # fmt: skip


def _gain_data(gain: TeamGain) -> dict[str, Any]:
    def wait(mean_wait: MeanWait) -> dict[str, Any]:
        return {
            "quota": mean_wait.quota,
            "wait_mean": mean_wait.mean,
            "wait_p99": mean_wait.p99,
            "began": mean_wait.began,
        }

    longer = None if gain.longer is None else asdict(gain.longer)
    return {
        "queue": gain.queue,
        "given": wait(gain.before),
        "found": wait(gain.after),
        "longer": longer,
        "verdict": gain.verdict,
    }


def _quotas(probe: FleetProbe) -> dict[str, float]:
    from kailab.studies.planning import plan_of

    return plan_of(probe.runs[0]).queues.quotas


def _lines(result: Capacity) -> Iterator[str]:
    question = result.question
    confidence = (
        f"{question.seeds} seeds, 95 % confidence"
        if question.seeds
        else "one replay of the trace itself, no confidence"
    )
    yield f"Targets: {', '.join(map(str, question.targets))} ({confidence})"
    yield ""
    rows = [
        [str(probe.total), _models(probe), probe.quotas, *_cells(probe), str(probe.verdict)]
        for probe in _probes_by_size(result)
    ]
    heads = ["GPUS", "MODELS", "QUOTAS", *(str(target).upper() for target in question.targets), "KEEPS"]
    yield render_table(heads, rows)
    yield ""
    if result.found is None:
        yield from _nothing_found_lines(result)
        return
    yield from _found_lines(result)


def _probes_by_size(result: Capacity) -> list[FleetProbe]:
    """The probes with the seeds of the search, by size, then the check with fresh seeds."""
    ordered = sorted(
        (probe for probe in result.probes if not probe.fresh), key=lambda probe: (probe.total, probe.quotas)
    )
    return [*ordered, *(probe for probe in result.probes if probe.fresh and probe is result.check)]


def _cells(probe: FleetProbe) -> list[str]:
    cells = []
    for estimate in probe.estimates:
        if estimate.missing:
            cells.append(f"not in {estimate.missing} of {estimate.missing + len(estimate.values)}")
            continue
        measure = estimate.target.measure
        sign = "<=" if estimate.target.upper else ">="
        bound = "" if estimate.bound is None else f" ({sign} {format_measure(measure, estimate.bound)})"
        cells.append(f"{format_measure(measure, estimate.mean)}{bound}")
    return cells


def _models(probe: FleetProbe) -> str:
    return ", ".join(f"{number} {model}" for model, number in sorted(probe.gpus.items()))


def _found_lines(result: Capacity) -> Iterator[str]:
    from kailab.studies.capacity import NEED, team_gains

    assert result.found is not None
    quotas = "quotas by need, queues of the targets first" if result.found.quotas == NEED else "the given quotas"
    yield f"Fewest: {count(result.found.total, 'GPU')} ({_models(result.found)}), with {quotas}; the given fleet has {result.given.total}."
    if result.check is not None:
        seeds = result.question.seeds
        yield f"With {count(seeds, 'fresh seed')} ({seeds} to {2 * seeds - 1}), which the search did not use, all targets are met too: the last line above."
        part = min(estimate.part for estimate in result.check.estimates)
        yield f"For single seeds: each target is met in at least {part:.0%} of such traces, with the same confidence; more seeds narrow this down."
    if result.below is not None:
        outcome = "is not known to meet them" if str(result.below.verdict) == "open" else "does not meet them"
        yield f"The next smaller fleet that was tried, {count(result.below.total, 'GPU')}, {outcome}."
    rows = []
    for gain in team_gains(result.given, result.found):
        quota = f"{gain.before.quota:g} -> {gain.after.quota:g}"
        change = "-" if gain.longer is None else f"{_signed(gain.longer.low)} to {_signed(gain.longer.high)}"
        rows.append(
            [
                gain.queue,
                quota,
                _change(gain.before.mean, gain.after.mean),
                _change(gain.before.p99, gain.after.p99),
                change,
                gain.verdict,
            ]
        )
    yield ""
    yield render_table(["QUEUE", "QUOTA", "MEAN WAIT", "P99 WAIT", "WAITS LONGER BY", ""], rows)


def _nothing_found_lines(result: Capacity) -> Iterator[str]:
    most = max(probe.total for probe in result.probes)
    conflicting = [target for target in result.question.targets if not target.more_helps]
    if conflicting and any(_meets_growing_targets(probe) for probe in result.probes):
        names = ", ".join(map(str, conflicting))
        yield f"No fleet that was tried meets all targets: those that meet the others do not meet {names}, which more GPUs seldom help."
        return
    yield f"No fleet of up to {count(most, 'GPU')} is known to meet all targets. --most tries larger fleets, --seeds makes the result more certain."


def _meets_growing_targets(probe: FleetProbe) -> bool:
    """True if the probe meets all targets that more GPUs help."""
    return all(str(estimate.verdict) == "yes" for estimate in probe.estimates if estimate.target.more_helps)


def _change(before: float | None, after: float | None) -> str:
    return f"{format_measure('waits', before) if before is not None else 'no end'} -> {format_measure('waits', after) if after is not None else 'no end'}"


def _signed(seconds: float) -> str:
    return f"{'-' if seconds < 0 else '+'}{format_measure('waits', abs(seconds))}"
