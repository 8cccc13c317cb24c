"""What a policy written by others is: a class derived from ``JobOrder``, ``NodeScore``, ``VictimOrder``, ``QueueShares``, ``Reservation`` or
``Dispatch``.

The fields of the class are the policy's parameters, with their types and defaults; a configuration that gives others is
refused. A policy is frozen: it keeps nothing between two calls, so the same cluster gives the same answers. It must not look at
a clock, a file or the network: time is in what it is given.

    class FewestGpusFirst(JobOrder, frozen=True):
        cpu_only_last: bool = False

        def key(self, job: JobView) -> float:
            ...
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from math import inf
from typing import Any, ClassVar, TypeVar

import msgspec
import numpy as np

from kailab.engine.policies.dispatching import ClusterView, DispatchJob
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import JobView, NodesView, QueueView
from kailab.engine.snapshot.records import Task
from kailab.errors import InputError, PolicyError, describe_error

Key = float | tuple[float, ...]
"""One number, or several of which the first that differ decide."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all policies. Derive from one of its kinds."""


class JobOrder(Policy, frozen=True, forbid_unknown_fields=True):
    """Whose turn is first among the jobs of one queue. Queues keep KAI's order among each other.

    ``refresh``: seconds after which time alone gives other keys, so that the order is asked for anew though nothing changed;
    None: keys do not depend on time."""

    refresh: ClassVar[float | None] = None

    def key(self, job: JobView) -> Key:
        """The smallest first. Jobs with equal keys come in KAI's order. Asked again when something of the job changes."""
        raise NotImplementedError


class NodeScore(Policy, frozen=True, forbid_unknown_fields=True):
    """Which of the nodes where a pod fits is best, instead of KAI's binpack or spread; and, if it says so, which of that node's devices a share gets.

    ``local``: what a node gets depends on nothing but the pod's shape (``task.shape``), what the view says of that node, and ``largest_cpu`` and
    ``largest_gpu``. Then it is asked once for each shape, and again only about nodes on which something changed: the view has these alone."""

    local: ClassVar[bool] = False

    def score(self, task: Task, nodes: NodesView) -> Sequence[float] | np.ndarray:
        """A number from 0 to 1 for each node, in the order of ``nodes.records``; the highest wins, equal ones go by name. What
        is said of nodes where the pod does not fit does not matter."""
        raise NotImplementedError

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> Sequence[float] | np.ndarray | None:
        """For a share, once its node is found: a number from 0 to 1 for each of the devices that can take it; the highest wins, of equal ones the first.
        ``node``: a view of that node alone. ``room``: what is free on each, in milli-GPU: shared devices by the names of their groups, then one whole
        one if there is any. None: the engine's own choice (the plugin ``gpupack`` or ``gpuspread``), as without this method."""
        return None


class VictimOrder(Policy, frozen=True, forbid_unknown_fields=True):
    """Which jobs are evicted first, over all queues. Which queues may be taken from, and down to what, stays KAI's rule."""

    def cost(self, job: JobView) -> Key:
        """The smallest goes first; of equal cost the lowest priority, then who started last."""
        raise NotImplementedError


class QueueShares(Policy, frozen=True, forbid_unknown_fields=True):
    """How what quotas leave is divided among queues beside each other, in the place of their priorities and over-quota weights. The division is the engine's: quotas
    stay guaranteed, nobody gets more than it asks for or its limit allows, and nothing is given twice.

    ``refresh``: as of ``JobOrder``."""

    refresh: ClassVar[float | None] = None

    def weight(self, queue: QueueView) -> float | tuple[float, float]:
        """The queue's weight, from 0 on: what is left is divided in proportion. Or (band, weight): the highest band is served before all others. A queue without an
        over-quota weight of a resource is not given any beyond its quota, whatever is said here."""
        raise NotImplementedError


class Reservation(Policy, frozen=True, forbid_unknown_fields=True):
    """For which of the jobs that find no room a place is kept free: from the earliest moment at which it fits, by the run times that are told, nobody
    behind it may hold what it is then to have. Without such a policy whoever fits starts, as in KAI."""

    def reserves(self, job: JobView, kept: int) -> bool:
        """Asked in the order of turns of each job that wants its minimum and finds no room on the nodes. ``kept``: how many places are kept already in
        this cycle."""
        raise NotImplementedError

    def expects(self, job: JobView) -> float | None:
        """How long a job runs, in seconds from its start; None: nobody knows, so that nothing is begun or promised in the hope of its end. Here: as the
        longest of its pods tells (annotation ``kailab.dev/expected-seconds``)."""
        told = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
        return max(told) if told else None


class Dispatch(Policy, frozen=True, forbid_unknown_fields=True):
    """Which of several clusters a job is sent to, in a replay over them. What happens there is decided by that cluster's own scheduler."""

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        """The name of one of ``clusters``, which can all take the job, in the order of their file; None: it stays with the dispatcher, and is asked for
        again. For a job that waits somewhere already, None leaves it there."""
        raise NotImplementedError

    def turn(self, job: DispatchJob) -> Key:
        """Of the jobs that stay with the dispatcher the smallest is asked for first; equal ones as they came. Here: as they came."""
        return job.arrived


METHODS: dict[type[Policy], tuple[str, int]] = {
    JobOrder: ("key", 1),
    NodeScore: ("score", 2),
    VictimOrder: ("cost", 1),
    QueueShares: ("weight", 1),
    Reservation: ("reserves", 2),
    Dispatch: ("choose", 2),
}
"""Each kind of policy -> the method that it must have, and with how many arguments that is called."""

P = TypeVar("P", bound=Policy)
_registered: dict[str, type[Policy]] = {}


def register_policy(name: str, policy: type[Policy]) -> None:
    """Let configurations of this process name a policy. A distribution's policies are registered when a configuration names
    them; this is for tests and notebooks. Raises InputError if the class is no policy or the name is taken."""
    check_policy(policy)
    known = _registered.setdefault(name, policy)
    if known is not policy:
        raise InputError(f"the policy {name!r} is {known.__module__}.{known.__qualname__} already")


def registered_policy(name: str) -> type[Policy] | None:
    """The class that goes by this name in this process; None if there is none."""
    return _registered.get(name)


def check_policy(policy: Any) -> None:
    """Raises InputError for what can't be called as a policy."""
    kinds = ", ".join(kind.__name__ for kind in METHODS)
    kind = next((kind for kind in METHODS if isinstance(policy, type) and issubclass(policy, kind)), None)
    if kind is None:
        raise InputError(f"{_named(policy)} is no policy; expected a class derived from one of {kinds}")
    if policy in METHODS:
        raise InputError(f"{_named(policy)} is a base of policies; expected a class derived from it")
    if not policy.__struct_config__.frozen:
        raise InputError(f"{_named(policy)} is not frozen; a policy keeps nothing between two calls")
    name, arguments = METHODS[kind]
    method = getattr(policy, name)
    try:
        msgspec.json.Decoder(policy)  # works its fields out, once, before several threads may want to
    except TypeError as error:
        raise InputError(f"{_named(policy)}: parameters of these types can't be read: {error}") from None
    if method is getattr(kind, name):
        raise InputError(f"{_named(policy)} has no method {name!r}, which a {kind.__name__} must have")
    _check_call(policy, kind, name, arguments)
    refresh = getattr(policy, "refresh", None)
    if refresh is not None and not (type(refresh) in (int, float) and 0 < refresh < inf):
        raise InputError(f"{_named(policy)}.refresh is {refresh!r:.80}; expected seconds above 0, or None")
    if kind is NodeScore:
        _check_call(policy, kind, "devices", 3)


def _check_call(policy: type[Policy], kind: type[Policy], name: str, arguments: int) -> None:
    method = getattr(policy, name)
    try:
        inspect.signature(method).bind(*[None] * (arguments + 1))
    except (TypeError, ValueError):
        expected = inspect.signature(getattr(kind, name))
        raise InputError(
            f"{_named(policy)}.{name}{inspect.signature(method)} can't be called as {name}{expected}"
        ) from None


def make_policy(choice: PolicyChoice, kind: type[P]) -> P:
    """The policy that a configuration names, with its parameters. Raises PolicyError if this process does not know it, it is of
    another kind, or the parameters do not suit it."""
    found = _registered.get(choice.name)
    if found is None:
        brought = f"; it came with {choice.brought_by}" if choice.distribution else ""
        raise PolicyError(f"policy {choice.name!r} is not installed{brought}")
    if not issubclass(found, kind):
        is_kind = next(known.__name__ for known in METHODS if issubclass(found, known))
        raise PolicyError(f"policy {choice.name!r} is a {is_kind}; expected a {kind.__name__}")
    try:
        return msgspec.convert(dict(choice.parameters), found)
    except msgspec.ValidationError as error:
        known = ", ".join(found.__struct_fields__) or "none"
        raise PolicyError(f"policy {choice.name!r}: parameters: {error} (it has: {known})") from None
    except Exception as error:  # of its own __post_init__
        raise PolicyError(f"policy {choice.name!r}: it can't be made: {describe_error(error)}") from error


def _named(policy: Any) -> str:
    return f"{policy.__module__}.{policy.__qualname__}" if isinstance(policy, type) else repr(policy)
