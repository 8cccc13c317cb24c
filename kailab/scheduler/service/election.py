"""Leader election over a Lease, with the rules of Kubernetes' own components.

The holder renews every ``retry_period``. Candidates take the lease over once its record has not changed for its lease duration, measured by
their own steady clock. The times in the record are never compared with a clock, so a wrong clock does no harm. The holder trusts its lease
for ``renew_deadline`` after it *sent* the last successful renewal. That is less than the lease duration, so it stops before another
candidate starts. Source: client-go tools/leaderelection.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import AlreadyExists, ApiError, Conflict, InputError, NotFound
from kailab.model.objects import spec_of
from kailab.model.times import format_micro_time

_log = logging.getLogger(__name__)
_JITTER = 1.2  # client-go's JitterFactor
_JOIN_SECONDS = 5.0


def steady_seconds() -> float:
    """Seconds of a clock that never steps and, if the system has one, also counts while the machine sleeps."""
    # A machine that slept must not trust a lease that others took over meanwhile.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseTerms(NamedTuple):
    """The times of an election in seconds. ``check`` raises InputError if two holders could act at once."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def check(self) -> LeaseTerms:
        if self.lease_duration <= self.renew_deadline:
            raise InputError(
                f"the lease duration ({self.lease_duration:g} s) must be longer than the renew deadline "
                f"({self.renew_deadline:g} s)"
            )
        if self.renew_deadline <= _JITTER * self.retry_period:
            raise InputError(
                f"the renew deadline ({self.renew_deadline:g} s) must be longer than {_JITTER:g} retry periods "
                f"({self.retry_period:g} s each)"
            )
        if self.retry_period <= 0 or self.lease_duration < 1:
            raise InputError("the retry period must be above 0, the lease duration at least 1 s")
        return self


class Leadership(Protocol):
    """Whether this scheduler leads. ``term`` counts the times that it began to lead; ``holder`` names the leader, if known."""

    @property
    def leading(self) -> bool: ...

    @property
    def term(self) -> int: ...

    @property
    def holder(self) -> str: ...


class NoElection:
    """The leadership of a single scheduler without an election."""

    leading = True
    term = 1
    holder = ""


class Election:
    """One candidate. One thread calls ``step``; any thread may read ``leading`` and ``holder``.

    ``identity`` must be unique among the candidates. ``clock``: seconds that never step.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        namespace: str,
        name: str,
        terms: LeaseTerms | None = None,
        clock: Callable[[], float] = steady_seconds,
    ) -> None:
        self.identity = identity
        self.terms = (terms or LeaseTerms()).check()
        self.term = 0
        self.holder = ""
        self.trouble = ""
        """The error of the last step, or ""."""
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._lease: Object | None = None  # as last seen
        self._seen_at = 0.0  # when its record last changed, by our clock
        self._renewed_at: float | None = None

    @property
    def leading(self) -> bool:
        """Whether writes are allowed now: the lease is ours and was renewed within ``renew_deadline``."""
        # Read once, because the election's thread may change it.
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() < renewed_at + self.terms.renew_deadline

    def step(self) -> float:
        """Try once to acquire or renew the lease. Returns the seconds until the next try."""
        try:
            won = self._try()
            self.trouble = ""
        except Conflict:
            _log.debug("the lease %s/%s changed meanwhile; it is read again", self._namespace, self._name)
            won = False  # another candidate was faster; the next step reads the lease
            self._lease = None
        except ApiError as error:
            won = False
            self.trouble = str(error)
        if won:
            return self.terms.retry_period
        pause = self.terms.retry_period * (1 + _JITTER * random.random())
        if self._lease is not None and self._renewed_at is None:
            # Not later than the end of the other's lease, with jitter between candidates.
            remaining = self._seen_at + self._duration(self._lease) - self._clock()
            pause = min(pause, max(0.05, remaining + 0.1 * self.terms.retry_period * random.random()))
        return pause

    def release(self) -> None:
        """Release the lease, so that no candidate has to wait for its end. Raises nothing: an unreleased lease expires."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        try:
            lease = self._cluster.get("Lease", self._name, self._namespace)
            if spec_of(lease).get("holderIdentity") != self.identity:
                return
            stamp = format_micro_time(self._cluster.now())
            # As client-go's release: no holder, and a duration of one second for readers of the times.
            released = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp, "acquireTime": stamp}
            self._cluster.update({**lease, "spec": {**spec_of(lease), **released}})
            self.holder = ""
        except ApiError as error:
            self.trouble = str(error)

    # --- one try -----------------------------------------------------------------------------------------------------

    def _try(self) -> bool:
        sent_at = self._clock()
        if self.leading and self._lease is not None:
            # The usual case needs one request: the stored lease should not have changed since our last renewal.
            try:
                return self._take(self._lease, sent_at)
            except (Conflict, NotFound):
                sent_at = self._clock()
        try:
            lease = self._cluster.get("Lease", self._name, self._namespace)
        except NotFound:
            # The server lets only one candidate create it.
            return self._create(sent_at)
        self._observe(lease)
        holder = spec_of(lease).get("holderIdentity") or ""
        # A lease with our own name may be from before a failed renewal; it is renewed at any age.
        if holder and holder != self.identity and sent_at < self._seen_at + self._duration(lease):
            self._renewed_at = None
            return False
        return self._take(lease, sent_at)

    def _create(self, sent_at: float) -> bool:
        stamp = format_micro_time(self._cluster.now())
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._record(stamp, stamp, 0),
        }
        try:
            created = self._cluster.create(lease)
        except AlreadyExists:
            return False
        self._won(created, sent_at)
        return True

    def _take(self, lease: Object, sent_at: float) -> bool:
        spec = spec_of(lease)
        stamp = format_micro_time(self._cluster.now())
        transitions = int(spec.get("leaseTransitions") or 0)
        if spec.get("holderIdentity") == self.identity:
            record = self._record(spec.get("acquireTime") or stamp, stamp, transitions)
        else:
            record = self._record(stamp, stamp, transitions + 1)
        # With the resourceVersion that was read: of two candidates at once, one gets a Conflict.
        self._won(self._cluster.update({**lease, "spec": {**spec, **record}}), sent_at)
        return True

    def _record(self, acquired: str, renewed: str, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": round(self.terms.lease_duration),
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": transitions,
        }

    def _won(self, lease: Object, sent_at: float) -> None:
        self._observe(lease)
        before = self._renewed_at
        # After the renew deadline another candidate may have led, so a new term begins.
        if before is None or before + self.terms.renew_deadline <= sent_at:
            self.term += 1
            _log.debug("%s holds the lease %s/%s; term %d", self.identity, self._namespace, self._name, self.term)
        self._renewed_at = sent_at

    def _observe(self, lease: Object) -> None:
        if self._lease is None or spec_of(self._lease) != spec_of(lease):
            self._seen_at = self._clock()
        self._lease = lease
        self.holder = spec_of(lease).get("holderIdentity") or ""

    def _duration(self, lease: Object) -> float:
        return float(spec_of(lease).get("leaseDurationSeconds") or self.terms.lease_duration)


class ElectionThread(threading.Thread):
    """Steps an election in a thread of its own, because a cycle may take longer than a lease lasts."""

    def __init__(self, election: Election, tell: Callable[[str], None]) -> None:
        super().__init__(name="election", daemon=True)
        self._election = election
        self._tell = tell
        self._ending = threading.Event()

    def run(self) -> None:
        reported = ""
        pause = 0.0
        while not self._ending.wait(pause):
            pause = self._election.step()
            if self._election.trouble != reported:
                reported = self._election.trouble
                self._tell(f"lease: {reported}" if reported else "lease: the API server answers again")

    def end(self) -> None:
        """End the thread and release the lease. If a step hangs, the lease expires instead."""
        self._ending.set()
        if self.is_alive():
            self.join(_JOIN_SECONDS)
            if self.is_alive():
                return
        self._election.release()
