from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.engine.queueing.fairshare import Amounts, Claim, divide, divide_over_quota, sum_up, tree_shares
from kailab.engine.snapshot.records import GPU, Queue, ResourceShare


def gpu_queue(name, parent="", quota=0, limit=-1, weight=1.0, **rest):
    share = ResourceShare(
        quota=quota * GPU if quota > 0 else quota, limit=limit * GPU if limit > 0 else limit, weight=weight
    )
    return Queue(name=name, parent=parent, uid=name, gpu=share, **rest)


def gpus(count):
    return Amounts(gpu=count * GPU)


def divide_gpus(total, *claims, **options):
    remaining, shares = divide(total * GPU, list(claims), unit=GPU, **options)
    return remaining / GPU, {name: share / GPU for name, share in shares.items()}


def wants(name, request, quota=0, **rest):
    scaled = {key: rest.pop(key) * GPU for key in ("limit",) if key in rest}
    return Claim(
        name=name, uid=name, request=request * GPU, quota=quota * GPU, weight=rest.pop("weight", 1), **scaled, **rest
    )


def test_idle_capacity_is_split_by_weight_after_quotas():
    left, shares = divide_gpus(100, wants("a", 100, quota=10, weight=3), wants("b", 100, quota=10, weight=1))
    assert shares == {"a": 70, "b": 30}
    assert left == 0


def test_what_one_queue_does_not_want_goes_to_the_others():
    _, shares = divide_gpus(10, wants("modest", 1), wants("a", 10), wants("b", 10))
    assert shares == {"modest": 1, "a": 5, "b": 4}


def test_leftover_device_goes_to_the_older_queue_then_to_the_smaller_uid():
    _, shares = divide_gpus(3, wants("young", 9, created=2.0), wants("old", 9, created=1.0))
    assert shares == {"young": 1, "old": 2}
    _, shares = divide_gpus(3, wants("b", 9), wants("a", 9))
    assert shares == {"a": 2, "b": 1}


def test_leftover_devices_go_to_the_largest_lost_fraction_first():
    # Parts of 5: 1.25 and 3.75.
    _, shares = divide_gpus(5, wants("one", 9, weight=1, created=0.0), wants("three", 9, weight=3, created=9.0))
    assert shares == {"one": 1, "three": 4}


def test_a_higher_queue_priority_is_served_first():
    _, shares = divide_gpus(4, wants("low", 9, priority=100), wants("high", 3, priority=200))
    assert shares == {"low": 1, "high": 3}


def test_without_weight_there_is_nothing_beyond_quota():
    left, shares = divide_gpus(8, wants("a", 8, quota=2, weight=0))
    assert (left, shares) == (6, {"a": 2})


def test_limit_caps_quota_and_over_quota():
    left, shares = divide_gpus(8, wants("a", 8, quota=4, limit=3), wants("b", 8, limit=2))
    assert (left, shares) == (3, {"a": 3, "b": 2})


def test_unlimited_quota_takes_what_is_asked():
    _, shares = divide(
        10 * GPU, [Claim(name="a", quota=-1, request=7 * GPU), Claim(name="b", request=9 * GPU, weight=1)], unit=GPU
    )
    assert shares == {"a": 7 * GPU, "b": 3 * GPU}


def test_quotas_are_honoured_where_they_exceed_the_cluster():
    left, shares = divide_gpus(4, wants("a", 4, quota=4), wants("b", 3, quota=3))
    assert (left, shares) == (0, {"a": 4, "b": 3})


def test_equal_queues_on_as_many_gpus_get_one_each():
    # 49 * (1 / 49) is less than 1 in floating point.
    _, shares = divide_gpus(49, *(wants(f"q{n:02}", 5, created=float(n)) for n in range(49)))
    assert set(shares.values()) == {1}


def test_decimal_weights_mean_what_they_say():
    _, shares = divide_gpus(10, wants("a", 99, weight=0.1), wants("b", 99, weight=0.3), wants("c", 99, weight=0.6))
    assert shares == {"a": 1, "b": 3, "c": 6}


def test_past_usage_lowers_a_weight():
    claims = [wants("greedy", 99, usage=0.8), wants("patient", 99, usage=0.2)]
    _, plain = divide_gpus(10, *[replace(c) for c in claims], k_value=0.0)
    _, fair = divide_gpus(10, *[replace(c) for c in claims], k_value=1.0)
    assert plain == {"greedy": 5, "patient": 5}
    # 0.5 + (0.5 - 0.8) = 0.2 against 0.5 + (0.5 - 0.2) = 0.8.
    assert fair == {"greedy": 2, "patient": 8}


def test_usage_far_above_the_weight_leaves_nothing():
    _, shares = divide_gpus(10, wants("greedy", 99, usage=1.0), wants("patient", 99), k_value=1.0)
    assert shares == {"greedy": 0, "patient": 10}


def test_over_quota_alone_adds_to_what_a_queue_has():
    claim = Claim(name="a", request=5, weight=1, share=3)
    assert divide_over_quota(4, [claim]) == 2
    assert claim.share == 5


def test_children_divide_what_their_parent_got():
    queues = [
        gpu_queue("research", quota=40),
        gpu_queue("llm", "research", quota=30),
        gpu_queue("vision", "research", quota=10),
        gpu_queue("infra", quota=60, weight=0.0),
    ]
    requests = sum_up(queues, {"llm": gpus(80), "vision": gpus(80), "infra": gpus(20)})
    assert requests["research"] == gpus(160)
    shares = tree_shares(queues, gpus(100), requests)
    assert {name: share.gpu / GPU for name, share in shares.items()} == {
        "research": 80,
        "infra": 20,
        "llm": 50,
        "vision": 30,
    }


def test_queues_that_lead_to_no_root_get_nothing():
    queues = [gpu_queue("orphan", "nowhere", quota=1), gpu_queue("x", "y", quota=1), gpu_queue("y", "x", quota=1)]
    shares = tree_shares(queues, gpus(8), {name: gpus(8) for name in ("orphan", "x", "y")})
    assert set(shares.values()) == {Amounts()}
    assert sum_up(queues, {"x": gpus(1)})["y"] == gpus(1)


claims = st.lists(
    st.builds(
        Claim,
        name=st.just(""),
        quota=st.integers(-1, 20).map(lambda n: n * GPU if n > 0 else n),
        limit=st.integers(-1, 40).map(lambda n: n * GPU if n > 0 else n),
        weight=st.sampled_from([0, 0.1, 0.5, 1, 2, 3, 7.25]),
        request=st.integers(0, 60_000),
        usage=st.sampled_from([0.0, 0.0, 0.1, 0.33, 0.9]),
        priority=st.sampled_from([50, 100, 200]),
        created=st.integers(0, 5).map(float),
    ),
    max_size=12,
)


def named(drawn):
    return [replace(claim, name=f"q{n}", uid=f"q{n}") for n, claim in enumerate(drawn)]


@given(claims, st.integers(0, 200).map(lambda n: n * GPU), st.sampled_from([0.0, 1.0, 3.0]))
def test_shares_and_the_rest_add_up(drawn, total, k_value):
    queues = named(drawn)
    left, shares = divide(total, queues, unit=GPU, k_value=k_value)
    promised = sum(min(total if q.quota < 0 else q.quota, q.requestable) for q in queues)
    if promised <= total:
        assert sum(shares.values()) + left == total
    else:
        assert left == 0
        assert sum(shares.values()) == promised
    for queue in queues:
        # Only the unit of the last step may exceed what was asked for.
        assert 0 <= shares[queue.name] < queue.requestable + GPU


@given(claims, st.integers(0, 200).map(lambda n: n * GPU), st.sampled_from([0.0, 2.0]), st.randoms())
def test_order_of_queues_does_not_matter(drawn, total, k_value, random):
    queues = named(drawn)
    shuffled = [replace(queue) for queue in queues]
    random.shuffle(shuffled)
    assert divide(total, queues, unit=GPU, k_value=k_value) == divide(total, shuffled, unit=GPU, k_value=k_value)


@given(claims, st.integers(0, 200).map(lambda n: n * GPU))
def test_capacity_is_left_only_where_nobody_with_weight_wants_it(drawn, total):
    queues = named(drawn)
    left, shares = divide(total, queues, unit=GPU)
    if left:
        assert all(q.weight == 0 or shares[q.name] >= q.requestable for q in queues)


@given(claims, st.integers(0, 200).map(lambda n: n * GPU), st.sampled_from([0.0, 2.0]))
def test_one_level_of_the_tree_is_the_flat_division(drawn, total, k_value):
    flat = named(drawn)
    queues = [
        Queue(
            name=c.name,
            uid=c.uid,
            priority=c.priority,
            created=c.created,
            gpu=ResourceShare(quota=c.quota, limit=c.limit, weight=c.weight),
        )
        for c in flat
    ]
    tree = tree_shares(
        queues,
        Amounts(gpu=total),
        {c.name: (0, 0, c.request) for c in flat},
        k_value=k_value,
        usage={c.name: {"gpu": c.usage} for c in flat},
    )
    _, shares = divide(total, flat, unit=GPU, k_value=k_value)
    assert {name: share.gpu for name, share in tree.items()} == shares


@pytest.mark.parametrize("total", [10**15, 10**18])
def test_large_amounts_stay_exact(total):
    queues = [Claim(name=f"q{n}", uid=f"q{n}", request=total, weight=n) for n in (1, 2, 3)]
    left, shares = divide(total, queues)
    assert left == 0
    assert sum(shares.values()) == total
    assert abs(shares["q3"] - total // 2) <= 1
