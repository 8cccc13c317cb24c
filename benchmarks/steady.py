"""Measure cycles and memory of a full lab in which a few percent of the pods are replaced.

    python -m benchmarks.steady [FLEET] [PODS] [--in-each 7] [--rounds 5] [--percent 1] [--memory]

The Jobs have CPU pods, because there may be more pods than GPUs. The output has the processor seconds of a cycle (reading changes and deciding,
without controllers and without carrying out decisions), and the memory of the process, including the embedded cluster. ``--memory`` also prints the
lines of code that hold the memory, and is several times slower.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc

import psutil

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.timed_lab import TimedLab
from kailab.lab.garbage import collector_off

LINES = 30


def memory_mib() -> float:
    """Memory of this process in MiB."""
    return float(psutil.Process().memory_info().rss) / 2**20


def measure(fleet: str, pods: int, in_each: int, rounds: int, percent: float) -> None:
    """Fill the lab and replace parts of its pods; print each measurement."""
    empty = memory_mib()
    with TimedLab(fleet, clock=time.thread_time) as lab:
        nodes = memory_mib()
        lab.submit([shapes.queue("bench"), shapes.queue("steady", "bench")])
        lab.settle()
        names = [f"steady-{number:07}" for number in range(-(-pods // in_each))]
        lab.start()
        lab.submit(shapes.job(name, "steady", gpus=0, pods=in_each) for name in names)
        lab.settle()
        filled = lab.stop("fill", lab.running("steady"))
        lab.require("pods running", filled.pods, len(names) * in_each)
        full = memory_mib()
        print(f"{lab.nodes:,} nodes, {filled.pods:,} pods in {len(names):,} jobs: {filled.seconds:.1f} s of processor")
        print(f"memory: {empty:,.0f} MiB before, {nodes:,.0f} with nodes, {full:,.0f} full", end="")
        print(f": {(full - nodes) * 1024 / filled.pods:.1f} KiB a pod")
        print(f"idle cycle: {1000 * lab.idle_cycle():.1f} ms of clock")
        some = max(1, round(len(names) * percent / 100))
        for number in range(rounds):
            gone, come = names[:some], [f"new-{number}-{each:06}" for each in range(some)]
            names = names[some:] + come
            lab.start()
            lab.remove(gone)
            _print("gone", some * in_each, lab)
            lab.start()
            lab.submit(shapes.job(name, "steady", gpus=0, pods=in_each) for name in come)
            lab.settle()
            _print("come", some * in_each, lab)
        lab.require("pods running", lab.running("steady"), filled.pods)
        print(f"memory after: {memory_mib():,.0f} MiB")
        if tracemalloc.is_tracing():
            for line in tracemalloc.take_snapshot().statistics("lineno")[:LINES]:
                print(line)


def _print(what: str, pods: int, lab: TimedLab) -> None:
    measured = lab.stop(what, pods)
    took = {
        name: seconds for name, seconds in measured.phases.items() if name == "mirror" or name.startswith("engine: ")
    }
    cycles = max(measured.cycles, 1)
    parts = ", ".join(f"{name} {1000 * seconds / cycles:.1f}" for name, seconds in took.items() if seconds >= 0.0005)
    print(f"{pods:,} pods {what}: {measured.cycles} cycles of {1000 * sum(took.values()) / cycles:.1f} ms ({parts})")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("fleet", nargs="?", default="scale-500")
    parser.add_argument("pods", nargs="?", type=int, default=14_000)
    parser.add_argument("--in-each", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--percent", type=float, default=1.0)
    parser.add_argument("--memory", action="store_true")
    arguments = parser.parse_args()
    if arguments.memory:
        tracemalloc.start()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with collector_off():
        measure(arguments.fleet, arguments.pods, arguments.in_each, arguments.rounds, arguments.percent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
