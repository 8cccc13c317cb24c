"""A lab for timing: the same cluster, controllers and scheduler as in a lab, each under a stopwatch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from types import TracebackType

from benchmarks.lab_runs.measured import Measured, WrongOutcome
from benchmarks.lab_runs.stopwatch import Stopwatch
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.install.devices import furnishings
from kailab.cluster.protocol import Object
from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.records import GPU
from kailab.evidence.decision_log import DecisionLog, NameIndex
from kailab.fleet.fleet import Fleet
from kailab.lab.garbage import collector_off
from kailab.lab.settle import VirtualSettling
from kailab.lab.spec import fleet_of
from kailab.model import labels
from kailab.scheduler.composition import SchedulerComposition, SchedulerPart
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.loop import Scheduler
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import SteppedPart
from kailab.workloads import WorkloadControllers

Progress = Callable[[str, int, int], None]
"""Called with (activity, done, total); total 0: unknown."""


class _Timed:
    """A controller under the stopwatch."""

    def __init__(self, controller: SteppedPart, phase: str, watch: Stopwatch) -> None:
        self._controller = controller
        self._phase = phase
        self._watch = watch

    def step(self) -> bool:
        with self._watch.during(self._phase):
            return self._controller.step()

    def close(self) -> None:
        self._controller.close()


class _TimedScheduler:
    """The scheduler under the stopwatch: reading changes is the phase ``mirror``, the others are those that it reports."""

    def __init__(self, scheduler: Scheduler, watch: Stopwatch) -> None:
        self._scheduler = scheduler
        self._watch = watch

    @property
    def wake_at(self) -> float | None:
        return self._scheduler.wake_at

    def step(self) -> bool:
        with self._watch.during("mirror"):
            return self._scheduler.step()

    def close(self) -> None:
        self._scheduler.close()


class _TimedClock:
    """The cluster's clock. Timers that fall due count as the phase ``kubelet``."""

    def __init__(self, cluster: EmbeddedCluster, watch: Stopwatch) -> None:
        self._cluster = cluster
        self._watch = watch
        self.now = cluster.now
        self.next_timer = cluster.next_timer
        self.next_prompt = cluster.next_prompt

    def advance(self, seconds: float) -> None:
        with self._watch.during("kubelet"):
            self._cluster.advance(seconds)


_ENGINE_PHASES = ("fairshare", "allocate", "consolidation", "reclaim", "preempt", "stalegangeviction", "report")
_PHASES = {
    **{name: f"engine: {name}" for name in _ENGINE_PHASES},
    "carry out": "binding and eviction",
    "status": "status and events",
}


class TimedLab(AbstractContextManager["TimedLab"], Observer):
    """A cluster with a fleet; ``submit`` and ``settle`` run under the stopwatch of the current measurement. ``reservations``: reserve shared GPUs, if any
    are submitted. ``clock``: returns seconds; default: wall-clock time."""

    def __init__(
        self,
        fleet: str | Path | Fleet,
        config: EngineConfig | None = None,
        progress: Progress | None = None,
        *,
        reservations: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._progress = progress or _no_progress
        self._progress("building the fleet", 0, 0)
        described = fleet_of(fleet)
        self.cluster, self.fleet = EmbeddedCluster(), described.name
        for obj in furnishings(described, devices=False):
            self.cluster.create(obj)
        nodes = self.cluster.list("Node")
        self.nodes = len(nodes)
        self.gpus = sum(int(node["status"]["allocatable"].get(labels.GPU_RESOURCE, 0)) for node in nodes)
        self._clock = clock
        self._watch = Stopwatch(self._on_activity, clock)
        self._log = DecisionLog(NameIndex(self.cluster), self.cluster.now(), keep_all=False)
        # No claims are submitted, so their part is not run.
        wanted = SchedulerComposition(
            config=config or EngineConfig(), claims=False, gpu_reservations=reservations, sparing=False
        )
        self._workloads = WorkloadControllers(self.cluster)
        self._composed = wanted.over(self.cluster, self)
        self._scheduler = self._composed.scheduler
        controllers: dict[str, SchedulerPart] = {"controllers": self._workloads, **self._composed.controllers}
        timed = [_Timed(part, name, self._watch) for name, part in controllers.items()]
        self._pace = VirtualSettling(
            _TimedClock(self.cluster, self._watch), timed, _TimedScheduler(self._scheduler, self._watch), list
        )
        self._begun = self._cycles = 0
        self._started = self._lab_started = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.names.close()
        self._workloads.close()
        self._composed.close()

    # --- measuring ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin a measurement."""
        self._watch.seconds.clear()
        self._cycles = self._scheduler.cycles
        self._lab_started = self.cluster.now()
        self._started = self._clock()
        self._watch.switch("other")

    def stop(self, name: str, pods: int, **facts: int | float | str) -> Measured:
        """End the measurement."""
        self._watch.switch("")
        return Measured(
            name=name,
            seconds=self._clock() - self._started,
            pods=pods,
            phases=dict(self._watch.seconds),
            cycles=self._scheduler.cycles - self._cycles,
            lab_seconds=self.cluster.now() - self._lab_started,
            facts=facts,
        )

    @property
    def elapsed(self) -> float:
        """Seconds since the measurement began."""
        return self._clock() - self._started

    def idle_cycle(self, times: int = 9) -> float:
        """Seconds of a scheduling cycle without changes; the median of several."""
        self._progress("idle cycles", 0, 0)
        taken = []
        # As in a lab, which settles with the garbage collector off.
        with collector_off():
            for _ in range(times):
                begun = time.perf_counter()
                self._scheduler.cycle()
                taken.append(time.perf_counter() - begun)
        return median(taken)

    # --- acting ------------------------------------------------------------------------------------------------------

    def submit(self, objects: Iterable[Object], total: int = 0) -> int:
        """Create objects and return their number."""
        number = 0
        # As in a lab, which applies objects with the garbage collector off.
        with collector_off(), self._watch.during("submit"):
            for number, obj in enumerate(objects, 1):
                self.cluster.create(obj)
                if not number % 500:
                    self._progress("submitting", number, total)
        return number

    def settle(self) -> None:
        """Run until nothing changes any more."""
        with collector_off():
            self._pace.settle()

    def remove(self, names: Iterable[str]) -> None:
        """Delete Jobs and settle, outside of measurements."""
        self._progress("clearing up", 0, 0)
        for name in names:
            self.cluster.delete("Job", name, "default")
        self.settle()

    # --- looking -----------------------------------------------------------------------------------------------------

    def running(self, queue: str) -> int:
        """The number of a queue's pods that are Running and not being deleted."""
        return sum(
            1
            for pod in self.cluster.list("Pod", labels={labels.QUEUE: queue})
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    def allocated(self, queue: str) -> float:
        """GPUs that a queue holds."""
        return (
            next(
                queue_state.gpu.allocated
                for queue_state in self._scheduler.scheduling_state().queues
                if queue_state.name == queue
            )
            / GPU
        )

    def require(self, what: str, seen: int, wanted: int) -> None:
        """Raises WrongOutcome unless they are equal."""
        if seen != wanted:
            why = Counter(entry.message for entry in self._log.last.pending).most_common(1) if self._log.last else []
            reason = f"; most wait because: {why[0][0]}" if why else ""
            raise WrongOutcome(f"{what}: {seen} and not {wanted}{reason}")

    def verdict(self, job: str) -> str:
        """The code of the reason why the PodGroup of a Job is pending. Raises WrongOutcome if it has none."""
        for group in self.cluster.list("PodGroup"):
            if any(owner["name"] == job for owner in group["metadata"].get("ownerReferences") or ()):
                pending = self._scheduler.history.pending(group["metadata"]["uid"])
                if pending is not None:
                    return str(pending.code)
        raise WrongOutcome(f"the pending Job {job} has no reason")

    # --- inside ------------------------------------------------------------------------------------------------------

    def on_phase(self, name: str) -> None:
        self._watch.switch(_PHASES.get(name, name))

    def on_cycle(self, record: CycleRecord) -> None:
        self._watch.switch("decision log")
        self._log.log_cycle(record.decisions)

    def _on_activity(self, name: str) -> None:
        self._progress(name, 0, 0)


def _no_progress(phase: str, done: int, total: int) -> None:
    pass
