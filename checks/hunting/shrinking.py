"""The smallest sample found in which the two still differ in the same way: what can go is left out, large pieces first.

Each attempt costs a run on a real cluster, so their number is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace

from checks.explaining.misconfigurations import template_of
from checks.hunting.judging import cut_to_difference
from checks.hunting.sample import HuntSample, Step
from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.trials.differences import TrialDifference

Differs = Callable[[HuntSample], list[TrialDifference]]


def shrink(sample: HuntSample, found: Sequence[TrialDifference], differs: Differs, tries: int) -> HuntSample:
    """``found``: what differs in ``sample``; ``differs``: asks about a smaller one."""
    sample = cut_to_difference(sample, found)
    wanted = {(one.kind, one.what) for one in found}
    smaller = True
    while smaller:
        smaller = False
        for candidate in _cut_down(sample):
            if not tries:
                return sample
            tries -= 1
            here = differs(candidate)
            if wanted & {(one.kind, one.what) for one in here}:
                sample, smaller = cut_to_difference(candidate, here), True
                break
    return sample


def _cut_down(sample: HuntSample) -> Iterator[HuntSample]:
    steps = sample.steps
    for size in dict.fromkeys((len(steps) // 2, 1)):
        # The last step is where they differ.
        for start in range(0, len(steps) - 1, size) if size else ():
            left = [*steps[:start], *steps[min(start + size, len(steps) - 1) :]]
            if _whole(left):
                yield sample.with_steps(left)
    for number, step in enumerate(steps):
        objects = step.get("apply") or []
        for place in range(len(objects)) if len(objects) > 1 else ():
            rest = {**step, "apply": objects[:place] + objects[place + 1 :]}
            if _whole(left := [*steps[:number], rest, *steps[number + 1 :]]):
                yield sample.with_steps(left)
    pools = sample.fleet["pools"]
    for place, pool in enumerate(pools):
        others = [*pools[:place], *pools[place + 1 :]]
        if others:
            yield replace(sample, fleet={**sample.fleet, "pools": others})
        if pool["count"] > 1:
            fewer = [*pools[:place], {**pool, "count": pool["count"] - 1}, *pools[place + 1 :]]
            yield replace(sample, fleet={**sample.fleet, "pools": fewer})
    yield from _plainer(sample)


def _whole(steps: Sequence[Step]) -> bool:
    """Nothing is deleted or scaled that is not there, and no queue that something names is missing: these are other questions."""
    there: set[tuple[str, str]] = set()
    for step in steps:
        there |= {(one["kind"], one["metadata"]["name"]) for one in step.get("apply") or ()}
        for changed in (step[what] for what in ("delete", "scale") if what in step):
            if (changed["kind"], changed["name"]) not in there:
                return False
    named = {queue for step in steps for one in step.get("apply") or () if (queue := _queue_of(one))}
    return all(("Queue", queue) in there for queue in named)


def _queue_of(one: Object) -> str:
    """The queue above a queue, or that work goes to; empty: none."""
    if one["kind"] == "Queue":
        return str(one["spec"].get("parentQueue") or "")
    return str((one["metadata"].get("labels") or {}).get(labels.QUEUE) or one["spec"].get("queue") or "")


def _plainer(sample: HuntSample) -> Iterator[HuntSample]:
    """The same with one feature of one object gone, or with one pod fewer."""
    for number, step in enumerate(sample.steps):
        for place, one in enumerate(step.get("apply") or ()):
            for change in _QUEUE if one["kind"] == "Queue" else _WORK:
                plain = deepcopy(one)
                change(plain)
                if plain != one:
                    objects = [*step["apply"][:place], plain, *step["apply"][place + 1 :]]
                    changed = {**step, "apply": objects}
                    yield sample.with_steps([*sample.steps[:number], changed, *sample.steps[number + 1 :]])


def _without_runtimes(queue: Object) -> None:
    for field in ("reclaimMinRuntime", "preemptMinRuntime", "priority"):
        queue["spec"].pop(field, None)


def _without_bounds(queue: Object) -> None:
    for name in ("cpu", "memory"):
        queue["spec"]["resources"][name] = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def _without_limit(queue: Object) -> None:
    queue["spec"]["resources"]["gpu"] |= {"limit": -1, "overQuotaWeight": 1}


def _without_placement(work: Object) -> None:
    if work["kind"] == "PodGroup":
        return
    spec = template_of(work)["spec"]
    for field in ("nodeSelector", "affinity"):
        spec.pop(field, None)
    for notes in (one["metadata"].get("annotations") or {} for one in (work, template_of(work))):
        for key in [key for key in notes if key.startswith("kai.scheduler/topology")]:
            del notes[key]


def _fewer(work: Object) -> None:
    for field in ("replicas", "parallelism", "completions"):
        if work["spec"].get(field, 1) > 1:
            work["spec"][field] -= 1


_QUEUE = (_without_runtimes, _without_bounds, _without_limit)
_WORK = (_without_placement, _fewer)
