"""Carries decisions out: binds pods, evicts victims, and asks victims for a checkpoint first.

A failed write is reported as an event and a condition, and tried again after a pause.

Checkpoints: a pod can save its state if a container has a preStop hook, or if its annotation ``kailab.dev/checkpoint-seconds`` says how
long saving takes (fake nodes wait that long). The executor sets the annotation ``kailab.dev/checkpoint-requested``, writes an event, and
evicts the pod with a grace period. The pod keeps its GPUs until it ends; the beneficiary gets a promise (pipelined). On a real cluster the
same eviction runs the container's preStop hook and SIGTERM within the grace period.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.cluster.pod_lifecycle import can_save
from kailab.cluster.protocol import AsyncWrites, Cluster, Object
from kailab.cluster.retries import Retries
from kailab.cluster.submitted_writes import SubmittedItems
from kailab.cluster.writes import BindWrite as BindPod
from kailab.cluster.writes import Chain, PatchWrite, Write
from kailab.cluster.writes import EvictWrite as EvictPod
from kailab.engine.decisions import Bind, Decisions, Evict
from kailab.engine.policies.settings import Checkpoint
from kailab.engine.snapshot.records import ACTIVE, Shape
from kailab.errors import ApiError, NotFound, Unavailable
from kailab.model import labels as names
from kailab.model.times import format_time
from kailab.scheduler.binding.bind_backoff import BindBackoff
from kailab.scheduler.binding.preparation import Binding, Preparation
from kailab.scheduler.cycle_record import RefusedDecision
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.reading.numa import PREDICTED, zones_annotation
from kailab.scheduler.reading.podgroups import node_pool
from kailab.scheduler.reading.tasks import group_labels
from kailab.scheduler.status.conditions import not_scheduled, with_condition

DEFAULT_GRACE = 30  # Kubernetes' default of terminationGracePeriodSeconds


def request_checkpoint(cluster: Cluster, mirror: Mirror, evict: Evict, policy: Checkpoint) -> float | None:
    """Tell a victim that has a checkpoint hook and runs; the grace period for its eviction. Raises ApiError."""
    pod = mirror.pods.get(evict.task)
    if pod is None:
        return policy.grace
    metadata = pod["metadata"]
    if can_save(pod) and (pod.get("status") or {}).get("phase") == "Running":
        told = {names.CHECKPOINT_REQUESTED: format_time(cluster.now())}
        asked = cluster.patch("Pod", metadata["name"], metadata["namespace"], {"metadata": {"annotations": told}})
        own = pod["spec"].get("terminationGracePeriodSeconds")
        grace = policy.grace if policy.grace is not None else DEFAULT_GRACE if own is None else own
        message = f"Asked to save its state for {mirror.podgroup_name(evict.beneficiary)}: it has {grace:g} s"
        cluster.event(asked, "Normal", "Checkpointing", message)
    return policy.grace


EVICTION_REASON = "PreemptionByScheduler"
_EMPTY: Object = {"metadata": {}}


def received_resource_type(shape: Shape) -> str:
    """What kind of GPU a pod was given, in KAI's words."""
    if shape.gpu.mig:
        return "MigInstance"
    return "Fraction" if shape.gpu.shared else "Regular"


class DecisionExecutor:
    """Writes binds and evictions. ``bound`` and ``evicted``: PodGroup UIDs that the last call touched, each once, in
    order. ``preparations``: what has to be in place before a pod is bound. ``sparing``: no event that says only what another
    one says. ``ahead``: binds that need nothing but themselves are handed over, where the cluster can do that; ``settle`` takes
    in what became of them."""

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
        self._handing = cluster if ahead and isinstance(cluster, AsyncWrites) else None
        self._handed: SubmittedItems[tuple[Bind, str]] = SubmittedItems()  # with the name of the pod
        self._mirror = mirror
        self._checkpoint = checkpoint
        self._preparations = preparations
        self._complained: dict[str, str] = {}  # uid -> what was told last of its failing
        self._labelled: dict[str, tuple[str, ...]] = {}  # uid -> GPU groups of a try in doubt: the pod may name them
        self._evictions: Retries[str] = Retries()
        self.held_back = BindBackoff(mirror)
        self.unreachable = False
        self.bound: dict[str, None] = {}
        self.evicted: dict[str, None] = {}
        self.failures: list[RefusedDecision] = []
        self.wrote = False

    def carry_on(self, other: DecisionExecutor) -> None:
        """Remember what another remembers."""
        self._complained |= other._complained
        self._labelled |= other._labelled
        self._evictions.carry_on(other._evictions)
        self.held_back.carry_on(other.held_back)

    @property
    def retry_at(self) -> float | None:
        """When something that failed is to be tried again."""
        moments = (self.held_back.next_at, self._evictions.next_at)
        return min((moment for moment in moments if moment is not None), default=None)

    def due_since(self, since: float) -> float | None:
        """When something that failed is tried again that is worth waiting for."""
        moments = (self.held_back.due_since(since), self._evictions.due_since(since))
        return min((moment for moment in moments if moment is not None), default=None)

    def look(self, now: float) -> None:
        """See what may be tried again."""
        self.held_back.look(now)
        self._evictions.due(now)

    def carry_out(self, decisions: Decisions) -> None:
        """Binds, then evictions: the order of the actions that decide them."""
        self.bound, self.evicted, self.wrote = {}, {}, False
        self._bind_all(decisions.binds)
        self._evict_all(decisions.evictions)
        # Memory of pods that are gone: it would grow with every pod that ever failed.
        for uid in [uid for uid in self._complained if uid not in self._mirror.pods]:
            del self._complained[uid]
            self._evictions.done(uid)
        for uid in [uid for uid in self._labelled if uid not in self._mirror.pods]:
            del self._labelled[uid]

    def failed(self) -> tuple[tuple[RefusedDecision, ...], bool]:
        """What has failed since the last call, and whether anything was left undone because the server did not answer."""
        told = tuple(self.failures), self.unreachable
        self.failures, self.unreachable = [], False
        return told

    def settle(self) -> bool:
        """Take in what became of the binds that were handed over. Returns whether any was answered."""
        answered = False
        for (bind, name), outcome in self._handed.answered():
            answered = True
            if outcome.error is None:
                self._was_bound(bind, name)
            else:
                self._not_bound(bind, name, outcome.error)
        return answered

    def _hand_over(self, binds: Sequence[tuple[Bind, Chain]]) -> None:
        assert self._handing is not None
        named = [(bind, self._mirror.pod_name(bind.task)) for bind, _ in binds]
        # They count as started: what is to be bound is protected as what is bound.
        self.bound |= dict.fromkeys(bind.podgroup for bind, _ in binds)
        self._handed.add(self._handing.hand_over([chain for _, chain in binds]), named)
        self.wrote = True
        # A cluster that answers at once has answered.
        self.settle()

    def _waited_for(self, binds: Iterable[tuple[Bind, Chain]]) -> set[str]:
        """PodGroups whose binds are waited for: where something has to be in place before a pod is bound, or a refusal holds up
        the rest of a gang, what became of one decides what becomes of the next."""
        if self._handing is None:
            return {bind.podgroup for bind, _ in binds}
        refused = self.held_back.refused
        return {
            bind.podgroup
            for bind, chain in binds
            if len(chain) > 1 or bind.task in refused or self._mirror.tasks[bind.task].shape.claims
        }

    def _bind_all(self, binds: Iterable[Bind]) -> None:
        planned = [(bind, chain) for bind in binds if (chain := self._chain(bind)) is not None]
        # For all pods at once: each preparation then costs one round of writes, not one for each pod.
        refused = self._prepare([bind for bind, _ in planned])
        # What was refused by a preparation is not sent, and stands as that pod's error.
        ready = [(bind, chain) for bind, chain in planned if bind.task not in refused]
        waited_for = self._waited_for(planned)
        planned = [(bind, chain) for bind, chain in planned if bind.podgroup in waited_for or bind.task in refused]
        if ahead := [(bind, chain) for bind, chain in ready if bind.podgroup not in waited_for]:
            self._hand_over(ahead)
        errors = self._write_binds([entry for entry in ready if entry[0].podgroup in waited_for]) | refused
        put_off = [bind.task for bind, _ in planned if bind.task not in errors]
        # One of which no answer came may be bound all the same: what it needs stays in place.
        failed = [task for task, error in errors.items() if error is not None and not isinstance(error, Unavailable)]
        for preparation in self._preparations:
            preparation.undo([*failed, *put_off])
        for bind, _ in planned:
            # Put off, and not even tried: there is nothing to tell, and no pause.
            if bind.task not in errors:
                continue
            task = self._mirror.tasks[bind.task]
            name = f"{task.namespace}/{task.name}"
            error = errors[bind.task]
            if error is None:
                self.bound[bind.podgroup] = None
                self._was_bound(bind, name)
                continue
            # It may run: its group counts as started, so that a min-runtime protects it.
            if error.doubtful:
                self.bound[bind.podgroup] = None
            if bind.gpu_groups and bind.task not in refused:
                if error.doubtful:
                    self._labelled[bind.task] = bind.gpu_groups
                else:
                    self._unlabel(task.namespace, task.name, bind.gpu_groups)
            self._not_bound(bind, name, error)

    def _write_binds(self, binds: Sequence[tuple[Bind, Chain]]) -> dict[str, ApiError | None]:
        """By UID, what came of it. Those that were refused before go first; if one of a gang that is only beginning is refused
        again, the rest of the gang is put off, and has no entry."""
        before = self.held_back.refused
        first = [entry for entry in binds if entry[0].task in before]
        errors = self._write(first)
        waiting = {
            bind.podgroup
            for bind, _ in first
            if errors[bind.task] is not None
            # A gang of which something runs is not begun in vain: the rest of it is bound as usual.
            and not any(ACTIVE[task.status] for task in self._mirror.members(bind.podgroup))
        }
        rest = [(bind, chain) for bind, chain in binds if bind.task not in before and bind.podgroup not in waiting]
        return errors | self._write(rest)

    def _write(self, binds: Sequence[tuple[Bind, Chain]]) -> dict[str, ApiError | None]:
        outcomes = self._cluster.write_all([chain for _, chain in binds]) if binds else []
        return {bind.task: outcome.error for (bind, _), outcome in zip(binds, outcomes, strict=True)}

    def _prepare(self, binds: Sequence[Bind]) -> dict[str, ApiError]:
        """Put in place what the pods need on their nodes. By UID, those that can't be bound, and why."""
        refused: dict[str, ApiError] = {}
        bindings = [Binding(self._mirror.pods[bind.task], bind.node, bind.gpu_groups) for bind in binds]
        for preparation in self._preparations:
            # In their order, and only what is left: nothing is reserved for a pod that lacks its claims.
            refused |= preparation.prepare([binding for binding in bindings if binding.uid not in refused])
        return refused

    def _chain(self, bind: Bind) -> Chain | None:
        """What binding a pod takes; None for one that is gone."""
        task = self._mirror.tasks.get(bind.task)
        if task is None or bind.task not in self._mirror.pods:
            return None
        # The binding carries the annotations, which saves a write for each pod.
        told = {names.RECEIVED_RESOURCE_TYPE: received_resource_type(task.shape)}
        if bind.numa_zones:
            told[PREDICTED] = zones_annotation(bind.numa_zones)
        chain: list[Write] = [BindPod(task.namespace, task.name, bind.node, told)]
        if bind.gpu_groups:
            # Of a try that failed there may be labels left.
            left = (task.gpu_groups, self._labelled.get(bind.task, ()))
            labels = {label: None for groups in left for label in group_labels(groups)} | group_labels(bind.gpu_groups)
            # Before the binding: whoever sees the pod on its node must see which shared GPU it sits on, or counts none for it.
            chain.insert(0, PatchWrite("Pod", task.name, task.namespace, {"metadata": {"labels": labels}}))
        return chain

    def _was_bound(self, bind: Bind, name: str) -> None:
        self._complained.pop(bind.task, None)
        self._labelled.pop(bind.task, None)
        self.held_back.bound(bind.task)
        self.wrote = True
        pod = self._mirror.pods.get(bind.task)
        # Gone again, if it was not waited for.
        if pod is None:
            return
        pool = node_pool((self._mirror.podgroup_objects.get(bind.podgroup) or _EMPTY)["metadata"])
        self._cluster.event(
            pod, "Normal", "Scheduled", f"Successfully assigned pod {name} to node {bind.node} at node-pool {pool}"
        )
        if not self._sparing:
            self._cluster.event(pod, "Normal", "Bound", f"Pod bound successfully to node {bind.node}", "binder")

    def _not_bound(self, bind: Bind, name: str, error: ApiError) -> None:
        self._failed("bind", bind.task, f"Failed to bind pod {name} to node {bind.node}. {error}", error)

    def _unlabel(self, namespace: str, name: str, groups: tuple[str, ...]) -> None:
        """A pod that is not bound must not look as if it sat on a GPU."""
        try:
            self._cluster.patch("Pod", name, namespace, {"metadata": {"labels": dict.fromkeys(group_labels(groups))}})
        except ApiError:
            return  # gone, or as unreachable as before: the next cycle sees what is there

    def _evict_all(self, evictions: Iterable[Evict]) -> None:
        planned = [(evict, write) for evict in evictions if (write := self._eviction(evict)) is not None]
        # A chain each: a victim whose eviction is refused keeps no other in place.
        outcomes = self._cluster.write_all([[write] for _, write in planned])
        for (evict, write), outcome in zip(planned, outcomes, strict=True):
            if outcome.error is not None:
                text = f"Failed to evict pod {write.namespace}/{write.pod}. {outcome.error}"
                self._failed("evict", evict.task, text, outcome.error)
                continue
            self.wrote = True
            self._complained.pop(evict.task, None)
            self._evictions.done(evict.task)
            self.evicted[evict.podgroup] = None
            podgroup = self._mirror.podgroup_objects.get(evict.podgroup)
            if podgroup is not None:
                self._cluster.event(podgroup, "Normal", "Evict", write.message)

    def _eviction(self, evict: Evict) -> EvictPod | None:
        """How a pod is evicted; None for one that is gone, or whose eviction has failed and is not due again."""
        task = self._mirror.tasks.get(evict.task)
        if task is None or self._evictions.held(evict.task, self._cluster.now()):
            return None
        message = evict.message or self._eviction_message(evict, f"{task.namespace}/{task.name}")
        # The victim's own terminationGracePeriodSeconds.
        grace = None
        if self._checkpoint is not None:
            try:
                grace = request_checkpoint(self._cluster, self._mirror, evict, self._checkpoint)
            except ApiError as error:
                text = f"Failed to evict pod {task.namespace}/{task.name}. {error}"
                self._failed("evict", evict.task, text, error)
                return None
        return EvictPod(task.namespace, task.name, EVICTION_REASON, message, grace)

    def _eviction_message(self, evict: Evict, pod: str) -> str:
        """KAI's words for an eviction, by action."""
        beneficiary = self._mirror.podgroup_name(evict.beneficiary)
        if evict.action == "consolidation":
            return f"Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
        if evict.action == "reclaim":
            return f"Pod {pod} was preempted by workload {beneficiary}."
        if evict.action == "preempt":
            return f"Pod {pod} was preempted by higher priority workload {beneficiary}"
        return f"Workload doesn't meet the minimum required number of pods, evicting remaining pod: {pod}"

    def _failed(self, verb: str, uid: str, message: str, error: ApiError) -> None:
        """Tell once per pod and text; a refusal that repeats every second is no news."""
        self.failures.append(RefusedDecision(verb=verb, task=uid, message=message))
        pod = self._mirror.pods.get(uid)
        # Of a pod that is gone there is nobody to tell, and nothing to try again.
        if pod is None or isinstance(error, NotFound):
            return
        now = self._cluster.now()
        if isinstance(error, Unavailable) and not error.doubtful:
            self.unreachable = True  # it was not even sent: none of the pod's
        elif verb == "bind":
            self.held_back.failed(uid, error, now)
        else:
            self._evictions.failed(uid, now)
        # Tries and pauses go on as before; only the words are not repeated.
        if self._complained.get(uid) == message:
            return
        self._complained[uid] = message
        self.wrote = True
        self._cluster.event(pod, "Warning", "FailedBinding" if verb == "bind" else "FailedEviction", message)
        if verb == "bind":
            current = (pod.get("status") or {}).get("conditions") or ()
            reason = "BindingUnconfirmed" if error.doubtful or isinstance(error, Unavailable) else "BindingError"
            conditions = with_condition(current, not_scheduled(message, reason), now)
            if conditions is not None:
                metadata = pod["metadata"]
                try:
                    self._cluster.patch(
                        "Pod", metadata["name"], metadata["namespace"], {"status": {"conditions": conditions}}, "status"
                    )
                except ApiError:
                    return  # the event says it
