"""A lab with the accounts of its jobs: it takes jobs and advances time from event to event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import inf

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import InputError
from kailab.evidence.model_use import model_of_node
from kailab.lab import Lab
from kailab.model import labels
from kailab.model.objects import ENDED_PHASES, annotations_of, is_ended, labels_of, name_of, namespace_of, uid_of
from kailab.model.times import DAY, parse_time
from kailab.replay.accounts import PodLifetime, ReplayAccounts, ReplayedJob
from kailab.replay.failures import NodeFailure
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.manifests import ATTEMPT_FAILED, NAMESPACE, failure_note, job_object, pods_of
from kailab.replay.queues import TeamQueues
from kailab.replay.services import STEP, FollowedServices, InferenceService, ServedReplicas
from kailab.replay.speeds import SpeedTable
from kailab.replay.trace import Trace, unknown_priority


class ReplaySession:
    """The jobs in one lab from first to last.

    ``queues``: applied at once. ``largest``: GPUs of the largest node. ``speeds``: of jobs by their placement; None: that of
    the trace. Raises InputError.
    """

    def __init__(
        self, lab: Lab, queues: TeamQueues, accounts: ReplayAccounts, largest: int, speeds: SpeedTable | None = None
    ) -> None:
        cluster = lab.cluster
        assert isinstance(cluster, EmbeddedCluster)
        self.lab = lab
        self.cluster = cluster
        self.queues = queues
        self.accounts = accounts
        self._largest = largest
        lab.apply([*queues.classes, *queues.objects])
        lab.settle()
        self._services: FollowedServices | None = None
        self._scaled_at = inf
        self._follower = PodFollower(cluster, accounts, speeds)
        lab.add_controller(self._follower)

    @property
    def now(self) -> int:
        return int(self.cluster.now())

    def submit(self, name: str, job: TraceJob, arrived: int) -> ReplayedJob:
        """Create the job in the lab. ``arrived``: since when it waits."""
        self.accounts.pass_to(self.now)
        queue, pods = self.queues.of_team[job.team], pods_of(job, self._largest)
        work = ReplayedJob(name, job, queue, pods, arrived)
        self.accounts.arrive(work)
        self.cluster.create(
            job_object(name, job, queue, pods, endless=self.accounts.endless, progress=self.accounts.progress)
        )
        return work

    def withdraw(self, work: ReplayedJob) -> None:
        """Remove a job that has never begun and holds nothing from the lab and from the accounts."""
        self.accounts.withdraw(work)
        self.cluster.delete("Job", work.name, NAMESPACE)
        self.accounts.note(self.now)

    def expect(self, failures: Sequence[NodeFailure], began: int) -> None:
        """Let nodes fail, and be repaired, at their times after ``began``."""
        for failure in failures:
            at = began + failure.at
            self.cluster.call_at(at, partial(self._fail, failure.node), prompt=False)
            self.cluster.call_at(at + failure.seconds, partial(self._cordon, failure.node, False), prompt=False)

    def serve(self, services: Sequence[InferenceService], shift: int) -> None:
        """Run services beside the jobs. ``shift``: the lab's clock less the trace's."""
        if services:
            self._services = FollowedServices(self.cluster, services, shift, self.now)
            self._scale()

    def _scale(self) -> None:
        assert self._services is not None
        self._services.scale(self.now)
        self._scaled_at = self.now + STEP
        self.cluster.call_at(self._scaled_at, self._scale, prompt=False)

    @property
    def served(self) -> list[ServedReplicas]:
        """What was wanted of services and served up to now."""
        if self._services is None:
            return []
        self._services.advance_to(self.now)
        return self._services.served()

    def _cordon(self, node: str, unschedulable: bool) -> None:
        self.cluster.patch("Node", node, None, {"spec": {"unschedulable": unschedulable}})

    def _fail(self, node: str) -> None:
        """Let a node fail, with all pods of the jobs that have one there."""
        self._follower.process_events()
        # A node that is not ready would hold its pods until its kubelet is back; here they are gone at once.
        self._cordon(node, True)
        self.accounts.failed_nodes += 1
        bound = [pod for pod in self.cluster.list("Pod") if pod["spec"].get("nodeName") and not is_ended(pod)]
        struck = {labels_of(pod).get(_JOB) for pod in bound if pod["spec"]["nodeName"] == node}
        for pod in bound:
            name = labels_of(pod).get(_JOB)
            work = self.accounts.works.get(name) if name else None
            # An elastic job goes on without its pods on the node.
            stays = work is not None and work.elastic is not None and pod["spec"]["nodeName"] != node
            if name in struck and not stays:
                message = f"Node {node} has failed"
                self.cluster.evict(namespace_of(pod), name_of(pod), "NodeFailure", message, grace_seconds=0)
                self.accounts.failed_pods += 1

    def moments(self, seconds: float, *, before: bool = False, rested: bool = False) -> Iterator[bool]:
        """As ``Lab.moments``, with the accounts up to date at each moment."""
        for resting in self.lab.moments(seconds, before=before, rested=rested):
            self._follower.process_events()
            if self._services is not None:
                self._services.advance_to(self.now)
            yield resting

    @property
    def still(self) -> bool:
        """True if nothing more happens by itself. A pending timer counts, for example of a Job that recreates a pod. Services
        scale for ever: with them, nothing has happened to a job for a day, in which they have had each load."""
        timer = self.cluster.next_timer()
        if timer is not None and timer == self._scaled_at:
            return self.now - self.accounts.timeline[-1][0] >= DAY
        return timer is None and self.cluster.next_prompt() is None

    def close(self) -> None:
        """Process the last events and stop."""
        self._follower.process_events()
        self._follower.close()
        if self._services is not None:
            self._services.advance_to(self.now)
            self._services.close()

    def check_priorities(self, trace: Trace) -> None:
        """Raise InputError for a job with an unknown priority."""
        known = {name_of(priority) for priority in self.cluster.list("PriorityClass")}
        for job in trace.jobs:
            if fault := unknown_priority(job, known):
                raise InputError(fault, trace.where(job.line))


_JOB = "batch.kubernetes.io/job-name"
_INDEX = "batch.kubernetes.io/job-completion-index"


class PodFollower:
    """Follows the pods of a replay through a watch and books their events in the accounts.

    It also shortens the run time of an evicted pod's successor to the remaining work, as a controller of the lab, so that
    the first cycle with the successor knows it, and sets that of bound pods by their speed before they start. It deletes completed Jobs: a trace has more jobs than a cluster should
    hold.
    """

    def __init__(self, cluster: Cluster, accounts: ReplayAccounts, speeds: SpeedTable | None = None) -> None:
        self._cluster = cluster
        self._accounts = accounts
        self._watch = cluster.watch(("Pod",))
        self._ended: list[ReplayedJob] = []
        self._speeds = speeds
        self._bound: list[tuple[ReplayedJob, PodLifetime, Object]] = []  # at this moment
        self._changed: dict[str, ReplayedJob] = {}  # elastic jobs of which pods have started or gone at this moment
        self._pods: dict[str, dict[str, str]] = {}  # job -> uid of a pod of it -> its name, for elastic jobs
        self._seen = False  # any event since the accounts were noted
        self._models = {name_of(node): model_of_node(node) for node in cluster.list("Node")}

    def process_events(self) -> None:
        """Process all events up to the current time, and delete the Jobs that have ended."""
        self.step()
        for work in self._ended:
            self._cluster.delete("Job", work.name, NAMESPACE)
        self._ended.clear()
        if self._seen:
            self._accounts.note(int(self._cluster.now()))
        self._seen = False

    def step(self) -> bool:
        """Process all events up to the current time. Returns True if a run time was changed."""
        now = int(self._cluster.now())
        accounts = self._accounts
        accounts.pass_to(now)
        changed = False
        for event in self._watch.poll():
            self._seen = True
            pod = event.object
            name = labels_of(pod).get(_JOB)
            work = accounts.works.get(name) if name else None
            if work is None:
                continue
            if event.type == "DELETED":
                if uid_of(pod) in work.lives:
                    self._evict(work, uid_of(pod), now)
            else:
                ran = work.ended is None
                changed |= self._see(work, pod, now)
                if ran and work.ended is not None:
                    self._ended.append(work)
        # The pods of a gang are bound together: only now is it known where they all are.
        for work, life, pod in self._bound:
            changed |= self._set_speed(work, life, pod)
        self._bound.clear()
        for work in self._changed.values():
            changed |= self._regroup(work, now)
        self._changed.clear()
        return changed

    def close(self) -> None:
        self._watch.close()

    def _see(self, work: ReplayedJob, pod: Object, now: int) -> bool:
        """Book what has become of a pod. Returns True if its run time was changed."""
        uid, phase = uid_of(pod), (pod.get("status") or {}).get("phase")
        life = work.lives.get(uid)
        if life is None:
            if phase in ENDED_PHASES or work.ended is not None:
                return False  # its end was already processed
            index = int(annotations_of(pod).get(_INDEX, 0))
            node = pod["spec"].get("nodeName")
            if not node:
                if work.elastic is not None:
                    return self._set_times(work, pod, work.elastic.done, restarted=work.elastic.regrouped)
                return index in work.saved and self._go_on(work, pod, work.saved[index])
            self._accounts.bind(work, uid, index, now, self._models.get(node, ""), node)
            life = work.lives[uid]
            if work.elastic is not None:
                self._pods.setdefault(work.name, {})[uid] = name_of(pod)
            elif self._speeds is not None and work.milli and phase == "Pending":
                self._bound.append((work, life, pod))
        if life.begun is None and phase != "Pending" and (since := pod["status"].get("startTime")):
            # Use the pod's own start time: the event arrives later.
            self._accounts.begin(work, life, int(parse_time(since)))
            if work.elastic is not None:
                self._changed[work.name] = work
        if phase == "Succeeded":
            # A successor without remaining work ends when it starts; its event also arrives later.
            self._accounts.complete(work, uid, _finished(pod, now), now)
            self._changed.pop(work.name, None)
            self._pods.pop(work.name, None)
        elif phase == "Failed" and _failed_attempt(pod):
            self._accounts.fail_attempt(work, uid, _finished(pod, now), now)
        elif phase == "Failed":
            self._evict(work, uid, now)
        return False

    def _evict(self, work: ReplayedJob, uid: str, now: int) -> None:
        self._accounts.evict(work, uid, now)
        if work.elastic is not None:
            self._changed[work.name] = work
            self._pods[work.name].pop(uid)

    def _regroup(self, work: ReplayedJob, now: int) -> bool:
        """Let the pods of an elastic job that run go on together. Returns True if their run times were others."""
        elastic, lives = work.elastic, work.begun.values()
        assert elastic is not None
        pods = self._pods.get(work.name, {})
        speed = len(lives) * WHOLE // work.pods
        if self._speeds is not None and lives and work.milli:
            models, nodes = {one.model for one in lives}, {one.node for one in lives}
            speed = self._speeds.of_some(work.job.kind, models, len(nodes), len(lives), work.pods)
        if not self._accounts.regroup(work, now, max(1, speed)):
            if not elastic.together and not self._accounts.endless:
                for uid in work.begun:  # too few: they wait for others
                    self._cluster.patch("Pod", pods[uid], NAMESPACE, _notes({labels.RUN_SECONDS: None}))
            return False
        if self._accounts.endless:
            return True
        progress, job = self._accounts.progress, work.job
        expected = max(1, job.estimate - elastic.done)
        in_all = progress.duration(expected, elastic.done, restarted=elastic.regrouped, speed=elastic.speed)
        for uid, life in work.begun.items():
            assert life.begun is not None
            before = elastic.since - life.begun
            times = {
                labels.RUN_SECONDS: str(before + elastic.until_end(progress)),
                labels.EXPECTED_SECONDS: str(before + in_all),
            }
            self._cluster.patch("Pod", pods[uid], NAMESPACE, _notes(times))
        return True

    def _go_on(self, work: ReplayedJob, pod: Object, saved: int) -> bool:
        """Set a successor's run time, and what policies know of it, to the remaining work and the cost of a restart, and tell
        them how long the pods before it ran. Returns True if they were others."""
        return self._set_times(work, pod, saved, restarted=True)

    def _set_speed(self, work: ReplayedJob, life: PodLifetime, pod: Object) -> bool:
        """Set the speed of a pod that is bound and has not started, and its run time. Returns True if it was another."""
        assert self._speeds is not None
        lives = work.lives.values()
        life.speed = self._speeds.of(work.job.kind, {one.model for one in lives}, len({one.node for one in lives}))
        saved = work.saved.get(life.index, 0)
        return self._set_times(work, pod, saved, restarted=life.restarted, speed=life.speed)

    def _set_times(self, work: ReplayedJob, pod: Object, saved: int, *, restarted: bool, speed: int = WHOLE) -> bool:
        job, notes, progress = work.job, annotations_of(pod), self._accounts.progress
        duration = progress.duration
        expected = duration(max(1, job.estimate - saved), saved, restarted=restarted, speed=speed)
        wanted: dict[str, str | None] = {
            labels.RUN_SECONDS: str(duration(job.seconds - saved, saved, restarted=restarted, speed=speed)),
            labels.EXPECTED_SECONDS: str(expected),
            labels.FAIL: failure_note(job, progress, saved, restarted=restarted, speed=speed),
        }
        changed = {key: value for key, value in wanted.items() if key in notes and notes[key] != value}
        ran = str(work.ran.get(int(notes.get(_INDEX, 0)), 0))
        if notes.get(labels.RAN_SECONDS, "0") != ran:
            changed[labels.RAN_SECONDS] = ran
        if changed:
            self._cluster.patch("Pod", name_of(pod), NAMESPACE, _notes(changed))
        return bool(changed)


def _notes(annotations: Mapping[str, str | None]) -> Object:
    return {"metadata": {"annotations": annotations}}


def _failed_attempt(pod: Object) -> bool:
    """True if a pod failed because an attempt of its job ends in the trace."""
    states = (container["state"] for container in pod["status"].get("containerStatuses") or ())
    return any(state.get("terminated", {}).get("reason") == ATTEMPT_FAILED for state in states)


def _finished(pod: Object, now: int) -> int:
    """When the pod's containers ended."""
    ends = [
        state["terminated"]["finishedAt"]
        for container in pod["status"].get("containerStatuses") or ()
        if "terminated" in (state := container["state"])
    ]
    return int(parse_time(max(ends))) if ends else now
