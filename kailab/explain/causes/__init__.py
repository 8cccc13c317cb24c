"""Why work waits: finders, in the order of what has to go first. Each says what it finds of one case, or nothing.

A finder is a function ``(Case) -> Iterable[Cause]`` in a module of this package, with a line in ``FINDERS``. Modules are imported when
they are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TypeAlias

from kailab.explain.answer import LAST, Cause
from kailab.explain.causes.question_context import Case

Finder: TypeAlias = Callable[[Case], Iterable[Cause]]

FINDERS: tuple[str, ...] = (
    "objects:suspended",
    "objects:priority_class",
    "objects:gated",
    "objects:ungrouped",
    "objects:queue_there",
    "queue_limits:no_resources",
    "objects:incomplete",
    "objects:refused",
    "objects:not_created",
    "node_restrictions:pool",
    "node_restrictions:volume",
    "node_restrictions:claim",
    "node_restrictions:topology",
    "node_capacity:fleet",
    "queue_limits:over_quota",
    "queue_limits:over_limit",
    "queue_order:behind_others",
    "queue_order:in_line",
    "queue_order:delayed",
    "queue_order:victims",
    "node_capacity:room",
    "queue_shares:shares",
)
"""``module:function`` in this package, in order."""

LAST_FINDERS: tuple[str, ...] = ("node_capacity:closed_nodes", "node_capacity:too_little")
"""Asked where the others find nothing: what they find is true of most that waits, and says least."""


def causes_of(case: Case) -> tuple[Cause, ...]:
    """The first comes first: those that say least, only where no other explains why."""
    found = _found(case, FINDERS) or _found(case, LAST_FINDERS)
    return tuple(sorted(found, key=lambda cause: cause.code in LAST))


def _found(case: Case, finders: tuple[str, ...]) -> list[Cause]:
    found: list[Cause] = []
    for place in finders:
        module, _, function = place.partition(":")
        finder: Finder = getattr(import_module(f"{__name__}.{module}"), function)
        found += [cause for cause in finder(case) if cause.code not in {one.code for one in found}]
    return found
