"""The experiment of FGD's paper: pods of openb arrive until they ask for 130 % of the cluster's GPUs, and none ends.

    python -m benchmarks.fgd NODES.csv PODS.csv ... --policy fgd --seed 42 --published analysis_allo_discrete.csv

Pods are drawn from a workload with a seed: all of it in random order, then more of it with repetition until the demand is there. (Published seeds draw
others, with Go's generator: means are comparable, single runs are not.) They arrive in steps of so many a second, in one queue, and only allocate is on. What is
told is the part of the GPUs that is allocated once pods for 100 % and 130 % have arrived.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 6, and experiments/ of its simulator.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, pstdev

from msgspec import structs

from kailab.fleet import Fleet
from kailab.replay.fleets import fleet_of_nodes
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.policies import decided_by
from kailab.replay.queues import one_queue
from kailab.replay.replaying import Plan, replay
from kailab.replay.trace import Trace, read_trace
from kailab.scheduler import SchedulerSettings

POLICIES = ("random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd")
PUBLISHED = {
    "random": "01-Random", "dot-product": "02-DotProd", "gpu-clustering": "03-GpuClustering", "gpu-packing": "04-GpuPacking",
    "best-fit": "05-BestFit", "fgd": "06-FGD",
}  # fmt: skip
DEMANDS = (100, 130)


def drawn(jobs: Sequence[TraceJob], gpus: int, seed: int, step: int, percent: int = DEMANDS[-1]) -> list[TraceJob]:
    """Jobs that ask for this part of ``gpus``, ``step`` of them a second."""
    chance = random.Random(seed)
    order = list(jobs)
    chance.shuffle(order)
    asked = 0
    found: list[TraceJob] = []
    for job in _endless(order, chance):
        if asked * 100 >= percent * gpus * WHOLE:
            return found
        found.append(structs.replace(job, arrival=len(found) // step, name=f"{job.name}-{len(found)}"))
        asked += job.milli
    return found


def _endless(order: Sequence[TraceJob], chance: random.Random) -> Iterator[TraceJob]:
    yield from order
    while True:
        yield chance.choice(order)


def allocations(fleet: Fleet, workload: Trace, policy: str, seed: int, step: int) -> list[float]:
    """Percent of the GPUs that are allocated at each of ``DEMANDS``."""
    gpus = fleet.summary().gpus
    trace = Trace(workload.file, workload.form, drawn(workload.jobs, gpus, seed, step))
    settings = decided_by(None, (policy,), workload, fleet, seed if policy == "random" else None)
    engine = structs.replace(settings.engine, actions=("allocate",))
    done = replay(
        Plan(
            trace=trace,
            fleet=fleet,
            queues=one_queue(trace),
            config=SchedulerSettings(engine=engine),
            endless=True,
        )
    )
    found = []
    for demand in DEMANDS:
        asked, at = 0, 0
        for job in trace.jobs:
            at = job.arrival
            asked += job.milli
            if asked * 100 >= demand * gpus * WHOLE:
                break
        held = [entry[1] for entry in done.accounts.timeline if entry[0] - done.began <= at + 1]
        found.append(round(held[-1] * 100 / (gpus * WHOLE), 2))
    return found


def published(path: Path, workload: str, policy: str) -> list[tuple[float, float]]:
    """Mean and standard deviation of the published runs at each of ``DEMANDS``."""
    with path.open(encoding="utf-8") as file:
        rows = [
            row for row in csv.DictReader(file) if row["workload"] == workload and row["sc_policy"] == PUBLISHED[policy]
        ]
    values = [[float(row[str(demand)]) for row in rows] for demand in DEMANDS]
    return [(round(mean(one), 2), round(pstdev(one), 2)) for one in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", type=Path)
    parser.add_argument("pods", type=Path, nargs="+")
    parser.add_argument("--policy", action="append", choices=POLICIES)
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--published", type=Path)
    parser.add_argument("--step", type=int, default=20, help="pods a second")
    given = parser.parse_args()
    fleet = fleet_of_nodes(given.nodes)
    print("workload,policy,seed,at_100,at_130,published_100,sd_100,published_130,sd_130,cpu_seconds")
    for file in given.pods:
        workload = read_trace(file)
        for policy in given.policy or POLICIES:
            for seed in given.seed or [42]:
                begun = time.process_time()
                ours = allocations(fleet, workload, policy, seed, given.step)
                name = file.name.removesuffix(".csv")
                theirs = published(given.published, name, policy) if given.published else []
                told = [*ours, *(number for pair in theirs for number in pair)]
                print(name, policy, seed, *told, round(time.process_time() - begun), sep=",", flush=True)


if __name__ == "__main__":
    main()
