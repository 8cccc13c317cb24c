"""A trial as the viewer's page: `kailab report TRIAL --html`."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kailab.trials.store import TrialFolder
from kailab.trials.trial import read_outcome
from tests.browser import WITH_A_BROWSER, Tab, serious
from tests.trials.conftest import Done, Trial
from tools.browser import LONG


@pytest.fixture
def report(home: Path) -> Callable[..., Done]:
    def run(*arguments: str) -> Done:
        told = [sys.executable, "-m", "kailab", "report", *arguments]
        done = subprocess.run(told, cwd=home, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def page_of(file: Path) -> dict[str, Any]:
    [text] = re.findall(r'<script type="application/gzip" id="page">([^<]*)', file.read_text())
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text)))
    return found


@pytest.mark.slow
def test_each_contender_is_a_run_with_the_trials_verdicts(
    trial: Trial, home: Path, report: Callable[..., Done]
) -> None:
    told = json.loads(trial("run", "trial.yaml", "-o", "json").out)
    done = report("trials/small", "--html", "trial.html")
    assert (done.code, done.err) == (0, "")
    # A notebook has the same table.
    shown = read_outcome(TrialFolder(home / "trials" / "small"))._repr_html_()
    assert shown.count("<tr>") == 1 + len(told["rows"])
    assert "kube-scheduler: verdict: passed -&gt; failed" in shown
    page = page_of(home / "trial.html")
    assert (page["kind"], page["title"]) == ("trial", "Trial small")
    assert [run["run"] for run in page["runs"]] == ["kailab", "kube-scheduler"]
    for run in page["runs"]:
        verdicts = {row["test"]: row["results"][run["run"]]["verdict"] for row in told["rows"]}
        assert {one["name"]: one["outcome"] for one in run["tests"]} == verdicts
        assert run["problems"] == []
        # All are there to be travelled through.
        assert all(one["labs"] for one in run["tests"])
    differs = {(one["test"], one["column"]): [each["text"] for each in one["differences"]] for one in told["differing"]}
    for run in page["runs"]:
        for one in run["tests"]:
            expected = differs.get((one["name"], run["run"]), [])
            assert one["differs"][: len(expected)] == expected
            assert bool(one["differs"]) == bool(expected)


@pytest.mark.slow
def test_a_trial_is_no_run_and_what_is_lost_is_told(trial: Trial, home: Path, report: Callable[..., Done]) -> None:
    trial("run", "trial.yaml")
    done = report("trials/small")
    assert done.code == 2
    assert "is a trial; use `kailab trial show trials/small`" in done.err
    done = report("trials/small", "--against", "latest", "--html", "x.html")
    assert done.code == 2
    assert "the page of a trial compares its contenders" in done.err
    # Of evidence that can't be read any more the verdict is left, and the page says why.
    [damaged] = (home / "trials" / "small" / "cells").glob("returning-kailab-*/evidence/*/returning/a-few-come-back")
    (damaged / "result.json").write_text("{")
    assert report("trials/small", "--html", "x.html").code == 0
    [run, other] = page_of(home / "x.html")["runs"]
    assert [one["name"] for one in run["tests"] if not one["labs"]] == ["returning/a-few-come-back"]
    assert "a-few-come-back" in run["problems"][0]
    assert other["problems"] == []


@pytest.mark.parametrize("browsed", [pytest.param(None, marks=WITH_A_BROWSER)])
def test_contenders_stand_side_by_side(
    trial: Trial, home: Path, report: Callable[..., Done], browser: Any, browsed: None
) -> None:
    trial("run", "trial.yaml")
    assert report("trials/small", "--html", "trial.html").code == 0
    context = browser.new_context()
    tab: Tab = context.new_page()
    tab.set_default_timeout(LONG)
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(f"file://{home / 'trial.html'}")
    tab.wait_for_selector("#app[data-ready]")
    assert serious(tab) == []
    tab.locator(".body .row", has_text="owner_gets_its_share").get_by_role(
        "link", name="kube-scheduler: failed"
    ).click()
    tab.wait_for_selector("#fleet canvas")
    assert "verdict: passed -> failed" in tab.inner_text("#main")
    # kube-scheduler has no queues: what nobody wrote is not told as 0.
    assert "not told" in tab.inner_text("#queues")
    tab.focus("#main")
    tab.keyboard.press("End")
    tab.select_option("#other", label="kailab")
    tab.wait_for_function("() => document.getElementById('then-title').textContent.startsWith('kailab: ')")
    # Its Deployments' pods have other names: those that stand alike are not told as gone and come.
    assert "not there" not in tab.inner_text("#compared .rows")
    assert serious(tab) == []
    assert errors == []
    context.close()
