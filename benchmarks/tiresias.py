"""Tiresias' public trace under four rules, beside what its published simulator gives for the same trace and cluster.

    python -m benchmarks.tiresias 60_job.csv --gpus 16 --simulated fifo=out/fifo/job.csv --simulated shortest=...

The trace is simulator/60_job.csv of github.com/SymbioticLab/Tiresias, and ``--simulated`` names the job.csv that its run_sim.py
writes with ``--scheme=count``: placement does not matter there, so each pod has one GPU here. The table has the mean
completion time (JCT), the mean wait, and for how many jobs begin and end are those of the simulator.

Source: Gu et al., "Tiresias: A GPU Cluster Manager for Distributed Deep Learning", NSDI 2019.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from kailab.fleet.fleet import Fleet, Pool
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import NamedPolicy, with_replay_policies
from kailab.replay.queues import one_queue
from kailab.replay.run import replay
from kailab.replay.trace import Trace

RULES: dict[str, tuple[str, ...]] = {
    "fifo": ("strict-fifo",),
    "fjf": ("fifo",),
    "shortest": ("shortest-remaining", "longest-remaining"),
    "dlas-gpu": ("least-attained", "most-attained"),
}
"""Schedule of the simulator -> policies."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tiresias", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--gpus", type=int, default=16)
    parser.add_argument(
        "--thresholds",
        default="3250,7200",
        help="GPU-seconds that divide the queues of dlas-gpu, as queue_limit of its jobs.py has them",
    )
    parser.add_argument("--simulated", action="append", default=[], metavar="SCHEDULE=JOB.CSV")
    given = parser.parse_args(arguments)
    simulated = {name: _simulated(Path(path)) for name, _, path in (text.partition("=") for text in given.simulated)}
    thresholds = [float(text) for text in given.thresholds.split(",")]
    trace = _trace(given.trace)
    print("| schedule | policies | JCT here | JCT there | wait here | wait there | equal jobs | pods evicted |")
    print("|---|---|---|---|---|---|---|---|")
    for name, policies in RULES.items():
        ours, evicted = _replayed(trace, given.gpus, [_chosen(policy, thresholds) for policy in policies])
        theirs = simulated.get(name, {})
        arrivals = {job.name: job.arrival for job in trace.jobs}
        cells = [f"`{name}`", ", ".join(f"`{policy}`" for policy in policies)]
        for pick in (1, 0):
            for times in (ours, theirs):
                cells.append(f"{mean(when[pick] - arrivals[job] for job, when in times.items()):.1f}" if times else "-")
        equal = sum(times == theirs.get(job) for job, times in ours.items())
        print(f"| {' | '.join(cells)} | {equal} of {len(ours)} | {evicted} |")


def _chosen(policy: str, thresholds: list[float]) -> NamedPolicy:
    return {"policy": policy, "parameters": {"thresholds": thresholds}} if policy == "least-attained" else policy


def _trace(path: Path) -> Trace:
    rows = list(csv.DictReader(path.open()))
    jobs = [
        TraceJob(
            name=row["job_id"], arrival=int(row["submit_time"]), seconds=int(row["duration"]), gpus=int(row["num_gpu"]),
            pods=int(row["num_gpu"]), line=line,
        )
        for line, row in enumerate(rows, 2)
    ]  # fmt: skip
    return Trace(file=str(path), form="csv", jobs=sorted(jobs, key=lambda job: job.arrival))


def _simulated(path: Path) -> dict[str, tuple[int, int]]:
    return {row["job_id"]: (int(row["start_time"]), int(row["end_time"])) for row in csv.DictReader(path.open())}


def _replayed(trace: Trace, gpus: int, policies: Sequence[NamedPolicy]) -> tuple[dict[str, tuple[int, int]], int]:
    """Job -> (begin, end), and the number of evicted pods."""
    fleet = Fleet(
        name="one",
        pools=(Pool(name="n", count=1, cpu="640", memory="4Ti", gpus=gpus, gpu_model="P100", gpu_memory_mib=16_384),),
    )
    config = with_replay_policies(None, policies, trace, fleet)
    done = replay(ReplayPlan(trace=trace, fleet=fleet, queues=one_queue(trace), config=config, checkpoint=1, restart=0))
    zero = done.began - trace.jobs[0].arrival
    works = list(done.accounts.works.values())
    assert not done.faults
    times = {
        work.job.name: (work.began - zero, work.ended - zero)
        for work in works
        if work.began is not None and work.ended is not None
    }
    return times, sum(work.evictions for work in works)


if __name__ == "__main__":
    main()
