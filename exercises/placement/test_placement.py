"""Placement: which node, when several would do."""

import pytest

from kailab.lab import expect

pytestmark = pytest.mark.exercise("placement")


def test_binpack_fills_one_node(lab):
    """The default: 1 + 1 + 2 GPUs end up together on one node of 4, full to the last GPU."""
    lab.apply("manifests/queues.yaml", "manifests/three.yaml")

    expect(lab.app("work")).running(pods=3, gpus=4).on_one("node")
    node = lab.picture().rows[0].node
    assert lab.get("Node", node)["metadata"]["labels"]["nvidia.com/gpu.count"] == "4"


@pytest.mark.kailab_config(gpu_placement="spread")
def test_spread_uses_all_nodes(lab):
    """The same scheduler told to spread: five pods on five nodes."""
    lab.apply("manifests/queues.yaml", "manifests/five.yaml")

    expect(lab.deployment("five")).running(pods=5).spread_over(5, "node")


def test_binpack_leaves_nodes_whole(lab):
    """Five pods under binpack: the two nodes of 4 GPUs; the three of 8 stay empty for work that needs them whole."""
    lab.apply("manifests/queues.yaml", "manifests/five.yaml")

    expect(lab.deployment("five")).running(pods=5).on_nodes(["l40s-0", "l40s-1"])


@pytest.mark.kailab_fleet("mixed")
def test_cpu_work_keeps_off_gpu_nodes(lab):
    """Where there are nodes without GPUs, work without GPUs goes there."""
    lab.apply("manifests/queues.yaml", "manifests/cpu-only.yaml")
    expect(lab.deployment("etl")).running(pods=3)

    placed = [pod["spec"]["nodeName"] for pod in lab.get("Pod")]
    assert {node.rpartition("-")[0] for node in placed} == {"cpu"}


def test_cpu_work_uses_gpu_nodes_where_there_are_no_others(lab):
    """It is a preference: on a fleet of GPU nodes only, it runs among them."""
    lab.apply("manifests/queues.yaml", "manifests/cpu-only.yaml")

    expect(lab.deployment("etl")).running(pods=3)


def test_a_node_selector_is_a_must(lab):
    """Ten pods want an H100 and there are eight: two wait, with 24 other GPUs idle."""
    lab.apply("manifests/queues.yaml", "manifests/h100-only.yaml")

    expect(lab.deployment("picky")).running(pods=8).on_nodes(["h100-0"]).pending(pods=2, reason="PodSchedulingErrors")


def test_required_node_affinity(lab):
    """Anything but an L40S: 24 of 26 run, on the three other nodes."""
    lab.apply("manifests/queues.yaml", "manifests/not-l40s.yaml")

    expect(lab.deployment("choosy")).running(pods=24).on_nodes(["a100-0", "a100-1", "h100-0"]).pending(pods=2)


def test_anti_affinity_keeps_replicas_apart(lab):
    """Six replicas that share no node, on five nodes: one waits."""
    lab.apply("manifests/queues.yaml", "manifests/one-per-node.yaml")

    expect(lab.deployment("apart")).running(pods=5).spread_over(5, "node").pending(pods=1, reason="PodSchedulingErrors")


def test_a_pod_that_fits_no_node(lab):
    """32 GPUs free, at most 8 on a node, 9 asked for in one pod: it waits for ever."""
    lab.apply("manifests/queues.yaml", "manifests/nine.yaml")

    expect(lab.pod("nine")).pending(pods=1, reason="PodSchedulingErrors")


@pytest.mark.kailab_only("others tell of the nodes in a sentence, if at all")
def test_every_node_that_it_does_not_fit_is_counted(lab):
    """The reason holds for each node of the cluster, and a program can count them."""
    lab.apply("manifests/queues.yaml", "manifests/nine.yaml")
    lab.settle()

    fit = lab.explain_pod("nine").data()["pending"]["fits"][0]
    assert fit["nodes"] == sum(number for _, number in fit["reasons"]) == len(lab.get("Node"))


@pytest.mark.kailab_fleet("mixed")
def test_a_reserved_node_takes_only_what_tolerates_its_taint(lab):
    """The one node with B200s is reserved: a pod that wants one waits, with 8 of them free."""
    lab.apply("manifests/queues.yaml", "manifests/untolerating.yaml")

    expect(lab.pod("stranger")).pending(pods=1, reason="PodSchedulingErrors")


@pytest.mark.kailab_only("others tell of the nodes in a sentence, if at all")
@pytest.mark.kailab_fleet("mixed")
def test_the_reason_names_the_taint(lab):
    """In Kubernetes' own words, so that a search finds it."""
    lab.apply("manifests/queues.yaml", "manifests/untolerating.yaml")
    lab.settle()

    assert "1 node(s) had untolerated taint {lab/reserved: frontier}" in str(lab.explain_pod("stranger"))
