"""Why pods have no PodGroup: another scheduler is to place them, they can't be grouped, or the PodGroup that they name is not there.

Pods of which grouping is still to come have none of these causes."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.causes.case import Case
from kailab.lab.wording import count
from kailab.model import labels


def ungrouped(case: Case) -> Iterable[Cause]:
    """At most one, of pods that exist: a scheduler that is not named comes before all that this scheduler's grouping says."""
    if not case.pods or not case.picture.scheduler.knows_queues:
        return
    row = case.pods[0]
    ref = (Ref("Pod", *row.name.split("/", 1)),)
    # A pod keeps its PodGroup's annotation whatever its scheduler is: the scheduler decides first.
    if not case.is_ours:
        ours = case.picture.scheduler.scheduler_name
        theirs = case.scheduler_name
        nobody = f", and nobody here places pods of {theirs}" if case.is_nobodys else ""
        yield Cause(
            Code.OTHER_SCHEDULER,
            f"{_it(case)} spec.schedulerName {theirs}, so {ours} leaves it alone{nobody}.",
            ref,
            {"schedulerName": theirs, "expected": ours, "nobody": case.is_nobodys},
        )
    elif case.podgroup is not None:
        return
    elif row.podgroup and not case.has_owner:
        yield Cause(
            Code.POD_GROUP_MISSING,
            f"{_it(case)} the annotation {labels.POD_GROUP}: {row.podgroup}, and there is no PodGroup {case.group}: "
            f"{count(len(case.pods), 'pod')} {'waits' if len(case.pods) == 1 else 'wait'} until it is made.",
            (Ref("PodGroup", *case.group.split("/", 1)), *ref),
            {"podgroup": case.group},
        )
    elif case.grouping_error:
        yield Cause(
            Code.GROUPING_FAILED,
            f"It can't be grouped, so it has no PodGroup and is not considered: {case.grouping_error.rstrip('.')}.",
            ref,
            {"error": case.grouping_error},
        )
    elif case.grouping is None and case.is_grouping_known:
        yield Cause(
            Code.POD_GROUP_MISSING,
            f"It, or an owner of it, has the annotation {labels.SKIP_PODGROUPER}: true, so no PodGroup is made for it, and it names none "
            f"({labels.POD_GROUP}).",
            ref,
            {"podgroup": ""},
        )


def _it(case: Case) -> str:
    return "It has" if case.subject.kind == "Pod" else "A pod of it has"
