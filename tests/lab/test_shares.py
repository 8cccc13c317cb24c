"""Who lives on whose quota."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kailab.evidence.shares import NOBODY, QueueAmounts, QueueTreeShares


def shares(*queues: QueueAmounts) -> QueueTreeShares:
    return QueueTreeShares({queue.name: queue for queue in queues})


def standing(name: str, quota: int, allocated: int, parent: str = "") -> QueueAmounts:
    return QueueAmounts(name, parent, quota=quota * 1000, limit=-1, allocated=allocated * 1000)


def test_a_borrower_lives_on_its_siblings_unused_quota():
    now = shares(standing("a", 8, 16), standing("b", 16, 4), standing("c", 8, 8))
    assert now.lenders("a") == [("b", 8000)]
    assert now.borrowers("b") == [("a", 8000)]
    assert now.lent("b") == 8000


def test_what_no_quota_covers_has_no_lender():
    assert shares(standing("a", 8, 12), standing("b", 8, 7)).lenders("a") == [("b", 1000), (NOBODY, 3000)]


def test_through_the_parent():
    now = shares(
        standing("org-a", 8, 12),
        standing("org-b", 8, 4),
        standing("a1", 4, 8, "org-a"),
        standing("a2", 4, 4, "org-a"),
        standing("b1", 8, 4, "org-b"),
    )
    assert now.lenders("a1") == [("org-b", 4000)]


def test_an_unlimited_quota_neither_borrows_nor_lends():
    now = shares(QueueAmounts("a", quota=-1, allocated=9000), standing("b", 8, 0))
    assert now["a"].borrowed == 0
    assert now.lenders("a") == []
    assert now.borrowers("b") == []


@given(
    st.lists(st.tuples(st.integers(-1, 20), st.integers(0, 30)), min_size=1, max_size=6),
)
def test_the_books_balance(queues):
    now = shares(*(standing(f"q{n}", quota, held) for n, (quota, held) in enumerate(queues) if quota >= 0))
    for name, queue in now.queues.items():
        assert sum(amount for _, amount in now.lenders(name)) == queue.borrowed
        assert 0 <= now.lent(name) <= queue.unused
    nobody = sum(amount for name in now.queues for lender, amount in now.lenders(name) if lender == NOBODY)
    lent = sum(now.lent(name) for name in now.queues)
    assert lent + nobody == sum(queue.borrowed for queue in now.queues.values())
