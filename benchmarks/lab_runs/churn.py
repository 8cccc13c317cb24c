"""Run a lab under steady load for a given time, to find growth of memory, threads, files or watches.

Two teams own half of the fleet each. The first always requests more than its half, in pods that end after some seconds; the second comes and goes
and reclaims its half each time. Ended pods are deleted, so the cluster stays at about the same size after the first minutes. So must the scheduler's
memory, its threads and files, and the watches on the server.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import WrongOutcome
from benchmarks.lab_runs.scheduler_process import kailab_process
from kailab.cluster.controlplane.supervision import log_tail
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.processes import ask_process, find_process
from kailab.cluster.writes import CreateWrite, DeleteWrite
from kailab.fleet.fleet import Fleet
from kailab.lab.spec import fleet_of
from kailab.lab.venues.plane import open_plane
from kailab.model import labels
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.kailab.processes import SCHEDULER
from kailab.undertest.selection import choose_scheduler

TURN_SECONDS = 1.0
OWNER_PERIOD_SECONDS = 60.0
_WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\S+)$', re.MULTILINE)
Tell = Callable[[str], None]


class ChurnSample(NamedTuple):
    """One moment: seconds since the start; memory in bytes, threads and open files of the scheduler; watches on the server; present pods and PodGroups;
    pods that have arrived, ended and been evicted so far."""

    seconds: float
    memory: int
    threads: int
    files: int
    watches: int
    pods: int
    podgroups: int
    arrived: int
    ended: int
    evicted: int


class Churned(NamedTuple):
    """The samples of a run with a single scheduler process."""

    fleet: str
    seconds: float
    samples: tuple[ChurnSample, ...]

    def thirds(self) -> tuple[dict[str, float], dict[str, float]]:
        """Medians of the second and of the last third of the time, by name; the first third is warm-up."""
        third = self.seconds / 3
        parts = (
            [s for s in self.samples if third <= s.seconds < 2 * third],
            [s for s in self.samples if s.seconds >= 2 * third],
        )
        middle, last = (
            {name: median(getattr(s, name) for s in part) for name in ChurnSample._fields} for part in parts
        )
        return middle, last

    def as_dict(self) -> dict[str, Any]:
        middle, last = self.thirds()
        return {
            "benchmark": "churn",
            "fleet": self.fleet,
            "seconds": round(self.seconds, 1),
            "middle_third": middle,
            "last_third": last,
            "samples": [sample._asdict() for sample in self.samples],
        }

    def text(self) -> str:
        middle, last = self.thirds()
        end = self.samples[-1]
        lines = [
            f"churn on {self.fleet}: {self.seconds / 60:.1f} min, {end.arrived:,} pods arrived, {end.ended:,} ended by themselves, "
            f"{end.evicted:,} were evicted; the scheduler kept running",
            "",
            f"{'':<26}{'middle third':>14}{'last third':>14}",
        ]
        shown: tuple[tuple[str, str, Callable[[float], str]], ...] = (
            ("memory", "memory", lambda value: f"{value / 1024**2:.1f} MiB"),
            ("threads", "threads", lambda value: f"{value:g}"),
            ("open files", "files", lambda value: f"{value:g}"),
            ("watches on the server", "watches", lambda value: f"{value:g}"),
            ("pods", "pods", lambda value: f"{value:g}"),
            ("PodGroups", "podgroups", lambda value: f"{value:g}"),
        )
        lines += [f"{what:<26}{form(middle[name]):>14}{form(last[name]):>14}" for what, name, form in shown]
        return "\n".join(lines)


def churn(
    seconds: float,
    fleet: str | Path | Fleet = "lesson",
    backend: str = "controlplane",
    *,
    components: Path | None = None,
    every: float = 15.0,
    seed: int = 1,
    tell: Tell = lambda _: None,
) -> Churned:
    """Run the load. ``every``: seconds between samples. Raises ConnectError, the errors of the backend, and WrongOutcome if the scheduler ends."""
    described = fleet_of(fleet)
    venue = open_plane(backend, components=components, get=True, tell=tell)
    try:
        venue.furnish(described, choose_scheduler("kailab"), settings_of(None))
        with kailab_process(venue.plane, venue.cluster) as pid:
            scheduler = find_process(pid)
            if scheduler is None:
                raise _ended(venue.plane, 0.0)
            work = _Work(venue.cluster, described.summary().gpus, random.Random(seed))
            samples: list[ChurnSample] = []
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds:
                work.turn(passed)
                if not samples or passed - samples[-1].seconds >= every:
                    used = ask_process(scheduler, _use)
                    if used is None:
                        raise _ended(venue.plane, passed)
                    samples.append(_sample(venue.cluster, passed, used, work))
                    tell(f"{passed:.0f} of {seconds:.0f} s, {work.arrived} pods arrived")
                time.sleep(max(0.0, TURN_SECONDS - (time.monotonic() - begun - passed)))
            return Churned(described.name, seconds, tuple(samples))
    finally:
        venue.close()


def _ended(plane: Any, seconds: float) -> WrongOutcome:
    return WrongOutcome(f"the scheduler ended after {seconds:.0f} s; its last words:\n{log_tail(plane.log(SCHEDULER))}")


def _use(process: psutil.Process) -> tuple[int, int, int]:
    """Bytes of memory, threads, open files."""
    return process.memory_info().rss, process.num_threads(), process.num_fds()


def _sample(cluster: KubernetesCluster, seconds: float, used: tuple[int, int, int], work: _Work) -> ChurnSample:
    memory, threads, files = used
    watches = sum(float(count) for count in _WATCHES.findall(cluster.raw("/metrics")))
    return ChurnSample(
        seconds=round(seconds, 1),
        memory=memory,
        threads=threads,
        files=files,
        watches=int(watches),
        pods=len(cluster.list("Pod", "default")),
        podgroups=len(cluster.list("PodGroup", "default")),
        arrived=work.arrived,
        ended=work.ended,
        evicted=work.evicted,
    )


class _Work:
    """The pods of the two teams."""

    def __init__(self, cluster: KubernetesCluster, gpus: int, chance: random.Random) -> None:
        self._cluster = cluster
        self._gpus = gpus
        self._chance = chance
        self.arrived = self.ended = self.evicted = 0
        half = gpus / 2
        for queue in (
            shapes.queue("org"),
            shapes.queue("borrower", "org", quota=half),
            shapes.queue("owner", "org", quota=half),
        ):
            cluster.apply(queue)

    def turn(self, seconds: float) -> None:
        """Delete ended pods and create those that each team wants now."""
        pods = self._cluster.list("Pod", "default")
        ended_pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
        self.ended += len(ended_pods)
        # No other process deletes pods, so the count of missing pods is the number of evictions.
        self.evicted = self.arrived - self.ended - (len(pods) - len(ended_pods))
        self._cluster.write_all([[DeleteWrite("Pod", pod["metadata"]["name"], "default", 0)] for pod in ended_pods])
        present_pods = {"borrower": 0, "owner": 0}
        for pod in pods:
            if pod not in ended_pods and "deletionTimestamp" not in pod["metadata"]:
                present_pods[pod["metadata"]["labels"][labels.QUEUE]] += 1
        present = (seconds // OWNER_PERIOD_SECONDS) % 2 == 1
        desired = {"borrower": self._gpus + 8, "owner": self._gpus // 2 if present else 0}
        for queue, number in desired.items():
            self._bring(queue, min(number - present_pods[queue], 12))

    def _bring(self, queue: str, number: int) -> None:
        pods = []
        for _ in range(max(0, number)):
            self.arrived += 1
            notes = {labels.RUN_SECONDS: str(self._chance.randint(5, 40))}
            pods.append(shapes.pod(f"{queue}-{self.arrived:06}", queue, app="work", annotations=notes))
        self._cluster.write_all([[CreateWrite(pod)] for pod in pods])
