"""Large labs in files, created for each measurement: 500 nodes with 4,000 pods and 5,000 nodes with 40,000 pods, of Deployments and Jobs. A tenth of
the pods wait, among them gangs that fit no cluster.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.lab_runs.shapes import job
from benchmarks.looks import work
from kailab.lab import Lab

LABS = {"scale-500": 4_000, "scale-5000": 40_000}
"""Fleet -> pods."""
GANGS = 5


def options(program: str, about: str | None, runs: int) -> argparse.Namespace:
    """Parse the command line: ``--runs`` with this default, ``--fleet`` with all fleets as default."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--fleet", choices=LABS, action="append")
    arguments = parser.parse_args()
    arguments.fleet = arguments.fleet or list(LABS)
    return arguments


@contextmanager
def saved(fleet: str) -> Iterator[Path]:
    """Yield the file of a settled lab on a fleet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab.state"
        with Lab.open(fleet) as lab:
            lab.apply(list(work(LABS[fleet], lab.facts()["gpus"])))
            lab.apply([job(f"gang-{number}", f"team-{number}", pods=8, gpus=16) for number in range(GANGS)])
            lab.settle()
            lab.save(path)
        yield path
