"""A headless browser: Debian's Chromium, driven by Playwright. For tests of pages, and for pictures of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
LONG = 240_000
"""Milliseconds: a condition is waited for, however busy the machine is."""


@contextmanager
def launched() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as running:
        found = running.chromium.launch(executable_path=str(CHROMIUM), args=switches, timeout=LONG)
        yield found
        found.close()
