"""How long an urgent pod waits that comes while thousands of others are bound, on a control plane.

    python -m benchmarks.urgent [--fleet scale-500] [--jobs 4000] [--urgent 100] [--every 0.25]

One-GPU pods are there before the scheduler begins; while it binds them, pods of another queue come one by one, over a connection of
their own. Told are the times from creation until bound, those of pods that came before the last of the others was bound by themselves,
and the processor seconds that each process used meanwhile. It says something on a quiet machine only.
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
from kailab.cluster.processes import ask, find
from kailab.cluster.writes import CreateWrite
from kailab.errors import KailabError
from kailab.lab.spec import fleet_of
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.scheduler import settings_of
from kailab.undertest.selection import choose_scheduler

PATIENCE_SECONDS = 600.0
WAIT_SECONDS = 0.02


class Run:
    """One run on an open control plane. ``bound``: pod -> when it was seen bound; ``came``: urgent pod -> when it was created."""

    def __init__(self, venue: PlaneVenue, jobs: int, urgent: int, every: float) -> None:
        self._venue = venue
        self._jobs, self._urgent, self._every = jobs, urgent, every
        self.bound: dict[str, float] = {}
        self.came: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def fill(self) -> None:
        """Have all that are not urgent there."""
        cluster = self._connected()
        try:
            made = cluster.write_all([[CreateWrite(shapes.pod(f"fill-{n:06}", "fill"))] for n in range(self._jobs)])
        finally:
            cluster.close()
        refused = [one.error for one in made if one.error is not None]
        if refused:
            raise refused[0]

    def watch(self) -> None:
        """Run the scheduler and let urgent pods come until all are bound. Raises KailabError where they are not in time."""
        user, look = self._connected(), self._connected()
        watch = look.watch(("Pod",))
        watch.poll()
        try:
            with kailab_process(self._venue.plane, self._venue.cluster, election=False):
                before, begun = self._used(), time.perf_counter()
                coming = begun + 1.0
                while len(self.bound) < self._jobs + self._urgent:
                    if len(self.came) < self._urgent and time.perf_counter() >= coming:
                        name = f"urgent-{len(self.came):04}"
                        self.came[name] = time.perf_counter()
                        user.create(shapes.pod(name, "urgent"))
                        coming = max(coming + self._every, time.perf_counter())
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
        ended = max(when for name, when in self.bound.items() if name not in self.came)
        waits = {name: self.bound[name] - came for name, came in self.came.items()}
        during = [waits[name] for name, came in self.came.items() if came < ended]
        lines = [
            _told("urgent pods", waits.values()),
            _told("of them during the fill", during),
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
        names = {one.pid: one.name for one in self._venue.plane.processes() if one.running} | {os.getpid(): "client"}
        found: dict[str, float] = {}
        for pid, name in names.items():
            process = find(pid)
            seconds = None if process is None else ask(process, lambda one: sum(one.cpu_times()[:2]))
            if seconds is not None:
                found[name] = seconds
        return found


def _told(what: str, waits: Iterable[float]) -> str:
    found = sorted(waits)
    if not found:
        return f"{what}: none"
    return (
        f"{what}: {len(found)}, bound after {_part(found, 50):.2f} s (median), {_part(found, 99):.2f} s (99 of 100), "
        f"{found[-1]:.2f} s (longest)"
    )


def _part(found: Sequence[float], percent: int) -> float:
    return found[max(0, -(-len(found) * percent // 100) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.urgent", description=__doc__)
    parser.add_argument("--fleet", default="scale-500")
    parser.add_argument("--jobs", type=int, default=3_900)
    parser.add_argument("--urgent", type=int, default=100)
    parser.add_argument("--every", type=float, default=0.25, help="seconds between urgent pods")
    parser.add_argument("--components", type=Path)
    given = parser.parse_args()
    fleet = fleet_of(given.fleet)
    if not given.urgent >= 1 or not 1 <= given.jobs <= fleet.summary().gpus - given.urgent:
        parser.error(
            f"expected 1 pod or more of both, and no more than the {fleet.summary().gpus} GPUs of {fleet.name} in all"
        )
    try:
        venue = open_plane("controlplane", components=given.components, kai=None, kai_crds=None, get=True, tell=_tell)
        try:
            venue.furnish(fleet, choose_scheduler("kailab"), settings_of(None))
            for queue in (shapes.queue("bench"), shapes.queue("fill", "bench"), shapes.queue("urgent", "bench")):
                venue.cluster.apply(queue)
            run = Run(venue, given.jobs, given.urgent, given.every)
            run.fill()
            run.watch()
        finally:
            venue.close()
    except KailabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{given.jobs:,} pods on {fleet.name}, and an urgent one every {given.every:g} s")
    print(run.text())
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
