"""A headless browser for tests of pages and for screenshots: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
LONG = 240_000
"""Timeout of conditions in milliseconds, long enough for a busy machine."""


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=switches, timeout=LONG)
        yield browser
        browser.close()
