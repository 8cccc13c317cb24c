"""``python -m benchmarks.looks``: measure commands that read one object of a large lab in a file.

A lab of 5,000 nodes with 40,000 pods of Deployments and Jobs, a tenth of them waiting, is saved, and each command runs as a process. Results are
seconds of processor time, including the start of Python; the least of several runs.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.lab_runs.shapes import job, queue
from kailab.lab import Lab
from kailab.model import labels

QUEUES = 20
REPLICAS = 32


def deployment(name: str, queue_name: str, gpus: int) -> dict[str, Any]:
    """A Deployment of ``REPLICAS`` pods. It is inference, so it is non-preemptible and runs only within the quota."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name, labels.QUEUE: queue_name}},
                "spec": {
                    "schedulerName": labels.SCHEDULER_NAME,
                    "containers": [
                        {"name": "main", "image": "serve", "resources": {"limits": {labels.GPU_RESOURCE: gpus}}}
                    ],
                },
            },
        },
    }


def work(pods: int, gpus: int) -> Iterator[dict[str, Any]]:
    """Queues that share ``gpus``, and ``pods`` that request somewhat more than that."""
    for number in range(QUEUES):
        yield queue(f"team-{number}", quota=gpus / QUEUES)
    workloads = pods // REPLICAS
    for number in range(workloads):
        if number % 7 < 5:
            yield deployment(f"api-{number}", f"team-{number % QUEUES}", 1 + (number % 5 == 0))
        else:
            yield job(f"train-{number}", f"team-{number % 7}", pods=REPLICAS)


def processor_seconds(command: list[str], *, check: bool = True) -> float:
    """User and system time of a command. With ``check``, it must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "kailab", *command], check=check, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks.looks", description=__doc__)
    options.add_argument("--fleet", default="scale-5000")
    options.add_argument("--pods", type=int, default=40_000)
    options.add_argument("--runs", type=int, default=3)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "lab.state"
        with Lab.open(arguments.fleet) as lab:
            lab.apply(list(work(arguments.pods, lab.facts()["gpus"])))
            lab.settle()
            lab.save(state)
            waiting = next(pod["metadata"]["name"] for pod in lab.get("Pod") if not pod["spec"].get("nodeName"))
            commands = [
                ["status"],
                ["get", "queues"],
                ["get", "pod", waiting],
                ["get", "deployment", "api-0"],
                ["explain", "queue", "team-1"],
                ["explain", "pod", waiting],
                ["explain", "deployment", "api-0"],
            ]
        print(f"state file: {state.stat().st_size / 2**20:.1f} MiB")
        for words in commands:
            command = [*words, "--state", str(state)]
            print(f"{' '.join(words[:2]):<22} {min(processor_seconds(command) for _ in range(arguments.runs)):.2f} s")


if __name__ == "__main__":
    main()
