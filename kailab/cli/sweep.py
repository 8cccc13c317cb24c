"""``sweep``: run a study, and report its results, the settings that meet its targets, and comparisons between settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import configurations, options, replay_options, signals, terminal
from kailab.cli.options import TextOrJson
from kailab.cli.table import format_span, render_table
from kailab.errors import InputError
from kailab.evidence.wording import count
from kailab.studies.confidence import CONFIDENCE, Estimate
from kailab.studies.target import ALL, StudyTarget, format_measure, read_target, subject

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
    from kailab.studies.study import Study, StudyQuestion
    from kailab.studies.sweep import SweptStudy


def comparison_data(comparison: SettingComparison) -> dict[str, Any]:
    return {
        "against": comparison.against,
        "confidence": CONFIDENCE,
        "settings": [
            {"setting": setting, "differences": [_difference(difference) for difference in differences]}
            for setting, differences in comparison.settings
        ],
    }


def _difference(difference: SettingDifference) -> dict[str, Any]:
    more = None if difference.more is None else asdict(difference.more)
    return {
        "queue": difference.queue, "measure": difference.measure, "mean": difference.mean, "against": difference.other, "more": more, "seeds": difference.seeds,
        "seeds_below": difference.below, "seeds_above": difference.above, "missing": difference.missing, "verdict": difference.verdict,
    }  # fmt: skip


def comparison_lines(comparison: SettingComparison) -> Iterator[str]:
    from kailab.studies.comparison import describe_compare
    from kailab.studies.study import format_option as value

    yield ""
    yield f"Against {describe_compare(comparison.against)}, seed by seed; 95 % confidence in all differences at once:"
    yield ""
    rows = []
    for setting, differences in comparison.settings:
        for difference in differences:
            means = f"{format_measure(difference.measure, difference.other)} -> {format_measure(difference.measure, difference.mean)}"
            cells = [
                subject(difference.measure, difference.queue),
                means,
                _more_interval(difference),
                _seed_counts(difference),
                difference.verdict,
            ]
            rows.append([*(value(item) for item in setting.values()), *cells])
    yield render_table(
        [*(name.upper() for name in comparison.against), "MEASURE", "MEAN", "MORE BY", "SEEDS", ""], rows
    )


def _more_interval(difference: SettingDifference) -> str:
    if difference.more is None:
        return "-"
    return f"{_signed_amount(difference.measure, difference.more.low)} to {_signed_amount(difference.measure, difference.more.high)}"


def _signed_amount(measure: str, value: float) -> str:
    return f"{'-' if value < 0 else '+'}{format_measure(measure, abs(value))}"


def _seed_counts(difference: SettingDifference) -> str:
    missing = f", none in {difference.missing}" if difference.missing else ""
    return f"{difference.below} less, {difference.above} more of {difference.seeds}{missing}"


MOST_SHOWN = 10
"""Failed runs and undecided settings in the report."""


@click.command()
@click.argument("study", type=options.PATH)
@replay_options.parallel_options
@options.studies
@click.option(
    "--target",
    "targets",
    multiple=True,
    help="Target that replaces those of the study file: 'vision p99 wait < 10min'. May be repeated.",
)
@options.text_option(
    "--least", help="With --target: the quantity to minimise: gpus, cost, or a setting that the study varies."
)
@click.option(
    "--compare",
    "measures",
    multiple=True,
    help="Measure by which each setting is compared with that of --against, seed by seed: 'mean wait', 'vision p99 wait'. May be repeated.",
)
@options.text_option(
    "--against",
    help="With --compare: the setting that all others are compared with: 'policies fifo'. Default: the first of the study.",
)
@options.path_option("--table", help="Also write the results to this file: .csv or .parquet.")
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
    """Replay a trace under each combination of settings in a study file, with several runs in parallel, and report the settings that meet the
    targets. An interrupted study continues where it stopped. Exit code 1 if a run fails."""
    from kailab.replay import tables
    from kailab.studies.comparison import compare_settings, find_best
    from kailab.studies.study_file import read_study
    from kailab.studies.study_folder import write_table
    from kailab.studies.sweep import sweep as carry_out

    replay_options.check_study_options(workers, dask)
    if table is not None:
        tables.check_table_target(table)
    definition = read_study(study)
    configurations.print_notices_of_files(definition.configurations())
    question = _read_find(definition, targets, least)
    compare = _compare(definition, measures, against)
    checked = question if compare is None else _with_compared(question or definition.find, compare)
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        swept = carry_out(definition, root, workers=workers, dask=dask, progress=tell, find=checked)
    if table is not None:
        write_table(table, swept.study, swept.runs, swept.results)
    finding = find_best(swept, question)
    differences = None if compare is None else compare_settings(swept, compare)
    if output is TextOrJson.json:
        terminal.say_json(_data(swept, finding, differences))
    else:
        terminal.say("\n".join(_sweep_lines(swept, finding, differences)))
    for run in swept.failed[:MOST_SHOWN]:
        terminal.warn(f"run {run.number} of {swept.study.name} failed: {swept.results[run.key].error}")
    if swept.failed:
        raise click.exceptions.Exit(1)


def _read_find(study: Study, targets: tuple[str, ...], least: str) -> StudyQuestion | None:
    from kailab.studies.study import StudyQuestion
    from kailab.studies.study_file import COST, GPUS

    if not targets:
        if least:
            raise InputError("--least: needs --target")
        return None
    quantities = (GPUS, COST, *study.grid)
    if least and least not in quantities:
        raise InputError(f"--least: the study does not vary {least!r:.80}; expected one of {', '.join(quantities)}")
    return StudyQuestion(targets=tuple(map(read_target, targets)), least=least or GPUS)


def _compare(study: Study, measures: tuple[str, ...], against: str) -> Compare | None:
    from kailab.studies.comparison import read_compare

    if not (measures or study.compare):
        if against:
            raise InputError("--against: needs --compare, or the field compare of the study")
        return None
    return read_compare(study, measures or study.compare, against or study.against)


def _with_compared(find: StudyQuestion | None, compare: Compare) -> StudyQuestion:
    """Add the subjects of the comparison to the question, so that missing queues and prices are reported before the first run."""
    from kailab.studies.study import StudyQuestion

    subjects = [StudyTarget(queue=queue, measure=measure) for queue, measure in compare.subjects]
    return StudyQuestion(
        targets=(*(find.targets if find else ()), *subjects), **({"least": find.least} if find else {})
    )


def _data(swept: SweptStudy, finding: StudyFinding | None, differences: SettingComparison | None) -> dict[str, Any]:
    from kailab.studies.comparison import intervals

    data: dict[str, Any] = {
        "study": swept.study.name,
        "runs": len(swept.runs),
        "done_before": swept.before,
        "failed": [{"run": run.number, "error": swept.results[run.key].error} for run in swept.failed],
        "table": str(swept.table),
    }
    search, searched = swept.study.search, swept.searched
    if search is not None and searched is not None:
        best = searched.best(search)
        data["search"] = {
            "for": f"{'largest' if search.largest else 'smallest'} {search.subject}",
            "proposed": searched.proposed,
            "settings": searched.settings,
            "best": None if best is None else searched.settings[best],
            "value": None if best is None else searched.values[best],
        }
    if len(swept.study.seeds) > 1:
        data["intervals"] = [_intervals_data(item) for item in intervals(swept)]
    if finding is not None:
        data["find"] = {
            "targets": [str(target) for target in finding.find.targets],
            "least": finding.find.least,
            "confidence": CONFIDENCE,
            "settings": [_judged_data(item) for item in finding.settings],
            "best": None if finding.best is None else finding.best.setting,
            "undecided": [item.setting for item in finding.undecided],
        }
    if differences is not None:
        data["compare"] = comparison_data(differences)
    return data


def _intervals_data(intervals: SettingIntervals) -> dict[str, Any]:
    return {
        "setting": intervals.setting,
        "queues": {
            queue: {name: asdict(interval) for name, interval in measures.items()}
            for queue, measures in intervals.queues.items()
        },
    }


def _judged_data(judged: JudgedSetting) -> dict[str, Any]:
    estimates = [
        {
            "target": str(estimate.target), "seeds": len(estimate.values), "missing": estimate.missing, "failed": estimate.failed, "keeping": estimate.keeping, "part_keeping": estimate.part,
            "mean": estimate.mean, "bound": estimate.bound, "keeps": str(estimate.verdict),
        }
        for estimate in judged.estimates
    ]  # fmt: skip
    return {"setting": judged.setting, "least": judged.least, "keeps": str(judged.verdict), "targets": estimates}


def _sweep_lines(
    swept: SweptStudy, finding: StudyFinding | None, differences: SettingComparison | None
) -> Iterator[str]:
    from kailab.studies.study import format_option

    done_before = f", {swept.before} of them done before" if swept.before else ""
    yield f"{count(len(swept.runs), 'run')} of {swept.study.name}{done_before}: {swept.table}"
    if swept.searched is not None:
        yield _best_found(swept)
    if finding is not None:
        yield ""
        yield from _finding_lines(finding)
    if differences is not None:
        yield from comparison_lines(differences)
    if finding is not None or differences is not None:
        return
    heads = [*(name.upper() for name in swept.study.grid), "SEED", "ENDED", "WAITED", "P99", "EVICTED", "ALLOCATED"]
    rows = []
    for run in swept.runs:
        for row in swept.results[run.key].rows:
            if row["queue"] == ALL:
                setting = [format_option(run.setting[name]) for name in swept.study.grid]
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
    """The means of all jobs; ``-o json`` has them for each queue and measure."""
    from kailab.studies.comparison import intervals
    from kailab.studies.study import format_option

    yield ""
    yield f"Means over {len(swept.study.seeds)} seeds, with 95 % confidence intervals:"
    yield ""
    rows = []
    for of_setting in intervals(swept):
        measures = of_setting.queues.get(ALL)
        if measures is not None:
            setting = [format_option(of_setting.setting[name]) for name in swept.study.grid]
            rows.append([*setting, *(_interval(name, measures[name]) for name in _OVER_SEEDS.values())])
    yield render_table([*(name.upper() for name in swept.study.grid), *_OVER_SEEDS], rows)


def _interval(measure: str, interval: Interval) -> str:
    missing = f" without {interval.missing} of {interval.seeds}" if interval.missing else ""
    if interval.low is None:
        return f"{format_measure(measure, interval.mean)}{missing}"
    return f"{format_measure(measure, interval.mean)} ({format_measure(measure, interval.low)} to {format_measure(measure, interval.high)}){missing}"


def _best_found(swept: SweptStudy) -> str:
    from kailab.studies.study import format_option

    search, searched = swept.study.search, swept.searched
    assert search is not None
    assert searched is not None
    side = "largest" if search.largest else "smallest"
    proposed = f"of {len(searched.settings)} settings tried in {searched.proposed} proposals"
    best = searched.best(search)
    if best is None:
        return f"The search for the {side} {search.subject} found none, {proposed}"
    setting = ", ".join(f"{name} {format_option(value)}" for name, value in searched.settings[best].items())
    return (
        f"The {side} {search.subject}, {format_measure(search.measure, searched.values[best])}, {proposed}: {setting}"
    )


def _finding_lines(finding: StudyFinding) -> Iterator[str]:
    from kailab.studies.study import format_option

    find = finding.find
    together = f", all {len(finding.settings)} settings together" if len(finding.settings) > 1 else ""
    yield f"Targets: {', '.join(map(str, find.targets))}, with 95 % confidence in the means over the seeds{together}"
    names = list(finding.settings[0].setting)
    heads = [name.upper() for name in names]
    for target in find.targets:
        heads += [target.subject.upper(), "AT MOST" if target.upper else "AT LEAST", "SEEDS"]
    rows = []
    for judged in finding.settings:
        cells = [cell for estimate in judged.estimates for cell in _cells(estimate)]
        rows.append(
            [*(format_option(judged.setting[name]) for name in names), _least(judged), *cells, str(judged.verdict)]
        )
    yield ""
    yield render_table([*heads[: len(names)], f"LEAST {find.least.upper()}", *heads[len(names) :], "KEEPS"], rows)
    yield ""
    yield from _recommended(finding)


def _cells(estimate: Estimate) -> list[str]:
    """Mean, bound, and the number of seeds that meet the target."""
    measure = estimate.target.measure
    seeds = f"{estimate.keeping} of {len(estimate.values) + estimate.missing}"
    return [format_measure(measure, estimate.mean), format_measure(measure, estimate.bound), seeds]


def _recommended(finding: StudyFinding) -> Iterator[str]:
    from kailab.studies.comparison import describe_compare as in_words

    def describe(judged: JudgedSetting) -> str:
        setting = in_words(judged.setting) or "the only setting"
        if finding.find.least in judged.setting:
            return setting
        return f"{setting} ({finding.find.least} {_least(judged)})"

    if finding.best is None:
        yield "No setting is known to meet the targets."
    else:
        claims = "; ".join(_claim(estimate) for estimate in finding.best.estimates)
        yield f"Best: {describe(finding.best)}. With 95 % confidence in the mean over the seeds: {claims}"
        yield f"For single seeds, with the same confidence: {'; '.join(map(_in_parts, finding.best.estimates))}"
    for failed, why in ((False, "more seeds would decide"), (True, "because some runs failed")):
        if settings := [describe(judged) for judged in finding.undecided if judged.failed is failed]:
            yield f"Undecided, {why}: {'; '.join(settings[:MOST_SHOWN])}"


def _least(judged: JudgedSetting) -> str:
    from kailab.studies.study import format_option

    return "-" if judged.least is None else format_option(judged.least)


def _claim(estimate: Estimate) -> str:
    edge = "at most" if estimate.target.upper else "at least"
    return f"{estimate.target.subject} {edge} {format_measure(estimate.target.measure, estimate.bound)}"


def _in_parts(estimate: Estimate) -> str:
    seeds = f"{estimate.keeping} of {len(estimate.values) + estimate.missing} seeds"
    return f"{estimate.target} in {seeds}, so in {estimate.part:.0%} of such traces at least"


def _span_or_dash(value: float | None) -> str:
    return "-" if value is None else format_span(value)
