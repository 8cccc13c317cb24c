"""The page in a browser: it shows the evidence, each main action has a key, and no errors occur."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.evidence import cycles, store
from kailab.evidence.entries import PodEvicted
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab
from kailab.report import page as pages
from tests.browser import WITH_A_BROWSER, Tab, expects, serious
from tests.explain.building import pod
from tests.report.conftest import MANIFESTS, reclaimed
from tools.browser import LONG

pytestmark = WITH_A_BROWSER


@pytest.fixture(scope="module")
def written(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    pages.write_page([run], file)
    return file


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    """A tab of which nothing is asked from elsewhere, and that says nothing to the console."""
    one = browser.new_page(viewport={"width": 1300, "height": 900})
    one.set_default_timeout(LONG)
    said: list[str] = []
    asked: list[str] = []
    one.on("console", lambda message: said.append(message.text))
    one.on("pageerror", lambda error: said.append(str(error)))
    one.on("request", lambda request: asked.append(request.url))
    yield one
    one.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def opened(tab: Tab, file: Path, address: str = "") -> Tab:
    tab.goto(f"file://{file}{address}", timeout=LONG)
    tab.wait_for_selector("#app[data-ready]")
    return tab


def lab_address(run: Path, name: str, moment: int = 0) -> str:
    return f"#/0/{[test.name for test in store.read_run(run)[1]].index(name)}/0/{moment}"


def rows(tab: Tab, section: str) -> list[list[str]]:
    """The cells in view of the list in a section."""
    found = tab.locator(f"{section} .rows .body .row")
    return [[cell.strip() for cell in found.nth(at).locator("> span").all_inner_texts()] for at in range(found.count())]


def test_the_summary_leads_to_a_test_by_keys_alone(tab: Tab, written: Path) -> None:
    opened(tab, written)
    assert "1 passed" in tab.inner_text(".verdicts")
    assert "1 failed" in tab.inner_text(".verdicts")
    tab.focus("#search")
    tab.keyboard.type("owner")
    tab.wait_for_function("() => document.querySelectorAll('.body .row').length === 1")
    assert "The owner <b>gets</b> its share" in tab.inner_text(".body .row")
    for _ in range(10):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.tagName") == "A":
            break
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#fleet")
    assert tab.inner_text("h1") == "fair/test_reclaim"


def test_keys_travel_and_queues_are_as_recorded_at_each_moment(tab: Tab, run: Path, written: Path) -> None:
    _, recorded = cycles.read_cycles_file(run / "fair/test_reclaim/lab")
    opened(tab, written, lab_address(run, "fair/test_reclaim"))
    for moment, (cycle, _, decisions) in enumerate(cycles.whole_cycles(recorded)):
        tab.wait_for_function("at => document.getElementById('moment')?.value === String(at)", arg=moment)
        assert tab.inner_text(".moment").startswith(f"cycle {cycle.number},")
        shown = {cells[0].split("\n")[-1]: cells[1:7] for cells in rows(tab, "#queues")}
        assert shown == {
            queue.name: [
                _gpus(value)
                for value in (
                    queue.gpu.quota, queue.gpu.limit, queue.gpu.fair_share, queue.gpu.allocated, queue.gpu.borrowed,
                    queue.gpu.requested,
                )
            ]
            for queue in decisions.queues
        }  # fmt: skip
        tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Home")
    tab.wait_for_function("() => document.getElementById('moment')?.value === '0'")
    tab.keyboard.press("End")
    tab.wait_for_function("() => document.getElementById('moment')?.value === document.getElementById('moment')?.max")
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_function(
        "Number(document.getElementById('moment').value) === document.getElementById('moment').max - 1"
    )
    tab.keyboard.press("e")
    tab.wait_for_function("() => document.querySelector('.moment')?.textContent.includes('16 evict')")
    assert tab.evaluate("location.hash").endswith("/" + tab.evaluate("document.getElementById('moment').value"))


def test_a_lab_opens_at_its_last_eviction_and_tells_it_in_words(tab: Tab, run: Path, written: Path) -> None:
    """By workload: one line for sixteen pods."""
    opened(tab, written, lab_address(run, "fair/test_reclaim").rpartition("/")[0])
    tab.wait_for_function("() => document.querySelector('.moment')?.textContent.includes('16 evict')")
    headline = tab.inner_text(".headline .strong")
    assert headline.startswith("Reclaim: 16 pods of Deployment default/borrower (team-a) evicted for Deployment ")
    assert "32 pods placed" in headline
    [evicted] = tab.locator(".headline .beside > div").nth(0).locator("li").all_inner_texts()
    assert "16 pods (reclaim), for Deployment default/owner (team-b)" in evicted
    tab.click(".headline button:has-text('Evicted now')")
    tab.wait_for_function("() => document.activeElement.id === 'evictions'")
    # The sentence is of the moment that is shown.
    tab.keyboard.press("Home")
    tab.wait_for_function("() => !document.querySelector('.headline .strong').textContent.includes('evicted')")


def _gpus(value: float) -> str:
    return "unlimited" if value == -1 else f"{value / 1000:g}"


def test_a_number_opens_the_entry_that_it_is_from(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written, lab_address(run, "fair/test_reclaim", 1))
    tab.click('button[aria-label="team-a: allocated 32"]')
    text = tab.locator("dialog details[open] pre")
    expects(text).to_contain_text("allocated", timeout=LONG)
    found = json.loads(text.inner_text())
    _, recorded = cycles.read_cycles_file(run / "fair/test_reclaim/lab")
    file = next((run / "fair/test_reclaim/lab").glob("cycles.jsonl*")).name
    assert f"fair/test_reclaim/lab/{file}, line 3, queues[" in tab.inner_text("dialog details[open] summary")
    [queue] = [one for one in list(cycles.whole_cycles(recorded))[1][2].queues if one.name == "team-a"]
    assert (found["name"], found["gpu"]["allocated"]) == ("team-a", queue.gpu.allocated)
    tab.keyboard.press("Escape")
    expects(tab.locator("dialog")).to_be_hidden(timeout=LONG)


def test_counts_lead_to_what_they_count(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written)
    tab.get_by_role("button", name="1 failed").click()
    assert [row[1] for row in rows(tab, "#main")] == ["fair/test_default"]
    tab.get_by_role("button", name="2 expectations").click()
    assert {row[1] for row in rows(tab, "#main")} == {"fair/test_default", "fair/test_reclaim"}
    assert tab.get_by_role("button", name="0 not held").is_disabled()

    opened(tab, written, lab_address(run, "fair/test_reclaim"))
    tab.get_by_role("button", name="Raw entry: queue team-b").click()
    tab.wait_for_function("() => document.querySelector('dialog pre')?.textContent.includes('16 GPUs <running>')")
    tab.keyboard.press("Escape")
    count = tab.locator("#moments button.number", has_text="16").first
    told = count.get_attribute("aria-label")
    count.click()
    tab.wait_for_function("() => document.activeElement.id === 'decided'")
    shown = {"binds": "bind", "promises": "promise", "evictions": "evict"}[told.split()[-1]]
    assert {row[0] for row in rows(tab, "#decided")} == {shown}
    assert tab.locator("#decided [role=table]").get_attribute("aria-rowcount") == "17"


def test_evictions_point_to_whom_they_served(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written, lab_address(run, "fair/test_reclaim"))
    tab.click("#evictions button:has-text('all moments')")
    evicted = [one for one in store.load_test(run, "fair/test_reclaim").decisions("lab") if isinstance(one, PodEvicted)]
    assert f"{len(evicted)} in all" in tab.inner_text("#evictions > p")
    first, entry = rows(tab, "#evictions")[0], evicted[0]
    assert entry.pod in first[0]
    assert first[1] == "reclaim"
    assert "team-b" in first[2]
    assert entry.ground is not None
    numbers = (entry.ground.rule, _gpus(entry.ground.bound), _gpus(entry.ground.before), _gpus(entry.ground.after))
    assert all(number in first[3] for number in numbers)


def test_the_table_of_nodes_tells_what_the_picture_does(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written, lab_address(run, "fair/test_reclaim", 1))
    tab.focus("#fleet .as-table summary")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#fleet .body .row button")
    found = {cells[0]: cells for cells in rows(tab, "#fleet")}
    assert sum(float(cells[2]) for cells in found.values()) == 32
    assert all(cells[4].startswith("team-a") for cells in found.values())
    assert {cells[1] for cells in found.values()} == {"rack-1", "rack-2", "rack-3"}
    assert "Free GPUs: A100 0 of 16, H100 0 of 8, L40S 0 of 8." in tab.inner_text("#fleet")


def test_names_and_sentences_are_text(tab: Tab, run: Path, tmp_path: Path) -> None:
    """Evidence that somebody else made may have anything in a name."""
    import shutil

    evil = "</script><img src=x onerror=console.log(1)><b>"
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    lab = copy / "fair/test_default/lab"
    for path in [*lab.rglob("*.json"), *lab.rglob("*.jsonl")]:
        path.write_text(path.read_text().replace("team-a", evil))
    pages.write_page([copy], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    results = [test.result for test in store.read_run(run)[1]]
    assert all(text in tab.inner_text("#main") for one in results for text in (one.sentence, one.message))
    opened(tab, tmp_path / "page.html", lab_address(run, "fair/test_default", 1))
    tab.reload()
    tab.wait_for_selector("#queues .body .row")
    assert evil in tab.inner_text("#queues")
    tab.click("#waiting .body button")
    tab.wait_for_selector("dialog pre")
    assert tab.locator("#app img, #app b").count() == 0


def test_a_wait_goes_on_where_its_reason_changes(tab: Tab, tmp_path: Path) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(MANIFESTS / "queues.yaml")
        lab.settle()
        # No node has nine GPUs; then its queue may have no more than eight.
        lab.apply(pod("wants", "team-a", 9))
        lab.settle()
        lab.advance(60)
        lab.patch("Queue", "team-a", {"spec": {"resources": {"gpu": {"limit": 8}}}})
        lab.settle()
    folder = RunFolder.begin(tmp_path)
    folder.write("fair", "test_waits", lambda at: write_test(at, "fair/test_waits", [recorder], "passed", ""))
    folder.finish({"kailab": "0"}, {})
    pages.write_page([folder.path], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html", lab_address(folder.path, "fair/test_waits", 0))
    tab.keyboard.press("End")
    [cells] = rows(tab, "#waiting")
    assert (cells[2], cells[-1]) == ("OverLimit", "cycle 2, 0 s")
    tab.locator("#waiting .body .row button").nth(1).click()
    tab.wait_for_selector("dialog pre")
    assert "waits since\ncycle 2, 0 s\nthis reason since\ncycle 3, 61 s" in tab.inner_text("dialog")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(tab: Tab, run: Path, written: Path, scheme: str) -> None:
    tab.emulate_media(color_scheme=scheme)
    for address in ("#/", lab_address(run, "fair/test_reclaim", 2)):
        opened(tab, written, address)
        tab.reload()
        tab.wait_for_selector("#app[data-ready]")
        assert serious(tab) == []
    tab.keyboard.press("e")
    tab.locator("#evictions .body button").first.click()
    tab.wait_for_selector("dialog pre")
    assert serious(tab, "dialog") == []


def test_on_paper_lists_show_their_rows(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written, lab_address(run, "fair/test_reclaim", 2))
    before = tab.locator("#gangs .body .row").count()
    tab.emulate_media(media="print")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    groups = tab.locator("#gangs .body .row").count()
    assert groups > before
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.locator("#gangs .body .row").count() == before


def test_two_runs_stand_beside_each_other(tab: Tab, run: Path, tmp_path: Path) -> None:
    pages.write_page([run, run], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    [default, reclaim] = sorted(rows(tab, "#main"))
    assert default[0] == "fair/test_default"
    assert [cell.split(":")[0] for cell in default[2:4]] == ["failed", "failed"]
    assert reclaim[4] == "the same"
    tab.locator(".body .row a").last.click()
    tab.wait_for_selector("#fleet, #main > p")
    assert tab.evaluate("location.hash").startswith("#/1/")


def test_the_same_test_of_two_runs_is_told_apart(tab: Tab, run: Path, tmp_path: Path) -> None:
    other = RunFolder.begin(tmp_path / "evidence")
    # The owner asks for less, so another number goes.
    recorder = reclaimed(owner=4)
    other.write("fair", "test_reclaim", lambda at: write_test(at, "fair/test_reclaim", [recorder], "passed"))
    other.finish({"kailab": "0"}, {})
    pages.write_page([other.path, run], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html", "#/0/0/0/2")
    tab.select_option("#other", label=f"run {run.name}")
    tab.wait_for_function("() => document.getElementById('then-title')?.textContent.startsWith('run ')")
    states = [list(store.load_test(path, "fair/test_reclaim").states("lab").values())[-1] for path in (run, other.path)]
    tab.focus("#main")
    tab.keyboard.press("End")
    tab.wait_for_function("() => document.getElementById('now-title')?.textContent.includes('after step')")
    held = [{row.name: (row.phase, row.node) for row in state.pods} for state in states]
    other = sum(held[0][name] != held[1][name] for name in held[0].keys() & held[1])
    # Pods of one run only are all the borrower's or the owner's: those that stand alike are taken as one.
    for app in ("borrower", "owner"):
        alone = [
            Counter(stands for name, stands in these.items() if name not in those and f"/{app}-" in name)
            for these, those in (held, held[::-1])
        ]
        other += max((alone[0] - alone[1]).total(), (alone[1] - alone[0]).total())
    assert f"{other} pods stand otherwise" in tab.inner_text("#compared > p")
    assert "16 → 28" in tab.inner_text("#compared table")
    tab.locator("#compared .rows .body button").first.click()
    tab.wait_for_selector("dialog pre")
    assert serious(tab, "dialog") == []


def test_arrows_lead_from_each_gang_that_lost_pods_to_whom_it_served(tab: Tab, run: Path, written: Path) -> None:
    evicted = [one for one in store.load_test(run, "fair/test_reclaim").decisions("lab") if isinstance(one, PodEvicted)]
    served = {(one.podgroup, one.beneficiary, one.cycle) for one in evicted}
    opened(tab, written, lab_address(run, "fair/test_reclaim"))
    tab.keyboard.press("e")
    tab.check("#touched")
    tab.wait_for_selector("#gangs .arrows path.strong", state="attached")
    assert tab.locator("#gangs .arrows > path").count() == len(served)
    # What reads the page aloud is told the same.
    told = " ".join(tab.locator("#gangs .gantt .hidden").all_text_contents())
    for group, beneficiary, cycle in served:
        pods = sum((one.podgroup, one.beneficiary, one.cycle) == (group, beneficiary, cycle) for one in evicted)
        assert re.search(rf"{pods} pods? evicted in cycle {cycle}, [^,]+, for ", told)


def test_gangs_stand_before_single_pods(tab: Tab, tmp_path: Path) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.apply(MANIFESTS / "owner-gang.yaml")
        lab.settle()
    run = RunFolder.begin(tmp_path / "evidence")
    run.write("fair", "test_gang", lambda at: write_test(at, "fair/test_gang", [recorder], "passed"))
    run.finish({"kailab": "0"}, {})
    pages.write_page([run.path], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    tab.wait_for_selector("#fleet canvas")
    tab.focus("#main")
    tab.keyboard.press("End")
    tab.wait_for_function("() => document.querySelector('#gangs .body .row')?.textContent.includes('placed')")
    first = tab.locator("#gangs .body .row").first
    assert "owner" in first.inner_text()
    first.get_by_role("button", name="8 placed").click()
    tab.wait_for_selector("dialog pre")
    assert "8 placed, 0 promised a place" in tab.inner_text("dialog")


def test_two_moments_stand_beside_each_other(tab: Tab, run: Path, written: Path) -> None:
    opened(tab, written, lab_address(run, "fair/test_reclaim", 1))
    tab.select_option("#other", "0")
    assert tab.inner_text("#then-title").startswith("Then: cycle 1,")
    assert tab.inner_text("#now-title").startswith("Now: cycle 2,")
    assert len(rows(tab, "#compared")) > 0
    assert "0 → 32" in tab.inner_text("#compared table")


def test_an_expectation_that_was_not_held_is_where_a_reader_begins(tab: Tab, tmp_path: Path) -> None:
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        lab.noted_expectation("queue team-a", "queue team-a: 40 GPUs running", "32 Running (32 GPUs)", False)
        lab.apply(MANIFESTS / "owner.yaml")
        lab.settle()
        lab.noted_expectation("queue team-b", "queue team-b: 16 GPUs running", "16 Running (16 GPUs)", True)
    run = RunFolder.begin(tmp_path / "evidence")
    run.write("fair", "test_a", lambda at: write_test(at, "fair/test_a", [recorder], "failed", "more", "It borrows."))
    run.write("fair", "test_b", lambda at: write_test(at, "fair/test_b", [], "passed"))
    run.finish({"kailab": "0"}, {})
    pages.write_page([run.path], tmp_path / "page.html")
    opened(tab, tmp_path / "page.html")
    told = rows(tab, "#main")[0][2]
    assert told.split("\n") == ["It borrows.", "expected queue team-a: 40 GPUs running; seen: 32 Running (32 GPUs)"]
    tab.locator(".rows .row a").first.click()
    tab.wait_for_selector("#fleet canvas")
    assert tab.inner_text(".moment").endswith("1 not held")
    assert "32" in [cells[4] for cells in rows(tab, "#queues")]
    # The other one leads to how the lab stood then, by keys.
    tab.focus("#main table tbody tr:nth-child(2) a")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelector('.moment')?.textContent.endsWith('; 1 held')")
    assert "after step" in tab.inner_text(".moment")
    assert [row[5] for row in rows(tab, "#moments") if row[5] != "nothing"] == ["1 not held", "1 held"]
    assert serious(tab) == []


def test_a_phone_shows_each_test_with_its_sentence(tab: Tab, written: Path) -> None:
    tab.set_viewport_size({"width": 390, "height": 844})
    opened(tab, written)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    for told in ("fair/test_reclaim", "The owner <b>gets</b>", "1 passed"):
        box = tab.get_by_text(told).first.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert serious(tab) == []
