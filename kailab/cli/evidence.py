"""``evidence`` and ``report``: the evidence of test runs, listed, verified, compared and reported; and the viewer's page of a run, a trial, the lab or a snapshot."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click

from kailab.cli import options, terminal
from kailab.cli.options import TextOrJson
from kailab.errors import InputError
from kailab.report import page


class WrittenPage(NamedTuple):
    """``what`` the page is of; its ``size`` in bytes."""

    what: str
    size: int


def write_viewer_page(file: Path, run: str, against: str | None, state: Path | None, evidence: Path) -> WrittenPage:
    """``state``: of a lab, which counts instead of a run. Raises InputError, StateError, EvidenceError."""
    # Before anything is captured or opened: a mistake in the name is told at once.
    page.check_page_file(file)
    if state is not None:
        return _write_lab_page(file, state)
    if Path(run).is_file():
        if against is not None:
            raise InputError("--against compares two runs; a snapshot is none")
        return _write_snapshot_page(file, Path(run))
    if is_trial(Path(run)):
        if against is not None:
            raise InputError("--against compares two runs; a trial has all its contenders side by side")
        return _write_trial_page(file, Path(run))
    from kailab.evidence import store

    runs = [store.find_run(evidence, one) for one in (run, against) if one is not None]
    if len(runs) == 2 and runs[0].resolve() == runs[1].resolve():
        raise InputError(f"--against {against}: is the run itself; expected another one")
    return WrittenPage(" and ".join(f"run {one.name}" for one in runs), page.write_page(runs, file))


def is_trial(path: Path) -> bool:
    """Whether a folder is that of a trial."""
    from kailab.trials.store import TRIAL

    return (path / TRIAL).is_file()


def _write_trial_page(file: Path, path: Path) -> WrittenPage:
    from kailab.trials import viewer_runs
    from kailab.trials.store import TrialFolder
    from kailab.trials.trial import read_outcome

    outcome = read_outcome(TrialFolder(path))
    return WrittenPage(f"trial {outcome.trial.name}", viewer_runs.write(outcome, file))


def _write_lab_page(file: Path, state: Path) -> WrittenPage:
    from kailab.cli import labfile
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab import Lab
    from kailab.lab.capture import capture

    with tempfile.TemporaryDirectory() as folder:
        with labfile.lock_lab(state), Lab.resume(state, read_only=True) as lab:
            run = capture(lab, LabRecord(state), Path(folder))
        return WrittenPage(f"the lab of {state}", page.write_page([run], file, "lab", f"Lab {state.name}"))


def _write_snapshot_page(file: Path, path: Path) -> WrittenPage:
    """Its first moment is the snapshot as the engine reads it; those after it are what kailab's scheduler decides from there."""
    from kailab.evidence.recorder import Recorder, write_test
    from kailab.evidence.run import RunFolder
    from kailab.snapshots import opening

    found = opening.read(path)
    recorder = Recorder()
    with opening.lab_of(found.snapshot, [recorder]) as lab:
        lab.settle()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.begin(folder)
        run.write("snapshot", path.stem, lambda at: write_test(at, f"snapshot/{path.name}", [recorder], "opened"))
        run.finish()
        return WrittenPage(
            f"{found.what} of {path}", page.write_page([run.path], file, "snapshot", f"Snapshot {path.name}")
        )


_run = click.argument("run", default="latest", help="A run's id, its folder, or latest.")


@click.group()
def group() -> None:
    """Show, check and compare the evidence of runs; replay a run; capture the lab that is up."""


ROOT = Path("evidence")


@group.command("list")
@options.evidence
@options.output
def list_runs(evidence: Path, output: TextOrJson) -> None:
    """List the runs, oldest first."""
    from kailab.cli.table import render_table
    from kailab.evidence import store

    found = store.list_runs(evidence)
    if output is TextOrJson.json:
        data = [{"run": run.run, "path": str(run.path), "outcomes": run.outcomes, **_plain(run.facts)} for run in found]
        terminal.say(json.dumps(data, indent=2))
        return
    if not found:
        terminal.notice(f"No runs in {evidence}")
        return
    rows = [
        (
            run.run,
            str(sum(run.outcomes.values())),
            *(str(run.outcomes.get(outcome, 0)) for outcome in ("passed", "failed", "error", "skipped")),
            "(did not finish)" if run.facts is None else run.facts.begun,
        )
        for run in found
    ]
    terminal.say(render_table(("RUN", "TESTS", "PASSED", "FAILED", "ERRORS", "SKIPPED", "BEGUN"), rows))


@group.command()
@click.option("--keep", type=click.IntRange(min=0), default=5, help="How many of the newest runs stay.")
@options.evidence
def prune(keep: int, evidence: Path) -> None:
    """Remove old runs; reference runs stay."""
    from kailab.evidence import store

    for run in store.prune_runs(evidence, keep):
        terminal.say(f"{run.path} removed")


@group.command()
@click.argument(
    "run", default="latest", metavar="[RUN]", help="A run's id, its folder, or latest; may be left out before a test."
)
@click.argument("test", default="", help="One test of it: exercise/test.")
@options.evidence
@options.output
def show(run: str, test: str, evidence: Path, output: TextOrJson) -> None:
    """Show the tests of a run; or of one test what was expected, what was seen, and what happened when."""
    from kailab.cli.table import render_table
    from kailab.evidence import store

    if test:
        path = store.find_run(evidence, run)
        test = store.find_test(path, test)
    else:
        path, test = store.find_run_or_test(evidence, run)
    if test:
        _show_test(path, test, output)
        return
    summary, tests = store.read_run(path)
    if output is TextOrJson.json:
        results = {one.name: _plain(one.result) for one in tests}
        data = {"path": str(path), **_plain(summary.facts), "results": results}
        terminal.say(json.dumps(data, indent=2))
        return
    terminal.say(f"Run {summary.run} in {path}")
    rows = [(one.name, one.outcome, ", ".join(sorted({lab.scheduler for lab in one.labs.values()}))) for one in tests]
    terminal.say("")
    terminal.say(render_table(("TEST", "OUTCOME", "SCHEDULER"), rows))


@group.command()
@_run
@click.option("--key", type=options.PATH, help="Check the signature by this key too: the public one, as PEM.")
@options.evidence
def verify(run: str, key: Path | None, evidence: Path) -> None:
    """Check every file of a run against its checksum, and with --key its signature. Exit code 1 if one was changed or is missing, or
    there is no signature by that key.

    Checksums show what was changed by accident; whoever can write the files can write them anew. A signature shows that the holder of
    the key had the run before them as it is now: not when, and not that what was tested is right.
    """
    from kailab.evidence import store

    path = store.find_run(evidence, run)
    problems = store.verify_evidence(path)
    if key is not None:
        from kailab.evidence import signing

        problems += signing.check_signature(path, key)
    for problem in problems:
        terminal.say(str(problem))
    if problems:
        terminal.notice(f"{path}: {len(problems)} problem{'' if len(problems) == 1 else 's'}")
        raise click.exceptions.Exit(1)
    terminal.say(f"{path}: all is as it was written")
    if key is not None:
        terminal.say(f"and as it was when the key {signing.key_fingerprint(key)} signed it")
    elif store.is_signed(path):
        terminal.notice("It is signed; --key checks by whom.")


@group.command()
@click.argument("file", type=options.PATH, help="Where the private key goes; the public one goes to FILE.pub.")
def keygen(file: Path) -> None:
    """Make a key to sign runs with (Ed25519). Keep the private one to yourself; give the public one to whoever is to check."""
    from kailab.evidence import signing

    public = signing.generate_key(file)
    terminal.say(f"{file} (private), {public} (public)\nkey {signing.key_fingerprint(public)}")


@group.command()
@_run
@click.option("--key", type=options.PATH, required=True, help="A private key of Ed25519, as PEM.")
@options.evidence
def sign(run: str, key: Path, evidence: Path) -> None:
    """Sign a run that is as it was written. The signature stands beside it and goes along with it; several keys may sign.

    It proves to whoever trusts the public key that its holder had the run before them as it is now. It does not prove when that was,
    nor that what was tested is right.
    """
    from kailab.evidence import signing, store

    terminal.say(f"{signing.sign_run(store.find_run(evidence, run), key)}")


@group.command()
@_run
@click.argument("file", type=options.PATH, help="The file to write, a .tar.gz.")
@options.evidence
def export(run: str, file: Path, evidence: Path) -> None:
    """Write a run as one file, with its checksums and signatures. Nothing is overwritten. `tar -xzf FILE` unpacks it."""
    from kailab.evidence import store
    from kailab.evidence.store import export_run as write

    path = store.find_run(evidence, run)
    terminal.say(f"{file}: {write(path, file)} files of run {path.name}")


@group.command()
@click.argument("first", help="A run's id or folder.")
@click.argument("second", default="latest", help="Another one, or latest.")
@options.evidence
@options.output
def diff(first: str, second: str, evidence: Path, output: TextOrJson) -> None:
    """Show where two runs differ; when they ran does not count. Exit code 1 if they differ."""
    from kailab.evidence import store
    from kailab.evidence.diff import diff as compare

    found = compare(store.find_run(evidence, first), store.find_run(evidence, second))
    if output is TextOrJson.json:
        data = [_plain(one) for one in found.differences]
        terminal.say(json.dumps({"first": found.first, "second": found.second, "differences": data}, indent=2))
    else:
        for one in found.differences:
            terminal.say(str(one))
        if found.identical:
            terminal.say(f"{found.first} and {found.second} are identical")
    if not found.identical:
        raise click.exceptions.Exit(1)


@group.command()
@click.argument("folder", type=options.PATH, required=False, help="The folder that runs are kept in.")
@options.state
@options.evidence
def capture(folder: Path | None, state: Path, evidence: Path) -> None:
    """Write the evidence of the lab that is up, as a test leaves it: what was done to it since `kailab up`, what was
    decided, and its present state. The lab goes on."""
    from kailab.cli import labfile
    from kailab.evidence.lab_record import LabRecord
    from kailab.lab import Lab
    from kailab.lab.capture import capture as write

    with labfile.lock_lab(state), Lab.resume(state, read_only=True) as lab:
        path = write(lab, LabRecord(state), folder or evidence)
    terminal.say(str(path))
    terminal.notice(f"Look at it: kailab evidence show {path}; decide it again: kailab evidence replay {path}")


@group.command()
@_run
@click.argument("test", default="", help="One test of it: exercise/test.")
@options.evidence
@options.output
def replay(run: str, test: str, evidence: Path, output: TextOrJson) -> None:
    """Decide every cycle of a run again, from its folder alone, and compare. Exit code 0 if all decisions are the same;
    otherwise 1, and the first difference is shown."""
    from kailab.evidence import store
    from kailab.evidence.replay import replay_run as decide_again

    path = store.find_run(evidence, run)
    found = decide_again(path, store.find_test(path, test) if test else "")
    for problem in found.problems:
        terminal.warn(f"not what was written: {problem}")
    if output is TextOrJson.json:
        terminal.say(json.dumps({"path": str(path), "same": found.same, **_plain(found)}, indent=2))
    else:
        for lab, why in found.passed_over.items():
            terminal.say(f"{lab}: nothing to replay: {why}")
        terminal.say(str(found))
    if not found.same:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument(
    "run",
    required=False,
    help="A run's id, its folder, or latest; with --html also a trial's folder, or a snapshot's file.",
)
@click.option("--format", default="", show_default=False, help="The format: text (the default) or markdown.")
@click.option("--html", type=options.PATH, help="Write a page to travel through the run, one file that loads nothing.")
@click.option("--against", help="With --html: another run, to compare with.")
@click.option("--state", type=options.PATH, help="With --html: of the lab that this file keeps, instead of a run.")
@options.evidence
def report(
    run: str | None, format: str, html: Path | None, against: str | None, state: Path | None, evidence: Path
) -> None:
    """Report on a run, from its evidence alone: what was expected, what was seen, and why."""
    from kailab.errors import InputError
    from kailab.evidence import store
    from kailab.report import render

    if html is None:
        for name, given in (("--against", against), ("--state", state)):
            if given is not None:
                raise InputError(f"{name} goes with --html FILE")
        if run and is_trial(Path(run)):
            raise InputError(f"{run}: is a trial; `kailab trial show {run}` tells it, --html FILE makes a page of it")
        if run and Path(run).is_file():
            raise InputError(f"{run}: is a file, not a run; of a snapshot --html FILE makes a page")
        terminal.say(render(store.find_run(evidence, run or store.LATEST), format or "text").rstrip("\n"))
        return
    if format:
        raise InputError("--format and --html exclude each other")
    if state is not None and (run or against):
        raise InputError("--state reports on the lab in hand: no run goes with it")
    written = write_viewer_page(html, run or store.LATEST, against, state, evidence)
    terminal.say(f"{html}: {written.what}, {written.size / 1e6:.1f} MB")


def _plain(value: Any) -> dict[str, Any]:
    """An entry as JSON has it; nothing of none."""
    from msgspec import to_builtins

    return {} if value is None else to_builtins(value)


def _show_test(run: Path, name: str, output: TextOrJson) -> None:
    from kailab.evidence import store

    test = store.load_test(run, name)
    if output is TextOrJson.json:
        data = {"path": str(test.path), "result": _plain(test.result), "labs": _plain(test.labs)}
        terminal.say(json.dumps(data, indent=2))
        return
    reason, source = test.result.reason, test.result.source
    terminal.say(f"{test.name}: {test.outcome}{f': {reason}' if reason else ''}\n{test.path}")
    if test.result.message:
        terminal.say(test.result.message)
    if source is not None:
        terminal.say(f"at {source.file}:{source.line}: {source.text}")
    for lab, facts in test.labs.items():
        terminal.say(f"\n{lab}: fleet {facts.fleet}, scheduler {facts.scheduler}")
        terminal.say(test.text(lab, "timeline.txt").rstrip("\n"))
