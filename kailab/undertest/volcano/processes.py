"""Run Volcano from a user's folder of programs, with its CRDs in ``crds``: its scheduler, and the controllers that open queues.

Users bring the programs, because other modules can't build Volcano's: its API is a folder of its own repository. Volcano's webhooks
validate objects and set defaults; labs write whole objects and don't run them. Volcano is idle after whole scheduling cycles since the
last change.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.errors import InputError, Where
from kailab.model.private_files import make_folder, write_text
from kailab.undertest import programs
from kailab.undertest.binaries import locate_program, named_version, read_definitions
from kailab.undertest.contract import IdleDetector, Plane, StartSettings, Tell
from kailab.undertest.programs import (
    LocalProcesses,
    Program,
    check_programs,
    fetch_url,
    health_check,
    install_definitions,
    metrics_check,
    on_free_ports,
)
from kailab.undertest.volcano.messages import NAME

FOLDER_ENV = "KAILAB_VOLCANO_BIN"
PROGRAMS = ("scheduler", "controller-manager")
"""By their names in its source (cmd/)."""

_WHOLE = f"a Volcano consists of these programs in one folder: {', '.join(PROGRAMS)}"
_NEEDED = (
    "queues.scheduling.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "jobs.batch.volcano.sh",
    # Without the CRDs of job flows its controllers wait for ever and open no queue.
    "jobflows.flow.volcano.sh",
    "jobtemplates.flow.volcano.sh",
)
_VERSION_LINE = re.compile(r"^Version: (v\S+)", re.MULTILINE)
_VERSION_SECONDS = 60


@dataclass(frozen=True)
class VolcanoFolder:
    """``programs``: they exist, are executable and fit this platform. ``crds``: the CRD objects."""

    path: Path
    programs: Mapping[str, Path]
    crds: tuple[dict[str, Any], ...]

    def version(self) -> str:
        """As its scheduler reports it, else from the folder's name; "" if neither has it."""
        try:
            completed = subprocess.run(
                [self.programs["scheduler"], "--version"],
                capture_output=True, text=True, timeout=_VERSION_SECONDS, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return named_version(self.path)
        found = _VERSION_LINE.search(completed.stdout)
        return found[1] if found else named_version(self.path)


def find_volcano(given: Path | str | None = None) -> VolcanoFolder:
    """The Volcano in the given folder, else in ``KAILAB_VOLCANO_BIN``. Raises InputError, naming the file at fault."""
    text = str(given or os.environ.get(FOLDER_ENV) or "")
    if not text:
        raise InputError(
            f"the scheduler volcano needs the folder of its programs: volcano=DIR, or {FOLDER_ENV}. It holds "
            f"{' and '.join(PROGRAMS)}, and in crds/ the definitions of config/crd/volcano/bases and config/crd/jobflow/bases"
        )
    folder = Path(text).expanduser().absolute()
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "is not there"
        raise InputError(f"{problem}; expected the folder of Volcano's programs", Where(file=str(folder)))
    found = {name: locate_program(folder, name, _WHOLE) for name in PROGRAMS}
    return VolcanoFolder(folder, found, _crds(folder / "crds"))


def _crds(folder: Path) -> tuple[dict[str, Any], ...]:
    if not folder.is_dir():
        raise InputError("is not there; expected the folder of Volcano's CRDs", Where(file=str(folder)))
    found = read_definitions(folder)
    for name in _NEEDED:
        if name not in found:
            raise InputError(f"has no CRD {name}; a lab with Volcano needs it", Where(file=str(folder)))
    return tuple(found.values())


# --- idle detection ---------------------------------------------------------------------------------------------------

PROCESS_NAMES = ("volcano-scheduler", "volcano-controllers")
"""The names of the processes in the plane."""

CYCLES = "volcano_e2e_scheduling_latency_milliseconds_count"
_COUNT = re.compile(rf"^{CYCLES} (\S+)", re.MULTILINE)
# One cycle that may have begun before the change, and two whole ones; twice, because one cycle enqueues work and the next one places it.
_CYCLES = 5


class VolcanoIdleDetector:
    """``plane``: that runs Volcano."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._since: float | None = None

    def changed(self) -> None:
        """Record that something in the cluster has changed."""
        self._since = None

    def is_idle(self) -> bool:
        """Raises SchedulerFailed with the last lines of the log if a process has ended."""
        own = next((one for one in self._plane.processes() if one.name == PROCESS_NAMES[0]), None)
        if own is None or not own.running:
            check_programs(self._plane, PROCESS_NAMES)
            return True
        found = _COUNT.search(fetch_url(f"http://{LOOPBACK}:{own.port}/metrics")[0])
        if found is None:
            return False
        cycles = float(found[1])
        if self._since is None or cycles < self._since:
            self._since = cycles
        return cycles - self._since >= _CYCLES


# --- the processes ----------------------------------------------------------------------------------------------------

_FAST = ("--kube-api-qps=1000", "--kube-api-burst=2000")


class VolcanoProcesses(LocalProcesses):
    """``folder``: see ``find_volcano``, which checks it when it is first needed."""

    def __init__(self, plane: Plane, folder: Path | str | None = None) -> None:
        super().__init__(plane)
        self._given = folder

    @cached_property
    def _volcano(self) -> VolcanoFolder:
        return find_volcano(self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Apply its CRDs. Raises InputError for a folder without a Volcano."""
        install_definitions(cluster, self._volcano.crds, NAME)

    def start(self, cluster: Cluster, start: StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when its scheduler has completed a cycle. Raises InputError for a folder without a Volcano."""
        self.prepare(cluster)
        # A folder of its own, because the scheduler watches all of it, and in the plane's folder it would reload its file all the time.
        folder = Path(self._plane.folder) / "volcano-conf"
        make_folder(folder)
        conf = folder / "scheduler.conf"
        write_text(conf, yaml.safe_dump(configuration(), sort_keys=False))
        on_free_ports(lambda: programs.run_programs(self._plane, self._programs(conf)))

    def _programs(self, conf: Path) -> list[Program]:
        metrics, health, controllers, controllers_health = free_ports(4)
        common = (f"--kubeconfig={self._plane.kubeconfig}", "--leader-elect=false", "--enable-healthz=true", *_FAST)
        return [
            Program(
                PROCESS_NAMES[1],
                self._volcano.programs["controller-manager"],
                (*common, _at("listen-address", controllers), _at("healthz-address", controllers_health)),
                controllers_health,
                health_check(f"http://{LOOPBACK}:{controllers_health}/healthz"),
            ),
            Program(
                PROCESS_NAMES[0],
                self._volcano.programs["scheduler"],
                (
                    *common,
                    f"--scheduler-conf={conf}",
                    "--enable-metrics=true",
                    "--cache-dumper=false",
                    f"--plugins-dir={conf.parent}",
                    _at("listen-address", metrics),
                    _at("healthz-address", health),
                ),
                metrics,
                metrics_check(
                    f"http://{LOOPBACK}:{metrics}/metrics", rf"^{CYCLES} [1-9]", "its first cycle is not done"
                ),
            ),
        ]

    @property
    def names(self) -> Sequence[str]:
        return PROCESS_NAMES

    def version(self) -> str:
        return f"{NAME} {self._volcano.version() or 'unknown (neither its scheduler nor its folder says it)'}"

    def rest(self, cluster: Cluster) -> IdleDetector:
        return VolcanoIdleDetector(self._plane)


def configuration() -> dict[str, Any]:
    """As in the documents of its capacity plugin: with the tree of queues, and ``deserved`` enforced at every level."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    capacity = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 10}}
    second = [{"name": "predicates"}, capacity, {"name": "nodeorder"}, {"name": "binpack"}]
    actions = "enqueue, allocate, preempt, reclaim, backfill"
    return {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}


def _at(flag: str, port: int) -> str:
    return f"--{flag}={LOOPBACK}:{port}"
