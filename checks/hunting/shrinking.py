"""Finds the smallest sample in which both still differ in the same way, by leaving out large pieces first.

Each attempt is a run on a real cluster, so their number is bounded.
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


def shrink(sample: HuntSample, compared: Sequence[TrialDifference], differs: Differs, tries: int) -> HuntSample:
    """Cut the sample down. ``found``: its differences. ``differs``: decides a smaller sample."""
    sample = cut_to_difference(sample, compared)
    wanted = {(difference.kind, difference.what) for difference in compared}
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller_samples(sample):
            if not tries:
                return sample
            tries -= 1
            new_differences = differs(candidate)
            if wanted & {(difference.kind, difference.what) for difference in new_differences}:
                sample, smaller = cut_to_difference(candidate, new_differences), True
                break
    return sample


def _smaller_samples(sample: HuntSample) -> Iterator[HuntSample]:
    steps = sample.steps
    for size in dict.fromkeys((len(steps) // 2, 1)):
        # The last step is the differing one.
        for start in range(0, len(steps) - 1, size) if size else ():
            left = [*steps[:start], *steps[min(start + size, len(steps) - 1) :]]
            if _is_consistent(left):
                yield sample.with_steps(left)
    for number, step in enumerate(steps):
        objects = step.get("apply") or []
        for place in range(len(objects)) if len(objects) > 1 else ():
            rest = {**step, "apply": objects[:place] + objects[place + 1 :]}
            if _is_consistent(left := [*steps[:number], rest, *steps[number + 1 :]]):
                yield sample.with_steps(left)
    pools = sample.fleet["pools"]
    for place, pool in enumerate(pools):
        others = [*pools[:place], *pools[place + 1 :]]
        if others:
            yield replace(sample, fleet={**sample.fleet, "pools": others})
        if pool["count"] > 1:
            fewer = [*pools[:place], {**pool, "count": pool["count"] - 1}, *pools[place + 1 :]]
            yield replace(sample, fleet={**sample.fleet, "pools": fewer})
    yield from _simpler_samples(sample)


def _is_consistent(steps: Sequence[Step]) -> bool:
    """True if only existing objects are deleted, scaled or patched, and every named queue exists; other samples would raise
    other questions.
    """
    present: set[tuple[str, str]] = set()
    for step in steps:
        present |= {(manifest["kind"], manifest["metadata"]["name"]) for manifest in step.get("apply") or ()}
        for changed in (step[action] for action in ("delete", "scale", "patch") if action in step):
            # The nodes are the fleet's.
            if changed["kind"] != "Node" and (changed["kind"], changed["name"]) not in present:
                return False
    named = {queue for step in steps for manifest in step.get("apply") or () if (queue := _queue_of(manifest))}
    return all(("Queue", queue) in present for queue in named)


def _queue_of(manifest: Object) -> str:
    """The parent of a queue, or the queue of a workload; empty if none."""
    if manifest["kind"] == "Queue":
        return str(manifest["spec"].get("parentQueue") or "")
    spec = manifest.get("spec") or {}
    return str((manifest["metadata"].get("labels") or {}).get(labels.QUEUE) or spec.get("queue") or "")


def _simpler_samples(sample: HuntSample) -> Iterator[HuntSample]:
    """Samples with one feature of one object removed, or with one pod fewer."""
    for number, step in enumerate(sample.steps):
        for place, manifest in enumerate(step.get("apply") or ()):
            for change in _QUEUE if manifest["kind"] == "Queue" else _WORK:
                plain = deepcopy(manifest)
                change(plain)
                if plain != manifest:
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
    if work["kind"] in ("PodGroup", "Node"):
        return
    spec = template_of(work)["spec"]
    for field in ("nodeSelector", "affinity"):
        spec.pop(field, None)
    for notes in (manifest["metadata"].get("annotations") or {} for manifest in (work, template_of(work))):
        for key in [key for key in notes if key.startswith("kai.scheduler/topology")]:
            del notes[key]


def _fewer(work: Object) -> None:
    for field in ("replicas", "parallelism", "completions"):
        if (work.get("spec") or {}).get(field, 1) > 1:
            work["spec"][field] -= 1


_QUEUE = (_without_runtimes, _without_bounds, _without_limit)
_WORK = (_without_placement, _fewer)
