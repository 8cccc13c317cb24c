"""DRA: devices by their properties. Slices publish them, classes and selectors choose among them, claims hold them."""

from collections import Counter

import pytest

from kailab.lab import expect

pytestmark = [pytest.mark.exercise("dra"), pytest.mark.kailab_devices]

QUEUES = ("manifests/queues.yaml", "manifests/classes.yaml")


def devices(lab, namespace="default"):
    """(node, device) -> how many claims have it."""
    held = Counter()
    for claim in lab.get("ResourceClaim", namespace=namespace):
        allocation = claim.get("status", {}).get("allocation", {})
        held.update((given["pool"], given["device"]) for given in allocation.get("devices", {}).get("results", ()))
    return held


def test_slices_tell_what_there_is(lab):
    """A ResourceSlice for each node, a device for each GPU, with model and memory; nothing is called nvidia.com/gpu any more."""
    published = [device for each in lab.get("ResourceSlice") for device in each["spec"]["devices"]]
    models = Counter(device["attributes"]["productName"]["string"] for device in published)

    assert models == {"A100": 16, "H100": 8, "L40S": 8}
    assert not any("nvidia.com/gpu" in node["status"]["allocatable"] for node in lab.get("Node"))


def test_each_pod_gets_a_claim_of_its_own_from_a_template(lab):
    """Four pods, four claims, eight GPUs, none of them given twice."""
    lab.apply(*QUEUES, "manifests/two-each.yaml")

    expect(lab.app("two-each")).running(pods=4)
    expect(lab.queue("team-a")).holding(gpus=8)
    assert len(lab.get("ResourceClaim")) == 4
    assert list(devices(lab).values()) == [1] * 8


def test_a_claim_goes_with_its_pod(lab):
    """A claim from a template belongs to its pod."""
    lab.apply(*QUEUES, "manifests/two-each.yaml")
    expect(lab.app("two-each")).running(pods=4)

    lab.delete("Job", "two-each")
    expect(lab.app("two-each")).no_pods()
    assert lab.get("ResourceClaim") == []


def test_a_class_means_some_models_only(lab):
    """Eight H100 for nine pods. 23 other GPUs are idle, and do not help the ninth pod."""
    lab.apply(*QUEUES, "manifests/h100.yaml")

    expect(lab.app("h100")).running(pods=8).on_nodes({"h100-0": 8}).pending(pods=1)


def test_a_selector_means_gpus_that_are_large_enough(lab):
    """60Gi or more: A100 and H100 have that, L40S have not."""
    lab.apply(*QUEUES, "manifests/large-memory.yaml")

    expect(lab.app("large-memory")).running(pods=24).on_nodes({"a100-0": 8, "a100-1": 8, "h100-0": 8}).pending(pods=6)


@pytest.mark.kailab_only("others do not name the selector")
def test_a_selector_that_means_nothing_runs_nothing(lab):
    """4000Gi: no GPU has that much. The reason names the selector."""
    lab.apply(*QUEUES, "manifests/too-large.yaml")

    expect(lab.app("too-large")).running(pods=0).pending(pods=1).says("4000Gi")


@pytest.mark.parametrize("what", ["too-many", "too-large", "nowhere"])
def test_what_no_node_can_serve_waits(lab, what):
    """Nine GPUs of one node; a GPU of 4000Gi; a class of a missing driver."""
    lab.apply(*QUEUES, f"manifests/{what}.yaml")

    expect(lab.app(what)).running(pods=0).pending(pods=1)
    assert not devices(lab)


def test_all_devices_of_a_node(lab):
    """AllocationMode All: all devices of the node, and none if one is taken. Two pods, two nodes."""
    lab.apply(*QUEUES, "manifests/all-of-a-node.yaml")

    expect(lab.app("all")).running(pods=2).spread_over(2, "node")


def test_pods_can_share_a_claim(lab):
    """Three pods, one claim, one device, one node."""
    lab.apply(*QUEUES, "manifests/shared.yaml")

    expect(lab.app("shared")).running(pods=3).on_one("node")
    assert list(devices(lab).values()) == [1]
    (claim,) = lab.get("ResourceClaim")
    assert len(claim["status"]["reservedFor"]) == 3


def test_a_shared_claim_must_say_whose_it_is(lab):
    """KAI's rule: a GPU claim that pods name carries the label of their queue. Without it no pod runs."""
    lab.apply(*QUEUES, "manifests/shared-without-label.yaml")

    expect(lab.app("nobodys")).running(pods=0).pending(pods=1)


def test_claimed_gpus_count_for_the_queue(lab):
    """team-b may have 4 GPUs: of six pods with a claim each four run."""
    lab.apply(*QUEUES, "manifests/b-one-each.yaml")

    expect(lab.queue("team-b")).running(pods=4).holding(gpus=4).pending(pods=2, reason="OverLimit")


def test_the_trap_of_the_name(lab):
    """KAI recognises GPUs by the name of their class. The same devices by the class "card" count for no queue: all six run."""
    lab.apply(*QUEUES, "manifests/b-cards.yaml")

    expect(lab.queue("team-b")).running(pods=6).holding(gpus=0)
    assert len(devices(lab)) == 6


@pytest.mark.kailab_only(
    "KAI asks its allocator for no optional feature of DRA: a claim with admin access waits for ever"
)
def test_admin_access_looks_in_on_devices_that_are_taken(lab):
    """All 32 GPUs are held. A claim with admin access still gets those of a node, and takes nothing away."""
    lab.apply(*QUEUES, "manifests/holders.yaml")
    expect(lab.app("holders")).running(pods=8)
    assert len(devices(lab)) == 32

    lab.apply("manifests/watcher.yaml")
    expect(lab.app("watcher")).running(pods=1)
    expect(lab.app("holders")).running(pods=8)
    assert len(devices(lab, "observers")) in (4, 8)
