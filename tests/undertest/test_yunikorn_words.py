"""KAI's words in those of YuniKorn, as its documents use them (partition and queue configuration, gang scheduling, preemption)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from kailab.cluster.protocol import Object
from kailab.lab import Lab
from kailab.undertest.contract import NotExpressible
from kailab.undertest.naming import chosen
from tests.undertest.translated import EXERCISES, said

YUNIKORN = chosen("yunikorn")


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


def test_the_tree_is_said_as_it_is(lab: Lab) -> None:
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
def test_what_it_has_no_words_for(lab: Lab, paths: list[str], concept: str, about: str) -> None:
    with pytest.raises(NotExpressible, match=f"^{about}: not expressible for yunikorn, which has no {concept}"):
        said(YUNIKORN, lab, *paths)


def test_what_its_conditions_say() -> None:
    over = "Request 'x' does not fit in queue 'root.org.team-a' (requested map[nvidia.com/gpu:1], available map[])"
    assert YUNIKORN.code(over) == "OverLimit"
    assert YUNIKORN.code("request is waiting for cluster resources become available") == ""
