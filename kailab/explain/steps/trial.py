"""Changes carried out on a copy of the lab: does the subject run then, and who is evicted for it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.explain.answer import Outcome, Step
from kailab.explain.steps.proposal import Proposal, Way
from kailab.explain.steps.setting import Setting
from kailab.explain.steps.sifting import can_ask, promising
from kailab.lab.change import carry_out, read_changes
from kailab.lab.fork import fork
from kailab.lab.owners import owners_of

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

MOST = 60
"""Trials for one answer in a small lab."""
LEAST = 2
"""The same in a large one."""
AFFORDABLE = 12_000
"""Pods that all trials of one answer may look at."""
SIFTED_FROM = 500
"""Pods from which on only that is tried of which the engine says that it may work."""


SLOW_FROM = 2_000
"""Pods from which on one trial takes a good part of a second."""


class Tried(NamedTuple):
    """A proposal that lets the subject run, and what was seen then."""

    proposal: Proposal
    outcome: Outcome

    @property
    def step(self) -> Step:
        return Step(self.proposal.said, self.proposal.changes, True, self.outcome)


class Trials:
    """All trials for one answer: a bounded number, fewer in a large lab. ``setting``: before anything is changed."""

    def __init__(self, setting: Setting) -> None:
        pods = max(1, len(setting.picture.pods))
        self.sifted, self.slow = pods >= SIFTED_FROM, pods >= SLOW_FROM
        self.left = max(LEAST, min(MOST, AFFORDABLE // pods))
        self._running = len(setting.standing.running)
        self._evictions = len(setting.picture.log.evictions)

    def spend(self) -> bool:
        """Whether one trial more may be made."""
        self.left -= 1
        return self.left >= 0

    def first(self, setting: Setting, way: Way) -> Tried | None:
        """The smallest change of a way that lets the subject run."""
        sifted = self.sifted and can_ask(way)
        if way.grows and len(way.proposals) > 1 and not sifted:
            return self._by_halving(setting, way.proposals)
        for one in promising(setting, way) if sifted else way.proposals:
            if (tried := self.of(setting, one)) is not None or self.left <= 0:
                return tried
        return None

    def of(self, setting: Setting, proposal: Proposal) -> Tried | None:
        """None where the lab refuses the change, where it does not let the subject run, and where no trial is left."""
        if not self.spend():
            return None
        with closing(fork(setting.lab)) as copy:
            try:
                self.carry_out(copy, proposal)
            except KailabError:
                return None
            outcome = self._outcome(setting, copy)
        return None if outcome is None else Tried(proposal, outcome)

    def carry_out(self, copy: Lab, proposal: Proposal) -> None:
        """Make its changes. Raises KailabError for what the lab refuses."""
        # In a large lab to settle takes its time: what one command changes is changed together.
        carry_out(copy, read_changes([dict(change) for change in proposal.changes]), together=self.sifted)

    def _by_halving(self, setting: Setting, proposals: Sequence[Proposal]) -> Tried | None:
        best = self.of(setting, proposals[-1])
        low, high = 0, len(proposals) - 1
        while best is not None and low < high:
            middle = (low + high) // 2
            if (tried := self.of(setting, proposals[middle])) is not None:
                high, best = middle, tried
            else:
                low = middle + 1
        return best

    def _outcome(self, setting: Setting, copy: Lab) -> Outcome | None:
        picture = copy.picture(setting.picture)
        try:
            after = setting.subject.standing(copy, picture)
        except KailabError:  # it is gone
            return None
        if not after.runs or len(after.running) <= self._running:
            return None
        own = {id(entry) for entry in after.evictions}
        evicted = [entry for entry in picture.log.evictions[self._evictions :] if id(entry) not in own]
        gone, moved = (
            tuple(dict.fromkeys(entry.pod for entry in evicted if entry.is_move is moves)) for moves in (False, True)
        )
        moved = tuple(name for name in moved if name not in gone)
        return Outcome(len(after.running), gone, moved, tuple(_failed(setting, copy, gone)))


def _failed(setting: Setting, copy: Lab, evicted: Sequence[str]) -> Iterator[str]:
    """Workloads of pods that were evicted which say on the copy that they have failed, and did not before."""
    owners = {uid: obj for pod in evicted if pod in setting.pods for uid, obj in _owners(setting, setting.pods[pod])}
    for obj in owners.values():
        try:
            now = copy.cluster.get(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        except KailabError:
            continue
        reason = _failure(now)
        if reason is not None and _failure(obj) is None:
            yield f"{obj['kind']} {obj['metadata']['name']}{f' ({reason})' if reason else ''}"


def _owners(setting: Setting, pod: Object) -> Iterator[tuple[str, Object]]:
    for owner in owners_of(setting.lab, pod):
        yield owner["metadata"]["uid"], owner


def _failure(obj: Object) -> str | None:
    """The reason that it gives for having failed; None where it has not."""
    states = (obj.get("status") or {}).get("conditions") or ()
    found = [one for one in states if one.get("type") == "Failed" and one.get("status") == "True"]
    return str(found[0].get("reason") or "") if found else None
