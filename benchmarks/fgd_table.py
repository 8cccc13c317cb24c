"""A Markdown table of the runs of FGD's experiment beside the published ones."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

PUBLISHED = {
    "01-Random": "random", "02-DotProd": "dot-product", "03-GpuClustering": "gpu-clustering", "04-GpuPacking": "gpu-packing",
    "05-BestFit": "best-fit", "06-FGD": "fgd",
}  # fmt: skip


class Row(NamedTuple):
    """A run: percent of the GPUs allocated at 100 and at 130 % of demand. ``numbers``: the set of random numbers that the policy draws; 0 if it draws
    none."""

    workload: str
    policy: str
    seed: int
    numbers: int
    at_100: float
    at_130: float
    cpu_seconds: float


Cells = Mapping[tuple[str, str], Sequence[tuple[int, float, float]]]
"""Workload and policy -> (seed, at 100 %, at 130 %) of each run."""


def published(path: Path) -> Cells:
    cells: dict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = row["workload"].removeprefix("openb_pod_list_"), PUBLISHED[row["sc_policy"]]
            cells[key].append((int(row["seed"]), float(row["100"]), float(row["130"])))
    return cells


def markdown(rows: Iterable[Row], theirs: Cells, workloads: Sequence[str]) -> str:
    """Render the means over the seeds that were run, ours and the published ones of the same seeds, and the standard deviation of all published ones.
    Policies without published rows are left out."""
    ours = _cells(rows)
    lines = [
        "| workload | policy | seeds | at 100 % | published | within | at 130 % | published | within | equal runs |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    within = cells = equal = runs = 0
    for workload in workloads:
        for policy in PUBLISHED.values():
            mine = ours.get((workload, policy))
            if not mine:
                continue
            published_runs = theirs[workload, policy]
            seeds, others = _by_seed(mine), _by_seed(published_runs)
            line = f"| {workload} | `{policy}` | {len(seeds)} "
            for column in (0, 1):
                left = mean(run[column] for run in seeds.values())
                right = mean(others[seed][column] for seed in seeds if seed in others)
                spread = stdev(run[column] for run in others.values())
                good = abs(left - right) <= spread
                line += f"| {left:.2f} | {right:.2f} ± {spread:.2f} | {'yes' if good else '**no**'} "
                within, cells = within + good, cells + 1
            same = sum(run in published_runs for run in mine)
            equal, runs = equal + same, runs + len(mine)
            lines.append(f"{line}| {same} of {len(mine)} |")
    lines.append(
        f"\n{within} of {cells} means are within one standard deviation of the published ones; {equal} of {runs} runs are equal to the published run of "
        "their seed, to the hundredth at 100 % and at 130 %."
    )
    return "\n".join(lines)


def beside(rows: Iterable[Row], theirs: Cells, workloads: Sequence[str], policy: str, other: str) -> str:
    """Compare a policy with a published one, seed by seed on the same draws: the means of both, the mean of our own runs of the published policy, and the
    mean difference to the published runs with its standard error."""
    ours = _cells(rows)
    lines = [
        f"| workload | seeds | at 100 % | `{other}` published | `{other}` here | difference | at 130 % | `{other}` published | `{other}` here | difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in workloads:
        mine = _by_seed(ours[workload, policy])
        if not mine:
            continue
        published_, here = _by_seed(theirs[workload, other]), _by_seed(ours[workload, other])
        line = f"| {workload} | {len(mine)} "
        for column in (0, 1):
            gains = [run[column] - published_[seed][column] for seed, run in mine.items()]
            same = [here[seed][column] for seed in mine if seed in here]
            line += (
                f"| {mean(run[column] for run in mine.values()):.2f} | {mean(published_[seed][column] for seed in mine):.2f} "
                f"| {f'{mean(same):.2f}' if len(same) == len(mine) else 'not all run'} | {_gain(gains)} "
            )
        lines.append(f"{line}|")
    return "\n".join(lines)


def _gain(gains: Sequence[float]) -> str:
    error = f" ± {stdev(gains) / len(gains) ** 0.5:.2f}" if len(gains) > 1 else ""
    return f"{mean(gains):+.2f}{error}"


def _by_seed(runs_of_seeds: Iterable[tuple[int, float, float]]) -> Mapping[int, tuple[float, float]]:
    """The mean of the runs of each seed."""
    runs: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for seed, at_100, at_130 in runs_of_seeds:
        runs[seed].append((at_100, at_130))
    return {seed: (mean(run[0] for run in pairs), mean(run[1] for run in pairs)) for seed, pairs in runs.items()}


def _cells(rows: Iterable[Row]) -> defaultdict[tuple[str, str], list[tuple[int, float, float]]]:
    cells: defaultdict[tuple[str, str], list[tuple[int, float, float]]] = defaultdict(list)
    for row in rows:
        cells[row.workload, row.policy].append((row.seed, row.at_100, row.at_130))
    return cells
