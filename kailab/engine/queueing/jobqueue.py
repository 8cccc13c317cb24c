"""Jobs of many queues in serving order or, for victims, in the reverse order.

At every level of the tree, queues are compared together with their best jobs. The best job is taken, and the path to it
is reordered before the next choice. Source: KAI's JobsOrderByQueues, with the same lazy reordering.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kailab.engine.queueing.order import NOTHING, Measure, measure, smaller
from kailab.engine.working.queues import Amounts, QueueTree, WQueue

T = TypeVar("T")
OrderKey = tuple[Any, ...]


# The steps are those of Go's container/heap, which KAI uses. The order of queues changes after they were pushed, so the
# steps decide which item comes out.
class Heap(Generic[T]):
    """A binary heap over a comparison that may change between calls. ``fix_top`` moves a changed top to its place.

    Each step is given the comparison. A heap that held it would form a cycle with the queue that compares, which only
    the cyclic collector frees, and a search makes hundreds of them.
    """

    def __init__(self) -> None:
        self.items: list[T] = []

    def push(self, item: T, precedes: Callable[[T, T], bool]) -> None:
        self.items.append(item)
        self._up(len(self.items) - 1, precedes)

    def pop(self, precedes: Callable[[T, T], bool]) -> T:
        items = self.items
        last = len(items) - 1
        items[0], items[last] = items[last], items[0]
        self._down(0, last, precedes)
        return items.pop()

    def rebuild(self, precedes: Callable[[T, T], bool]) -> None:
        for i in range(len(self.items) // 2 - 1, -1, -1):
            self._down(i, len(self.items), precedes)

    def fix_top(self, precedes: Callable[[T, T], bool]) -> None:
        self._down(0, len(self.items), precedes)

    def _up(self, j: int, precedes: Callable[[T, T], bool]) -> None:
        items = self.items
        while j > 0:
            i = (j - 1) // 2
            if not precedes(items[j], items[i]):
                break
            items[i], items[j] = items[j], items[i]
            j = i

    def _down(self, i: int, n: int, precedes: Callable[[T, T], bool]) -> None:
        items = self.items
        while True:
            left = 2 * i + 1
            if left >= n:
                break
            j = left
            # Only an item that comes strictly before moves up, so equal items stay in place, as in Go's heap.
            if left + 1 < n and precedes(items[left + 1], items[left]):
                j = left + 1
            if not precedes(items[j], items[i]):
                break
            items[i], items[j] = items[j], items[i]
            i = j


class Leaf(Generic[T]):
    """The jobs of one queue: a shared, read-only sorted list filtered by ``pick``, and the jobs pushed later."""

    def __init__(
        self, queue: WQueue, base: list[tuple[OrderKey, T]], pick: Callable[[T], bool] | None, backwards: bool
    ) -> None:
        self.queue = queue
        self._base = base
        self._pick = pick
        self._backwards = backwards
        self._next = len(base) - 1 if backwards else 0
        self._extra: list[tuple[OrderKey, T]] = []
        self._settle()

    def _settle(self) -> None:
        # ``pick`` is called as entries come to the front, so most of a long list is never checked.
        base, pick, index = self._base, self._pick, self._next
        if pick is None:
            return
        if self._backwards:
            while index >= 0 and not pick(base[index][1]):
                index -= 1
        else:
            end = len(base)
            while index < end and not pick(base[index][1]):
                index += 1
        self._next = index

    @property
    def _base_left(self) -> bool:
        return self._next >= 0 if self._backwards else self._next < len(self._base)

    @property
    def empty(self) -> bool:
        return not self._extra and not self._base_left

    def push(self, key: OrderKey, job: T) -> None:
        # A separate list, because the base list is shared with other readers.
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
    __slots__ = ("children", "known", "leaf", "measure", "queue", "stale")

    def __init__(self, queue: WQueue, leaf: Leaf[T] | None) -> None:
        self.queue = queue
        self.leaf = leaf
        self.children: Heap[_Node[T]] | None = None if leaf is not None else Heap()
        self.stale = False
        self.measure: Measure | None = None  # the last measure, and the amounts that it is based on
        self.known: tuple[int, int, int, Amounts, Amounts] | None = None

    @property
    def empty(self) -> bool:
        if self.leaf is not None:
            return self.leaf.empty
        assert self.children is not None
        return not self.children.items


class QueuePrecedence(Protocol):
    """A configured order of queues that comes before KAI's order."""

    def first(self, left: WQueue, right: WQueue, left_job: Any, right_job: Any) -> int:
        """-1 if ``left`` is next, with the best job below it; 1 if ``right`` is; 0 if KAI's order decides."""

    def taken(self, queue: WQueue, amounts: Amounts, sign: int) -> None:
        """Called when a victim that holds these amounts is popped (sign 1) or pushed back (-1)."""


class JobQueue(Generic[T]):
    """The order of all jobs. ``wanted(job)``: the amounts that a waiting job adds to its queue; ``held(job)``: the
    amounts that a victim gives back. Exactly one of them is given: ``wanted`` for the serving order, ``held`` for
    victims (backwards).
    """

    def __init__(
        self,
        tree: QueueTree,
        *,
        wanted: Callable[[T], Amounts] | None = None,
        held: Callable[[T], Amounts] | None = None,
        precedence: QueuePrecedence | None = None,
    ) -> None:
        self._tree = tree
        self._wanted = wanted
        self._held = held
        self._precedence = precedence
        self.backwards = held is not None
        self._roots: Heap[_Node[T]] = Heap()
        self._nodes: dict[str, _Node[T]] = {}
        # what popped victims hold, by queue; kept also for queues without jobs left
        self._given: dict[str, Amounts] = {}

    def load(
        self,
        queue: WQueue,
        base: list[tuple[OrderKey, T]],
        pick: Callable[[T], bool] | None = None,
        more: Iterable[tuple[OrderKey, T]] = (),
    ) -> None:
        """Set a queue's sorted list, and ``more`` jobs. Call once per queue, before the first pop."""
        leaf = Leaf(queue, base, pick, self.backwards)
        for key, job in more:
            leaf.push(key, job)
        # A queue without picked jobs is left out, because it could not be compared.
        if not leaf.empty:
            node = _Node(queue, leaf)
            self._link(node)
            self._mark(node)

    def push(self, queue: WQueue, key: OrderKey, job: T) -> None:
        if self._precedence is not None and self._held is not None:
            self._precedence.taken(queue, self._held(job), -1)
        node = self._nodes.get(queue.name)
        if node is None:
            leaf: Leaf[T] = Leaf(queue, [], None, self.backwards)
            leaf.push(key, job)
            node = _Node(queue, leaf)
            self._link(node)
        else:
            assert node.leaf is not None
            node.leaf.push(key, job)
        self._mark(node)

    def _link(self, node: _Node[T]) -> None:
        self._nodes[node.queue.name] = node
        while True:
            # From the leaf upwards: a queue is compared by the best job below it, so it must have one before it is
            # pushed.
            above = node.queue.parent
            if above is None:
                self._roots.push(node, self._node_before)
                return
            # A known parent is linked to its ancestors already.
            parent = self._nodes.get(above.name)
            if parent is not None:
                assert parent.children is not None
                parent.children.push(node, self._node_before)
                return
            # Parents are made only above queues with jobs, so the tree has no empty branches.
            parent = self._nodes[above.name] = _Node(above, None)
            assert parent.children is not None
            parent.children.push(node, self._node_before)
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
            # KAI's poppedJobsByQueue: a queue is compared as if its popped victims were gone.
            self._given[node.queue.name] = (given[0] + more[0], given[1] + more[1], given[2] + more[2])
            if self._precedence is not None:
                self._precedence.taken(node.queue, more, 1)
        self._after_pop(node)
        return job

    def _above(self, node: _Node[T]) -> _Node[T] | None:
        """The node of the parent queue. Looked up, because nodes that hold each other form cycles too."""
        parent = node.queue.parent
        return None if parent is None else self._nodes.get(parent.name)

    def _top(self, heap: Heap[_Node[T]]) -> _Node[T]:
        items = heap.items
        while (node := items[0]).stale:
            # Only the top is fixed, until it stays: stale nodes further down are fixed when they come up.
            if len(items) > 1:
                heap.fix_top(self._node_before)
            node.stale = False
        return node

    def forget(self, queue: WQueue) -> None:
        """Drop all remaining jobs below a queue."""
        node = self._nodes.get(queue.name)
        if node is None:
            return
        self._drop(node)
        parent = self._above(node)
        heap = self._roots if parent is None or parent.children is None else parent.children
        heap.items = [item for item in heap.items if item is not node]
        heap.rebuild(self._node_before)
        # The parent keeps a child: callers drop only queues with siblings that still have jobs to place.
        self._after_pop(parent)

    def _drop(self, node: _Node[T]) -> None:
        self._nodes.pop(node.queue.name, None)
        if node.children is not None:
            for child in node.children.items:
                self._drop(child)

    def _after_pop(self, node: _Node[T] | None) -> None:
        while node is not None and node.empty:
            parent = self._above(node)
            # The empty node is the top of its parent, because the job was taken below it.
            heap = self._roots if parent is None or parent.children is None else parent.children
            heap.pop(self._node_before)
            del self._nodes[node.queue.name]
            node = parent
        if node is not None:
            self._mark(node)

    def _mark(self, node: _Node[T] | None) -> None:
        while node is not None:
            node.stale = True
            node = self._above(node)

    def _best(self, node: _Node[T]) -> tuple[Amounts, Amounts]:
        """(wanted, given back) of the best job below a node."""
        while node.leaf is None:
            assert node.children is not None
            # The present top, stale or not, as in KAI's Peek.
            node = node.children.items[0]
        job = node.leaf.peek()
        if self._wanted is not None:
            return self._wanted(job), NOTHING
        assert self._held is not None
        more, given = self._held(job), self._given.get(node.queue.name, NOTHING)
        return NOTHING, (given[0] + more[0], given[1] + more[1], given[2] + more[2])

    @staticmethod
    def _next(node: _Node[T]) -> tuple[WQueue, T]:
        """A node's queue, and the job that ``pop`` would take below it."""
        queue = node.queue
        while node.leaf is None:
            assert node.children is not None
            node = node.children.items[0]
        return queue, node.leaf.peek()

    def _node_before(self, left: _Node[T], right: _Node[T]) -> bool:
        # Empty nodes are dropped at once, so this does not occur; the answers are KAI's (buildNodeOrderFn).
        if left.empty:
            return not self.backwards
        if right.empty:
            return self.backwards
        if self._precedence is not None:
            (left_queue, left_next), (right_queue, right_next) = self._next(left), self._next(right)
            # A configured order decides first, KAI's rules after it.
            decision = self._precedence.first(left_queue, right_queue, left_next, right_next)
            if decision:
                return decision < 0
        mine, theirs = self._measure(left), self._measure(right)
        first = mine < theirs if mine != theirs else smaller(left.queue, right.queue)[0]
        return first != self.backwards

    def _measure(self, node: _Node[T]) -> Measure:
        """See ``order.queue_before``. Cached, because most nodes are compared many times between two changes of their
        amounts.
        """
        wanted, lost = self._best(node)
        cpu, memory, gpus = node.queue.allocated
        known = cpu, memory, gpus, wanted, lost
        if node.measure is None or node.known != known:
            node.known, node.measure = known, measure(node.queue, wanted, lost, self._tree.totals)
        return node.measure


def _key(entry: tuple[OrderKey, Any]) -> OrderKey:
    return entry[0]
