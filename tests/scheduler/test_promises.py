"""When a lab has settled, no pod is promised a place that nobody leaves."""

from __future__ import annotations

from typing import Any


def to_and_fro(build) -> list[Any]:
    """Queue ``waiting`` is served late, since its first job is large; so allocate gives ``borrowing`` the last GPU, and reclaim
    takes it for the small job, which has the better claim."""
    return [
        build.queue("org"),
        build.queue("waiting", "org", build.share(1)),
        build.queue("borrowing", "org", build.share(1)),
        build.podgroup("elastic", "borrowing"),
        build.member("first", "elastic"),
    ]


def test_room_that_queues_would_give_each_other_to_and_fro_is_given_for_good(build) -> None:
    lab = build.lab(nodes=1, gpus=2)
    lab.apply(*to_and_fro(build))
    lab.settle()
    lab.apply(
        build.pod("large", 8, "waiting", priorityClassName="inference"),
        build.member("second", "elastic"),
        build.pod("small", 1, "waiting"),
    )
    lab.settle()
    assert set(lab.running()) == {"first", "small"}
    assert not lab.records[-1].decisions.pipelines
    assert lab.group_condition("small") == {}
