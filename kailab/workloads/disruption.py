"""PodDisruptionBudgets, as the eviction API applies them: the pods that may be evicted now, and the budget that protects each other pod.

Only the eviction API (``kubectl drain``) respects budgets. Schedulers delete their victims, so budgets do not protect pods from them. The
status of a budget has the same fields as from Kubernetes' disruption controller.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object, WatchEvent, find_object
from kailab.cluster.selectors import from_label_selector, matches
from kailab.model.kinds import KINDS, key_of
from kailab.model.objects import (
    controller_of,
    full_name,
    is_ended,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    object_key,
    spec_of,
    status_of,
)
from kailab.workloads.controller import Controller, Reference


class DisruptionController(Controller):
    """Keeps the status of a budget."""

    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        return [(self.kind, object_key(one)) for one in self._bench.cluster.list(self.kind, namespace_of(event.object))]

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        state = budget_state(self._bench.cluster, owner)
        reason = "SyncFailed" if state.fault else "SufficientPods" if state.allowed else "InsufficientPods"
        self.set_status(
            owner,
            ("DisruptionAllowed", state.allowed > 0, reason, state.fault),
            currentHealthy=state.healthy,
            desiredHealthy=state.least,
            expectedPods=state.expected,
            disruptionsAllowed=state.allowed,
            observedGeneration=owner["metadata"].get("generation", 1),
        )


@dataclass(frozen=True)
class BudgetState:
    """One budget and its pods. ``healthy``: ready pods; ``expected``: how many there should be; ``least``: how many ready ones must remain;
    ``fault``: why no pod may be evicted by it, whatever the numbers."""

    budget: Object
    pods: Collection[tuple[str, str]]
    healthy: int
    expected: int
    least: int
    fault: str = ""

    @property
    def allowed(self) -> int:
        """How many ready pods may be evicted now."""
        return 0 if self.fault else max(0, self.healthy - self.least)

    @property
    def title(self) -> str:
        return f"PodDisruptionBudget {full_name(self.budget)}"


class EvictionAnswer(NamedTuple):
    """``allowed``: pods that may be evicted now, all together. ``blocked``: the others, each with the reason."""

    allowed: list[Object]
    blocked: list[tuple[Object, str]]


def evictions(cluster: Cluster, pods: Sequence[Object], states: Sequence[BudgetState] | None = None) -> EvictionAnswer:
    """Ask for the eviction of pods one after the other, as ``kubectl drain`` does. ``states``: all budgets, if the caller has them. Source:
    Kubernetes' eviction subresource of pods."""
    states = budget_states(cluster) if states is None else states
    left = {id(state): state.allowed for state in states}
    result = EvictionAnswer([], [])
    for pod in pods:
        own = [state for state in states if _key(pod) in state.pods]
        # The eviction of a pod that does not run, or that is being deleted, violates no budget.
        if not own or is_terminating(pod) or status_of(pod).get("phase") != "Running":
            result.allowed.append(pod)
        elif len(own) > 1:
            titles = " and ".join(state.title for state in own)
            result.blocked.append((pod, f"{titles} both select it, and the eviction API serves one budget for a pod"))
        elif _unhealthy_may_go(own[0], pod):
            result.allowed.append(pod)
        elif left[id(own[0])] > 0:
            left[id(own[0])] -= 1
            result.allowed.append(pod)
        else:
            result.blocked.append((pod, _why(own[0])))
    return result


def _unhealthy_may_go(state: BudgetState, pod: Object) -> bool:
    if is_ready(pod):
        return False
    policy = spec_of(state.budget).get("unhealthyPodEvictionPolicy") or "IfHealthyBudget"
    return policy == "AlwaysAllow" or (not state.fault and state.healthy >= state.least > 0)


def _why(state: BudgetState) -> str:
    if state.fault:
        return f"{state.title} allows no eviction: {state.fault}"
    return f"{state.title} asks for {state.least} ready pods, and there are {state.healthy}: evicting it would violate the budget"


def budget_states(cluster: Cluster) -> list[BudgetState]:
    """All budgets with their pods."""
    return [budget_state(cluster, budget) for budget in cluster.list("PodDisruptionBudget")]


def budget_state(cluster: Cluster, budget: Object) -> BudgetState:
    """A budget with its pods."""
    spec = spec_of(budget)
    wanted = from_label_selector(spec.get("selector"))
    pods = cluster.list("Pod", namespace_of(budget)) if wanted is not None else []
    own = [pod for pod in pods if not is_ended(pod) and matches(wanted or (), labels_of(pod))]
    healthy = sum(is_ready(pod) and not is_terminating(pod) for pod in own)
    expected, fault = len(own), ""
    if _is_relative(spec):
        expected, fault = _expected(cluster, own)
    return BudgetState(budget, {_key(pod) for pod in own}, healthy, expected, _least(spec, expected), fault)


def _is_relative(spec: Mapping[str, Any]) -> bool:
    """True if the budget depends on the number of pods that controllers want, and not only on the pods that exist."""
    return spec.get("maxUnavailable") is not None or str(spec.get("minAvailable", "")).endswith("%")


def _expected(cluster: Cluster, pods: Sequence[Object]) -> tuple[int, str]:
    """Return the number of pods that the controllers of these pods want together, and why it can't be known (empty if it is known). Source:
    Kubernetes' disruption controller, which reads the scale of each controller."""
    scales: dict[str, int] = {}
    for pod in pods:
        owner = controller_of(pod)
        if owner is None:
            text = f"Pod {full_name(pod)} has no controller that says how many pods there should be"
            return 0, f"{text}; only minAvailable as a number works without"
        key = key_of(owner["apiVersion"], owner["kind"])
        known = KINDS.get(key)
        if known is None or not known.scalable:
            text = f"a {owner['kind']} does not say by a scale how many pods it wants"
            return 0, f"{text}; only minAvailable as a number works for it"
        obj = find_object(cluster, key, owner["name"], namespace_of(pod))
        if obj is not None:
            scales[owner["uid"]] = int(spec_of(obj).get("replicas", 1))
    return sum(scales.values()), ""


def _least(spec: Mapping[str, Any], pods: int) -> int:
    """How many pods must remain. Source: Kubernetes' disruption controller, which rounds both percentages up."""
    if (least := spec.get("minAvailable")) is not None:
        return _count(least, pods)
    if (most := spec.get("maxUnavailable")) is not None:
        return max(0, pods - _count(most, pods))
    return 0


def _count(value: int | str, pods: int) -> int:
    text = str(value)
    number = int(text.removesuffix("%")) if text.removesuffix("%").isdecimal() else 0
    return math.ceil(number * pods / 100) if text.endswith("%") else number


def violated_budgets(cluster: Cluster, leaving: Collection[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each budget that would keep fewer pods than it asks for if pods went all at once. ``leaving``: namespace and name."""
    pods = {_key(pod): pod for pod in cluster.list("Pod")}
    for state in budget_states(cluster):
        going = [key for key in state.pods if key in leaving and key in pods and is_ready(pods[key])]
        if going and (state.fault or state.healthy - len(going) < state.least):
            yield (
                f"{state.title} asks for {state.least} of {len(state.pods)} pods, and {state.healthy - len(going)} would remain: here all go "
                "at once; kailab drain and kubectl drain evict pods as the budget allows"
            )


def _key(pod: Object) -> tuple[str, str]:
    return namespace_of(pod), name_of(pod)
