"""Carries decisions out: binds pods, evicts victims, and asks victims for a checkpoint first.

A failed write is reported as an event, a failed bind also as a condition, and tried again after a pause.

Checkpoints: a pod can save its state if a container has a preStop hook, or if its annotation ``kailab.dev/checkpoint-seconds`` says how
long saving takes (fake nodes wait that long). The executor sets the annotation ``kailab.dev/checkpoint-requested``, writes an event, and
evicts the pod with a grace period. The pod keeps its GPUs until it ends; the beneficiary gets a promise (pipelined). On a real cluster the
same eviction runs the container's preStop hook and SIGTERM within the grace period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.cluster.pod_lifecycle import can_save
from kailab.cluster.protocol import AsyncWrites, Cluster
from kailab.cluster.retries import Retries
from kailab.cluster.submitted_writes import SubmittedItems
from kailab.cluster.writes import BindWrite, Chain, EvictWrite, PatchWrite, Write
from kailab.engine.decisions import Bind, Decisions, Evict
from kailab.engine.policies.settings import Checkpoint
from kailab.engine.snapshot.records import ACTIVE, Shape, Task
from kailab.errors import ApiError, NotFound, Unavailable
from kailab.model import labels as names
from kailab.model.objects import conditions_of, metadata_of, name_of, namespace_of, phase_of
from kailab.model.times import format_time
from kailab.scheduler.binding import Binding, Preparation
from kailab.scheduler.binding.bind_backoff import BindBackoff
from kailab.scheduler.cycle_record import RefusedDecision
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.reading.numa import PREDICTED, zones_annotation
from kailab.scheduler.reading.podgroups import node_pool
from kailab.scheduler.reading.tasks import gpu_group_labels
from kailab.scheduler.status.reporting import not_scheduled, with_condition

DEFAULT_GRACE = 30  # seconds: Kubernetes' default of terminationGracePeriodSeconds


def request_checkpoint(cluster: Cluster, mirror: Mirror, evict: Evict, policy: Checkpoint) -> float | None:
    """Ask a running victim with a checkpoint hook to save its state. Returns the grace period for the eviction in seconds; None: the
    pod's own. Raises ApiError."""
    pod = mirror.pods.get(evict.task)
    if pod is None:
        return policy.grace
    if can_save(pod) and phase_of(pod) == "Running":
        annotations = {names.CHECKPOINT_REQUESTED: format_time(cluster.now())}
        patch = {"metadata": {"uid": evict.task, "annotations": annotations}}
        patched = cluster.patch("Pod", name_of(pod), namespace_of(pod), patch)
        own = pod["spec"].get("terminationGracePeriodSeconds")
        grace = policy.grace if policy.grace is not None else DEFAULT_GRACE if own is None else own
        message = f"Asked to save its state for {mirror.podgroup_name(evict.beneficiary)}: it has {grace:g} s"
        cluster.event(patched, "Normal", "Checkpointing", message)
    return policy.grace


EVICTION_REASON = "PreemptionByScheduler"


def received_resource_type(shape: Shape) -> str:
    """KAI's name for the kind of GPU that a pod received."""
    # A device is received as a fraction also if it was requested by memory.
    return "Fraction" if shape.gpu.shared else shape.gpu.request_type


class DecisionExecutor:
    """Writes binds and evictions. ``bound``, ``evicted``: UIDs of PodGroups of the last ``execute``, in its order. ``preparations`` run
    before a pod is bound. ``sparing``: leave out events that repeat another one. ``ahead``: submit independent binds without waiting, if
    the cluster can do that; ``collect_outcomes`` handles their results."""

    def __init__(
        self,
        cluster: Cluster,
        mirror: Mirror,
        checkpoint: Checkpoint | None = None,
        preparations: Sequence[Preparation] = (),
        sparing: bool = False,
        ahead: bool = False,
    ) -> None:
        self._cluster = cluster
        self._sparing = sparing
        self._async_cluster = cluster if ahead and isinstance(cluster, AsyncWrites) else None
        self._submitted: SubmittedItems[tuple[Bind, str]] = SubmittedItems()  # with the name of the pod
        self._mirror = mirror
        self._checkpoint = checkpoint
        self._preparations = preparations
        self._reported: dict[str, str] = {}  # uid -> the message of its last reported failure
        # UID -> GPU groups of a bind without an answer: the pod may have their labels.
        self._labelled: dict[str, tuple[str, ...]] = {}
        self._evictions: Retries[str] = Retries()
        self.bind_backoff = BindBackoff(mirror)
        self.unreachable = False
        self.bound: dict[str, None] = {}
        self.evicted: dict[str, None] = {}
        self.failures: list[RefusedDecision] = []
        self.wrote = False

    def carry_on(self, other: DecisionExecutor) -> None:
        """Take over the state of another executor."""
        self._reported |= other._reported
        self._labelled |= other._labelled
        self._evictions.carry_on(other._evictions)
        self.bind_backoff.carry_on(other.bind_backoff)

    @property
    def retry_at(self) -> float | None:
        """When the next failed bind or eviction is tried again."""
        moments = (self.bind_backoff.next_at, self._evictions.next_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def next_retry_since(self, since: float) -> float | None:
        """When the next retry is due for which settling should wait. ``since``: the start of settling."""
        moments = (self.bind_backoff.next_retry_since(since), self._evictions.due_since(since))
        return min((moment for moment in moments if moment is not None), default=None)

    def release_due(self, now: float) -> None:
        """Release pods whose pause is over."""
        self.bind_backoff.release_due(now)
        self._evictions.due(now)

    def execute(self, decisions: Decisions) -> None:
        """Write the binds, then the evictions, because the actions that decide them run in this order."""
        self.bound, self.evicted, self.wrote = {}, {}, False
        self._bind_all(decisions.binds)
        self._evict_all(decisions.evictions)
        # Forget pods that are gone.
        for uid in [uid for uid in self._reported if uid not in self._mirror.pods]:
            del self._reported[uid]
            self._evictions.forget(uid)
        for uid in [uid for uid in self._labelled if uid not in self._mirror.pods]:
            del self._labelled[uid]

    def collect_failures(self) -> tuple[tuple[RefusedDecision, ...], bool]:
        """Return and clear the failures since the last call, and whether something was not sent because the server did not answer."""
        result = tuple(self.failures), self.unreachable
        self.failures, self.unreachable = [], False
        return result

    def collect_outcomes(self) -> bool:
        """Handle the outcomes of submitted binds. Returns whether there were any."""
        answered = False
        for (bind, name), outcome in self._submitted.answered():
            answered = True
            if outcome.error is None:
                self._was_bound(bind, name)
            else:
                self._not_bound(bind, name, outcome.error)
        return answered

    def _submit(self, binds: Sequence[tuple[Bind, Chain]]) -> None:
        assert self._async_cluster is not None
        named_binds = [(bind, self._mirror.pod_name(bind.task)) for bind, _ in binds]
        # They count as started: pods being bound are protected like bound pods.
        self.bound |= dict.fromkeys(bind.podgroup for bind, _ in binds)
        self._submitted.add(self._async_cluster.hand_over([chain for _, chain in binds]), named_binds)
        self.wrote = True
        # A cluster may answer at once.
        self.collect_outcomes()

    def _groups_to_await(self, binds: Iterable[tuple[Bind, Chain]]) -> set[str]:
        """PodGroups whose binds must be awaited, because if one fails, the other binds of the gang are not sent: those with preparations or
        earlier refusals."""
        if self._async_cluster is None:
            return {bind.podgroup for bind, _ in binds}
        refused = self.bind_backoff.refused_pods
        return {
            bind.podgroup
            for bind, chain in binds
            if len(chain) > 1 or bind.task in refused or self._mirror.tasks[bind.task].shape.claims
        }

    def _bind_all(self, binds: Iterable[Bind]) -> None:
        planned = [(bind, chain) for bind in binds if (chain := self._chain(bind)) is not None]
        # All pods at once: each preparation costs one round of writes.
        refused = self._prepare([bind for bind, _ in planned])
        # Binds that a preparation refused are not sent.
        ready = [(bind, chain) for bind, chain in planned if bind.task not in refused]
        awaited = self._groups_to_await(planned)
        planned = [(bind, chain) for bind, chain in planned if bind.podgroup in awaited or bind.task in refused]
        if ahead := [(bind, chain) for bind, chain in ready if bind.podgroup not in awaited]:
            self._submit(ahead)
        errors = self._write_binds([entry for entry in ready if entry[0].podgroup in awaited]) | refused
        postponed = [bind.task for bind, _ in planned if bind.task not in errors]
        # A bind without an answer may have succeeded: keep its preparation.
        failed = [task for task, error in errors.items() if error is not None and not isinstance(error, Unavailable)]
        for preparation in self._preparations:
            preparation.undo([*failed, *postponed])
        for bind, _ in planned:
            # Postponed binds were not tried: no report and no pause.
            if bind.task not in errors:
                continue
            task = self._mirror.tasks[bind.task]
            name = f"{task.namespace}/{task.name}"
            error = errors[bind.task]
            if error is None:
                self.bound[bind.podgroup] = None
                self._was_bound(bind, name)
                continue
            # The pod may run: its group counts as started, so that a min-runtime protects it.
            if error.unanswered:
                self.bound[bind.podgroup] = None
            if bind.gpu_groups and bind.task not in refused:
                if error.unanswered:
                    self._labelled[bind.task] = bind.gpu_groups
                else:
                    self._unlabel(task, bind.gpu_groups)
            self._not_bound(bind, name, error)

    def _write_binds(self, binds: Sequence[tuple[Bind, Chain]]) -> dict[str, ApiError | None]:
        """Bind pods; returns errors by UID. Pods that were refused before go first. If one of them is refused again and nothing of its
        gang runs, the rest of the gang is postponed and has no entry."""
        refused_before = self.bind_backoff.refused_pods
        first = [entry for entry in binds if entry[0].task in refused_before]
        errors = self._write(first)
        postponed = {
            bind.podgroup
            for bind, _ in first
            if errors[bind.task] is not None
            # The rest of a gang that already runs in part is bound as usual.
            and not any(ACTIVE[task.status] for task in self._mirror.members(bind.podgroup))
        }
        others = [
            (bind, chain) for bind, chain in binds if bind.task not in refused_before and bind.podgroup not in postponed
        ]
        return errors | self._write(others)

    def _write(self, binds: Sequence[tuple[Bind, Chain]]) -> dict[str, ApiError | None]:
        outcomes = self._cluster.write_all([chain for _, chain in binds]) if binds else []
        return {bind.task: outcome.error for (bind, _), outcome in zip(binds, outcomes, strict=True)}

    def _prepare(self, binds: Sequence[Bind]) -> dict[str, ApiError]:
        """Run the preparations. Returns the errors of pods that can't be bound, by UID."""
        refused: dict[str, ApiError] = {}
        bindings = [Binding(self._mirror.pods[bind.task], bind.node, bind.gpu_groups) for bind in binds]
        for preparation in self._preparations:
            # In order, without pods that were refused: nothing is reserved for a pod that lacks its claims.
            refused |= preparation.prepare([binding for binding in bindings if binding.uid not in refused])
        return refused

    def _chain(self, bind: Bind) -> Chain | None:
        """The writes that bind a pod; None if the pod is gone."""
        task = self._mirror.tasks.get(bind.task)
        if task is None or bind.task not in self._mirror.pods:
            return None
        # The binding carries the annotations, which saves a write for each pod.
        annotations = {names.RECEIVED_RESOURCE_TYPE: received_resource_type(task.shape)}
        if bind.numa_zones:
            annotations[PREDICTED] = zones_annotation(bind.numa_zones)
        chain: list[Write] = [BindWrite(task.namespace, task.name, bind.node, annotations, bind.task)]
        if bind.gpu_groups:
            # An earlier failed try may have left labels.
            earlier_groups = (task.gpu_groups, self._labelled.get(bind.task, ()))
            labels = {
                label: None for groups in earlier_groups for label in gpu_group_labels(groups)
            } | gpu_group_labels(bind.gpu_groups)
            # Before the binding: a reader that sees the pod on its node must also see its shared GPU, or it counts none.
            patch = {"metadata": {"uid": bind.task, "labels": labels}}
            chain.insert(0, PatchWrite("Pod", task.name, task.namespace, patch))
        return chain

    def _was_bound(self, bind: Bind, name: str) -> None:
        self._reported.pop(bind.task, None)
        self._labelled.pop(bind.task, None)
        self.bind_backoff.bound(bind.task)
        self.wrote = True
        pod = self._mirror.pods.get(bind.task)
        # The pod may be gone by now if the bind was submitted ahead.
        if pod is None:
            return
        pool = node_pool(metadata_of(self._mirror.podgroup_objects.get(bind.podgroup) or {}))
        self._cluster.event(
            pod, "Normal", "Scheduled", f"Successfully assigned pod {name} to node {bind.node} at node-pool {pool}"
        )
        if not self._sparing:
            self._cluster.event(pod, "Normal", "Bound", f"Pod bound successfully to node {bind.node}", "binder")

    def _not_bound(self, bind: Bind, name: str, error: ApiError) -> None:
        self._failed("bind", bind.task, f"Failed to bind pod {name} to node {bind.node}. {error}", error)

    def _unlabel(self, task: Task, groups: tuple[str, ...]) -> None:
        """Remove the GPU labels of a pod whose binding failed."""
        patch = {"metadata": {"uid": task.uid, "labels": dict.fromkeys(gpu_group_labels(groups))}}
        try:
            self._cluster.patch("Pod", task.name, task.namespace, patch)
        except ApiError:
            return  # the pod is gone, or the server still does not answer: the next cycle sees the labels

    def _evict_all(self, evictions: Iterable[Evict]) -> None:
        planned = [(evict, write) for evict in evictions if (write := self._eviction(evict)) is not None]
        # One chain each: a refused eviction must not stop the others.
        outcomes = self._cluster.write_all([[write] for _, write in planned])
        for (evict, write), outcome in zip(planned, outcomes, strict=True):
            if outcome.error is not None:
                text = f"Failed to evict pod {write.namespace}/{write.pod}. {outcome.error}"
                self._failed("evict", evict.task, text, outcome.error)
                continue
            self.wrote = True
            self._reported.pop(evict.task, None)
            self._evictions.forget(evict.task)
            self.evicted[evict.podgroup] = None
            podgroup = self._mirror.podgroup_objects.get(evict.podgroup)
            if podgroup is not None:
                self._cluster.event(podgroup, "Normal", "Evict", write.message)

    def _eviction(self, evict: Evict) -> EvictWrite | None:
        """The write that evicts a pod; None if the pod is gone, or if its eviction failed and is not due again."""
        task = self._mirror.tasks.get(evict.task)
        if task is None or self._evictions.is_paused(evict.task, self._cluster.now()):
            return None
        message = evict.message or self._eviction_message(evict, f"{task.namespace}/{task.name}")
        grace = None  # the victim's own terminationGracePeriodSeconds
        if self._checkpoint is not None:
            try:
                grace = request_checkpoint(self._cluster, self._mirror, evict, self._checkpoint)
            except ApiError as error:
                text = f"Failed to evict pod {task.namespace}/{task.name}. {error}"
                self._failed("evict", evict.task, text, error)
                return None
        return EvictWrite(task.namespace, task.name, EVICTION_REASON, message, grace, evict.task)

    def _eviction_message(self, evict: Evict, pod: str) -> str:
        """KAI's message for an eviction by this action."""
        beneficiary = self._mirror.podgroup_name(evict.beneficiary)
        if evict.action == "consolidation":
            return f"Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
        if evict.action == "reclaim":
            return f"Pod {pod} was preempted by workload {beneficiary}."
        if evict.action == "preempt":
            return f"Pod {pod} was preempted by higher priority workload {beneficiary}"
        return f"Workload doesn't meet the minimum required number of pods, evicting remaining pod: {pod}"

    def _failed(self, verb: str, uid: str, message: str, error: ApiError) -> None:
        """Handle a failed write: plan a retry and report it, once per pod and message."""
        self.failures.append(RefusedDecision(verb=verb, task=uid, message=message))
        pod = self._mirror.pods.get(uid)
        # For a pod that is gone there is nothing to report or to try again.
        if pod is None or isinstance(error, NotFound):
            return
        now = self._cluster.now()
        if isinstance(error, Unavailable) and not error.unanswered:
            self.unreachable = True  # not sent, so the pod itself is no problem
        elif verb == "bind":
            self.bind_backoff.failed(uid, error, now)
        else:
            self._evictions.failed(uid, now)
        # Retries go on; only the report is not repeated.
        if self._reported.get(uid) == message:
            return
        self._reported[uid] = message
        self.wrote = True
        self._cluster.event(pod, "Warning", "FailedBinding" if verb == "bind" else "FailedEviction", message)
        if verb == "bind":
            reason = "BindingUnconfirmed" if error.unanswered or isinstance(error, Unavailable) else "BindingError"
            conditions = with_condition(conditions_of(pod), not_scheduled(message, reason), now)
            if conditions is not None:
                patch = {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
                try:
                    self._cluster.patch("Pod", name_of(pod), namespace_of(pod), patch, "status")
                except ApiError:
                    return  # the event has reported it
