"""Evictions: victims, events, timestamps, and stale gangs."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.errors import Conflict


@pytest.fixture
def borrowed(build):
    """Two queues of 8 of 16 GPUs; the guest has all 16; then the owner comes back for 4."""
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    lab.fill(16, "g", "guest")
    lab.settle()
    assert len(lab.running()) == 16
    lab.fill(4, "o", "owner")
    lab.settle()
    return lab


def test_reclaimed_pods_go_and_the_owner_runs(borrowed) -> None:
    running = borrowed.running()
    assert sum(name.startswith("o") for name in running) == 4
    assert sum(name.startswith("g") for name in running) == 12


def test_a_refused_eviction_is_retried_without_any_other_event(build, monkeypatch) -> None:
    small = build.lab(nodes=1)
    small.apply(
        build.queue("org"), build.queue("owner", "org", build.share(8)), build.queue("guest", "org", build.share(0))
    )
    for number in range(8):
        small.cluster.create(build.podgroup(f"g{number}", "guest"))
        small.cluster.create(build.member(f"g{number}", f"g{number}"))
    small.settle()
    evict, refused = small.cluster.evict, []

    def once(*args: Any, **more: Any) -> None:
        if not refused:
            refused.append(args)
            raise Conflict("not just now")
        evict(*args, **more)

    monkeypatch.setattr(small.cluster, "evict", once)
    small.cluster.create(build.podgroup("o", "owner"))
    small.cluster.create(build.member("o", "o"))
    for _ in range(100):
        small.scheduler.step()
        small.cluster.advance(0.1)
    assert refused
    assert small.node_of("o") == "node-0"


def test_an_eviction_is_reported_on_the_podgroup_of_the_victim(borrowed) -> None:
    events = [event for event in borrowed.cluster.list("Event") if event["reason"] == "Evict"]
    assert len(events) == 4
    assert {event["involvedObject"]["kind"] for event in events} == {"PodGroup"}
    evictions = [evict for record in borrowed.records for evict in record.decisions.evictions]
    assert {evict.message for evict in evictions} == {event["message"] for event in events}


def test_the_history_names_victims_and_beneficiaries(borrowed) -> None:
    history = borrowed.scheduler.history
    evictions = [evict for record in history for evict in record.decisions.evictions]
    assert len(evictions) == 4
    for evict in evictions:
        assert [entry for _, entry in history.evictions(evict.podgroup)] == [evict]


def test_records_name_their_pods_and_podgroups(borrowed) -> None:
    for record in borrowed.records:
        for bind in record.decisions.binds:
            assert record.tasks[bind.task].startswith("default/")
            assert record.podgroups[bind.podgroup].startswith("default/pg-")
        for evict in record.decisions.evictions:
            assert record.tasks[evict.task].startswith("default/g")
            assert record.podgroups[evict.beneficiary].startswith("default/pg-o")
    numbers = [record.number for record in borrowed.records]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_evicted_group_remembers_when(build) -> None:
    lab = build.lab()
    lab.apply(build.queue("org"), build.queue("owner", "org", build.share(8)))
    lab.apply(build.queue("guest", "org", build.share(8)))
    lab.apply(build.podgroup("flex", "guest"), *(build.member(f"e{i:02}", "flex") for i in range(16)))
    lab.settle()
    lab.fill(2, "o", "owner")
    lab.settle()
    assert sum(name.startswith("e") for name in lab.running()) == 14
    annotations = lab.cluster.get("PodGroup", "flex", "default")["metadata"]["annotations"]
    assert annotations["kai.scheduler/last-eviction-timestamp"] > annotations["kai.scheduler/last-start-timestamp"]


def test_a_stale_gang_is_marked_then_evicted(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.podgroup("gang", "team", 3), *(build.member(f"m{i}", "gang") for i in range(3)))
    lab.settle()
    lab.cluster.delete("Pod", "m0", "default")
    lab.settle()
    annotations = lab.cluster.get("PodGroup", "gang", "default")["metadata"]["annotations"]
    assert "kai.scheduler/stale-podgroup-timestamp" in annotations
    assert ("StaleJob", "Job is stale. 2 pods are active, minMember is 3") in lab.events("gang", "PodGroup")
    assert lab.running() == ["m1", "m2"]
    lab.cluster.advance(61)
    lab.settle()
    assert lab.running() == []


def test_a_gang_made_whole_again_is_stale_no_more(lab, build) -> None:
    lab.apply(*build.team())
    lab.apply(build.podgroup("gang", "team", 3), *(build.member(f"m{i}", "gang") for i in range(3)))
    lab.settle()
    lab.cluster.delete("Pod", "m0", "default")
    lab.settle()
    lab.apply(build.member("m3", "gang"))
    lab.settle()
    annotations = lab.cluster.get("PodGroup", "gang", "default")["metadata"]["annotations"]
    assert "kai.scheduler/stale-podgroup-timestamp" not in annotations
    assert lab.running() == ["m1", "m2", "m3"]
