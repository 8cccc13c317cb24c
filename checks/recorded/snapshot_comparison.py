"""Compares decisions of a real KAI with kailab's decisions on the same cluster, opened as a lab from two files of one
moment: kailab's snapshot, and the archive that KAI's scheduler offers.

``python -m checks.recorded.snapshot_comparison DIR [--first N] [-k EXPRESSION]``, where ``DIR`` is the folder of KAI's
programs. Each step of each recorded scenario is one comparison. KAI's scheduler is stopped (SIGSTOP), the step is
carried out, the two files are taken, and the scheduler continues. A second scheduler of the same KAI, with a period so
long that it decides nothing, offers the archive meanwhile.

The decisions of one cycle on each file are compared exactly with each other, and by app (pods that got a node, pods
that were evicted) with what KAI then did. If KAI needed several cycles, the settled states are compared.
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
    """By app: pods that got a node, and pods that were evicted."""

    placed: Counter[str]
    evicted: Counter[str]

    def __str__(self) -> str:
        texts = [f"{app} +{count}" for app, count in sorted(self.placed.items())]
        texts += [f"{app} -{count}" for app, count in sorted(self.evicted.items())]
        return ", ".join(texts) or "nothing"


class StepComparison(NamedTuple):
    """One step. ``kai``: what KAI did until it settled. ``cycles``: the decisions of the first cycle on kailab's
    snapshot and on KAI's archive. ``rests``: the changes until the opened labs settled.
    """

    step: str
    kai: AppChanges
    cycles: tuple[AppChanges, AppChanges]
    rests: tuple[AppChanges, AppChanges]
    same_decisions: bool

    @property
    def verdict(self) -> str:
        if all(changes == self.kai for changes in self.cycles):
            return "one cycle"
        return "at rest" if all(changes == self.kai for changes in self.rests) else "differs"

    def __str__(self) -> str:
        head = f"{self.verdict:<9} {self.step}: KAI {self.kai}"
        if self.verdict == "differs":
            pairs = zip(("snapshot", "archive"), self.cycles, self.rests, strict=True)
            head += "".join(f"; {name} one cycle {cycle}, at rest {rest}" for name, cycle, rest in pairs)
        return head if self.same_decisions else f"{head}; snapshot and archive are decided differently"


class _FirstCycle(Observer):
    """Records the decisions of the first cycle that decides anything."""

    wants_decisions = True

    def __init__(self) -> None:
        self.entries: list[Decision] = []

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        if not self.entries:
            self.entries = list(entries)

    def outcome(self) -> AppChanges:
        """The changes by app. A promise counts as placed, because KAI binds it in a later cycle; a victim that gets
        another place counts as evicted.
        """
        placed = Counter(entry.app for entry in self.entries if isinstance(entry, PodBound | PodPromised))
        return AppChanges(placed, Counter(entry.app for entry in self.entries if isinstance(entry, PodEvicted)))

    def comparable_decisions(self) -> list[tuple[str, ...]]:
        """The decisions without times and cycle numbers, which differ from lab to lab."""
        return sorted(
            (type(entry).__name__, entry.pod, "" if isinstance(entry, PodEvicted) else entry.node)
            for entry in self.entries
            if isinstance(entry, PodBound | PodPromised | PodEvicted)
        )


class _Pods:
    """The pods that have a node at a moment."""

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


def _settled(cluster: snapshot.ClusterSnapshot) -> tuple[_FirstCycle, AppChanges]:
    first = _FirstCycle()
    with opening.lab_of(cluster, [first]) as lab:
        before = _Pods(lab.cluster.list("Pod"))
        lab.settle()
        return first, _Pods(lab.cluster.list("Pod")).since(before)


class TwinBench:
    """A control plane with a real KAI, and a second scheduler (the twin) that offers the archive."""

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
        """Start the twin for a new lab, with the configuration of the deciding scheduler."""
        plane = self.venue.plane
        if any(process.name == TWIN for process in plane.processes()):
            return
        self._port, metrics = free_ports(2)
        known = next(process for process in plane._supervision.records() if process.name == SCHEDULER)
        mine = ("--plugin-server-port", "--listen-address", "--schedule-period")
        arguments = [part for part in known.argv if not part.startswith(mine)]
        plane.spawn(
            TWIN,
            [
                *arguments,
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
            snapshot.write_snapshot(path, taking.of_lab(lab), force=True)
            archive = self._folder / "kai.zip"
            archive.write_bytes(self._archive())
            before = _Pods(cluster.list("Pod"))
        finally:
            plane.kill(SCHEDULER, signal.SIGCONT)
        lab.settle()
        did = _Pods(cluster.list("Pod")).since(before)
        ours, ours_at_rest = _settled(opening.read_snapshot_source(path).snapshot)
        theirs, theirs_at_rest = _settled(opening.read_snapshot_source(archive).snapshot)
        return StepComparison(
            name,
            did,
            (ours.outcome(), theirs.outcome()),
            (ours_at_rest, theirs_at_rest),
            ours.comparable_decisions() == theirs.comparable_decisions(),
        )

    def _archive(self) -> bytes:
        """The twin's archive, once the twin has run its single cycle."""
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
    """Wait until nothing changes while KAI's scheduler is stopped, and all its pods have a PodGroup."""
    end, since, last = time.monotonic() + PATIENCE_SECONDS, time.monotonic(), ""
    while time.monotonic() < end:
        pods, groups = cluster.list("Pod"), cluster.list("PodGroup")
        seen = str(
            [(manifest["metadata"]["uid"], manifest["metadata"]["resourceVersion"]) for manifest in (*pods, *groups)]
        )
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
        chosen = [
            scenario_read
            for scenario_read in read_scenarios([shared_folder() / "scenarios"])
            if matches(scenario_read.name)
        ][options.skip :]
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
