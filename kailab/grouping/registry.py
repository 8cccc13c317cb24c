"""Which family groups the pods of which kind of top owner: each kind says it (``Kind.grouping``), for all of its versions.

Which kinds have a family of their own is KAI's choice.
"""

from __future__ import annotations

from collections.abc import Iterator

from kailab.errors import InputError, Where
from kailab.grouping.families.simple import DEFAULT
from kailab.grouping.family import Family
from kailab.model.kinds import KINDS, key_of_group, part


def family_for(group: str, kind: str) -> Family:
    """The family of a kind of top owner; kinds that have none are grouped by the default rules. Raises InputError where what the kind
    names is no family."""
    key = key_of_group(group, kind)
    found = part(key, "grouping") if key is not None else None
    if found is None:
        return DEFAULT
    if not isinstance(found, Family):
        raise InputError(
            f"{found!r:.80} is not a kailab.grouping.family.Family", Where(object=f"kind {kind}", field="grouping")
        )
    return found


def families() -> Iterator[Family]:
    """Every family once, the default one first."""
    yield from dict.fromkeys((DEFAULT, *(family_for(kind.group, kind.kind) for kind in KINDS.values())))
