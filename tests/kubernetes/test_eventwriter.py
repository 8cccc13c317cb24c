"""Events over a real API server: they count up, they give way, and none is lost."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from kailab.cluster.kubernetes import eventwriter
from kailab.cluster.writes import CreateWrite, PatchWrite
from tests.kubernetes.made import config_map, pod, soon

pytestmark = pytest.mark.slow


def test_repeated_events_count_up(cluster):
    there = cluster.create(pod("a"))
    for _ in range(3):
        cluster.event(there, "Warning", "Unschedulable", "no room")
        cluster.events.flush(5)

    def counted() -> bool:
        return [(e["reason"], e["count"]) for e in cluster.list("Event", "default") if e["message"] == "no room"] == [
            ("Unschedulable", 3)
        ]

    soon(counted)


def test_events_give_way_to_writes_that_somebody_waits_for(cluster, other):
    about = other.create(pod("a"))
    chains = [[CreateWrite(config_map(f"many-{number:03}"))] for number in range(400)]
    writing = threading.Thread(target=cluster.write_all, args=(chains,))
    writing.start()
    soon(lambda: len(other.list("ConfigMap", "default")) > 5)
    cluster.event(about, "Normal", "Scheduled", "it can wait")
    writing.join()
    soon(lambda: any(one["reason"] == "Scheduled" for one in other.list("Event", "default")))
    event = next(one for one in other.list("Event", "default") if one["reason"] == "Scheduled")
    maps = [one for one in other.list("ConfigMap", "default") if one["metadata"]["name"].startswith("many-")]
    assert len(maps) == 400
    assert int(event["metadata"]["resourceVersion"]) > max(int(one["metadata"]["resourceVersion"]) for one in maps)


def test_while_others_are_urgent_warnings_are_sent_and_hardly_anything_else(cluster, other, monkeypatch):
    monkeypatch.setattr(eventwriter, "MOST_HELD_SECONDS", 0.0)
    monkeypatch.setattr(eventwriter, "REST", 1e9)
    about = other.create(pod("a"))
    names = [f"busy-{number:02}" for number in range(20)]
    cluster.write_all([[CreateWrite(config_map(name))] for name in names])
    ended = threading.Event()

    def write() -> None:
        rounds = count()
        while not ended.is_set():
            data = {"data": {"round": str(next(rounds))}}
            cluster.write_all([[PatchWrite("ConfigMap", name, "default", data)] for name in names])

    def told(type: str) -> int:
        uid = about["metadata"]["uid"]
        found = (one for one in other.list("Event", "default") if one["involvedObject"].get("uid") == uid)
        return sum(one["type"] == type for one in found)

    writing = threading.Thread(target=write)
    writing.start()
    try:
        soon(lambda: bool(other.get("ConfigMap", names[0], "default").get("data")))
        for number in range(10):
            cluster.event(about, "Normal", "Scheduled", f"it can wait, {number}")
            cluster.event(about, "Warning", "Unschedulable", f"no room, {number}")
        soon(lambda: told("Warning") == 10)
        assert told("Normal") <= eventwriter.AT_ONCE
    finally:
        ended.set()
        writing.join()
    soon(lambda: told("Normal") == 10)
