"""What cycles decided, as entries with names, from the cycles alone."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.changes import Changes
from kailab.evidence.cycles import Cycle
from kailab.evidence.decision_log import DecisionLog, Named, Naming
from kailab.evidence.entries import Decision


class CycleTeller:
    """Takes cycles one after the other. ``others``: knows labels and owners of pods, which are not among the records."""

    def __init__(self, opened: float, others: Naming | None = None) -> None:
        self.names = _RecordNames(others)
        self._log = DecisionLog(self.names, opened, keep_all=True)

    def tell(self, cycle: Cycle, decisions: Decisions) -> list[Decision]:
        """The entries of a cycle."""
        self.names.take(cycle.changes)
        # A scheduler that began anew tells all reasons once more; the log then did, too. ``take`` counts this cycle.
        if cycle.changes.whole:
            self._log.begin_anew(cycle.number - 1)
        return self._log.take(decisions)

    def once(self, decisions: Decisions) -> list[Decision]:
        """As if they were the first."""
        return DecisionLog(self.names, 0.0, keep_all=True).take(decisions)


class _RecordNames:
    def __init__(self, others: Naming | None) -> None:
        self._known: dict[str, Named] = {}
        self._others = others

    def take(self, changes: Changes) -> None:
        self._known |= {task.uid: Named(f"{task.namespace}/{task.name}") for task in changes.set.tasks}
        self._known |= {
            group.uid: Named(f"{group.namespace}/{group.name}", kind="PodGroup") for group in changes.set.podgroups
        }

    def refresh(self) -> None:
        if self._others is not None:
            self._others.refresh()

    def close(self) -> None:
        pass

    def everyone(self) -> Iterable[Named]:
        return self._known.values()

    def of(self, uid: str) -> Named:
        known = self._known.get(uid) or Named(uid)
        other = self._others.of(uid) if self._others is not None else known
        # The name of the record wins: it may be that of a pod which the others never saw.
        return known._replace(app=other.app, owner=other.owner)
