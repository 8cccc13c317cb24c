"""Deployment, ReplicaSet, StatefulSet, DaemonSet: pods as many as wanted, replaced when lost, reported in status."""

from __future__ import annotations

import re

import pytest

from kailab.errors import Invalid
from kailab.workloads.apps import node_of_daemon_pod


def test_deployment_makes_a_replica_set_and_its_pods(world):
    world.replicated("Deployment", 3)
    world.settle()
    (replica_set,) = world.cluster.list("ReplicaSet")
    digest = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"a-{digest}"
    assert replica_set["spec"]["selector"]["matchLabels"] == {"app": "a", "pod-template-hash": digest}
    pods = world.pods(app="a")
    assert len(pods) == 3
    for pod in pods:
        assert re.fullmatch(rf"a-{digest}-[bcdfghjklmnpqrstvwxz2456789]{{5}}", pod["metadata"]["name"])
        assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        assert pod["metadata"]["ownerReferences"][0]["controller"] is True
    status = world.get("Deployment")["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
    assert world.conditions("Deployment") == {"Available": "True", "Progressing": "True"}


def test_unready_deployment_says_so(world):
    world.replicated("Deployment", 4)
    world.settle(bind=False)
    assert world.conditions("Deployment")["Available"] == "False"
    assert world.get("Deployment")["status"]["unavailableReplicas"] == 4


def test_evicted_pod_is_replaced_at_once_under_a_new_name(world):
    world.replicated("Deployment", 2)
    world.settle()
    before = world.names()
    world.cluster.evict("default", before[0], "Preempted", "for somebody else")
    world.step()
    assert len(world.names()) == 3, "the replacement does not wait for the pod to be gone"
    world.settle()
    after = world.names()
    assert len(after) == 2
    assert before[0] not in after
    assert before[1] in after


def test_scaling_down_takes_unplaced_pods_first(world):
    world.replicated("Deployment", 2)
    world.settle()
    placed = set(world.names())
    world.cluster.patch("Deployment", "a", "default", {"spec": {"replicas": 4}})
    world.settle(bind=False)
    assert len(world.names()) == 4
    world.cluster.patch("Deployment", "a", "default", {"spec": {"replicas": 2}})
    world.settle(bind=False)
    assert set(world.names()) == placed


def test_new_template_rolls_over_without_going_below_the_minimum(world):
    world.replicated("Deployment", 4)
    world.settle()
    least = []
    world.cluster.patch(
        "Deployment", "a", "default", {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    )
    for _ in range(60):
        world.step()
        for pod in world.pods():
            if not pod["spec"].get("nodeName"):
                world.cluster.bind("default", pod["metadata"]["name"], "n0")
        due = world.cluster.next_prompt()
        ready = [
            p for p in world.pods() if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]
        ]
        least.append(len(ready))
        if due is None:
            break
        world.cluster.advance_to(due)
    world.settle()
    assert min(least) >= 3, "25 % of 4 may be missing"
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"new"}
    assert len(world.pods()) == 4
    assert world.get("Deployment")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert sorted(rs["spec"]["replicas"] for rs in world.cluster.list("ReplicaSet")) == [0, 4]


def test_recreate_ends_all_old_pods_first(world):
    world.replicated("Deployment", 2, strategy={"type": "Recreate"})
    world.settle()
    world.cluster.patch("Deployment", "a", "default", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
    world.step()
    assert len(world.pods(v="2")) == 0
    world.settle()
    assert len(world.pods(v="2")) == len(world.pods()) == 2


def test_deleting_a_deployment_takes_everything(world):
    world.replicated("Deployment", 3)
    world.settle()
    world.cluster.delete("Deployment", "a", "default")
    world.settle()
    assert world.pods() == []
    assert world.cluster.list("ReplicaSet") == []


def test_stateful_set_starts_one_after_the_other(world):
    world.replicated("StatefulSet", 3, serviceName="a")
    world.step()
    assert world.names() == ["a-0"]
    world.settle()
    assert world.names() == ["a-0", "a-1", "a-2"]
    started = [pod["status"]["startTime"] for pod in world.pods()]
    assert started == sorted(set(started))
    assert world.pods()[1]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "1"
    assert world.get("StatefulSet")["status"]["readyReplicas"] == 3


def test_stateful_set_in_parallel(world):
    world.replicated("StatefulSet", 3, podManagementPolicy="Parallel")
    world.step()
    assert world.names() == ["a-0", "a-1", "a-2"]


def test_stateful_set_keeps_names_of_evicted_pods_and_shrinks_from_the_top(world):
    world.replicated("StatefulSet", 3)
    world.settle()
    uid = world.pods()[1]["metadata"]["uid"]
    world.cluster.evict("default", "a-1", "Preempted", "")
    world.settle()
    assert world.names() == ["a-0", "a-1", "a-2"]
    assert world.pods()[1]["metadata"]["uid"] != uid
    world.cluster.patch("StatefulSet", "a", "default", {"spec": {"replicas": 1}})
    world.settle()
    assert world.names() == ["a-0"]


def test_stateful_set_updates_from_the_top(world):
    world.replicated("StatefulSet", 2)
    world.settle()
    world.cluster.patch("StatefulSet", "a", "default", {"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}})
    world.step()
    assert "deletionTimestamp" in world.pods()[1]["metadata"]
    assert "deletionTimestamp" not in world.pods()[0]["metadata"]
    world.settle()
    assert world.names(v="2") == ["a-0", "a-1"]


def test_stateful_set_claims_outlive_its_pods(world):
    claims = [{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}]
    world.replicated("StatefulSet", 1, volumeClaimTemplates=claims)
    world.settle()
    assert world.pods()[0]["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-a-0"}}]
    world.cluster.delete("StatefulSet", "a", "default")
    world.settle()
    assert [c["metadata"]["name"] for c in world.cluster.list("PersistentVolumeClaim")] == ["data-a-0"]


def test_daemon_set_follows_the_nodes(world):
    world.cluster.create({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "tainted"},
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    })  # fmt: skip
    world.replicated("DaemonSet")
    world.step()
    wanted = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for pod in world.pods()
    ]
    assert sorted(terms[0]["matchFields"][0]["values"][0] for terms in wanted) == ["n0", "n1"]
    world.node("n2")
    world.step()
    assert len(world.pods()) == 3
    world.cluster.delete("Node", "n2")
    world.step()
    assert len(world.pods()) == 2
    assert world.get("DaemonSet")["status"]["desiredNumberScheduled"] == 2


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n1"},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n0"]}]}
        ]}}}},
    ],
)  # fmt: skip
def test_daemon_set_runs_only_on_the_nodes_that_its_template_names(world, spec):
    world.replicated("DaemonSet", template=world.template(**spec))
    world.step()
    assert [node_of_daemon_pod(pod) for pod in world.pods()] == ["n1"]
    world.step()
    assert world.get("DaemonSet")["status"]["desiredNumberScheduled"] == 1


def test_daemon_set_replaces_failed_pods(world):
    world.replicated("DaemonSet")
    world.step()
    for pod in world.pods():
        affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        node = affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
        world.cluster.bind("default", pod["metadata"]["name"], node)
    world.settle()
    victim = world.pods()[0]
    world.cluster.delete("Pod", victim["metadata"]["name"], "default")
    world.settle(bind=False)
    assert len(world.pods()) == 2
    assert victim["metadata"]["name"] not in world.names()


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_refused_pod_is_told_and_made_once_it_can_be(world, kind):
    pod = world.template(priorityClassName="urgent")
    world.replicated(kind, 1, template=pod)
    world.settle()
    assert world.pods() == []
    (event,) = [e for e in world.cluster.list("Event") if e["reason"] == "FailedCreate"]
    assert "urgent" in event["message"]
    world.cluster.create(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    )
    world.settle()
    assert [pod["spec"]["priority"] for pod in world.pods()] == [7]


def test_a_replication_controller_makes_its_pods(world):
    world.add("v1", "ReplicationController", {"replicas": 2, "selector": {"app": "a"}, "template": world.template()})
    world.settle()
    assert len(world.pods(app="a")) == 2
    status = world.get("ReplicationController")["status"]
    assert (status["replicas"], status["readyReplicas"]) == (2, 2)
    world.cluster.evict("default", world.names()[0], "Preempted", "")
    world.cluster.patch("ReplicationController", "a", "default", {"spec": {"replicas": 3}})
    world.settle()
    assert len([pod for pod in world.pods() if pod["status"]["phase"] == "Running"]) == 3
    world.cluster.delete("ReplicationController", "a", "default")
    world.settle()
    assert world.pods() == []


@pytest.mark.parametrize(
    ("selector", "told"), [({"app": "b"}, "does not match the labels"), ({"app": "a", "x": "y"}, "does not match the labels"), (None, "")]
)  # fmt: skip
def test_the_selector_of_a_replication_controller_selects_its_pods(world, selector, told):
    spec = {"replicas": 1, "template": world.template(), **({"selector": selector} if selector else {})}
    if told:
        with pytest.raises(Invalid, match=told):
            world.add("v1", "ReplicationController", spec)
    else:
        world.add("v1", "ReplicationController", spec)
        world.settle()
        assert len(world.pods()) == 1


def test_the_status_of_a_budget_follows_its_pods(world):
    selector = {"matchLabels": {"app": "a"}}
    world.add("policy/v1", "PodDisruptionBudget", {"maxUnavailable": 1, "selector": selector})
    world.replicated("Deployment", 3)
    world.settle()
    status = world.cluster.get("PodDisruptionBudget", "a", "default")["status"]
    assert (status["currentHealthy"], status["desiredHealthy"], status["disruptionsAllowed"]) == (3, 2, 1)
    assert world.conditions("PodDisruptionBudget")["DisruptionAllowed"] == "True"
    world.cluster.patch("Deployment", "a", "default", {"spec": {"replicas": 1}})
    world.pass_time(60)
    status = world.cluster.get("PodDisruptionBudget", "a", "default")["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (1, 1, 0)
