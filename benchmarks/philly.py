"""Replay the jobs of Microsoft's Philly under several policies on a fleet of a given size, with ``kailab replay`` in two processes at a time.

    python -m benchmarks.philly philly.csv --gpus 512 --from 2017-10-18 --until 2017-10-20

The output is a table. Each replay is saved in the folder while it runs; the same command continues an interrupted one and skips finished ones."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

POLICIES: dict[str, tuple[str, ...]] = {
    "KAI's rules": (),
    "`fifo`": ("fifo",),
    "`fifo`, `backfill`": ("fifo", "backfill"),
    "`tiresias`, `most-attained`": ("tiresias", "most-attained"),
}
FLEET = """\
apiVersion: kailab.dev/v1
kind: Fleet
name: philly-{gpus}
pools:
  - {{name: gpu, count: {nodes}, cpu: 64, memory: 512Gi, gpus: 8, gpuModel: P100}}
"""
COLUMNS = (
    "policy", "wait: mean", "p50", "p99", "slowdown", "GPUs allocated until the last arrival", "goodput", "pods evicted", "GPU-hours lost", "Jain's index",
    "GPUs short of quota", "cycles", "processor seconds", "wall-clock seconds",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.philly", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path, help="timestamp, duration, num_gpus, cluster")
    parser.add_argument("--gpus", type=int, default=2_488, help="of the fleet, 8 on each node")
    parser.add_argument("--from", dest="since", default="", help="leave out what came before that day")
    parser.add_argument("--until", default="", help="leave out what came from that day on")
    parser.add_argument("--at-once", type=int, default=2, help="replays side by side")
    parser.add_argument("--folder", type=Path, default=Path("philly"), help="for fleet, trace and results")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    fleet, trace = options.folder / "fleet.yaml", options.folder / "trace.csv"
    fleet.write_text(FLEET.format(gpus=options.gpus, nodes=options.gpus // 8))
    with options.trace.open() as lines:
        trace.write_text("".join(between(lines, options.since, options.until)))

    with ThreadPoolExecutor(options.at_once) as pool:
        results = list(pool.map(lambda name: replayed(name, trace, fleet, options.folder), POLICIES))
    print("\n".join(table(results)))


def between(lines: Iterator[str], since: str, until: str) -> Iterator[str]:
    """Yield the header and the lines of these days; each line begins with its date."""
    yield next(lines)
    yield from (line for line in lines if line >= since and (not until or line < until))


def replayed(name: str, trace: Path, fleet: Path, folder: Path) -> list[str]:
    """Run a replay unless its result exists, and return its row of the table."""
    stem = "-".join(POLICIES[name]) or "kai"
    done = folder / f"{stem}.json"
    if not done.exists():
        policies = [part for policy in POLICIES[name] for part in ("--policy", policy)]
        command = [sys.executable, "-m", "kailab", "replay", str(trace), "--fleet", str(fleet), "--quota-by-share"]
        partial = folder / f"{stem}.partial"
        began = time.monotonic()
        with partial.open("w") as out:
            process = subprocess.Popen(
                [*command, *policies, "--resume", str(folder / f"{stem}.kept"), "-o", "json"], stdout=out
            )
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{name}: kailab replay ended with {process.returncode}")
        result = json.loads(partial.read_text())
        result["took"] = {"processor": used.ru_utime + used.ru_stime, "wall": time.monotonic() - began}
        partial.write_text(json.dumps(result, indent=2))
        partial.replace(done)
    return row(name, json.loads(done.read_text()))


def row(name: str, result: dict[str, Any]) -> list[str]:
    """The row of a result. Also checks that the GPU time adds up, as the replay itself does."""
    total, sums = result["total"], result["balance"]
    assert sums["submitted"] == sums["done"] + sums["to_run"] + sums["to_wait"], name
    assert sums["held"] == sums["done"] + sums["lost"] + sums["overhead"], name
    waits = [f"{total['waited'][key] / 60:.1f} min" for key in ("mean", "p50", "p99")]
    fairness = result["fairness"]
    return [
        name,
        *waits,
        f"{total['slowdown']['mean']:.1f}",
        f"{result['allocated_arriving']:.1%}",
        f"{result['goodput']:.2%}",
        str(total["evictions"]),
        f"{total['lost']:.0f}",
        f"{fairness['jain']:.4f}",
        f"{sum(queue['short'] for queue in fairness['queues']):.1f}",
        str(result["cycles"]),
        f"{result['took']['processor']:.0f}",
        f"{result['took']['wall']:.0f}",
    ]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Render a Markdown table."""
    for cells in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
