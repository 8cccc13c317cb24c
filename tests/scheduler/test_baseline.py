"""The baseline schedules as kube-scheduler does: pod by pod, without queues or gangs."""

from __future__ import annotations

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.scheduler.baseline import Baseline


@pytest.fixture
def cluster(build) -> EmbeddedCluster:
    found = EmbeddedCluster()
    for name, gpus in (("a100-0", 8), ("a100-1", 8), ("h100-0", 8), ("l40s-0", 4), ("l40s-1", 4)):
        found.create(build.node(name, gpus))
    return found


def plain(build, name: str, gpus: int = 1, **more):
    return build.pod(name, gpus, scheduler="default-scheduler", **more)


def placed(cluster: EmbeddedCluster) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"].get("nodeName", "") for p in cluster.list("Pod")}


def settle(cluster: EmbeddedCluster, baseline: Baseline) -> None:
    for _ in range(20):
        wrote = baseline.step()
        cluster.advance(1)
        if not wrote:
            return
    raise AssertionError("does not settle")


def reason(cluster: EmbeddedCluster, name: str) -> dict:
    conditions = cluster.get("Pod", name, "default")["status"]["conditions"]
    return next(c for c in conditions if c["type"] == "PodScheduled")


def test_forty_pods_on_thirty_one_free_gpus(cluster, build) -> None:
    baseline = Baseline(cluster)
    cluster.create(plain(build, "taken", 1))
    settle(cluster, baseline)
    for index in range(40):
        cluster.create(plain(build, f"p{index:02}"))
    settle(cluster, baseline)
    where = placed(cluster)
    assert sum(1 for node in where.values() if node) == 32
    assert len(baseline.waiting()) == 9
    waiting = next(name for name, node in where.items() if not node)
    assert reason(cluster, waiting)["message"] == "0/5 nodes are available: 5 Insufficient nvidia.com/gpu."
    events = {(e["reason"], e["type"]) for e in cluster.list("Event") if e["involvedObject"]["name"] == waiting}
    assert events == {("FailedScheduling", "Warning")}


def test_a_pod_waits_for_its_claim_and_runs_where_its_volume_is(cluster, build) -> None:
    """As kube-scheduler's VolumeBinding has it; a pod of the same shape without a claim runs."""
    baseline = Baseline(cluster)
    for name, volumes in (("with", [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), ("without", [])):
        pod = plain(build, name)
        cluster.create({**pod, "spec": {**pod["spec"], "volumes": volumes}})
    settle(cluster, baseline)
    assert placed(cluster)["with"] == ""
    assert placed(cluster)["without"]
    assert reason(cluster, "with")["message"] == '0/5 nodes are available: persistentvolumeclaim "c" not found.'
    nodes = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["l40s-1"]}]}]
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "local"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "nodeAffinity": {"required": {"nodeSelectorTerms": nodes}},
            },
        }
    )
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {
                "volumeName": "local",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    settle(cluster, baseline)
    assert placed(cluster)["with"] == "l40s-1"


def test_two_gangs_of_twenty_deadlock(cluster, build) -> None:
    baseline = Baseline(cluster, ["kai-scheduler"])
    for index in range(20):
        cluster.create(build.pod(f"a{index:02}", labels={"app": "a"}))
        cluster.create(build.pod(f"b{index:02}", labels={"app": "b"}))
    settle(cluster, baseline)
    running = [name[0] for name, node in placed(cluster).items() if node]
    assert (running.count("a"), running.count("b")) == (16, 16)
    assert not baseline.step()


def test_other_schedulers_pods_are_left_alone(cluster, build) -> None:
    cluster.create(build.pod("kai"))
    assert not Baseline(cluster).step()
    assert placed(cluster) == {"kai": ""}


def test_room_that_is_made_is_given_to_the_longest_waiting(cluster, build) -> None:
    baseline = Baseline(cluster)
    for index in range(34):
        cluster.create(plain(build, f"p{index:02}"))
    settle(cluster, baseline)
    cluster.delete("Pod", "p00", "default")
    settle(cluster, baseline)
    where = placed(cluster)
    assert where["p32"]
    assert not where["p33"]


def test_reasons_are_counted_per_node(cluster, build) -> None:
    cluster.patch("Node", "a100-0", None, {"spec": {"unschedulable": True}})
    taint = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
    cluster.patch("Node", "a100-1", None, {"spec": {"taints": [taint]}})
    cluster.patch("Node", "l40s-0", None, {"metadata": {"labels": {"gpu": "l40s"}}})
    cluster.create(plain(build, "big", 9, nodeSelector={"gpu": "l40s"}))
    settle(cluster, Baseline(cluster))
    assert reason(cluster, "big")["message"] == (
        "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint "
        "{kwok.x-k8s.io/node: fake}, 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
    )


def create_alike(cluster, build, count: int, rule: str) -> None:
    """Pods x0, x1 ... with a rule about each other on one node, and time for the baseline to place them."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for index in range(count):
        cluster.create(plain(build, f"x{index}", labels={"app": "x"}, affinity=affinity))
    settle(cluster, Baseline(cluster))


def test_anti_affinity_spreads_over_nodes_and_then_waits(cluster, build) -> None:
    create_alike(cluster, build, 6, "podAntiAffinity")
    where = placed(cluster)
    assert len({node for node in where.values() if node}) == 5
    assert reason(cluster, "x5")["message"] == (
        "0/5 nodes are available: 5 node(s) didn't match pod anti-affinity rules."
    )


def test_affinity_gathers_and_the_first_may_start_anywhere(cluster, build) -> None:
    create_alike(cluster, build, 4, "podAffinity")
    assert len(set(placed(cluster).values())) == 1


def both(first: str, second: str) -> dict:
    """Required affinity of two terms: a label each, on the same node."""
    terms = [
        {"labelSelector": {"matchLabels": {key: "x"}}, "topologyKey": "kubernetes.io/hostname"}
        for key in (first, second)
    ]
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_several_terms_want_one_pod_that_matches_them_all(cluster, build) -> None:
    selector = {"kubernetes.io/hostname": "a100-0"}
    cluster.create(plain(build, "one", labels={"app": "x"}, nodeSelector=selector))
    cluster.create(plain(build, "other", labels={"tier": "x"}, nodeSelector=selector))
    settle(cluster, Baseline(cluster))
    cluster.create(plain(build, "wants", affinity=both("app", "tier")))
    settle(cluster, Baseline(cluster))
    assert reason(cluster, "wants")["message"] == "0/5 nodes are available: 5 node(s) didn't match pod affinity rules."
    selector = {"kubernetes.io/hostname": "a100-1"}
    cluster.create(plain(build, "whole", labels={"app": "x", "tier": "x"}, nodeSelector=selector))
    settle(cluster, Baseline(cluster))
    settle(cluster, Baseline(cluster))
    assert placed(cluster)["wants"] == "a100-1"


def test_the_first_of_a_series_has_to_match_all_terms_itself(cluster, build) -> None:
    cluster.create(plain(build, "half", labels={"app": "x"}, affinity=both("app", "tier")))
    settle(cluster, Baseline(cluster))
    assert placed(cluster)["half"] == ""
    # A pod that one term means does not keep the first of the series from starting elsewhere.
    near, far = ({"kubernetes.io/hostname": name} for name in ("a100-0", "a100-1"))
    cluster.create(plain(build, "near", labels={"app": "x"}, nodeSelector=near))
    settle(cluster, Baseline(cluster))
    labels = {"app": "x", "tier": "x"}
    cluster.create(plain(build, "first", labels=labels, nodeSelector=far, affinity=both("app", "tier")))
    settle(cluster, Baseline(cluster))
    settle(cluster, Baseline(cluster))
    assert placed(cluster) == {"near": "a100-0", "first": "a100-1", "half": "a100-1"}


def test_a_more_important_pod_evicts_the_fewest_less_important_ones(cluster, build) -> None:
    baseline = Baseline(cluster)
    for index in range(32):
        cluster.create(plain(build, f"low{index:02}", priorityClassName="train"))
    settle(cluster, baseline)
    cluster.create(plain(build, "high", 2, priorityClassName="inference"))
    settle(cluster, baseline)
    where = placed(cluster)
    assert where["high"]
    assert sum(name.startswith("low") for name in where) == 30
    assert any(e["reason"] == "Preempted" for e in cluster.list("Event"))


def test_a_class_that_never_preempts_waits(cluster, build) -> None:
    cluster.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "patient"},
            "value": 1000,
            "preemptionPolicy": "Never",
        }
    )
    baseline = Baseline(cluster)
    for index in range(32):
        cluster.create(plain(build, f"low{index:02}"))
    settle(cluster, baseline)
    cluster.create(plain(build, "high", 2, priorityClassName="patient"))
    settle(cluster, baseline)
    assert not placed(cluster)["high"]
    assert len(placed(cluster)) == 33


def test_the_same_pods_go_to_the_same_nodes(build) -> None:
    def run() -> dict[str, str]:
        found = EmbeddedCluster()
        for index in range(7):
            found.create(build.node(f"n{index}", 8))
        for index in range(50):
            found.create(plain(build, f"p{index:02}", 1 + index % 3, cpu=f"{100 + 37 * index}m"))
        settle(found, Baseline(found))
        return placed(found)

    assert run() == run()


def test_a_new_baseline_over_the_same_cluster_writes_nothing(cluster, build) -> None:
    for index in range(40):
        cluster.create(plain(build, f"p{index:02}"))
    settle(cluster, Baseline(cluster))
    assert not Baseline(cluster).step()


def zoned(cluster: EmbeddedCluster) -> None:
    """Labels four nodes with two zones; the fifth has none."""
    for name, zone in (("a100-0", "a"), ("a100-1", "a"), ("h100-0", "a"), ("l40s-0", "b")):
        cluster.patch("Node", name, None, {"metadata": {"labels": {"zone": zone}}})


def spread(build, name: str, key: str = "zone", **constraint):
    pod = plain(build, name, labels={"app": "web"})
    selector = {"matchLabels": {"app": "web"}}
    block = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": [{**block, **constraint}]}}


def zones(cluster: EmbeddedCluster) -> list[str]:
    found = {node["metadata"]["name"]: node["metadata"]["labels"].get("zone", "") for node in cluster.list("Node")}
    return sorted(found[node] if node else "waits" for node in placed(cluster).values())


def test_pods_are_spread_as_their_constraints_demand(cluster, build) -> None:
    zoned(cluster)
    baseline = Baseline(cluster)
    for index in range(11):
        cluster.create(spread(build, f"p{index:02}"))
    settle(cluster, baseline)
    # Zone b has four GPUs, so zone a gets one pod more.
    assert zones(cluster) == ["a"] * 5 + ["b"] * 4 + ["waits"] * 2
    waiting = next(name for name, node in placed(cluster).items() if not node)
    assert reason(cluster, waiting)["message"] == (
        "0/5 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match pod topology spread constraints "
        "(missing required label), 3 node(s) didn't match pod topology spread constraints."
    )


def test_pods_wait_for_a_topology_that_no_node_has(cluster, build) -> None:
    baseline = Baseline(cluster)
    cluster.create(spread(build, "p"))
    cluster.create(plain(build, "of-the-same-shape"))
    settle(cluster, baseline)
    assert placed(cluster)["p"] == ""
    assert placed(cluster)["of-the-same-shape"]
    zoned(cluster)
    settle(cluster, baseline)
    assert placed(cluster)["p"]


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"minDomains": 3}, ["a", "b", "waits", "waits"]),
        ({"maxSkew": 2}, ["a", "a", "b", "b"]),
        ({"matchLabelKeys": ["app"]}, ["a", "a", "b", "b"]),
    ],
)
def test_the_fields_of_a_constraint_count(cluster, build, constraint: dict, expected: list[str]) -> None:
    zoned(cluster)
    for name in ("a100-1", "h100-0", "l40s-1"):
        cluster.delete("Node", name)
    baseline = Baseline(cluster)
    for index in range(4):
        cluster.create(spread(build, f"p{index}", **constraint))
    settle(cluster, baseline)
    assert zones(cluster) == expected


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({}, ["a", "a", "a"]),
        # Zone b is a domain, though the pods may not run there.
        ({"nodeAffinityPolicy": "Ignore"}, ["a", "waits", "waits"]),
        # The pods do not count themselves.
        ({"nodeAffinityPolicy": "Ignore", "labelSelector": {"matchLabels": {"app": "other"}}}, ["a", "a", "a"]),
    ],
)
def test_domains_that_a_pod_may_not_run_in_count_on_demand(
    cluster, build, constraint: dict, expected: list[str]
) -> None:
    zoned(cluster)
    baseline = Baseline(cluster)
    for index in range(3):
        pod = spread(build, f"p{index}", **constraint)
        cluster.create({**pod, "spec": {**pod["spec"], "nodeSelector": {"zone": "a"}}})
    settle(cluster, baseline)
    assert zones(cluster) == expected


def test_a_soft_constraint_spreads_and_keeps_no_pod_waiting(cluster, build) -> None:
    zoned(cluster)
    baseline = Baseline(cluster)
    for index in range(12):
        cluster.create(spread(build, f"p{index:02}", whenUnsatisfiable="ScheduleAnyway"))
    settle(cluster, baseline)
    found = zones(cluster)
    assert found.count("b") == 4
    assert "waits" not in found


def test_a_pod_is_tried_again_when_another_is_placed_that_it_follows(cluster, build) -> None:
    """Its affinity selects a pod that comes after it."""
    baseline = Baseline(cluster)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "first"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    follower = plain(build, "follower")
    cluster.create({**follower, "spec": {**follower["spec"], "affinity": affinity}})
    settle(cluster, baseline)
    assert placed(cluster)["follower"] == ""
    cluster.create(plain(build, "first", labels={"app": "first"}))
    settle(cluster, baseline)
    where = placed(cluster)
    assert where["follower"] == where["first"] != ""


def test_a_pod_waits_until_its_device_claim_can_be_allocated(cluster, build) -> None:
    baseline = Baseline(cluster)
    claim = {"exactly": {"deviceClassName": "gpu.example.com"}, "name": "gpu"}
    cluster.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"devices": {"requests": [claim]}},
        }
    )
    pod = plain(build, "claiming")
    claims = [{"name": "gpu", "resourceClaimName": "one"}]
    cluster.create({**pod, "spec": {**pod["spec"], "resourceClaims": claims}})
    settle(cluster, baseline)
    assert placed(cluster)["claiming"] == ""
    assert reason(cluster, "claiming")["message"] == "0/5 nodes are available: 5 cannot allocate all claims."
    spec = {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"}}
    cluster.create({**kind, "spec": spec})
    slice_spec = {
        "driver": "gpu.example.com",
        "nodeName": "l40s-1",
        "pool": {"name": "l40s-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    }
    cluster.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "l40s-1"},
            "spec": slice_spec,
        }
    )
    settle(cluster, baseline)
    assert placed(cluster)["claiming"] == "l40s-1"
    allocated = cluster.get("ResourceClaim", "one", "default")["status"]
    assert [result["device"] for result in allocated["allocation"]["devices"]["results"]] == ["gpu-0"]
    assert [user["name"] for user in allocated["reservedFor"]] == ["claiming"]
