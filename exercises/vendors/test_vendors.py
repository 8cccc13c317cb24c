"""GPUs of two vendors, and labels without GPUs: what a resource name and a label mean, and what they do not."""

from pathlib import Path

import pytest

from kailab.lab import expect

HERE = Path(__file__).parent
TWO = str(HERE / "fleets" / "two-vendors.yaml")
BARE = str(HERE / "fleets" / "no-operator.yaml")

pytestmark = pytest.mark.exercise("vendors")


@pytest.mark.kailab_fleet(TWO)
def test_to_kai_they_are_one_resource(lab):
    """Pods that ask for amd.com/gpu are started on NVIDIA's node, too, and take its GPUs in KAI's accounting."""
    lab.apply("manifests/queues.yaml", "manifests/rocm.yaml")

    expect(lab.deployment("rocm")).running(pods=4).on_nodes({"h100-0": 2, "mi300x-0": 2})


@pytest.mark.kailab_fleet(TWO)
def test_quotas_count_both_alike(lab):
    """16 GPUs in use by a queue that owns 8, whatever their resource name; only the status keeps the names apart."""
    lab.apply("manifests/queues.yaml", "manifests/rocm.yaml")

    expect(lab.queue("team-a")).running(gpus=16).borrows(gpus=8)
    allocated = lab.get("Queue", "team-a")["status"]["allocated"]
    assert (allocated["amd.com/gpu"], "nvidia.com/gpu" in allocated) == ("16", False)


@pytest.mark.kailab_fleet(TWO)
def test_the_default_scheduler_tells_them_apart(baseline_lab):
    """The contrast: to Kubernetes they are two resources, and a node offers one of them."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/rocm.yaml")

    expect(baseline_lab.deployment("rocm")).running(pods=2).pending(pods=2).on_nodes({"mi300x-0": 2})


@pytest.mark.kailab_fleet(TWO)
def test_a_node_selector_says_what_is_meant(lab):
    """By the label of AMD's operator: two run on AMD's node, two wait, and NVIDIA's GPUs are left to team-b."""
    lab.apply("manifests/queues.yaml", "manifests/rocm-selected.yaml", "manifests/cuda.yaml")

    expect(lab.deployment("rocm")).running(pods=2).pending(pods=2).on_nodes({"mi300x-0": 2})
    expect(lab.deployment("cuda")).running(pods=2).pending(pods=2).on_nodes({"h100-0": 2})


@pytest.mark.kailab_fleet(TWO)
def test_it_is_said_when_it_is_applied(lab):
    """Without a rule for nodes, on a fleet that has both."""
    warned = lab.apply("manifests/queues.yaml", "manifests/rocm.yaml").warnings
    assert any("amd.com/gpu" in one and "h100-0" in one for one in warned)
    assert not lab.apply("manifests/rocm-selected.yaml", "manifests/cuda.yaml").warnings


@pytest.mark.kailab_fleet(BARE)
def test_a_label_is_no_gpu(lab):
    """Two nodes have a label for eight GPUs; one of them offers them. Without the GPU operator a node offers no GPUs."""
    lab.apply("manifests/queues.yaml", "manifests/cuda.yaml")

    labelled = [one["metadata"]["name"] for one in lab.cluster.list("Node", labels="nvidia.com/gpu.present=true")]
    assert labelled == ["bare-0", "ready-0"]
    expect(lab.deployment("cuda")).running(pods=2).pending(pods=2).on_nodes({"ready-0": 2})


@pytest.mark.kailab_fleet(BARE)
@pytest.mark.kailab_backend("embedded")
def test_with_the_operator_the_node_offers_them(lab):
    """What a device plugin does when it starts: the node's status has the GPUs, and the pods that waited run."""
    lab.apply("manifests/queues.yaml", "manifests/cuda.yaml")
    expect(lab.deployment("cuda")).running(pods=2)

    offered = lab.get("Node", "bare-0")["status"]["allocatable"] | {"nvidia.com/gpu": "8"}
    lab.patch("Node", "bare-0", {"status": {"capacity": offered, "allocatable": offered}}, subresource="status")
    expect(lab.deployment("cuda")).running(pods=4).no_pending().on_nodes({"ready-0": 2, "bare-0": 2})
