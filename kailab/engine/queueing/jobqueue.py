"""Jobs of many queues in the order in which they are served, or (reversed) in which they are taken from.

At every level of the tree the best child is chosen by comparing queues with their best jobs; the job is taken, and the
path is put in order again before the next choice. Source: KAI's JobsOrderByQueues, with the same lazy reordering.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kailab.engine.queueing.order import NOTHING, Measure, measure, smaller
from kailab.engine.working.queues import Amounts, QueueTree, WQueue

T = TypeVar("T")
Key = tuple[Any, ...]


# It takes the same steps as Go's container/heap, which KAI uses. Where the order of items changed since they were put
# in, as that of queues does, the steps decide who comes out.
class Heap(Generic[T]):
    """A binary heap over a comparison that may change between calls; ``fix_top`` puts a changed top where it belongs."""

    def __init__(self, before: Callable[[T, T], bool]) -> None:
        self.items: list[T] = []
        self._before = before

    def push(self, item: T) -> None:
        self.items.append(item)
        self._up(len(self.items) - 1)

    def pop(self) -> T:
        items = self.items
        last = len(items) - 1
        items[0], items[last] = items[last], items[0]
        self._down(0, last)
        return items.pop()

    def rebuild(self) -> None:
        for i in range(len(self.items) // 2 - 1, -1, -1):
            self._down(i, len(self.items))

    def fix_top(self) -> None:
        self._down(0, len(self.items))

    def _up(self, j: int) -> None:
        items = self.items
        while j > 0:
            i = (j - 1) // 2
            if not self._before(items[j], items[i]):
                break
            items[i], items[j] = items[j], items[i]
            j = i

    def _down(self, i: int, n: int) -> None:
        items = self.items
        while True:
            left = 2 * i + 1
            if left >= n:
                break
            j = left
            # Only what comes strictly before moves up, so equals stay where they are, as in Go's heap.
            if left + 1 < n and self._before(items[left + 1], items[left]):
                j = left + 1
            if not self._before(items[j], items[i]):
                break
            items[i], items[j] = items[j], items[i]
            i = j


class Leaf(Generic[T]):
    """The jobs of one queue: a shared sorted list, read only, with a pick; and those pushed in later."""

    def __init__(
        self, queue: WQueue, base: list[tuple[Key, T]], pick: Callable[[T], bool] | None, backwards: bool
    ) -> None:
        self.queue = queue
        self._base = base
        self._pick = pick
        self._backwards = backwards
        self._next = len(base) - 1 if backwards else 0
        self._extra: list[tuple[Key, T]] = []
        self._settle()

    def _settle(self) -> None:
        # ``pick`` is asked as entries come to the front: most of a long list is never looked at.
        base, pick, place = self._base, self._pick, self._next
        if pick is None:
            return
        if self._backwards:
            while place >= 0 and not pick(base[place][1]):
                place -= 1
        else:
            end = len(base)
            while place < end and not pick(base[place][1]):
                place += 1
        self._next = place

    @property
    def _base_left(self) -> bool:
        return self._next >= 0 if self._backwards else self._next < len(self._base)

    @property
    def empty(self) -> bool:
        return not self._extra and not self._base_left

    def push(self, key: Key, job: T) -> None:
        # A list of their own, because the base is shared: others read it while this order is in use.
        insort(self._extra, (key, job), key=_key)

    def _from_extra(self) -> bool:
        if not self._extra:
            return False
        if not self._base_left:
            return True
        if self._backwards:
            return bool(self._extra[-1][0] > self._base[self._next][0])
        return bool(self._extra[0][0] < self._base[self._next][0])

    def peek(self) -> T:
        if self._extra and self._from_extra():
            return self._extra[-1 if self._backwards else 0][1]
        return self._base[self._next][1]

    def pop(self) -> T:
        if self._extra and self._from_extra():
            return self._extra.pop(-1 if self._backwards else 0)[1]
        job = self._base[self._next][1]
        self._next += -1 if self._backwards else 1
        self._settle()
        return job


class _Node(Generic[T]):
    __slots__ = ("children", "known", "leaf", "measure", "parent", "queue", "stale")

    def __init__(self, queue: WQueue, leaf: Leaf[T] | None, before: Callable[[_Node[T], _Node[T]], bool]) -> None:
        self.queue = queue
        self.leaf = leaf
        self.children: Heap[_Node[T]] | None = None if leaf is not None else Heap(before)
        self.parent: _Node[T] | None = None
        self.stale = False
        self.measure: Measure | None = None  # the last one, and what it was taken of
        self.known: tuple[int, int, int, Amounts, Amounts] | None = None

    @property
    def empty(self) -> bool:
        if self.leaf is not None:
            return self.leaf.empty
        assert self.children is not None
        return not self.children.items


class Precedence(Protocol):
    """A configured word on which queue is next, before KAI's order has its own."""

    def first(self, left: WQueue, right: WQueue, left_job: Any, right_job: Any) -> int:
        """-1: ``left`` is next, with the best job below it; 1: ``right``; 0: no word."""

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        """A victim that holds these amounts was popped (1), or pushed back (-1)."""


class JobQueue(Generic[T]):
    """``wanted(job)``: amounts a waiting job adds to its queue; ``held(job)``: amounts a victim gives back. Exactly one of
    them is used: ``wanted`` for serving order, ``held`` (with ``backwards``) for victims."""

    def __init__(
        self,
        tree: QueueTree,
        *,
        wanted: Callable[[T], Amounts] | None = None,
        held: Callable[[T], Amounts] | None = None,
        precedence: Precedence | None = None,
    ) -> None:
        self._tree = tree
        self._wanted = wanted
        self._held = held
        self._precedence = precedence
        self.backwards = held is not None
        self._roots: Heap[_Node[T]] = Heap(self._node_before)
        self._nodes: dict[str, _Node[T]] = {}
        self._given: dict[str, Amounts] = {}  # what popped victims hold, by queue, also where a queue has none left

    def load(
        self,
        queue: WQueue,
        base: list[tuple[Key, T]],
        pick: Callable[[T], bool] | None = None,
        more: Iterable[tuple[Key, T]] = (),
    ) -> None:
        """Give a queue its sorted list, and ``more`` jobs beside it. Call once a queue, before the first pop."""
        leaf = Leaf(queue, base, pick, self.backwards)
        for key, job in more:
            leaf.push(key, job)
        # A queue of which nothing is picked takes no part: comparing it would have no job to go by.
        if not leaf.empty:
            node = _Node(queue, leaf, self._node_before)
            self._link(node)
            self._mark(node)

    def push(self, queue: WQueue, key: Key, job: T) -> None:
        if self._precedence is not None and self._held is not None:
            self._precedence.taken(queue, self._held(job), -1)
        node = self._nodes.get(queue.name)
        if node is None:
            leaf: Leaf[T] = Leaf(queue, [], None, self.backwards)
            leaf.push(key, job)
            node = _Node(queue, leaf, self._node_before)
            self._link(node)
        else:
            assert node.leaf is not None
            node.leaf.push(key, job)
        self._mark(node)

    def _link(self, node: _Node[T]) -> None:
        self._nodes[node.queue.name] = node
        while True:
            # From the leaf upwards: a queue is compared by the best job below it, so it needs one before it is pushed.
            above = node.queue.parent
            if above is None:
                self._roots.push(node)
                return
            # A parent that is known already is linked to its own ancestors.
            parent = self._nodes.get(above.name)
            if parent is not None:
                node.parent = parent
                assert parent.children is not None
                parent.children.push(node)
                return
            # Made only above queues with jobs: the tree of this order has no empty branches.
            parent = self._nodes[above.name] = _Node(above, None, self._node_before)
            node.parent = parent
            assert parent.children is not None
            parent.children.push(node)
            node = parent

    @property
    def empty(self) -> bool:
        return not self._roots.items

    def pop(self) -> T:
        node = self._top(self._roots)
        while node.leaf is None:
            assert node.children is not None
            node = self._top(node.children)
        job = node.leaf.pop()
        if self._held is not None:
            more, given = self._held(job), self._given.get(node.queue.name, NOTHING)
            # KAI's poppedJobsByQueue: a queue is compared as if what was taken from it were gone.
            self._given[node.queue.name] = (given[0] + more[0], given[1] + more[1], given[2] + more[2])
            if self._precedence is not None:
                self._precedence.taken(node.queue, more, 1)
        self._after_pop(node)
        return job

    @staticmethod
    def _top(heap: Heap[_Node[T]]) -> _Node[T]:
        items = heap.items
        while (node := items[0]).stale:
            # Only the top is put right, and until it stays there: what is stale further down is found once it comes up.
            if len(items) > 1:
                heap.fix_top()
            node.stale = False
        return node

    def forget(self, queue: WQueue) -> None:
        """Leave out all that is left below a queue."""
        node = self._nodes.get(queue.name)
        if node is None:
            return
        self._drop(node)
        parent = node.parent
        heap = self._roots if parent is None or parent.children is None else parent.children
        heap.items = [item for item in heap.items if item is not node]
        heap.rebuild()
        # The parent keeps a child: who calls this leaves out only queues beside which somebody is still to be placed.
        self._after_pop(parent)

    def _drop(self, node: _Node[T]) -> None:
        self._nodes.pop(node.queue.name, None)
        if node.children is not None:
            for child in node.children.items:
                self._drop(child)

    def _after_pop(self, node: _Node[T] | None) -> None:
        while node is not None and node.empty:
            parent = node.parent
            # The empty node is the top of its parent, because the job was taken from below it.
            (parent.children if parent is not None and parent.children is not None else self._roots).pop()
            del self._nodes[node.queue.name]
            node = parent
        if node is not None:
            self._mark(node)

    @staticmethod
    def _mark(node: _Node[T] | None) -> None:
        while node is not None:
            node.stale = True
            node = node.parent

    def _best(self, node: _Node[T]) -> tuple[Amounts, Amounts]:
        """(wanted, given back) of the best job below a node."""
        while node.leaf is None:
            assert node.children is not None
            # The top as it stands, stale or not, as KAI's Peek has it.
            node = node.children.items[0]
        job = node.leaf.peek()
        if self._wanted is not None:
            return self._wanted(job), NOTHING
        assert self._held is not None
        more, given = self._held(job), self._given.get(node.queue.name, NOTHING)
        return NOTHING, (given[0] + more[0], given[1] + more[1], given[2] + more[2])

    @staticmethod
    def _next(node: _Node[T]) -> tuple[WQueue, T]:
        """A node's queue, and the job that would be popped from below it."""
        queue = node.queue
        while node.leaf is None:
            assert node.children is not None
            node = node.children.items[0]
        return queue, node.leaf.peek()

    def _node_before(self, left: _Node[T], right: _Node[T]) -> bool:
        # Not met as long as empty nodes are dropped at once; the answers are KAI's (buildNodeOrderFn).
        if left.empty:
            return not self.backwards
        if right.empty:
            return self.backwards
        if self._precedence is not None:
            (left_queue, left_next), (right_queue, right_next) = self._next(left), self._next(right)
            # A configured order of queues has the first word, KAI's rules all others.
            word = self._precedence.first(left_queue, right_queue, left_next, right_next)
            if word:
                return word < 0
        mine, theirs = self._measure(left), self._measure(right)
        first = mine < theirs if mine != theirs else smaller(left.queue, right.queue)[0]
        return first != self.backwards

    def _measure(self, node: _Node[T]) -> Measure:
        """See ``order.queue_before``. Most nodes are compared many times between two changes of what they are compared by."""
        wanted, lost = self._best(node)
        cpu, memory, gpus = node.queue.allocated
        known = cpu, memory, gpus, wanted, lost
        if node.measure is None or node.known != known:
            node.known, node.measure = known, measure(node.queue, wanted, lost, self._tree.totals)
        return node.measure


def _key(entry: tuple[Key, Any]) -> Key:
    return entry[0]
