"""The vocabulary of expectations.

    expect(lab.queue("team-a")).running(gpus=16).borrows(gpus=8, from_queue="team-b")
    expect(lab.job("big")).waits_whole()

Every method checks at once and returns the expectation, so that calls chain. If the lab was changed since it last settled, it settles
first. An expectation that does not hold raises ExpectationFailed. The message has the expected state, the seen state, and explanations of
the pods at fault.

An amount is an exact number, or a bound: ``running(pods=at_least(8))``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from operator import methodcaller
from typing import TYPE_CHECKING, NoReturn

from kailab.errors import ExpectationFailed, InputError
from kailab.evidence.shares import QueueAmounts
from kailab.evidence.wording import count, gpus, some
from kailab.lab import subjects
from kailab.lab.answer import Explanation
from kailab.lab.picture import group_of
from kailab.lab.seen_names import check_action, check_reason, closest_first
from kailab.lab.subjects import Subject
from kailab.lab.temporal import in_temporal_form, note_lab
from kailab.model import labels
from kailab.model.multimap import multimap
from kailab.model.objects import ENDED_PHASES, labels_of
from kailab.model.suggestions import closest_names

if TYPE_CHECKING:
    from kailab.evidence.entries import PodEvicted, PodRow
    from kailab.lab.answer import Answer
    from kailab.lab.lab import Lab

__all__ = ["Expectation", "at_least", "at_most", "between", "expect"]


# --- amounts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """``low`` and ``high`` are inclusive; None: no bound."""

    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return "any number of"
        if self.low is None:
            return f"at most {self.high:g}"
        if self.high is None:
            return f"at least {self.low:g}"
        return f"{self.low:g} to {self.high:g}"


Amount = int | float | Bound


def at_least(number: float) -> Bound:
    """At least this number."""
    return Bound(low=number)


def at_most(number: float) -> Bound:
    """At most this number."""
    return Bound(high=number)


def between(low: float, high: float) -> Bound:
    """From ``low`` to ``high``, both included."""
    return Bound(low, high)


def no_more(wanted: Amount | None) -> Bound | None:
    """The amount without its lower bound.

    >>> str(no_more(8)), str(no_more(at_least(3)))
    ('at most 8', 'any number of')
    """
    if wanted is None:
        return None
    return Bound(high=wanted.high if isinstance(wanted, Bound) else wanted)


def holds(wanted: Amount, seen: float) -> bool:
    """Compare to a thousandth, because shares are counted in milli-GPU.

    >>> holds(8, 8.0), holds(at_least(3), 2), holds(at_most(3), 2)
    (True, False, True)
    """
    milli = round(seen * 1000)
    _check(wanted)
    if not isinstance(wanted, Bound):
        return round(wanted * 1000) == milli
    low = wanted.low is None or milli >= round(wanted.low * 1000)
    return low and (wanted.high is None or milli <= round(wanted.high * 1000))


def describe_amount(wanted: Amount, noun: str) -> str:
    """Describe an amount.

    >>> describe_amount(8, "GPU"), describe_amount(1, "pod"), describe_amount(at_least(2), "pod")
    ('8 GPUs', '1 pod', 'at least 2 pods')
    """
    _check(wanted)
    text = str(wanted) if isinstance(wanted, Bound) else f"{round(wanted, 3):g}"
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def _check(wanted: object) -> None:
    """Raises InputError for a value that is no amount."""
    numbers = (wanted.low, wanted.high) if isinstance(wanted, Bound) else (wanted,)
    for number in numbers:
        if number is None and isinstance(wanted, Bound):
            continue
        if isinstance(number, bool) or not isinstance(number, Real):
            raise InputError(
                f"{number!r:.60} is no amount; expected a number, at_least(...), at_most(...) or between(...)"
            )


# A failed test shows its own line, not a line of this module.
__tracebackhide__ = methodcaller("errisinstance", ExpectationFailed)

EXPLAINED = 4
"""Explanations in one failure message."""
SMALL = 100
"""The largest number of pods for which a failure message includes steps that were tried."""


def expect(subject: Subject | Lab) -> Expectation:
    """Begin an expectation about a lab, or a part of it (``lab.queue("team-a")`` and others)."""
    if not isinstance(subject, Subject) and not hasattr(subject, "settle_if_changed"):
        raise InputError(f"expect() takes a lab or a part of it, such as lab.queue('team-a'), not {subject!r:.60}")
    whole = subject if isinstance(subject, Subject) else subjects.everything(subject)
    # Inside ``eventually`` and similar functions the lab is not settled: they advance time themselves.
    if not note_lab(whole.lab):
        whole.lab.settle_if_changed()
    return Expectation(whole)


class Expectation:
    """Expectations about one subject. See the module."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        # One picture for the whole chain, so that all of it is about the same moment.
        self._picture = subject.lab.picture()
        subject.look_up(self._picture)
        self._pods = subject.pods(self._picture)

    if not TYPE_CHECKING:  # type checkers are to see that a word is missing

        def __getattr__(self, name: str) -> NoReturn:
            words = [word for word in dir(type(self)) if not word.startswith("_")]
            raise AttributeError(
                f"there is no expectation {name!r}; there are: {', '.join(closest_first(words, name))}"
            )

    # --- how many, in which state --------------------------------------------------------------------------------

    def running(self, pods: Amount | None = None, gpus: Amount | None = None) -> Expectation:
        """Expect this many of its pods, or pods with this many GPUs, to be Running. Without numbers: all of them, and at least one."""
        rows = self._in_phase("Running")
        if pods is None and gpus is None:
            others = [row for row in self._pods if row.phase in ("Pending", "Terminating")]
            return self._check("all its pods running", bool(rows) and not others, others)
        return self._numbers("running", rows, pods, gpus, self._in_phase("Pending"))

    def pending(self, pods: Amount | None = None, gpus: Amount | None = None, reason: str | None = None) -> Expectation:
        """Expect this many of its pods to be pending (without numbers: at least one), each for this reason (a code: "OverLimit")."""
        check_reason(self._picture, reason, self._pods)
        rows = self._in_phase("Pending")
        if pods is None and gpus is None:
            pods = at_least(1)
        if self._podless:
            pods, gpus = no_more(pods), no_more(gpus)
        self._numbers("pending", rows, pods, gpus, rows or self._in_phase("Running"))
        if reason is None:
            return self
        other = [row for row in rows if self._picture.code_of(row) != reason]
        codes = sorted({self._picture.code_of(row) or "no reason" for row in rows})
        return self._check(f"pending because of {reason}", not other, other, f"pending because of {', '.join(codes)}")

    def succeeded(self, pods: Amount) -> Expectation:
        """Expect this many of its pods to have succeeded."""
        return self._numbers("succeeded", self._in_phase("Succeeded"), pods, None, self._pods)

    def failed(self, pods: Amount) -> Expectation:
        """Expect this many of its pods to have failed."""
        return self._numbers("failed", self._in_phase("Failed"), pods, None, self._pods)

    def evicted(
        self,
        pods: Amount | None = None,
        gpus: Amount | None = None,
        *,
        by: str | None = None,
        for_queue: str | None = None,
        since: float | None = None,
    ) -> Expectation:
        """Expect this many of its pods to have been evicted since the lab opened, or since a moment (an earlier ``lab.now``).

        ``gpus``: the GPUs that the evicted pods held. ``by``: the action (reclaim, preempt, consolidation, stalegangeviction). ``for_queue``: the
        queue whose work took the place."""
        check_action(self._picture, by)
        self._known_queue(for_queue)
        all_entries = self._subject.evictions(self._picture)
        entries = [
            entry
            for entry in all_entries
            if (by is None or entry.action == by)
            and (for_queue is None or entry.beneficiary_queue == for_queue)
            and (since is None or self._subject.lab.spec.opened + entry.t >= since)
        ]
        wanted = at_least(1) if pods is None else pods
        freed = sum(self._gpus_of(entry) for entry in entries) if gpus is not None else 0
        how = (f" by {by}" if by else "") + (f" for {for_queue}" if for_queue else "")
        seen = count(len(entries), "pod") + f" evicted{how}"
        if len(all_entries) != len(entries):
            seen += f" ({count(len(all_entries), 'pod')} in all)"
        if pods is not None or gpus is None:
            pods_text = f"{describe_amount(wanted, 'pod')} evicted{how}"
            self._check(pods_text, holds(wanted, len(entries)), self._pods, seen, entries)
        if gpus is not None:
            amount = f"{describe_amount(gpus, 'GPU')} evicted{how}"
            self._check(amount, holds(gpus, freed / 1000), self._pods, f"{seen} with {freed / 1000:g} GPUs", entries)
        return self

    def _gpus_of(self, entry: PodEvicted) -> int:
        """The milli-GPU that an evicted pod held. Raises InputError if the scheduler does not report it."""
        if entry.amounts is None:
            raise InputError(
                f"{self._subject.lab.scheduler} does not report the GPUs of evicted pods; expect pods= instead"
            )
        return entry.amounts.gpu

    def not_evicted(self, since: float | None = None) -> Expectation:
        """Expect none of its pods to have been evicted."""
        return self.evicted(pods=0, since=since)

    def no_pending(self) -> Expectation:
        """Expect none of its pods to be pending."""
        rows = self._in_phase("Pending")
        return self._check("nothing pending", not rows, rows)

    def no_pods(self) -> Expectation:
        """Expect it to have no pods that are pending, running or terminating."""
        alive = [row for row in self._pods if row.phase not in ENDED_PHASES]
        return self._check("no pods", not alive, alive)

    # --- gangs ---------------------------------------------------------------------------------------------------

    def runs_whole(self, pods: Amount | None = None) -> Expectation:
        """Expect all of its pods to run."""
        others = [row for row in self._pods if row.phase in ("Pending", "Terminating")]
        running = self._in_phase("Running")
        right = bool(running) and not others and (pods is None or holds(pods, len(running)))
        amount = f" ({describe_amount(pods, 'pod')})" if pods is not None else ""
        return self._check(f"to run whole{amount}", right, others)

    def waits_whole(self, pods: Amount | None = None, reason: str | None = None) -> Expectation:
        """Expect all of its pods to be pending: none runs or holds a place."""
        check_reason(self._picture, reason, self._pods)
        waiting = [row for row in self._in_phase("Pending") if not row.node]
        alive = [row for row in self._pods if row.phase not in ENDED_PHASES]
        partly = [row for row in alive if row not in waiting]
        pods = no_more(pods) if self._podless else pods
        right = bool(waiting or self._podless) and not partly and (pods is None or holds(pods, len(waiting)))
        amount = f" ({describe_amount(pods, 'pod')})" if pods is not None else ""
        self._check(f"to wait whole{amount}", right, partly or waiting)
        return self.pending(reason=reason) if reason else self

    # --- places --------------------------------------------------------------------------------------------------

    def on_nodes(self, nodes: Iterable[str] | Mapping[str, int]) -> Expectation:
        """Expect its running pods on exactly these nodes; a mapping gives the number on each."""
        placed = self._per_node()
        if isinstance(nodes, Mapping):
            wanted = dict(sorted(nodes.items()))
            text = ", ".join(f"{number} on {node}" for node, number in wanted.items())
            return self._check(f"pods: {text}", placed == wanted, (), self._places())
        names = sorted(nodes)
        return self._check(f"pods on {', '.join(names)}", sorted(placed) == names, (), self._places())

    def on_one(self, level: str) -> Expectation:
        """Expect all its running pods in one domain of a level: "node", "rack", or a node label."""
        return self.spread_over(1, level)

    def spread_over(self, number: Amount, level: str = "node") -> Expectation:
        """Expect its running pods in this many domains of a level."""
        label = self._label_of(level)
        domains: dict[str, int] = {}
        for node, pods in self._per_node().items():
            domain = labels_of(self._picture.nodes[node]).get(label, f"no {level}")
            domains[domain] = domains.get(domain, 0) + pods
        seen = ", ".join(f"{pods} on {domain}" for domain, pods in sorted(domains.items())) or "nothing running"
        return self._check(
            f"pods on {describe_amount(number, level)}", holds(number, len(domains)) and bool(domains), (), seen
        )

    def sharing(self, devices: Amount) -> Expectation:
        """Expect its running pods, each with a part of a GPU, on this many physical GPUs."""
        groups: set[str] = set()
        for row in self._in_phase("Running"):
            namespace, _, name = row.name.partition("/")
            own = labels_of(self._picture.cluster.get("Pod", name, namespace))
            groups.update(
                value
                for key, value in own.items()
                if key == labels.GPU_GROUP or key.startswith(labels.GPU_MULTI_GROUP_PREFIX)
            )
        seen = f"on {count(len(groups), 'shared GPU')}"
        return self._check(f"on {describe_amount(devices, 'shared GPU')}", holds(devices, len(groups)), (), seen)

    # --- shares of queues ----------------------------------------------------------------------------------------

    def borrows(self, gpus: Amount | None = None, from_queue: str | None = None) -> Expectation:
        """Expect the queue to hold this much beyond its quota (without a number: anything), or this much of one lender's quota.

        KAI keeps no record of lenders. ``from_queue`` can be checked only if no other queue could be the lender; otherwise this raises
        InputError."""
        queue = self._queue()
        self._known_queue(from_queue)
        self._only_lender(queue, from_queue)
        lenders = dict(self._picture.shares.lenders(queue.name))
        amount = queue.borrowed if from_queue is None else lenders.get(from_queue, 0)
        whom = f" from {from_queue}" if from_queue else ""
        return self._share("borrows", amount, gpus, whom, lenders, "from")

    def _only_lender(self, borrower: QueueAmounts, lender: str | None) -> None:
        """Raises InputError if other queues could lend as well as this one, so that nobody can say which does."""
        unused = dict(self._picture.shares.unused_beside(borrower.name))
        if lender in unused and len(unused) > 1 and sum(unused.values()) > borrower.borrowed:
            raise InputError(
                f"{' and '.join(unused)} have unused quota, and KAI keeps no record of which of them queue {borrower.name} borrows from; expect "
                "borrows(gpus=...) without from_queue"
            )

    def lends(self, gpus: Amount | None = None, to: str | None = None) -> Expectation:
        """Expect this much of the queue's quota to be in use by its siblings, or by one of them."""
        queue = self._queue()
        self._known_queue(to)
        borrowers = dict(self._picture.shares.borrowers(queue.name))
        amount = sum(borrowers.values()) if to is None else borrowers.get(to, 0)
        return self._share("lends", amount, gpus, f" to {to}" if to else "", borrowers, "to")

    def within_quota(self) -> Expectation:
        """Expect the queue to borrow nothing."""
        return self.borrows(gpus=0)

    def fair_share(self, gpus: Amount) -> Expectation:
        """Expect this present fair share, as the scheduler computes it for the queue."""
        share = self._queue().fair_share
        if share is None:
            raise InputError(
                f"{self._subject.lab.scheduler} computes no fair share, so this expectation can't be checked"
            )
        right = holds(gpus, share / 1000)
        return self._check(f"a fair share of {describe_amount(gpus, 'GPU')}", right, (), f"{share / 1000:g} GPUs")

    def holding(self, gpus: Amount) -> Expectation:
        """Expect this many GPUs in use: allocated to the queue, or on the node."""
        if self._subject.kind == "queue":
            held = self._queue().allocated
        else:
            held = sum(self._picture.added(row for row in self._pods if row.holds))
        return self._check(
            f"{describe_amount(gpus, 'GPU')} held", holds(gpus, held / 1000), (), f"{held / 1000:g} GPUs"
        )

    # --- words ---------------------------------------------------------------------------------------------------

    def says(self, *parts: str) -> Expectation:
        """Expect its explanation to contain these texts."""
        text = " ".join(str(explanation) for explanation in self._explanations(self._pods)[0])
        missing = [part for part in parts if part.lower() not in text.lower()]
        return self._check(f"an explanation with {', '.join(map(repr, parts))}", not missing, (), repr(text))

    # --- inside --------------------------------------------------------------------------------------------------

    @property
    def _podless(self) -> bool:
        return self._picture.scheduler.waits_without_pods

    def _in_phase(self, phase: str) -> list[PodRow]:
        return [row for row in self._pods if row.phase == phase]

    def _numbers(
        self, state: str, rows: list[PodRow], pods: Amount | None, gpus: Amount | None, culprits: list[PodRow]
    ) -> Expectation:
        if pods is not None:
            self._check(f"{describe_amount(pods, 'pod')} {state}", holds(pods, len(rows)), culprits)
        if gpus is not None:
            held = sum(row.milli_gpus for row in rows) / 1000
            self._check(f"{describe_amount(gpus, 'GPU')} {state}", holds(gpus, held), culprits)
        return self

    def _share(
        self,
        verb: str,
        amount: int,
        wanted: Amount | None,
        whom: str,
        ledger: Mapping[str, int],
        preposition: str,
    ) -> Expectation:
        held = holds(wanted, amount / 1000) if wanted is not None else amount > 0
        wanted_text = describe_amount(wanted, "GPU") if wanted is not None else "something"
        each = ", ".join(f"{gpus(part)} {preposition} {other or 'no queue'}" for other, part in ledger.items())
        seen = f"{verb} {gpus(sum(ledger.values()))}" + (f" ({each})" if each else "")
        return self._check(f"it {verb} {wanted_text}{whom}", held, (), seen)

    def _queue(self) -> QueueAmounts:
        if self._subject.kind != "queue":
            raise InputError(f"only a queue has a share; {self._subject.title} is no queue")
        if self._subject.name not in self._picture.shares:
            return QueueAmounts(self._subject.name, fair_share=0.0)  # deleted: it owns and holds nothing
        return self._picture.shares[self._subject.name]

    def _known_queue(self, name: str | None) -> None:
        """Raises NothingThere for a queue that does not exist and never did."""
        if name:
            subjects.queue(self._subject.lab, name).look_up(self._picture)

    def _per_node(self) -> dict[str, int]:
        return dict(sorted(Counter(row.node for row in self._in_phase("Running")).items()))

    def _places(self) -> str:
        return ", ".join(f"{pods} on {node}" for node, pods in self._per_node().items()) or "nothing running"

    def _label_of(self, level: str) -> str:
        if level == "node":
            return labels.HOSTNAME
        labels_named = {
            key
            for node in self._picture.nodes.values()
            for key in labels_of(node)
            if key == level or key.endswith(f"/{level}")
        }
        if len(labels_named) != 1:
            which = (
                f"several node labels end in it: {some(sorted(labels_named))}"
                if labels_named
                else "no node has such a label"
            )
            raise InputError(f"level {level!r}: {which}")
        return labels_named.pop()

    def _check(
        self,
        expected: str,
        held: bool,
        culprits: Iterable[PodRow] = (),
        seen: str = "",
        evicted: Sequence[PodEvicted] = (),
    ) -> Expectation:
        """Record the expectation, and raise ExpectationFailed if it does not hold. ``culprits``: pods that the message explains;
        ``evicted``: evictions that it explains instead."""
        lab = self._subject.lab
        seen = seen or self._seen()
        lab.noted_expectation(self._subject.title, f"{self._subject.title}: {expected}", seen, held)
        if held:
            return self
        text = [
            f"expected {self._subject.title}: {expected}",
            f"seen     {self._subject.title}: {seen}",
            f"when     {lab.now - lab.spec.opened:g} s after the lab opened, fleet {lab.spec.fleet}, scheduler {lab.scheduler}",
        ]
        why: Sequence[Explanation | Answer] = [*map(_explain_eviction, evicted[:EXPLAINED])]
        omitted = 0
        if not why:
            why, omitted = self._explanations(list(culprits))
        if why:
            text.append("why")
            text += (explanation.indented() for explanation in why)
        if omitted:
            text.append(f"  and {omitted} more")
        if self._subject.kind == "queue" and (lost := self._lost_pods()):
            text += lost if why else ["why", *lost]
        raise ExpectationFailed("\n".join(text))

    def _lost_pods(self) -> list[str]:
        """A line for each queue that pods of the lab name and that does not exist: they may have been meant for the subject."""
        picture = self._picture
        lost = multimap(
            (row.queue, row)
            for row in picture.rows
            if row.queue and row.queue not in picture.shares and row.phase not in ENDED_PHASES
        )
        lines = []
        for name, rows in sorted(lost.items())[:EXPLAINED]:
            near = closest_names(name, picture.shares.queues)
            who = some(sorted({row.owner or f"Pod/{row.name.partition('/')[2]}" for row in rows}), EXPLAINED)
            hint = f"; did you mean {near[0]}?" if near else ""
            named = count(len(rows), "pod")
            lines.append(f"  The lab has {named} of {who} for a queue that does not exist: {name}{hint}")
        if len(lost) > EXPLAINED:
            lines.append(f"  and pods of {count(len(lost) - EXPLAINED, 'more queue')} that do not exist")
        return lines

    def _seen(self) -> str:
        counts: dict[str, list[int]] = {}
        for row in self._pods:
            tally = counts.setdefault(row.phase, [0, 0])
            tally[0] += 1
            tally[1] += row.milli_gpus
        if not counts:
            return "no pods"
        return ", ".join(f"{pods} {phase} ({gpus(milli)})" for phase, (pods, milli) in sorted(counts.items()))

    def _explanations(self, culprits: list[PodRow]) -> tuple[Sequence[Explanation | Answer], int]:
        """Up to ``EXPLAINED`` explanations, and how many more there would be: of the subject if it is a queue, one for all pods that wait
        in one queue for one reason, one for each other pod. Without pods, of the subject's evictions."""
        picture = self._picture
        explanations: list[Explanation | Answer] = []
        if self._subject.kind == "queue" and self._subject.name in picture.shares:
            explanations.append(self._subject.lab.explain("Queue", self._subject.name, tried=False, picture=picture))
            # The explanation of the queue covers its waiting work.
            culprits = [row for row in culprits if row.node or row.phase != "Pending"]
        alike: dict[tuple[str, ...], list[PodRow]] = {}
        for row in culprits:
            waits = row.phase == "Pending" and not row.node
            key = ("waits", row.queue, picture.code_of(row)) if waits else (row.name,)
            alike.setdefault(key, []).append(row)
        room = EXPLAINED - len(explanations)
        for place, rows in enumerate(list(alike.values())[:room]):
            answer = self._explain(rows[0], tried=place == 0 and not in_temporal_form())
            more = len(rows) - len(picture.by_group.get(group_of(rows[0]), rows[:1]))
            if more > 0:
                answer = replace(answer, notes=(*answer.notes, f"({count(more, 'more pod')} like it)"))
            explanations.append(answer)
        if not culprits and not explanations:
            explanations += map(_explain_eviction, self._subject.evictions(picture)[: EXPLAINED - len(explanations)])
        return explanations, max(0, len(alike) - room)

    def _explain(self, row: PodRow, *, tried: bool) -> Answer:
        """Explain a pod, or its PodGroup if it waits. Steps are tried only in a small lab, so that a failing test does not take minutes."""
        lab, picture = self._subject.lab, self._picture
        namespace, _, name = row.name.partition("/")
        kind = "Pod"
        if row.phase == "Pending" and not row.node and (namespace, row.podgroup) in picture.podgroups:
            kind, name = "PodGroup", row.podgroup
        return lab.explain(kind, name, namespace, tried=tried and len(picture.pods) <= SMALL, picture=picture)


def _explain_eviction(entry: PodEvicted) -> Explanation:
    """When, by which action, for whom and why a pod was evicted."""
    # ``kailab.explain`` is a layer above this package. It is imported when an expectation has failed.
    from kailab.explain.evictions import eviction_lines

    return Explanation("pod", entry.pod, tuple(eviction_lines(entry)))
