"""A busy service with many waiting PodGroups says seldom why they wait, and decides the same."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.scheduler import loop

EVERY = 5.0


@pytest.fixture
def busy(lab: Any, build: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A lab with 16 GPUs of which 20 pods want one each; more than one waiting PodGroup counts as many."""
    monkeypatch.setattr(loop, "MANY_WAIT", 1)
    lab.apply(*build.team())
    lab.fill(20)
    lab.restart(reasons_every=EVERY)
    return lab


def step(lab: Any) -> bool:
    lab.grouper.step()
    return bool(lab.scheduler.step())


def waiting(record: Any) -> set[str]:
    return {record.podgroups[entry.podgroup] for entry in record.decisions.pending}


def test_reasons_wait_until_nothing_changes(busy: Any, build: Any) -> None:
    step(busy)
    first = waiting(busy.records[-1])
    assert len(first) == 4
    # The binds of the first cycle, and a new pod, are a change; why it waits is left for later.
    busy.apply(build.pod("new", 1, "team"))
    step(busy)
    assert waiting(busy.records[-1]) == first
    assert not busy.events("new")
    step(busy)
    assert len(waiting(busy.records[-1])) == len(first) + 1
    assert busy.condition("new")["reason"] == "Unschedulable"


def test_reasons_are_told_at_the_latest_after_some_seconds(busy: Any, build: Any) -> None:
    step(busy)
    for number in range(int(EVERY)):
        busy.cluster.advance(1)
        busy.apply(build.pod(f"new-{number}", 1, "team"))
        assert not busy.condition("new-0")
        step(busy)
    assert busy.condition("new-0")["reason"] == "Unschedulable"


def test_what_was_served_is_no_longer_said_to_wait(busy: Any) -> None:
    step(busy)
    told = waiting(busy.records[-1])
    busy.cluster.advance(1)
    busy.cluster.delete("Pod", busy.running()[0], "default")
    step(busy)
    record = busy.records[-1]
    (bind,) = record.decisions.binds
    assert waiting(record) == told - {record.podgroups[bind.podgroup]}


def test_reasons_can_be_asked_for_without_being_written(build: Any) -> None:
    asked, told = build.lab(), build.lab()
    asked.scheduler.reasons_when_asked()
    for lab in (asked, told):
        lab.apply(*build.team(), build.queue("limited", "org", build.share(limit=1)))
        lab.fill(20)
        lab.fill(2, "few", "limited")
        lab.apply(build.pod("wide", 100, "team"))
        lab.settle()
    version = asked.cluster.version
    reasons = asked.scheduler.reasons()
    assert asked.cluster.version == version
    written = {}
    for group in told.cluster.list("PodGroup"):
        for condition in (group.get("status") or {}).get("schedulingConditions") or ():
            written[group["metadata"]["name"]] = [(one["reason"], one["message"]) for one in condition["reasons"]]
    uids = {group["metadata"]["name"]: group["metadata"]["uid"] for group in asked.cluster.list("PodGroup")}
    assert {name: [reasons[uid]] for name, uid in uids.items() if uid in reasons} == written
    assert {reason for [(reason, _)] in written.values()} == {"PodSchedulingErrors", "OverLimit"}
    assert not any("schedulingConditions" in group["status"] for group in asked.cluster.list("PodGroup"))
    assert not [event for event in asked.cluster.list("Event") if event["reason"] == "Unschedulable"]
