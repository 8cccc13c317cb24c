"""``python -m benchmarks.forks``: what a fork of a large lab costs, and what is tried on forks: ``kailab explain`` of what waits, ``kailab
whatif`` and ``kailab simulate``.

The labs are those of ``benchmarks.labs``. Figures are seconds of processor time, the
least of several runs: of a command with the start of Python, of a fork in a process that holds the lab already, of the settling that
follows, in which the scheduler's records are made anew, and of one answer about each of four that wait, in a process that holds the lab
as a command does: a gang that no node holds, a Deployment beyond its queue's quota, a Job beyond its queue's fair share, and the queue
of the gang, in which much else waits.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from benchmarks.lab_runs.shapes import job
from benchmarks.labs import LABS, options, saved
from benchmarks.looks import processor_seconds
from kailab.lab import Lab
from kailab.lab.garbage import collector_off


def forks(path: Path, runs: int) -> tuple[float, float]:
    """Least seconds of a fork, and of its settling."""
    found = []
    with Lab.resume(path) as lab:
        lab.settle()
        for _ in range(runs):
            begun = time.process_time()
            fork = lab.fork()
            made = time.process_time()
            fork.settle()
            found.append((made - begun, time.process_time() - made))
            fork.close()
    return min(found)


def waiting(path: Path) -> list[tuple[str, str]]:
    """Kind and name of each that is asked about, as far as the lab has one."""
    with Lab.resume(path, read_only=True) as lab:
        names = [pod["metadata"]["name"] for pod in lab.get("Pod") if not pod["spec"].get("nodeName")]
    api = next((name.rsplit("-", 2)[0] for name in names if name.startswith("api-")), None)
    train = next((name.rsplit("-", 1)[0] for name in names if name.startswith("train-")), None)
    found = (("Job", "gang-0"), ("Deployment", api), ("Job", train), ("Queue", "team-0"))
    return [(kind, name) for kind, name in found if name is not None]


def answer(path: Path, kind: str, name: str) -> float:
    """Seconds of one answer, nothing of the lab having been looked at before."""
    with Lab.resume(path, read_only=True) as lab, collector_off():
        begun = time.process_time()
        lab.explain(kind, name)
        return time.process_time() - begun


def commands(path: Path) -> dict[str, list[str]]:
    new = path.with_name("new.json")
    new.write_text(json.dumps(job("new", "team-1", pods=8)))
    state = ["-o", "json", "--state", str(path)]
    with Lab.resume(path, read_only=True) as lab:
        node = next(pod["spec"]["nodeName"] for pod in lab.get("Pod") if pod["spec"].get("nodeName"))
    explains = {f"explain {kind} {name}": ["explain", kind, name, *state] for kind, name in waiting(path)}
    return {
        **explains,
        "whatif --set": ["whatif", "--set", "queue/team-1.gpu.quota=100", *state],
        "whatif --drain": ["whatif", "--drain", node, *state],
        "whatif --set --or --set": [
            "whatif", "--set", "queue/team-1.gpu.quota=100", "--or", "--set", "queue/team-1.gpu.quota=10", *state,
        ],
        "simulate": ["simulate", "-f", str(new), "--for", "0s", *state],
    }  # fmt: skip


def main() -> None:
    given = options("benchmarks.forks", __doc__, runs=2)
    for fleet in given.fleet:
        with saved(fleet) as path:
            print(f"{fleet}, {LABS[fleet]} pods")
            fork, settle = forks(path, given.runs)
            print(f"{'fork':<28} {fork:.2f} s, settling it {settle:.2f} s")
            for kind, name in waiting(path):
                seconds = min(answer(path, kind, name) for _ in range(given.runs))
                print(f"{'answer: ' + kind + ' ' + name:<28} {seconds:.2f} s")
            for name, command in commands(path).items():
                seconds = min(processor_seconds(command, check=False) for _ in range(given.runs))
                print(f"{name:<28} {seconds:.2f} s")


if __name__ == "__main__":
    main()
