"""Why pods go under YuniKorn, by the log of its events as its REST server shows it."""

from __future__ import annotations

import json
import re
from typing import Any

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.evidence.entries import PodEvicted
from kailab.evidence.observed_decisions import DecisionObserver
from kailab.undertest.contract import Stop, Told
from kailab.undertest.naming import chosen
from kailab.undertest.yunikorn.preemptions import Preemptions

PREEMPTED = "Preempted by 1-2-3 from application job-b in root.org.team-b"


class Log:
    """As ``/ws/v1/events/batch`` answers: from a number on, so many at most."""

    def __init__(self, most: int = 1000) -> None:
        self.records: list[dict[str, Any]] = []
        self.instance, self.lowest, self.most, self.asked = "one", 0, most, 0
        self.down = False

    def say(self, uid: str, message: str) -> None:
        self.records.append({"type": 1, "objectID": uid, "message": message, "referenceID": "job-a"})

    def __call__(self, url: str) -> tuple[str, str | None]:
        self.asked += 1
        if self.down:
            return "", "does not answer"
        start = int(re.fullmatch(r"http://127\.0\.0\.1:9080/ws/v1/events/batch\?start=(\d+)", url)[1])  # type: ignore[index]
        shown = self.records[start : start + self.most] if start >= self.lowest else []
        # Go says null for a list without elements.
        told = {
            "InstanceUUID": self.instance, "LowestID": self.lowest, "HighestID": len(self.records),
            "EventRecords": shown or None,
        }  # fmt: skip
        return json.dumps(told), None


def leaving(uid: str, queue: str = "root.org.team-a") -> Object:
    notes = {"yunikorn.apache.org/queue": queue}
    return {"metadata": {"name": uid, "uid": uid, "deletionTimestamp": "2026-01-01T00:00:00Z", "annotations": notes}}


def test_what_was_preempted_is_told_with_the_queue_that_it_was_for() -> None:
    log = Log()
    log.say("x", "Request 'x' does not fit in queue 'root.org.team-b'")
    log.say("a", PREEMPTED)
    log.say("c", "Preempted by Quota change enforcement process in root.org.team-a")
    found = Preemptions(log)([leaving("a"), leaving("b"), leaving("c"), {"metadata": {"uid": "x"}}])
    assert found == {
        "a": Stop(PREEMPTED, Told("reclaim", "", "team-b")),
        "c": Stop("Preempted by Quota change enforcement process in root.org.team-a", Told("preempt", "", "team-a")),
    }


def test_within_a_queue_it_is_no_reclaim() -> None:
    log = Log()
    log.say("a", PREEMPTED)
    assert Preemptions(log)([leaving("a", "root.org.team-b")])["a"].told == Told("preempt", "", "team-b")


def test_the_log_is_read_on_from_where_it_was_read_to() -> None:
    log = Log(most=2)
    for uid in "abcde":
        log.say(uid, PREEMPTED)
    preemptions = Preemptions(log)
    assert len(preemptions([leaving(uid) for uid in "abcde"])) == 5
    asked = log.asked
    assert preemptions([leaving("e")])  # it is known
    assert not preemptions([{"metadata": {"uid": "f"}}])  # it does not leave
    assert log.asked == asked
    log.say("f", PREEMPTED)
    assert list(preemptions([leaving("f")])) == ["f"]


def test_a_log_that_has_lost_its_beginning_is_read_from_what_is_left() -> None:
    log = Log()
    for uid in "abc":
        log.say(uid, PREEMPTED)
    log.lowest = 2
    assert list(Preemptions(log)([leaving(uid) for uid in "abc"])) == ["c"]


def test_another_process_has_another_log() -> None:
    log = Log()
    log.say("a", PREEMPTED)
    preemptions = Preemptions(log)
    assert preemptions([leaving("a")])
    log.records, log.instance = [], "two"
    log.say("b", PREEMPTED)
    assert list(preemptions([leaving("b")])) == ["b"]


def test_where_nobody_answers_nothing_is_known() -> None:
    log = Log()
    log.down = True
    assert Preemptions(log)([leaving("a")]) == {}


def test_the_decision_log_has_it() -> None:
    log, cluster = Log(), EmbeddedCluster()
    reader = DecisionObserver(cluster, cluster.now(), chosen("yunikorn").eviction, Preemptions(log))
    spec = {"containers": [{"name": "work", "image": "busybox"}]}
    for name in ("a", "b"):
        metadata = {
            "name": name, "namespace": "default", "labels": {"kai.scheduler/queue": "team-a"},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        }  # fmt: skip
        cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert reader.entries(1) == []
    log.say(cluster.get("Pod", "a", "default")["metadata"]["uid"], PREEMPTED)
    for name in ("a", "b"):
        cluster.delete("Pod", name, "default")
    (entry,) = reader.entries(2)
    assert isinstance(entry, PodEvicted)
    assert (entry.pod, entry.action, entry.beneficiary_queue, entry.reason) == (
        "default/a", "reclaim", "team-b", PREEMPTED,
    )  # fmt: skip
    assert reader.entries(3) == []
