"""``trial``: run the same exercises under several schedulers, releases and configurations, and compare them; ``trial upgrade``: replace one
scheduler by another while work runs, and roll back.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from kailab.cli import configurations, options, signals, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.errors import InputError, StateError, os_errors_as
from kailab.model import manifests
from kailab.model.multimap import multimap

if TYPE_CHECKING:
    from kailab.trials.matrix import Contender, Trial
    from kailab.trials.outcome import TrialOutcome
    from kailab.trials.store import TrialFolder


@click.command()
@click.argument("load", nargs=-1, metavar="[MANIFEST]...")
@click.option(
    "--from", "before", required=True, help="First scheduler, and target of the rollback: kai=DIR, kailab ..."
)
@click.option("--to", "after", required=True, help="Scheduler of the upgrade.")
@options.flag(
    "--renew-account",
    "renew",
    help="Recreate the scheduler's service account before the upgrade without restarting anything.",
)
@click.option(
    "--patience",
    type=options.FiniteFloatRange(min=1),
    default=None,
    show_default="300",
    help="Seconds after which a waiting pod counts as not scheduled.",
)
@click.option(
    "--rollback-within",
    "promise",
    type=options.FiniteFloatRange(min=0, min_open=True),
    help="Longest allowed time in seconds until a rollback schedules again.",
)
@click.option("--fleet", default="lesson", help="Fleet of fake nodes.")
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
    """Fill a lab under one scheduler, replace the scheduler by another while work runs, and roll back.

    The report has the time until scheduling resumed after each change, lost pods and objects, altered objects, and processes that ran without
    acting. Without a MANIFEST the lab is filled automatically, and reclaim and a gang are tried after each change. Exit code 1 if anything is lost
    or does not work as expected.
    """
    import msgspec

    from kailab.fleet.reading import load_fleet
    from kailab.trials.upgrade import PATIENCE_SECONDS, UpgradePlan, run_upgrade_trial, upgrade_lines
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
        result = run_upgrade_trial(plan, terminal.notice)
    if output is TextOrJson.json:
        data = {**msgspec.to_builtins(result), "sound": result.sound, "kept": result.kept}
        terminal.say_json(data)
    else:
        terminal.say("\n".join(upgrade_lines(result)))
    if not result.sound:
        raise click.exceptions.Exit(1)


MOST_OF_A_KIND = 2
"""A test with more differences of one kind in one column has one line for the kind, unless ``--all`` is given."""


class ResultFormat(StrEnum):
    """Output for people, for programs, or for a document."""

    text = "text"
    json = "json"
    markdown = "markdown"


_output = click.option(
    "--output",
    "-o",
    type=click.Choice(ResultFormat),
    default=ResultFormat.text,
    help="Output for people, for programs, or for a document.",
)
_root = click.option(
    "--trials",
    "root",
    type=options.PATH,
    default=Path("trials"),
    envvar="KAILAB_TRIALS",
    show_envvar=True,
    help="Folder of the trials.",
)
_reports = (
    options.path_option("--junit", help="Also write the result to this file as JUnit XML."),
    options.path_option("--html", help="Also write the result to this file as an HTML page."),
    options.path_option("--baseline", help="File of accepted differences with their reasons."),
    options.flag(
        "--all",
        "--verbose",
        "-v",
        "everything",
        help="Show every difference, accepted ones too, instead of one line for each kind of which there are many.",
    ),
)


def _report_options(command: Any) -> Any:
    for option in reversed(_reports):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def group() -> None:
    """Run the same exercises, scenarios and manifests under several schedulers and compare the results. Exit code 1 if they
    differ."""


group.add_command(upgrade)


@group.command()
@click.argument(
    "on", nargs=-1, metavar="TRIAL.yaml | SUBJECT...", help="A trial file; or exercises, scenarios, manifests."
)
@click.option(
    "--scheduler", "schedulers", multiple=True, help="Contender: kailab, kai=DIR, NAME@FILE ... May be repeated."
)
@click.option(
    "--config",
    "configs",
    type=options.PATH,
    multiple=True,
    help="Scheduler configuration of a contender; one alone is compared with the configuration in use. May be repeated.",
)
@click.option(
    "--isolation",
    "isolations",
    multiple=True,
    help="Backend on which each cell runs. May be repeated.",
    show_default="embedded if every contender can run there, else controlplane",
)
@click.option("--reference", default="", help="Contender with which the others are compared.", show_default="the first")
@click.option(
    "--fleet",
    default=None,
    help="Fleet of fake nodes.",
    show_default="kailab_fleet of the tests' settings, else lesson",
)
@click.option(
    "--compare",
    "compared",
    multiple=True,
    help="Only these kinds of differences: outcome, placement ... May be repeated.",
)
@click.option(
    "--time-ratio",
    type=options.FiniteFloatRange(min=1, min_open=True),
    help="Ratio of durations that counts as a difference.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Cells that run in parallel.", show_default="as many as fit")
@click.option(
    "--name", default="", help="Name of the trial and its folder.", show_default="from the file, or generated"
)
@options.flag("--again", help="Run all cells again, including finished ones.")
@options.kubeconfig
@options.context
@options.components
@options.kubernetes
@options.operators
@options.state
@_report_options
@_root
@_output
def run(on: tuple[str, ...], root: Path, again: bool, output: ResultFormat, **options: Any) -> None:  # fmt: skip
    """Run a trial, or continue one that was interrupted."""
    from kailab.trials.definition import config_files
    from kailab.trials.store import TrialFolder
    from kailab.trials.trial import run_trial

    trial = _from_file(Path(on[0]), options) if _is_file(on, options) else _from_options(on, options, root)
    _tell_fleets(trial)
    configurations.print_notices_of_files(file for contender in trial.contenders for file in config_files(contender))
    folder = TrialFolder(root / trial.name)
    if len(trial.columns()) == 1:
        terminal.notice(f"{trial.contenders[0].name} is the only contender: nothing is compared")
    with signals.terminate_in_order(), terminal.progress_bars() as tell:
        outcome = run_trial(trial, folder, tell, terminal.notice, again=again)
    _report(outcome, output, options)


@group.command()
@click.argument("trial", required=False, default="", help="Name or folder of the trial; default: the latest.")
@_report_options
@_root
@_output
def show(trial: str, root: Path, output: ResultFormat, **options: Any) -> None:
    """Show the result of a trial, or its progress."""
    from kailab.trials.store import find_trial
    from kailab.trials.trial import read_outcome

    _report(read_outcome(find_trial(trial, root), options["baseline"]), output, options)


@group.command()
@click.argument("trial", required=False, default="", help="Name or folder of the trial; default: the latest.")
@click.option(
    "--baseline", type=options.PATH, required=True, help="File to add the accepted differences to; created if missing."
)
@click.option("--reason", required=True, help="Reason why the differences are accepted.")
@click.option(
    "--contender", default="*", help="Only differences of this column; * matches any text.", show_default="all"
)
@click.option("--test", default="*", help="Only differences of this test; * matches any text.", show_default="all")
@_root
def accept(trial: str, baseline: Path, reason: str, contender: str, test: str, root: Path) -> None:
    """Accept the open differences of a trial: write them to a baseline with a reason."""
    from kailab.trials.baseline import add_to_baseline, baseline_entries
    from kailab.trials.store import find_trial
    from kailab.trials.trial import read_outcome

    if not reason.strip():
        raise InputError("--reason: is empty; expected the reason why these differences are accepted")
    folder = find_trial(trial, root)
    outcome = read_outcome(folder, baseline if baseline.exists() else None)
    entries = baseline_entries(outcome.differences, reason, contender, test)
    if not entries:
        raise InputError(
            f"{folder.path.name}: there is no open difference of contender {contender} in test {test}; nothing was written"
        )
    add_to_baseline(baseline, entries)
    for entry in entries:
        terminal.say(f"accepted: {entry}")


@group.command()
@click.argument("trials", nargs=-1, metavar="[TRIAL]...", help="Names or folders of trials; default: all.")
@options.flag("--results", help="Also remove results and evidence.")
@_root
def clean(trials: tuple[str, ...], results: bool, root: Path) -> None:
    """Remove the remains of interrupted trials: processes, control planes, clusters. Results stay."""
    from kailab.trials.leftovers import clean as end
    from kailab.trials.store import find_trial, trials_in

    folders: list[TrialFolder] = [find_trial(name, root) for name in trials] if trials else trials_in(root)
    for folder in folders:
        terminal.say(f"{folder.path.name}: {end(folder, remove=results)}")
    if not folders:
        terminal.say(f"no trials in {root}")


def _is_file(on: tuple[str, ...], options: dict[str, Any]) -> bool:
    """True if the argument is a trial file, which names the contenders itself."""
    from kailab.trials.definition import is_trial_file

    if options["schedulers"]:
        return False
    if len(on) == 1 and is_trial_file(Path(on[0])):
        return True
    if options["configs"] and on:
        return False
    if on:
        raise InputError(
            f"{on[0]}: no scheduler and no configuration to compare; expected --scheduler A --scheduler B, "
            "--config NEW.yaml (compared with the configuration in use), or a trial file"
        )
    raise InputError(
        "there is nothing to run; expected a trial file, or exercises, scenarios and manifests with --scheduler or --config"
    )


def _from_file(path: Path, options: dict[str, Any]) -> Trial:
    from kailab.trials.trial_file import read_trial

    flags = {"configs": "--config", "isolations": "--isolation", "fleet": "--fleet", "kubeconfig": "--kubeconfig",
            "context": "--context", "components": "--components", "kubernetes": "--kubernetes", "operators": "--with",
            "compared": "--compare", "reference": "--reference", "time_ratio": "--time-ratio"}  # fmt: skip
    conflicts = [flag for name, flag in flags.items() if options[name]]
    if conflicts:
        raise InputError(f"{' and '.join(conflicts)}: can't be used with a trial file; set it in {path} instead")
    trial = read_trial(path)
    changes = {"name": options["name"], "jobs": options["jobs"], "baseline": str(options["baseline"] or "")}
    return structs.replace(trial, **{key: value for key, value in changes.items() if value})


def _from_options(on: tuple[str, ...], given: dict[str, Any], root: Path) -> Trial:
    from kailab.trials.definition import contenders, make_trial, subjects_of, trial_name

    cluster_options = ("kubeconfig", "context", "components", "kubernetes")
    compared = contenders(given["schedulers"] or ("kailab",), given["configs"])
    if not given["schedulers"] or (len(compared) == 1 and compared[0].config):
        compared = [_in_use(given["state"], root), *compared]
    subjects = [subject for text in on for subject in subjects_of(text)]
    return make_trial(
        compared,
        subjects,
        given["isolations"],
        name=given["name"] or trial_name(compared, subjects, given["isolations"]),
        reference=given["reference"],
        fleet=given["fleet"] or "",
        compared=given["compared"],
        time_ratio=given["time_ratio"],
        jobs=given["jobs"],
        baseline=str(given["baseline"] or ""),
        options={
            name: str(value.absolute()) if isinstance(value := given[name], Path) else value
            for name in cluster_options
            if given[name] is not None
        }
        | ({"operators": ",".join(given["operators"])} if given["operators"] else {}),
    )


def _in_use(state: Path, root: Path) -> Contender:
    """The contender with the configuration of the lab here, or with KAI's defaults if there is none."""
    from kailab.cli import labfile
    from kailab.trials.definition import contender_in_use

    if not state.exists():
        terminal.notice("now: KAI's default configuration, because no lab is up here")
        return contender_in_use(None, root)
    with labfile.read_lab(state) as lab:
        terminal.notice(f"now: the configuration of the lab {state}")
        return contender_in_use(lab, root)


def _tell_fleets(trial: Trial) -> None:
    """Tell which fleets the settings of tests name."""
    from kailab.trials.tests_ini import fleet_of_tests

    if not trial.fleet:
        named = {fleet_of_tests(Path(subject.path.partition("::")[0])) for subject in trial.subjects}
        for fleet in sorted(each for each in named if each is not None):
            terminal.notice(f"fleet {fleet.fleet}, as {fleet.file} has it for tests (--fleet names another)")


def _report(outcome: TrialOutcome, output: ResultFormat, given: dict[str, Any]) -> None:
    from kailab.trials import report

    data = report.report_data(outcome)
    if given["junit"]:
        _write(given["junit"], report.render_junit(data))
    if given["html"]:
        _write(given["html"], report.render_html(data).encode())
    if output is ResultFormat.json:
        terminal.say_json(data)
    elif output is ResultFormat.markdown:
        terminal.say(report.render_markdown(outcome))
    else:
        terminal.say("\n".join(_lines(outcome, data, given["everything"])))
    if not outcome.same:
        raise click.exceptions.Exit(1)


def _write(path: Path, content: bytes) -> None:
    with os_errors_as(StateError, f"{path}: can't be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _lines(outcome: TrialOutcome, data: dict[str, Any], everything: bool) -> Iterator[str]:
    from kailab.trials import report

    yield render_table(*report.report_table(outcome))
    for entry in data["differing"]:
        unaccepted = [difference for difference in entry["differences"] if difference["accepted"] is None]
        if not unaccepted and not everything:
            continue
        yield ""
        yield f"{entry['test']}: {entry['column']} against {entry['reference']}"
        yield from _all_lines(entry["differences"]) if everything else _lines_by_kind(unaccepted)
        if entry["firstDecision"]:
            yield f"  {entry['firstDecision']}"
        for side, path in entry["evidence"].items():
            if path:
                yield f"  evidence of {side}: {path}"
    errors = [
        f"{error['test']} on {error['column']} could not be run: {error['message']}"
        + (f" (accepted: {error['accepted']})" if error["accepted"] else "")
        for error in data["errors"]
    ]
    yield from ["", *errors] if errors else []
    entries = data["staleBaseline"] if outcome.complete else ()
    stale = [f"accepted, and no longer different: {entry}" for entry in entries]
    yield from ["", *stale] if stale else []
    yield ""
    yield _summary(outcome)


def _all_lines(differences: list[dict[str, Any]]) -> Iterator[str]:
    for difference in differences:
        accepted = f" (accepted: {difference['accepted']})" if difference["accepted"] else ""
        yield f"  {difference['text']}{accepted}"


def _lines_by_kind(differences: list[dict[str, Any]]) -> Iterator[str]:
    """The differences of a test in their order; a kind of which there are many has a line with its first difference and their number."""
    by_kind = multimap((difference["kind"], difference["text"]) for difference in differences)
    for kind, texts in by_kind.items():
        if len(texts) <= MOST_OF_A_KIND:
            yield from (f"  {text}" for text in texts)
        else:
            yield f"  {len(texts)} differences of {kind} (--all shows them); the first: {texts[0].removeprefix(f'{kind}: ')}"


def _summary(outcome: TrialOutcome) -> str:
    number = len(outcome.rows)
    columns = len(outcome.columns)
    tests = f"{number} test{'' if number == 1 else 's'} on {columns} contender{'' if columns == 1 else 's'}"
    accepted = len(outcome.all_differences) - len(outcome.differences)
    rest = "" if outcome.complete else "; not all of it has been run (`kailab trial run` goes on)"
    if outcome.errors:
        rest = f"; {len(outcome.errors)} could not be run{rest}"
    if columns == 1:
        return f"{tests}: nothing is compared{rest}"
    if not outcome.differences:
        same = "no difference in what was run" if rest else "the same"
        return f"{tests}: {same}" + (f" but for {accepted} accepted differences" if accepted else "") + rest
    where = {(difference.test, difference.column) for difference in outcome.differences}
    return (
        f"{tests}: {len(outcome.differences)} differences in {len(where)} places"
        + (f", {accepted} accepted" if accepted else "")
        + rest
    )
