"""``snapshot take`` and ``open``: a lab goes into a file and comes out of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kailab.model.kinds import KINDS


def test_a_lab_is_taken_and_opened(busy, home: Path, state: Path) -> None:
    before = busy("get", "pods", "-o", "wide").out
    why = busy("explain", "job", "train").out
    done = busy("snapshot", "take", "lab.snap")
    assert (done.code, "5 nodes, 32 GPUs" in done.out) == (0, True)
    assert busy("down").code == 0
    done = busy("open", "lab.snap")
    assert done.code == 0, done.err
    assert done.out == "lab.snap is open, a snapshot of 2026-01-01T00:00:01Z: 5 nodes, 32 GPUs, 20 pods\n"
    assert busy("get", "pods", "-o", "wide").out == before
    assert busy("explain", "job", "train").out == why
    assert busy("run", "--for", "1h").code == 0
    assert busy("get", "pods", "-o", "wide").out.count("Running") == 16
    assert busy("evidence", "capture").code == 0


def test_a_lab_that_is_up_is_kept(busy, state: Path) -> None:
    assert busy("snapshot", "take", "lab.snap").code == 0
    there = state.read_bytes()
    done = busy("open", "lab.snap")
    assert done.code == 2
    assert "a lab is up already" in done.err
    assert "--fresh" in done.err
    assert state.read_bytes() == there
    assert busy("open", "lab.snap", "--fresh").code == 0


def test_a_file_that_is_there_is_kept(busy, home: Path) -> None:
    (home / "lab.snap").write_text("mine")
    done = busy("snapshot", "take", "lab.snap")
    assert done.code == 2
    assert "lab.snap: exists already" in done.err
    assert (home / "lab.snap").read_text() == "mine"
    assert busy("snapshot", "take", "lab.snap", "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["open", "none.snap"], "none.snap: there is no such file or folder"),
        (["open", "notes"], "notes: can't be opened; expected a snapshot"),
        (["open", "notes", "--at", "last"], "--at: 'last' is not a time"),
        (["open", "notes", "t"], "a test is for evidence, a folder"),
        (["open", "notes", "--assume-runtime", "soon"], "--assume-runtime: "),
        (["snapshot", "take"], "no file is named"),
        (["snapshot", "take", "x.snap", "--kubeconfig", "none"], "none: there is no such kubeconfig"),
    ],
)
def test_bad_input_is_told(kailab, home: Path, state: Path, arguments: list[str], told: str) -> None:
    (home / "notes").write_text("nothing to open")
    done = kailab(*arguments)
    assert done.code == 2
    assert told in done.err
    assert not state.exists()


@pytest.mark.parametrize("command", [("snapshot", "take", "x.snap"), ("trace", "record", "x.csv", "--once")])
def test_without_a_lab_and_a_kubeconfig_both_are_asked_for(
    kailab, home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    done = kailab(*command)
    assert done.code == 2
    assert "no lab is here, and there is no kubeconfig nowhere; start a lab with `kailab up`" in done.err


def test_names_are_mapped_by_a_key(busy, home: Path) -> None:
    (home / "key").write_text("0123456789abcdef0123456789abcdef\n")
    assert busy("snapshot", "take", "other.snap", "--anonymise", "key").code == 0
    assert busy("open", "other.snap", "--fresh").code == 0
    pods, queues = busy("get", "pods", "-o", "wide").out, busy("get", "queues").out
    assert pods.count("Running") == 16
    assert "a100-0" not in pods
    assert "team-a" not in queues
    (home / "key").write_text("short")
    done = busy("snapshot", "take", "another.snap", "--anonymise", "key")
    assert (done.code, "a key has at least 16" in done.err) == (2, True)
    assert not (home / "another.snap").exists()


def test_the_rights_are_to_get_and_to_list(kailab) -> None:
    done = kailab("snapshot", "take", "--rights")
    role = yaml.safe_load(done.out)
    assert role["kind"] == "ClusterRole"
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list"}
    named = {(group, one) for rule in role["rules"] for group in rule["apiGroups"] for one in rule["resources"]}
    assert {
        ("", "pods"),
        ("scheduling.run.ai", "queues"),
        ("batch", "jobs"),
        ("resource.k8s.io", "resourceslices"),
    } <= named
    assert ("", KINDS["Secret"].plural) not in named


def test_kinds_whose_pods_are_not_replaced_are_told_at_opening(started, home: Path) -> None:
    book = "{apiVersion: workspace.devfile.io/v1alpha2, kind: DevWorkspace, metadata: {name: nb}, spec: {}}"
    started("apply", "-f", "-", input=book)
    started("snapshot", "take", "lab.snap")
    done = started("open", "lab.snap", "--fresh")
    assert done.code == 0, done.err
    assert "kailab makes no pods for DevWorkspace: their pods are not replaced when they are deleted\n" in done.err


def test_files_of_a_cluster_are_opened_with_manifests_beside_them(busy, home: Path) -> None:
    pods = busy("get", "pods", "-o", "wide").out
    (home / "nodes.yaml").write_text(busy("get", "nodes", "-o", "yaml").out)
    (home / "state.json").write_text(busy("get", "pods,podgroups,jobs,queues,priorityclasses", "-A", "-o", "json").out)
    (home / "queue.yaml").write_text(busy("get", "queue", "team-a", "-o", "yaml").out.replace("quota: 8", "quota: 12"))
    done = busy("open", "nodes.yaml", "state.json", "--fresh", "--at", "2026-01-01T00:01:00Z")
    assert done.code == 0, done.err
    assert done.out == "nodes.yaml state.json is open, a state of 2026-01-01T00:01:00Z: 5 nodes, 32 GPUs, 20 pods\n"
    assert "its default configuration is used" in done.err
    assert busy("get", "pods", "-o", "wide").out.split() == pods.replace("1s", "60s").split()
    (home / "broken.yaml").write_text("apiVersion: v1\nitems:\n- kind: Pod\n")
    done = busy("open", "nodes.yaml", "broken.yaml", "--fresh")
    assert (done.code, "broken.yaml" in done.err) == (2, True)
    done = busy("open", "nodes.yaml", "broken.yaml", "--fresh", "--partial")
    assert (done.code, "left out: broken.yaml" in done.err) == (0, True)


def test_a_lab_of_a_clusters_nodes_with_the_queues_of_kais_chart(busy, kailab, home: Path) -> None:
    (home / "nodes.yaml").write_text(busy("get", "nodes", "-o", "yaml").out)
    assert "32 GPUs on 5 nodes" in kailab("fleet", "validate", "nodes.yaml").out
    done = kailab("up", "--fresh", "--fleet", "nodes.yaml", "--at", "2025-06-01T00:00:00Z", "--default-queues")
    assert done.code == 0, done.err
    assert "2025-06-01T00:00:0" in kailab("status").out
    assert "default-parent-queue" in kailab("get", "queues").out
    assert kailab("up", "--fresh", "--at", "noon").code == 2
    assert "has real time" in kailab("up", "--fresh", "--backend", "kubeconfig", "--at", "2025-06-01T00:00:00Z").err


NODES_AND_WORK = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: gpu-1.corp, uid: n-1, creationTimestamp: "2026-01-01T00:00:00Z", labels: {corp/room: north}}
  spec: {podCIDR: 10.0.0.0/24, providerID: metal://1}
  status:
    allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}
    capacity: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}
    conditions: [{type: Ready, status: "True"}]
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: q, uid: q-1, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {resources: {gpu: {quota: 8, limit: -1, overQuotaWeight: 1}}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: p
    namespace: default
    uid: p-1
    creationTimestamp: "2026-01-01T00:00:00Z"
    labels: {kai.scheduler/queue: q}
    annotations: {pod-group-name: g}
  spec:
    schedulerName: kai-scheduler
    containers: [{name: main, image: train, resources: {limits: {nvidia.com/gpu: 1}}}]
  status: {phase: Pending}
- apiVersion: scheduling.run.ai/v2alpha2
  kind: PodGroup
  metadata: {name: g, namespace: default, uid: g-1, creationTimestamp: "2026-01-01T00:00:00Z"}
  spec: {minMember: 1, queue: q}
"""


def test_every_screen_shows_nodes_as_clusters_have_them_and_work_that_waits(started, home: Path) -> None:
    """Nothing that a decision needs is in the spec of most nodes, and nothing has been decided about the pod yet."""
    (home / "cluster.yaml").write_text(NODES_AND_WORK)
    assert started("open", "cluster.yaml", "--fresh").code == 0
    assert re.search(r"^Waiting +1 no reason yet$", started("status").out, re.MULTILINE)
    screen = started("top")
    assert (screen.code, "gpu-1.corp ........" in screen.out) == (0, True), screen.err
    assert re.search(r"^q +1 +no reason yet", screen.out, re.MULTILINE)
    # Their owner may select nodes by any label, though nothing in the files does.
    drained = started("whatif", "--drain", "-l", "corp/room=north")
    assert drained.code == 0, drained.err


def test_pods_that_name_no_scheduler_are_placed_if_kube_scheduler_is_to_run_beside(started, home: Path) -> None:
    (home / "cluster.yaml").write_text(NODES_AND_WORK.replace("    schedulerName: kai-scheduler\n", ""))
    assert started("open", "cluster.yaml", "--fresh").code == 0
    assert re.search(r"^Waiting +1 OtherScheduler$", started("status").out, re.MULTILINE)
    assert started("open", "cluster.yaml", "--scheduler", "kailab+kube-scheduler", "--fresh").code == 0
    assert "1 pod running" in started("run").out
