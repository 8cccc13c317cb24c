"""KAI's words in those of YuniKorn, as its documents use them (partition and queue configuration, gang scheduling, preemption)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.evidence.entries import PodEvicted
from kailab.evidence.observed_decisions import DecisionObserver
from kailab.lab import Lab
from kailab.undertest.contract import EvictionCondition, EvictionReason, NotExpressible
from kailab.undertest.selection import choose_scheduler
from kailab.undertest.yunikorn import PreemptionLog
from tests.undertest.translated import EXERCISES, said

YUNIKORN = choose_scheduler("yunikorn")


def configured(objects: list[Object]) -> dict[str, Any]:
    """``queues.yaml`` of the one ConfigMap: its partition."""
    (found,) = (obj for obj in objects if obj["kind"] == "ConfigMap")
    assert (found["metadata"]["namespace"], found["metadata"]["name"]) == ("yunikorn", "yunikorn-configs")
    (partition,) = yaml.safe_load(found["data"]["queues.yaml"])["partitions"]
    assert isinstance(partition, dict)
    return partition


def queue(objects: list[Object], *names: str) -> dict[str, Any]:
    """A queue by its way down from the root."""
    (found,) = configured(objects)["queues"]
    for name in names:
        (found,) = (one for one in found["queues"] if one["name"] == name)
    assert isinstance(found, dict)
    return found


def notes(objects: list[Object], kind: str) -> dict[str, str]:
    """What is noted on the pods of the one workload of a kind."""
    (found,) = (obj for obj in objects if obj["kind"] == kind)
    template = found["spec"]["template"]
    assert template["spec"]["schedulerName"] == "yunikorn"
    annotations: dict[str, str] = template["metadata"]["annotations"]
    return annotations


def test_the_tree_of_queues_is_translated_as_it_is(lab: Lab) -> None:
    """quota -> guaranteed; limit -> max. What has no bound is not named."""
    objects = said(YUNIKORN, lab, "reclaim/manifests/queues-departments.yaml")
    assert queue(objects)["name"] == "root"
    assert [one["name"] for one in queue(objects)["queues"]] == ["dept-1", "dept-2"]
    assert queue(objects, "dept-1")["resources"] == {"guaranteed": {"nvidia.com/gpu": "16"}}
    assert queue(objects, "dept-1", "team-a")["resources"] == {"guaranteed": {"nvidia.com/gpu": "8"}}


def test_kais_queues_stay_and_the_configuration_comes_behind_the_last(lab: Lab) -> None:
    assert [obj["kind"] for obj in said(YUNIKORN, lab, "borrow/manifests/queues.yaml")] == [
        "Queue",
        "Queue",
        "Queue",
        "ConfigMap",
    ]


def test_the_configuration_is_always_that_of_all_queues(lab: Lab) -> None:
    """Those that are there are named again with those that are added."""
    lab.apply(EXERCISES / "quota/manifests/queues.yaml")
    added = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "team-c"},
        "spec": {"parentQueue": "org"},
    }
    (became,) = YUNIKORN.translate([added], lab.cluster)
    assert [one["name"] for one in queue(list(became), "org")["queues"]] == ["team-a", "team-b", "team-c"]
    # Without resources its limit is 0, as with KAI. YuniKorn ignores a max of zeros alone, so pods are named beside them.
    assert queue(list(became), "org", "team-c")["resources"]["max"] == {
        "nvidia.com/gpu": "0",
        "vcore": "0",
        "memory": "0",
        "pods": "1000000",
    }


def test_a_limit_is_a_max_and_no_more_than_that_of_the_parent(lab: Lab) -> None:
    objects = said(YUNIKORN, lab, "borrow/manifests/queues-trap.yaml")
    assert queue(objects, "org", "team-a")["resources"]["max"] == {"nvidia.com/gpu": "16"}
    limited = said(YUNIKORN, lab, "quota/manifests/queues-limited-parent.yaml")
    assert queue(limited, "org")["resources"]["max"] == {"nvidia.com/gpu": "12"}
    assert "max" not in queue(limited, "org", "team-a")["resources"]


def test_priorities_count_within_a_queue_and_those_of_queues_between_them(lab: Lab) -> None:
    """A priority of a queue is an offset; 100 is KAI's default."""
    objects = said(YUNIKORN, lab, "borrow/manifests/queues-priority.yaml")
    properties = {name: queue(objects, "org", name)["properties"] for name in ("team-a", "team-b")}
    assert {name: one["priority.offset"] for name, one in properties.items()} == {"team-a": "100", "team-b": "0"}
    assert {one["priority.policy"] for one in properties.values()} == {"fence"}
    assert {one["preemption.delay"] for one in properties.values()} == {"1s"}


def test_work_is_an_application_in_a_queue(lab: Lab) -> None:
    objects = said(YUNIKORN, lab, "borrow/manifests/queues.yaml", "borrow/manifests/a-train.yaml")
    assert notes(objects, "Job") == {
        "yunikorn.apache.org/app-id": "job-a-train",
        "yunikorn.apache.org/queue": "root.org.team-a",
    }
    (job,) = (obj for obj in objects if obj["kind"] == "Job")
    assert job["spec"]["template"]["spec"]["priorityClassName"] == "train"


def test_work_that_is_not_to_be_preempted_says_so(lab: Lab) -> None:
    objects = said(YUNIKORN, lab, "borrow/manifests/queues.yaml", "borrow/manifests/plain-deployment.yaml")
    assert notes(objects, "Deployment")["yunikorn.apache.org/allow-preemption"] == "false"


def test_a_gang_is_a_task_group(lab: Lab) -> None:
    """Of placeholders as large as its pods, which may go where those may go; hard: all of them or none."""
    objects = said(YUNIKORN, lab, "gang/manifests/queues.yaml", "gang/manifests/gang-of-10.yaml")
    found = notes(objects, "Job")
    assert found["yunikorn.apache.org/schedulingPolicyParameters"] == "gangSchedulingStyle=Hard"
    (group,) = json.loads(found["yunikorn.apache.org/task-groups"])
    assert found["yunikorn.apache.org/task-group-name"] == group["name"] == "workers"
    assert (group["minMember"], group["minResource"]) == (10, {"cpu": "100m", "nvidia.com/gpu": "1"})
    assert group["tolerations"] == [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]


def test_pods_that_name_a_group_are_one_application(lab: Lab) -> None:
    objects = said(YUNIKORN, lab, "gang/manifests/queues.yaml", "gang/manifests/ring.yaml")
    pods = [obj["metadata"]["annotations"] for obj in objects if obj["kind"] == "Pod"]
    assert {pod["yunikorn.apache.org/app-id"] for pod in pods} == {"ring"}
    assert {json.loads(pod["yunikorn.apache.org/task-groups"])[0]["minMember"] for pod in pods} == {4}


@pytest.mark.parametrize(
    ("paths", "concept", "about"),
    [
        (["borrow/manifests/queues-weights.yaml"], "weight for what is over the quota", "Queue/team-a"),
        (["reclaim/manifests/queues-protected.yaml"], "minimum run time", "Queue/team-a"),
        (
            ["quota/manifests/queues-small-parent.yaml"],
            "queue whose quota is less than that of those below it",
            "Queue/org",
        ),
        (
            ["quota/manifests/queues.yaml", "quota/manifests/lost.yaml"],
            r"work in a queue that there is not \(default-queue\)",
            "Pod/no-label",
        ),
    ],
)
def test_concepts_that_it_lacks_are_refused(lab: Lab, paths: list[str], concept: str, about: str) -> None:
    with pytest.raises(NotExpressible, match=f"^{about}: not expressible for yunikorn, which has no {concept}"):
        said(YUNIKORN, lab, *paths)


def test_its_conditions_are_parsed() -> None:
    over = "Request 'x' does not fit in queue 'root.org.team-a' (requested map[nvidia.com/gpu:1], available map[])"
    assert YUNIKORN.code(over) == "OverLimit"
    assert YUNIKORN.code("request is waiting for cluster resources become available") == ""


# Why pods go under YuniKorn, by the log of its events as its REST server shows it.

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


def test_a_preempted_pod_is_reported_with_the_queue_of_the_preemptor() -> None:
    log = Log()
    log.say("x", "Request 'x' does not fit in queue 'root.org.team-b'")
    log.say("a", PREEMPTED)
    log.say("c", "Preempted by Quota change enforcement process in root.org.team-a")
    found = PreemptionLog(log)([leaving("a"), leaving("b"), leaving("c"), {"metadata": {"uid": "x"}}])
    assert found == {
        "a": EvictionReason(PREEMPTED, EvictionCondition("reclaim", "", "team-b")),
        "c": EvictionReason(
            "Preempted by Quota change enforcement process in root.org.team-a",
            EvictionCondition("preempt", "", "team-a"),
        ),
    }


def test_within_a_queue_it_is_no_reclaim() -> None:
    log = Log()
    log.say("a", PREEMPTED)
    assert PreemptionLog(log)([leaving("a", "root.org.team-b")])["a"].condition == EvictionCondition(
        "preempt", "", "team-b"
    )


def test_each_entry_of_the_log_is_read_once() -> None:
    log = Log(most=2)
    for uid in "abcde":
        log.say(uid, PREEMPTED)
    preemptions = PreemptionLog(log)
    assert len(preemptions([leaving(uid) for uid in "abcde"])) == 5
    asked = log.asked
    assert preemptions([leaving("e")])  # it is known
    assert not preemptions([{"metadata": {"uid": "f"}}])  # it does not leave
    assert log.asked == asked
    log.say("f", PREEMPTED)
    assert list(preemptions([leaving("f")])) == ["f"]


def test_a_log_without_its_oldest_entries_is_read_from_the_first_one_left() -> None:
    log = Log()
    for uid in "abc":
        log.say(uid, PREEMPTED)
    log.lowest = 2
    assert list(PreemptionLog(log)([leaving(uid) for uid in "abc"])) == ["c"]


def test_another_process_has_another_log() -> None:
    log = Log()
    log.say("a", PREEMPTED)
    preemptions = PreemptionLog(log)
    assert preemptions([leaving("a")])
    log.records, log.instance = [], "two"
    log.say("b", PREEMPTED)
    assert list(preemptions([leaving("b")])) == ["b"]


def test_without_an_answer_nothing_is_known() -> None:
    log = Log()
    log.down = True
    assert PreemptionLog(log)([leaving("a")]) == {}


def test_the_decision_log_has_it() -> None:
    log, cluster = Log(), EmbeddedCluster()
    reader = DecisionObserver(cluster, cluster.now(), choose_scheduler("yunikorn").eviction, PreemptionLog(log))
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
