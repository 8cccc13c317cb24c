"""What keeps work from running where nothing else is: asked of a fork from which all other work was taken.

The engine alone tells a verdict in a moment, of the pods that there are. Where more pods come once these run (a StatefulSet), or where what
was found first would pass with the others although nothing ever lets it run, the fork is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kailab.errors import InputError
from kailab.lab.explain.cause import Cause, Code
from kailab.lab.explain.grouping import causes_now
from kailab.lab.explain.subject import Standing
from kailab.lab.explain.verdict import DAY, kept
from kailab.lab.fork import fork
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of

PASSING = frozenset(
    {
        Code.NOT_ENOUGH_GPUS, Code.NOT_ENOUGH_CPU, Code.NOT_ENOUGH_MEMORY, Code.NO_POD_SLOTS, Code.FRAGMENTED, Code.NO_DOMAIN_FREE,
        Code.FAIR_SHARE_REACHED, Code.NO_WEIGHT, Code.VICTIMS_PROTECTED, Code.VICTIMS_WITHIN_QUOTA, Code.VICTIMS_NON_PREEMPTIBLE,
        Code.PREEMPTION_DELAY, Code.BEHIND_OTHERS,
    }
)  # fmt: skip
"""Causes that pass once others have gone, or in time: of what never runs they are not the first."""
HELD = frozenset({Code.NON_PREEMPTIBLE_OVER_QUOTA, Code.OVER_LIMIT, Code.KEPT_APART})
"""Causes that pods of its own may be, until they end."""


def lasting(standing: Standing) -> tuple[bool, tuple[Cause, ...]]:
    """Whether a subject runs once all other work has gone, at once or within a day, and what keeps it from running at once."""
    subject = standing.subject
    with _emptied(standing) as trial:
        alone = subject.standing(trial)
        if alone.runs:
            return True, ()
        causes = causes_now(alone)
        # Its own pods may end and make room for the rest.
        return any(subject.runs(trial) for _ in trial.moments(DAY)), causes


@contextmanager
def _emptied(standing: Standing) -> Iterator[Lab]:
    """A fork without the others, settled."""
    groups = kept(standing)
    own = {row.name for row in standing.pods}
    with fork(standing.lab) as trial:
        doomed: dict[tuple[str, str, str], None] = {}
        for row in standing.picture.rows:
            group = standing.picture.podgroups.get((row.name.partition("/")[0], row.podgroup))
            if row.name in own or (group is not None and group["metadata"]["uid"] in groups):
                continue
            top = top_of(standing.lab, standing.picture.pods_by_name[row.name])
            doomed[top["kind"], top["metadata"].get("namespace", ""), top["metadata"]["name"]] = None
        for kind, namespace, name in doomed:
            try:
                trial.delete(kind, name, namespace)
            except InputError:  # it went with another
                continue
        trial.settle()
        yield trial
