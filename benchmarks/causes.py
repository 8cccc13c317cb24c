"""``python -m benchmarks.causes``: how long the cause of waiting work takes, without steps (``kailab explain --no-steps``), or with
``--steps`` the whole answer within the default timeout of the command.

Asks about every workload with waiting pods in the labs of ``benchmarks.labs``, or in the file of a lab (``--state``), each as the first
question to a lab that was just read. Figures are seconds of processor time, without the start of Python: the median, the longest, and the
questions that took longest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

from benchmarks.labs import LABS, saved
from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.lab.owners import top_of

MOST = 40
"""Workloads that are asked about, spread evenly over all that wait (``--questions``)."""
TIMEOUT = 20.0
"""Seconds of processor time for the steps of an answer, the default of ``kailab explain``."""


def waiting(path: Path, most: int) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of workloads with waiting pods, by name, at most about ``most``."""
    with Lab.resume(path, read_only=True) as lab:
        pods = [pod for pod in lab.cluster.list("Pod") if not pod["spec"].get("nodeName")]
        owners = [top_of(lab.cluster, pod) for pod in pods]
    found = {(one["kind"], one["metadata"].get("namespace", "default"), one["metadata"]["name"]) for one in owners}
    return sorted(found)[:: max(1, len(found) // most)]


def seconds(path: Path, kind: str, namespace: str, name: str, steps: bool) -> float:
    """Seconds until the cause is known, or with ``steps`` all of the answer, nothing of the lab having been looked at before."""
    with Lab.resume(path, read_only=True) as lab, collector_off():
        begun = time.process_time()
        lab.explain(kind, name, namespace, tried=steps, timeout=TIMEOUT)
        return time.process_time() - begun


def report(title: str, path: Path, steps: bool, most: int) -> None:
    found = {one: seconds(path, *one, steps) for one in waiting(path, most)}
    slowest = sorted(found, key=lambda one: -found[one])
    print(f"{title}: {len(found)} workloads, median {statistics.median(found.values()):.2f} s")
    for one in slowest[:5]:
        print(f"  {found[one]:6.2f} s  {' '.join(one)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.causes", description=__doc__)
    parser.add_argument("--fleet", choices=LABS, action="append")
    parser.add_argument("--state", type=Path, help="the file of a lab, instead of a fleet")
    parser.add_argument("--steps", action="store_true", help="the whole answer, with its steps")
    parser.add_argument("--questions", type=int, default=MOST, help="workloads that are asked about")
    given = parser.parse_args()
    if given.state is not None:
        report(str(given.state), given.state, given.steps, given.questions)
        return
    for fleet in given.fleet or list(LABS):
        with saved(fleet) as path:
            report(f"{fleet}, {LABS[fleet]} pods", path, given.steps, given.questions)


if __name__ == "__main__":
    main()
