"""The decisions of a lab as columns, and what waited from when to when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kailab.evidence.entries import Decision, Evicted, OnNode, Reason, State, Waits
from kailab.report.columns import Nodes, Pods, Queues
from kailab.report.form import NONE, DecisionForm, EvictionForm, Moment, WaitForm

Of = Callable[[Decision], int]


def columns(
    decisions: Sequence[Decision], moment_of: Of, first: int, pods: Pods, nodes: Nodes, queues: Queues
) -> DecisionForm:
    """``first``: reference of the first entry."""
    form = DecisionForm(ref0=first)
    kinds: dict[str, int] = {}
    actions: dict[str, int] = {}
    for place, entry in enumerate(decisions):
        kind = str(entry.__struct_config__.tag)
        form.moment.append(moment_of(entry))
        form.kind.append(kinds.setdefault(kind, len(kinds)))
        form.action.append(actions.setdefault(entry.action, len(actions)))
        form.pod.append(NONE if isinstance(entry, Waits) else pods.place(entry.pod))
        group = getattr(entry, "podgroup", "")
        form.group.append(pods.group(group) if group else NONE)
        form.node.append(nodes.place(entry.node) if isinstance(entry, OnNode) else NONE)
        if isinstance(entry, Evicted):
            form.evictions.append(_eviction(place, entry, pods, queues))
    form.kinds, form.actions = list(kinds), list(actions)
    return form


def _eviction(place: int, entry: Evicted, pods: Pods, queues: Queues) -> EvictionForm:
    return EvictionForm(
        decision=place,
        beneficiary=pods.group(entry.beneficiary) if entry.beneficiary else NONE,
        beneficiary_name=entry.beneficiary,
        beneficiary_queue=queues.place(entry.beneficiary_queue),
        reason=entry.reason,
        ground=entry.ground,
        taking=None if entry.taking is None else msgspec.to_builtins(entry.taking),
        shares=msgspec.to_builtins(entry.shares),
    )


def count(decisions: Sequence[Decision], form: DecisionForm, moments: Sequence[Moment]) -> None:
    """Tell each moment how many of each kind it has."""
    for place in range(len(decisions)):
        if (moment := form.moment[place]) != NONE:
            counts, kind = moments[moment].counts, form.kinds[form.kind[place]]
            counts[kind] = counts.get(kind, 0) + 1


class Waiting:
    """What waits, told moment by moment. A wait is open until another moment says otherwise."""

    def __init__(self, pods: Pods) -> None:
        self.form: list[WaitForm] = []
        self._open: dict[str, WaitForm] = {}
        self._pods = pods

    def begin(self, moment: int, reason: Reason, ref: int) -> None:
        self._close(moment, reason.podgroup)
        self._put(
            reason.podgroup,
            WaitForm(
                group=self._pods.group(reason.podgroup, reason.queue),
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

    def at_end(self, moment: int, pending: Sequence[Reason], first: int) -> None:
        """As the last look told it. A reason that goes on keeps its entry."""
        self.keep_only(moment, {reason.podgroup for reason in pending})
        for place, reason in enumerate(pending):
            was = self._open.get(reason.podgroup)
            if was is None or (was.code, was.message) != (reason.reason, reason.message):
                self.begin(moment, reason, first + place)

    def rows(self, moment: int, state: State, first: int) -> None:
        """Of a scheduler that tells no reasons: what conditions of pods say."""
        waits: dict[str, tuple[str, str, int]] = {}
        for place, row in enumerate(state.pods):
            if row.phase == "Pending" and not row.node:
                waits.setdefault(row.group, (row.reason or "Pending", row.message, first + place))
        self.keep_only(moment, set(waits))
        for name, (code, message, ref) in waits.items():
            was = self._open.get(name)
            if was is None or (was.code, was.message) != (code, message):
                self._close(moment, name)
                group = self._pods.group(name)
                self._put(name, WaitForm(group=group, begins=moment, ends=NONE, code=code, message=message, ref=ref))

    def _put(self, name: str, wait: WaitForm) -> None:
        self._open[name] = wait
        self.form.append(wait)

    def _close(self, moment: int, name: str) -> None:
        was = self._open.pop(name, None)
        if was is not None:
            was.ends = moment


def by_cycle(decisions: Sequence[Decision]) -> dict[int, list[tuple[int, Waits]]]:
    """Entries of what waits, with their place, by the number of the cycle."""
    found: dict[int, list[tuple[int, Waits]]] = {}
    for place, entry in enumerate(decisions):
        if isinstance(entry, Waits):
            found.setdefault(entry.cycle, []).append((place, entry))
    return found
