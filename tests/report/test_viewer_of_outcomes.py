"""The page shows the lines of a test, and why a test was skipped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kailab.evidence.entries import SourceLine
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab
from kailab.report import page as pages
from tests.browser import WITH_A_BROWSER, Tab, serious
from tests.report.conftest import MANIFESTS
from tools.browser import LONG

pytestmark = WITH_A_BROWSER


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    one = browser.new_page(viewport={"width": 1300, "height": 900})
    one.set_default_timeout(LONG)
    said: list[str] = []
    one.on("pageerror", lambda error: said.append(str(error)))
    yield one
    one.close()
    assert said == []


@pytest.fixture
def written(tmp_path: Path) -> Path:
    numbers = count(11)
    recorder = Recorder(source=lambda: SourceLine(file="checks/test_a.py", line=next(numbers), text="lab.<b>do</b>()"))
    by_hand = Recorder()
    for one in (recorder, by_hand):
        with Lab.open(observers=[one]) as lab:
            lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
            lab.settle()
            lab.noted_expectation("queue team-a", "queue team-a: 40 GPUs running", "32 Running (32 GPUs)", False)
    run = RunFolder.begin(tmp_path / "evidence")
    at = SourceLine(file="checks/test_a.py", line=13, text="lab.<b>do</b>()")
    run.write("fair", "test_a", lambda to: write_test(to, "fair/test_a", [recorder], "failed", "more", source=at))
    run.write(
        "fair", "test_b", lambda to: write_test(to, "fair/test_b", [], "skipped", "", "Later.", "no <i>such</i> GPU")
    )
    run.write("fair", "test_c", lambda to: write_test(to, "fair/test_c", [by_hand], "captured"))
    run.finish({"kailab": "0"}, {})
    pages.write_page([run.path], tmp_path / "page.html")
    return tmp_path / "page.html"


def opened(tab: Tab, file: Path, address: str) -> Tab:
    tab.goto("about:blank")
    tab.goto(f"file://{file}{address}", timeout=LONG)
    tab.wait_for_selector("#app[data-ready]")
    return tab


def test_each_step_and_expectation_has_its_line_beside_it(tab: Tab, written: Path) -> None:
    opened(tab, written, "#/0/0/0/0").wait_for_selector("#fleet canvas")
    steps = tab.locator("#decided .steps li")
    assert steps.first.inner_text().endswith("checks/test_a.py:11\nlab.<b>do</b>()")
    assert tab.locator(".failed-at").inner_text().split() == ["Failed", "at", "checks/test_a.py:13", "lab.<b>do</b>()"]
    [expected] = tab.locator("#main table").first.locator("tbody tr").all_inner_texts()
    assert "checks/test_a.py:13" in expected
    steps.first.locator("button").click()
    facts = tab.locator("dialog .facts").inner_text()
    assert "checks/test_a.py:11" in facts
    assert "lab.<b>do</b>()" in facts
    tab.keyboard.press("Escape")
    assert serious(tab) == []


def test_what_no_test_did_has_no_line(tab: Tab, written: Path) -> None:
    opened(tab, written, "#/0/2/0/0").wait_for_selector("#fleet canvas")
    assert tab.locator("#decided .steps li").count() > 0
    assert tab.locator(".line, .failed-at").count() == 0
    assert "In the test" not in tab.inner_text("#main")


def test_a_skipped_test_is_counted_and_says_why(tab: Tab, written: Path) -> None:
    opened(tab, written, "#/")
    tab.locator(".verdicts button", has_text="1 skipped").click()
    [row] = tab.locator(".rows .body .row").all_inner_texts()
    assert row.split("\n")[:4] == ["skipped", "fair/test_b", "Later.", "skipped: no <i>such</i> GPU"]
    tab.locator(".rows .row a").click()
    tab.wait_for_selector("h1:has-text('fair/test_b')")
    assert "skipped: no <i>such</i> GPU" in tab.inner_text("#main")
    assert "This test opened no lab." in tab.inner_text("#main")
    assert serious(tab) == []
