"""The training job and the resource claims of the policies, applied to a lab as the text gives them."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.lab import expect

SHARED = "0 0 0 1 1 0 1 2 2 3 3 1 1 0 " + "0 0 0 0 1 0 1 1 2 2 3 3 4 1 1 2 0 " + "0 0 0 1 0 1 1 2 2 3 3 4 1 1 2"


def test_the_training_job_of_the_policies_is_refused_for_the_restart_policy_it_leaves_out(block, open_lab):
    lab = open_lab()
    with pytest.raises(InputError, match="restartPolicy: 'Always' is not valid; expected OnFailure or Never"):
        lab.apply(block("policies", "name: llm-training").indented("0 0 0 1 1 2 0 1 2 3 3 3 4 4 5 6 4 4 5"))
    assert lab.get("Job") == []


def test_the_training_job_of_the_policies_runs_on_one_node_once_it_has_one(block, open_lab, queue):
    lab = open_lab()
    job = block("policies", "name: llm-training").indented("0 0 0 1 1 2 0 1 2 3 3 3 4 4 5 6 4 4 5")
    lab.apply(queue("default-queue"), job.replace("      containers:", "      restartPolicy: Never\n      containers:"))
    expect(lab.job("llm-training")).running(pods=1, gpus=8).spread_over(1)


def test_pods_that_share_a_claim_must_be_in_its_namespace_and_are_told_so(block, open_lab, queue):
    """The text puts the claim in ml-research and gives its pods no namespace."""
    lab = open_lab()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-research"}}
    lab.apply(space, queue("default-queue"))
    # As an API server: allocationMode belongs to a request.
    with pytest.raises(InputError, match=r"spec\.allocationMode: unknown field"):
        lab.apply(block("policies", "name: inference-2").indented(SHARED))
    lab.apply(block("policies", "name: inference-2").indented(SHARED), validate="warn")
    expect(lab).pending(pods=2)
    assert "resource claim default/shared-gpu does not exist" in str(lab.explain_pod("inference-1"))


def test_against_the_text_its_class_has_none_of_nvidias_gpus(block, open_lab, queue):
    """It asks for the driver nvidia.com; NVIDIA's driver is gpu.nvidia.com."""
    lab = open_lab(devices=True)
    claims = block("policies", "kind: DeviceClass").indented("0 0 0 1 0 1 1 3 0 0 0 0 0 1 1 0 1 2 3 3 4 4 4 4 6")
    lab.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml-research"}}, queue("default-queue"), claims
    )
    lab.apply(block("policies", "name: dra-training").indented("0 0 0 1 1 0 1 1 2 2 3 3 1 1 2"))
    expect(lab).pending(pods=1).running(0)
    assert "wants 1 of class nvidia-gpu: the node has none" in str(lab.explain_pod("dra-training", "ml-research"))


def test_against_the_text_allocation_waits_for_no_mode(open_lab):
    lab = open_lab(devices=True)
    asked = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "WaitForFirstConsumer"}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared-gpu"}}
    with pytest.raises(InputError, match="allocationMode: 'WaitForFirstConsumer' is not valid"):
        lab.apply({**claim, "spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}})
