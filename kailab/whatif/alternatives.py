"""Try changes on forks of a lab, and compare each with the lab left alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kailab.errors import NotFound
from kailab.evidence.wording import elapsed
from kailab.explain.evictions import StaleGang, stale_gangs
from kailab.explain.forecast import runs_within
from kailab.explain.subject import SubjectRef
from kailab.lab.change import Advance, Change
from kailab.lab.owners import work_title
from kailab.lab.redacted_changes import redacted_data
from kailab.model.times import format_time
from kailab.whatif.outcome import Comparison, Outcome

if TYPE_CHECKING:
    from kailab.lab.lab import Lab
    from kailab.model.manifests import Notice
    from kailab.scheduler.settings.config_file import SchedulerSettings


MOST_GRACE = 600.0
"""Seconds of lab time that a what-if runs on for gangs that a change leaves below their minimum."""
MOST_ROUNDS = 3
"""How often it runs on. A gang that is evicted may start in part again."""


@dataclass(frozen=True)
class Alternative:
    """Changes to try. ``title``: a name; ``changes``: carried out one after the other before the lab settles; ``settings``: of the
    scheduler, None for the present ones."""

    title: str
    changes: tuple[Change, ...] = ()
    settings: SchedulerSettings | None = None

    def data(self) -> dict[str, Any]:
        """For programs, redacted as evidence is; ``changes`` has everything."""
        return {"title": self.title, **redacted_data(change.data() for change in self.changes)}


@dataclass(frozen=True)
class UntilRuns:
    """When a subject runs. ``bound``: seconds that were looked ahead. ``unchanged`` and ``changed`` (one for each alternative): seconds until
    it runs, None: not within the bound, or it does not exist there."""

    subject: SubjectRef
    bound: float
    unchanged: float | None
    changed: tuple[float | None, ...]

    def data(self) -> dict[str, Any]:
        subject = self.subject
        return {
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "bound": self.bound,
            "unchanged": _rounded(self.unchanged),
            "changed": [_rounded(seconds) for seconds in self.changed],
        }


@dataclass(frozen=True)
class OpenGrace:
    """A gang that runs below its minimum at the end of a what-if. ``title``: its workload. ``seconds``: until the scheduler evicts it, unless
    it is whole again."""

    title: str
    running: int
    min_member: int
    seconds: float

    @property
    def sentence(self) -> str:
        return (
            f"{self.title} is below its minimum at this time ({self.running} of {self.min_member} pods run): unless it is whole again, "
            f"all of it is evicted {elapsed(self.seconds)} later."
        )

    def data(self) -> dict[str, Any]:
        return {
            "workload": self.title,
            "running": self.running,
            "minimum": self.min_member,
            "seconds": round(self.seconds, 3),
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


@dataclass(frozen=True)
class WhatIf:
    """``start``: when the changes were made; ``end``: the time of the outcomes, in seconds since the epoch. ``comparisons``: one for each
    alternative, all with the same ``before``. ``scheduler``: the one that decided."""

    start: float
    end: float
    scheduler: str
    before: Outcome
    alternatives: tuple[Alternative, ...]
    comparisons: tuple[Comparison, ...]
    notices: tuple[Notice, ...] = ()
    """Notices about the changes, each once."""
    open_graces: tuple[OpenGrace, ...] = ()
    """Gangs that fall below their minimum by a change, and that are evicted after the end."""
    until: UntilRuns | None = None
    """When the subject of ``what_if``'s ``until`` runs; None without a subject."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notices as text."""
        return tuple(map(str, self.notices))

    def _repr_html_(self) -> str:
        pairs = zip(self.alternatives, self.comparisons, strict=True)
        return "".join(comparison.html_table(alternative.title) for alternative, comparison in pairs)

    def data(self) -> dict[str, Any]:
        """For programs."""
        return {
            "start": format_time(self.start),
            "end": format_time(self.end),
            "seconds": round(self.end - self.start, 3),
            "scheduler": self.scheduler,
            "alternatives": [
                {**alternative.data(), **comparison.data()}
                for alternative, comparison in zip(self.alternatives, self.comparisons, strict=True)
            ],
            "notices": [notice.data() for notice in self.notices],
            "warnings": list(self.warnings),
            **({} if not self.open_graces else {"open_graces": [grace.data() for grace in self.open_graces]}),
            **({} if self.until is None else {"until_runs": self.until.data()}),
        }


def what_if(
    lab: Lab, alternatives: Sequence[Alternative], seconds: float = 0.0, until: tuple[str, str, str] | None = None
) -> WhatIf:
    """Try each alternative on a fork of the lab that settles after its changes. Then all forks, and one without
    a change, advance to the same time: ``seconds`` from now, or later if one of them settled later. Without ``seconds`` they also run on
    until gangs that fall below their minimum by a change are evicted or whole again, at most ``MOST_GRACE``.

    ``until``: kind, name and namespace of a subject. All forks then advance until it runs in each of them, at most ``seconds``. Raises
    InputError for a change that the lab refuses, NotFound if no fork has the subject, and NotSettled."""
    since = len(lab.log.evictions)
    with ExitStack() as forks:
        # Fork the others from one untouched fork, so that a saved lab is unpacked once and a real server is read once.
        untouched = forks.enter_context(lab.fork())
        changed = [forks.enter_context(untouched.fork(alternative.settings)) for alternative in alternatives]
        untouched.settle()
        notices: list[Notice] = []
        for fork, alternative in zip(changed, alternatives, strict=True):
            for change in alternative.changes:
                notices += change.do(fork)
            fork.settle()
        ran = None if until is None else _run_until((untouched, *changed), until, lab.now, seconds)
        # With a subject to wait for, nothing later than its start is of interest.
        least = lab.now + (seconds if ran is None else 0.0)
        end = max(least, *(fork.now for fork in (untouched, *changed)))
        _advance((untouched, *changed), end)
        limit = end + MOST_GRACE
        for rounds_left in reversed(range(MOST_ROUNDS + 1)):
            stale = _new_stale_gangs(untouched, changed)
            ends = [gang.ends for gang in stale.values() if gang.ends <= limit]
            if seconds or until is not None or not ends or not rounds_left:
                break
            # The scheduler evicts at the end of the grace. What comes then, as new pods of the gang, belongs to the outcome.
            _advance((untouched, *changed), max(ends))
            for fork in (untouched, *changed):
                fork.settle()
            end = max(fork.now for fork in (untouched, *changed))
            _advance((untouched, *changed), end)
        before = Outcome.of(untouched, since)
        comparisons = tuple(Comparison(before, Outcome.of(fork, since)) for fork in changed)
        unique = tuple(dict.fromkeys(notices))
        graces = tuple(
            OpenGrace(title, gang.running, gang.min_member, gang.ends - end) for title, gang in sorted(stale.items())
        )
        return WhatIf(lab.now, end, untouched.scheduler, before, tuple(alternatives), comparisons, unique, graces, ran)


def _advance(forks: Sequence[Lab], end: float) -> None:
    for fork in forks:
        fork.advance(max(0.0, end - fork.now))


def _new_stale_gangs(untouched: Lab, changed: Sequence[Lab]) -> dict[str, StaleGang]:
    """Workload -> its gang that runs below its minimum in a changed fork and is evicted later, but is not so in the untouched one."""
    found: dict[str, StaleGang] = {}
    before = {(gang.podgroup, gang.ends) for _, gang in _stale_gangs(untouched)}
    for fork in changed:
        for title, gang in _stale_gangs(fork):
            if (gang.podgroup, gang.ends) not in before:
                found.setdefault(title, gang)
    return found


def _stale_gangs(lab: Lab) -> list[tuple[str, StaleGang]]:
    picture = lab.picture()
    groups = (("/".join(name), group) for name, group in picture.podgroups.items())
    return [
        (work_title(picture, gang.podgroup, namespaced=True), gang)
        for gang in stale_gangs(lab, picture, groups)
        if gang.running and gang.grace >= 0 and gang.ends > lab.now
    ]


def _run_until(forks: Sequence[Lab], until: tuple[str, str, str], start: float, bound: float) -> UntilRuns:
    subject: SubjectRef | None = None
    seconds: list[float | None] = []
    missing: NotFound | None = None
    for fork in forks:
        try:
            subject = SubjectRef.of(fork, *until)
            ran = runs_within(fork, subject, max(0.0, start + bound - fork.now))
        except NotFound as error:
            missing, ran = error, None
        seconds.append(None if ran is None else fork.now - start)
    if subject is None:
        assert missing is not None
        raise missing
    return UntilRuns(subject, bound, seconds[0], tuple(seconds[1:]))


def compare_with_waiting(lab: Lab, seconds: float, until: tuple[str, str, str] | None = None) -> WhatIf:
    """The effect of time: the lab as it is, compared with a fork that is left alone for ``seconds``, or with ``until`` (see ``what_if``) until
    that runs. Raises NotFound and NotSettled."""
    since = len(lab.log.evictions)
    before = Outcome.of(lab, since)
    with lab.fork() as alone:
        alone.settle()
        ran = None if until is None else _run_until((alone,), until, lab.now, seconds)
        end = max(lab.now + (seconds if ran is None else 0.0), alone.now)
        alone.advance(end - alone.now)
        waiting = Alternative("time passes", (Advance(end - lab.now),))
        comparison = Comparison(before, Outcome.of(alone, since))
        return WhatIf(lab.now, end, alone.scheduler, before, (waiting,), (comparison,), until=ran)
