"""``sweep``: a study carried out, and what its figures say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import ending, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.studies.finding import Estimate, Finding
    from kailab.studies.sweeping import Swept

MOST_TOLD = 10
"""Runs that could not be done, told one by one."""


@click.command()
@click.argument("study", type=options.PATH)
@click.option(
    "--workers", type=click.IntRange(1, 256), help="Runs side by side here.", show_default="one for each processor"
)
@click.option("--dask", default="", show_default=False, help="Run on a Dask cluster: its scheduler, tcp://HOST:PORT.")
@click.option(
    "--studies",
    "root",
    type=options.PATH,
    default=Path("studies"),
    envvar="KAILAB_STUDIES",
    show_envvar=True,
    help="The folder that studies are kept in.",
)
@click.option("--table", type=options.PATH, help="Write the results there, too: .csv or .parquet.")
@options.output
def sweep(study: Path, workers: int | None, dask: str, root: Path, table: Path | None, output: TextOrJson) -> None:
    """Replay a trace under each combination of settings in a study's file, several runs at once, and tell which settings keep what is asked
    for. What was done before an interruption is not done again. Exit code 1 if a run can't be done."""
    from kailab.errors import InputError
    from kailab.replay import tables
    from kailab.studies.finding import finding
    from kailab.studies.keeping import write_table
    from kailab.studies.reading import read_study
    from kailab.studies.sweeping import sweep as carry_out

    if dask and workers is not None:
        raise InputError("--workers: with --dask the cluster has as many as it has")
    if table is not None:
        tables.check_target(table)
    wanted = read_study(study)
    with ending.in_order(), terminal.progress_bars() as tell:
        swept = carry_out(wanted, root, workers=workers, dask=dask, progress=tell)
    if table is not None:
        write_table(table, swept.study, swept.runs, swept.results)
    found = finding(swept)
    if output is TextOrJson.json:
        terminal.say(json.dumps(_data(swept, found), indent=2))
    else:
        terminal.say("\n".join(_told(swept, found)))
    for run in swept.failed[:MOST_TOLD]:
        terminal.warn(f"run {run.number} of {swept.study.name} can't be done: {swept.results[run.key].error}")
    if swept.failed:
        raise click.exceptions.Exit(1)


def _data(swept: Swept, found: Finding | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "study": swept.study.name,
        "runs": len(swept.runs),
        "done_before": swept.before,
        "failed": [{"run": run.number, "error": swept.results[run.key].error} for run in swept.failed],
        "table": str(swept.table),
    }
    if found is not None:
        data["find"] = {
            "measure": found.find.measure,
            "queue": found.find.queue,
            "below": found.find.below,
            "above": found.find.above,
            "confidence": 0.95,
            "settings": [
                {
                    "setting": one.setting, "seeds": len(one.values), "missing": one.missing, "mean": one.mean, "bound": one.bound,
                    "holds": one.holds, "least": one.least,
                }
                for one in found.estimates
            ],
            "best": None if found.best is None else found.estimates[found.best].setting,
        }  # fmt: skip
    return data


def _told(swept: Swept, found: Finding | None) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.lab.wording import count
    from kailab.studies.measuring import ALL
    from kailab.studies.study import told

    done = f", {swept.before} of them done before" if swept.before else ""
    yield f"{count(len(swept.runs), 'run')} of {swept.study.name}{done}: {swept.table}"
    if found is not None:
        yield ""
        yield from _found(found)
        return
    heads = [*(name.upper() for name in swept.study.grid), "SEED", "ENDED", "WAITED", "P99", "EVICTED", "ALLOCATED"]
    rows = []
    for run in swept.runs:
        for row in swept.results[run.key].rows:
            if row["queue"] == ALL:
                setting = [told(run.setting[name]) for name in swept.study.grid]
                seed = "-" if run.seed is None else str(run.seed)
                waited = [_seconds(row["waited_mean"]), _seconds(row["waited_p99"])]
                rows.append(
                    [*setting, seed, str(row["ended"]), *waited, str(row["evictions"]), f"{row['allocated']:.2%}"]
                )
    yield ""
    yield render(heads, rows)


def _found(found: Finding) -> Iterator[str]:
    from kailab.cli.table import render
    from kailab.studies.study import told

    find = found.find
    side, limit = ("below", find.below) if find.below is not None else ("above", find.above)
    what = f"{find.measure} of {'all jobs' if find.queue == 'all' else find.queue}"
    yield f"Asked for: {what} {side} {_amount(find.measure, limit)}, with 95 % confidence in its mean over the seeds"
    names = list(found.estimates[0].setting)
    edge = "AT MOST" if side == "below" else "AT LEAST"
    rows = [
        [
            *(told(one.setting[name]) for name in names),
            told(one.least),
            str(len(one.values)),
            _amount(find.measure, one.mean),
            _amount(find.measure, one.bound),
            _verdict(one),
        ]
        for one in found.estimates
    ]
    yield ""
    yield render(
        [*(name.upper() for name in names), f"LEAST {find.least.upper()}", "SEEDS", "MEAN", edge, "HOLDS"], rows
    )
    yield ""
    if found.best is None:
        yield "No setting keeps it."
        return
    best = found.estimates[found.best]
    said = ", ".join(f"{name} {told(value)}" for name, value in best.setting.items()) or "the only setting"
    yield (
        f"Best: {said}. With 95 % confidence the mean {what} is {edge.lower()} {_amount(find.measure, best.bound)} "
        f"(least {find.least}: {told(best.least)})"
    )


def _verdict(one: Estimate) -> str:
    if one.missing:
        return f"no: nothing to measure in {one.missing}"
    if one.bound is None:
        return "not known: one seed"
    return "yes" if one.holds else "no"


def _amount(measure: str, value: float | None) -> str:
    if measure.startswith(("waited", "took")):
        return _seconds(value)
    if value is None:
        return "-"
    return f"{value:.2%}" if measure.startswith("allocated") else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    from kailab.cli.table import age

    return "-" if value is None else age(value)
