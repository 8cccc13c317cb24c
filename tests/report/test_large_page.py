"""A page of 40,000 pods and 1,000 tests stays usable: it has all data and draws only a small part at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kailab.report.page_data import LabForm
from tests.browser import WITH_A_BROWSER, Tab, expects
from tests.report import large
from tools.browser import LONG

pytestmark = WITH_A_BROWSER

NODES, PODS, TESTS = 5_000, 40_000, 1_000
MOST_ELEMENTS = 6_000
MOST_MEMORY = 500 * 2**20
MOST_BYTES = 8 * 2**20


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LabForm]:
    file = tmp_path_factory.mktemp("large") / "page.html"
    return file, large.write(file, nodes=NODES, pods=PODS, tests=TESTS)


@pytest.fixture
def tab(browser: Any, written: tuple[Path, LabForm]) -> Iterator[Tab]:
    one = browser.new_page(viewport={"width": 1300, "height": 900})
    one.set_default_timeout(LONG)
    said: list[str] = []
    one.on("console", lambda message: said.append(message.text))
    one.on("pageerror", lambda error: said.append(str(error)))
    one.goto(f"file://{written[0]}", timeout=LONG)
    one.wait_for_selector("#app[data-ready]")
    yield one
    one.close()
    assert said == []


def elements(tab: Tab) -> int:
    return int(tab.evaluate("document.querySelectorAll('*').length"))


def memory(tab: Tab) -> float:
    """Bytes that the page's scripts hold."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    return float(metrics["JSHeapUsedSize"])


def to_the_end(tab: Tab, region: str, last: str) -> None:
    """Scroll a list to its last row, which is there."""
    found = tab.locator(f'[role=region][aria-label="{region}, list"]')
    found.evaluate("one => { one.scrollTop = one.scrollHeight; }")
    expects(found).to_contain_text(last, timeout=LONG)


def test_of_many_tests_each_is_found(tab: Tab) -> None:
    assert f"{TESTS} passed" in tab.inner_text(".verdicts")
    assert elements(tab) < MOST_ELEMENTS
    to_the_end(tab, "Tests", f"large/test_{TESTS - 1:04}")
    tab.fill("#search", "test 777.")
    tab.wait_for_function("() => document.querySelectorAll('.body .row').length === 1")


def test_of_many_pods_each_moment_is_shown_whole(tab: Tab, written: tuple[Path, LabForm]) -> None:
    file, form = written
    assert file.stat().st_size < MOST_BYTES
    tab.goto(f"file://{file}#/0/0/0/0")
    tab.wait_for_selector("#fleet canvas")
    for moment in (0, 1, large.MOMENTS - 1):
        tab.locator("#moment").fill(str(moment))
        placed = PODS // large.MOMENTS * (moment + 1)
        tab.wait_for_function(
            "text => document.querySelector('#fleet > .quiet').textContent.includes(text)",
            arg=f"{placed:,} pods placed",
        )
        held = sum(
            change[-1][1].gpu.allocated for change in [_until(form, queue, moment) for queue in range(large.QUEUES)]
        )
        assert held == placed * 1000
        cells = tab.locator("#queues .body .row > span:nth-child(5)").all_inner_texts()
        assert sum(float(cell) for cell in cells) == placed
    assert elements(tab) < MOST_ELEMENTS
    assert memory(tab) < MOST_MEMORY
    to_the_end(tab, "PodGroups over time", form.groups.name[-1])
    tab.select_option("#other", "0")
    tab.wait_for_function(
        "text => document.querySelector('#compared > p').textContent.includes(text)",
        arg=f" {PODS - PODS // large.MOMENTS + _moved_of_the_first(form):,} pods stand otherwise",
    )


def _until(form: LabForm, queue: int, moment: int) -> list[Any]:
    return [change for change in form.queues.changes[queue] if change[0] <= moment]


def _moved_of_the_first(form: LabForm) -> int:
    """Pods that were there at the first moment, and went elsewhere since."""
    first, moments = form.pods.first, form.pods.moment
    return sum(moments[begin] == 0 and end - begin > 1 for begin, end in pairwise(first))
