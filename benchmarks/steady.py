"""What a cycle costs and what a lab holds when little of much changes: a full lab in which a part of the pods goes and as many come.

    python -m benchmarks.steady [FLEET] [PODS] [--in-each 7] [--rounds 5] [--percent 1] [--memory]

Jobs of CPU pods, since there may be more pods than GPUs. Told are processor seconds of a cycle, without controllers and without carrying
out what it decides: taking in what changed, and deciding; and the memory of the process, all of the embedded cluster included.
``--memory``: which lines of the code hold it, which makes everything several times slower.
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


def held() -> float:
    """MiB that this process has in memory."""
    return float(psutil.Process().memory_info().rss) / 2**20


def measure(fleet: str, pods: int, in_each: int, rounds: int, percent: float) -> None:
    """Fill, change a part, look; print each."""
    empty = held()
    with TimedLab(fleet, clock=time.thread_time) as lab:
        nodes = held()
        lab.submit([shapes.queue("bench"), shapes.queue("steady", "bench")])
        lab.settle()
        names = [f"steady-{number:07}" for number in range(-(-pods // in_each))]
        lab.start()
        lab.submit(shapes.job(name, "steady", gpus=0, pods=in_each) for name in names)
        lab.settle()
        filled = lab.stop("fill", lab.running("steady"))
        lab.require("pods running", filled.pods, len(names) * in_each)
        full = held()
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
            _tell("gone", some * in_each, lab)
            lab.start()
            lab.submit(shapes.job(name, "steady", gpus=0, pods=in_each) for name in come)
            lab.settle()
            _tell("come", some * in_each, lab)
        lab.require("pods running", lab.running("steady"), filled.pods)
        print(f"memory after: {held():,.0f} MiB")
        if tracemalloc.is_tracing():
            for line in tracemalloc.take_snapshot().statistics("lineno")[:LINES]:
                print(line)


def _tell(what: str, pods: int, lab: TimedLab) -> None:
    one = lab.stop(what, pods)
    took = {name: seconds for name, seconds in one.phases.items() if name == "mirror" or name.startswith("engine: ")}
    cycles = max(one.cycles, 1)
    parts = ", ".join(f"{name} {1000 * seconds / cycles:.1f}" for name, seconds in took.items() if seconds >= 0.0005)
    print(f"{pods:,} pods {what}: {one.cycles} cycles of {1000 * sum(took.values()) / cycles:.1f} ms ({parts})")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady", description=__doc__)
    parser.add_argument("fleet", nargs="?", default="scale-500")
    parser.add_argument("pods", nargs="?", type=int, default=14_000)
    parser.add_argument("--in-each", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--percent", type=float, default=1.0)
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    if given.memory:
        tracemalloc.start()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with collector_off():
        measure(given.fleet, given.pods, given.in_each, given.rounds, given.percent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
