"""A lab left alone under steady work: jobs arrive, finish, are reclaimed, for as long as asked. What is looked for is growth.

Two teams with half of the fleet each. The first always asks for more than its half, in pods that end after some seconds; the
second comes and goes, each time reclaiming what it owns. Whatever has ended is deleted, so the cluster holds about as much at
the end as after the first minutes: so must the scheduler's memory, its threads and files, and the watches on the server.
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
from benchmarks.lab_runs.scheduler_process import kailab_process
from benchmarks.lab_runs.timed_lab import WrongOutcome
from kailab.cluster.controlplane.supervision import log_tail
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.cluster.processes import ask, find
from kailab.cluster.writes import CreateWrite, DeleteWrite
from kailab.fleet import Fleet
from kailab.lab.spec import fleet_of
from kailab.lab.venues.plane import open_plane
from kailab.model import labels
from kailab.scheduler import settings_of
from kailab.undertest.kailab.processes import SCHEDULER
from kailab.undertest.selection import choose_scheduler

TURN_SECONDS = 1.0
OWNER_PERIOD_SECONDS = 60.0
_WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*verb="WATCH".*\} (\S+)$', re.MULTILINE)
Tell = Callable[[str], None]


class Sample(NamedTuple):
    """At one moment: seconds since the beginning; of the scheduler: bytes of memory, threads, open files; watches on the
    server; pods and PodGroups there are; pods that have come, ended and been evicted so far."""

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
    """The samples of a run, through which the scheduler lived as one process."""

    fleet: str
    seconds: float
    samples: tuple[Sample, ...]

    def thirds(self) -> tuple[dict[str, float], dict[str, float]]:
        """Medians of the second and of the last third of the time, by what was measured; the first is warming up."""
        third = self.seconds / 3
        parts = (
            [s for s in self.samples if third <= s.seconds < 2 * third],
            [s for s in self.samples if s.seconds >= 2 * third],
        )
        middle, last = ({name: median(getattr(s, name) for s in part) for name in Sample._fields} for part in parts)
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
            f"churn on {self.fleet}: {self.seconds / 60:.1f} min, {end.arrived:,} pods came, {end.ended:,} ended by themselves, "
            f"{end.evicted:,} were evicted; the scheduler lived on",
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
    """``every``: seconds between samples. Raises ConnectError and what the backend raises; WrongOutcome if the scheduler ends."""
    described = fleet_of(fleet)
    venue = open_plane(backend, components=components, get=True, tell=tell)
    try:
        venue.furnish(described, choose_scheduler("kailab"), settings_of(None))
        with kailab_process(venue.plane, venue.cluster) as pid:
            scheduler = find(pid)
            if scheduler is None:
                raise _ended(venue.plane, 0.0)
            work = _Work(venue.cluster, described.summary().gpus, random.Random(seed))
            samples: list[Sample] = []
            begun = time.monotonic()
            while (passed := time.monotonic() - begun) < seconds:
                work.turn(passed)
                if not samples or passed - samples[-1].seconds >= every:
                    used = ask(scheduler, _use)
                    if used is None:
                        raise _ended(venue.plane, passed)
                    samples.append(_sample(venue.cluster, passed, used, work))
                    tell(f"{passed:.0f} of {seconds:.0f} s, {work.arrived} pods came")
                time.sleep(max(0.0, TURN_SECONDS - (time.monotonic() - begun - passed)))
            return Churned(described.name, seconds, tuple(samples))
    finally:
        venue.close()


def _ended(plane: Any, seconds: float) -> WrongOutcome:
    return WrongOutcome(f"the scheduler ended after {seconds:.0f} s; its last words:\n{log_tail(plane.log(SCHEDULER))}")


def _use(process: psutil.Process) -> tuple[int, int, int]:
    """Bytes of memory, threads, open files."""
    return process.memory_info().rss, process.num_threads(), process.num_fds()


def _sample(cluster: KubernetesCluster, seconds: float, used: tuple[int, int, int], work: _Work) -> Sample:
    memory, threads, files = used
    watches = sum(float(count) for count in _WATCHES.findall(cluster.raw("/metrics")))
    return Sample(
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
    """What comes and goes."""

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
        """Clear away what ended, and have each team ask for what it wants now."""
        pods = self._cluster.list("Pod", "default")
        done = [pod for pod in pods if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")]
        self.ended += len(done)
        # Nothing else takes pods away here: counting what is gone misses none, however slowly we look.
        self.evicted = self.arrived - self.ended - (len(pods) - len(done))
        self._cluster.write_all([[DeleteWrite("Pod", pod["metadata"]["name"], "default", 0)] for pod in done])
        there = {"borrower": 0, "owner": 0}
        for pod in pods:
            if pod not in done and "deletionTimestamp" not in pod["metadata"]:
                there[pod["metadata"]["labels"][labels.QUEUE]] += 1
        present = (seconds // OWNER_PERIOD_SECONDS) % 2 == 1
        wanted = {"borrower": self._gpus + 8, "owner": self._gpus // 2 if present else 0}
        for queue, number in wanted.items():
            self._bring(queue, min(number - there[queue], 12))

    def _bring(self, queue: str, number: int) -> None:
        pods = []
        for _ in range(max(0, number)):
            self.arrived += 1
            notes = {labels.RUN_SECONDS: str(self._chance.randint(5, 40))}
            pods.append(shapes.pod(f"{queue}-{self.arrived:06}", queue, app="work", annotations=notes))
        self._cluster.write_all([[CreateWrite(pod)] for pod in pods])
