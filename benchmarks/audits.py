"""``python -m benchmarks.audits``: what ``kailab audit`` costs on a large lab kept in a file.

Two labs: 500 nodes with 4,000 pods and 5,000 nodes with 40,000, of Deployments and Jobs, a tenth of them waiting, among them gangs that
no cluster would hold. Figures are seconds of processor time, start of Python included; the least of several runs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.looks import processor_seconds, work
from kailab.bench.shapes import job
from kailab.lab import Lab

LABS = {"scale-500": 4_000, "scale-5000": 40_000}
GANGS = 5


def saved(fleet: str, pods: int, path: Path) -> None:
    """A lab at rest, in a file."""
    with Lab.open(fleet) as lab:
        lab.apply(list(work(pods, lab.facts()["gpus"])))
        lab.apply([job(f"gang-{number}", f"team-{number}", pods=8, gpus=16) for number in range(GANGS)])
        lab.settle()
        lab.save(path)


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.audits", description=__doc__)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--fleet", choices=LABS, action="append")
    given = options.parse_args()
    for fleet in given.fleet or LABS:
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "lab.state"
            saved(fleet, LABS[fleet], state)
            command = ["audit", "-o", "json", "--state", str(state)]
            seconds = min(processor_seconds(command, check=False) for _ in range(given.runs))
            print(f"audit of {fleet} with {LABS[fleet]} pods: {seconds:.2f} s")


if __name__ == "__main__":
    main()
