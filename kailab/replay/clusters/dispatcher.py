"""Asking a dispatch policy, and holding its answer against what it promises."""

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
    """A policy at work. What it raises, or an answer that is no cluster that can take the job, is a PolicyError with its name and the job's."""

    def __init__(self, name: str, policy: Dispatch) -> None:
        self._name = name
        self._policy = policy

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> ClusterView | None:
        """Raises PolicyError."""
        answer = self._ask("choose", job, lambda: self._policy.choose(job, tuple(clusters)))
        if answer is None:
            return None
        found = next((one for one in clusters if isinstance(answer, str) and one.name == answer), None)
        if found is None:
            there = ", ".join(one.name for one in clusters)
            raise self._failed("choose", job, f"{quoted_answer(answer)}; expected None or one of {there}")
        return found

    def turn(self, job: DispatchJob) -> tuple[float, ...]:
        """Raises PolicyError."""
        answer = self._ask("turn", job, lambda: self._policy.turn(job))
        parts = answer if isinstance(answer, tuple) else (answer,)
        try:
            found = tuple(float(part) for part in parts)
        except (TypeError, ValueError, OverflowError):
            found = ()
        if not found or any(isnan(part) for part in found):
            raise self._failed("turn", job, f"{quoted_answer(answer)}; expected a number, or several")
        return found

    def _ask(self, method: str, job: DispatchJob, ask: Callable[[], T]) -> T:
        with WATCHDOG.ends(_answered.__code__):
            try:
                return _answered(ask)
            except KeyboardInterrupt:  # somebody else's wish, as SIGTERM is
                raise
            # SystemExit too, and what is derived from nothing but BaseException: a policy of others must not end the process.
            except BaseException as error:
                raise self._failed(method, job, describe_error(error)) from error

    def _failed(self, method: str, job: DispatchJob, what: str) -> PolicyError:
        return PolicyError(f"dispatch policy {self._name!r}: {method} of job {job.name:.80} at {job.now}: {what}")


def _answered(ask: Callable[[], T]) -> T:
    """What is given an end to."""
    return ask()


# A trace over several clusters. The dispatcher decides where each job goes as it arrives; below, each lab decides as ever.
#
# All labs have one virtual time: each goes on by itself up to the next moment at which the dispatcher has something to do, and is held there before anybody
# acts. So one cluster with nothing between is the same as a replay without a dispatcher.

_IN_VAIN = 3
"""So often it is asked where nothing is to happen any more and labs go on: those that are held have not acted yet on what has just ended."""
_PATIENCE = 86_400
"""Seconds for which it is asked after that, while the time of the labs stays: a policy may wait for a time of day."""


def dispatch(
    sites: ClusterSites,
    lasting: int | None,
    progress: Progress = lambda what, done, total: None,
    keeper: ReplayCheckpoint | None = None,
) -> DispatchedReplay:
    """Carry it out. ``lasting``: seconds after the first arrival at which it is cut off. ``keeper``: as of ``replay``. Raises InputError, PolicyError, StateError."""
    with collector_off(), ExitStack() as labs:
        kept = None if keeper is None else keeper.found()
        if kept is not None:
            assert isinstance(kept, _Run)
            for lab in kept.labs:
                labs.enter_context(lab)
            return kept.go_on(sites, progress, keeper)
        stations = [ClusterReplica(site, labs.enter_context(open_replay_lab(site.plan))) for site in sites.sites]
        return _Run(sites, stations, lasting, progress, keeper).run()


@dataclass(order=True)
class _Due:
    at: int
    number: int
    act: Callable[..., None] = field(compare=False)
    about: tuple[Any, ...] = field(compare=False)


class _Run:
    """``_arriving``: the dispatcher has something to do yet. Then each lab goes on by itself to its end, one after the other: ``_through`` of them have."""

    def __init__(
        self,
        sites: ClusterSites,
        stations: Sequence[ClusterReplica],
        lasting: int | None,
        progress: Progress,
        keeper: ReplayCheckpoint | None,
    ) -> None:
        self._stations = {one.name: one for one in stations}
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
        """To be kept. What the sites have is given anew, and whom to tell."""
        return {**self.__dict__, "_sites": None, "_policy": None, "_jobs": None, "_progress": None, "_keeper": None}

    def _give(self, sites: ClusterSites, progress: Progress, keeper: ReplayCheckpoint | None) -> None:
        self._sites = sites
        self._policy = CheckedDispatchPolicy(sites.dispatching.policy.name, dispatch_policy(sites.dispatching.policy))
        self._jobs = sites.trace.jobs
        self._progress, self._keeper = progress, keeper

    @property
    def labs(self) -> list[Lab]:
        return [one.stay.lab for one in self._stations.values()]

    def run(self) -> DispatchedReplay:
        stations = self._stations.values()
        began = self._began = self._now = max(one.stay.now for one in stations)
        self._shift = began - self._jobs[0].arrival
        self._moving = TransferPlanner(self._sites, began)
        self._all_to(began)
        for one in stations:
            one.accounts.pass_to(began)
        return self._go(rested=False)

    def go_on(self, sites: ClusterSites, progress: Progress, keeper: ReplayCheckpoint | None) -> DispatchedReplay:
        """From where it was kept."""
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
        ended = max(one.stay.now for one in stations)
        # Those that were done sooner are as they are until the last is.
        for one in stations:
            if one.stay.now < ended:
                for _ in one.stay.moments(ended - one.stay.now):
                    pass
            one.stay.close()
        last = self._jobs[-1].arrival + self._shift
        clusters = {one.name: one.one.replayed(began, last) for one in stations}
        found = DispatchedReplay(
            sites=self._sites, journeys=self._journeys, clusters=clusters, began=began, ended=ended, cut=end
        )
        check_conservation(found)
        return found

    def _while_arriving(self, end: int) -> None:
        while (at := self._next()) is not None and at < end:
            self._all_to(at)
            if self._over():
                break
            while self._due and self._due[0].at <= at:
                due = heapq.heappop(self._due)
                due.act(*due.about)
            self._arrivals()
            for one in self._stations.values():
                one.accounts.note(one.stay.now)
            self._tell()
            # Nobody has acted at this moment yet, so that it can be kept and gone on from.
            if self._keeper is not None:
                self._keeper.look(self)
        self._arriving = False

    # --- time ----------------------------------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """When the dispatcher has something to do next."""
        times = [self._due[0].at] if self._due else []
        if len(self._journeys) < len(self._jobs):
            times.append(self._jobs[len(self._journeys)].arrival + self._shift)
        return min(times, default=None)

    def _over(self) -> bool:
        """Nothing is with the dispatcher or to come to it, and all that was sent has ended."""
        return self._all_sent() and not any(one.accounts.unfinished for one in self._stations.values())

    def _all_sent(self) -> bool:
        there = len(self._journeys) == len(self._jobs) and not self._held
        return there and not any(one.coming for one in self._stations.values())

    def _all_to(self, at: int) -> None:
        self._now = at
        # Asked in vain, with nothing under way: it is no time of the labs.
        if self._in_vain >= _IN_VAIN:
            return
        all_sent = self._all_sent()
        for one in self._stations.values():
            for _ in one.stay.moments(at - one.stay.now, before=True):
                # Time stays where all has ended: what is due then may be a look at a job that has long begun.
                if all_sent and not one.accounts.unfinished:
                    break
            one.forget()

    def _catch_up(self, station: ClusterReplica) -> None:
        """A cluster whose time has stayed has something to do again."""
        for _ in station.stay.moments(self._now - station.stay.now, before=True):
            pass

    def _to_the_end(self, end: int, *, rested: bool) -> None:
        for one in list(self._stations.values())[self._through :]:
            for resting in one.stay.moments(end - one.stay.now, rested=rested):
                self._tell()
                if self._lasting is None and (not one.accounts.unfinished or one.stay.still):
                    break
                if resting and self._keeper is not None:
                    self._keeper.look(self)
            rested = False
            self._through += 1

    def _at(self, when: int, act: Callable[..., None], *about: Any) -> None:
        self._numbers += 1
        heapq.heappush(self._due, _Due(when, self._numbers, act, about))

    def _tell(self) -> None:
        inside = sum(len(one.accounts.unfinished) + len(one.coming) for one in self._stations.values())
        self._progress("replaying", len(self._journeys) - len(self._held) - inside, len(self._jobs))

    # --- where to ------------------------------------------------------------------------------------------------------

    def _arrivals(self) -> None:
        """Whoever arrives now takes its turn among those that are here already."""
        before = len(self._held)
        while (number := len(self._journeys)) < len(self._jobs):
            job = self._jobs[number]
            if job.arrival + self._shift > self._now:
                break
            data = self._sites.dataset_of(job)
            one = JobJourney(number=number, job=job, home=self._sites.homes[job.team], data=data, arrived=self._now)
            self._journeys.append(one)
            self._held.append(one)
        if len(self._held) > before:
            self._ask_held()

    def _dispatch(self, one: JobJourney) -> bool:
        """Whether it was sent somewhere."""
        candidates = [station for station in self._stations.values() if station.fits(one.job)]
        if not candidates:
            home = self._stations[one.home]
            # The lab there would begin it, as it does not know the limit: it waits here.
            if home.could_begin(one.job):
                return False
            # It never begins wherever it is, so it waits at home, as it would without a dispatcher.
            home.in_vain.add(one.name)
            self._send(one, home, None)
            return True
        views = [self._view(one, station) for station in candidates if self._takes(station, one)]
        chosen = self._policy.choose(self._told(one), views) if views else None
        if chosen is None:
            return False
        self._send(one, self._stations[chosen.name], chosen)
        return True

    def _takes(self, station: ClusterReplica, one: JobJourney) -> bool:
        return self._reached(station) == self._now and station.takes(one.job)

    def _reached(self, station: ClusterReplica) -> int:
        """When the dispatcher reaches it: now, or once an outage is over."""
        return self._moving.reached(station.name, self._now)

    def _ask_held(self) -> None:
        """Of all that are with the dispatcher, in turn."""
        before = len(self._held)
        self._held = self._in_turn(self._held)
        if not self._held or self._retrying:
            return
        moving = len(self._held) < before or self._due or len(self._journeys) < len(self._jobs)
        moving = moving or any(self._began + one.end > self._now for one in self._sites.outages)
        if moving or not all(one.stay.still for one in self._stations.values()):
            self._in_vain = 0
        else:
            self._in_vain += 1
            if self._in_vain == 1:
                self._quiet_from = self._now
        if self._in_vain < _IN_VAIN or self._now - self._quiet_from < _PATIENCE:
            self._retrying = True
            self._at(self._now + self._sites.dispatching.retry, self._ask_again)

    def _in_turn(self, held: list[JobJourney]) -> list[JobJourney]:
        """Of each of them, whose turn is first; those that stay. A team's turn is another once a job of it was sent."""
        if len(held) < 2:
            return [one for one in held if not self._dispatch(one)]
        waiting = {one.number: one for one in held}
        turns = {one.number: self._policy.turn(self._told(one)) for one in held}
        order = [(turn, number) for number, turn in turns.items()]
        heapq.heapify(order)
        stay: list[JobJourney] = []
        while waiting:
            turn, number = heapq.heappop(order)
            if number not in waiting or turns[number] != turn:
                continue
            one = waiting.pop(number)
            if not self._dispatch(one):
                stay.append(one)
                continue
            for other in waiting.values():
                if other.job.team == one.job.team:
                    turns[other.number] = self._policy.turn(self._told(other))
                    heapq.heappush(order, (turns[other.number], other.number))
        return stay

    def _ask_again(self) -> None:
        self._retrying = False
        self._ask_held()

    def _view(self, one: JobJourney, station: ClusterReplica, own: ReplayedJob | None = None) -> ClusterView:
        latency = self._sites.between(one.home, station.name).latency
        way = self._moving.way(one.data, one.home, station.name, self._now)
        return station.view(one.job, one.home, latency, way, own)

    def _told(self, one: JobJourney) -> DispatchJob:
        job = one.job
        holds = sum(station.holds(job.team) for station in self._stations.values())
        return DispatchJob(
            name=job.name,
            team=job.team,
            priority=job.priority,
            gpus=job.milli / WHOLE,
            seconds=job.seconds,
            models=job.models,
            home=one.home,
            at=one.at,
            arrived=one.arrived,
            now=self._now,
            sent=one.sent,
            dataset="" if one.data is None else one.data.name,
            team_holds=holds / WHOLE,
            team_quota=self._quotas[job.team],
        )

    # --- on the way ----------------------------------------------------------------------------------------------------

    def _send(self, one: JobJourney, station: ClusterReplica, seen: ClusterView | None) -> None:
        way = self._moving.send(one.data, one.home, station.name, self._now)
        one.at, one.work, one.left, one.way = station.name, None, self._now, way.seconds
        one.sent += 1
        one.moved_to[station.name] = one.moved_to.get(station.name, 0) + way.moved
        one.cost += way.cost
        one.latency = self._sites.between(one.home, station.name).latency
        one.expected = seen.wait if seen is not None and seen.asked else None
        if way.seconds:
            station.coming[one.name] = one.job
            station.forget()
            self._at(self._now + way.seconds, self._land, one, station)
        else:
            self._land(one, station)

    def _land(self, one: JobJourney, station: ClusterReplica) -> None:
        reached = self._reached(station)
        if reached > self._now:
            # It is told again until it is heard: under its name, so that it comes to be there once.
            station.coming[one.name] = one.job
            station.forget()
            self._at(reached, self._land, one, station)
            return
        station.coming.pop(one.name, None)
        if station.stay.now < self._now:
            self._catch_up(station)
        one.work = station.stay.submit(one.name, one.job, one.arrived)
        station.forget()
        self._look_again(one, one.work)

    def _look_again(self, one: JobJourney, work: ReplayedJob) -> None:
        dispatching = self._sites.dispatching
        if dispatching.again is not None and one.looks < dispatching.most:
            one.looks += 1
            self._at(self._now + dispatching.again, self._waited_long, one, work)

    def _waited_long(self, one: JobJourney, work: ReplayedJob) -> None:
        """It may go elsewhere, if it has not begun and holds nothing."""
        if one.work is not work or work.began is not None or work.lives or work.saved or work.done:
            return
        here = self._stations[one.at]
        if (reached := self._reached(here)) > self._now:
            # What runs there is not known now: whoever sent the job elsewhere might have it run twice.
            self._at(reached, self._waited_long, one, work)
            return
        views = [
            self._view(one, station, work if station is here else None)
            for station in self._stations.values()
            if station.fits(one.job) and (station is here or self._takes(station, one))
        ]
        chosen = self._policy.choose(self._told(one), views) if views else None
        if chosen is not None and chosen.name != here.name:
            here.stay.withdraw(work)
            here.forget()
            one.taken_back += 1
            self._send(one, self._stations[chosen.name], chosen)
        else:
            self._look_again(one, work)


def _quota_of(team: str, stations: Sequence[ClusterReplica]) -> float:
    """GPUs over all clusters; -1 where one of them sets no bound."""
    quotas = [one.site.queues.quotas[one.site.queues.of_team[team]] for one in stations]
    return -1.0 if min(quotas) < 0 else sum(quotas)
