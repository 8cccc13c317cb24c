"""Work for which there would be room, were it its turn."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.engine.decisions import Decisions
from kailab.engine.relaxing.queue_rules import Actions
from kailab.engine.relaxing.trials import Outcome
from kailab.lab.explain.cause import Cause, Code
from kailab.lab.explain.causes.case import Case
from kailab.lab.explain.causes.queue_words import podgroup_ref, queue_ref, workload_title, workload_titles
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
    if everyone.further:
        return  # its turn comes
    places = sorted(alone.nodes)
    room = f"there would be room for it on {some(places)}" if alone.binds else "others would be evicted for it"
    taking = _taking(everyone.decisions, alone)
    depth = case.moment.config.queue_depth
    ahead = _ahead(case)
    first = taking or ahead
    if taking:
        why = f"{workload_titles(case, taking)} {'comes' if len(taking) == 1 else 'come'} first and gets the place"
        promised = [uid for uid in taking if uid in case.moment.config.promised]
        if promised:
            why = f"the place is promised to {workload_titles(case, promised)}, for which others were evicted"
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


def _ahead(case: Case) -> list[str]:
    """PodGroups (UIDs) of its queue whose turn is earlier. It has none where fewer jobs of the queue are tried than come before it."""
    turns = case.picture.turns
    own = turns.get(case.group)
    return [
        turn.podgroup for turn in turns.values() if turn.queue == case.queue and (own is None or turn.place < own.place)
    ]


def _taking(decisions: Decisions, alone: Outcome) -> list[str]:
    """PodGroups (UIDs) that get, or are promised, places where it would have gone."""
    found = [one.podgroup for one in decisions.binds if one.node in alone.nodes]
    found += [one.podgroup for one in decisions.pipelines if one.node in alone.nodes]
    return [uid for uid in dict.fromkeys(found) if uid not in alone.subject]
