"""Compares what a real KAI decides with what is decided on its cluster opened as a lab, from two files of one moment: kailab's
snapshot, and the archive that KAI's scheduler gives itself.

``python -m checks.recorded.snapshot_comparison DIR [--first N] [-k EXPRESSION]``, with ``DIR`` the folder of KAI's programs. Of each
recorded scenario each step is one comparison. KAI's scheduler is stopped (SIGSTOP), the step is carried out, the two files are taken,
and it goes on. A second scheduler of the same KAI, which looks so seldom that it decides nothing, gives the archive meanwhile.

Compared: what one cycle on each of the two decides, with each other exactly, and with what KAI then did, by app: pods that got a node,
pods that were evicted. Where KAI needed several cycles, what both came to at rest.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from checks.recorded.scenarios import read_scenarios
from checks.recorded.selection import matching
from checks.recorded_files import shared_folder
from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import KailabError
from kailab.evidence.entries import Decision, PodBound, PodEvicted, PodPromised
from kailab.lab import Lab
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.model import labels
from kailab.scenarios.scenario import Scenario
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer
from kailab.snapshots import opening, snapshot, taking

SCHEDULER, TWIN = "kai-scheduler", "kai-scheduler-twin"
QUIET_SECONDS, PATIENCE_SECONDS = 1.5, 60.0


class AppChanges(NamedTuple):
    """By app: pods that were given a node, and pods that were evicted."""

    placed: Counter[str]
    evicted: Counter[str]

    def __str__(self) -> str:
        told = [f"{app} +{count}" for app, count in sorted(self.placed.items())]
        told += [f"{app} -{count}" for app, count in sorted(self.evicted.items())]
        return ", ".join(told) or "nothing"


class StepComparison(NamedTuple):
    """One step. ``kai``: what it did until it came to rest. ``cycles``: what the first cycle decides on kailab's snapshot and on KAI's
    archive; ``rests``: how the opened labs come to rest."""

    step: str
    kai: AppChanges
    cycles: tuple[AppChanges, AppChanges]
    rests: tuple[AppChanges, AppChanges]
    same_decisions: bool

    @property
    def verdict(self) -> str:
        if all(one == self.kai for one in self.cycles):
            return "one cycle"
        return "at rest" if all(one == self.kai for one in self.rests) else "differs"

    def __str__(self) -> str:
        head = f"{self.verdict:<9} {self.step}: KAI {self.kai}"
        if self.verdict == "differs":
            pairs = zip(("snapshot", "archive"), self.cycles, self.rests, strict=True)
            head += "".join(f"; {name} one cycle {cycle}, at rest {rest}" for name, cycle, rest in pairs)
        return head if self.same_decisions else f"{head}; snapshot and archive are decided differently"


class _FirstCycle(Observer):
    """What the first cycle that decides anything decides."""

    wants_decisions = True

    def __init__(self) -> None:
        self.entries: list[Decision] = []

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        if not self.entries:
            self.entries = list(entries)

    def outcome(self) -> AppChanges:
        """A place that was promised is one that KAI gives in a later cycle; a victim that gets another place was evicted first."""
        placed = Counter(one.app for one in self.entries if isinstance(one, PodBound | PodPromised))
        return AppChanges(placed, Counter(one.app for one in self.entries if isinstance(one, PodEvicted)))

    def told(self) -> list[tuple[str, ...]]:
        """Without what is different from lab to lab: when, and in which cycle."""
        return sorted(
            (type(one).__name__, one.pod, "" if isinstance(one, PodEvicted) else one.node)
            for one in self.entries
            if isinstance(one, PodBound | PodPromised | PodEvicted)
        )


class _Pods:
    """Which pods have a node, at a moment."""

    def __init__(self, pods: Sequence[Object]) -> None:
        self.apps = {pod["metadata"]["uid"]: (pod["metadata"].get("labels") or {}).get("app", "") for pod in pods}
        self.placed = {
            pod["metadata"]["uid"]
            for pod in pods
            if pod["spec"].get("nodeName")
            and "deletionTimestamp" not in pod["metadata"]
            and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
        }

    def since(self, before: _Pods) -> AppChanges:
        apps = {**before.apps, **self.apps}
        placed = Counter(apps[uid] for uid in self.placed - before.placed if apps[uid])
        return AppChanges(placed, Counter(apps[uid] for uid in before.placed - self.placed if apps[uid]))


def _at_rest(found: snapshot.ClusterSnapshot) -> tuple[_FirstCycle, AppChanges]:
    first = _FirstCycle()
    with opening.lab_of(found, [first]) as lab:
        before = _Pods(lab.cluster.list("Pod"))
        lab.settle()
        return first, _Pods(lab.cluster.list("Pod")).since(before)


class TwinBench:
    """A control plane with a real KAI, and a twin of its scheduler that gives the archive."""

    def __init__(self, scheduler: str, components: str | None = None) -> None:
        self.scheduler = scheduler
        self.venue: PlaneVenue = open_plane("controlplane", scheduler=scheduler, get=False, components=components)
        self._folder = Path(tempfile.mkdtemp(prefix="kailab-opened-"))
        self._port = 0

    def close(self) -> None:
        self.venue.close()

    def compare(self, scenario: Scenario) -> Iterator[StepComparison]:
        with Lab.open(scenario.fleet, "controlplane", self.scheduler, venue=self.venue) as lab:
            self._start_twin()
            for number, step in enumerate(scenario.steps, 1):
                yield self._step(lab, f"{scenario.id} step {number}", step)

    def _start_twin(self) -> None:
        """Anew for each lab: its configuration is the deciding one's."""
        plane = self.venue.plane
        if any(one.name == TWIN for one in plane.processes()):
            return
        self._port, metrics = free_ports(2)
        known = next(one for one in plane._supervision.records() if one.name == SCHEDULER)
        mine = ("--plugin-server-port", "--listen-address", "--schedule-period")
        kept = [part for part in known.argv if not part.startswith(mine)]
        plane.spawn(
            TWIN,
            [
                *kept,
                f"--plugin-server-port={self._port}",
                f"--listen-address={LOOPBACK}:{metrics}",
                "--schedule-period=24h",
            ],
            known.environment,
        )
        self._archive()

    def _step(self, lab: Lab, name: str, step: Mapping[str, Any]) -> StepComparison:
        plane, cluster = self.venue.plane, lab.cluster
        plane.kill(SCHEDULER, signal.SIGSTOP)
        try:
            if "apply" in step:
                lab.apply(step["apply"])
            if "delete" in step:
                lab.delete(step["delete"]["kind"], step["delete"]["name"])
            _await_quiet(cluster)
            path = self._folder / "lab.snap"
            snapshot.write(path, taking.of_lab(lab), force=True)
            archive = self._folder / "kai.zip"
            archive.write_bytes(self._archive())
            before = _Pods(cluster.list("Pod"))
        finally:
            plane.kill(SCHEDULER, signal.SIGCONT)
        lab.settle()
        did = _Pods(cluster.list("Pod")).since(before)
        ours, ours_at_rest = _at_rest(opening.read(path).snapshot)
        theirs, theirs_at_rest = _at_rest(opening.read(archive).snapshot)
        return StepComparison(
            name,
            did,
            (ours.outcome(), theirs.outcome()),
            (ours_at_rest, theirs_at_rest),
            ours.told() == theirs.told(),
        )

    def _archive(self) -> bytes:
        """Waits for the twin to have been through its one cycle, from which on it answers."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with urllib.request.urlopen(
                    f"http://{LOOPBACK}:{self._port}/get-snapshot", timeout=PATIENCE_SECONDS
                ) as answer:
                    content: bytes = answer.read()
                    return content
            except (urllib.error.URLError, OSError):
                if time.monotonic() > end:
                    raise KailabError(
                        f"the second scheduler gives no snapshot; see {self.venue.plane.log(TWIN)}"
                    ) from None
                time.sleep(0.2)


def _await_quiet(cluster: Cluster) -> None:
    """Until nothing changes while KAI's scheduler is stopped, and all its pods have a PodGroup."""
    end, since, last = time.monotonic() + PATIENCE_SECONDS, time.monotonic(), ""
    while time.monotonic() < end:
        pods, groups = cluster.list("Pod"), cluster.list("PodGroup")
        seen = str([(one["metadata"]["uid"], one["metadata"]["resourceVersion"]) for one in (*pods, *groups)])
        if seen != last or not all(map(_is_grouped, pods)):
            last, since = seen, time.monotonic()
        elif time.monotonic() - since > QUIET_SECONDS:
            return
        time.sleep(0.1)


def _is_grouped(pod: Object) -> bool:
    mine = pod["spec"].get("schedulerName") == labels.SCHEDULER_NAME and "deletionTimestamp" not in pod["metadata"]
    return not mine or labels.POD_GROUP in (pod["metadata"].get("annotations") or {})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m checks.recorded.snapshot_comparison", description=__doc__)
    parser.add_argument("kai", metavar="DIR", help="the folder of KAI's programs")
    parser.add_argument("-k", dest="expression", default="", help="only scenarios whose name matches")
    parser.add_argument("--first", type=int, default=0, help="no more than this many scenarios")
    parser.add_argument("--skip", type=int, default=0, help="without the first so many")
    options = parser.parse_args(arguments)
    verdicts: Counter[str] = Counter()
    try:
        matches = matching(options.expression)
        chosen = [one for one in read_scenarios([shared_folder() / "scenarios"]) if matches(one.name)][options.skip :]
        bench = TwinBench(f"kai={options.kai}")
        try:
            for scenario in chosen[: options.first or None]:
                for compared in bench.compare(scenario):
                    verdicts[compared.verdict] += 1
                    print(compared, flush=True)
        finally:
            bench.close()
    except KailabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    return 1 if verdicts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
