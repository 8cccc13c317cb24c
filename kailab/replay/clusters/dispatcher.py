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
from kailab.engine.policies.job_orders import quoted_answer
from kailab.errors import PolicyError, describe_error
from kailab.lab import Lab
from kailab.lab.garbage import collector_off
from kailab.model.callbacks import Progress
from kailab.model.times import DAY
from kailab.replay.accounts import ReplayedJob
from kailab.replay.clusters.journeys import DispatchedReplay, JobJourney
from kailab.replay.clusters.replica import ClusterReplica, JobInTransfer
from kailab.replay.clusters.sites import ClusterSites, TransferPlanner, dispatch_policy
from kailab.replay.job import LONGEST, WHOLE
from kailab.replay.resume_file import ResumeFile
from kailab.replay.run import open_replay_lab
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
    """Call the policy; ``policy_timeouts`` bounds the time spent in this function."""
    return ask()


_MOST_UNSUCCESSFUL_ROUNDS = 3
"""Number of unsuccessful rounds, with nothing in progress, after which the labs' time stops.

More than one is needed: a lab that stops at a moment has not yet acted on the jobs that end at it.
"""
_PATIENCE = DAY
"""Seconds for which the policy is asked after those rounds, because it may wait for a time of day."""


def dispatch(
    sites: ClusterSites,
    lasting: int | None,
    progress: Progress = lambda step, done, total: None,
    resume_file: ResumeFile | None = None,
) -> DispatchedReplay:
    """Replay a trace over several clusters.

    ``lasting``: seconds after the first arrival at which the replay is cut off. ``resume_file``: as in ``replay``. The
    result may have ``faults``. Raises InputError, PolicyError, StateError.
    """
    with collector_off(), ExitStack() as labs:
        saved = None if resume_file is None else resume_file.load()
        if saved is not None:
            assert isinstance(saved, _Run)
            for lab in saved.labs:
                labs.enter_context(lab)
            return saved.resume(sites, progress, resume_file)
        replicas = [ClusterReplica(site, labs.enter_context(open_replay_lab(site.plan))) for site in sites.sites]
        return _Run(sites, replicas, lasting, progress, resume_file).run()


@dataclass(order=True)
class _ScheduledAction:
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
        replicas: Sequence[ClusterReplica],
        lasting: int | None,
        progress: Progress,
        resume_file: ResumeFile | None,
    ) -> None:
        self._replicas = {replica.name: replica for replica in replicas}
        self._attach(sites, progress, resume_file)
        self._lasting = lasting
        self._journeys: list[JobJourney] = []
        self._held: list[JobJourney] = []
        self._due: list[_ScheduledAction] = []
        self._numbers = 0
        self._unsuccessful_rounds = 0
        self._quiet_from = 0
        self._retrying = False
        self._quotas = {team: _quota_of(team, replicas) for team in sites.trace.teams}
        self._arriving = True
        self._through = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the sites, the policy and the callbacks; they are supplied again on resume."""
        return {
            **self.__dict__,
            "_sites": None,
            "_policy": None,
            "_jobs": None,
            "_progress": None,
            "_resume_file": None,
        }

    def _attach(self, sites: ClusterSites, progress: Progress, resume_file: ResumeFile | None) -> None:
        self._sites = sites
        self._policy = CheckedDispatchPolicy(sites.dispatching.policy.name, dispatch_policy(sites.dispatching.policy))
        self._jobs = sites.trace.jobs
        self._progress, self._resume_file = progress, resume_file

    @property
    def labs(self) -> list[Lab]:
        return [replica.session.lab for replica in self._replicas.values()]

    def run(self) -> DispatchedReplay:
        replicas = self._replicas.values()
        began = self._began = self._now = max(replica.session.now for replica in replicas)
        self._shift = began - self._jobs[0].arrival
        self._transfers = TransferPlanner(self._sites, began)
        self._advance_all(began)
        for replica in replicas:
            replica.accounts.pass_to(began)
        return self._run(rested=False)

    def resume(self, sites: ClusterSites, progress: Progress, resume_file: ResumeFile | None) -> DispatchedReplay:
        """Resume a saved replay."""
        self._attach(sites, progress, resume_file)
        self._transfers.restore(sites)
        for site in sites.sites:
            self._replicas[site.name].restore(site)
        return self._run(rested=not self._arriving)

    def _run(self, *, rested: bool) -> DispatchedReplay:
        replicas, began = self._replicas.values(), self._began
        end = began + (LONGEST if self._lasting is None else self._lasting)
        if self._arriving:
            self._while_arriving(end)
        self._run_to_end(end, rested=rested)
        ended = max(replica.session.now for replica in replicas)
        # Bring clusters that finished earlier to the end of the last one.
        for replica in replicas:
            if replica.session.now < ended:
                for _ in replica.session.moments(ended - replica.session.now):
                    pass
            replica.session.close()
        last = self._jobs[-1].arrival + self._shift
        clusters = {replica.name: replica.replay_lab.replayed(began, last) for replica in replicas}
        return DispatchedReplay(
            sites=self._sites, journeys=self._journeys, clusters=clusters, began=began, ended=ended, cut=end
        )

    def _while_arriving(self, end: int) -> None:
        while (at := self._next()) is not None and at < end:
            self._advance_all(at)
            if self._is_complete():
                break
            while self._due and self._due[0].at <= at:
                due = heapq.heappop(self._due)
                due.act(*due.about)
            self._arrivals()
            for replica in self._replicas.values():
                replica.accounts.note(replica.session.now)
            self._report_progress()
            # No lab has acted at this moment yet, so the replay can be saved and resumed here.
            if self._resume_file is not None:
                self._resume_file.save_if_due(self)
        self._arriving = False

    # --- time ----------------------------------------------------------------------------------------------------------

    def _next(self) -> int | None:
        """When the dispatcher's next event is due."""
        times = [self._due[0].at] if self._due else []
        if len(self._journeys) < len(self._jobs):
            times.append(self._jobs[len(self._journeys)].arrival + self._shift)
        return min(times, default=None)

    def _is_complete(self) -> bool:
        """True if no job is with the dispatcher or yet to arrive, and all jobs sent have ended."""
        return self._all_sent() and not any(replica.accounts.unfinished for replica in self._replicas.values())

    def _all_sent(self) -> bool:
        arrived = len(self._journeys) == len(self._jobs) and not self._held
        return arrived and not any(replica.coming for replica in self._replicas.values())

    def _advance_all(self, at: int) -> None:
        self._now = at
        # Nothing is in progress and the policy was asked without success: the labs' time stops.
        if self._unsuccessful_rounds >= _MOST_UNSUCCESSFUL_ROUNDS:
            return
        all_sent = self._all_sent()
        for replica in self._replicas.values():
            for _ in replica.session.moments(at - replica.session.now, before=True):
                # Stop the time of a lab whose jobs have all ended: the event may only re-check a job that has begun.
                if all_sent and not replica.accounts.unfinished:
                    break
            replica.forget()

    def _catch_up(self, replica: ClusterReplica) -> None:
        """Advance a cluster whose time had stopped and that gets a job now."""
        for _ in replica.session.moments(self._now - replica.session.now, before=True):
            pass

    def _run_to_end(self, end: int, *, rested: bool) -> None:
        for replica in list(self._replicas.values())[self._through :]:
            for resting in replica.session.moments(end - replica.session.now, rested=rested):
                self._report_progress()
                if self._lasting is None and (not replica.accounts.unfinished or replica.session.still):
                    break
                if resting and self._resume_file is not None:
                    self._resume_file.save_if_due(self)
            rested = False
            self._through += 1

    def _at(self, when: int, act: Callable[..., None], *about: Any) -> None:
        self._numbers += 1
        heapq.heappush(self._due, _ScheduledAction(when, self._numbers, act, about))

    def _report_progress(self) -> None:
        inside = sum(len(replica.accounts.unfinished) + len(replica.coming) for replica in self._replicas.values())
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
        candidates = [replica for replica in self._replicas.values() if replica.fits(journey.job)]
        if not candidates:
            home = self._replicas[journey.home]
            # Only the site's limit forbids the job. The lab does not know the limit and would start it, so keep it here.
            if home.could_begin(journey.job):
                return False
            # The job can begin nowhere, so it waits at home, as it would without a dispatcher.
            home.never_begins.add(journey.name)
            self._send(journey, home, None)
            return True
        views = [self._view(journey, replica) for replica in candidates if self._takes(replica, journey)]
        chosen = self._policy.choose(self._dispatch_job(journey), views) if views else None
        if chosen is None:
            return False
        self._send(journey, self._replicas[chosen.name], chosen)
        return True

    def _takes(self, replica: ClusterReplica, journey: JobJourney) -> bool:
        return self._reached(replica) == self._now and replica.takes(journey.job)

    def _reached(self, replica: ClusterReplica) -> int:
        """When the dispatcher can reach the cluster: now, or at the end of an outage."""
        return self._transfers.reached(replica.name, self._now)

    def _ask_held(self) -> None:
        """Ask for all jobs that wait with the dispatcher, in order of their turn."""
        before = len(self._held)
        self._held = self._in_turn(self._held)
        if not self._held or self._retrying:
            return
        moving = len(self._held) < before or self._due or len(self._journeys) < len(self._jobs)
        moving = moving or any(self._began + outage.end > self._now for outage in self._sites.outages)
        if moving or not all(replica.session.still for replica in self._replicas.values()):
            self._unsuccessful_rounds = 0
        else:
            self._unsuccessful_rounds += 1
            if self._unsuccessful_rounds == 1:
                self._quiet_from = self._now
        if self._unsuccessful_rounds < _MOST_UNSUCCESSFUL_ROUNDS or self._now - self._quiet_from < _PATIENCE:
            self._retrying = True
            self._at(self._now + self._sites.dispatching.retry, self._ask_again)

    def _in_turn(self, held: list[JobJourney]) -> list[JobJourney]:
        """Ask for each job in order of its turn. Returns the jobs that stay.

        Turns of a team's other jobs are computed again after one of them is sent.
        """
        if len(held) < 2:
            return [journey for journey in held if not self._dispatch(journey)]
        waiting = {journey.number: journey for journey in held}
        turns = {journey.number: self._policy.turn(self._dispatch_job(journey)) for journey in held}
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
                    turns[other.number] = self._policy.turn(self._dispatch_job(other))
                    heapq.heappush(order, (turns[other.number], other.number))
        return staying

    def _ask_again(self) -> None:
        self._retrying = False
        self._ask_held()

    def _view(self, journey: JobJourney, replica: ClusterReplica, own: ReplayedJob | None = None) -> ClusterView:
        latency = self._sites.between(journey.home, replica.name).latency
        transfer = self._transfers.plan(journey.data, journey.home, replica.name, self._now)
        return replica.view(journey.job, journey.home, latency, transfer, own)

    def _dispatch_job(self, journey: JobJourney) -> DispatchJob:
        job = journey.job
        holds = sum(replica.holds(job.team) for replica in self._replicas.values())
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

    def _send(self, journey: JobJourney, replica: ClusterReplica, view: ClusterView | None) -> None:
        transfer = self._transfers.send(journey.data, journey.home, replica.name, self._now)
        journey.at, journey.work, journey.sent_at, journey.way = replica.name, None, self._now, transfer.seconds
        journey.sent += 1
        journey.moved_to[replica.name] = journey.moved_to.get(replica.name, 0) + transfer.moved
        journey.cost += transfer.cost
        journey.latency = self._sites.between(journey.home, replica.name).latency
        journey.expected = view.wait if view is not None and view.asked else None
        if transfer.seconds:
            replica.coming[journey.name] = JobInTransfer(journey.job, self._now + transfer.seconds)
            replica.forget()
            self._at(self._now + transfer.seconds, self._land, journey, replica)
        else:
            self._land(journey, replica)

    def _land(self, journey: JobJourney, replica: ClusterReplica) -> None:
        reached = self._reached(replica)
        if reached > self._now:
            # Retry at the end of the outage, under the same name, so that the job is created once.
            replica.coming[journey.name] = JobInTransfer(journey.job, reached)
            replica.forget()
            self._at(reached, self._land, journey, replica)
            return
        replica.coming.pop(journey.name, None)
        if replica.session.now < self._now:
            self._catch_up(replica)
        journey.work = replica.session.submit(journey.name, journey.job, journey.arrived)
        replica.forget()
        self._plan_reconsidering(journey, journey.work)

    def _plan_reconsidering(self, journey: JobJourney, work: ReplayedJob) -> None:
        dispatching = self._sites.dispatching
        if dispatching.again is not None and journey.looks < dispatching.most:
            journey.looks += 1
            self._at(self._now + dispatching.again, self._reconsider, journey, work)

    def _reconsider(self, journey: JobJourney, work: ReplayedJob) -> None:
        """Ask again for a job that has waited in a cluster, if it has not begun and holds nothing there."""
        if journey.work is not work or work.began is not None or work.lives or work.saved or work.done:
            return
        here = self._replicas[journey.at]
        if (reached := self._reached(here)) > self._now:
            # The state of an unreachable cluster is unknown; sending the job elsewhere could run it twice.
            self._at(reached, self._reconsider, journey, work)
            return
        views = [
            self._view(journey, replica, work if replica is here else None)
            for replica in self._replicas.values()
            if replica.fits(journey.job) and (replica is here or self._takes(replica, journey))
        ]
        chosen = self._policy.choose(self._dispatch_job(journey), views) if views else None
        if chosen is not None and chosen.name != here.name:
            here.session.withdraw(work)
            here.forget()
            journey.taken_back += 1
            self._send(journey, self._replicas[chosen.name], chosen)
        else:
            self._plan_reconsidering(journey, work)


def _quota_of(team: str, replicas: Sequence[ClusterReplica]) -> float:
    """GPU quota of a team over all clusters; -1 if one cluster sets no bound."""
    quotas = [replica.site.queues.quotas[replica.site.queues.of_team[team]] for replica in replicas]
    return -1.0 if min(quotas) < 0 else sum(quotas)
