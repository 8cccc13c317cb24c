"""The course's site in a browser, built by mkdocs: complete, in order, usable by keyboard, in light and dark, without
requests to other hosts."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from kailab.course.lesson import lessons
from tests.browser import WITH_A_BROWSER, Tab, serious
from tools.browser import LONG
from tools.course_site import ROOT

pytestmark = [
    *WITH_A_BROWSER,
    pytest.mark.skipif(find_spec("material") is None, reason="mkdocs-material is not installed: it builds the site"),
]

MOST_TABS = 150
KINDS = ("index", "lessons/quota", "after/quota", "challenges", "cases", "fakes", "instructor", "timing")
"""A page of each kind."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site") / "course"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(target)]
    subprocess.run(command, cwd=ROOT, check=True)
    return target


@pytest.fixture(scope="module")
def url(built: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_tab(browser: Any, url: str) -> Iterator[Callable[..., Tab]]:
    """Opens tabs that ask nobody else for anything, and say nothing to the console."""
    tabs: list[Tab] = []
    said: list[str] = []
    asked: list[str] = []
    failed: list[str] = []

    def opened(scheme: str = "light") -> Tab:
        one = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        tabs.append(one)
        one.set_default_timeout(LONG)
        one.on("console", lambda message: said.append(message.text))
        one.on("pageerror", lambda error: said.append(str(error)))
        one.on("request", lambda request: asked.append(request.url))
        one.on("response", lambda answer: failed.append(answer.url) if answer.status >= 400 else None)
        return one

    yield opened
    for one in tabs:
        one.close()
    assert said == []
    assert failed == []
    assert [one for one in asked if not one.startswith((url, "data:", "blob:"))] == []


def menu() -> list[str]:
    """Pages in the order of the menu, without their ending."""

    def flat(entry: Any) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry.removesuffix(".md")
        else:
            for one in entry.values() if isinstance(entry, dict) else entry:
                yield from flat(one)

    return list(flat(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))


def test_next_leads_through_all_pages_in_order_and_every_link_somewhere(
    open_tab: Callable[..., Tab], url: str, built: Path
) -> None:
    tab = open_tab()
    tab.goto(f"{url}/index.html", timeout=LONG)
    seen, links = [], set()
    while True:
        seen.append(urlsplit(tab.url).path.removeprefix("/").removesuffix(".html"))
        assert tab.locator("h1").count() == 1
        links |= set(tab.locator("a[href]").evaluate_all("(all) => all.map((one) => one.href)"))
        following = tab.locator("a.md-footer__link--next")
        if following.count() == 0 or len(seen) > len(menu()):
            break
        following.click()
        tab.wait_for_load_state()
    assert seen == menu()
    for link in sorted(links):
        if link.startswith(url):
            assert (built / unquote(urlsplit(link).path).lstrip("/")).exists(), link
        else:
            assert link.startswith("https://"), link


def test_no_answer_is_on_the_page_of_its_question(open_tab: Callable[..., Tab], url: str) -> None:
    tab = open_tab()
    for one in lessons():
        told = {}
        for page in ("lessons", "after"):
            tab.goto(f"{url}/{page}/{one.name}.html", timeout=LONG)
            told[page] = " ".join(tab.locator("body").text_content().split())
        for question, right in zip(one.quiz, one.answers, strict=True):
            assert _plain(question.ask) in told["lessons"]
            assert _plain(right.why) in told["after"]
            assert _plain(right.why) not in told["lessons"]


def _plain(markdown: str) -> str:
    return " ".join(markdown.replace("`", "").replace("**", "").split())


def test_a_lesson_is_gone_through_by_keys_alone(open_tab: Callable[..., Tab], url: str) -> None:
    first, second = lessons()[:2]
    tab = open_tab()
    tab.goto(f"{url}/index.html", timeout=LONG)
    _focus(tab, "A", "Eleven lessons")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{url}/lessons/{first.name}.html")

    # From the menu, past which the first key leads.
    tab.keyboard.press("Tab")
    assert tab.evaluate("() => document.activeElement.textContent.trim()") == "Skip to content"
    tab.keyboard.press("Enter")
    for name in first.files:
        _focus(tab, "SUMMARY", name)
        assert tab.evaluate("() => document.activeElement.parentElement.open") is False
        tab.keyboard.press("Enter")
        assert tab.evaluate("() => document.activeElement.parentElement.open") is True
        assert "kind:" in tab.evaluate("() => document.activeElement.parentElement.innerText")
    _focus(tab, "A", second.title.split(":")[0], "md-footer__link--next")
    tab.keyboard.press("Enter")
    tab.wait_for_url(f"{url}/lessons/{second.name}.html")


def _focus(tab: Tab, tag: str, text: str, kind: str = "") -> None:
    """Goes on with Tab until what is named is focused, in view."""
    seen = []
    for _ in range(MOST_TABS):
        tab.keyboard.press("Tab")
        found = tab.evaluate(
            """() => { const one = document.activeElement, box = one.getBoundingClientRect();
            return [one.tagName, one.innerText ?? "", one.className, box.bottom > 0 && box.top < innerHeight]; }"""
        )
        seen.append(found[:2])
        if found[0] == tag and text in found[1] and kind in found[2]:
            assert found[3], f"{text!r} is focused out of view"
            return
    pytest.fail(f"Tab does not lead to {tag} {text!r}, but to {seen}")


def test_light_and_dark_are_taken_from_the_system_and_changed_by_key(open_tab: Callable[..., Tab], url: str) -> None:
    for scheme, name, other in (("light", "default", "slate"), ("dark", "slate", "default")):
        tab = open_tab(scheme)
        tab.goto(f"{url}/lessons/quota.html", timeout=LONG)
        tab.wait_for_selector(f"body[data-md-color-scheme={name}]")
        tab.locator("label[for^=__palette]:visible").focus()
        tab.keyboard.press("Enter")
        tab.wait_for_selector(f"body[data-md-color-scheme={other}]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(open_tab: Callable[..., Tab], url: str, scheme: str) -> None:
    tab = open_tab(scheme)
    found = {}
    for page in KINDS:
        tab.goto(f"{url}/{page}.html", timeout=LONG)
        tab.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
        if faults := serious(tab):
            found[page] = faults
    assert found == {}


def test_the_site_is_searched(open_tab: Callable[..., Tab], url: str) -> None:
    tab = open_tab()
    tab.goto(f"{url}/index.html", timeout=LONG)
    tab.keyboard.press("/")
    tab.locator("input.md-search__input").press_sequentially("gang")
    tab.locator("a.md-search-result__link[href*='lessons/gang.html']").first.wait_for()
