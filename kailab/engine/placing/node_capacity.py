"""How many pods of a shape fit on nodes, by amounts alone: an upper bound, so that too few is certain.

Sums of amounts do not show what shared and claimed devices leave free, nor the rules between pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kailab.engine.placing import fit
from kailab.engine.session import Session
from kailab.engine.working.state import ShapeInfo


def allowed_nodes(session: Session, info: ShapeInfo) -> np.ndarray:
    """The nodes to which the shape may go, however full they are. Read-only."""
    if not session.config.predicates:
        return session.table.all
    return fit.static_mask(session.table, info, session.working.table_version)


def pods_per_node(session: Session, info: ShapeInfo, pool: np.ndarray) -> np.ndarray:
    """How many pods of the shape fit on each node, without other pods. ``pool``: in the form of ``NodeTable.free``."""
    counts = np.full(len(session.table), np.iinfo(np.int32).max, dtype=np.int64)
    for row, amount in info.needs:
        np.minimum(counts, np.maximum(pool[row], 0) // amount, out=counts)
    counts[~allowed_nodes(session, info)] = 0
    return counts


def capacity_taken(session: Session, info: ShapeInfo, others: Iterable[ShapeInfo]) -> int:
    """How many places for pods of the shape the pods of ``others`` take at least, wherever they are placed."""
    total = 0
    mine = allowed_nodes(session, info)
    for other, number in Counter(others).items():
        each = min((other.rows.get(row, 0) // amount for row, amount in info.needs), default=0)
        # Pods that may go to other nodes may take nothing here.
        if each and not (allowed_nodes(session, other) & ~mine).any():
            total += number * each
    return total
