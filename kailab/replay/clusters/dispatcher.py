"""Replay a trace over several clusters: ask the dispatch policy where each job goes, and advance all labs together.

All labs share one virtual time. Each advances by itself to the dispatcher's next event and stops there before anything
acts at that moment. So a single cluster behaves as in a replay without a dispatcher.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import isnan
from typing import Any, TypeVar

from kailab.engine.policies.contract import Dispatch
from kailab.engine.policies.dispatching import ClusterView, DispatchJob
from kailab.engine.policies.orders import quoted_answer
from kailab.errors import PolicyError, describe_error
from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.replay.accounts import ReplayedJob
from kailab.replay.checkpoint import ReplayCheckpoint
from kailab.replay.clusters.journeys import DispatchedReplay, JobJourney, check_conservation
from kailab.replay.clusters.replica import ClusterReplica
from kailab.replay.clusters.sites import ClusterSites, TransferPlanner, dispatch_policy
from kailab.replay.job import LONGEST, WHOLE
from kailab.replay.run import Progress, open_replay_lab
from kailab.scheduler.policy_timeouts import WATCHDOG

T = TypeVar("T")


class CheckedDispatchPolicy:
    """A dispatch policy whose errors and invalid answers become PolicyErrors that name the policy and the job."""

    def __init__(self, name: str, policy: Dispatch) -> None:
        self._name = name
        self._policy = policy

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> ClusterView | None:
        """Ask for the cluster of a job; None keeps it with the dispatcher. Raises PolicyError."""
        answer = self._ask("choose", job, lambda: self._policy.choose(job, tuple(clusters)))
        if answer is None:
            return None
        chosen = next((cluster for cluster in clusters if isinstance(answer, str) and cluster.name == answer), None)
        if chosen is None:
            names = ", ".join(cluster.name for cluster in clusters)
            raise self._failed("choose", job, f"{quoted_answer(answer)}; expected None or one of {names}")
        return chosen

    def turn(self, job: DispatchJob) -> tuple[float, ...]:
        """Ask for the sort key of a job. Raises PolicyError."""
        answer = self._ask("turn", job, lambda: self._policy.turn(job))
        parts = answer if isinstance(answer, tuple) else (answer,)
        try:
            key = tuple(float(part) for part in parts)
        except (TypeError, ValueError, OverflowError):
            key = ()
        if not key or any(isnan(part) for part in key):
            raise self._failed("turn", job, f"{quoted_answer(answer)}; expected a number, or several")
        return key

    def _ask(self, method: str, job: DispatchJob, ask: Callable[[], T]) -> T:
        with WATCHDOG.ends(_answered.__code__):
            try:
                return _answered(ask)
            except KeyboardInterrupt:  # a stop request, not an error of the policy
                raise
            # A policy of an extension must not end the process, by SystemExit or otherwise.
            except BaseException as error:
                raise self._failed(method, job, describe_error(error)) from error

    def _failed(self, method: str, job: DispatchJob, reason: str) -> PolicyError:
        return PolicyError(f"dispatch policy {self._name!r}: {method} of job {job.name:.80} at {job.now}: {reason}")


def _answered(ask: Callable[[], T]) -> T:
    """Call the policy; ``PATIENCE`` bounds the time spent in this function."""
    return ask()


_IN_VAIN = 3
"""Number of unsuccessful rounds, with nothing in progress, after which the labs' time stops.

More than one is needed: labs that are held at a moment have not yet acted on what has just ended.
"""
_PATIENCE = 86_400
"""Seconds for which the policy is still asked after that: it may wait for a time of day."""


def dispatch(
    sites: ClusterSites,
    lasting: int | None,
    progress: Progress = lambda step, done, total: None,
    keeper: ReplayCheckpoint | None = None,
) -> DispatchedReplay:
    """Replay a trace over several clusters.

    ``lasting``: seconds after the first arrival at which the replay is cut off. ``keeper``: as in ``replay``. Raises
    InputError, PolicyError, StateError.
    """
    with collector_off(), ExitStack() as labs:
        saved = None if keeper is None else keeper.found()
        if saved is not None:
            assert isinstance(saved, _Run)
            for lab in saved.labs:
                labs.enter_context(lab)
            return saved.go_on(sites, progress, keeper)
        stations = [ClusterReplica(site, labs.enter_context(open_replay_lab(site.plan))) for site in sites.sites]
        return _Run(sites, stations, lasting, progress, keeper).run()


@dataclass(order=True)
class _Due:
    at: int
    number: int
    act: Callable[..., None] = field(compare=False)
    about: tuple[Any, ...] = field(compare=False)


class _Run:
    """``_arriving``: the dispatcher still has jobs or events. After that each lab runs to its end, one after the other;
    ``_through`` of them have."""

    def __init__(
        self,
        sites: ClusterSites,
        stations: Sequence[ClusterReplica],
        lasting: int | None,
        progress: Progress,
        keeper: ReplayCheckpoint | None,
    ) -> None:
        self._stations = {station.name: station for station in stations}
        self._give(sites, progress, keeper)
        self._lasting = lasting
        self._journeys: list[JobJourney] = []
        self._held: list[JobJourney] = []
        self._due: list[_Due] = []
        self._numbers = 0
        self._in_vain = 0
        self._quiet_from = 0
        self._retrying = False
        self._quotas = {team: _quota_of(team, stations) for team in sites.trace.teams}
        self._arriving = True
        self._through = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the sites, the policy and the callbacks; they are supplied again on resume."""
        return {**self.__dict__, "_sites": None, "_policy": None, "_jobs": None, "_progress": None, "_keeper": None}

    def _give(self, sites: ClusterSites, progress: Progress, keeper: ReplayCheckpoint | None) -> None:
        self._sites = sites
        self._policy = CheckedDispatchPolicy(sites.dispatching.policy.name, dispatch_policy(sites.dispatching.policy))
        self._jobs = sites.trace.jobs
        self._progress, self._keeper = progress, keeper

    @property
    def labs(self) -> list[Lab]:
        return [station.stay.lab for station in self._stations.values()]

    def run(self) -> DispatchedReplay:
        stations = self._stations.values()
        began = self._began = self._now = max(station.stay.now for station in stations)
        self._shift = began - self._jobs[0].arrival
        self._moving = TransferPlanner(self._sites, began)
        self._all_to(began)
        for station in stations:
            station.accounts.pass_to(began)
        return self._go(rested=False)

    def go_on(self, sites: ClusterSites, progress: Progress, keeper: ReplayCheckpoint | None) -> DispatchedReplay:
        """Resume a saved replay."""
        self._give(sites, progress, keeper)
        self._moving.given(sites)
        for site in sites.sites:
            self._stations[site.name].given(site)
        return self._go(rested=not self._arriving)

    def _go(self, *, rested: bool) -> DispatchedReplay:
        stations, began = self._stations.values(), self._began
        end = began + (LONGEST if self._lasting is None else self._lasting)
        if self._arriving:
            self._while_arriving(end)
        self._to_the_end(end, rested=rested)
        ended = max(station.stay.now for station in stations)
        # Bring clusters that finished earlier to the end of the last one.
        for station in stations:
            if station.stay.now < ended:
                for _ in station.stay.moments(ended - station.stay.now):
                    pass
            station.stay.close()
        last = self._jobs[-1].arrival + self._shift
        clusters = {station.name: station.one.replayed(began, last) for station in stations}
        result = DispatchedReplay(
            sites=self._sites, journeys=self._journeys, clusters=clusters, began=began, ended=ended, cut=end
        )
        check_conservation(result)
        return result

    def _while_arriving(self, end: int) -> None:
        while (at := self._next()) is not None and at < end:
            self._all_to(at)
            if self._over():
                break
            while self._due and self._due[0].at <= at:
                due = heapq.heappop(self._due)
                due.act(*due.about)
            self._arrivals()
            for station in self._stations.values():
                station.accounts.note(station.stay.now)
            self._tell()
            # No lab has acted at this moment yet, so the replay can be saved and resumed here.
            if self._keeper is not None:
                self._keeper.look(self)
        self._arriving = False

    # --- time ----------------------------------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """When the dispatcher's next event is due."""
        times = [self._due[0].at] if self._due else []
        if len(self._journeys) < len(self._jobs):
            times.append(self._jobs[len(self._journeys)].arrival + self._shift)
        return min(times, default=None)

    def _over(self) -> bool:
        """True if no job is with the dispatcher or yet to arrive, and all jobs sent have ended."""
        return self._all_sent() and not any(station.accounts.unfinished for station in self._stations.values())

    def _all_sent(self) -> bool:
        arrived = len(self._journeys) == len(self._jobs) and not self._held
        return arrived and not any(station.coming for station in self._stations.values())

    def _all_to(self, at: int) -> None:
        self._now = at
        # Nothing is in progress and the policy was asked without success: the labs' time stops.
        if self._in_vain >= _IN_VAIN:
            return
        all_sent = self._all_sent()
        for station in self._stations.values():
            for _ in station.stay.moments(at - station.stay.now, before=True):
                # Stop the time of a lab whose jobs have all ended: the event may only re-check a job that has begun.
                if all_sent and not station.accounts.unfinished:
                    break
            station.forget()

    def _catch_up(self, station: ClusterReplica) -> None:
        """Advance a cluster whose time had stopped and that gets a job now."""
        for _ in station.stay.moments(self._now - station.stay.now, before=True):
            pass

    def _to_the_end(self, end: int, *, rested: bool) -> None:
        for station in list(self._stations.values())[self._through :]:
            for resting in station.stay.moments(end - station.stay.now, rested=rested):
                self._tell()
                if self._lasting is None and (not station.accounts.unfinished or station.stay.still):
                    break
                if resting and self._keeper is not None:
                    self._keeper.look(self)
            rested = False
            self._through += 1

    def _at(self, when: int, act: Callable[..., None], *about: Any) -> None:
        self._numbers += 1
        heapq.heappush(self._due, _Due(when, self._numbers, act, about))

    def _tell(self) -> None:
        inside = sum(len(station.accounts.unfinished) + len(station.coming) for station in self._stations.values())
        self._progress("replaying", len(self._journeys) - len(self._held) - inside, len(self._jobs))

    # --- choice of the cluster -----------------------------------------------------------------------------------------

    def _arrivals(self) -> None:
        """Add the jobs that arrive now to those that wait with the dispatcher, and ask for all of them."""
        before = len(self._held)
        while (number := len(self._journeys)) < len(self._jobs):
            job = self._jobs[number]
            if job.arrival + self._shift > self._now:
                break
            data = self._sites.dataset_of(job)
            journey = JobJourney(number=number, job=job, home=self._sites.homes[job.team], data=data, arrived=self._now)
            self._journeys.append(journey)
            self._held.append(journey)
        if len(self._held) > before:
            self._ask_held()

    def _dispatch(self, journey: JobJourney) -> bool:
        """Send a job if the policy chooses a cluster. Returns True if it was sent."""
        candidates = [station for station in self._stations.values() if station.fits(journey.job)]
        if not candidates:
            home = self._stations[journey.home]
            # Only the site's limit forbids the job. The lab does not know the limit and would start it, so keep it here.
            if home.could_begin(journey.job):
                return False
            # The job can begin nowhere, so it waits at home, as it would without a dispatcher.
            home.in_vain.add(journey.name)
            self._send(journey, home, None)
            return True
        views = [self._view(journey, station) for station in candidates if self._takes(station, journey)]
        chosen = self._policy.choose(self._told(journey), views) if views else None
        if chosen is None:
            return False
        self._send(journey, self._stations[chosen.name], chosen)
        return True

    def _takes(self, station: ClusterReplica, journey: JobJourney) -> bool:
        return self._reached(station) == self._now and station.takes(journey.job)

    def _reached(self, station: ClusterReplica) -> int:
        """When the dispatcher can reach the cluster: now, or at the end of an outage."""
        return self._moving.reached(station.name, self._now)

    def _ask_held(self) -> None:
        """Ask for all jobs that wait with the dispatcher, in order of their turn."""
        before = len(self._held)
        self._held = self._in_turn(self._held)
        if not self._held or self._retrying:
            return
        moving = len(self._held) < before or self._due or len(self._journeys) < len(self._jobs)
        moving = moving or any(self._began + outage.end > self._now for outage in self._sites.outages)
        if moving or not all(station.stay.still for station in self._stations.values()):
            self._in_vain = 0
        else:
            self._in_vain += 1
            if self._in_vain == 1:
                self._quiet_from = self._now
        if self._in_vain < _IN_VAIN or self._now - self._quiet_from < _PATIENCE:
            self._retrying = True
            self._at(self._now + self._sites.dispatching.retry, self._ask_again)

    def _in_turn(self, held: list[JobJourney]) -> list[JobJourney]:
        """Ask for each job in order of its turn. Returns the jobs that stay.

        Turns of a team's other jobs are computed again after one of them is sent.
        """
        if len(held) < 2:
            return [journey for journey in held if not self._dispatch(journey)]
        waiting = {journey.number: journey for journey in held}
        turns = {journey.number: self._policy.turn(self._told(journey)) for journey in held}
        order = [(turn, number) for number, turn in turns.items()]
        heapq.heapify(order)
        staying: list[JobJourney] = []
        while waiting:
            turn, number = heapq.heappop(order)
            if number not in waiting or turns[number] != turn:
                continue
            journey = waiting.pop(number)
            if not self._dispatch(journey):
                staying.append(journey)
                continue
            for other in waiting.values():
                if other.job.team == journey.job.team:
                    turns[other.number] = self._policy.turn(self._told(other))
                    heapq.heappush(order, (turns[other.number], other.number))
        return staying

    def _ask_again(self) -> None:
        self._retrying = False
        self._ask_held()

    def _view(self, journey: JobJourney, station: ClusterReplica, own: ReplayedJob | None = None) -> ClusterView:
        latency = self._sites.between(journey.home, station.name).latency
        transfer = self._moving.way(journey.data, journey.home, station.name, self._now)
        return station.view(journey.job, journey.home, latency, transfer, own)

    def _told(self, journey: JobJourney) -> DispatchJob:
        job = journey.job
        holds = sum(station.holds(job.team) for station in self._stations.values())
        return DispatchJob(
            name=job.name,
            team=job.team,
            priority=job.priority,
            gpus=job.milli / WHOLE,
            seconds=job.seconds,
            models=job.models,
            home=journey.home,
            at=journey.at,
            arrived=journey.arrived,
            now=self._now,
            sent=journey.sent,
            dataset="" if journey.data is None else journey.data.name,
            team_holds=holds / WHOLE,
            team_quota=self._quotas[job.team],
        )

    # --- transfer ------------------------------------------------------------------------------------------------------

    def _send(self, journey: JobJourney, station: ClusterReplica, view: ClusterView | None) -> None:
        transfer = self._moving.send(journey.data, journey.home, station.name, self._now)
        journey.at, journey.work, journey.left, journey.way = station.name, None, self._now, transfer.seconds
        journey.sent += 1
        journey.moved_to[station.name] = journey.moved_to.get(station.name, 0) + transfer.moved
        journey.cost += transfer.cost
        journey.latency = self._sites.between(journey.home, station.name).latency
        journey.expected = view.wait if view is not None and view.asked else None
        if transfer.seconds:
            station.coming[journey.name] = journey.job
            station.forget()
            self._at(self._now + transfer.seconds, self._land, journey, station)
        else:
            self._land(journey, station)

    def _land(self, journey: JobJourney, station: ClusterReplica) -> None:
        reached = self._reached(station)
        if reached > self._now:
            # Retry at the end of the outage, under the same name, so that the job is created once.
            station.coming[journey.name] = journey.job
            station.forget()
            self._at(reached, self._land, journey, station)
            return
        station.coming.pop(journey.name, None)
        if station.stay.now < self._now:
            self._catch_up(station)
        journey.work = station.stay.submit(journey.name, journey.job, journey.arrived)
        station.forget()
        self._look_again(journey, journey.work)

    def _look_again(self, journey: JobJourney, work: ReplayedJob) -> None:
        dispatching = self._sites.dispatching
        if dispatching.again is not None and journey.looks < dispatching.most:
            journey.looks += 1
            self._at(self._now + dispatching.again, self._waited_long, journey, work)

    def _waited_long(self, journey: JobJourney, work: ReplayedJob) -> None:
        """Ask again for a job that has waited in a cluster, if it has not begun and holds nothing there."""
        if journey.work is not work or work.began is not None or work.lives or work.saved or work.done:
            return
        here = self._stations[journey.at]
        if (reached := self._reached(here)) > self._now:
            # The state of an unreachable cluster is unknown; sending the job elsewhere could run it twice.
            self._at(reached, self._waited_long, journey, work)
            return
        views = [
            self._view(journey, station, work if station is here else None)
            for station in self._stations.values()
            if station.fits(journey.job) and (station is here or self._takes(station, journey))
        ]
        chosen = self._policy.choose(self._told(journey), views) if views else None
        if chosen is not None and chosen.name != here.name:
            here.stay.withdraw(work)
            here.forget()
            journey.taken_back += 1
            self._send(journey, self._stations[chosen.name], chosen)
        else:
            self._look_again(journey, work)


def _quota_of(team: str, stations: Sequence[ClusterReplica]) -> float:
    """GPU quota of a team over all clusters; -1 if one cluster sets no bound."""
    quotas = [station.site.queues.quotas[station.site.queues.of_team[team]] for station in stations]
    return -1.0 if min(quotas) < 0 else sum(quotas)
