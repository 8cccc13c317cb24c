"""What a large lab costs in a browser: its report and its live page in headless Chromium.

First paint is what the browser calls so (first-contentful-paint), counted from the begin of loading; ``shown`` is when the last view of
the lab is drawn. A change: from the click on Step, or from Apply, until the page shows it. Memory, after a collection: what scripts hold,
and what all processes of a browser that nothing drives hold together (proportional set size). Seconds are of a clock: they hold for a machine at rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.undriven import evaluated, rested, shown, undriven
from tools.browser import LONG, launched

MIB = 2**20
READY = "#app[data-ready] #fleet canvas"

PAINT = """() => {
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return (paint?.startTime ?? NaN) / 1000;
}"""
# From the moment at which something is clicked, or sent, until the page says that it shows the outcome and has drawn it.
CHANGED = """async (does) => {
  const app = document.getElementById('app'), before = app.dataset.ready, begun = performance.now();
  const shown = new Promise((done) => {
    const watch = new MutationObserver(() => {
      if (app.dataset.ready === before) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => done((performance.now() - begun) / 1000)));
    });
    watch.observe(app, { attributes: true });
  });
  if (does.click) document.querySelector(does.click).click();
  else {
    const sent = fetch(does.path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(does.body) });
    sent.then((answer) => { window.answered = answer.status; });
  }
  return shown;
}"""


@contextmanager
def page() -> Iterator[Any]:
    """A tab of a browser of its own."""
    with launched() as browser:
        one = browser.new_page(viewport={"width": 1300, "height": 900})
        one.set_default_timeout(LONG)
        yield one


def opened(tab: Any, url: str) -> None:
    """Open an address and tell what that takes."""
    tab.goto(url, timeout=LONG, wait_until="commit")
    tab.wait_for_selector(READY, timeout=LONG)
    drawn = tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => done(performance.now() / 1000)))")
    told("first paint", f"{tab.evaluate(PAINT):.2f} s")
    told("all views shown", f"{drawn:.2f} s")


def memory(tab: Any) -> None:
    """Tell what scripts hold."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    told("held by scripts", f"{metrics['JSHeapUsedSize'] / MIB:.0f} MiB")


def holding(url: str, steps: int = 0) -> None:
    """Tell what a browser holds that nothing drives, without a page and with this one, after some steps of the scheduler."""
    with undriven() as ask:
        rested(ask)
        told("held by the browser, without it", f"{_held() / MIB:.0f} MiB")
        shown(ask, url, READY)
        for _ in range(steps):
            evaluated(ask, f"({CHANGED})({{ click: '#step' }})")
            while evaluated(ask, "document.querySelector('[aria-label=\"Time and scheduler\"]').ariaBusy === 'true'"):
                continue
        rested(ask)
        told("held by the browser", f"{_held() / MIB:.0f} MiB")


def _held() -> int:
    """Bytes of the processes under this one that are the browser's."""
    parents = {int(one.name): one for one in Path("/proc").iterdir() if one.name.isdecimal()}
    ours, found = {os.getpid()}, 0
    for pid in sorted(parents):
        try:
            fields = (parents[pid] / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) not in ours:
                continue
            ours.add(pid)
            if b"chromium" in (parents[pid] / "cmdline").read_bytes():
                lines = (parents[pid] / "smaps_rollup").read_text().splitlines()
                found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return found


def report(state: Path, file: Path) -> None:
    """A report of the lab of a file, written to another."""
    command = [sys.executable, "-m", "kailab", "report", "--state", str(state), "--html", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"\nthe report in a browser, {file.stat().st_size / MIB:.1f} MiB", flush=True)
    with page() as tab:
        opened(tab, f"file://{file}")
        memory(tab)
    holding(f"file://{file}")


def live(state: Path, changes: dict[str, dict[str, Any]]) -> None:
    """The live page. ``changes``: bodies of what is previewed and applied, by name."""
    print("\nthe live page in a browser", flush=True)
    with served(state) as url:
        _changed(url, changes)
        holding(url, steps=2)


def _changed(url: str, changes: dict[str, dict[str, Any]]) -> None:
    with page() as tab:
        opened(tab, url)
        for name, wish in changes.items():
            found = tab.evaluate(
                "async (wish) => (await (await fetch('/preview', { method: 'POST', headers: { 'Content-Type': 'application/json' }, "
                "body: JSON.stringify(wish) })).json()).id",
                wish,
            )
            told(name, f"shown after {tab.evaluate(CHANGED, {'path': '/apply', 'body': {'id': found}}):.2f} s")
            tab.wait_for_function("() => window.answered === 200")
            tab.evaluate("() => { window.answered = 0; }")
        for _ in range(2):
            told("stepped", f"shown after {tab.evaluate(CHANGED, {'click': '#step'}):.2f} s")
            tab.wait_for_selector("[aria-label='Time and scheduler']:not([aria-busy])")
        memory(tab)


@contextmanager
def served(state: Path) -> Iterator[str]:
    """``kailab serve`` in a process of its own; its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kailab", "serve", "--state", str(state)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def told(name: str, figure: str) -> None:
    """A line of the table."""
    print(f"{name:<28} {figure}", flush=True)
