"""Measure a large lab in a browser: its report and its live page in headless Chromium.

First paint is the browser's first-contentful-paint since the start of loading; ``shown`` is when the last view of the lab is drawn. A change is
measured from the click on Step, or from Apply, until the page shows it. Memory is measured after a garbage collection: that of scripts, and that of
all processes of a browser that no driver controls (proportional set size). Times are wall-clock times, which are meaningful only on an idle machine.
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
# Seconds from a click or a request until the page has drawn the outcome.
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
    """Open a tab in a new browser."""
    with launched() as browser:
        tab = browser.new_page(viewport={"width": 1300, "height": 900})
        tab.set_default_timeout(LONG)
        yield tab


def opened(tab: Any, url: str) -> None:
    """Open an address and print how long that takes."""
    tab.goto(url, timeout=LONG, wait_until="commit")
    tab.wait_for_selector(READY, timeout=LONG)
    drawn = tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => done(performance.now() / 1000)))")
    print_row("first paint", f"{tab.evaluate(PAINT):.2f} s")
    print_row("all views shown", f"{drawn:.2f} s")


def memory(tab: Any) -> None:
    """Print the memory of scripts."""
    session = tab.context.new_cdp_session(tab)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    print_row("held by scripts", f"{metrics['JSHeapUsedSize'] / MIB:.0f} MiB")


def holding(url: str, steps: int = 0) -> None:
    """Print the memory of a browser without a driver, before and after loading a page, after some steps of the scheduler."""
    with undriven() as ask:
        rested(ask)
        print_row("held by the browser, without it", f"{_browser_memory() / MIB:.0f} MiB")
        shown(ask, url, READY)
        for _ in range(steps):
            evaluated(ask, f"({CHANGED})({{ click: '#step' }})")
            while evaluated(ask, "document.querySelector('[aria-label=\"Time and scheduler\"]').ariaBusy === 'true'"):
                continue
        rested(ask)
        print_row("held by the browser", f"{_browser_memory() / MIB:.0f} MiB")


def _browser_memory() -> int:
    """Bytes of the browser's processes below this one."""
    parents = {int(path.name): path for path in Path("/proc").iterdir() if path.name.isdecimal()}
    processes, total = {os.getpid()}, 0
    for pid in sorted(parents):
        try:
            fields = (parents[pid] / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) not in processes:
                continue
            processes.add(pid)
            if b"chromium" in (parents[pid] / "cmdline").read_bytes():
                lines = (parents[pid] / "smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return total


def report(state: Path, file: Path) -> None:
    """Write a report of the lab in ``state`` to ``file`` and measure it in a browser."""
    command = [sys.executable, "-m", "kailab", "report", "--state", str(state), "--html", str(file)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"\nthe report in a browser, {file.stat().st_size / MIB:.1f} MiB", flush=True)
    with page() as tab:
        opened(tab, f"file://{file}")
        memory(tab)
    holding(f"file://{file}")


def live(state: Path, changes: dict[str, dict[str, Any]]) -> None:
    """Measure the live page. ``changes``: request bodies to preview and apply, by name."""
    print("\nthe live page in a browser", flush=True)
    with served(state) as url:
        _changed(url, changes)
        holding(url, steps=2)


def _changed(url: str, changes: dict[str, dict[str, Any]]) -> None:
    with page() as tab:
        opened(tab, url)
        for name, action in changes.items():
            preview = tab.evaluate(
                "async (wish) => (await (await fetch('/preview', { method: 'POST', headers: { 'Content-Type': 'application/json' }, "
                "body: JSON.stringify(wish) })).json()).id",
                action,
            )
            print_row(name, f"shown after {tab.evaluate(CHANGED, {'path': '/apply', 'body': {'id': preview}}):.2f} s")
            tab.wait_for_function("() => window.answered === 200")
            tab.evaluate("() => { window.answered = 0; }")
        for _ in range(2):
            print_row("stepped", f"shown after {tab.evaluate(CHANGED, {'click': '#step'}):.2f} s")
            tab.wait_for_selector("[aria-label='Time and scheduler']:not([aria-busy])")
        memory(tab)


@contextmanager
def served(state: Path) -> Iterator[str]:
    """Run ``kailab serve`` in a process and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kailab", "serve", "--state", str(state)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def print_row(name: str, figure: str) -> None:
    print(f"{name:<28} {figure}", flush=True)
