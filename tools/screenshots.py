"""Write the screenshots in docs/images from real runs in Debian's Chromium: ``python -m tools.screenshots``.

A run of an exercise is written as a page, a lab is served, and both are photographed. All decisions are made anew each time, with the same result.
"""

from __future__ import annotations

import argparse
import base64
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.browser import LONG, launched

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images"
IMAGES = ("report-summary", "report-moment", "report-gangs", "serve", "serve-preview")
ENDING = ".webp"
WIDTH, HEIGHT = 1280, 860
_QUALITY = 80
_EXERCISE = "exercises/reclaim"
_TEST = "a_gang_reclaims_as_a_gang"

Tab = Any  # playwright's Page; it may not be installed


def take(browser: Any, target: Path) -> list[Path]:
    """Take all screenshots. Raises OSError, CalledProcessError, and Playwright's errors if a page is not as expected."""
    paths: list[Path] = []

    def save(tab: Tab, name: str, element: str = "") -> None:
        path = target / f"{name}{ENDING}"
        path.write_bytes(_picture(tab, element))
        paths.append(path)

    with tempfile.TemporaryDirectory(prefix="kailab-screenshots-") as folder:
        _report(browser, Path(folder), save)
        _serve(browser, Path(folder), save)
    return paths


def _report(browser: Any, folder: Path, save: Any) -> None:
    evidence, page = folder / "evidence", folder / "run.html"
    _kailab(["pytest", "-q", "-p", "no:cacheprovider", _EXERCISE, "--kailab-evidence", str(evidence)])
    _kailab(["kailab", "report", "--evidence", str(evidence), "--html", str(page)])
    with _tab(browser) as tab:
        tab.goto(f"file://{page}")
        tab.wait_for_selector("#app[data-ready]")
        save(tab, "report-summary")
        tab.locator(".rows .row a", has_text=_TEST).first.click()
        tab.wait_for_selector("#fleet canvas")
        tab.keyboard.press("e")
        tab.wait_for_function("() => document.querySelector('.moment').textContent.includes('evict')")
        tab.locator(".timeline").evaluate("one => one.scrollIntoView()")
        save(tab, "report-moment")
        tab.check("#touched")
        tab.wait_for_selector("#gangs .arrows path", state="attached")
        save(tab, "report-gangs", "#gangs")


def _serve(browser: Any, folder: Path, save: Any) -> None:
    with _served(folder / "lab.state") as url, _tab(browser) as tab:
        tab.goto(url)
        tab.wait_for_selector("#app[data-ready]")
        for example in ("10-two-teams", "20-borrower"):
            _preview(tab, example)
            version = tab.get_attribute("#app", "data-ready")
            tab.click("#apply")
            tab.wait_for_function("was => document.getElementById('app').dataset.ready !== was", arg=version)
        save(tab, "serve")
        _preview(tab, "30-owner")
        save(tab, "serve-preview")


def _preview(tab: Tab, example: str) -> None:
    tab.click("#change-submit")
    tab.wait_for_selector(f"#example option[value='{example}']", state="attached")
    tab.select_option("#example", example)
    tab.click("#preview")
    tab.wait_for_selector("#foretold")


@contextmanager
def _served(state: Path) -> Iterator[str]:
    """Serve a new lab and yield the URL of its page."""
    command = [sys.executable, "-m", "kailab", "serve", "--state", str(state), "--fleet", "lesson"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield next(line.strip() for line in process.stdout if line.startswith("http"))
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def _tab(browser: Any) -> Iterator[Tab]:
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce")
    tab.set_default_timeout(LONG)
    yield tab
    tab.close()


def _picture(tab: Tab, element: str) -> bytes:
    """A screenshot of the viewport, or of a whole element, as WebP, which is a tenth of a PNG."""
    options: dict[str, Any] = {"format": "webp", "quality": _QUALITY}
    if element:
        tab.locator(element).scroll_into_view_if_needed()
        # Coordinates of the whole page, which may be scrolled.
        box = tab.evaluate(
            "one => { const at = document.querySelector(one).getBoundingClientRect();"
            " return {x: at.x + scrollX, y: at.y + scrollY, width: at.width, height: at.height, scale: 1}; }",
            element,
        )
        options |= {"clip": box, "captureBeyondViewport": True}
    session = tab.context.new_cdp_session(tab)
    # Wait two frames, so that the last change is drawn.
    tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    image = base64.b64decode(session.send("Page.captureScreenshot", options)["data"])
    session.detach()
    return image


def _kailab(module: list[str]) -> None:
    subprocess.run([sys.executable, "-m", *module], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    options.add_argument("--target", type=Path, default=TARGET)
    target: Path = options.parse_args().target
    target.mkdir(parents=True, exist_ok=True)
    with launched() as browser:
        for path in take(browser, target):
            print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
