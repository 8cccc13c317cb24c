"""``trial``: run the same exercises under several schedulers, releases and configurations, and compare; ``trial upgrade``: replace one scheduler by another while
work runs, and roll back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import configurations, options, signals, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.trials.matrix import Trial
    from kailab.trials.outcome import TrialOutcome
    from kailab.trials.store import TrialFolder


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
    from kailab.trials.upgrade.result import lines
    from kailab.trials.upgrade.run import PATIENCE_SECONDS, UpgradePlan, carry_out
    from kailab.undertest.selection import choose_scheduler

    plan = UpgradePlan(
        choose_scheduler(before),
        choose_scheduler(after),
        load_fleet(fleet),
        manifests.load(load).objects if load else None,
        renew,
        patience or PATIENCE_SECONDS,
        promise,
    )
    with signals.terminate_in_order():
        came = carry_out(plan, terminal.notice)
    if output is TextOrJson.json:
        told = {**msgspec.to_builtins(came), "sound": came.sound, "kept": came.kept}
        terminal.say(json.dumps(told, indent=2))
    else:
        terminal.say("\n".join(lines(came)))
    if not came.sound:
        raise click.exceptions.Exit(1)


MOST_TOLD = 6
"""Differences of one test in one column where not all are asked for."""


class ResultFormat(StrEnum):
    """Of a result: for people, for programs, or for a document."""

    text = "text"
    json = "json"
    markdown = "markdown"


_output = click.option(
    "--output",
    "-o",
    type=click.Choice(ResultFormat),
    default=ResultFormat.text,
    help="For people, for programs, or for a document.",
)
_root = click.option(
    "--trials",
    "root",
    type=options.PATH,
    default=Path("trials"),
    envvar="KAILAB_TRIALS",
    show_envvar=True,
    help="The folder that trials are kept in.",
)
_reports = (
    click.option("--junit", type=options.PATH, help="Write the result there as JUnit XML, too."),
    click.option("--html", type=options.PATH, help="Write the result there as a page of HTML, too."),
    click.option(
        "--baseline", type=options.PATH, help="A file of differences that are accepted, each with its reason."
    ),
    click.option("--verbose", "-v", is_flag=True, help="Show every difference, not the first few."),
)


def _report_options(command: Any) -> Any:
    for option in reversed(_reports):
        command = option(command)
    return command


@click.group()
def group() -> None:
    """Run the same exercises, scenarios and manifests under several schedulers, and tell what differs. Exit code 1 if anything
    does."""


group.add_command(upgrade)


@group.command()
@click.argument(
    "on", nargs=-1, metavar="TRIAL.yaml | ON...", help="A file of a trial; or exercises, scenarios, manifests."
)
@click.option("--scheduler", "schedulers", multiple=True, help="A contender: kailab, kai=DIR, NAME@FILE ... Repeat it.")
@click.option("--config", "configs", type=options.PATH, multiple=True, help="How a contender decides. Repeat it.")
@click.option(
    "--isolation",
    "isolations",
    multiple=True,
    help="Where each cell runs: a backend. Repeat it.",
    show_default="controlplane",
)
@click.option(
    "--reference", default="", help="The contender that the others are compared with.", show_default="the first"
)
@click.option("--fleet", default=None, help="The fleet of fake nodes.", show_default="lesson")
@click.option(
    "--compare", "compared", multiple=True, help="Only these kinds of differences: outcome, placement ... Repeat it."
)
@click.option(
    "--time-ratio", type=click.FloatRange(min=1, min_open=True), help="So many times as long is a difference, too."
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Cells side by side.", show_default="as many as fit")
@click.option(
    "--name", default="", help="What the trial is called, and its folder.", show_default="of the file, or made up"
)
@click.option("--again", is_flag=True, help="Run all cells anew, those that are done, too.")
@options.kubeconfig
@options.context
@options.components
@options.kubernetes
@options.operators
@_report_options
@_root
@_output
def run(on: tuple[str, ...], root: Path, again: bool, output: ResultFormat, **given: Any) -> None:  # fmt: skip
    """Run a trial, or go on with one that was interrupted."""
    from kailab.trials.definition import config_files
    from kailab.trials.store import TrialFolder
    from kailab.trials.trial import carry_out

    trial = _from_file(Path(on[0]), given) if _is_file(on, given) else _from_options(on, given)
    configurations.print_notices_of_files(file for one in trial.contenders for file in config_files(one))
    folder = TrialFolder(root / trial.name)
    if len(trial.columns()) == 1:
        terminal.notice(f"{trial.contenders[0].name} is the only contender: nothing is compared")
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        outcome = carry_out(trial, folder, tell, terminal.notice, again=again)
    _report(outcome, output, given)


@group.command()
@click.argument("trial", required=False, default="", help="Its name, or its folder; default: the one begun last.")
@_report_options
@_root
@_output
def show(trial: str, root: Path, output: ResultFormat, **given: Any) -> None:
    """Show how a trial came out, or how far it is."""
    from kailab.trials.store import find_trial
    from kailab.trials.trial import read_outcome

    _report(read_outcome(find_trial(trial, root), given["baseline"]), output, given)


@group.command()
@click.argument("trial", required=False, default="", help="Its name, or its folder; default: the one begun last.")
@click.option("--baseline", type=options.PATH, required=True, help="The file that they are added to; made if need be.")
@click.option("--reason", required=True, help="Why they are accepted.")
@click.option("--contender", default="*", help="Only those of this column; * stands for any text.", show_default="all")
@click.option("--test", default="*", help="Only those of this test; * stands for any text.", show_default="all")
@_root
def accept(trial: str, baseline: Path, reason: str, contender: str, test: str, root: Path) -> None:
    """Write the open differences of a trial into a baseline, as accepted for one reason."""
    from kailab.errors import InputError
    from kailab.trials.baseline import add_to_baseline, baseline_entries
    from kailab.trials.store import find_trial
    from kailab.trials.trial import read_outcome

    if not reason.strip():
        raise InputError("--reason: is empty; say why these differences are accepted")
    folder = find_trial(trial, root)
    outcome = read_outcome(folder, baseline if baseline.exists() else None)
    found = baseline_entries(outcome.differences, reason, contender, test)
    if not found:
        raise InputError(
            f"{folder.path.name}: no open difference of contender {contender} in test {test}; nothing is written"
        )
    add_to_baseline(baseline, found)
    for one in found:
        terminal.say(f"accepted: {one}")


@group.command()
@click.argument("trials", nargs=-1, metavar="[TRIAL]...", help="Their names, or their folders; default: all.")
@click.option("--results", is_flag=True, help="Remove results and evidence, too.")
@_root
def clean(trials: tuple[str, ...], results: bool, root: Path) -> None:
    """End what interrupted trials left: processes, control planes, clusters. Results stay."""
    from kailab.trials.leftovers import clean as end
    from kailab.trials.store import find_trial, trials_in

    found: list[TrialFolder] = [find_trial(name, root) for name in trials] if trials else trials_in(root)
    for folder in found:
        terminal.say(f"{folder.path.name}: {end(folder, remove=results)}")
    if not found:
        terminal.say(f"no trials in {root}")


def _is_file(on: tuple[str, ...], given: dict[str, Any]) -> bool:
    """A file of a trial says itself who is compared."""
    from kailab.errors import InputError

    if given["schedulers"]:
        return False
    if len(on) == 1 and Path(on[0]).suffix in (".yaml", ".yml"):
        return True
    raise InputError("say what is compared: a file of a trial, or --scheduler A --scheduler B and what they run")


def _from_file(path: Path, given: dict[str, Any]) -> Trial:
    from msgspec import structs

    from kailab.errors import InputError
    from kailab.trials.trial_file import read_trial

    said = {"configs": "--config", "isolations": "--isolation", "fleet": "--fleet", "kubeconfig": "--kubeconfig",
            "context": "--context", "components": "--components", "kubernetes": "--kubernetes", "operators": "--with",
            "compared": "--compare", "reference": "--reference", "time_ratio": "--time-ratio"}  # fmt: skip
    both = [flag for name, flag in said.items() if given[name]]
    if both:
        raise InputError(f"{' and '.join(both)}: the file {path} says that; write it there")
    trial = read_trial(path)
    changes = {"name": given["name"], "jobs": given["jobs"], "baseline": str(given["baseline"] or "")}
    return structs.replace(trial, **{key: value for key, value in changes.items() if value})


def _from_options(on: tuple[str, ...], given: dict[str, Any]) -> Trial:
    from kailab.trials.definition import contenders, make_trial, subjects_of, trial_name

    known = ("kubeconfig", "context", "components", "kubernetes")
    found = contenders(given["schedulers"], given["configs"])
    subjects = [subject for text in on for subject in subjects_of(text)]
    return make_trial(
        found,
        subjects,
        given["isolations"],
        name=given["name"] or trial_name(found, subjects, given["isolations"]),
        reference=given["reference"],
        fleet=given["fleet"] or "lesson",
        compared=given["compared"],
        time_ratio=given["time_ratio"],
        jobs=given["jobs"],
        baseline=str(given["baseline"] or ""),
        options={
            name: str(value.absolute()) if isinstance(value := given[name], Path) else value
            for name in known
            if given[name] is not None
        }
        | ({"operators": ",".join(given["operators"])} if given["operators"] else {}),
    )


def _report(outcome: TrialOutcome, output: ResultFormat, given: dict[str, Any]) -> None:
    from kailab.trials import report

    told = report.report_data(outcome)
    if given["junit"]:
        from kailab.trials import report

        _write(given["junit"], report.render_junit(told))
    if given["html"]:
        from kailab.trials import report

        _write(given["html"], report.render_html(told).encode())
    if output is ResultFormat.json:
        terminal.say(json.dumps(told, indent=2))
    elif output is ResultFormat.markdown:
        from kailab.trials import report

        terminal.say(report.render_markdown(outcome))
    else:
        terminal.say("\n".join(_lines(outcome, told, given["verbose"])))
    if not outcome.same:
        raise click.exceptions.Exit(1)


def _write(path: Path, content: bytes) -> None:
    from kailab.errors import StateError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise StateError(f"{path}: can't be written: {error.strerror or error}") from error


def _lines(outcome: TrialOutcome, told: dict[str, Any], verbose: bool) -> Iterator[str]:
    from kailab.cli.table import render_table
    from kailab.trials import report

    yield render_table(*report.report_table(outcome))
    for one in told["differing"]:
        open_ones = [each for each in one["differences"] if each["accepted"] is None]
        if not open_ones and not verbose:
            continue
        yield ""
        yield f"{one['test']}: {one['column']} against {one['reference']}"
        shown = one["differences"] if verbose else open_ones[:MOST_TOLD]
        for each in shown:
            yield f"  {each['text']}" + (f" (accepted: {each['accepted']})" if each["accepted"] else "")
        if not verbose and len(open_ones) > len(shown):
            yield f"  and {len(open_ones) - len(shown)} more (--verbose)"
        if one["firstDecision"]:
            yield f"  {one['firstDecision']}"
        for side, path in one["evidence"].items():
            if path:
                yield f"  evidence of {side}: {path}"
    errors = [f"{test} on {column} could not be run: {why}" for column, test, why in outcome.errors]
    yield from ["", *errors] if errors else []
    stale = [f"accepted, and no longer different: {one}" for one in told["staleBaseline"]] if outcome.complete else []
    yield from ["", *stale] if stale else []
    yield ""
    yield _summary(outcome)


def _summary(outcome: TrialOutcome) -> str:
    number = len(outcome.rows)
    columns = len(outcome.columns)
    tests = f"{number} test{'' if number == 1 else 's'} on {columns} contender{'' if columns == 1 else 's'}"
    accepted = len(outcome.all_differences) - len(outcome.differences)
    rest = "" if outcome.complete else "; not all of it has been run (`kailab trial run` goes on)"
    if columns == 1:
        unable = f"; {len(outcome.errors)} could not be run" if outcome.errors else ""
        return f"{tests}: nothing is compared{unable}{rest}"
    if outcome.same:
        return f"{tests}: the same" + (f" but for {accepted} accepted differences" if accepted else "") + rest
    where = {(one.test, one.column) for one in outcome.differences}
    if outcome.errors:
        rest = f"; {len(outcome.errors)} could not be run{rest}"
    return (
        f"{tests}: {len(outcome.differences)} differences in {len(where)} places"
        + (f", {accepted} accepted" if accepted else "")
        + rest
    )
