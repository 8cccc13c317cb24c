"""An upgrade trial carried out: filled under one, replaced by the next while work runs, tried, rolled back, tried again."""

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
    """``load``: what fills the lab; None: a load of the trial's own, on which reclaim and a gang are tried too. ``renew``: the scheduler's account
    is made anew before the upgrade, and nothing restarted. ``promise``: seconds in which a rollback is to schedule again."""

    before: SchedulerUnderTest
    after: SchedulerUnderTest
    fleet: Fleet
    load: Sequence[Object] | None = None
    renew: bool = False
    patience: float = PATIENCE_SECONDS
    promise: float | None = None

    def check(self) -> None:
        """Raises InputError for what can't be tried, before anything is started."""
        for one in (self.before, self.after):
            if not one.understands_kai:
                raise InputError(
                    f"an upgrade trial replaces one by another on the same objects; {one.name} does not read KAI's"
                )
            one.check_options()


def carry_out(plan: UpgradePlan, tell: Tell = lambda _: None) -> Upgrade:
    """On a control plane of its own, which is taken down in the end, also where this process is killed. Raises InputError, and SchedulerFailed
    where the first of the two does not come to work."""
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
        # Nodes and what else a lab has; this one decides in no process until it is told to.
        self._venue.furnish(plan.fleet, choose_scheduler("kailab"), settings_of(None))
        self._tell(f"starting {plan.before.name}")
        self._start(before, plan.before)
        self._tell("filling the lab")
        load = self._own(*_LOAD) if plan.load is None else plan.load
        self._apply(load)
        self._still(before)
        filled = len(UpgradeClusterState.of(self._cluster).pods)
        told = before.version()
        changes = [self._renewed(before, plan.before)] if plan.renew else []
        changes.append(self._changed("upgrade", before, after, plan.after, load))
        changes.append(self._changed("rollback", after, before, plan.before, load))
        return Upgrade(
            before=told, after=changes[-2].version, filled=filled, changes=tuple(changes), promise=plan.promise
        )

    # --- changes ---------------------------------------------------------------------------------------------------

    def _changed(
        self,
        name: str,
        old: SchedulerProcesses,
        new: SchedulerProcesses,
        chosen_one: SchedulerUnderTest,
        load: Sequence[Object],
    ) -> SchedulerChange:
        """Definitions first, under the old, as KAI's chart does it; then the programs."""
        self._tell(f"{name}: to {chosen_one.name}")
        at = UpgradeClusterState.of(self._cluster)
        new.prepare(self._cluster)
        begun = time.monotonic()
        old.stop()
        stopped = time.monotonic()
        with self._probe(name) as probe:
            worked = bound = None
            ended: tuple[str, ...] = ()
            try:
                self._start(new, chosen_one)
                worked = time.monotonic() - begun
                bound = probe.bound_at()
                ended = _ended(new)
            except SchedulerFailed as error:
                ended = (str(error),)
            deaf = probe.stuck() if bound is None and not ended else ""
        self._still(new)
        now = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name=name,
            version=new.version(),
            stopped=stopped - begun,
            worked=worked,
            scheduled=None if bound is None else bound - begun,
            lost=at.lost(now),
            altered=at.altered(now),
            deaf=deaf,
            ended=ended,
            passed_over=tuple(new.ignored_words(load)),
            checks=self._checks(new) if self._plan.load is None and bound is not None else (),
        )

    def _renewed(self, beside: SchedulerProcesses, one: SchedulerUnderTest) -> SchedulerChange:
        """The account that the scheduler acts as is made anew, and nothing restarted: what KAI's own chart did on upgrades that left the
        scheduler's Deployment as it was (KAI issue 1536)."""
        acting = self._acting
        assert acting is not None
        self._tell("the scheduler's account is made anew")
        at = UpgradeClusterState.of(self._cluster)
        begun = time.monotonic()
        acting.renew()
        if not wait_until(lambda: not acting.accepted(beside.names[0]), self._plan.patience):
            raise SchedulerFailed("the API server still takes the token of an account that is gone")
        with self._probe("renewed") as probe:
            wait_until(lambda: probe.bound or bool(_ended(beside)), self._plan.patience)
            ended = _ended(beside)
            deaf = "" if probe.bound or ended else probe.stuck()
            if ended:
                # As its kubelet would: a container that ended is started again, with a fresh token.
                beside.stop()
                self._start(beside, one)
            bound = probe.bound_at() if probe.bound or ended else None
        now = UpgradeClusterState.of(self._cluster)
        return SchedulerChange(
            name="account made anew",
            version=beside.version(),
            scheduled=None if bound is None else bound - begun,
            lost=at.lost(now),
            altered=at.altered(now),
            deaf=deaf,
            ended=ended,
        )

    # --- what is tried on it ---------------------------------------------------------------------------------------

    def _checks(self, beside: SchedulerProcesses) -> tuple[UpgradeCheck, ...]:
        self._tell("reclaim, a gang, and back")
        self._apply(self._own("owner"))
        reclaim = self._comes(beside, "reclaim", {"owner": 12, "filler": 20})
        self._apply(self._own("squad"))
        gang = self._comes(beside, "gang", {"squad": 4, "owner": 12, "filler": 16})
        for obj in self._own("owner", "squad"):
            with suppress(NotFound):
                self._cluster.delete(obj["kind"], obj["metadata"]["name"], _HERE)
        return reclaim, gang, self._comes(beside, "borrow", {"filler": 24})

    def _comes(self, beside: SchedulerProcesses, name: str, wanted: dict[str, int]) -> UpgradeCheck:
        def there() -> dict[str, int]:
            pods = UpgradeClusterState.of(self._cluster).pods.values()
            return {app: sum(pod.startswith(f"{_HERE}/{app}-") for pod in pods) for app in wanted}

        wait_until(lambda: there() == wanted, self._plan.patience)
        # It must stay so: what is only passed through on the way to something else does not count.
        self._still(beside)
        seen = there()
        told = ", ".join(
            f"{app} has {seen[app]} pods, not {count}" for app, count in wanted.items() if seen[app] != count
        )
        return UpgradeCheck(name=name, told=told)

    # --- the ways there --------------------------------------------------------------------------------------------

    def _beside(self, one: SchedulerUnderTest) -> SchedulerProcesses:
        found = one.beside(self._acting or self._venue.plane)
        if found is None:
            raise InputError(f"{one.name} is never a process beside a control plane")
        if self._acting is not None:
            self._acting.act(found.names[0])
        return found

    def _start(self, beside: SchedulerProcesses, one: SchedulerUnderTest) -> None:
        beside.start(self._cluster, StartSettings(settings_of(one.option("config"))), self._tell)

    def _probe(self, name: str) -> SchedulingProbe:
        return SchedulingProbe(self._cluster, self._connection, f"probe-{name}", self._plan.patience)

    def _still(self, beside: SchedulerProcesses) -> None:
        # Who has ended is told by the change itself.
        with suppress(SchedulerFailed):
            wait_until_steady(self._cluster, beside.rest(self._cluster), QUIET_SECONDS, self._plan.patience)

    def _apply(self, objects: Sequence[Object]) -> None:
        for obj in objects:
            self._cluster.apply(obj)

    def _own(self, *names: str) -> list[Object]:
        return manifests.load([_FOLDER / f"{name}.yaml" for name in names]).objects


def _ended(beside: SchedulerProcesses) -> tuple[str, ...]:
    try:
        beside.check()
    except SchedulerFailed as error:
        return (str(error),)
    return ()
