"""Pods that wait, grouped by why they do: replicas of one Deployment wait for one reason."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.explain.answer import LAST, Cause, Code, Group, Verdict
from kailab.explain.causes import causes_of
from kailab.explain.causes.question_context import Case, cases
from kailab.explain.subject import Standing
from kailab.explain.verdict import DAY, kept, verdict_of
from kailab.lab.fork import fork
from kailab.lab.lab import Lab
from kailab.lab.owners import owners_of, top_of
from kailab.lab.picture import group_of
from kailab.model.kinds import kind_key

MOST_CASES = 12
"""PodGroups that wait and are unlike each other, of which causes are looked for: those that are served first."""


def waiting_groups(standing: Standing) -> list[Group]:
    """Pods that wait, by their causes; where none waits, a group of none with the causes of that."""
    found: dict[tuple[str, ...], Group] = {}
    alike: dict[Hashable, tuple[Cause, ...]] = {}
    for case in cases(standing):
        # A look for causes takes many small cycles; replicas of one workload share one.
        key = likeness(case)
        if key not in alike:
            if len(alike) >= MOST_CASES:
                continue
            alike[key] = causes_of(case)
        causes = alike[key]
        # By what is told: groups that are unlike may still wait for the same.
        told = tuple(cause.sentence for cause in causes)
        before = found[told].pods if told in found else ()
        found[told] = Group((*before, *(row.name for row in case.pods)), causes)
    if found:
        return list(found.values())
    subject = standing.subject
    group = f"{subject.namespace}/{subject.name}" if subject.kind == "PodGroup" else ""
    return [Group((), causes_of(Case(standing, group, ())))]


def causes_now(standing: Standing) -> tuple[Cause, ...]:
    """What keeps a subject from running, the first cause first."""
    return () if standing.runs else first_causes(standing, waiting_groups(standing))


def first_causes(standing: Standing, groups: Sequence[Group]) -> tuple[Cause, ...]:
    """All causes once: first the one of most pods, unless it says least, or no more than that they are behind others of their workload."""
    order = sorted(
        (group for group in groups if group.causes),
        key=lambda group: (
            _behind_itself(standing, group.causes[0]),
            group.causes[0].code in LAST,
            -len(group.pods),
        ),
    )
    firsts = [group.causes[0] for group in order]
    rest = [cause for group in order for cause in group.causes[1:]]
    return tuple({cause.sentence: cause for cause in (*firsts, *rest)}.values())


def _behind_itself(standing: Standing, cause: Cause) -> bool:
    if cause.code != Code.BEHIND_OTHERS or standing.subject.kind == "Queue":
        return False
    ahead = {f"{one.namespace}/{one.name}" for one in cause.objects if one.kind == "PodGroup"}
    return bool(ahead) and ahead <= {group_of(row) for row in standing.pods}


def likeness(case: Case) -> Hashable:
    """Equal for PodGroups that wait for the same causes: replicas of one Deployment."""
    record = case.record
    if record is None:
        return (case.group, tuple(row.name for row in case.pods))
    return (
        record.namespace, record.queue, record.priority, record.preemptible, record.root, record.preemption_delay,
        tuple(task.status for task in case.tasks), tuple(task.shape for task in case.tasks),
        case.entry.reason if case.entry else "",
    )  # fmt: skip


PASSING = frozenset(
    {
        Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_RESOURCES, Code.NOT_ENOUGH_CPU, Code.NOT_ENOUGH_MEMORY, Code.NO_POD_SLOTS, Code.FRAGMENTED, Code.NO_DOMAIN_FREE,
        Code.FAIR_SHARE_REACHED, Code.NO_WEIGHT, Code.VICTIMS_PROTECTED, Code.VICTIMS_WITHIN_QUOTA, Code.VICTIMS_NON_PREEMPTIBLE,
        Code.PREEMPTION_DELAY, Code.BEHIND_OTHERS,
    }
)  # fmt: skip
"""Causes that pass once others have gone, or in time: of what never runs they are not the first."""
HELD = frozenset({Code.NON_PREEMPTIBLE_OVER_QUOTA, Code.OVER_LIMIT, Code.KEPT_APART})
"""Causes that pods of its own may be, until they end."""

MOMENTS = 1000
"""Moments of the day at which something changes that are looked at, in a small lab."""
LEAST = 60
"""The same in a large one."""
AFFORDABLE = 100_000
"""Pods that are looked at for it in all."""


def lasting(standing: Standing) -> tuple[bool, tuple[Cause, ...]]:
    """Whether a subject runs once all other work has gone, at once or within a day, and what keeps it from running at once."""
    subject = standing.subject
    with _emptied(standing) as trial:
        alone = subject.standing(trial)
        if alone.runs:
            return True, ()
        causes = causes_now(alone)
        # Its own pods may end and make room for the rest. Where none has a place time brings no more than the next try of a binding that
        # is refused, of which a day has thousands.
        if not any(pod["spec"].get("nodeName") for pod in trial.cluster.list("Pod")):
            return False, causes
        return any(subject.runs(trial) for _ in islice(trial.moments(DAY), _moments(trial))), causes


class Settled(NamedTuple):
    """A subject once controllers and scheduler have acted on what there is."""

    runs: bool
    verdict: Verdict | None
    causes: tuple[Cause, ...]


def once_settled(standing: Standing) -> Settled | None:
    """None where they had nothing to do for the subject, or do not come to an end."""
    subject = standing.subject
    with closing(fork(standing.lab)) as trial:
        try:
            trial.settle()
        except KailabError:
            return None
        then = subject.standing(trial)
        if _made(then) == _made(standing):
            return None
        causes = causes_now(then)
        return Settled(then.runs, verdict_of(then, causes[0] if causes else None), causes)


def _made(standing: Standing) -> tuple[bool, list[tuple[str, str]]]:
    """What controllers have made of it: its pods, each with its PodGroup."""
    return standing.ended, sorted((row.name, row.podgroup) for row in standing.pods)


def _moments(trial: Lab) -> int:
    """How many are looked at: where some of its pods have a place and others are refused one for ever, a day has no end of them."""
    return min(MOMENTS, max(LEAST, AFFORDABLE // max(1, len(trial.cluster.list("Pod")))))


@contextmanager
def _emptied(standing: Standing) -> Iterator[Lab]:
    """A fork without the others, settled. They are left out, not deleted: nobody has to see them go."""
    groups = kept(standing)
    pods = standing.picture.pods_by_name
    own, others = {row.name for row in standing.pods}, []
    for row in standing.picture.rows:
        group = standing.picture.podgroups.get((row.name.partition("/")[0], row.podgroup))
        if row.name not in own and (group is None or group["metadata"]["uid"] not in groups):
            others.append(pods[row.name])
    stay = _owners(standing, [pods[name] for name in sorted(own)])
    # What the subject comes from too, as one Job of a CronJob does, is not taken away with another.
    doomed = (top_of(standing.lab, pod, stay) for pod in others)
    with fork(standing.lab, without=dict.fromkeys(map(_reference, doomed))) as trial:
        for obj in stay.values():
            # What it would make next is other work, too.
            if obj["kind"] == "CronJob" and standing.subject.kind != "CronJob":
                trial.patch(
                    "CronJob", obj["metadata"]["name"], {"spec": {"suspend": True}}, obj["metadata"]["namespace"]
                )
        trial.settle()
        yield trial


def _reference(obj: Object) -> tuple[str, tuple[str, str]]:
    return kind_key(obj), (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def _owners(standing: Standing, pods: list[Object]) -> dict[str, Object]:
    """By UID: what a subject is, what owns it, and what owns its pods."""
    found = pods if standing.object is None else [standing.object, *pods]
    return {one["metadata"]["uid"]: one for obj in found for one in (obj, *owners_of(standing.lab, obj))}
