"""How many pods of a shape nodes have room for, by amounts alone: generous, so that too few is certain.

What shared and claimed devices leave free, and what pods think of each other, no sum of amounts shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.session import Session
from kailab.engine.working.state import ShapeInfo


def allowed_nodes(session: Session, info: ShapeInfo) -> np.ndarray:
    """Which nodes the shape may go to, however full they are. Not to be written to."""
    if not session.config.predicates:
        return session.table.all
    return fit.static_mask(session.table, info, session.working.table_version)


def pods_per_node(session: Session, info: ShapeInfo, pool: np.ndarray) -> np.ndarray:
    """Pods of the shape for each node, if nobody else came. ``pool``: as ``NodeTable.free`` gives it."""
    found = np.full(len(session.table), np.iinfo(np.int32).max, dtype=np.int64)
    for row, amount in info.needs:
        np.minimum(found, np.maximum(pool[row], 0) // amount, out=found)
    found[~allowed_nodes(session, info)] = 0
    return found


def capacity_taken(session: Session, info: ShapeInfo, others: Iterable[ShapeInfo]) -> int:
    """Of the room for pods of the shape, how much pods of the others take at the least, wherever they come to lie."""
    total = 0
    mine = allowed_nodes(session, info)
    for other, number in Counter(others).items():
        each = min((other.rows.get(row, 0) // amount for row, amount in info.needs), default=0)
        # Whoever may go to other nodes may take nothing here.
        if each and not (allowed_nodes(session, other) & ~mine).any():
            total += number * each
    return total
