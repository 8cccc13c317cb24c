"""The decisions of a lab as columns, and what waited from when to when."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kailab.evidence.entries import Decision, Evicted, OnNode, Reason, State, Waits
from kailab.evidence.scrubbing import Scrubber
from kailab.report.columns import Groups, Nodes, Pods, Queues
from kailab.report.form import NONE, DecisionForm, EvictionForm, Moment, WaitForm
from kailab.report.takeback import Takeback


class Decisions:
    """Takes decisions in, in their order. ``taken``: so many."""

    def __init__(self, first: int, pods: Pods, nodes: Nodes, queues: Queues) -> None:
        """``first``: reference of the first entry."""
        self.form = DecisionForm(ref0=first)
        self.taken = 0
        self._pods, self._nodes, self._queues = pods, nodes, queues
        self._kinds: dict[str, int] = {}
        self._actions: dict[str, int] = {}

    def take(self, entry: Decision, moments: Sequence[Moment], moment: int) -> None:
        """``moment``: that it is of, NONE for none. A pod is the latest one of its name by then."""
        form, pods = self.form, self._pods
        kind = str(entry.__struct_config__.tag)
        form.moment.append(moment)
        form.kind.append(_place(self._kinds, form.kinds, kind))
        form.action.append(_place(self._actions, form.actions, entry.action))
        form.pod.append(NONE if isinstance(entry, Waits) else pods.place(entry.pod))
        group = getattr(entry, "podgroup", "")
        form.group.append(pods.groups.place(group) if group else NONE)
        form.node.append(self._nodes.place(entry.node) if isinstance(entry, OnNode) else NONE)
        if isinstance(entry, Evicted):
            form.evictions.append(_eviction(self.taken, entry, pods, self._queues))
        if moment != NONE:
            counts = moments[moment].counts
            counts[kind] = counts.get(kind, 0) + 1
        self.taken += 1


def _place(places: dict[str, int], names: list[str], name: str) -> int:
    found = places.get(name)
    if found is None:
        found = places[name] = len(names)
        names.append(name)
    return found


def _eviction(place: int, entry: Evicted, pods: Pods, queues: Queues) -> EvictionForm:
    return EvictionForm(
        decision=place,
        beneficiary=pods.groups.place(entry.beneficiary) if entry.beneficiary else NONE,
        beneficiary_name=entry.beneficiary,
        beneficiary_queue=queues.place(entry.beneficiary_queue),
        reason=entry.reason,
        ground=entry.ground,
        taking=None if entry.taking is None else msgspec.to_builtins(entry.taking),
        shares=msgspec.to_builtins(entry.shares),
    )


class Waiting:
    """What waits, told moment by moment. A wait is open until another moment says otherwise. ``touched``: places of which something
    was told since somebody emptied it."""

    def __init__(self, groups: Groups, holds: Takeback) -> None:
        self.form: list[WaitForm] = []
        self.touched: set[int] = set()
        self._open: dict[str, int] = {}
        self._groups, self._holds = groups, holds

    def begin(self, moment: int, reason: Reason, ref: int) -> None:
        self._close(moment, reason.podgroup)
        self._put(
            reason.podgroup,
            WaitForm(
                group=self._groups.place(reason.podgroup, reason.queue),
                begins=moment,
                ends=NONE,
                code=reason.reason,
                message=reason.message,
                ref=ref,
                queue_context=reason.queue_context,
                fits=[(fit.pod, fit.nodes, list(fit.reasons)) for fit in reason.fits],
                tried=list(reason.tried),
                numbers=dict(reason.numbers),
                place=reason.place,
                because=reason.because,
            ),
        )

    def keep_only(self, moment: int, groups: set[str]) -> None:
        for name in [name for name in self._open if name not in groups]:
            self._close(moment, name)

    def at_end(self, moment: int, pending: Sequence[Reason], first: int, text: Scrubber | None = None) -> None:
        """As the last look told it. A reason that goes on keeps its entry. ``text`` cuts reasons, where that was not done."""
        self.keep_only(moment, {reason.podgroup for reason in pending})
        for place, reason in enumerate(pending):
            was, message = self._opened(reason.podgroup), reason.message if text is None else text.text(reason.message)
            if was is None or (was.code, was.message) != (reason.reason, message):
                self.begin(moment, reason if text is None else text.entry(reason), first + place)

    def rows(self, moment: int, state: State, first: int) -> None:
        """Of a scheduler that tells no reasons: what conditions of pods say."""
        waits: dict[str, tuple[str, str, int]] = {}
        for place, row in enumerate(state.pods):
            if row.phase == "Pending" and not row.node:
                waits.setdefault(row.group, (row.reason or "Pending", row.message, first + place))
        self.keep_only(moment, set(waits))
        for name, (code, message, ref) in waits.items():
            was = self._opened(name)
            if was is None or (was.code, was.message) != (code, message):
                self._close(moment, name)
                group = self._groups.place(name)
                self._put(name, WaitForm(group=group, begins=moment, ends=NONE, code=code, message=message, ref=ref))

    def _opened(self, name: str) -> WaitForm | None:
        place = self._open.get(name)
        return None if place is None else self.form[place]

    def _put(self, name: str, wait: WaitForm) -> None:
        self.touched.add(len(self.form))
        self._holds.put(self._open, name, len(self.form))
        self._holds.append(self.form, wait)

    def _close(self, moment: int, name: str) -> None:
        place = self._open.get(name)
        if place is not None:
            self._holds.drop(self._open, name)
            self._holds.set(self.form[place], "ends", moment)
            self.touched.add(place)
