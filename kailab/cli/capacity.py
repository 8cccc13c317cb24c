"""``capacity``: the fewest GPUs that serve a trace as asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import configurations, options, replay_options, signals, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.studies.capacity import Capacity, FleetProbe, MeanWait, TeamGain


@click.command()
@click.option("--trace", type=options.PATH, required=True, help="The trace, as replay takes it.")
@click.option(
    "--fleet", required=True, help="The fleet to start from: a name, a file, or openb's list of nodes (.csv)."
)
@click.option(
    "--target", "targets", multiple=True, required=True,
    help="What is asked for: 'p99 wait < 1h', 'team-b mean wait < 10min', 'use > 60%'. May be repeated.",
)  # fmt: skip
@replay_options.replay_option_group
@click.option(
    "--seeds",
    type=click.IntRange(0, 1000),
    default=5,
    help="Other traces that could have been, for each size. 0: the trace as it is.",
)
@click.option("--most", type=click.IntRange(1, 1000), default=8, help="Try fleets of so many times the nodes at most.")
@click.option(
    "--step", type=click.IntRange(1), help="To so many nodes exactly.", show_default="a hundredth of the fleet's nodes"
)
@click.option(
    "--name", default="", show_default=False, help="Of the folder that runs are kept in, if not capacity-TRACE."
)
@replay_options.parallel_options
@options.studies
@options.output
def capacity(
    trace: Path, fleet: str, targets: tuple[str, ...], queues: Path | None, quota_by_share: bool, one_queue: bool, form: str, columns: str,
    skip_broken: bool, duration: str, checkpoint: str, arrivals_only: bool, config: Path | None, policies: tuple[str, ...], prices: Path | None, seeds: int,
    most: int, step: int | None, name: str, workers: int | None, dask: str, root: Path, output: TextOrJson,
) -> None:  # fmt: skip
    """Find the fewest GPUs with which a trace's jobs are served as asked: the fleet is made smaller and larger and the trace replayed on it, with
    several seeds. Tells the quotas that get there, and what each queue gains or loses. Exit code 1 if no fleet does."""
    from kailab.errors import InputError
    from kailab.replay.trace import describe_broken_lines
    from kailab.studies.capacity import CapacityQuestion
    from kailab.studies.capacity import find_capacity as carry_out
    from kailab.studies.planning import trace_of
    from kailab.studies.study_file import NAME, placed
    from kailab.studies.target import read_target

    replay_options.check_replay_options(queues, quota_by_share, one_queue, arrivals_only, checkpoint)
    replay_options.check_study_options(workers, dask)
    told = {
        "trace": str(trace), "format": form, "columns": replay_options.parse_columns(columns), "skipBroken": skip_broken, "fleet": fleet,
        "queues": replay_options.queues_mode(queues, quota_by_share, one_queue), "arrivalsOnly": arrivals_only,
        "policies": list(policies), "config": None if config is None else str(config), "prices": None if prices is None else str(prices),
    }  # fmt: skip
    run_options = {key: placed(key, value, Path.cwd()) for key, value in told.items() if value}
    for key, text in (("for", duration), ("checkpoint", checkpoint)):
        if (found := replay_options.whole_seconds(f"--{key}", text)) is not None:
            run_options[key] = found
    name = name or f"capacity-{trace.name.partition('.')[0].lower()}"
    if not NAME.fullmatch(name):
        raise InputError(f"--name: {name!r:.80}: expected small letters, digits, '-' and '.'")
    question = CapacityQuestion(
        name=name, options=run_options, targets=tuple(map(read_target, targets)), seeds=seeds, most=most, step=step
    )
    if prices is not None and not any(target.priced for target in question.targets):
        raise InputError(
            "--prices: no target is of what they tell; expected one such as 'cost < 1000' or 'energy < 500'"
        )
    configurations.print_notices_of_files([] if config is None else [config])
    for line in describe_broken_lines(trace_of(run_options)):
        terminal.warn(line)
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        done = carry_out(question, root, workers=workers, dask=dask, progress=tell)
    terminal.say(json.dumps(_data(done), indent=2) if output is TextOrJson.json else "\n".join(_told(done)))
    if done.found is None:
        raise click.exceptions.Exit(1)


# --- for programs ------------------------------------------------------------------------------------------------------


def _data(done: Capacity) -> dict[str, Any]:
    from kailab.studies.capacity import team_gains
    from kailab.studies.confidence import CONFIDENCE

    question = done.question
    return {
        "targets": [str(target) for target in question.targets],
        "seeds": question.seeds,
        "confidence": CONFIDENCE if question.seeds else None,
        "given": _probe_data(done.given),
        "found": None if done.found is None else _probe_data(done.found) | {"quotas": _quotas(done.found)},
        "check": None if done.check is None else _probe_data(done.check),
        "below": None if done.below is None else _probe_data(done.below),
        "queues": [] if done.found is None else [_gain_data(one) for one in team_gains(done.given, done.found)],
        "tried": [_probe_data(one) for one in done.probes],
    }


def _probe_data(probe: FleetProbe) -> dict[str, Any]:
    return {
        "gpus": dict(probe.gpus), "total": probe.total, "nodes": dict(probe.nodes), "quotas_by": probe.quotas, "fresh_seeds": probe.fresh,
        "keeps": str(probe.verdict),
        "targets": [
            {"target": str(one.target), "keeps": str(one.verdict), "mean": one.mean, "bound": one.bound, "seeds": len(one.values), "missing": one.missing}
            for one in probe.estimates
        ],
    }  # fmt: skip


def _gain_data(one: TeamGain) -> dict[str, Any]:
    def wait(part: MeanWait) -> dict[str, Any]:
        return {"quota": part.quota, "wait_mean": part.mean, "wait_p99": part.p99, "began": part.began}

    longer = None if one.longer is None else {"mean": one.longer.mean, "low": one.longer.low, "high": one.longer.high}
    return {
        "queue": one.queue,
        "given": wait(one.before),
        "found": wait(one.after),
        "longer": longer,
        "verdict": one.verdict,
    }


def _quotas(probe: FleetProbe) -> dict[str, float]:
    from kailab.studies.planning import plan_of

    return plan_of(probe.runs[0]).queues.quotas


# --- for people --------------------------------------------------------------------------------------------------------


def _told(done: Capacity) -> Iterator[str]:
    from kailab.cli.table import render_table

    question = done.question
    how = f"{question.seeds} seeds, 95 % confidence" if question.seeds else "the trace as it is, once: no confidence"
    yield f"Asked for: {', '.join(map(str, question.targets))} ({how})"
    yield ""
    rows = [[str(one.total), _models(one), one.quotas, *_cells(one), str(one.verdict)] for one in _shown(done)]
    heads = ["GPUS", "MODELS", "QUOTAS", *(str(target).upper() for target in question.targets), "KEEPS"]
    yield render_table(heads, rows)
    yield ""
    if done.found is None:
        yield from _none(done)
        return
    yield from _found(done)


def _shown(done: Capacity) -> list[FleetProbe]:
    """All that was tried with the seeds of the search, by size."""
    order = sorted((one for one in done.probes if not one.fresh), key=lambda one: (one.total, one.quotas))
    return [*order, *(one for one in done.probes if one.fresh and one is done.check)]


def _cells(probe: FleetProbe) -> list[str]:
    from kailab.studies.target import amount

    cells = []
    for one in probe.estimates:
        if one.missing:
            cells.append(f"not in {one.missing} of {one.missing + len(one.values)}")
            continue
        edge = (
            ""
            if one.bound is None
            else f" ({'<=' if one.target.upper else '>='} {amount(one.target.measure, one.bound)})"
        )
        cells.append(f"{amount(one.target.measure, one.mean)}{edge}")
    return cells


def _models(probe: FleetProbe) -> str:
    return ", ".join(f"{count} {model}" for model, count in sorted(probe.gpus.items()))


def _found(done: Capacity) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.studies.capacity import NEED, team_gains

    assert done.found is not None
    by = (
        "the GPUs that each queue needs, those of the targets first" if done.found.quotas == NEED else "quotas as given"
    )
    yield f"Fewest: {done.found.total} GPUs ({_models(done.found)}), with {by}; given are {done.given.total}."
    if done.check is not None:
        count = done.question.seeds
        yield f"With {count} fresh seeds ({count} to {2 * count - 1}), which the search did not see, all targets are kept too: the last line above."
        part = min(one.part for one in done.check.estimates)
        yield f"Each seed for itself: each target is kept in {part:.0%} of such traces at least, with the same confidence; more seeds tell more."
    if done.below is not None:
        word = "is not known to keep them" if str(done.below.verdict) == "open" else "does not keep them"
        yield f"The next smaller fleet that was tried, {done.below.total} GPUs, {word}."
    rows = []
    for one in team_gains(done.given, done.found):
        quota = f"{one.before.quota:g} -> {one.after.quota:g}"
        change = "-" if one.longer is None else f"{_signed(one.longer.low)} to {_signed(one.longer.high)}"
        rows.append(
            [
                one.queue,
                quota,
                _change(one.before.mean, one.after.mean),
                _change(one.before.p99, one.after.p99),
                change,
                one.verdict,
            ]
        )
    yield ""
    yield render_table(["QUEUE", "QUOTA", "MEAN WAIT", "P99 WAIT", "WAITS LONGER BY", ""], rows)


def _none(done: Capacity) -> Iterator[str]:
    most = max(one.total for one in done.probes)
    against = [target for target in done.question.targets if not target.more_helps]
    if against and any(_keeps_helped(one) for one in done.probes):
        told = ", ".join(map(str, against))
        yield f"None of the fleets that were tried keeps all: where the others are kept, {told} is not, which more GPUs seldom bring nearer."
        return
    yield f"No fleet of up to {most} GPUs is known to keep all. --most tries larger ones, --seeds tells more surely."


def _keeps_helped(probe: FleetProbe) -> bool:
    return all(str(one.verdict) == "yes" for one in probe.estimates if one.target.more_helps)


def _change(before: float | None, after: float | None) -> str:
    from kailab.studies.target import amount

    return f"{amount('waits', before) if before is not None else 'no end'} -> {amount('waits', after) if after is not None else 'no end'}"


def _signed(seconds: float) -> str:
    from kailab.studies.target import amount

    return f"{'-' if seconds < 0 else '+'}{amount('waits', abs(seconds))}"
