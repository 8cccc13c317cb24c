"""Run schedulers under test as processes beside one plane, so that only the chosen one decides on its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.components import ComponentSet
from kailab.components.lookup import reported_or_unknown
from kailab.model.callbacks import Tell
from kailab.scheduler.settings.config_file import SchedulerSettings, settings_of
from kailab.undertest.contract import IdleDetector, Plane, SchedulerProcesses, SchedulerUnderTest, StartSettings
from kailab.undertest.registry import SCHEDULERS, make_scheduler

_WITH_VERSION = ("etcd", "kwok")
"""Programs of a plane that report their version. The API server reports its own over its API."""


class RunningSchedulers:
    """The schedulers of a plane. ``programs``: the plane's programs, or None. ``given``: options for schedulers, by name."""

    def __init__(self, plane: Plane, programs: ComponentSet | None, given: Mapping[str, Any] | None = None) -> None:
        self._plane = plane
        self._programs = programs
        self._given = given or {}
        self._beside: dict[SchedulerUnderTest, SchedulerProcesses | None] = {}
        self._running: dict[SchedulerUnderTest, StartSettings] = {}

    def prepare(self, cluster: Cluster, scheduler: SchedulerUnderTest) -> None:
        """Apply the CRDs of a scheduler."""
        if (beside := self._of(self._completed(scheduler))) is not None:
            beside.prepare(cluster)

    def ensure(
        self, cluster: Cluster, scheduler: SchedulerUnderTest, settings: SchedulerSettings, tell: Tell = lambda _: None
    ) -> None:
        """At the start of a lab: start the scheduler and its companion, and stop those that would place the same pods. Raises the errors of
        ``SchedulerProcesses.start``."""
        if scheduler.companion is not None:
            self.ensure(cluster, scheduler.companion, settings, tell)
        wanted = self._completed(scheduler)
        # A scheduler without configuration is the same under all settings and need not be restarted for others.
        start = StartSettings(settings if "config" in SCHEDULERS[wanted.kind].options else settings_of(None))
        for other, its in list(self._running.items()):
            # Two schedulers with one schedulerName would bind the same pods. Others may keep running.
            if other.scheduler_name == wanted.scheduler_name and (other, its) != (wanted, start):
                self._end(other)
        beside = self._of(wanted)
        if beside is None or wanted.always_in_process:
            return
        if wanted.restart_for_each_lab and wanted in self._running:
            self._end(wanted)
        if wanted not in self._running:
            beside.start(cluster, start, tell)
            self._running[wanted] = start
        # A scheduler that was started for an earlier test may have ended since.
        beside.check()

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        """Versions of the plane's programs that report one, and of the scheduler and its companion."""
        programs = self._programs
        asked = [] if programs is None else [name for name in _WITH_VERSION if name in self._plane.own]
        own = {name: reported_or_unknown(name, programs) for name in asked if programs is not None}
        deciding = (scheduler, *([scheduler.companion] if scheduler.companion is not None else []))
        processes = [beside for chosen in deciding if (beside := self._of(self._completed(chosen))) is not None]
        return {**own, "scheduler": " and ".join(beside.version() for beside in processes)} if processes else own

    def idle_detector(self, cluster: Cluster, scheduler: SchedulerUnderTest) -> IdleDetector | None:
        wanted = self._completed(scheduler)
        beside = self._of(wanted)
        return None if beside is None or wanted.always_in_process else beside.idle_detector(cluster)

    def end(self) -> None:
        """Stop all running schedulers."""
        for other in list(self._running):
            self._end(other)

    def _end(self, other: SchedulerUnderTest) -> None:
        del self._running[other]
        if (beside := self._of(other)) is not None:
            beside.stop()

    def _completed(self, scheduler: SchedulerUnderTest) -> SchedulerUnderTest:
        """The scheduler with the options given for its kind, if its name did not identify it already."""
        own = SCHEDULERS[scheduler.kind].own
        unnamed = all(scheduler.option(own_option.option) is None for own_option in own)
        given = {
            own_option.option: self._given[own_option.option]
            for own_option in own
            if self._given.get(own_option.option) is not None
            and scheduler.option(own_option.option) is None
            and (scheduler.option(own_option.goes_with) is not None if own_option.goes_with else unnamed)
        }
        if not given:
            return scheduler
        return make_scheduler(scheduler.kind, scheduler.name, {**dict(scheduler.options), **given})

    def _of(self, scheduler: SchedulerUnderTest) -> SchedulerProcesses | None:
        if scheduler not in self._beside:
            self._beside[scheduler] = scheduler.beside(self._plane, self._programs)
        return self._beside[scheduler]


class InstalledSchedulers(RunningSchedulers):
    """The schedulers that a chart installs in a cluster that a kubeconfig names. Others there are not kailab's to run."""

    def end(self) -> None:
        """Uninstall all, also those that were only prepared."""
        self._running.clear()
        for beside in self._beside.values():
            if beside is not None:
                beside.end()

    def _of(self, scheduler: SchedulerUnderTest) -> SchedulerProcesses | None:
        return super()._of(scheduler) if scheduler.installed else None
