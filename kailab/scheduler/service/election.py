"""Which of several schedulers acts: leader election over a Lease, with the rules that Kubernetes' own components keep.

The holder renews every ``retry_period``. The others watch the record change, and take it over once it has not changed for as
long as it says it is good for, by their own steady clock: what times the record names is never compared with any clock, so a
clock that is wrong or steps does no harm. The holder trusts its lease for ``renew_deadline`` from the moment at which it
*sent* the last renewal that succeeded; since that is less than what the others wait, it has stopped before they begin.
Source: client-go tools/leaderelection.
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
from kailab.model.times import format_micro_time

_log = logging.getLogger(__name__)
_JITTER = 1.2  # client-go's JitterFactor
_PATIENCE_SECONDS = 5.0
_NOTHING: dict[str, Any] = {}


def steady_seconds() -> float:
    """Seconds that never step, and that go on while the machine sleeps where the system can tell."""
    # A machine that was asleep must not wake up believing in a lease that others have taken over meanwhile.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class LeaseTerms(NamedTuple):
    """Seconds. Raise InputError by ``check`` where a holder could act while another does."""

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
    """Whether this scheduler may act. ``term`` counts the times it began to; ``holder`` names who may, if known."""

    @property
    def leading(self) -> bool: ...

    @property
    def term(self) -> int: ...

    @property
    def holder(self) -> str: ...


class NoElection:
    """No election: there is one scheduler, and it acts."""

    leading = True
    term = 1
    holder = ""


class Election:
    """One candidate. ``step`` is called by one thread, ``leading`` and ``holder`` may be asked by any.

    ``identity`` must be unlike any other candidate's. ``clock``: seconds that never step.
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
        """Why the last step failed, as the server put it; "" where it did not."""
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._clock = clock
        self._lease: Object | None = None  # as last seen
        self._seen_at = 0.0  # when its record was last seen to change
        self._renewed_at: float | None = None

    @property
    def leading(self) -> bool:
        """Whether writes may go out now: the lease is ours, and was renewed within ``renew_deadline``."""
        # Read once: the election's thread may set it between the test and the comparison.
        renewed_at = self._renewed_at
        return renewed_at is not None and self._clock() < renewed_at + self.terms.renew_deadline

    def step(self) -> float:
        """Try once to get or renew the lease. Seconds until the next try."""
        try:
            won = self._try()
            self.trouble = ""
        except Conflict:
            _log.debug("the lease %s/%s changed meanwhile; it is read again", self._namespace, self._name)
            won = False  # somebody was quicker: what is there now is read in the next step
            self._lease = None
        except ApiError as error:
            won = False
            self.trouble = str(error)
        if won:
            return self.terms.retry_period
        pause = self.terms.retry_period * (1 + _JITTER * random.random())
        if self._lease is not None and self._renewed_at is None:
            # Not later than the end of the lease that is waited for, but not all standbys at one moment.
            left = self._seen_at + self._good_for(self._lease) - self._clock()
            pause = min(pause, max(0.05, left + 0.1 * self.terms.retry_period * random.random()))
        return pause

    def release(self) -> None:
        """Give the lease back, so that nobody has to wait for its end. Raises nothing: it would end by itself."""
        if self._renewed_at is None:
            return
        self._renewed_at = None
        try:
            lease = self._cluster.get("Lease", self._name, self._namespace)
            # Somebody has taken it over already: it is not ours to give.
            if _spec(lease).get("holderIdentity") != self.identity:
                return
            stamp = format_micro_time(self._cluster.now())
            # As client-go's release: no holder, and good for one second for those who look at the time alone.
            given = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp, "acquireTime": stamp}
            self._cluster.update({**lease, "spec": {**_spec(lease), **given}})
            self.holder = ""
        except ApiError as error:
            self.trouble = str(error)

    # --- one try -----------------------------------------------------------------------------------------------------

    def _try(self) -> bool:
        sent_at = self._clock()
        if self.leading and self._lease is not None:
            # The usual case, in one request: what was stored when it was last renewed should still be there.
            try:
                return self._take(self._lease, sent_at)
            except (Conflict, NotFound):
                sent_at = self._clock()
        try:
            lease = self._cluster.get("Lease", self._name, self._namespace)
        except NotFound:
            # Whoever is first to create it leads: the server lets only one.
            return self._make(sent_at)
        self._observe(lease)
        holder = _spec(lease).get("holderIdentity") or ""
        # Our own name in it may be from before a failed renewal: then it is renewed, whatever its age.
        if holder and holder != self.identity and sent_at < self._seen_at + self._good_for(lease):
            self._renewed_at = None
            return False
        return self._take(lease, sent_at)

    def _make(self, sent_at: float) -> bool:
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
        spec = _spec(lease)
        stamp = format_micro_time(self._cluster.now())
        transitions = int(spec.get("leaseTransitions") or 0)
        if spec.get("holderIdentity") == self.identity:
            record = self._record(spec.get("acquireTime") or stamp, stamp, transitions)
        else:
            record = self._record(stamp, stamp, transitions + 1)
        # With the resourceVersion that was read: of two who take it over at once, one gets a Conflict.
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
        # Between the end of our trust and this renewal another one may have led: what was known then does not hold now.
        if before is None or before + self.terms.renew_deadline <= sent_at:
            self.term += 1
            _log.debug("%s holds the lease %s/%s; term %d", self.identity, self._namespace, self._name, self.term)
        self._renewed_at = sent_at

    def _observe(self, lease: Object) -> None:
        # Seen to change, by our clock: what times the record names does not matter.
        if self._lease is None or _spec(self._lease) != _spec(lease):
            self._seen_at = self._clock()
        self._lease = lease
        self.holder = _spec(lease).get("holderIdentity") or ""

    def _good_for(self, lease: Object) -> float:
        return float(_spec(lease).get("leaseDurationSeconds") or self.terms.lease_duration)


def _spec(lease: Object) -> dict[str, Any]:
    return lease.get("spec") or _NOTHING


class ElectionThread(threading.Thread):
    """Steps an election beside the scheduler, whose cycles may take longer than a lease lasts."""

    def __init__(self, election: Election, tell: Callable[[str], None]) -> None:
        super().__init__(name="election", daemon=True)
        self._election = election
        self._tell = tell
        self._ending = threading.Event()

    def run(self) -> None:
        told = ""
        pause = 0.0
        while not self._ending.wait(pause):
            pause = self._election.step()
            if self._election.trouble != told:
                told = self._election.trouble
                self._tell(f"lease: {told}" if told else "lease: the API server answers again")

    def end(self) -> None:
        """No step after this; the lease is given back, unless a step hangs: then it ends by itself."""
        self._ending.set()
        if self.is_alive():
            self.join(_PATIENCE_SECONDS)
            if self.is_alive():
                return
        self._election.release()
