"""A headless browser for tests of pages: Debian's Chromium, driven by Playwright. A module of tests that wants one says

    pytestmark = WITH_A_BROWSER

and takes the fixture ``browser`` (tests/conftest.py); it is skipped where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = Path("/usr/bin/chromium")
LONG = 240_000
"""Milliseconds: a condition is waited for, however busy the machine is."""

Tab = Any  # playwright's Page; it may not be installed


def _lacking() -> str:
    for module, name in (("playwright", "playwright"), ("axe_playwright_python", "axe")):
        if find_spec(module) is None:
            return f"{name} is not installed"
    return "" if CHROMIUM.exists() else f"no Chromium at {CHROMIUM} (apt-get install chromium)"


WITH_A_BROWSER = [pytest.mark.slow, pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "there is one")]


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as running:
        found = running.chromium.launch(executable_path=str(CHROMIUM), args=switches, timeout=LONG)
        yield found
        found.close()


def serious(tab: Tab, context: str | None = None) -> list[tuple[str, str]]:
    """(rule, HTML) of each serious fault that axe finds on a page, or in the part that a selector names."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab, context=context, options={"resultTypes": ["violations"]}).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def expects(locator: Any) -> Any:
    """Playwright's assertions, which wait."""
    from playwright.sync_api import expect

    return expect(locator)
