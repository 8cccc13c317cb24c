"""Our times beside KAI's, as text and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.engine.measure import Timing
from benchmarks.engine.published import Figures
from benchmarks.lab_runs.measured import KIB, peak_memory

_HEAD = ("set-up", "KAI's benchmark", "KAI ms", "ours ms", "KAI/ours", "cycle ms", "outcome")


def machine() -> dict[str, Any]:
    """The machine on which the times were measured."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), model)
    except OSError:
        pass  # not Linux: the platform's own word stands
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version(), "load": load}


def as_dict(timings: Sequence[Timing], figures: Figures) -> dict[str, Any]:
    rows = []
    for timing in timings:
        theirs = figures.by_setup.get(timing.name)
        rows.append(
            {
                "name": timing.name,
                "kai_benchmark": theirs.benchmark if theirs else None,
                "kai_ms": theirs.milliseconds if theirs else None,
                "actions_ms": round(timing.actions * 1000, 3),
                "cycle_ms": round(timing.cycle * 1000, 3),
                "runs": timing.runs,
                "outcome": asdict(timing.outcome) if timing.outcome else None,
            }
        )
    return {
        "kai_source": figures.source,
        "kai_cap_ms": figures.cap,
        "machine": machine(),
        "peak_memory_bytes": peak_memory(),
        "benchmarks": rows,
    }


def text(timings: Sequence[Timing], figures: Figures) -> str:
    """A table, followed by the source of KAI's times and the machine of ours."""
    rows = [_HEAD, *(_row(timing, figures) for timing in timings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    left = (0, 1, len(_HEAD) - 1)
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    here = machine()
    load = "" if here["load"] is None else f", load average {here['load']:.1f}"
    ours = f"ours: Python {here['python']}, {here['cores']} cores, {here['processor']}{load}"
    memory = f"memory at its highest: {peak_memory() / KIB**2:,.0f} MiB"
    return "\n".join([*lines, "", f"KAI: {figures.source}", ours, memory])


def _row(timing: Timing, figures: Figures) -> tuple[str, ...]:
    theirs = figures.by_setup.get(timing.name)
    ours = timing.actions * 1000
    benchmark, published, ratio = "", "", ""
    if theirs is not None:
        benchmark = theirs.benchmark
        least = figures.cap if theirs.milliseconds is None else theirs.milliseconds
        more = "> " if theirs.milliseconds is None else ""
        published, ratio = f"{more}{_number(least)}", f"{more}{_number(least / ours)}"
    return (
        timing.name, benchmark, published, _number(ours), ratio, _number(timing.cycle * 1000), _outcome(timing),
    )  # fmt: skip


def _outcome(timing: Timing) -> str:
    if timing.outcome is None:
        return ""
    parts = [f"{number:,} {what}" for what, number in asdict(timing.outcome).items() if number]
    return ", ".join(parts) or "nothing"


def _number(value: float) -> str:
    """Format a number with three significant digits.

    >>> _number(121306.0), _number(57.99), _number(0.0512)
    ('121,306', '58.0', '0.051')
    """
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"
