"""The live page in a browser: what it shows is the lab's, every main action has a key, and nothing of it complains."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.lab import Lab
from tests.browser import WITH_A_BROWSER, Tab, expects, serious
from tests.serve.conftest import PATIENCE_SECONDS, TEXTS, Served, begun
from tools.browser import LONG

pytestmark = WITH_A_BROWSER


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(begun(tmp_path / "lab.state"))
    yield found
    if found.process.poll() is None:
        code, said = found.end()
        assert (code, "went wrong" in said) == (0, False)


@pytest.fixture
def tab(browser: Any, served: Served) -> Iterator[Tab]:
    """The page of the lab. It asks nothing from elsewhere, and says nothing to the console unless a request was refused."""
    one = browser.new_page(viewport={"width": 1280, "height": 900})
    one.set_default_timeout(LONG)
    said: list[str] = []
    asked: list[str] = []
    one.on("console", lambda message: said.append(message.text))
    one.on("pageerror", lambda error: said.append(str(error)))
    one.on("request", lambda request: asked.append(request.url))
    opened(one, served)
    yield one
    one.close()
    # A refused request is a line of the browser's own; it is what tests of bad input ask for.
    assert [text for text in said if "status of 400" not in text] == []
    assert [url for url in asked if not url.startswith((f"http://{served.host}/", "data:", "blob:"))] == []


def opened(tab: Tab, served: Served) -> Tab:
    tab.goto(served.url)
    tab.wait_for_selector("#app[data-ready]")
    return tab


def preview(tab: Tab, example: str) -> None:
    tab.click("#change-submit")
    tab.wait_for_selector(f"#example option[value='{example}']", state="attached")
    tab.select_option("#example", example)
    tab.click("#preview")
    tab.wait_for_selector("#foretold")


def applied(tab: Tab) -> str:
    """Apply what is previewed; what is said then, and the page shows it."""
    version = tab.get_attribute("#app", "data-ready")
    tab.click("#apply")
    shown_after(tab, version)
    # It is shown before it is saved, and answered then.
    tab.wait_for_selector("dialog.change", state="hidden")
    return tab.inner_text("#said")


def shown_after(tab: Tab, version: str) -> None:
    tab.wait_for_function("version => document.getElementById('app').dataset.ready !== version", arg=version)


def submit(tab: Tab, *examples: str) -> None:
    for example in examples:
        preview(tab, example)
        applied(tab)


def queues(tab: Tab) -> dict[str, list[str]]:
    """Queue -> quota, limit, fair share, allocated, borrowed, requested, as shown."""
    rows = tab.locator("#queues .rows .body .row")
    cells = [rows.nth(at).locator("> span").all_inner_texts() for at in range(rows.count())]
    return {row[0].split("\n")[-1].strip(): [cell.strip() for cell in row[1:7]] for row in cells}


def of_the_lab(served: Served) -> dict[str, list[str]]:
    with Lab.resume(served.state, read_only=True) as lab:
        found = lab.picture().shares.queues
    return {
        name: [
            gpus(value) for value in (one.quota, one.limit, one.fair_share, one.allocated, one.borrowed, one.requested)
        ]
        for name, one in found.items()
    }


def gpus(milli: float | None) -> str:
    assert milli is not None
    return "unlimited" if milli == -1 else f"{milli / 1000:g}"


def test_waiting_work_is_explained_from_its_row(tab: Tab, served: Served) -> None:
    """From the headline and from the table, as the command explains it; the lab does not change."""
    submit(tab, "10-two-teams", "20-borrower", "30-owner")
    before = served.state.read_bytes()
    with Lab.resume(served.state, read_only=True) as lab:
        group = next(row.podgroup for row in lab.picture().rows if not row.node)
        cause = lab.explain("PodGroup", group).cause_lines()
    for row in (".headline li button", "#waiting button:text-is('explain')"):
        tab.locator(row).first.click()
        tab.wait_for_selector("dialog.detail .answer p:not(.quiet)")
        told = tab.locator("dialog.detail .answer p").all_inner_texts()
        assert told[: len(cause)] == cause
        assert not serious(tab)
        tab.keyboard.press("Escape")
    assert served.state.read_bytes() == before
    unknown = served.post("/explain", {"podgroup": "default/nothing"})
    assert (unknown.code, "nothing" in str(unknown.json())) == (409, True)
    assert served.post("/explain", {"group": "default/nothing"}).code == 400


def test_an_example_is_previewed_applied_and_seen(tab: Tab, served: Served) -> None:
    assert tab.url == f"http://{served.host}/"  # the token does not stay in the address
    submit(tab, "10-two-teams", "20-borrower")
    assert "24 pods placed" in tab.inner_text("#fleet")
    before = served.state.read_bytes()
    preview(tab, "30-owner")
    assert "8 evicted" in tab.inner_text("#foretold-summary")
    rows = tab.locator("#foretold tbody tr").all_inner_texts()
    assert any("Deployment/borrower" in row and "24 run" in row and "16 run, 8 wait" in row for row in rows)
    assert any("8 pods for Deployment/owner (reclaim)" in row for row in rows)
    assert served.state.read_bytes() == before
    assert "8 evicted" in applied(tab)
    assert "32 pods placed" in tab.inner_text("#fleet")
    assert queues(tab) == of_the_lab(served)
    assert tab.inner_text(".moment").startswith("now,")
    # The raw object behind a number of this moment.
    tab.click('button[aria-label="team-b: allocated 16"]')
    expects(tab.locator("dialog details[open] pre")).to_contain_text("team-b", timeout=LONG)


def test_a_quota_is_changed_by_keys_alone_and_taken_back(tab: Tab, served: Served) -> None:
    submit(tab, "10-two-teams", "20-borrower", "30-owner")
    before = queues(tab)
    tab.focus("#change-queues")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#queue:focus")
    tab.keyboard.type("team-b")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "queue-quota"
    assert tab.input_value("#queue-quota") == "12"
    tab.keyboard.press("Control+A")
    tab.keyboard.type("20")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#foretold")
    # From the title, which has the focus, on to what can be done.
    assert tab.evaluate("document.activeElement.id") == "change-title"
    for _ in range(3):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.id") == "apply":
            break
    version = tab.get_attribute("#app", "data-ready")
    tab.keyboard.press("Enter")
    shown_after(tab, version)
    assert queues(tab)["team-b"][0] == "20"
    assert queues(tab) == of_the_lab(served)
    assert tab.evaluate("document.activeElement.id") == "change-queues"
    tab.focus("#undo")
    assert "team-b" in tab.inner_text("#undo")
    version = tab.get_attribute("#app", "data-ready")
    tab.keyboard.press("Enter")
    shown_after(tab, version)
    assert queues(tab) == before == of_the_lab(served)
    assert "Undone" in tab.inner_text("#said")


def test_scale_delete_cordon_and_time(tab: Tab, served: Served) -> None:
    submit(tab, "10-two-teams", "20-borrower")
    tab.click("#change-workloads")
    tab.fill("input[aria-label='Replicas of Deployment/borrower']", "4")
    tab.click("button[aria-label='Scale Deployment/borrower']")
    applied(tab)
    assert "4 pods placed" in tab.inner_text("#fleet")
    tab.click("#change-nodes")
    tab.click("button[aria-label='Cordon h100-0']")
    tab.wait_for_selector("#foretold")
    applied(tab)
    tab.click("#change-nodes")
    tab.wait_for_selector("button[aria-label='Uncordon h100-0']")
    tab.keyboard.press("Escape")
    tab.click("#fleet .as-table summary")
    assert "unschedulable" in tab.inner_text("#fleet .rows")
    facts = tab.inner_text("#facts")
    version = tab.get_attribute("#app", "data-ready")
    tab.select_option("#time", "600")
    tab.click("#advance")
    shown_after(tab, version)
    assert tab.inner_text("#facts") != facts
    tab.click("#change-workloads")
    tab.click("button[aria-label='Delete Deployment/borrower']")
    tab.wait_for_selector("#foretold")
    applied(tab)
    assert "0 pods placed" in tab.inner_text("#fleet")


def test_work_and_nodes_are_changed_from_their_rows(tab: Tab, served: Served) -> None:
    """Each row opens the form with itself alone, by click and by keys; preview, faults and Apply are those of the form."""
    submit(tab, "10-two-teams", "20-borrower", "30-owner")
    # Waiting work, by keys.
    change = "#waiting button[aria-label='Change Deployment/borrower']"
    tab.focus(change)
    tab.keyboard.press("Enter")
    tab.wait_for_selector("input[aria-label='Replicas of Deployment/borrower']:focus")
    assert tab.locator("dialog.change .body .row").count() == 1
    assert tab.input_value("#find-workload") == "Deployment/borrower default"
    assert serious(tab) == []
    tab.keyboard.press("Escape")
    assert tab.locator(change).first.evaluate("one => one === document.activeElement")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("input[aria-label='Replicas of Deployment/borrower']:focus")
    tab.keyboard.press("Control+A")
    tab.keyboard.type("4")
    before = served.state.read_bytes()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#foretold")
    assert served.state.read_bytes() == before
    applied(tab)
    assert "20 pods placed" in tab.inner_text("#fleet")
    # Nothing waits any more: the focus goes to the row that the work still has.
    tab.wait_for_function("document.activeElement.closest('#gangs') !== null")
    # A list that is opened from the bar has all of its rows.
    tab.click("#change-workloads")
    tab.wait_for_selector("button[aria-label='Scale Deployment/owner']")
    assert tab.input_value("#find-workload") == ""
    tab.keyboard.press("Escape")
    # Running work, from the details of a row.
    tab.fill("#find-gang", "owner")
    tab.locator("#gangs .body .row button").first.click()
    tab.click("dialog.detail button[aria-label='Change Deployment/owner']")
    assert tab.locator("dialog[open]").count() == 1
    tab.click("button[aria-label='Delete Deployment/owner']")
    tab.wait_for_selector("#foretold")
    applied(tab)
    assert "4 pods placed" in tab.inner_text("#fleet")
    # What is gone has no button, even at a moment at which it ran.
    tab.fill("#find-gang", "")
    expects(tab.locator("#gangs button[aria-label='Change Deployment/owner']")).to_have_count(0, timeout=LONG)
    assert "owner" in tab.inner_text("#gangs .rows")
    tab.click("#fleet .as-table summary")
    for turn in ("Cordon", "Uncordon"):
        tab.click("#fleet button[aria-label='Change h100-0']")
        tab.wait_for_selector(f"button[aria-label='{turn} h100-0']")
        assert tab.locator("dialog.change .body .row").count() == 1
        tab.click(f"button[aria-label='{turn} h100-0']")
        tab.wait_for_selector("#foretold")
        applied(tab)
        assert ("unschedulable" in tab.inner_text("#fleet .rows")) is (turn == "Cordon")


def test_nodes_are_added_by_keys_alone_and_taken_back(tab: Tab, served: Served) -> None:
    tab.focus("#change-add-nodes")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#pool:focus")
    assert tab.locator("#pool option").all_inner_texts() == ["a100 (2 nodes)", "h100 (1 node)", "l40s (2 nodes)"]
    assert serious(tab, "dialog.change") == []
    tab.keyboard.type("h100")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "pool-count"
    # More than there may be: told as commands tell it, and what was typed stays.
    tab.keyboard.press("Control+A")
    tab.keyboard.type("20000")
    tab.keyboard.press("Enter")
    expects(tab.locator("#change-errors")).to_contain_text("'h100:20000': expected POOL:COUNT", timeout=LONG)
    assert tab.evaluate("document.activeElement.id") == "pool-count"
    tab.keyboard.press("Control+A")
    tab.keyboard.type("2")
    before = served.state.read_bytes()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#foretold")
    assert tab.inner_text("#change-title") == "Add nodes h100:2"
    assert tab.inner_text("#foretold .notes") == "h100-1, h100-2 are added"
    assert served.state.read_bytes() == before
    applied(tab)
    assert "7 nodes, 48 GPUs" in tab.inner_text("#facts")
    assert "7 nodes with 48 GPUs" in tab.inner_text("#fleet")
    tab.click("#change-add-nodes")
    expects(tab.locator("#pool option:checked")).to_have_text("h100 (3 nodes)", timeout=LONG)
    tab.keyboard.press("Escape")
    version = tab.get_attribute("#app", "data-ready")
    tab.click("#undo")
    shown_after(tab, version)
    assert "5 nodes, 32 GPUs" in tab.inner_text("#facts")


def test_paused_changes_wait_for_a_step(tab: Tab, served: Served) -> None:
    submit(tab, "10-two-teams")
    version = tab.get_attribute("#app", "data-ready")
    tab.click("#pause")
    shown_after(tab, version)
    assert tab.inner_text("#mode") == "scheduler paused"
    submit(tab, "20-borrower")
    assert "0 pods placed" in tab.inner_text("#fleet")
    version = tab.get_attribute("#app", "data-ready")
    tab.click("#step")
    shown_after(tab, version)
    assert "24 pods placed" in tab.inner_text("#fleet")
    version = tab.get_attribute("#app", "data-ready")
    tab.click("#pause")
    shown_after(tab, version)
    assert queues(tab) == of_the_lab(served)


def test_faults_of_a_text_are_told_as_commands_tell_them(tab: Tab, served: Served) -> None:
    evil = "<img src=x onerror=console.log(1)>"
    tab.click("#change-submit")
    tab.fill("#manifest", TEXTS["20-borrower"].replace("replicas: 24", f"replicas: '{evil}'"))
    tab.click("#preview")
    tab.wait_for_selector("#change-errors:not([hidden])")
    told = tab.inner_text("#change-errors")
    line = next(number for number, text in enumerate(TEXTS["20-borrower"].splitlines(), 1) if "replicas" in text)
    assert f"editor:{line}:" in told
    assert evil in told
    assert tab.locator("#app img").count() == 0
    tab.locator("#change-errors button").click()
    chosen = "one => one.value.slice(one.selectionStart, one.selectionEnd)"
    assert tab.locator("#manifest").evaluate(chosen) == f"  replicas: '{evil}'"
    # What was typed is still there.
    assert evil in tab.input_value("#manifest")


def test_what_somebody_else_does_comes_by_itself_and_travelling_stays_where_it_is(tab: Tab, served: Served) -> None:
    submit(tab, "10-two-teams", "20-borrower")
    tab.focus("#main")
    tab.keyboard.press("Home")
    tab.wait_for_function("() => document.getElementById('moment')?.value === '0'")
    version = tab.get_attribute("#app", "data-ready")
    command = [sys.executable, "-m", "kailab", "scale", "deployment", "borrower", "--replicas", "2"]
    subprocess.run([*command, "--state", str(served.state)], check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    shown_after(tab, version)
    assert tab.input_value("#moment") == "0"
    tab.keyboard.press("End")
    tab.wait_for_function("() => document.querySelector('#fleet .quiet')?.textContent.includes('2 pods placed')")
    assert tab.get_attribute("#undo", "aria-disabled") == "true"
    served.end()
    tab.wait_for_function("() => document.getElementById('connection')?.textContent.includes('ended')")


@pytest.mark.parametrize("shared", [True, False], ids=["one stream for all", "no shared workers"])
def test_eight_tabs_answer_and_follow_the_lab(browser: Any, served: Served, shared: bool) -> None:
    """A browser opens six connections to a host, however many tabs there are."""
    context = browser.new_context()
    context.set_default_timeout(LONG)
    if not shared:
        context.add_init_script("delete window.SharedWorker")
    tabs = [opened(context.new_page(), served) for _ in range(8)]
    assert tabs[0].evaluate("'SharedWorker' in window") is shared
    for tab in (tabs[7], tabs[0]):
        submit(tab, "10-two-teams" if tab is tabs[7] else "20-borrower")
    for tab in tabs:
        expects(tab.locator("#fleet")).to_contain_text("24 pods placed", timeout=LONG)
        expects(tab.locator("#connection")).to_have_text("live", timeout=LONG)
    # The address without the token is enough where a tab was let in before.
    tabs[3].reload()
    tabs[3].wait_for_selector("#app[data-ready]")
    version = tabs[3].get_attribute("#app", "data-ready")
    tabs[3].click("#undo")
    shown_after(tabs[3], version)
    expects(tabs[5].locator("#fleet")).to_contain_text("0 pods placed", timeout=LONG)
    stranger = browser.new_context()
    stranger.add_cookies(context.cookies())
    there = stranger.new_page()
    there.goto(
        f"http://{served.host}/"
    )  # with the cookie, as another server of this machine can get it, and without the token
    expects(there.locator("#trouble")).to_contain_text("open the URL that `kailab serve` printed", timeout=LONG)
    stranger.close()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(tab: Tab, served: Served, scheme: str) -> None:
    tab.emulate_media(color_scheme=scheme)
    submit(tab, "10-two-teams", "20-borrower", "30-owner")
    assert serious(tab) == []
    for form in ("submit", "workloads", "queues", "nodes"):
        tab.click(f"#change-{form}")
        assert serious(tab, "dialog[open]") == []
        tab.keyboard.press("Escape")
    preview(tab, "80-third-team")
    assert serious(tab, "dialog[open]") == []


def test_a_newcomer_is_led_to_the_first_example(tab: Tab) -> None:
    tab.get_by_role("button", name="Submit an example").click()
    tab.wait_for_function("() => document.getElementById('manifest')?.value.startsWith('# Two teams')")
    tab.click("#preview")
    tab.wait_for_selector("#foretold")
    applied(tab)
    assert tab.locator("#empty").is_hidden()


def test_one_of_many_nodes_is_found_and_cordoned_by_keys_alone(browser: Any, tmp_path: Path) -> None:
    served = Served(begun(tmp_path / "lab.state", fleet="scale-500"))
    tab = opened(browser.new_page(), served)
    tab.focus("#change-nodes")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("dialog.change .row button")
    assert "500 nodes" in tab.inner_text("dialog.change .listed")
    assert tab.locator("dialog.change .body .row").count() < 60
    assert serious(tab, "dialog.change") == []
    name = tab.locator("dialog.change .body .row > span").first.inner_text().rstrip("0") + "377"
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate("document.activeElement.id") == "find-node"
    tab.keyboard.type(name)
    tab.wait_for_function("() => document.querySelectorAll('dialog.change .body .row').length === 1")
    tab.focus(f"button[aria-label='Cordon {name}']")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#foretold")
    applied(tab)
    tab.close()
    served.end()
    with Lab.resume(served.state, read_only=True) as lab:
        cordoned = [one["metadata"]["name"] for one in lab.get("nodes") if one["spec"].get("unschedulable")]
    assert cordoned == [name]
