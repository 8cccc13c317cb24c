"""What a waiting job costs: replays of ever more jobs of one shape that all wait for the same nodes.

    python -m benchmarks.waiting 125 250 500 1000

The output is a table: processor seconds of each replay as a process, without those of a replay of one job, and the
exponent by which they grow from row to row: 1 if an event costs the same however many wait, 2 if it costs as much as
waits."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from math import log
from pathlib import Path

FLEET = "lesson"
GPUS = 8
"""Of each job: it takes a node of the fleet."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.waiting", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jobs", type=int, nargs="+", help="numbers of jobs, one replay each")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        start = seconds(1, Path(folder))
        took = {jobs: seconds(jobs, Path(folder)) - start for jobs in options.jobs}
    print("| jobs | processor seconds | for each job, ms | exponent |\n|---:|---:|---:|---:|")
    exponents = [f"{log(took[more] / took[fewer]) / log(more / fewer):.2f}" for fewer, more in pairwise(options.jobs)]
    for jobs, exponent in zip(options.jobs, ["", *exponents], strict=True):
        print(f"| {jobs:,} | {took[jobs]:.1f} | {1000 * took[jobs] / jobs:.1f} | {exponent} |")


def trace(jobs: int) -> str:
    """Jobs that arrive within seconds and run for 17 to 100 minutes."""
    chance = random.Random(1)
    rows = (f"j{number},{number % 7},{1000 + chance.randrange(5000)},{GPUS},blue" for number in range(jobs))
    return "\n".join(("name,submit,seconds,gpus,team", *rows, ""))


def seconds(jobs: int, folder: Path) -> float:
    """The processor seconds of a replay of so many jobs."""
    file = folder / "trace.csv"
    file.write_text(trace(jobs))
    command = [sys.executable, "-m", "kailab", "replay", str(file), "--fleet", FLEET, "--quota-by-share", "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"kailab replay of {jobs} jobs ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
