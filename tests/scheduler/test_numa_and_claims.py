"""Reading NUMA zones and resource claims, and the annotations that the scheduler writes."""

from kailab.engine.snapshot.records import ContainerRequest, ZoneShare
from kailab.scheduler.reading.numa import (
    OBSERVED,
    PREDICTED,
    container_requests,
    numa_record,
    zones_annotation,
    zones_held,
)


def topology(node, *cpus, policy="single-numa-node", scope="pod"):
    zones = [
        {"name": f"node-{i}", "type": "Node", "resources": [{"name": "cpu", "allocatable": str(cpu)}]}
        for i, cpu in enumerate(cpus)
    ]
    attributes = [
        {"name": "topologyManagerPolicy", "value": policy},
        {"name": "topologyManagerScope", "value": scope},
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": attributes,
        "zones": [*zones, {"name": "socket-0", "type": "Socket", "resources": []}],
    }


def test_a_node_s_zones_are_read_and_other_zone_types_left_out():
    record = numa_record(topology("n", 4, 8))
    assert record is not None
    assert (record.policy, record.scope) == ("single-numa-node", "pod")
    assert [(zone.name, dict(zone.allocatable)) for zone in record.zones] == [
        ("node-0", {"cpu": 4000}),
        ("node-1", {"cpu": 8000}),
    ]


def test_the_older_form_of_policies_is_read_too():
    old = topology("n", 4) | {"attributes": [], "topologyPolicies": ["RestrictedPodLevel"]}
    record = numa_record(old)
    assert record is not None
    assert (record.policy, record.scope) == ("restricted", "pod")


def test_an_unknown_policy_aligns_nothing():
    record = numa_record(topology("n", 4, policy="astrology"))
    assert record is not None
    assert record.policy == "none"


def test_an_observed_numa_placement_takes_precedence_over_a_predicted_one():
    seen, predicted = (ZoneShare(zone="node-1", amounts=(("cpu", 1500),)),), (ZoneShare(zone="node-0"),)
    told = {OBSERVED: zones_annotation(seen), PREDICTED: zones_annotation(predicted)}
    assert zones_held(told) == seen
    assert zones_held({PREDICTED: zones_annotation(predicted)}) == predicted
    assert zones_held({OBSERVED: "no json", PREDICTED: zones_annotation(predicted)}) == predicted
    assert zones_held({OBSERVED: '[{"zone": 1}]'}) == ()


def test_container_requests_are_kept_only_for_several_containers():
    one = {"resources": {"requests": {"cpu": "1"}}}
    assert container_requests({"containers": [one]}) == ()
    sidecar = one | {"restartPolicy": "Always"}
    assert container_requests({"initContainers": [one, sidecar], "containers": [one]}) == (
        ContainerRequest(amounts=(("cpu", 1000),), stage="init"),
        ContainerRequest(amounts=(("cpu", 1000),), stage="sidecar"),
        ContainerRequest(amounts=(("cpu", 1000),), stage="app"),
    )


def guaranteed(build, name, cpu):
    pod = build.member(name, name, 0)
    limits = {"cpu": cpu, "memory": "1Gi"}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    return pod


def test_pods_get_zones_one_after_the_other_over_cycles(build) -> None:
    """The second pod is bound a cycle later; only the annotation of the first one says what it holds."""
    lab = build.lab(nodes=0)
    cluster = lab.cluster
    cluster.create(build.node("n"))
    cluster.create(topology("n", 4, 4))
    cluster.create(build.queue("q"))
    found = {}
    for name in ("a", "b", "c"):
        cluster.create(build.podgroup(name, "q"))
        cluster.create(guaranteed(build, name, "3"))
        lab.settle()
        pod = cluster.get("Pod", name, "default")
        found[name] = [share.zone for share in zones_held(pod["metadata"].get("annotations") or {})]
    assert found == {"a": ["node-0"], "b": ["node-1"], "c": []}


def claim(name, queue, **more):
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue}, **more},
        "spec": {"devices": {"requests": [request]}},
    }


def device_class(name="gpu.nvidia.com"):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}


def slice_of(node, count):
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": node,
        "pool": {"name": node},
        "devices": [{"name": f"gpu-{i}"} for i in range(count)],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}


def sharer(build, name, claim):
    return build.member(name, name, 0, resourceClaims=[{"name": "c", "resourceClaimName": claim}])


def test_pods_that_share_a_claim_share_its_device_and_its_node(build) -> None:
    lab = build.lab(nodes=0)
    cluster = lab.cluster
    for node in ("n1", "n2"):
        cluster.create(build.node(node, 0, allocatable={"nvidia.com/gpu": "0"}))
        cluster.create(slice_of(node, 1))
    cluster.create(build.queue("q"))
    cluster.create(device_class())
    cluster.create(claim("shared", "q"))
    cluster.create(claim("own", "q"))
    places = {}
    for name, wanted in (("a", "shared"), ("b", "shared"), ("c", "own")):
        cluster.create(build.podgroup(name, "q"))
        cluster.create(sharer(build, name, wanted))
        lab.settle()
        places[name] = cluster.get("Pod", name, "default")["spec"].get("nodeName")
    assert places["a"] == places["b"]
    assert {places["a"], places["c"]} == {"n1", "n2"}


def test_a_claim_with_another_queue_s_label_is_refused_and_says_so(build) -> None:
    lab = build.lab(nodes=0)
    cluster = lab.cluster
    cluster.create(build.node("n", 0, allocatable={"nvidia.com/gpu": "0"}))
    cluster.create(slice_of("n", 1))
    cluster.create(build.queue("q"))
    cluster.create(device_class())
    cluster.create(claim("theirs", "other"))
    cluster.create(build.podgroup("a", "q"))
    cluster.create(sharer(build, "a", "theirs"))
    lab.settle()
    assert "nodeName" not in cluster.get("Pod", "a", "default")["spec"]
    assert "queue label other" in lab.condition("a")["message"]
