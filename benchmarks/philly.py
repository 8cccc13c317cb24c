"""The jobs of Microsoft's Philly under several policies, on a fleet of a size of one's choice: ``kailab replay`` in processes of its own, two at a time.

    python -m benchmarks.philly philly.csv --gpus 512 --from 2017-10-18 --until 2017-10-20

Prints a table. Each replay is kept in the folder as it goes on; the same command goes on where it was interrupted, and does nothing twice."""

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
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    fleet, trace = given.folder / "fleet.yaml", given.folder / "trace.csv"
    fleet.write_text(FLEET.format(gpus=given.gpus, nodes=given.gpus // 8))
    with given.trace.open() as lines:
        trace.write_text("".join(between(lines, given.since, given.until)))

    with ThreadPoolExecutor(given.at_once) as pool:
        results = list(pool.map(lambda name: replayed(name, trace, fleet, given.folder), POLICIES))
    print("\n".join(table(results)))


def between(lines: Iterator[str], since: str, until: str) -> Iterator[str]:
    """The first line, and those of these days: each begins with its date."""
    yield next(lines)
    yield from (line for line in lines if line >= since and (not until or line < until))


def replayed(name: str, trace: Path, fleet: Path, folder: Path) -> list[str]:
    """A row of the table, from its file where the replay is done."""
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
        found = json.loads(partial.read_text())
        found["took"] = {"processor": used.ru_utime + used.ru_stime, "wall": time.monotonic() - began}
        partial.write_text(json.dumps(found, indent=2))
        partial.replace(done)
    return row(name, json.loads(done.read_text()))


def row(name: str, found: dict[str, Any]) -> list[str]:
    """Checks that no GPU time was lost or made, as the replay itself does."""
    total, sums = found["total"], found["balance"]
    assert sums["submitted"] == sums["done"] + sums["to_run"] + sums["to_wait"], name
    assert sums["held"] == sums["done"] + sums["lost"] + sums["overhead"], name
    waits = [f"{total['waited'][key] / 60:.1f} min" for key in ("mean", "p50", "p99")]
    fairness = found["fairness"]
    return [
        name,
        *waits,
        f"{total['slowdown']['mean']:.1f}",
        f"{found['allocated_arriving']:.1%}",
        f"{found['goodput']:.2%}",
        str(total["evictions"]),
        f"{total['lost']:.0f}",
        f"{fairness['jain']:.4f}",
        f"{sum(queue['short'] for queue in fairness['queues']):.1f}",
        str(found["cycles"]),
        f"{found['took']['processor']:.0f}",
        f"{found['took']['wall']:.0f}",
    ]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """As Markdown."""
    for one in (COLUMNS, ["---"] * len(COLUMNS), *rows):
        yield f"| {' | '.join(one)} |"


if __name__ == "__main__":
    main()
