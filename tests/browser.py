"""A headless browser for tests of pages: Debian's Chromium, driven by Playwright. A module of tests that wants one says

    pytestmark = WITH_A_BROWSER

and takes the fixture ``browser`` (tests/conftest.py); it is skipped where there is none."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from tools.browser import CHROMIUM, LONG, launched

__all__ = ["LONG", "WITH_A_BROWSER", "Tab", "expects", "launched", "serious"]

Tab = Any  # playwright's Page; it may not be installed


def _lacking() -> str:
    for module, name in (("playwright", "playwright"), ("axe_playwright_python", "axe")):
        if find_spec(module) is None:
            return f"{name} is not installed"
    return "" if CHROMIUM.exists() else f"no Chromium at {CHROMIUM} (apt-get install chromium)"


WITH_A_BROWSER = [pytest.mark.slow, pytest.mark.skipif(bool(_lacking()), reason=_lacking() or "there is one")]


def serious(tab: Tab, context: str | None = None) -> list[tuple[str, str]]:
    """(rule, HTML) of each serious fault that axe finds on a page, or in the part that a selector names."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab, context=context, options={"resultTypes": ["violations"]}).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def expects(locator: Any) -> Any:
    """Playwright's assertions, which wait."""
    from playwright.sync_api import expect

    return expect(locator)
