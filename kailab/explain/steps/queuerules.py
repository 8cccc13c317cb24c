"""What queues may hold: limits, quotas and weights, raised to the smallest amount that works, for the queue and those above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kailab.engine.decisions import QueueShare
from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.explain.steps.naming import gpus_of, share
from kailab.explain.steps.proposal import After, Change, Disturbance, Proposal, Way, Words, patch
from kailab.explain.steps.setting import Setting

RESOURCES = ("gpu", "cpu", "memory")
MEGABYTE = 10**6
WEIGHTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
STEPS = 8
"""Amounts between none and all of what is asked for that are tried."""


Bound = Callable[[QueueShare], int]
Changes = dict[str, dict[str, dict[str, float]]]
"""Queue -> resource -> field -> amount as a Queue says it."""


def give_resources(setting: Setting) -> Iterator[Way]:
    """A resources block where the queue, or one above it, has none, or none for a resource."""
    quotas = sorted({0, gpus_of(setting.asked.gpu)})
    lacking_queues = [setting.queues[name] for name in setting.line if _lacks(setting.queues[name])]

    def changes(quota: float) -> Iterator[Change]:
        for queue in lacking_queues:
            lacking = {one: share(quota if one == "gpu" else -1) for one in _lacks(queue)}
            yield patch(queue, {"spec": {"resources": lacking}})

    def words(after: After) -> str:
        names = " and ".join(queue["metadata"]["name"] for queue in lacking_queues)
        given = {
            float(after.of(queue)["spec"]["resources"]["gpu"]["quota"])
            for queue in lacking_queues
            if "gpu" in _lacks(queue)
        }
        of_gpus = f", GPUs with a quota of {max(given):g}" if given else ""
        return f"Give queue {names} resources that it lacks: no limits{of_gpus}"

    if lacking_queues:
        yield Way.of((Proposal(words, tuple(changes(one)), Disturbance.QUEUES) for one in quotas), grows=True)


def _lacks(queue: Mapping[str, Any]) -> list[str]:
    given = queue["spec"].get("resources") or {}
    return [one for one in RESOURCES if not given.get(one)]


def raise_limits(setting: Setting) -> Iterator[Way]:
    """Limits of the queue and of those above it, as far as they are below what it would then hold."""
    yield _raised(setting, "limit", _limit, _allocated)


def raise_quotas(setting: Setting) -> Iterator[Way]:
    """Quotas for work that is not preemptible: it has to be inside of them at every level, and inside the limits."""
    yield _raised(setting, "quota", _quota, _non_preemptible, with_limits=True)


def raise_claim(setting: Setting) -> Iterator[Way]:
    """A quota that gives the queue, and those above it, a claim on what it asks for."""
    yield _raised(setting, "quota", _quota, _allocated, by_steps=True)


def raise_weight(setting: Setting) -> Iterator[Way]:
    """The over-quota weight: of every level that has none first, then of the queue."""
    line = [setting.queues[name] for name in setting.line]
    weights = {queue["metadata"]["name"]: _weight(queue) for queue in line}
    if not line:
        return
    without = [queue for queue in line[1:] if weights[queue["metadata"]["name"]] == 0]
    opened = [patch(queue, {"spec": {"resources": {"gpu": {"overQuotaWeight": 1}}}}) for queue in without]
    above = " and ".join(queue["metadata"]["name"] for queue in without)
    name = setting.line[0]
    proposals = []
    # Where those above it have none, its own may be large enough as it is.
    if opened and weights[name]:

        def words_above(after: After) -> str:
            return f"Raise the over-quota weight of {above} from 0 to {_weight(after.of(without[0])):g}"

        proposals.append(Proposal(words_above, tuple(opened), Disturbance.QUEUES))

    def words(after: After) -> str:
        do = f"Raise the over-quota weight of queue {name} from {weights[name]:g} to {_weight(after.of(line[0])):g}"
        return f"{do}, and that of {above} to {_weight(after.of(without[0])):g}" if without else do

    for weight in WEIGHTS:
        if weight <= weights[name]:
            continue
        own = patch(line[0], {"spec": {"resources": {"gpu": {"overQuotaWeight": weight}}}})
        proposals.append(Proposal(words, (own, *opened), Disturbance.QUEUES))
    yield Way(tuple(proposals), grows=True)


def _weight(queue: Mapping[str, Any]) -> float:
    gpu = (queue["spec"].get("resources") or {}).get("gpu") or {}
    return float(gpu.get("overQuotaWeight") or 0)


def _raised(
    setting: Setting, field: str, bound: Bound, held: Bound, *, with_limits: bool = False, by_steps: bool = False
) -> Way:
    """``bound`` and ``held`` of a queue, in engine units. A limit is at last no limit at all. ``with_limits``: limits that come in the
    way are raised too. ``by_steps``: less than all that is asked for may be enough."""
    found: list[Changes] = []
    for amounts in _amounts(setting, by_steps):
        changes = _changes(setting, field, bound, held, amounts)
        if with_limits:
            # A quota above the limit would be of no use.
            changes = _joined(changes, _changes(setting, "limit", _limit, _allocated, amounts))
        if changes and changes not in found:
            found.append(changes)
    if field == "limit" and found:
        # The last resort: what else waits may need more than can be foreseen here.
        found.append({name: {one: {field: UNLIMITED} for one in amounts} for name, amounts in found[-1].items()})
    return Way.of(
        (Proposal(_words(setting, one), _patches(setting, one), Disturbance.QUEUES) for one in found), grows=True
    )


def _limit(state: QueueShare) -> int:
    return state.limit


def _quota(state: QueueShare) -> int:
    return state.quota


def _allocated(state: QueueShare) -> int:
    return state.allocated


def _non_preemptible(state: QueueShare) -> int:
    return state.non_preemptible


def _amounts(setting: Setting, by_steps: bool) -> Iterator[dict[str, int]]:
    """What is to be added for the subject, in engine units: what it asks for, then all that waits in its queue."""
    asked = setting.asked
    own = {"gpu": asked.gpu, "cpu": asked.cpu, "memory": asked.memory}
    if by_steps:
        # Whole GPUs, and never more than ``STEPS`` tries however much is asked for.
        step = GPU if asked.gpu <= STEPS * GPU else -(-asked.gpu // (STEPS * GPU)) * GPU
        for gpu in range(step, asked.gpu, step):
            yield {**own, "gpu": gpu}
    yield own
    state = setting.states.get(setting.named_queue)
    if state is not None:
        # Others of the queue may be served first, and take what was added.
        waiting = {one: getattr(state, one).requested - getattr(state, one).allocated for one in RESOURCES}
        if any(waiting[one] > own[one] for one in RESOURCES):
            yield {one: max(waiting[one], own[one]) for one in RESOURCES}


def _changes(setting: Setting, field: str, bound: Bound, held: Bound, amounts: Mapping[str, int]) -> Changes:
    found: Changes = {}
    for name in setting.line:
        state = setting.states.get(name)
        for one in RESOURCES if state is not None else ():
            share_now: QueueShare = getattr(state, one)
            need = held(share_now) + amounts[one]
            if amounts[one] and bound(share_now) != UNLIMITED and need > bound(share_now):
                found.setdefault(name, {})[one] = {field: in_queue_units(one, need)}
    return found


def _joined(one: Changes, other: Changes) -> Changes:
    found = {name: {key: dict(value) for key, value in resources.items()} for name, resources in one.items()}
    for name, resources in other.items():
        for key, value in resources.items():
            found.setdefault(name, {}).setdefault(key, {}).update(value)
    return found


def _patches(setting: Setting, changes: Changes) -> tuple[Change, ...]:
    return tuple(patch(setting.queues[name], {"spec": {"resources": found}}) for name, found in changes.items())


def _words(setting: Setting, changes: Changes) -> Words:
    def words(after: After) -> str:
        told: Sequence[str] = [
            f"the {one} {field} of queue {name} to {_amount(one, float(after.of(setting.queues[name])['spec']['resources'][one][field]))}"
            for name, found in changes.items()
            for one, fields in found.items()
            for field in fields
        ]
        return f"Raise {' and '.join(told)}"

    return words


def _amount(resource: str, amount: float) -> str:
    if amount == UNLIMITED:
        return "-1 (unlimited)"
    return f"{amount:g}" if resource == "gpu" else f"{amount:.0f} {'millicores' if resource == 'cpu' else 'MB'}"


def in_queue_units(resource: str, amount: int) -> float:
    """Milli-GPU, millicores or bytes as a Queue says them: GPUs, millicores, megabytes, rounded up."""
    if resource == "gpu":
        return gpus_of(amount)
    return amount if resource == "cpu" else -(-amount // MEGABYTE)
