"""Carry out an upgrade trial: fill a lab under one scheduler, replace it by the next while work runs, check it, roll
back and check again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.kubernetes import Connection
from kailab.cluster.polling import wait_until
from kailab.cluster.protocol import Object
from kailab.errors import InputError, NotFound
from kailab.fleet import Fleet
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.model import manifests
from kailab.scheduler import settings_of
from kailab.trials.upgrade.cluster_state import SchedulingProbe, UpgradeClusterState, wait_until_steady
from kailab.trials.upgrade.result import SchedulerChange, Upgrade, UpgradeCheck
from kailab.trials.upgrade.service_accounts import ActingPlane
from kailab.undertest.contract import SchedulerFailed, SchedulerProcesses, SchedulerUnderTest, StartSettings, Tell
from kailab.undertest.selection import choose_scheduler

PATIENCE_SECONDS = 300.0  # much more than it takes on a quiet machine
QUIET_SECONDS = 3.0
_FOLDER = Path(__file__).with_name("load")
_LOAD = ("queues", "filler")
_HERE = "default"


class UpgradePlan(NamedTuple):
    """``load``: objects that fill the lab; None: the trial's own load, with which reclaim and a gang are checked.
    ``renew``: renew the scheduler's account before the upgrade without a restart. ``promise``: seconds within which a
    rollback must schedule again."""

    before: SchedulerUnderTest
    after: SchedulerUnderTest
    fleet: Fleet
    load: Sequence[Object] | None = None
    renew: bool = False
    patience: float = PATIENCE_SECONDS
    promise: float | None = None

    def check(self) -> None:
        """Raise InputError for a plan that cannot be carried out, before anything is started."""
        for scheduler in (self.before, self.after):
            if not scheduler.understands_kai:
                raise InputError(
                    f"an upgrade trial needs schedulers that read KAI's objects; {scheduler.name} does not"
                )
            scheduler.check_options()


def carry_out(plan: UpgradePlan, tell: Tell = lambda _: None) -> Upgrade:
    """Run the trial on its own control plane, which is taken down at the end, even if this process is killed.

    Raises InputError, and SchedulerFailed if the first scheduler does not start.
    """
    plan.check()
    venue = open_plane("controlplane", scheduler=plan.before, get=True, tell=tell)
    try:
        return _UpgradeRun(plan, venue, tell).run()
    finally:
        venue.close()


class _UpgradeRun:
    def __init__(self, plan: UpgradePlan, venue: PlaneVenue, tell: Tell) -> None:
        self._plan = plan
        self._venue = venue
        self._cluster = venue.cluster
        self._tell = tell
        self._acting = ActingPlane(venue.plane, venue.cluster) if plan.renew else None
        self._connection = Connection.from_kubeconfig(venue.kubeconfig)

    def run(self) -> Upgrade:
        plan = self._plan
        before, after = self._beside(plan.before), self._beside(plan.after)
        before.prepare(self._cluster)
        # Create nodes and the other objects of a lab; this scheduler does not run in a process of its own.
        self._venue.furnish(plan.fleet, choose_scheduler("kailab"), settings_of(None))
        self._tell(f"starting {plan.before.name}")
        self._start(before, plan.before)
        self._tell("filling the lab")
        load = self._load_objects(*_LOAD) if plan.load is None else plan.load
        self._apply(load)
        self._wait_until_steady(before)
        filled = len(UpgradeClusterState.of(self._cluster).pods)
        first_version = before.version()
        changes = [self._renewed(before, plan.before)] if plan.renew else []
        changes.append(self._changed("upgrade", before, after, plan.after, load))
        changes.append(self._changed("rollback", after, before, plan.before, load))
        return Upgrade(
            before=first_version, after=changes[-2].version, filled=filled, changes=tuple(changes), promise=plan.promise
        )

    # --- changes ---------------------------------------------------------------------------------------------------

    def _changed(
        self,
        name: str,
        old: SchedulerProcesses,
        new: SchedulerProcesses,
        chosen: SchedulerUnderTest,
        load: Sequence[Object],
    ) -> SchedulerChange:
        """Replace one scheduler by the next: first the definitions while the old one runs, as KAI's chart does, then
        the programs."""
        self._tell(f"{name}: to {chosen.name}")
        state_before = UpgradeClusterState.of(self._cluster)
        new.prepare(self._cluster)
        begun = time.monotonic()
        old.stop()
        stopped = time.monotonic()
        with self._probe(name) as probe:
            worked = bound = None
            ended: tuple[str, ...] = ()
            try:
                self._start(new, chosen)
                worked = time.monotonic() - begun
                bound = probe.bound_at()
                ended = _ended(new)
            except SchedulerFailed as error:
                ended = (str(error),)
            deaf = probe.stuck() if bound is None and not ended else ""
        self._wait_until_steady(new)
        state_after = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name=name,
            version=new.version(),
            stopped=stopped - begun,
            worked=worked,
            scheduled=None if bound is None else bound - begun,
            lost=state_before.lost(state_after),
            altered=state_before.altered(state_after),
            deaf=deaf,
            ended=ended,
            passed_over=tuple(new.ignored_words(load)),
            checks=self._checks(new) if self._plan.load is None and bound is not None else (),
        )

    def _renewed(self, beside: SchedulerProcesses, scheduler: SchedulerUnderTest) -> SchedulerChange:
        """Renew the scheduler's service account without a restart.

        KAI's chart did this on upgrades that did not change the scheduler's Deployment (KAI issue 1536).
        """
        acting = self._acting
        assert acting is not None
        self._tell("the scheduler's account is made anew")
        state_before = UpgradeClusterState.of(self._cluster)
        begun = time.monotonic()
        acting.renew()
        if not wait_until(lambda: not acting.accepted(beside.names[0]), self._plan.patience):
            raise SchedulerFailed("the API server still accepts the token of a deleted account")
        with self._probe("renewed") as probe:
            wait_until(lambda: probe.bound or bool(_ended(beside)), self._plan.patience)
            ended = _ended(beside)
            deaf = "" if probe.bound or ended else probe.stuck()
            if ended:
                # As the kubelet does: restart the container that ended, with a new token.
                beside.stop()
                self._start(beside, scheduler)
            bound = probe.bound_at() if probe.bound or ended else None
        state_after = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name="account made anew",
            version=beside.version(),
            scheduled=None if bound is None else bound - begun,
            lost=state_before.lost(state_after),
            altered=state_before.altered(state_after),
            deaf=deaf,
            ended=ended,
        )

    # --- checks ----------------------------------------------------------------------------------------------------

    def _checks(self, beside: SchedulerProcesses) -> tuple[UpgradeCheck, ...]:
        self._tell("reclaim, a gang, and back")
        self._apply(self._load_objects("owner"))
        reclaim = self._check(beside, "reclaim", {"owner": 12, "filler": 20})
        self._apply(self._load_objects("squad"))
        gang = self._check(beside, "gang", {"squad": 4, "owner": 12, "filler": 16})
        for obj in self._load_objects("owner", "squad"):
            with suppress(NotFound):
                self._cluster.delete(obj["kind"], obj["metadata"]["name"], _HERE)
        return reclaim, gang, self._check(beside, "borrow", {"filler": 24})

    def _check(self, beside: SchedulerProcesses, name: str, wanted: dict[str, int]) -> UpgradeCheck:
        def pods_by_app() -> dict[str, int]:
            pods = UpgradeClusterState.of(self._cluster).pods.values()
            return {app: sum(pod.startswith(f"{_HERE}/{app}-") for pod in pods) for app in wanted}

        wait_until(lambda: pods_by_app() == wanted, self._plan.patience)
        # A state that is only passed through does not count.
        self._wait_until_steady(beside)
        counts = pods_by_app()
        differences = ", ".join(
            f"{app} has {counts[app]} pods, not {count}" for app, count in wanted.items() if counts[app] != count
        )
        return UpgradeCheck(name=name, told=differences)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _beside(self, scheduler: SchedulerUnderTest) -> SchedulerProcesses:
        processes = scheduler.beside(self._acting or self._venue.plane)
        if processes is None:
            raise InputError(f"{scheduler.name} cannot run as a process beside a control plane")
        if self._acting is not None:
            self._acting.act(processes.names[0])
        return processes

    def _start(self, beside: SchedulerProcesses, scheduler: SchedulerUnderTest) -> None:
        beside.start(self._cluster, StartSettings(settings_of(scheduler.option("config"))), self._tell)

    def _probe(self, name: str) -> SchedulingProbe:
        return SchedulingProbe(self._cluster, self._connection, f"probe-{name}", self._plan.patience)

    def _wait_until_steady(self, beside: SchedulerProcesses) -> None:
        # The change itself reports processes that have ended.
        with suppress(SchedulerFailed):
            wait_until_steady(self._cluster, beside.rest(self._cluster), QUIET_SECONDS, self._plan.patience)

    def _apply(self, objects: Sequence[Object]) -> None:
        for obj in objects:
            self._cluster.apply(obj)

    def _load_objects(self, *names: str) -> list[Object]:
        return manifests.load([_FOLDER / f"{name}.yaml" for name in names]).objects


def _ended(beside: SchedulerProcesses) -> tuple[str, ...]:
    try:
        beside.check()
    except SchedulerFailed as error:
        return (str(error),)
    return ()
