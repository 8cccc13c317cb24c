"""Work for which there would be room, were it its turn."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.decisions import Decisions, ServingPosition
from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Actions, PromisesForgotten
from kailab.engine.report.serving import serving_positions as in_turn
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import moment_text
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.case import Case
from kailab.explain.causes.queue_words import podgroup_ref, queue_ref, workload_title, workload_titles
from kailab.lab.wording import capitalized, count, some


def behind_others(case: Case) -> Iterable[Cause]:
    """It would be served if its turn came first, and is not in the order that there is."""
    if case.trials is None:
        return
    alone = case.trials()
    if not alone.further:
        return
    # Who takes what is free tells enough, and costs much less than looking for victims for everyone.
    everyone = case.trials(Actions(("allocate",)), everyone=True)
    turns: Iterable[ServingPosition] = case.picture.turns.values()
    if everyone.further:
        # It would go first in the next cycle, which comes once somebody has left: until then it waits for its ordinary turn.
        everyone, turns = (
            case.trials(PromisesForgotten(), Actions(("allocate",)), everyone=True),
            _ordinary(case.trials),
        )
    if everyone.further:
        return  # its turn comes
    places = sorted(alone.nodes)
    room = f"there would be room for it on {some(places)}" if alone.binds else "others would be evicted for it"
    taking = _taking(everyone.decisions, alone)
    depth = case.moment.config.queue_depth
    ahead = _ahead(case, turns)
    first = taking or ahead
    if taking:
        why = f"{workload_titles(case, taking)} {'comes' if len(taking) == 1 else 'come'} first and gets the place"
        promised = [uid for uid in taking if uid in case.moment.config.promised]
        if promised:
            why = f"the place is promised to {workload_titles(case, promised)}, for which others were evicted"
    elif case.entry is not None and case.entry.reason == Reason.RESERVED:
        numbers = case.entry.numbers
        first = [numbers["kept_for"]]
        since = f" from {moment_text(numbers['kept_from'])} on" if numbers["kept_from"] > case.moment.now else ""
        why = f"it is kept free{since} for {workload_titles(case, first)}, which comes first"
    elif ahead:
        why = f"{workload_titles(case, ahead)} of queue {case.queue} {'comes' if len(ahead) == 1 else 'come'} first"
        tried = depth.get("allocate", -1)
        if tried >= 0:
            why += f", and the scheduler tries {count(tried, 'job')} of each queue in a cycle"
    else:
        why = "others come first"
    yield Cause(
        Code.BEHIND_OTHERS,
        f"{capitalized(room)}, but {why}.",
        (*(podgroup_ref(case, uid) for uid in first), queue_ref(case.queue)),
        {"first": [workload_title(case, uid) for uid in first], "nodes": places},
    )


def _ordinary(trials: RelaxedCycles) -> tuple[ServingPosition, ...]:
    """The turns as if the last cycle had made room for nobody."""
    session = Session(trials.working, trials.config, trials.now)
    try:
        return in_turn(session, ())
    finally:
        session.close()


def _ahead(case: Case, turns: Iterable[ServingPosition]) -> list[str]:
    """PodGroups (UIDs) of its queue whose turn is earlier. It has none where fewer jobs of the queue are tried than come before it."""
    mine = [turn for turn in turns if turn.queue == case.queue]
    uid = "" if case.record is None else case.record.uid
    own = next((turn.place for turn in mine if turn.podgroup == uid), None)
    return [turn.podgroup for turn in mine if own is None or turn.place < own]


def _taking(decisions: Decisions, alone: RelaxedCycleOutcome) -> list[str]:
    """PodGroups (UIDs) that get, or are promised, places where it would have gone."""
    found = [one.podgroup for one in decisions.binds if one.node in alone.nodes]
    found += [one.podgroup for one in decisions.pipelines if one.node in alone.nodes]
    return [uid for uid in dict.fromkeys(found) if uid not in alone.subject]
