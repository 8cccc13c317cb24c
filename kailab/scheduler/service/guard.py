"""A cluster that refuses writes without the lease, and counts them.

The scheduler and its controllers write only through the guarded cluster. Once the leadership is lost it refuses every write; the transport
refuses the unsent rest of a batch (see ``kailab.cluster.kubernetes.apiclient.transport``).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from kailab.cluster.protocol import (
    AssumeCache,
    AsyncWrites,
    Cluster,
    EventSeverity,
    LiveUpdates,
    Object,
    Outcomes,
    SubmittedWrites,
    Watch,
)
from kailab.cluster.submitted_writes import SubmittedBatch
from kailab.cluster.writes import VERBS, Chain, SingleWrites, WriteOutcome
from kailab.errors import ApiError, Unavailable

Objects: TypeAlias = list[Object]
Numbered: TypeAlias = list[tuple[int, WriteOutcome]]


class NotLeading(Unavailable):
    """The scheduler no longer holds the lease, so nothing was written."""


class GuardedCluster(SingleWrites):
    """Implements ``Cluster`` and ``LiveUpdates``. ``written``: (verb, outcome) -> count; the outcome is ``ok`` or the class of the error.
    ``unanswered``: the number of writes without an answer."""

    def __init__(self, cluster: Cluster, may_write: Callable[[], bool]) -> None:
        self.inner = cluster
        self.written: Counter[tuple[str, str]] = Counter()
        self.unanswered = 0
        self._may_write = may_write
        self._pause = threading.Event()

    @property
    def name(self) -> str:
        return self.inner.name

    def now(self) -> float:
        return self.inner.now()

    def wait(self, seconds: float) -> bool:
        """See ``LiveUpdates``. For a cluster without live updates this is a sleep."""
        if isinstance(self.inner, LiveUpdates):
            return self.inner.wait(seconds)
        return self._pause.wait(max(0.0, seconds))

    def assume(self, namespace: str, pod: str, uid: str, annotations: Mapping[str, str]) -> Object | None:
        """See ``AssumeCache``. A cluster without one is patched."""
        if isinstance(self.inner, AssumeCache):
            return self.inner.assume(namespace, pod, uid, annotations)
        return self.patch("Pod", pod, namespace, {"metadata": {"uid": uid, "annotations": dict(annotations)}})

    def forget_assumed(self) -> None:
        if isinstance(self.inner, AssumeCache):
            self.inner.forget_assumed()

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        return self.inner.get(kind, name, namespace)

    def list(self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | str | None = None) -> Objects:
        return self.inner.list(kind, namespace, labels)

    def watch(self, kinds: Iterable[str] | None = None) -> Watch:
        return self.inner.watch(kinds)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _refusal(self) -> NotLeading | None:
        return None if self._may_write() else NotLeading("not written: this scheduler does not hold the lease any more")

    def _count(self, verb: str, error: ApiError | None) -> None:
        self.written[verb, "ok" if error is None else type(error).__name__] += 1
        if isinstance(error, Unavailable):
            self.unanswered += 1

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        refusal = self._refusal()
        if refusal is not None:
            self._count("apply", refusal)
            raise refusal
        try:
            applied = self.inner.apply(obj)
        except ApiError as error:
            self._count("apply", error)
            raise
        self._count("apply", None)
        return applied

    def write_all(self, chains: Sequence[Chain]) -> Outcomes:
        refusal = self._refusal()
        # Checked once for the batch; the transport checks before each request.
        if refusal is None:
            outcomes = self.inner.write_all(chains)
        else:
            outcomes = [WriteOutcome([], refusal) for _ in chains]
        for chain, outcome in zip(chains, outcomes, strict=True):
            self._count_chain(chain, outcome)
        return outcomes

    def _count_chain(self, chain: Chain, outcome: WriteOutcome) -> None:
        done = len(outcome.objects)
        for write in chain[:done]:
            self._count(VERBS[type(write)], None)
        if outcome.error is not None and done < len(chain):
            self._count(VERBS[type(chain[done])], outcome.error)

    @property
    def under_way(self) -> int:
        """See ``AsyncWrites``."""
        return self.inner.under_way if isinstance(self.inner, AsyncWrites) else 0

    def hand_over(self, chains: Sequence[Chain]) -> SubmittedWrites:
        """See ``AsyncWrites``. A cluster without them is written to at once."""
        if isinstance(self.inner, AsyncWrites) and self._refusal() is None:
            return _CountedWrites(self.inner.hand_over(chains), chains, self._count_chain)
        return SubmittedBatch(enumerate(self.write_all(chains)))

    def event(
        self, involved: Object, type: EventSeverity, reason: str, message: str, component: str = "kai-scheduler"
    ) -> None:
        refusal = self._refusal()
        if refusal is None:
            self.inner.event(involved, type, reason, message, component)
        # A refused event raises no error: callers expect none.
        self._count("event", refusal)


class _CountedWrites:
    """Implements ``SubmittedWrites`` and counts the outcomes."""

    def __init__(
        self, inner: SubmittedWrites, chains: Sequence[Chain], count: Callable[[Chain, WriteOutcome], None]
    ) -> None:
        self._inner = inner
        self._chains = chains
        self._count = count

    def collect(self) -> Numbered:
        outcomes = self._inner.collect()
        for number, outcome in outcomes:
            self._count(self._chains[number], outcome)
        return outcomes
