"""What a cycle costs while thousands of jobs wait in a full cluster with departments.

    python -m benchmarks.backlog [--nodes 1250] [--waiting 10000] [--percent 1] [--cycles 5]

Two departments of four queues each hold all GPUs. Before each cycle as many running jobs end as make up the percentage of the waiting
ones. The output has the processor milliseconds of each cycle of the engine, with and without the reasons why work waits."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from msgspec import structs

from benchmarks.engine.cluster import GPUS_PER_NODE, NOW, ClusterBuilder, pod
from benchmarks.engine.setups import departments
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.snapshot.records import Status
from kailab.engine.working.workingset import WorkingSet
from kailab.lab.garbage import collector_off

QUEUES = 8
SIZES = (1, 2, 4, 8)
"""GPUs of the waiting jobs, in turn."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backlog", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1250, help="with 8 GPUs each")
    parser.add_argument("--waiting", type=int, default=10_000, help="jobs of one pod that wait")
    parser.add_argument("--percent", type=float, default=1.0, help="of the waiting number that end before each cycle")
    parser.add_argument("--cycles", type=int, default=5)
    options = parser.parse_args(arguments)
    some = max(1, round(options.waiting * options.percent / 100))
    with collector_off():
        for reasons in (True, False):
            took = cycles(backlog(options.nodes, options.waiting), some, options.cycles, reasons)
            print("with" if reasons else "without", "reasons:", ", ".join(f"{each:.0f}" for each in took), "ms")


def backlog(nodes: int, waiting: int) -> WorkingSet:
    """All GPUs are in use, and so many jobs wait."""
    cluster = ClusterBuilder()
    names = departments(cluster, nodes * GPUS_PER_NODE, QUEUES)
    cluster.running(nodes * GPUS_PER_NODE, names, cluster.nodes(nodes), pod(1))
    for number in range(waiting):
        cluster.job(f"waiting-{number:06}", names[number % QUEUES], pod(SIZES[number // QUEUES % len(SIZES)]))
    return cluster.working


def cycles(working: WorkingSet, ended: int, number: int, reasons: bool) -> list[float]:
    """Processor milliseconds of so many cycles, before each of which so many jobs end."""
    took = []
    for _ in range(number):
        running = [task.record for task in working.tasks.values() if task.record.status == Status.RUNNING]
        for record in running[:ended]:
            working.set_task(structs.replace(record, status=Status.SUCCEEDED))
        began = time.process_time()
        decisions = run_cycle(working, EngineConfig(), NOW, reasons=reasons)
        took.append(1000 * (time.process_time() - began))
        if len(decisions.binds) != ended:
            raise SystemExit(f"{len(decisions.binds)} jobs were bound, and {ended} GPUs were free")
        for bind in decisions.binds:
            working.set_task(structs.replace(working.tasks[bind.task].record, status=Status.RUNNING, node=bind.node))
    return took


if __name__ == "__main__":
    main()
