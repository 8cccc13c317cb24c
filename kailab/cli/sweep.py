"""``sweep``: run a study, and report its results, the settings that meet its targets, and comparisons between settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import configurations, options, replay_options, signals, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.studies.comparison import (
        Compare,
        Interval,
        JudgedSetting,
        SettingComparison,
        SettingDifference,
        SettingIntervals,
        StudyFinding,
    )
    from kailab.studies.confidence import Estimate
    from kailab.studies.study import Study, StudyQuestion
    from kailab.studies.sweep import SweptStudy


def comparison_data(found: SettingComparison) -> dict[str, Any]:
    """For programs."""
    from kailab.studies.confidence import CONFIDENCE

    return {
        "against": found.against,
        "confidence": CONFIDENCE,
        "settings": [
            {"setting": setting, "differences": [_difference(one) for one in differences]}
            for setting, differences in found.settings
        ],
    }


def _difference(one: SettingDifference) -> dict[str, Any]:
    more = None if one.more is None else {"mean": one.more.mean, "low": one.more.low, "high": one.more.high}
    return {
        "queue": one.queue, "measure": one.measure, "mean": one.mean, "against": one.other, "more": more, "seeds": one.seeds,
        "seeds_below": one.below, "seeds_above": one.above, "missing": one.missing, "verdict": one.verdict,
    }  # fmt: skip


def comparison_lines(found: SettingComparison) -> Iterator[str]:
    """For people."""
    from kailab.cli.table import render_table
    from kailab.studies.comparison import describe_compare
    from kailab.studies.study import format_value as value
    from kailab.studies.target import amount, subject

    yield ""
    yield f"Against {describe_compare(found.against)}, seed by seed; 95 % confidence in all differences at once:"
    yield ""
    rows = []
    for setting, differences in found.settings:
        for one in differences:
            means = f"{amount(one.measure, one.other)} -> {amount(one.measure, one.mean)}"
            cells = [subject(one.measure, one.queue), means, _more_interval(one), _seed_counts(one), one.verdict]
            rows.append([*(value(part) for part in setting.values()), *cells])
    yield render_table([*(name.upper() for name in found.against), "MEASURE", "MEAN", "MORE BY", "SEEDS", ""], rows)


def _more_interval(one: SettingDifference) -> str:
    if one.more is None:
        return "-"
    return f"{_signed_amount(one.measure, one.more.low)} to {_signed_amount(one.measure, one.more.high)}"


def _signed_amount(measure: str, value: float) -> str:
    from kailab.studies.target import amount

    return f"{'-' if value < 0 else '+'}{amount(measure, abs(value))}"


def _seed_counts(one: SettingDifference) -> str:
    part = f", none in {one.missing}" if one.missing else ""
    return f"{one.below} less, {one.above} more of {one.seeds}{part}"


MOST_TOLD = 10
"""Runs that could not be done, told one by one."""


@click.command()
@click.argument("study", type=options.PATH)
@replay_options.parallel_options
@options.studies
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="What is asked for, instead of the study's own: 'vision p99 wait < 10min'. May be repeated.",
)
@click.option(
    "--least",
    default="",
    show_default=False,
    help="With --target: what is to be least; gpus, cost, or what the study varies.",
)
@click.option(
    "--compare",
    "measures",
    multiple=True,
    help="Hold each setting against one of them by this measure, seed by seed: 'mean wait', 'vision p99 wait'. May be repeated.",
)
@click.option(
    "--against",
    default="",
    show_default=False,
    help="With --compare: that setting, as it is told: 'policies fifo'. Else the first.",
)
@click.option("--table", type=options.PATH, help="Write the results there, too: .csv or .parquet.")
@options.output
def sweep(
    study: Path,
    workers: int | None,
    dask: str,
    root: Path,
    targets: tuple[str, ...],
    least: str,
    measures: tuple[str, ...],
    against: str,
    table: Path | None,
    output: TextOrJson,
) -> None:
    """Replay a trace under each combination of settings in a study's file, several runs at once, and tell which settings keep what is asked
    for. What was done before an interruption is not done again. Exit code 1 if a run can't be done."""
    from kailab.replay import tables
    from kailab.studies.comparison import compare_settings, find_best
    from kailab.studies.study_file import read_study
    from kailab.studies.study_folder import write_table
    from kailab.studies.sweep import sweep as carry_out

    replay_options.check_study_options(workers, dask)
    if table is not None:
        tables.check_target(table)
    wanted = read_study(study)
    configurations.print_notices_of_files(wanted.configurations())
    asked = _read_find(wanted, targets, least)
    compare = _compare(wanted, measures, against)
    checked = asked if compare is None else _with_compared(asked or wanted.find, compare)
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        swept = carry_out(wanted, root, workers=workers, dask=dask, progress=tell, find=checked)
    if table is not None:
        write_table(table, swept.study, swept.runs, swept.results)
    found = find_best(swept, asked)
    differences = None if compare is None else compare_settings(swept, compare)
    if output is TextOrJson.json:
        terminal.say(json.dumps(_data(swept, found, differences), indent=2))
    else:
        terminal.say("\n".join(_sweep_lines(swept, found, differences)))
    for run in swept.failed[:MOST_TOLD]:
        terminal.warn(f"run {run.number} of {swept.study.name} can't be done: {swept.results[run.key].error}")
    if swept.failed:
        raise click.exceptions.Exit(1)


def _read_find(study: Study, targets: tuple[str, ...], least: str) -> StudyQuestion | None:
    from kailab.errors import InputError
    from kailab.studies.study import StudyQuestion
    from kailab.studies.study_file import COST, GPUS
    from kailab.studies.target import read_target

    if not targets:
        if least:
            raise InputError("--least: expected --target beside it")
        return None
    known = (GPUS, COST, *study.grid)
    if least and least not in known:
        raise InputError(f"--least: {least!r:.80} is nothing that the study varies; expected one of {', '.join(known)}")
    return StudyQuestion(targets=tuple(map(read_target, targets)), least=least or GPUS)


def _compare(study: Study, measures: tuple[str, ...], against: str) -> Compare | None:
    from kailab.errors import InputError
    from kailab.studies.comparison import read_compare

    if not (measures or study.compare):
        if against:
            raise InputError("--against: expected --compare beside it, or the field compare of a study")
        return None
    return read_compare(study, measures or study.compare, against or study.against)


def _with_compared(find: StudyQuestion | None, compare: Compare) -> StudyQuestion:
    """So that the queues and prices which it takes are asked for before anything is begun."""
    from kailab.studies.study import StudyQuestion
    from kailab.studies.target import StudyTarget

    subjects = [StudyTarget(queue=queue, measure=measure) for queue, measure in compare.subjects]
    return StudyQuestion(
        targets=(*(find.targets if find else ()), *subjects), **({"least": find.least} if find else {})
    )


def _data(swept: SweptStudy, found: StudyFinding | None, differences: SettingComparison | None) -> dict[str, Any]:
    from kailab.studies.comparison import intervals
    from kailab.studies.confidence import CONFIDENCE

    data: dict[str, Any] = {
        "study": swept.study.name,
        "runs": len(swept.runs),
        "done_before": swept.before,
        "failed": [{"run": run.number, "error": swept.results[run.key].error} for run in swept.failed],
        "table": str(swept.table),
    }
    search, searched = swept.study.search, swept.searched
    if search is not None and searched is not None:
        place = searched.best(search)
        data["search"] = {
            "for": f"{'largest' if search.largest else 'smallest'} {search.subject}",
            "proposed": searched.proposed,
            "settings": searched.settings,
            "best": None if place is None else searched.settings[place],
            "value": None if place is None else searched.values[place],
        }
    if len(swept.study.seeds) > 1:
        data["intervals"] = [_intervals_data(one) for one in intervals(swept)]
    if found is not None:
        data["find"] = {
            "targets": [str(target) for target in found.find.targets],
            "least": found.find.least,
            "confidence": CONFIDENCE,
            "settings": [_judged_data(one) for one in found.settings],
            "best": None if found.best is None else found.best.setting,
            "undecided": [one.setting for one in found.undecided],
        }
    if differences is not None:
        data["compare"] = comparison_data(differences)
    return data


def _intervals_data(one: SettingIntervals) -> dict[str, Any]:
    return {
        "setting": one.setting,
        "queues": {
            queue: {
                name: {"mean": of.mean, "low": of.low, "high": of.high, "seeds": of.seeds, "missing": of.missing}
                for name, of in measures.items()
            }
            for queue, measures in one.queues.items()
        },
    }


def _judged_data(one: JudgedSetting) -> dict[str, Any]:
    estimates = [
        {
            "target": str(part.target), "seeds": len(part.values), "missing": part.missing, "failed": part.failed, "keeping": part.keeping, "part_keeping": part.part,
            "mean": part.mean, "bound": part.bound, "keeps": str(part.verdict),
        }
        for part in one.estimates
    ]  # fmt: skip
    return {"setting": one.setting, "least": one.least, "keeps": str(one.verdict), "targets": estimates}


def _sweep_lines(swept: SweptStudy, found: StudyFinding | None, differences: SettingComparison | None) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.lab.wording import count
    from kailab.studies.study import format_value
    from kailab.studies.target import ALL

    done = f", {swept.before} of them done before" if swept.before else ""
    yield f"{count(len(swept.runs), 'run')} of {swept.study.name}{done}: {swept.table}"
    if swept.searched is not None:
        yield _best_found(swept)
    if found is not None:
        yield ""
        yield from _finding_lines(found)
    if differences is not None:
        yield from comparison_lines(differences)
    if found is not None or differences is not None:
        return
    heads = [*(name.upper() for name in swept.study.grid), "SEED", "ENDED", "WAITED", "P99", "EVICTED", "ALLOCATED"]
    rows = []
    for run in swept.runs:
        for row in swept.results[run.key].rows:
            if row["queue"] == ALL:
                setting = [format_value(run.setting[name]) for name in swept.study.grid]
                seed = "-" if run.seed is None else str(run.seed)
                waited = [_span_or_dash(row["waited_mean"]), _span_or_dash(row["waited_p99"])]
                rows.append(
                    [*setting, seed, str(row["ended"]), *waited, str(row["evictions"]), f"{row['allocated']:.2%}"]
                )
    yield ""
    yield render_table(heads, rows)
    if len(swept.study.seeds) > 1:
        yield from _over_seeds(swept)


_OVER_SEEDS = {
    "WAITED": "waited_mean", "P99": "waited_p99", "SLOWDOWN": "slowdown_mean", "EVICTED": "evictions", "LOST": "lost", "ALLOCATED": "allocated",
}  # fmt: skip


def _over_seeds(swept: SweptStudy) -> Iterator[str]:
    """Of all jobs; of each queue and measure with ``-o json``."""
    from kailab.cli.table import render_table
    from kailab.studies.comparison import intervals
    from kailab.studies.study import format_value
    from kailab.studies.target import ALL

    yield ""
    yield f"Means over {len(swept.study.seeds)} seeds, with 95 % confidence intervals:"
    yield ""
    rows = []
    for one in intervals(swept):
        found = one.queues.get(ALL)
        if found is not None:
            setting = [format_value(one.setting[name]) for name in swept.study.grid]
            rows.append([*setting, *(_interval(name, found[name]) for name in _OVER_SEEDS.values())])
    yield render_table([*(name.upper() for name in swept.study.grid), *_OVER_SEEDS], rows)


def _interval(measure: str, found: Interval) -> str:
    from kailab.studies.target import amount

    part = f" without {found.missing} of {found.seeds}" if found.missing else ""
    if found.low is None:
        return f"{amount(measure, found.mean)}{part}"
    return f"{amount(measure, found.mean)} ({amount(measure, found.low)} to {amount(measure, found.high)}){part}"


def _best_found(swept: SweptStudy) -> str:
    from kailab.studies.study import format_value
    from kailab.studies.target import amount

    search, searched = swept.study.search, swept.searched
    assert search is not None
    assert searched is not None
    side = "largest" if search.largest else "smallest"
    proposed = f"of {len(searched.settings)} settings tried in {searched.proposed} proposals"
    place = searched.best(search)
    if place is None:
        return f"The search for the {side} {search.subject} found none, {proposed}"
    setting = ", ".join(f"{name} {format_value(value)}" for name, value in searched.settings[place].items())
    return f"The {side} {search.subject}, {amount(search.measure, searched.values[place])}, {proposed}: {setting}"


def _finding_lines(found: StudyFinding) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.studies.study import format_value

    find = found.find
    together = f", all {len(found.settings)} settings together" if len(found.settings) > 1 else ""
    yield f"Asked for: {', '.join(map(str, find.targets))}, with 95 % confidence in the means over the seeds{together}"
    names = list(found.settings[0].setting)
    heads = [name.upper() for name in names]
    for target in find.targets:
        heads += [target.subject.upper(), "AT MOST" if target.upper else "AT LEAST", "SEEDS"]
    rows = []
    for one in found.settings:
        cells = [cell for part in one.estimates for cell in _cells(part)]
        rows.append([*(format_value(one.setting[name]) for name in names), _least(one), *cells, str(one.verdict)])
    yield ""
    yield render_table([*heads[: len(names)], f"LEAST {find.least.upper()}", *heads[len(names) :], "KEEPS"], rows)
    yield ""
    yield from _recommended(found)


def _cells(part: Estimate) -> list[str]:
    """Mean, bound, and in how many of the seeds it is kept."""
    from kailab.studies.target import amount

    measure = part.target.measure
    seeds = f"{part.keeping} of {len(part.values) + part.missing}"
    return [amount(measure, part.mean), amount(measure, part.bound), seeds]


def _recommended(found: StudyFinding) -> Iterator[str]:
    from kailab.studies.comparison import describe_compare as in_words

    def said(one: JudgedSetting) -> str:
        setting = in_words(one.setting) or "the only setting"
        return setting if found.find.least in one.setting else f"{setting} ({found.find.least} {_least(one)})"

    if found.best is None:
        yield "No setting is known to keep it."
    else:
        kept = "; ".join(_claim(part) for part in found.best.estimates)
        yield f"Best: {said(found.best)}. With 95 % confidence in the mean over the seeds: {kept}"
        yield f"Each seed for itself, with the same confidence: {'; '.join(map(_in_parts, found.best.estimates))}"
    for failed, why in ((False, "more seeds would tell"), (True, "as not all runs could be done")):
        if settings := [said(one) for one in found.undecided if one.failed is failed]:
            yield f"Not known, {why}: {'; '.join(settings[:MOST_TOLD])}"


def _least(one: JudgedSetting) -> str:
    from kailab.studies.study import format_value

    return "-" if one.least is None else format_value(one.least)


def _claim(part: Estimate) -> str:
    from kailab.studies.target import amount

    edge = "at most" if part.target.upper else "at least"
    return f"{part.target.subject} {edge} {amount(part.target.measure, part.bound)}"


def _in_parts(part: Estimate) -> str:
    seeds = f"{part.keeping} of {len(part.values) + part.missing} seeds"
    return f"{part.target} in {seeds}, so in {part.part:.0%} of such traces at least"


def _span_or_dash(value: float | None) -> str:
    from kailab.cli.table import format_span

    return "-" if value is None else format_span(value)
