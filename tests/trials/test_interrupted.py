"""A trial interrupted at any moment: no process survives, no result is lost, and a rerun gives the result of an
undisturbed trial."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import tenacity

from kailab.cluster.controlplane.supervision import mark_of, processes_of
from kailab.trials.leftovers import living_processes
from kailab.trials.store import TrialFolder
from tests.trials.conftest import Trial, begun, fill

MOMENTS = int(os.environ.get("KAILAB_FAULT_MOMENTS", "4"))
"""So many times a trial is interrupted; more for a search of an hour."""
PATIENCE_SECONDS = 300.0
"""A bound for what hangs, far beyond what a busy machine needs."""


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """Without what differs from run to run: times, names of runs."""
    rows = [
        {**row, "results": {name: _verdict(result) for name, result in row["results"].items()}} for row in told["rows"]
    ]
    differing = [
        {key: value for key, value in one.items() if key not in ("evidence", "messages")} for one in told["differing"]
    ]
    return {"rows": rows, "differing": differing, "complete": told["complete"]}


def _verdict(result: dict[str, Any]) -> dict[str, Any]:
    return {key: result[key] for key in ("verdict", "concept")}


def interrupt(home: Path, number: int, after: int, *arguments: str) -> bool:
    """Send a signal as soon as ``after`` more files of the trial are there. True if it came before the end."""
    folder = home / "trials"
    there = _files(folder)
    process = begun(home, "run", *arguments)
    while process.poll() is None and _files(folder) < there + after:
        time.sleep(0.01)
    ended = process.poll() is not None
    process.send_signal(number)
    _, err = process.communicate()
    if not ended and number == signal.SIGINT:
        assert process.returncode in (130, 0, 1), err
        assert "Traceback" not in err
    return not ended


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


@tenacity.retry(stop=tenacity.stop_after_delay(PATIENCE_SECONDS), wait=tenacity.wait_fixed(0.2), reraise=True)
def gone(folder: Path) -> None:
    rest = list(living_processes(folder))
    assert not rest, [process.cmdline() for process in rest]


def undisturbed(trial: Trial, *arguments: str) -> dict[str, Any]:
    done = trial("run", *arguments, "--name", "undisturbed", "-o", "json")
    assert done.code == 1, done.err
    return plain(json.loads(done.out))


def test_sigterm_waits_as_ctrl_c_does(trial: Trial, home: Path) -> None:
    """A CI runner's end: when the command is gone, so is all that it had brought up; what had ended is kept."""
    (home / "lending" / "test_lending.py").write_text(
        "import os, pathlib, time\n"
        "def test_ended(lab): ...\n"
        "def test_endless(lab):\n"
        "    try:\n"
        "        pathlib.Path(os.environ['KAILAB_TRIAL_CELL'], 'begun').touch()\n"
        "        while True:\n            time.sleep(0.05)\n"
        "    finally:\n        time.sleep(2)\n        pathlib.Path(os.environ['KAILAB_TRIAL_CELL'], 'taken-down').touch()\n"
    )
    process = begun(home, "run", "--name", "sent", "--isolation", "embedded", "--scheduler", "kailab", "lending")
    folder = home / "trials" / "sent"
    while process.poll() is None and not list(folder.glob("cells/*/begun")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143, err
    assert "interrupted" in err
    assert len(list(folder.glob("cells/*/taken-down"))) == 1
    assert [one.cmdline() for one in living_processes(folder)] == []
    (cell,) = TrialFolder(folder).cells()
    assert (list(cell.tests()), cell.result) == (["lending/test_ended"], None)


def test_a_cell_is_not_done_where_the_report_of_its_interrupt_fails(trial: Trial, home: Path) -> None:
    """As pytest's does now and then, of a frame without a line."""
    (home / "lending" / "conftest.py").write_text(
        "def pytest_keyboard_interrupt(excinfo):\n    raise TypeError('no line')\n"
    )
    (home / "lending" / "test_lending.py").write_text("def test_it(lab):\n    raise KeyboardInterrupt\n")
    arguments = (
        "run",
        "--name",
        "unreported",
        "--isolation",
        "embedded",
        "--scheduler",
        "kailab",
        "lending",
        "-o",
        "json",
    )
    (row,) = json.loads(trial(*arguments).out)["rows"]
    assert "TypeError: no line" in row["results"]["kailab"]["message"]


@pytest.mark.slow
def test_of_a_cell_that_was_killed_what_had_ended_counts(
    trial: Trial, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a machine without memory left. The second test kills its process the first time that it runs."""
    (home / "lending" / "test_lending.py").write_text(
        "import os, pathlib, signal\n"
        "MARK = pathlib.Path(os.environ['MARK'])\n"
        "def test_first(lab):\n    print('once', file=open(MARK / 'first', 'a'))\n"
        "def test_second(lab):\n"
        "    if not (MARK / 'killed').exists():\n"
        "        (MARK / 'killed').touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setenv("MARK", str(home))
    arguments = ("run", "--name", "killed", "--isolation", "embedded", "--scheduler", "kailab", "lending")
    first = trial(*arguments)
    assert (first.code, "killed by SIGKILL" in first.out) == (1, True)
    second = trial(*arguments, "-o", "json")
    verdicts = {row["test"]: row["results"]["kailab"]["verdict"] for row in json.loads(second.out)["rows"]}
    assert (second.code, verdicts) == (0, {"lending/test_first": "passed", "lending/test_second": "passed"})
    assert (home / "first").read_text() == "once\n"


@pytest.mark.slow
def test_interrupted_at_many_moments(trial: Trial, home: Path) -> None:
    """By turns with SIGINT and SIGKILL, each time some files later than the time before."""
    wanted = undisturbed(trial, "trial.yaml")
    folder, chance, hit = home / "trials" / "small", random.Random(12), 0
    for moment in range(4 * MOMENTS):
        # Begun anew where it has come to its end: each moment is to be one of a trial at work.
        if len(list(folder.glob("cells/*/result.json"))) == 4:
            shutil.rmtree(folder)
        number = signal.SIGKILL if moment % 2 else signal.SIGINT
        hit += interrupt(home, number, chance.randrange(1, 45), "trial.yaml")
        gone(folder)
        if hit == MOMENTS:
            break
    assert hit == MOMENTS
    assert trial("show", "small").code in (0, 1)
    assert plain(json.loads(trial("run", "trial.yaml", "-o", "json").out)) == wanted
    assert trial("clean").out == "undisturbed: nothing was left\nsmall: nothing was left\n"


@pytest.mark.slow
def test_control_planes_go_with_an_interrupted_trial(trial: Trial, home: Path, components: object) -> None:
    arguments = ("trial.yaml", "--name", "planes", "--jobs", "2")
    (home / "trial.yaml").write_text(
        "schedulers: [kailab, kube-scheduler]\non: [returning.yaml]\nisolation: controlplane\ncompare: [verdict, outcome]\n"
    )
    for number, after in ((signal.SIGINT, 60), (signal.SIGKILL, 60), (signal.SIGKILL, 15)):
        interrupt(home, number, after, *arguments)
        gone(home / "trials" / "planes")
    # Also where all that looked on was killed with it.
    process = begun(home, "run", *arguments)
    try:
        while process.poll() is None and not list(
            (home / "trials" / "planes").glob("cells/*/tmp/kailab-*/processes/*.pid")
        ):
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()
    assert trial("clean", "planes").code == 0
    gone(home / "trials" / "planes")
    assert [one.pid for one in processes_of(None) if mark_of(one).startswith(str(home))] == []
    done = trial("run", *arguments, "-o", "json")
    told = json.loads(done.out)
    assert (told["complete"], told["rows"][0]["results"]["kailab"]["verdict"]) == (True, "passed"), done.err


@pytest.mark.slow
def test_two_trials_at_once_do_not_disturb_each_other(
    trial: Trial, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = undisturbed(trial, "trial.yaml")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    fill(elsewhere)
    both = [begun(folder, "run", "trial.yaml", "-o", "json") for folder in (home, elsewhere)]
    for process in both:
        out, err = process.communicate()
        assert process.returncode == 1, err
        assert plain(json.loads(out)) == wanted


def test_one_trial_is_run_by_one_process(trial: Trial, home: Path) -> None:
    with TrialFolder(home / "trials" / "small").locked():
        for command in (("run", "trial.yaml"), ("run", "trial.yaml", "--again")):
            done = trial(*command)
            assert (done.code, "is being run by another process" in done.err) == (2, True)
    assert not (home / "trials" / "small" / "cells").exists()
