"""The experiment of FGD's paper: pods of openb arrive one by one until they ask for 130 % of the cluster's GPUs, none ends, and none is tried twice.

    python -m benchmarks.fgd run RUNS.csv openb-gpu-v2023 --draws DRAWS                    # six policies, 17 workloads, 10 seeds
    python -m benchmarks.fgd run RUNS.csv openb-gpu-v2023 --workload default --policy fgd --seed 42
    python -m benchmarks.fgd run RUNS.csv openb-gpu-v2023 --draws DRAWS --policy random --numbers 5  # five times on each draw
    python -m benchmarks.fgd table RUNS.csv analysis_allo_discrete.csv                     # each row beside the published one, in Markdown
    python -m benchmarks.fgd table RUNS.csv analysis_allo_discrete.csv --policy fgd-packed # a policy of ours beside the published fgd

A run is one cycle of kailab's engine over records made of the lists of nodes and pods: it decides pod by pod in the order of arrival, each on what those before
it left. The lab around the engine (objects, controllers, binding) is left out; it decides nothing here. RUNS.csv gets a line for each run as it ends; runs that
stand there are not run again, so what was interrupted goes on where it was.

Pods and the order of nodes are drawn with a seed: all pods in random order, then more of them (or fewer) until the demand is there; nodes in random order, in which
equal ones are taken. DRAWS has a file for each workload and seed, as ``benchmarks/fgd_draws.go`` writes them: the draws of the published runs. Without it Python
draws, others. ``random`` draws numbers of its own besides; more sets of them tell its mean on the same draws more exactly.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 6, and experiments/ of its simulator.
"""

from __future__ import annotations

import argparse
import csv
import gc
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from msgspec import structs

from benchmarks.fgd_table import Row, beside, markdown, published
from kailab.engine import (
    EngineConfig,
    GpuFraction,
    Node,
    PodGroup,
    Queue,
    Requirement,
    ResourceShare,
    Shape,
    Snapshot,
    Task,
    decide,
)
from kailab.engine.snapshot.records import GPU, NodeTerm
from kailab.errors import InputError, Where
from kailab.fleet.fleet import Fleet
from kailab.model.labels import GPU_PRODUCT
from kailab.model.quantities import mem_bytes
from kailab.replay.fleets import fleet_of_nodes
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.policies import with_replay_policies
from kailab.replay.readers import alibaba, lines
from kailab.replay.readers.lines import LineFields
from kailab.replay.trace import Trace

POLICIES = ("random", "dot-product", "gpu-clustering", "gpu-packing", "best-fit", "fgd")
WORKLOADS = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip
SEEDS = tuple(range(42, 52))
DEMAND = 130
"""Percent of the GPUs that pods ask for in the end."""
FREE = ResourceShare(quota=-1, limit=-1, weight=1.0)
COLUMNS = ("workload", "policy", "seed", "numbers", "at_100", "at_130", "cpu_seconds")
DRAWING = "random"
"""The policy that draws numbers of its own."""


AS_SIMULATED = "fgd-as-simulated"
"""``fgd`` with the additions of the published simulator, which decide between equal nodes."""


class Draw(NamedTuple):
    """``pods``: rows of the workload in the order of arrival. ``places``: of each node, in the order of the list, its place among equals."""

    pods: Sequence[int]
    places: Sequence[int]


class FgdRun(NamedTuple):
    """``numbers``: which set of the numbers that the policy draws."""

    data: Path
    workload: str
    policy: str
    seed: int
    numbers: int
    draws: Path | None

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.workload, self.policy, self.seed, self.numbers


# --- draws -------------------------------------------------------------------------------------------------------------


def drawn(jobs: Sequence[TraceJob], nodes: int, gpus: int, seed: int) -> Draw:
    chance = random.Random(seed)
    order = list(range(len(jobs)))
    chance.shuffle(order)
    wanted = DEMAND * gpus * WHOLE // 100
    asked = sum(job.milli for job in jobs)
    while asked > wanted:
        asked -= jobs[order.pop(chance.randrange(len(order)))].milli
    while asked < wanted:
        row = chance.randrange(len(jobs))
        if asked + (jobs[row].share if jobs[row].gpus else 0) > wanted:
            break
        asked += jobs[row].milli
        order.append(row)
    places = list(range(nodes))
    chance.shuffle(places)
    return Draw(order, places)


def read_draw(path: Path) -> Draw:
    pods, places = path.read_text(encoding="utf-8").splitlines()
    return Draw([int(row) for row in pods.split()], [int(place) for place in places.split()])


# --- one run -----------------------------------------------------------------------------------------------------------


def cluster(fleet: Fleet, places: Sequence[int]) -> Iterator[Node]:
    """Nodes with names that sort by their places."""
    for pool, place in zip(fleet.pools, places, strict=True):
        yield Node(
            name=f"{place:04d}-{pool.name}",
            cpu=int(pool.cpu.removesuffix("m")),
            memory=mem_bytes(pool.memory),
            gpus=pool.gpus * GPU,
            pods=pool.pods,
            gpu_memory_mib=pool.gpu_memory_mib,
            labels=((GPU_PRODUCT, pool.gpu_model),) if pool.gpu_model else (),
        )


def arriving(jobs: Iterable[TraceJob]) -> Iterator[PodGroup | Task]:
    """A PodGroup and its pod for each job, in the order of their arrival by age and by name."""
    shapes: dict[Shape, Shape] = {}
    for number, job in enumerate(jobs):
        uid = f"{number:06d}"
        shape = _shape(job)
        yield PodGroup(uid=uid, name=uid, namespace="d", queue="all", created=float(number))
        yield Task(
            uid=uid, name=uid, namespace="d", podgroup=uid, shape=shapes.setdefault(shape, shape), created=float(number)
        )


def _shape(job: TraceJob) -> Shape:
    gpu = GpuFraction.of(job.gpus, job.share)
    models = (Requirement(key=GPU_PRODUCT, operator="In", values=job.models),) if job.models else ()
    terms = (NodeTerm(requirements=models),) if models else ()
    return Shape(cpu=job.cpu_millis, memory=job.memory_mib << 20, gpu=gpu, terms=terms)


def snapshot_of(fleet: Fleet, jobs: Sequence[TraceJob], places: Sequence[int]) -> Snapshot:
    records = list(arriving(jobs))
    return Snapshot(
        nodes=tuple(cluster(fleet, places)),
        queues=(Queue(name="all", uid="all", gpu=FREE, cpu=FREE, memory=FREE),),
        podgroups=tuple(one for one in records if isinstance(one, PodGroup)),
        tasks=tuple(one for one in records if isinstance(one, Task)),
    )


def allocations(snapshot: Snapshot, jobs: Sequence[TraceJob], config: EngineConfig) -> dict[int, float]:
    """Percent of demand -> percent of the GPUs allocated then: the mean over all arrivals that round to this demand, as the published table has it."""
    decisions = decide(snapshot, config, now=float(len(jobs)))
    bound = {bind.task for bind in decisions.binds}
    percent = sum(node.gpus for node in snapshot.nodes) / 100
    asked = held = 0
    looks: dict[int, list[float]] = defaultdict(list)
    for number, job in enumerate(jobs):
        asked += job.milli
        held += job.milli if f"{number:06d}" in bound else 0
        looks[round(asked / percent)].append(round(held / percent, 2))
    return {demand: round(mean(found), 2) for demand, found in looks.items()}


def pods_of(path: Path) -> Trace:
    """A list of openb's pods. Some lists leave out the columns that say when a pod came and ran, which nothing here asks for.

    Some pods name a model twice. Such a pod may run where one may that names it once, but the simulator counts sorts of pods by this text as it stands. Which
    sorts are to be expected depends on it, so the names stay as they are here."""
    jobs = []
    for line, values in lines.read_rows(path):
        if isinstance(values, str):
            raise InputError(values, Where(file=str(path), line=line))
        job = alibaba.read_openb_pod(
            LineFields({"gpu_spec": "", "creation_time": "0", "deletion_time": "1", **values}), line
        )
        assert isinstance(job, TraceJob)  # whatever openb lists can be replayed
        named = values.get("gpu_spec")
        jobs.append(structs.replace(job, models=tuple(named.split("|"))) if named else job)
    return Trace(str(path), "openb", jobs)


@cache
def _read(data: Path, workload: str) -> tuple[Fleet, Trace]:
    return fleet_of_nodes(data / "openb_node_list_gpu_node.csv"), pods_of(data / f"openb_pod_list_{workload}.csv")


def carry_out(runs: Sequence[FgdRun]) -> list[Row]:
    """Runs that differ by nothing but their policies."""
    gc.disable()  # it would look through all records again and again, while nothing is given up but from run to run
    begun = time.process_time()
    first = runs[0]
    fleet, workload = _read(first.data, first.workload)
    jobs = workload.jobs
    if first.draws is not None:
        draw = read_draw(first.draws / f"openb_pod_list_{first.workload}.{first.seed}")
    else:
        draw = drawn(jobs, len(fleet.pools), fleet.summary().gpus, first.seed)
    order = [jobs[row] for row in draw.pods]
    snapshot = snapshot_of(fleet, order, draw.places)
    rows = []
    for run in runs:
        gc.collect()
        found = allocations(snapshot, order, deciding(workload, fleet, run.policy, run.seed + 1000 * run.numbers))
        seconds, begun = time.process_time() - begun, time.process_time()
        rows.append(Row(run.workload, run.policy, run.seed, run.numbers, found[100], found[DEMAND], round(seconds, 1)))
    return rows


def deciding(workload: Trace, fleet: Fleet, policy: str, seed: int) -> EngineConfig:
    """The policy alone: nobody is evicted, and what waits gets no reasons that would be thrown away."""
    named = {"policy": "fgd", "parameters": {"adding": "as-simulated"}} if policy == AS_SIMULATED else policy
    engine = with_replay_policies(None, (named,), workload, fleet, seed if policy == DRAWING else None).engine
    return structs.replace(engine, actions=("allocate",))


# --- many --------------------------------------------------------------------------------------------------------------


def rows_of(path: Path) -> list[Row]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        if tuple(lines.fieldnames or ()) != COLUMNS:
            raise SystemExit(f"{path}: line 1: {','.join(lines.fieldnames or ())}: expected {','.join(COLUMNS)}")
        return [
            Row(
                one["workload"], one["policy"], int(one["seed"]), int(one["numbers"]), float(one["at_100"]), float(one["at_130"]),
                float(one["cpu_seconds"]),
            )
            for one in lines
        ]  # fmt: skip


def run_all(runs: Sequence[FgdRun], path: Path, workers: int) -> None:
    done = {(row.workload, row.policy, row.seed, row.numbers) for row in rows_of(path)}
    left = [run for run in runs if run.key not in done]
    print(f"{len(runs) - len(left)} of {len(runs)} runs are there, {len(left)} to do", file=sys.stderr, flush=True)
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file, ProcessPoolExecutor(workers) as pool:
        told = csv.writer(file, lineterminator="\n")
        if fresh:
            told.writerow(COLUMNS)
        by_draw: dict[tuple[str, int], list[FgdRun]] = defaultdict(list)
        for run in left:
            by_draw[run.workload, run.seed].append(run)
        futures = [pool.submit(carry_out, runs) for runs in by_draw.values()]
        try:
            for future in as_completed(futures):
                told.writerows(future.result())
                file.flush()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ways = parser.add_subparsers(dest="way", required=True)
    run = ways.add_parser("run", help="carry runs out that are not in the file yet")
    run.add_argument("runs", type=Path)
    run.add_argument("data", type=Path, help="the directory with openb's lists of nodes and pods")
    run.add_argument("--workload", action="append", help="default, cpu050, ... (all)")
    run.add_argument("--policy", action="append", help="a name or FILE.py:CLASS (the six published ones)")
    run.add_argument("--seed", action="append", type=int, help="42 to 51")
    run.add_argument(
        "--numbers",
        type=int,
        default=1,
        help=f"how often {DRAWING} runs on each draw, each time with other numbers (1)",
    )
    run.add_argument("--draws", type=Path, help="the directory with the published draws")
    run.add_argument("--workers", type=int, default=1)
    table = ways.add_parser("table", help="the means of all seeds beside the published ones")
    table.add_argument("runs", type=Path)
    table.add_argument("published", type=Path)
    table.add_argument("--policy", help="instead a policy of ours beside a published one, on the same draws")
    table.add_argument("--against", default="fgd", help="that published one (fgd)")
    given = parser.parse_args()
    if given.way == "table":
        rows, theirs = rows_of(given.runs), published(given.published)
        if given.policy:
            print(beside(rows, theirs, WORKLOADS, given.policy, given.against))
        else:
            print(markdown(rows, theirs, WORKLOADS))
        return
    runs = [
        FgdRun(given.data, workload, policy, seed, numbers, given.draws)
        for seed in given.seed or SEEDS
        for workload in given.workload or WORKLOADS
        for policy in given.policy or POLICIES
        for numbers in range(given.numbers if policy == DRAWING else 1)
    ]
    run_all(runs, given.runs, given.workers)


if __name__ == "__main__":
    main()
