"""The steps of an answer: what the catalogue has for its causes, tried; where one change is not enough, two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

from kailab.errors import KailabError
from kailab.explain.answer import Step
from kailab.explain.cause import Cause
from kailab.explain.grouping import causes_now
from kailab.explain.steps.catalogue import CATALOGUE
from kailab.explain.steps.proposal import Disturbance, Proposal, Way, together
from kailab.explain.steps.setting import Setting
from kailab.explain.steps.trial import Trials, Tried
from kailab.explain.subject import Standing
from kailab.lab.fork import fork

ENOUGH = 5
"""Steps in an answer."""
OF_A_SORT = 2
"""Steps of one sort among them."""
PAIRED = 4
"""First halves of a pair that are looked at."""


def steps_for(
    standing: Standing, causes: Sequence[Cause], never: bool = False, everything: bool = False
) -> tuple[Step, ...]:
    """Changes that let the subject run, each tried: those that evict nobody first, then by how much they disturb. ``causes``: what
    keeps it from running, the first first. ``never``: it does not run where nothing else is, so that some changes need no trial.
    ``everything``: where trials take their time, too, more than the first change that does, and pairs of changes. Empty where nothing
    is known that would."""
    setting = Setting(standing, causes, never)
    trials = Trials(setting)
    found = list(islice(_working(setting, trials), _enough(trials, everything)))
    if not found and causes and (everything or not trials.slow):
        found = list(islice(_pairs(setting, trials), 1))
    return tuple(one.step for one in sorted(found, key=_order))


def _enough(trials: Trials, everything: bool) -> int:
    if not trials.sifted:
        return ENOUGH
    return 1 if trials.slow and not everything else 2


def _order(tried: Tried) -> tuple[bool, bool, bool, Disturbance]:
    """Who is evicted once time has passed is evicted whatever anybody does."""
    disturbance = tried.proposal.disturbance
    evicts = bool(tried.outcome.evicted or tried.outcome.moved) and disturbance is not Disturbance.WAITING
    return disturbance is Disturbance.OTHERS, bool(tried.outcome.failed), evicts, disturbance


def _working(setting: Setting, trials: Trials) -> Iterator[Tried]:
    """By the first cause; where that gives none, by the others."""
    some = False
    for cause in setting.causes:
        for source in () if some else CATALOGUE[cause.code]:
            number = 0
            for way in source(setting):
                if not way.proposals or (way.last and number) or trials.left <= 0:
                    continue
                if (tried := trials.first(setting, way)) is not None:
                    some, number = True, number + 1
                    yield tried
                    if number >= OF_A_SORT:
                        break


def _ways(setting: Setting, cause: Cause) -> Iterable[Way]:
    return (way for source in CATALOGUE[cause.code] for way in source(setting) if way.proposals)


def _pairs(setting: Setting, trials: Trials) -> Iterator[Tried]:
    """Two changes, where the first brings up another cause."""
    first_cause = setting.causes[0]
    for way in islice(_ways(setting, first_cause), PAIRED):
        one = way.proposals[-1 if way.grows else 0]
        if not trials.spend():
            return
        with closing(fork(setting.lab)) as copy:
            try:
                trials.carry_out(copy, one)
                there = setting.subject.standing(copy)
                causes = causes_now(there)
            except KailabError:
                continue
            if not causes or _alike(causes[0], first_cause):
                continue
            for second in _working(Setting(there, causes), trials):
                yield _smallest_pair(setting, trials, way, one, second)


def _smallest_pair(setting: Setting, trials: Trials, way: Way, one: Proposal, second: Tried) -> Tried:
    """The pair with the smallest first half that is enough."""
    firsts = way.proposals if way.grows else (one,)
    pairs = Way.of((together(first, second.proposal, one) for first in firsts), grows=True)
    return trials.first(setting, pairs) or Tried(together(one, second.proposal, one), second.outcome)


def _alike(one: Cause, other: Cause) -> bool:
    return one.code == other.code and one.objects == other.objects and one.facts == other.facts
