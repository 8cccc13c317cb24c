"""``replay``: the jobs of a trace in virtual time, and how long they waited."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kailab.cli import options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.fleet import Fleet
    from kailab.replay.queues import Queues
    from kailab.replay.summary import Row, Spread, Summary
    from kailab.replay.trace import Trace


@click.command()
@click.argument("trace", type=options.PATH)
@click.option("--fleet", required=True, help="The fleet: a name, a file, or openb's list of nodes (.csv).")
@click.option("--queues", type=options.PATH, help="A file of Queues: each team has a leaf of its name there.")
@click.option("--quota-by-share", is_flag=True, help="Quotas from each team's part of the GPU time in the trace.")
@click.option("--one-queue", is_flag=True, help="All jobs in one queue, whoever's they are.")
@click.option(
    "--format", "form", default="", show_default=False, help="openb, philly or csv, if not known by its columns."
)
@click.option("--columns", default="", show_default=False, help="Of a CSV: submit=NAME,seconds=NAME,gpus=NAME ...")
@click.option("--skip-broken", is_flag=True, help="Replay without lines that can't be read; each is told and counted.")
@click.option("--for", "duration", default="", show_default=False, help="Cut it off after so long: 12h, 7d.")
@click.option(
    "--checkpoint",
    default="",
    show_default=False,
    help="Jobs save their work so often: 30m. Else evicted ones begin anew.",
)
@click.option("--arrivals-only", is_flag=True, help="Jobs arrive and never end.")
@click.option(
    "--scheduler-config",
    "--config",
    "config",
    type=options.PATH,
    help="The scheduler's configuration, as KAI reads it.",
)
@click.option(
    "--policy", "policies", multiple=True, help="A policy by its name: fifo, fgd, best-fit ... May be repeated."
)
@click.option("--seed", type=int, help="Of the policy random.")
@click.option("--jobs", "jobs_file", type=options.PATH, help="Write a row for each job there: .csv or .parquet.")
@click.option(
    "--timeline", "timeline_file", type=options.PATH, help="Write the GPUs held over time there: .csv or .parquet."
)
@options.output
def replay(
    trace: Path,
    fleet: str,
    queues: Path | None,
    quota_by_share: bool,
    one_queue: bool,
    form: str,
    columns: str,
    skip_broken: bool,
    duration: str,
    checkpoint: str,
    arrivals_only: bool,
    config: Path | None,
    policies: tuple[str, ...],
    seed: int | None,
    jobs_file: Path | None,
    timeline_file: Path | None,
    output: TextOrJson,
) -> None:
    """Replay the jobs of a trace in virtual time: as they arrived, in queues by their teams, on a fleet of fake GPUs, decided by the
    lab's own scheduler. Tells how long they waited, by queue and by size, and where the GPU time went."""
    from kailab.errors import InputError
    from kailab.replay import replaying, tables
    from kailab.replay.fleets import replay_fleet
    from kailab.replay.policies import decided_by
    from kailab.replay.summary import as_json, summary
    from kailab.replay.trace import read_trace, told_broken

    if sum((queues is not None, quota_by_share, one_queue)) > 1:
        raise InputError("--queues, --quota-by-share and --one-queue: expected one of them at most")
    if arrivals_only and checkpoint:
        raise InputError("--checkpoint: with --arrivals-only no job has an end that it could come nearer to")
    lasting, interval = _seconds("--for", duration), _seconds("--checkpoint", checkpoint)
    targets = [path for path in (jobs_file, timeline_file) if path is not None]
    for path in targets:
        tables.check_target(path)
    described = replay_fleet(fleet)
    read = read_trace(trace, form, _declared(columns), skip_broken=skip_broken)
    for line in told_broken(read):
        terminal.warn(line)
    plan = replaying.Plan(
        trace=read,
        fleet=described,
        queues=_queues(read, described, queues, quota_by_share, one_queue),
        config=decided_by(config, policies, read, described, seed),
        lasting=lasting,
        checkpoint=interval,
        endless=arrivals_only,
    )
    with terminal.progress_bars() as tell:
        done = replaying.replay(plan, tell)
    if jobs_file is not None:
        tables.write(jobs_file, tables.JOBS, tables.job_rows(done))
    if timeline_file is not None:
        tables.write(timeline_file, tables.TIMELINE, tables.timeline_rows(done))
    found = summary(done)
    terminal.say(json.dumps(as_json(found), indent=2) if output is TextOrJson.json else "\n".join(_told(found)))


def _seconds(option: str, text: str) -> int | None:
    from kailab.cli.durations import seconds_of
    from kailab.errors import InputError

    if not text:
        return None
    found = seconds_of(option, text)
    if found < 1 or found != int(found):
        raise InputError(f"{option}: {text}: expected whole seconds, one or more")
    return int(found)


def _declared(text: str) -> dict[str, str]:
    from kailab.errors import InputError

    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        own, equals, named = part.partition("=")
        if not equals or not own.strip() or not named.strip():
            raise InputError(f"--columns: {part!r}: expected NAME=COLUMN, as in submit=timestamp")
        found[own.strip()] = named.strip()
    return found


def _queues(trace: Trace, fleet: Fleet, file: Path | None, by_share: bool, one: bool) -> Queues:
    from kailab.replay.queues import BY_SHARE, NO_QUOTA, ONE, from_file, queues_for

    if file is not None:
        return from_file(trace, file)
    return queues_for(trace, fleet.summary().gpus, BY_SHARE if by_share else ONE if one else NO_QUOTA)


def _told(found: Summary) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.lab.wording import elapsed
    from kailab.replay.summary import gpu_hours

    total, sums = found.total, found.balance
    jobs = f"{total.jobs}" if total.jobs == found.in_trace else f"The first {total.jobs} of {found.in_trace}"
    yield f"{jobs} jobs of {found.trace} ({found.form}) on {found.fleet}, {found.gpus} GPUs: {elapsed(found.seconds)} of lab time"
    for reason, number in found.left_out.items():
        yield f"Left out: {number} lines: {reason}"
    yield (
        f"GPUs allocated: {found.allocated:.2%} of the time; until the last arrival {found.allocated_arriving:.2%}. "
        f"{total.ended} jobs ended, {total.jobs - total.began} never began, {total.evictions} pods evicted"
    )
    yield (
        f"GPU-hours: {gpu_hours(sums.submitted):.3f} submitted = {gpu_hours(sums.done):.3f} done + {gpu_hours(sums.to_run):.3f} to do by what runs "
        f"+ {gpu_hours(sums.to_wait):.3f} by what waits; {gpu_hours(sums.held):.3f} held = done + {gpu_hours(sums.lost):.3f} lost "
        f"+ {gpu_hours(sums.overhead):.3f} starting and leaving"
    )
    if total.evictions:
        lost = ", ".join(f"{hours:.3f} ({name})" for name, hours in found.lost_with_checkpoints.items())
        yield f"Goodput: {found.goodput:.2%} of the GPU time held. Lost with work saved so often: {lost}"
    if found.fairness.jain is not None:
        yield f"Fairness: Jain's index {found.fairness.jain:.4f} of GPU time held by fair share"
    if found.fragmentation is not None:
        parts = found.fragmentation
        yield f"Fragmentation (FGD's): {parts.of_all:.2%} of all GPUs, {parts.of_free:.2%} of the free ones; at the end {parts.last_of_all:.2%}"
    headers = ["JOBS", "BEGAN", "ENDED", "WAITED", "P50", "P99", "TOOK", "SLOWDOWN", "EVICTED", "GPU-HOURS", "LOST"]
    fair = {queue.name: queue for queue in found.fairness.queues}
    rows = []
    for row in found.queues:
        own = fair.get(row.name)
        rows.append([*_row(row), *((f"{own.held:.1f}", f"{own.fair:.1f}", f"{own.short:.2f}") if own else "---")])
    yield ""
    yield render(["QUEUE", *headers, "HELD", "FAIR", "SHORT"], [*rows, [*_row(found.total), *"---"]])
    yield ""
    yield render(["SIZE", *headers], [_row(row) for row in (*found.sizes, found.total)])


def _row(row: Row) -> list[str]:
    from kailab.cli.table import age

    def cell(spread: Spread | None, pick: Callable[[Spread], float], write: Callable[[float], str]) -> str:
        return "-" if spread is None else write(pick(spread))

    return [
        row.name,
        str(row.jobs),
        str(row.began),
        str(row.ended),
        cell(row.waited, lambda one: one.mean, age),
        cell(row.waited, lambda one: one.p50, age),
        cell(row.waited, lambda one: one.p99, age),
        cell(row.took, lambda one: one.mean, age),
        cell(row.slowdown, lambda one: one.mean, lambda number: f"{number:.2f}"),
        str(row.evictions),
        f"{row.asked:.1f}",
        f"{row.lost:.1f}",
    ]
