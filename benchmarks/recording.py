"""Measure the recording of a lab: the same work with and without a record, and the time to write and replay the record.

    python -m benchmarks.recording [fleet] [pods]

Each of the two labs runs in its own process. Times are seconds of processor time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.replay import replay_run
from kailab.evidence.run import RunFolder
from kailab.lab import Lab

QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {kind: {"quota": -1, "limit": -1} for kind in ("gpu", "cpu", "memory")}},
}
IN_EACH = 8


def job(number: int) -> dict[str, Any]:
    """A Job of eight pods with one GPU each."""
    container = {"name": "main", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "containers": [container],
    }
    template = {"metadata": {"labels": {"kai.scheduler/queue": "team"}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}"},
        "spec": {"parallelism": IN_EACH, "completions": IN_EACH, "template": template},
    }


def run(fleet: str, pods: int, recorded: bool) -> dict[str, float]:
    """Apply half of the pods at once and the other half in four parts; settle after each."""
    recorder = Recorder() if recorded else None
    jobs = [job(number) for number in range(pods // IN_EACH)]
    half = len(jobs) // 2
    with Lab.open(fleet, observers=() if recorder is None else [recorder]) as lab:
        began = time.process_time()
        lab.apply(QUEUE, jobs[:half])
        lab.settle()
        for part in range(4):
            lab.apply(jobs[half + part :: 4])
            lab.settle()
        figures = {"work": time.process_time() - began}
        running = sum(pod["status"]["phase"] == "Running" for pod in lab.get("Pod"))
        if running != len(jobs) * IN_EACH:
            raise SystemExit(f"{running} of {len(jobs) * IN_EACH} pods run")
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if recorder is not None:
        figures |= _write_and_replay(recorder)
    return figures


def _write_and_replay(recorder: Recorder) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as root:
        began = time.process_time()
        run = RunFolder.begin(root)
        folder = run.write(
            "bench", "recording", lambda folder: write_test(folder, "bench/recording", [recorder], "passed")
        )
        run.finish()
        written = time.process_time()
        figures = {
            "write": written - began,
            "cycles": sum(path.stat().st_size for path in folder.rglob("cycles.jsonl*")) / 1e6,
        }
        figures["size"] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
        replayed = replay_run(run.path)
        if not replayed.same:
            raise SystemExit(str(replayed))
        return {**figures, "replay": time.process_time() - written, "number": replayed.cycles}


def main() -> None:
    fleet = sys.argv[1] if len(sys.argv) > 1 else "scale-500"
    pods = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    if len(sys.argv) > 3:
        print(json.dumps(run(fleet, pods, sys.argv[3] == "recorded")))
        return
    sides = {}
    for side in ("plain", "recorded"):
        command = [sys.executable, "-m", "benchmarks.recording", fleet, str(pods), side]
        done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
        sides[side] = json.loads(done.stdout)
    plain, recorded = sides["plain"], sides["recorded"]
    print(f"{pods} pods, fleet {fleet}, {recorded['number']} cycles")
    print(
        f"work      {plain['work']:.2f} s plain, {recorded['work']:.2f} s recorded: {recorded['work'] / plain['work']:.2f}"
    )
    print(f"memory    {plain['memory']:.0f} MiB plain, {recorded['memory']:.0f} MiB recorded")
    print(
        f"write     {recorded['write']:.2f} s, {recorded['size']:.1f} MB, of which cycles {recorded['cycles']:.2f} MB"
    )
    print(f"replay    {recorded['replay']:.2f} s")


if __name__ == "__main__":
    main()
