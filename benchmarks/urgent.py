"""Measure how long an urgent pod waits while thousands of others are being bound, on a control plane.

    python -m benchmarks.urgent [--fleet scale-500] [--jobs 4000] [--urgent 100] [--every 0.25]

One-GPU pods exist before the scheduler starts. While it binds them, pods of another queue are created one by one over a separate connection. The
output has the times from creation to binding, of all urgent pods and of those that were created before the last other pod was bound, and the
processor seconds of each process. The results are meaningful only on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.scheduler_process import kailab_process
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.processes import ask_process, find_process
from kailab.cluster.writes import CreateWrite
from kailab.errors import KailabError
from kailab.lab.spec import fleet_of
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.selection import choose_scheduler

PATIENCE_SECONDS = 600.0
WAIT_SECONDS = 0.02


class UrgentRun:
    """A run on an open control plane. ``bound``: pod -> time at which it was seen bound; ``created``: urgent pod -> time of its creation."""

    def __init__(self, venue: PlaneVenue, jobs: int, urgent: int, every: float) -> None:
        self._venue = venue
        self._jobs, self._urgent, self._every = jobs, urgent, every
        self.bound: dict[str, float] = {}
        self.created: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def fill(self) -> None:
        """Create all pods that are not urgent."""
        cluster = self._connected()
        try:
            made = cluster.write_all([[CreateWrite(shapes.pod(f"fill-{n:06}", "fill"))] for n in range(self._jobs)])
        finally:
            cluster.close()
        refused = [one.error for one in made if one.error is not None]
        if refused:
            raise refused[0]

    def watch(self) -> None:
        """Run the scheduler and create urgent pods until all pods are bound. Raises KailabError if that takes too long."""
        user, look = self._connected(), self._connected()
        watch = look.watch(("Pod",))
        watch.poll()
        try:
            with kailab_process(self._venue.plane, self._venue.cluster, election=False):
                before, begun = self._used(), time.perf_counter()
                next_creation = begun + 1.0
                while len(self.bound) < self._jobs + self._urgent:
                    if len(self.created) < self._urgent and time.perf_counter() >= next_creation:
                        name = f"urgent-{len(self.created):04}"
                        self.created[name] = time.perf_counter()
                        user.create(shapes.pod(name, "urgent"))
                        next_creation = max(next_creation + self._every, time.perf_counter())
                    for event in watch.poll():
                        if event.object["spec"].get("nodeName"):
                            self.bound.setdefault(event.object["metadata"]["name"], time.perf_counter())
                    look.wait(WAIT_SECONDS)
                    if time.perf_counter() - begun > PATIENCE_SECONDS:
                        raise KailabError(f"{len(self.bound)} pods were bound in {PATIENCE_SECONDS:.0f} s")
                used = self._used()
                self.cpu = {name: seconds - before.get(name, 0.0) for name, seconds in used.items()}
        finally:
            watch.close()
            user.close()
            look.close()

    def text(self) -> str:
        ended = max(when for name, when in self.bound.items() if name not in self.created)
        waits = {name: self.bound[name] - created for name, created in self.created.items()}
        during = [waits[name] for name, created in self.created.items() if created < ended]
        lines = [
            _percentiles("urgent pods", waits.values()),
            _percentiles("of them during the fill", during),
            "processor seconds meanwhile:",
        ]
        lines += [
            f"  {name:<28} {seconds:>8.1f}" for name, seconds in sorted(self.cpu.items(), key=lambda one: -one[1])
        ]
        return "\n".join(lines)

    def _connected(self) -> KubernetesCluster:
        connection = Connection.from_kubeconfig(self._venue.plane.kubeconfig)
        return KubernetesCluster(connection, marks=self._venue.cluster.marks)

    def _used(self) -> dict[str, float]:
        names = {process_.pid: process_.name for process_ in self._venue.plane.processes() if process_.running} | {
            os.getpid(): "client"
        }
        seconds_by_process: dict[str, float] = {}
        for pid, name in names.items():
            process = find_process(pid)
            seconds = None if process is None else ask_process(process, lambda process_: sum(process_.cpu_times()[:2]))
            if seconds is not None:
                seconds_by_process[name] = seconds
        return seconds_by_process


def _percentiles(subject: str, waits: Iterable[float]) -> str:
    ordered = sorted(waits)
    if not ordered:
        return f"{subject}: none"
    return (
        f"{subject}: {len(ordered)}, bound after {_percentile(ordered, 50):.2f} s (median), {_percentile(ordered, 99):.2f} s (99 of 100), "
        f"{ordered[-1]:.2f} s (longest)"
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.urgent", description=__doc__)
    parser.add_argument("--fleet", default="scale-500")
    parser.add_argument("--jobs", type=int, default=3_900)
    parser.add_argument("--urgent", type=int, default=100)
    parser.add_argument("--every", type=float, default=0.25, help="seconds between urgent pods")
    parser.add_argument("--components", type=Path)
    arguments = parser.parse_args()
    fleet = fleet_of(arguments.fleet)
    if not arguments.urgent >= 1 or not 1 <= arguments.jobs <= fleet.summary().gpus - arguments.urgent:
        parser.error(
            f"expected 1 pod or more of both, and no more than the {fleet.summary().gpus} GPUs of {fleet.name} in all"
        )
    try:
        venue = open_plane(
            "controlplane", components=arguments.components, kai=None, kai_crds=None, get=True, tell=_tell
        )
        try:
            venue.furnish(fleet, choose_scheduler("kailab"), settings_of(None))
            for queue in (shapes.queue("bench"), shapes.queue("fill", "bench"), shapes.queue("urgent", "bench")):
                venue.cluster.apply(queue)
            run = UrgentRun(venue, arguments.jobs, arguments.urgent, arguments.every)
            run.fill()
            run.watch()
        finally:
            venue.close()
    except KailabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{arguments.jobs:,} pods on {fleet.name}, and an urgent one every {arguments.every:g} s")
    print(run.text())
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
