"""Filling a cluster on a real API server: pods per second from submitted to bound, beside what the server can take at all.

Each pod asks for one GPU and is a PodGroup of its own. The rounds share one control plane, each from an empty cluster:

* *ceiling*: a bare client sends what a KAI-compatible fill can't do without (the pod, the PodGroup that grouping makes of it, a binding
  that carries the pod's annotations), side by side and as fast as the server takes it, knowing every answer beforehand, and watches pods
  as whoever looks on does in the other rounds; once before kailab's round and once after it, as a machine does not stay as fast as it was;
* *kailab*: its scheduler as a process; pods submitted as fast as the server takes them;
* *kai*: a real KAI, where its binaries are given; fewer pods, as it takes long.

Machines are noisy: only the ratios within one run mean something.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import psutil

from benchmarks.lab_runs import shapes
from benchmarks.lab_runs.measured import WrongOutcome
from benchmarks.lab_runs.scheduler_process import kailab_process
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.cluster.processes import ask_process, find_process
from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.writes import BindWrite, Chain, CreateWrite
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.family import GroupingConfig
from kailab.grouping.plans import PlanCache
from kailab.grouping.podgroup import podgroup_object
from kailab.lab.spec import fleet_of
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.model import labels
from kailab.scheduler.settings.config_file import settings_of
from kailab.undertest.kai.processes import PROCESS_NAMES
from kailab.undertest.kailab.processes import SCHEDULER
from kailab.undertest.selection import choose_scheduler

_UID = "uid-of-the-pod"
PATIENCE_SECONDS = 1200.0
LOOK_SECONDS = 0.25
KAI_PODS = 300
WARMING_PODS = 200
_CYCLE = re.compile(r" cycle \d+: [1-9]\d* bound, .* (\S+) s$", re.MULTILINE)
Tell = Callable[[str], None]
T = TypeVar("T")


class Round(NamedTuple):
    """``seconds``: from the first pod submitted to the last one bound. ``writes``: requests that change something, by all
    clients, from then until the cluster is quiet, by resource and verb. ``cpu``: seconds of processor time in ``seconds``, by
    process; ``client`` is who submits and looks on. ``memory``: bytes of the scheduler, after; 0 for the bare client.
    ``cycles``: seconds that each cycle that bound pods took, where the scheduler tells."""

    name: str
    pods: int
    seconds: float
    writes: dict[str, int]
    cpu: dict[str, float]
    memory: int
    cycles: tuple[float, ...] = ()

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pods": self.pods,
            "seconds": round(self.seconds, 3),
            "pods_per_second": round(self.pods_per_second, 1),
            "writes_per_pod": {name: round(count / self.pods, 3) for name, count in sorted(self.writes.items())},
            "cpu_ms_per_pod": {name: round(1000 * used / self.pods, 2) for name, used in self.cpu.items()},
            "memory_bytes": self.memory,
            "cycle_seconds": self.cycles,
        }


class LiveOutcome(NamedTuple):
    """The rounds of a run, in order."""

    backend: str
    fleet: str
    nodes: int
    gpus: int
    rounds: tuple[Round, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "benchmark": "fill",
            "backend": self.backend,
            "fleet": self.fleet,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "results": [one.as_dict() for one in self.rounds],
            "ratios": self.ratios(),
        }

    def ratios(self) -> dict[str, float]:
        """Kailab's pods per second against the others', in all their rounds."""
        speeds = {}
        for name in dict.fromkeys(one.name for one in self.rounds):
            mine = [one for one in self.rounds if one.name == name]
            speeds[name] = sum(one.pods for one in mine) / sum(one.seconds for one in mine)
        return {f"of {name}": round(speeds["kailab"] / speed, 3) for name, speed in speeds.items() if name != "kailab"}

    def text(self) -> str:
        lines = [f"fill on {self.fleet} ({self.backend}): {self.nodes} nodes, {self.gpus} GPUs"]
        for one in self.rounds:
            memory = f", {one.memory / 1024**2:,.0f} MiB" if one.memory else ""
            lines += [
                "",
                f"{one.name}: {one.pods:,} pods in {one.seconds:.1f} s, {one.pods_per_second:.0f} pods/s{memory}",
            ]
            lines += [f"  {name:<34} {count / one.pods:>7.2f} a pod" for name, count in sorted(one.writes.items())]
            if one.cycles:
                middle, longest = median(one.cycles), max(one.cycles)
                lines.append(f"  {len(one.cycles)} cycles that bound: median {middle:.2f} s, longest {longest:.2f} s")
            lines += [
                f"  {name:<34} {1000 * used / one.pods:>7.2f} ms of processor a pod" for name, used in one.cpu.items()
            ]
        lines.append("")
        lines += [f"kailab is {ratio:.2f} {name}" for name, ratio in self.ratios().items()]
        return "\n".join(lines)


def live_fill(
    fleet: str | Path | Fleet = "scale-500",
    jobs: int | None = None,
    backend: str = "controlplane",
    *,
    components: Path | None = None,
    kai: Path | None = None,
    kai_crds: Path | None = None,
    kai_pods: int = KAI_PODS,
    tell: Tell = lambda _: None,
) -> LiveOutcome:
    """``jobs``: pods, one per GPU of the fleet unless given. Raises InputError, WrongOutcome, ConnectError."""
    described = fleet_of(fleet)
    gpus = described.summary().gpus
    number = gpus if jobs is None else jobs
    if not 1 <= number <= gpus:
        raise InputError(f"{number} jobs: expected 1 to {gpus}, which fit on {described.name}")
    rounds = []
    venue = open_plane(backend, components=components, kai=kai, kai_crds=kai_crds, get=True, tell=tell)
    try:
        bench = _CellLab(venue, described, tell)
        bench.ceiling(min(number, WARMING_PODS))  # a server just started is slow, and would make the ceiling low
        rounds.append(bench.ceiling(number))
        rounds.append(bench.kailab(number))
        rounds.append(bench.ceiling(number))
        if kai is not None:
            rounds.append(bench.kai(min(number, kai_pods)))
    finally:
        venue.close()
    summary = described.summary()
    return LiveOutcome(backend, described.name, summary.nodes, gpus, tuple(rounds))


class _CellLab:
    def __init__(self, venue: PlaneVenue, fleet: Fleet, tell: Tell) -> None:
        self._venue = venue
        self._fleet = fleet
        self._tell = tell

    def ceiling(self, number: int) -> Round:
        self._furnish("kailab")  # which nobody runs: nothing but the bare client is at work
        cluster = self._venue.cluster
        nodes = self._slots()
        pods = _pods(number)
        groups = _podgroups(cluster, pods)
        watch = cluster.watch(("Pod",))
        self._tell(f"ceiling: {number} pods")
        before, used, begun = self._writes(), self._cpu(), time.perf_counter()
        outcomes = cluster.write_all([[CreateWrite(pod)] for pod in pods])
        outcomes += cluster.write_all(
            [
                _started(created.objects[0], group, node)
                for created, group, node in zip(outcomes, groups, nodes, strict=False)
                if created.error is None
            ]
        )
        watch.poll()
        seconds = time.perf_counter() - begun
        cpu = _spent(self._cpu(), used)
        watch.close()
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        if failed:
            raise WrongOutcome(f"the bare client failed {len(failed)} times: {failed[0]}")
        self._quiet()
        writes = _difference(self._writes(), before)
        self._venue.clear()
        return Round("ceiling", number, seconds, writes, cpu, 0)

    def kailab(self, number: int) -> Round:
        self._furnish("kailab")
        plane = self._venue.plane
        try:
            with kailab_process(plane, self._venue.cluster, election=False) as pid:
                done = self._filled("kailab", number, [pid])
            told = plane.log(SCHEDULER).read_text(errors="replace")
            return done._replace(cycles=tuple(float(seconds) for seconds in _CYCLE.findall(told)))
        finally:
            self._venue.clear()

    def kai(self, number: int) -> Round:
        self._furnish("kai")
        plane = self._venue.plane
        try:
            pids = [one.pid for one in plane.processes() if one.name in PROCESS_NAMES and one.running]
            return self._filled("kai", number, pids)
        finally:
            self._venue.clear()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _furnish(self, scheduler: str) -> None:
        self._tell(f"{scheduler}: an empty cluster")
        self._venue.furnish(self._fleet, choose_scheduler(scheduler), settings_of(None))
        for queue in (shapes.queue("bench"), shapes.queue("fill", "bench")):
            self._venue.cluster.apply(queue)

    def _slots(self) -> list[str]:
        """A node for each GPU of the cluster."""
        nodes = self._venue.cluster.list("Node")
        return [
            node["metadata"]["name"]
            for node in nodes
            for _ in range(int(node["status"]["allocatable"][labels.GPU_RESOURCE]))
        ]

    def _filled(self, name: str, number: int, pids: Sequence[int]) -> Round:
        # Submitted over a connection of its own, as users do, so that watching does not wait for it.
        cluster = self._venue.cluster
        watch = cluster.watch(("Pod",))
        watch.poll()
        submitter = KubernetesCluster(Connection.from_kubeconfig(self._plane_kubeconfig()), marks=cluster.marks)
        try:
            self._tell(f"{name}: {number} pods")
            before, used, begun = self._writes(), self._cpu(), time.perf_counter()
            failed = [o.error for o in submitter.write_all([[CreateWrite(pod)] for pod in _pods(number)]) if o.error]
            if failed:
                raise WrongOutcome(f"{len(failed)} pods were not taken: {failed[0]}")
            bound: set[str] = set()

            def all_bound() -> bool:
                for event in watch.poll():
                    if event.object["spec"].get("nodeName"):
                        bound.add(event.object["metadata"]["uid"])
                return len(bound) == number

            # Not at each piece of news: whoever looks on takes the processor from those who are measured.
            if not wait_until(all_bound, PATIENCE_SECONDS, LOOK_SECONDS):
                raise WrongOutcome(f"{name} bound {len(bound)} of {number} pods in {PATIENCE_SECONDS:.0f} s")
            seconds = time.perf_counter() - begun
            cpu = _spent(self._cpu(), used)
            self._quiet()
            writes = _difference(self._writes(), before)
            memory = _asked(pids, lambda process: process.memory_info().rss)
            if len(memory) < len(pids):
                raise WrongOutcome(f"{name} ended when it had bound {number} pods")
            return Round(name, number, seconds, writes, cpu, sum(memory.values()))
        finally:
            submitter.close()
            watch.close()

    def _plane_kubeconfig(self) -> Path:
        return self._venue.plane.kubeconfig

    def _quiet(self) -> None:
        """Until the API server has been written to by nobody for three seconds, but for heartbeats."""
        last = -1
        while (now := sum(self._writes().values())) != last:
            last = now
            self._venue.cluster.wait(0)
            time.sleep(3.0)

    def _cpu(self) -> dict[str, float]:
        """Seconds that each process has used so far."""
        plane = self._venue.plane
        names = {one.pid: one.name for one in plane.processes() if one.running} | {os.getpid(): "client"}
        used = _asked(names, lambda process: sum(process.cpu_times()[:2]))
        return {names[pid]: seconds for pid, seconds in used.items()}

    def _writes(self) -> dict[str, int]:
        """Requests that changed something, by verb and resource, from the API server's own metrics; without what goes on
        in an idle cluster."""
        answer = self._venue.cluster.raw("/metrics")
        found: dict[str, int] = {}
        for line in answer.splitlines():
            if not line.startswith("apiserver_request_total{"):
                continue
            parts = dict(
                part.split("=", 1) for part in line[line.index("{") + 1 : line.rindex("}")].split(",") if "=" in part
            )
            verb, resource = parts["verb"].strip('"'), parts["resource"].strip('"')
            if verb not in ("POST", "PUT", "PATCH", "DELETE", "APPLY") or resource in (
                "leases",
                "nodes",
                "",
                "subjectaccessreviews",
            ):
                continue
            sub = parts.get("subresource", '""').strip('"')
            name = f"{verb.lower()} {resource}" + (f"/{sub}" if sub else "")
            found[name] = found.get(name, 0) + int(float(line.rsplit(" ", 1)[1]))
        return found


def _asked(pids: Iterable[int], question: Callable[[psutil.Process], T]) -> dict[int, T]:
    """By process, without those that have ended."""
    found = {pid: ask_process(process, question) for pid in pids if (process := find_process(pid)) is not None}
    return {pid: answer for pid, answer in found.items() if answer is not None}


def _spent(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def _difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


def _pods(number: int) -> list[Object]:
    return [shapes.pod(f"fill-{index:06}", "fill") for index in range(number)]


def _podgroups(cluster: Cluster, pods: Sequence[Object]) -> list[str]:
    """The PodGroup that grouping makes of each pod, as JSON; ``_UID`` is in the place of the pod's UID, which the server gives it."""
    reads = ClusterReader(cluster)
    try:
        plans = PlanCache(reads, GroupingConfig())
        groupings = [plans.plan({**pod, "metadata": {**pod["metadata"], "uid": _UID}}, ())[0].grouping for pod in pods]
    finally:
        reads.close()
    return [json.dumps(podgroup_object(grouping)) for grouping in groupings]


def _started(pod: Object | None, group: str, node: str) -> Chain:
    """What a scheduler sends for a pod that is there."""
    assert pod is not None
    metadata = pod["metadata"]
    wanted = json.loads(group.replace(_UID, metadata["uid"]))
    notes = {labels.POD_GROUP: wanted["metadata"]["name"], labels.RECEIVED_RESOURCE_TYPE: "Regular"}
    return [CreateWrite(wanted), BindWrite(metadata["namespace"], metadata["name"], node, notes)]
