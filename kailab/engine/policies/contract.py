"""The interface of user policies: classes derived from ``JobOrder``, ``NodeScore``, ``VictimOrder``, ``QueueShares``,
``Reservation`` or ``Dispatch``.

The fields of the class are the policy's parameters, with types and defaults; unknown or ill-typed parameters are
refused. A policy is frozen: it keeps no state between two calls, so the same cluster gives the same answers. It must
not read a clock, a file or the network; the time is in its arguments.

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
"""One number, or a tuple compared part by part."""


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of all policies. Derive from one of its kinds."""


class JobOrder(Policy, frozen=True, forbid_unknown_fields=True):
    """The order of the jobs of one queue. Among each other, queues keep KAI's order.

    ``refresh``: seconds after which keys may change by time alone, so that they are asked again although nothing
    changed; None: keys do not depend on time. ``lasting``: the key of a job of which nothing has a place depends only on
    its record, its pods and what it wants, so that it is kept from cycle to cycle until one of these changes.
    """

    refresh: ClassVar[float | None] = None
    lasting: ClassVar[bool] = False

    def key(self, job: JobView) -> Key:
        """The job's key; the smallest is served first. Equal keys are in KAI's order. Called again when the job
        changes.
        """
        raise NotImplementedError


class NodeScore(Policy, frozen=True, forbid_unknown_fields=True):
    """Scores of the nodes where a pod fits, instead of KAI's binpack or spread, and optionally of the devices for a
    share.

    ``local``: the score of a node depends only on the pod's shape (``task.shape``), on what the view says of that
    node, and on ``largest_cpu`` and ``largest_gpu``. Then the policy is called once per shape, and again only with a
    view of the nodes that changed.
    """

    local: ClassVar[bool] = False

    def score(self, task: Task, nodes: NodesView) -> Sequence[float] | np.ndarray:
        """A number from 0 to 1 for each node, in the order of ``nodes.records``. The highest wins, ties go by name.
        Scores of nodes where the pod does not fit are ignored.
        """
        raise NotImplementedError

    def devices(self, task: Task, node: NodesView, room: np.ndarray) -> Sequence[float] | np.ndarray | None:
        """Scores for the devices of the chosen node, if the pod wants a share: a number from 0 to 1 for each device
        that can take it; the highest wins, the first of equals. ``node``: a view of that node alone. ``room``:
        milli-GPU free on each: shared devices by group name, then one whole device if any is free. None leaves the
        choice to the engine (plugin ``gpupack`` or ``gpuspread``).
        """
        return None


class VictimOrder(Policy, frozen=True, forbid_unknown_fields=True):
    """The order of victims over all queues. KAI's rules still decide which queues may lose pods, and how many."""

    def cost(self, job: JobView) -> Key:
        """The job's cost; the smallest is evicted first. Of equal costs, the lowest priority goes first, then the last
        started.
        """
        raise NotImplementedError


class QueueShares(Policy, frozen=True, forbid_unknown_fields=True):
    """The division of what quotas leave among sibling queues, instead of their priorities and over-quota weights. The
    engine divides: quotas stay guaranteed, no queue gets more than it asks for or its limit allows, and nothing is
    given twice.

    ``refresh``: as for ``JobOrder``.
    """

    refresh: ClassVar[float | None] = None

    def weight(self, queue: QueueView) -> float | tuple[float, float]:
        """The queue's weight (0 or more), in proportion to which the rest is divided. Or (band, weight): the highest
        band is served before all others. A queue without an over-quota weight of a resource gets nothing beyond its
        quota in any case.
        """
        raise NotImplementedError


class Reservation(Policy, frozen=True, forbid_unknown_fields=True):
    """The jobs without room for which nodes are kept free, from the earliest moment at which the job fits according to
    expected run times. Jobs behind it may not use that room then. Without such a policy every job that fits starts, as
    in KAI.

    ``lasting``: the answers of ``expects`` depend only on the job's record and its pods, so that each is kept from cycle
    to cycle until one of these changes. It holds for the ``expects`` of the class that says so: a class with another
    ``expects`` says it again.
    """

    lasting: ClassVar[bool] = True

    def reserves(self, job: JobView, kept: int) -> bool:
        """True if nodes are to be kept free for the job. Called in serving order for each job that wants its minimum
        and finds no room. ``kept``: how many jobs of this cycle have nodes kept free already.
        """
        raise NotImplementedError

    def at_most(self) -> int | None:
        """For how many jobs ``reserves`` answers True at most, whatever the jobs are; None: for any number. With a number,
        cycles in which many jobs wait take less time.
        """
        return None

    def expects(self, job: JobView) -> float | None:
        """The expected run time of a job in seconds from its start; None if unknown, so that nothing relies on its end.
        The default is the longest of its pods (annotation ``kailab.dev/expected-seconds``).
        """
        seconds = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
        return max(seconds) if seconds else None


class Dispatch(Policy, frozen=True, forbid_unknown_fields=True):
    """The cluster to which a job is sent, in a replay over several clusters. That cluster's own scheduler decides what
    happens there.
    """

    def choose(self, job: DispatchJob, clusters: Sequence[ClusterView]) -> str | None:
        """The name of one of ``clusters``, all of which can take the job, in the order of their file. None: the job
        stays with the dispatcher and is asked for again; a job that waits in a cluster already stays there.
        """
        raise NotImplementedError

    def turn(self, job: DispatchJob) -> Key:
        """The key of a job that stays with the dispatcher; the smallest is asked for first, ties in order of arrival.
        The default is the order of arrival.
        """
        return job.arrived


def run_times_last(policy: type[Reservation]) -> bool:
    """True if ``expects`` of a policy is ``lasting``."""
    maker = next(each for each in policy.__mro__ if "expects" in vars(each))
    return bool(vars(maker).get("lasting", False))


METHODS: dict[type[Policy], tuple[str, int]] = {
    JobOrder: ("key", 1),
    NodeScore: ("score", 2),
    VictimOrder: ("cost", 1),
    QueueShares: ("weight", 1),
    Reservation: ("reserves", 2),
    Dispatch: ("choose", 2),
}
"""Kind of policy -> its required method and the number of arguments."""

P = TypeVar("P", bound=Policy)
_registered: dict[str, type[Policy]] = {}


def register_policy(name: str, policy: type[Policy]) -> None:
    """Let configurations of this process name a policy, for tests and notebooks. Policies of installed distributions
    need no registration. Raises InputError if the class is no policy or the name is taken.
    """
    check_policy(policy)
    known = _registered.setdefault(name, policy)
    if known is not policy:
        raise InputError(f"the policy {name!r} is {known.__module__}.{known.__qualname__} already")


def registered_policy(name: str) -> type[Policy] | None:
    """The class registered under this name in this process, or None."""
    return _registered.get(name)


def check_policy(policy: Any) -> None:
    """Raises InputError if the class cannot be called as a policy."""
    kinds = ", ".join(kind.__name__ for kind in METHODS)
    kind = next((kind for kind in METHODS if isinstance(policy, type) and issubclass(policy, kind)), None)
    if kind is None:
        raise InputError(f"{_class_name(policy)} is no policy; expected a class derived from one of {kinds}")
    if policy in METHODS:
        raise InputError(f"{_class_name(policy)} is a base of policies; expected a class derived from it")
    if not policy.__struct_config__.frozen:
        raise InputError(f"{_class_name(policy)} is not frozen; a policy keeps nothing between two calls")
    name, arguments = METHODS[kind]
    method = getattr(policy, name)
    try:
        msgspec.json.Decoder(policy)  # analyses the fields once, before several threads need them
    except TypeError as error:
        raise InputError(f"{_class_name(policy)}: parameters of these types can't be read: {error}") from None
    if method is getattr(kind, name):
        raise InputError(f"{_class_name(policy)} has no method {name!r}, which a {kind.__name__} must have")
    _check_call(policy, kind, name, arguments)
    refresh = getattr(policy, "refresh", None)
    if refresh is not None and not (type(refresh) in (int, float) and 0 < refresh < inf):
        raise InputError(f"{_class_name(policy)}.refresh is {refresh!r:.80}; expected seconds above 0, or None")
    if kind is NodeScore:
        _check_call(policy, kind, "devices", 3)


def _check_call(policy: type[Policy], kind: type[Policy], name: str, arguments: int) -> None:
    method = getattr(policy, name)
    try:
        inspect.signature(method).bind(*[None] * (arguments + 1))
    except (TypeError, ValueError):
        expected = inspect.signature(getattr(kind, name))
        raise InputError(
            f"{_class_name(policy)}.{name}{inspect.signature(method)} can't be called as {name}{expected}"
        ) from None


def make_policy(choice: PolicyChoice, kind: type[P]) -> P:
    """The policy that a configuration names, with its parameters. Raises PolicyError if this process does not know it,
    it is of another kind, or its parameters are invalid.
    """
    policy_class = _registered.get(choice.name)
    if policy_class is None:
        brought = f"; it came with {choice.brought_by}" if choice.distribution else ""
        raise PolicyError(f"policy {choice.name!r} is not installed{brought}")
    if not issubclass(policy_class, kind):
        is_kind = next(known.__name__ for known in METHODS if issubclass(policy_class, known))
        raise PolicyError(f"policy {choice.name!r} is a {is_kind}; expected a {kind.__name__}")
    try:
        return msgspec.convert(dict(choice.parameters), policy_class)
    except msgspec.ValidationError as error:
        known = ", ".join(policy_class.__struct_fields__) or "none"
        raise PolicyError(f"policy {choice.name!r}: parameters: {error} (it has: {known})") from None
    except Exception as error:  # from the policy's __post_init__
        raise PolicyError(f"policy {choice.name!r}: it can't be made: {describe_error(error)}") from error


def _class_name(policy: Any) -> str:
    return f"{policy.__module__}.{policy.__qualname__}" if isinstance(policy, type) else repr(policy)
