"""A lab in a cluster of somebody else's: it brings in what it marks, and takes out only that."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from kailab.errors import InputError, KailabError, NotFound
from kailab.lab import Lab, expect
from kailab.lab.venues.kubernetes import MARK, clear_lab

pytestmark = pytest.mark.slow

THEIRS = [
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "theirs", "namespace": "default"},
        "data": {"a": "b"},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "theirs", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"containers": [{"name": "main", "image": "main"}]},
            },
        },
    },
]
QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: org}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: org, resources: {gpu: {quota: 8, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
"""
WORK = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: work}
spec:
  replicas: 3
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work, kai.scheduler/queue: team}}
    spec:
      schedulerName: kai-scheduler
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
      containers: [{name: main, image: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


@pytest.fixture(scope="module")
def plane(components, tmp_path_factory):
    plane = ControlPlane.up(tmp_path_factory.mktemp("foreign"), components)
    yield plane
    plane.down()


@pytest.fixture
def owner(plane):
    """Whose cluster it is."""
    cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "theirs")
    for obj in THEIRS:
        cluster.apply(obj)

    def made() -> bool:  # what the cluster's own controllers make of it
        known = {obj["metadata"]["name"] for obj in cluster.list("ConfigMap", "default")}
        return "kube-root-ca.crt" in known and bool(cluster.list("Pod", "default", {"app": "theirs"}))

    assert wait_until(made, 300)
    yield cluster
    cluster.delete("Deployment", "theirs", "default")
    cluster.close()


def test_it_takes_out_what_it_brought_in_and_nothing_else(plane, owner):
    kinds = ("ConfigMap", "Deployment", "ReplicaSet", "PriorityClass", "Namespace", "CustomResourceDefinition")
    before = {kind: {obj["metadata"]["name"] for obj in owner.list(kind)} for kind in kinds}
    with Lab.open("lesson", backend="kubeconfig", kubeconfig=plane.kubeconfig) as lab:
        lab.apply(QUEUES, WORK)
        expect(lab.deployment("work")).running(pods=3)
        ours = [*owner.list("Node"), *owner.list("Queue"), owner.get("Deployment", "work", "default")]
        assert {len(obj["metadata"]["labels"][MARK]) for obj in ours} == {12}
        keys = [{taint["key"] for taint in node["spec"].get("taints") or ()} for node in owner.list("Node")]
        assert all("kwok.x-k8s.io/node" in of_one for of_one in keys)  # their real work keeps off
        assert MARK not in (owner.get("Deployment", "theirs", "default")["metadata"].get("labels") or {})
    assert {kind: {obj["metadata"]["name"] for obj in owner.list(kind)} for kind in kinds} == before
    assert owner.list("Node") == []
    assert [pod["metadata"]["labels"]["app"] for pod in owner.list("Pod", "default")] == ["theirs"]


STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: main, image: main}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def test_claims_of_its_stateful_sets_go_with_it_and_no_others(plane, owner):
    theirs = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-theirs-0", "namespace": "default", "labels": {"app": "db"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    owner.apply(theirs)

    def claims() -> set[str]:
        return {claim["metadata"]["name"] for claim in owner.list("PersistentVolumeClaim")}

    with Lab.open("lesson", backend="kubeconfig", kubeconfig=plane.kubeconfig) as lab:
        lab.apply(STATEFUL)
        assert wait_until(lambda: "data-db-0" in claims(), 300)
    assert claims() == {"data-theirs-0"}
    owner.delete("PersistentVolumeClaim", "data-theirs-0", "default")


def test_a_node_that_is_theirs_is_not_taken_over(plane, owner):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a100-0"}, "status": {}}
    owner.apply(node)
    try:
        with pytest.raises(InputError, match="node 'a100-0' that does not belong to this lab"):
            Lab.open("lesson", backend="kubeconfig", kubeconfig=plane.kubeconfig)
        assert MARK not in (owner.get("Node", "a100-0")["metadata"].get("labels") or {})
        assert len(owner.list("Node")) == 1
    finally:
        owner.delete("Node", "a100-0")


def test_objects_that_a_finalizer_holds_are_waited_for(plane, owner):
    """The next lab would change what is about to go, and then not find it."""
    held = {"name": "held", "namespace": "default", "labels": {MARK: "some-lab"}, "finalizers": ["kailab.dev/test"]}
    owner.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    other = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "clearing")
    with ThreadPoolExecutor(1) as pool:
        cleared = pool.submit(clear_lab, other, "some-lab", kinds=("ConfigMap",))
        assert wait_until(lambda: "deletionTimestamp" in owner.get("ConfigMap", "held", "default")["metadata"], 300)
        assert not wait_until(cleared.done, 1)
        owner.patch("ConfigMap", "held", "default", {"metadata": {"finalizers": None}})
        cleared.result(timeout=300)
    other.close()
    with pytest.raises(NotFound):
        owner.get("ConfigMap", "held", "default")


QUEUES_OF_ANOTHER = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.scheduling.volcano.sh"},
    "spec": {
        "group": "scheduling.volcano.sh",
        "scope": "Cluster",
        "names": {"kind": "Queue", "plural": "queues", "singular": "queue"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_queues_of_another_scheduler_outlast_their_pods(plane, owner):
    """Volcano's scheduler panics where a queue is gone whose pods are still there."""
    kind, mark = "Queue.scheduling.volcano.sh", {MARK: "some-lab"}
    owner.apply(QUEUES_OF_ANOTHER)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q", "labels": mark}}
    held = {"name": "held", "namespace": "default", "labels": mark, "finalizers": ["kailab.dev/test"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": held, "spec": {"containers": [{"name": "c", "image": "c"}]}}

    def served() -> bool:
        try:
            owner.apply(queue)
        except KailabError:
            return False
        return True

    assert wait_until(served, 300)
    owner.apply(pod)
    other = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig), "clearing")
    with ThreadPoolExecutor(1) as pool:
        cleared = pool.submit(clear_lab, other, "some-lab", kinds=("Pod", kind))
        assert wait_until(lambda: "deletionTimestamp" in owner.get("Pod", "held", "default")["metadata"], 300)
        assert [one["metadata"].get("deletionTimestamp") for one in owner.list(kind)] == [None]
        owner.patch("Pod", "held", "default", {"metadata": {"finalizers": None}})
        cleared.result(timeout=300)
    other.close()
    assert owner.list(kind) == []
    owner.delete("CustomResourceDefinition", "queues.scheduling.volcano.sh")


LONG = """
import time

def test_that_takes_long(lab):
    time.sleep(3000)
"""


def test_a_session_that_is_told_to_end_takes_out_what_it_brought_in(plane, owner, tmp_path):
    (tmp_path / "test_long.py").write_text(LONG)
    where = ["--kailab-backend", "kubeconfig", "--kailab-kubeconfig", plane.kubeconfig, "--kailab-evidence", "off"]
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tmp_path, *where],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert wait_until(lambda: len(owner.list("Node")) == 5, 300)
    session.send_signal(signal.SIGTERM)
    told, _ = session.communicate(timeout=300)
    assert "KeyboardInterrupt" in told
    assert session.returncode == 2
    assert owner.list("Node") == []
