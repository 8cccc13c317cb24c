"""A lesson's slides in a browser: usable by keyboard, buttons and screen reader, without any request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kailab.course.lesson import lessons
from kailab.course.slides import deck, html
from kailab.course.teaching import walk
from tests.browser import WITH_A_BROWSER, serious
from tools.browser import LONG
from tools.course_site import TARGET

pytestmark = WITH_A_BROWSER


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_slides_are_gone_through_by_keys(browser: Any, tmp_path: Path, scheme: str) -> None:
    lesson = lessons()[0]
    walked = walk(lesson, drawn=True)
    made = deck(lesson, walked)
    (tmp_path / "slides.html").write_text(html(made))
    tab = browser.new_page(color_scheme=scheme)
    tab.set_default_timeout(LONG)
    said: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"file://{tmp_path / 'slides.html'}", timeout=LONG)

    seen = []
    for number, slide in enumerate(made.slides, 1):
        shown = tab.locator("section:visible")
        assert shown.count() == 1
        assert shown.locator("h1, h2").inner_text() == slide.title
        assert tab.locator("#where").inner_text() == f"{number} / {len(made.slides)}"
        seen += [float(text) for text in shown.locator("td:last-child").all_inner_texts()]
        assert serious(tab) == []
        tab.keyboard.press("ArrowRight")
    assert seen == list(walked.seen)

    tab.keyboard.press("Home")
    assert tab.locator("section:visible h1").inner_text() == made.slides[0].title
    tab.locator("#next").click()
    assert tab.locator("section:visible h2").inner_text() == made.slides[1].title
    tab.emulate_media(media="print")
    assert tab.locator("section:visible").count() == len(made.slides)
    assert said == []
    assert [url for url in asked if not url.startswith("file:")] == []


@pytest.mark.parametrize("size", [(1280, 720), (1440, 900)], ids=str)
def test_no_slide_is_higher_or_wider_than_the_window(browser: Any, size: tuple[int, int]) -> None:
    tab = browser.new_page(viewport={"width": size[0], "height": size[1]})
    tab.set_default_timeout(LONG)
    # For each slide: its number, whether it overflows, and how far its letters were shrunk.
    measure = """() => slides.map((slide, i) => { show(i); const page = document.documentElement;
        return [i + 1, page.scrollHeight > page.clientHeight || page.scrollWidth > page.clientWidth, slide.style.fontSize]; })"""
    decks = sorted((TARGET / "slides").glob("*.html"))
    assert decks
    for file in decks:
        tab.goto(f"file://{file}", timeout=LONG)
        measured = tab.evaluate(measure)
        assert [number for number, overflows, _ in measured if overflows] == [], file.name
        # Letters below 65 % can't be read from the last row; such a slide has to be split.
        assert [entry for entry in measured if entry[2] and int(entry[2].rstrip("%")) < 65] == [], file.name
    tab.close()
