"""How many GPUs are left for a job once its victims have taken places again, found without placing them.

Victims that leave no gaps all find places, so the job gets no more room than there was. Assume that only GPUs decide,
that each amount wanted divides the next larger one (1, 2, 4, 8), and that each pod goes to the fullest node with room.
Then no GPU is lost between nodes: as long as one more pod's GPUs are free in all, they are free on one node. The invariant, with nodes ordered by free GPUs: the free GPUs of a node are a multiple of the
smallest amount wanted that exceeds the free GPUs of the nodes before it. A pod goes to the first node with room, so the
nodes before it have less free than it wants, and what is left there is again such a multiple.

If gaps are possible, the order decides. Where the order is known, and only GPUs decide, two numbers for each node are
enough (``CountedNodes``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kailab.engine.placing import node_capacity
from kailab.engine.search.shortfall import freed_by_node
from kailab.engine.session import Session
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS
from kailab.engine.working.state import ShapeInfo, WTask


class Repacking:
    """The proof for one search, in which every set of victims begins in the present state of the nodes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        config, table = session.config, session.table
        self._on = (
            config.gpu_placement == "binpack"
            and session.switches.node_placement
            and session.switches.node_availability
            and config.node_score_policy is None
            and not session.working.has_pod_preferences
            and not table.shared
        )
        self._full: dict[frozenset[ShapeInfo], FullNodes | None] = {}

    def all_return(self, nodes: np.ndarray, victims: Sequence[WTask]) -> bool:
        """True if victims that are placed before all others, in any order, on ``nodes`` (including their own), all find
        places.
        """
        infos = {task.info for task in victims}
        wanted = sorted({info.rows[GPUS] for info in infos})
        if not wanted[0] or any(larger % smaller for smaller, larger in pairwise(wanted)):
            return False
        freed = self._freed(nodes, victims, infos)
        if freed is None:
            return False
        allowed, free = freed
        # A pod goes first to a node where it fits by idle resources, however full other nodes are.
        return not (self._session.table.idle[GPUS][allowed] >= wanted[0]).any() and _no_gaps(free[GPUS], wanted)

    def without(self, nodes: np.ndarray, victims: Sequence[WTask], more: set[ShapeInfo]) -> CountedNodes | None:
        """The nodes of ``nodes``, and the victims' own, to which the victims and pods of the shapes ``more`` may go, with the victims
        gone; None if more than GPUs decides where these pods go.
        """
        infos = frozenset({task.info for task in victims} | more)
        full = self._full.get(infos)
        if full is None or full.among is not nodes:
            full = self._full[infos] = FullNodes(self._session, nodes, infos) if self._on else None
        return None if full is None else full.without(victims)

    def leaves_too_little(
        self, tasks: Sequence[WTask], victims: Sequence[WTask], jobs: Sequence[Sequence[int]]
    ) -> bool:
        """True if there is never room for ``tasks``, which are of one shape, once some of the victims have gone and then been placed
        before them, in any order, as far as they find room. ``jobs``: the milli-GPU of the pods of each victim's job.

        The job wants k places of w GPUs, and fewer GPUs than that are free in all; so one of the victims would have to stay out. A
        pod of at most w GPUs that finds no room leaves no place of w, and a gang of k such pods at most fewer than k. A larger
        one, of B GPUs, finds its place unless a smaller one has taken it. If only GPUs that leave are given, that one goes to a node
        with B only if all nodes with less have less than it wants, and so no place of w. Of the nodes with less than B only that node
        can then have places of w, and not k of them. The nodes with B become such nodes by pods of B, which leave less than w.
        """
        info, table = tasks[0].info, self._session.table
        infos = {task.info for task in victims}
        smallest = min(each.rows[GPUS] for each in (info, *infos))
        freed = self._freed(table.all, victims, {info, *infos}) if smallest else None
        if freed is None:
            return False
        allowed, gone = freed
        places, wanted, free = len(tasks), info.rows[GPUS], table.free[:, allowed]
        if (free < 0).any() or int(free[GPUS].sum()) >= places * wanted:
            return False
        larger = {max(pods) for pods in jobs if max(pods) > wanted}
        if any(len(pods) > (1 if max(pods) > wanted else places) for pods in jobs) or len(larger) > 1:
            return False
        if not larger:
            return True
        [most] = larger
        by_idle = table.idle[GPUS][allowed] >= smallest
        return (
            most <= places * wanted
            and bool((gone[GPUS] < most + wanted).all())
            and not (by_idle & (gone[GPUS] >= most)).any()
        )

    def _freed(
        self, nodes: np.ndarray, victims: Sequence[WTask], infos: set[ShapeInfo]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """The nodes to which all of these shapes may go, and what is free there without the victims, by resource and
        node; None if more than GPUs decides where the victims go.
        """
        if not self._on or any(task.record.nominated_node for task in victims):
            return None
        allowed = self._allowed(infos, nodes)
        if allowed is None:
            return None
        table = self._session.table
        pool = table.free.copy()
        for task in victims:
            i = table.index.get(task.node)
            if i is None or not allowed[i]:
                return None
            for row, amount in task.info.needs:
                pool[row, i] += amount
        free = pool[:, allowed]
        return (allowed, free) if bool((free >= 0).all()) and _gpus_decide(infos, free) else None

    def _allowed(self, infos: set[ShapeInfo], nodes: np.ndarray) -> np.ndarray | None:
        """The nodes to which all shapes may go; None if the shapes may go to different ones."""
        every, some = _allowed_by_all_and_some(self._session, infos)
        return nodes & every if bool((nodes & every == nodes & some).all()) else None


class FullNodes:
    """The nodes ``among`` before any victim leaves, to which pods of these shapes may go. No victim is counted yet, so that each set of victims
    has to look at its own nodes only.
    """

    def __init__(self, session: Session, among: np.ndarray, infos: frozenset[ShapeInfo]) -> None:
        table = session.table
        self.among = among
        self._table = table
        every, some = _allowed_by_all_and_some(session, infos)
        self._smallest = min(info.rows[GPUS] for info in infos)
        per_gpu = _per_gpu(infos) if self._smallest else {}
        free, idle = table.free, table.idle
        fits_now = idle[GPUS] >= self._smallest
        # Where victims can't mend what is wrong: shapes that may go to different nodes, too little idle of something else.
        wrong = every != some
        others = [row for row in range(len(free)) if row not in per_gpu]
        wrong |= (free[others] < 0).any(axis=0)
        wrong |= fits_now & ~_enough(idle, per_gpu)
        self._wrong = set(np.flatnonzero(wrong).tolist())
        short = wrong | (free < 0).any(axis=0) | ~_enough(free, per_gpu)
        self._short = set(np.flatnonzero(among & some & short).tolist())
        self._may = every.tolist()
        self._rows = [(row, each, free[row].tolist()) for row, each in per_gpu.items()]
        inside = among & every
        self._free = np.where(inside, free[GPUS], 0).tolist()
        self._idle = np.where(inside & fits_now, idle[GPUS], 0).tolist()
        self._numbers = dict(Counter(self._free))

    def without(self, victims: Sequence[WTask]) -> CountedNodes | None:
        """See ``Repacking.without``."""
        if not self._smallest:
            return None
        if any(task.node not in self._table.index or task.record.nominated_node for task in victims):
            return None
        freed = freed_by_node(self._table, victims)
        if not all(self._may[i] for i in freed):
            return None
        if not self._short <= freed.keys() or not self._wrong.isdisjoint(freed):
            return None
        counted = CountedNodes(self._idle, self._free.copy(), self._numbers.copy())
        for i, on_node in freed.items():
            gpus = 0
            for row, each, amounts in self._rows:
                left = amounts[i] + on_node.get(row, 0)
                if row == GPUS:
                    gpus = left
                if left < 0 or gpus * each > left * GPU:
                    return None
            counted.set(i, gpus)
        return counted


class CountedNodes:
    """The milli-GPU of nodes, in the order of their names: ``idle`` (0 where no pod fits by it), and ``free`` once all that leaves is gone."""

    def __init__(self, idle: list[int], free: list[int], numbers: dict[int, int] | None = None) -> None:
        """``numbers``: how many nodes have so much free."""
        self._idle = idle
        self._free = free
        self._with_idle = [i for i, gpus in enumerate(idle) if gpus]
        # Few amounts, however many nodes there are.
        self._numbers = dict(Counter(free)) if numbers is None else numbers

    def place(self, pods: Sequence[int]) -> bool:
        """Place pods that want these milli-GPU where a simulation places them, all or none."""
        places: list[tuple[int, int]] = []
        for gpus in pods:
            i = self._best(gpus)
            if i is None:
                for taken, amount in places:
                    self._give(taken, amount)
                return False
            # Room is promised of what leaves, so what is idle stays as it is.
            self._give(i, -gpus)
            places.append((i, gpus))
        return True

    def _give(self, i: int, gpus: int) -> None:
        self.set(i, self._free[i] + gpus)

    def set(self, i: int, gpus: int) -> None:
        """Let so much be free on a node."""
        numbers, before, after = self._numbers, self._free[i], gpus
        self._free[i] = after
        if numbers[before] == 1:
            del numbers[before]
        else:
            numbers[before] -= 1
        numbers[after] = numbers.get(after, 0) + 1

    def places(self, gpus: int) -> int:
        """How many pods that want these milli-GPU fit."""
        places = 0
        for free, number in self._numbers.items():
            places += free // gpus * number
        return places

    def _best(self, gpus: int) -> int | None:
        """As ``placing.score``: first where the pod fits now, then the fullest node, then the first name."""
        free = self._free
        if self._with_idle:
            now = [i for i in self._with_idle if self._idle[i] >= gpus and free[i] >= gpus]
            if now:
                return min(now, key=free.__getitem__)
        fullest = min([left for left in self._numbers if left >= gpus], default=None)
        return None if fullest is None else free.index(fullest)


def _allowed_by_all_and_some(session: Session, infos: Iterable[ShapeInfo]) -> tuple[np.ndarray, np.ndarray]:
    """The nodes to which all of these shapes may go, and those to which some may."""
    masks = [node_capacity.allowed_nodes(session, info) for info in infos]
    return np.logical_and.reduce(masks), np.logical_or.reduce(masks)


def _gpus_decide(infos: set[ShapeInfo], free: np.ndarray) -> bool:
    """True if a node has enough of all other resources for any of these shapes that take its GPUs. ``free``: by
    resource and node.
    """
    return bool(_enough(free, _per_gpu(infos)).all())


def _per_gpu(infos: Iterable[ShapeInfo]) -> dict[int, int]:
    """The most that a shape wants of each resource for each GPU, GPUs first."""
    most = {GPUS: GPU}
    for info in infos:
        for row, amount in info.needs:
            most[row] = max(most.get(row, 0), -(-amount * GPU // info.rows[GPUS]))
    return most


def _enough(free: np.ndarray, per_gpu: Mapping[int, int]) -> np.ndarray:
    """Where there is enough of all other resources for all GPUs: a mask."""
    return np.logical_and.reduce([free[GPUS] * each <= free[row] * GPU for row, each in per_gpu.items()])


def _no_gaps(free: np.ndarray, wanted: list[int]) -> bool:
    """The invariant. ``free``: GPUs by node; ``wanted``: the amounts in ascending order."""
    step = 0
    for gpus in sorted(free.tolist()):
        if not gpus:
            continue
        if step and gpus % step:
            return False
        step = next((amount for amount in wanted if amount > gpus), wanted[-1])
    return True
