"""Volcano as a scheduler under test: a user's folder of its programs, with its CRDs in ``crds``, as processes beside a plane.

A queue is a Volcano queue in the same tree: quota is ``deserved``, limit is ``capability``. A gang is a PodGroup that its pods name;
Volcano's controller creates one for other work. Non-preemptible work is marked as not preemptable; Volcano can't restrict it to its
quota.

Users bring the programs (its scheduler, and the controllers that open queues), because Volcano can't be built as a Go dependency: its API is a
folder of its own repository. Volcano's webhooks validate objects and set defaults; labs write whole objects and don't run them. Volcano
is idle after whole scheduling cycles since the last change.

Source of its names and conditions: staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1 and pkg/scheduler/cache of Volcano.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from kailab.cluster.controlplane.ports import LOOPBACK, free_ports
from kailab.cluster.protocol import Cluster
from kailab.engine.snapshot.records import UNLIMITED, Queue
from kailab.errors import InputError, Where
from kailab.model.callbacks import Tell
from kailab.model.kinds import kind_key
from kailab.model.manifests import object_name
from kailab.model.objects import Object, name_of
from kailab.model.private_files import make_folder, write_text
from kailab.undertest import contract, programs, translation
from kailab.undertest.binaries import check_folder, given_path, locate_program, named_version, read_definitions

if TYPE_CHECKING:
    from kailab.components import ComponentSet


NAME = "volcano"
SCHEDULER_NAME = "volcano"
API_VERSION = "scheduling.volcano.sh/v1beta1"
ROOT = "root"

QUEUE = "scheduling.volcano.sh/queue-name"
GROUP = "scheduling.k8s.io/group-name"
PREEMPTABLE = "volcano.sh/preemptable"

_PREEMPTED = f"{SCHEDULER_NAME}: preempting to accommodate a higher priority pod"


# --- translation ------------------------------------------------------------------------------------------------------


class _Translation:
    def __init__(self, queues: translation.AppliedQueues, reading: translation.WorkReader) -> None:
        self._queues = queues
        self._reading = reading
        self._gangs: set[tuple[str, str]] = set()

    def of(self, obj: Object) -> Iterator[Object]:
        kind = kind_key(obj)
        works = [self._reading.of_group(obj)] if kind == "PodGroup" else self._reading.of(obj)
        for work in works:
            self._queues.check_work(work.queue, NAME, object_name(obj))
        # Before its pods, because a controller would create a PodGroup for each of them.
        for work in works:
            yield from self._gang(work)
        if kind == "Queue":
            self._check()
            # KAI's own Queue stays, because labs count by it; this scheduler ignores it.
            yield obj
            yield self._queue(self._queues.by_name[name_of(obj)])
        elif works and kind != "PodGroup":
            yield translation.rewrite_templates(obj, works, SCHEDULER_NAME, _edit_template)
        else:
            yield obj

    def _check(self) -> None:
        self._queues.refuse_weights(NAME)
        self._queues.refuse_overcommitted(NAME)
        self._queues.refuse_min_runtimes(NAME)

    def _queue(self, queue: Queue) -> Object:
        if queue.name == ROOT:
            raise contract.NotExpressible(
                NAME, f"queue with the name {ROOT}, which is Volcano's root queue", "Queue/root"
            )
        spec: dict[str, Any] = {"reclaimable": True, "priority": queue.priority, "deserved": self._deserved(queue)}
        if limits := _limits(queue):
            spec["capability"] = limits
        if queue.parent in self._queues.by_name:
            spec["parent"] = queue.parent
        return {"apiVersion": API_VERSION, "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec}

    def _deserved(self, queue: Queue) -> dict[str, str]:
        """An unlimited quota deserves all capacity. A resource that is not named is not deserved and can always be reclaimed."""
        result = {}
        for name in translation.RESOURCES:
            quota = translation.share_in(queue, name).quota
            result[translation.RESOURCE_NAMES[name]] = translation.format_quantity(
                name, self._queues.capacity(name) if quota == UNLIMITED else quota
            )
        return result

    def _gang(self, work: translation.TemplateWork) -> Iterator[Object]:
        if not work.gang or (work.namespace, work.gang) in self._gangs:
            return
        self._gangs.add((work.namespace, work.gang))
        spec: dict[str, Any] = {"minMember": work.min_member, "queue": work.queue}
        if work.priority_class:
            spec["priorityClassName"] = work.priority_class
        yield {
            "apiVersion": API_VERSION,
            "kind": "PodGroup",
            "metadata": {"name": work.gang, "namespace": work.namespace, "annotations": _preemptable(work)},
            "spec": spec,
        }


def _edit_template(metadata: dict[str, Any], spec: dict[str, Any], work: translation.TemplateWork) -> None:
    notes = metadata.setdefault("annotations", {})
    notes[QUEUE] = work.queue
    notes |= _preemptable(work)
    if work.gang:
        notes[GROUP] = work.gang


def _preemptable(work: translation.TemplateWork) -> dict[str, str]:
    return {PREEMPTABLE: "true" if work.preemptible else "false"}


def _limits(queue: Queue) -> dict[str, str]:
    result = {}
    for name in translation.RESOURCES:
        limit = translation.share_in(queue, name).limit
        # For these two, 0 means no limit.
        if limit == 0 and name != "gpu":
            raise contract.NotExpressible(NAME, f"limit of 0 for {name}", f"Queue/{queue.name}")
        if limit != UNLIMITED:
            result[translation.RESOURCE_NAMES[name]] = translation.format_quantity(name, limit)
    return result


# --- the folder of programs -------------------------------------------------------------------------------------------

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
        match = _VERSION_LINE.search(completed.stdout)
        return match[1] if match else named_version(self.path)


def find_volcano(given: Path | str | None = None) -> VolcanoFolder:
    """The Volcano in the given folder, else in ``KAILAB_VOLCANO_BIN``. Raises InputError, naming the file at fault."""
    folder = given_path(given, FOLDER_ENV)
    if folder is None:
        raise InputError(
            f"the scheduler volcano needs the folder of its programs: volcano=DIR, or {FOLDER_ENV}. It holds "
            f"{' and '.join(PROGRAMS)}, and in crds/ the definitions of config/crd/volcano/bases and config/crd/jobflow/bases"
        )
    check_folder(folder, "of Volcano's programs")
    programs = {name: locate_program(folder, name, _WHOLE) for name in PROGRAMS}
    return VolcanoFolder(folder, programs, _crds(folder / "crds"))


def _crds(folder: Path) -> tuple[dict[str, Any], ...]:
    if not folder.is_dir():
        raise InputError("is not there; expected the folder of Volcano's CRDs", Where(file=str(folder)))
    definitions = read_definitions(folder)
    for name in _NEEDED:
        if name not in definitions:
            raise InputError(f"has no CRD {name}; a lab with Volcano needs it", Where(file=str(folder)))
    return tuple(definitions.values())


# --- idle detection ---------------------------------------------------------------------------------------------------

PROCESS_NAMES = ("volcano-scheduler", "volcano-controllers")
"""The names of the processes in the plane."""

CYCLES = "volcano_e2e_scheduling_latency_milliseconds_count"
_COUNT = re.compile(rf"^{CYCLES} (\S+)", re.MULTILINE)
# One cycle that may have begun before the change, and two whole ones; twice, because one cycle enqueues work and the next one places it.
_CYCLES = 5


class VolcanoIdleDetector:
    """``plane``: the control plane beside which Volcano runs."""

    def __init__(self, plane: contract.Plane) -> None:
        self._plane = plane
        self._since: float | None = None

    def changed(self) -> None:
        self._since = None

    def is_idle(self) -> bool:
        own = next((process for process in self._plane.processes() if process.name == PROCESS_NAMES[0]), None)
        if own is None or not own.running:
            programs.check_programs(self._plane, PROCESS_NAMES)
            return True
        match = _COUNT.search(programs.fetch_url(f"http://{LOOPBACK}:{own.port}/metrics")[0])
        if match is None:
            return False
        cycles = float(match[1])
        if self._since is None or cycles < self._since:
            self._since = cycles
        return cycles - self._since >= _CYCLES


# --- the processes ----------------------------------------------------------------------------------------------------

_FAST = ("--kube-api-qps=1000", "--kube-api-burst=2000")


class VolcanoProcesses(programs.LocalProcesses):
    """``folder``: see ``find_volcano``, which checks it when it is first needed."""

    def __init__(self, plane: contract.Plane, folder: Path | str | None = None) -> None:
        super().__init__(plane)
        self._given = folder

    @cached_property
    def _volcano(self) -> VolcanoFolder:
        return find_volcano(self._given)

    def prepare(self, cluster: Cluster) -> None:
        """Apply its CRDs. Raises InputError for a folder without a Volcano."""
        programs.install_definitions(cluster, self._volcano.crds, NAME)

    def start(self, cluster: Cluster, start: contract.StartSettings, tell: Tell = lambda _: None) -> None:
        """Returns when its scheduler has completed a cycle. Raises InputError for a folder without a Volcano."""
        self.prepare(cluster)
        # A folder of its own, because the scheduler watches all of it, and in the plane's folder it would reload its file all the time.
        folder = Path(self._plane.folder) / "volcano-conf"
        make_folder(folder)
        conf = folder / "scheduler.conf"
        write_text(conf, yaml.safe_dump(configuration(), sort_keys=False))
        programs.on_free_ports(lambda: programs.run_programs(self._plane, self._programs(conf)))

    def _programs(self, conf: Path) -> list[programs.Program]:
        metrics, health, controllers, controllers_health = free_ports(4)
        common = (f"--kubeconfig={self._plane.kubeconfig}", "--leader-elect=false", "--enable-healthz=true", *_FAST)
        return [
            programs.Program(
                PROCESS_NAMES[1],
                self._volcano.programs["controller-manager"],
                (
                    *common,
                    programs.address_flag("listen-address", controllers),
                    programs.address_flag("healthz-address", controllers_health),
                ),
                controllers_health,
                programs.health_check(f"http://{LOOPBACK}:{controllers_health}/healthz"),
            ),
            programs.Program(
                PROCESS_NAMES[0],
                self._volcano.programs["scheduler"],
                (
                    *common,
                    f"--scheduler-conf={conf}",
                    "--enable-metrics=true",
                    "--cache-dumper=false",
                    f"--plugins-dir={conf.parent}",
                    programs.address_flag("listen-address", metrics),
                    programs.address_flag("healthz-address", health),
                ),
                metrics,
                programs.metrics_check(
                    f"http://{LOOPBACK}:{metrics}/metrics", rf"^{CYCLES} [1-9]", "its first cycle is not done"
                ),
            ),
        ]

    @property
    def names(self) -> Sequence[str]:
        return PROCESS_NAMES

    def version(self) -> str:
        return f"{NAME} {self._volcano.version() or 'unknown (neither its scheduler nor its folder says it)'}"

    def idle_detector(self, cluster: Cluster) -> contract.IdleDetector:
        return VolcanoIdleDetector(self._plane)


def configuration() -> dict[str, Any]:
    """As in the documents of its capacity plugin: with the tree of queues, and ``deserved`` enforced at every level."""
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]
    capacity = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": 10}}
    second = [{"name": "predicates"}, capacity, {"name": "nodeorder"}, {"name": "binpack"}]
    actions = "enqueue, allocate, preempt, reclaim, backfill"
    return {"actions": actions, "tiers": [{"plugins": first}, {"plugins": second}]}


# --- Volcano as a scheduler under test --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Volcano(contract.SchedulerUnderTest):
    """Option: ``volcano``, the folder of its programs; see ``find_volcano``."""

    title = "Volcano"
    scheduler_name = SCHEDULER_NAME

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        translator = _Translation(
            translation.AppliedQueues(objects, there), translation.WorkReader(objects, there, NAME)
        )
        return [list(translator.of(obj)) for obj in objects]

    def beside(self, plane: contract.Plane, programs: ComponentSet | None = None) -> VolcanoProcesses:
        return VolcanoProcesses(plane, self.option("volcano"))

    def check_options(self) -> None:
        find_volcano(self.option("volcano"))

    def eviction(self, message: str) -> contract.EvictionCondition | None:
        """Reclaim between queues and preemption in a queue have the same message."""
        return contract.EvictionCondition("preempt", "") if message == _PREEMPTED else None

    def code(self, message: str) -> str:
        """Empty for a message that only says that there is no room."""
        return "OverLimit" if "queue resource quota insufficient" in message else ""
