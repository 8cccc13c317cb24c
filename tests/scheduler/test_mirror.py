"""The mirror: which changes reach the working set, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.engine.snapshot.gpu_requests import ClaimedGpus
from kailab.engine.snapshot.records import Status
from kailab.scheduler.mirror import Mirror


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster()


def mirrored(cluster: EmbeddedCluster, **options: Any) -> Mirror:
    mirror = Mirror(cluster, **options)
    mirror.update()
    return mirror


def tasks(mirror: Mirror) -> dict[str, Any]:
    return {task.name: task for task in mirror.tasks.values()}


def groups(mirror: Mirror) -> dict[str, Any]:
    return {record.name: record for record in mirror.podgroups.values()}


def test_queue_units(cluster, build) -> None:
    spec = {
        "gpu": {"quota": 0.5, "limit": -1, "overQuotaWeight": 2},
        "cpu": {"quota": 4000, "limit": 8000, "overQuotaWeight": 1},
        "memory": {"quota": 16000, "limit": -1, "overQuotaWeight": 1},
    }
    cluster.create(build.queue("q", resources=spec, priority=200, reclaimMinRuntime="1h30m"))
    record = mirrored(cluster).queues["q"]
    assert (record.gpu.quota, record.gpu.limit, record.gpu.weight) == (500, -1, 2.0)
    assert (record.cpu.quota, record.cpu.limit) == (4000, 8000)
    assert record.memory.quota == 16_000_000_000
    assert record.priority == 200
    assert record.reclaim_min_runtime == 5400.0
    assert record.preempt_min_runtime is None


def test_a_queue_without_resources_has_zeros_throughout(cluster) -> None:
    cluster.create({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "bare"}, "spec": {}})
    record = mirrored(cluster).queues["bare"]
    assert (record.gpu.quota, record.gpu.limit, record.gpu.weight) == (0, 0, 0.0)
    assert record.priority == 100


def test_node_facts(cluster, build) -> None:
    labels = {"nvidia.com/gpu.memory": "81559"}
    taints = [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    cluster.create(build.node("n", 8, labels, spec={"taints": taints}))
    cluster.create(build.node("cordoned", 8, spec={"unschedulable": True}))
    cluster.create(build.node("down", 8, conditions=[{"type": "Ready", "status": "False"}]))
    cluster.create(build.node("split", 0, allocatable={"nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7"}))
    found = mirrored(cluster).nodes
    node = found["n"]
    assert (node.gpus, node.cpu, node.memory, node.pods) == (8000, 96_000, 1000 * (1 << 30), 110)
    assert node.gpu_memory_mib == 81500
    assert [taint.key for taint in node.taints] == ["kwok.x-k8s.io/node"]
    assert not node.unavailable
    assert found["cordoned"].unavailable == "node is unschedulable"
    assert "NotReady" in found["down"].unavailable
    assert found["split"].mig
    assert found["split"].extended == (("nvidia.com/mig-1g.5gb", 7),)


@pytest.mark.parametrize(
    ("spec", "priority", "preemptible"),
    [
        ({"priorityClassName": "train"}, 50, True),
        ({"priorityClassName": "build"}, 100, False),
        ({"priorityClassName": "inference", "preemptibility": "preemptible"}, 125, True),
        ({"priorityClassName": "train", "preemptibility": "non-preemptible"}, 50, False),
        ({"priorityClassName": "no-such-class"}, 50, True),
    ],
)
def test_priority_and_preemptibility(cluster, build, spec, priority, preemptible) -> None:
    cluster.create(build.podgroup("g", "q", **spec))
    record = groups(mirrored(cluster))["g"]
    assert (record.priority, record.preemptible) == (priority, preemptible)


def test_a_priority_class_that_comes_later_counts(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q", priorityClassName="special"))
    mirror = mirrored(cluster)
    special = {"kind": "PriorityClass", "metadata": {"name": "special"}, "value": 300}
    cluster.create({"apiVersion": "scheduling.k8s.io/v1", **special})
    mirror.update()
    assert groups(mirror)["g"].priority == 300
    assert not groups(mirror)["g"].preemptible


def test_timestamps_and_delays(cluster, build) -> None:
    annotations = {
        "kai.scheduler/last-start-timestamp": "2026-01-01T00:00:10Z",
        "kai.scheduler/stale-podgroup-timestamp": "2026-01-01T00:00:20Z",
        "kai.scheduler/last-eviction-timestamp": "not a time",
    }
    spec = {"preemptionDelay": "90s", "stalenessGracePeriod": "-1s"}
    cluster.create(build.podgroup("g", "q", annotations=annotations, **spec))
    record = groups(mirrored(cluster))["g"]
    start = cluster.now()
    assert (record.last_start, record.stale_since, record.last_evicted) == (start + 10, start + 20, None)
    assert (record.preemption_delay, record.staleness_grace) == (90.0, -1.0)


def test_the_subgroup_tree(cluster, build) -> None:
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}}
    levels = [{"nodeLabel": "example.com/zone", "alias": "zone"}, {"nodeLabel": "example.com/rack"}]
    cluster.create({**topology, "spec": {"levels": levels}})
    subgroups = [
        {"name": "decode", "minSubGroup": 1},
        {"name": "leader", "parent": "decode", "minMember": 1},
        {
            "name": "workers",
            "parent": "decode",
            "minMember": 3,
            "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "zone"},
        },
        {"name": "prefill", "minMember": 2},
    ]
    group = build.podgroup("g", "q", subGroups=subgroups)
    del group["spec"]["minMember"]
    cluster.create(group)
    root = groups(mirrored(cluster))["g"].root
    assert [podset.name for podset in root.podsets] == ["prefill"]
    (decode,) = root.groups
    assert decode.min_members == 1
    assert [(podset.name, podset.min_available) for podset in decode.podsets] == [("leader", 1), ("workers", 3)]
    constraint = decode.podsets[1].constraint
    assert constraint is not None
    assert constraint.required == "example.com/zone"


def test_subgroups_that_make_no_tree_count_as_none() -> None:
    from kailab.scheduler.reading.podgroups import subgroup_tree

    circle = [{"name": "a", "parent": "b", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]
    orphan = [{"name": "a", "parent": "nobody", "minMember": 1}]
    twice = [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 2}]
    for subgroups in (circle, orphan, twice):
        assert [podset.name for podset in subgroup_tree({"subGroups": subgroups}, {}).podsets] == ["default"]


def test_states_of_pods(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q"))
    cluster.create(build.member("pending", "g"))
    cluster.create(build.member("gated", "g", schedulingGates=[{"name": "later"}]))
    cluster.create(build.member("bound", "g"))
    cluster.bind("default", "bound", "n", {})
    mirror = mirrored(cluster)
    states = {name: task.status for name, task in tasks(mirror).items()}
    assert states == {"pending": Status.PENDING, "gated": Status.GATED, "bound": Status.BOUND}
    cluster.advance(60)
    mirror.update()
    assert tasks(mirror)["bound"].status == Status.RUNNING
    assert tasks(mirror)["bound"].node == "n"


def test_a_running_pod_that_does_not_go_is_stuck_after_two_minutes(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q"))
    pod = build.member("slow", "g")
    pod["spec"]["terminationGracePeriodSeconds"] = 600
    cluster.create(pod)
    cluster.bind("default", "slow", "n", {})
    cluster.advance(60)
    cluster.delete("Pod", "slow", "default")
    mirror = mirrored(cluster)
    assert tasks(mirror)["slow"].status == Status.RELEASING
    assert mirror.stuck_at is not None
    before = mirror.stuck_at - cluster.now()
    assert before >= 119
    cluster.clock.now = mirror.stuck_at + 1  # time passes, and the kubelet does not get it done
    mirror.update()
    assert tasks(mirror)["slow"].status == Status.STUCK_RELEASING


def test_pods_of_other_schedulers_only_use_nodes(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.pod("other-waits", scheduler="default-scheduler"))
    cluster.create(build.pod("other-runs", scheduler="default-scheduler"))
    cluster.bind("default", "other-runs", "n", {})
    mirror = mirrored(cluster)
    assert {name: task.podgroup for name, task in tasks(mirror).items()} == {"other-runs": ""}


def test_a_pod_waits_for_its_podgroup_and_loses_it(cluster, build) -> None:
    cluster.create(build.node("n"))
    cluster.create(build.member("a", "g"))
    cluster.create(build.member("b", "g"))
    cluster.bind("default", "b", "n", {})
    mirror = mirrored(cluster)
    assert {name: task.podgroup for name, task in tasks(mirror).items()} == {"b": ""}
    cluster.create(build.podgroup("g", "q"))
    mirror.update()
    (uid,) = mirror.podgroups
    assert {name: task.podgroup for name, task in tasks(mirror).items()} == {"a": uid, "b": uid}
    cluster.delete("PodGroup", "g", "default")
    mirror.update()
    assert {name: task.podgroup for name, task in tasks(mirror).items()} == {"b": ""}


def test_a_podgroup_made_anew_under_its_name_takes_over(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q"))
    cluster.create(build.member("a", "g"))
    mirror = mirrored(cluster)
    cluster.delete("PodGroup", "g", "default")
    cluster.create(build.podgroup("g", "q", 2))
    mirror.update()
    (uid,) = mirror.podgroups
    assert tasks(mirror)["a"].podgroup == uid


def test_a_missing_config_map_blocks_until_it_is_there(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q"))
    pod = build.member("a", "g")
    pod["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    cluster.create(pod)
    mirror = mirrored(cluster)
    assert tasks(mirror)["a"].shape.blocked == ("Missing required configmaps: [settings]",)
    cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}})
    mirror.update()
    assert tasks(mirror)["a"].shape.blocked == ()


def test_claims_count_devices_per_class(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q"))
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
    template = {"kind": "ResourceClaimTemplate", "metadata": {"name": "two", "namespace": "default"}}
    spec = {"spec": {"devices": {"requests": [request]}}}
    cluster.create({"apiVersion": "resource.k8s.io/v1", **template, "spec": spec})
    cluster.create(build.member("a", "g", 0, resourceClaims=[{"name": "c", "resourceClaimTemplateName": "two"}]))
    cluster.create(build.member("b", "g", 0, resourceClaims=[{"name": "c", "resourceClaimName": "nowhere"}]))
    found = tasks(mirrored(cluster))
    assert found["a"].shape.gpu == ClaimedGpus(claimed=(("gpu.nvidia.com", 2),))
    assert found["b"].shape.blocked == ('resourceclaim "nowhere" not found',)


def test_slices_add_gpus_to_their_node(cluster, build) -> None:
    cluster.create(build.node("n", 0, allocatable={"nvidia.com/gpu": "0"}))
    mirror = mirrored(cluster)
    assert mirror.nodes["n"].gpus == 0
    devices = [{"name": f"gpu-{i}"} for i in range(4)]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n"}, "devices": devices}
    resource_slice = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    cluster.create({"apiVersion": "resource.k8s.io/v1", **resource_slice})
    mirror.update()
    assert mirror.nodes["n"].gpus == 4000


def test_shapes_carry_only_labels_that_affinity_selects(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q"))
    cluster.create(build.member("a", "g", labels={"app": "a", "index": "1"}))
    cluster.create(build.member("b", "g", labels={"app": "b", "index": "2"}))
    mirror = mirrored(cluster)
    assert tasks(mirror)["a"].shape is tasks(mirror)["b"].shape
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.create(build.member("c", "g", affinity=affinity))
    mirror.update()
    assert tasks(mirror)["a"].shape.labels == (("app", "a"),)
    assert tasks(mirror)["b"].shape.labels == (("app", "b"),)
    assert tasks(mirror)["a"].shape.namespace == "default"


def test_a_namespace_selector_follows_the_namespaces(cluster, build) -> None:
    cluster.create(build.podgroup("g", "q"))
    term = {
        "labelSelector": {"matchLabels": {"app": "a"}},
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.create(build.member("c", "g", affinity=affinity))
    mirror = mirrored(cluster)
    assert tasks(mirror)["c"].shape.affinity[0].namespaces == ()
    cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}})
    mirror.update()
    assert tasks(mirror)["c"].shape.affinity[0].namespaces == ("other",)


def test_other_node_pools_are_left_out(cluster, build) -> None:
    pool = {"kai.scheduler/node-pool": "blue"}
    cluster.create(build.node("ours"))
    cluster.create(build.node("theirs", labels=pool))
    assert list(mirrored(cluster).nodes) == ["ours"]
    assert list(mirrored(cluster, node_pool="blue").nodes) == ["theirs"]


def test_status_writes_are_no_news(cluster, build) -> None:
    cluster.create(build.queue("q"))
    cluster.create(build.podgroup("g", "q"))
    cluster.create(build.member("a", "g"))
    mirror = mirrored(cluster)
    version = mirror.working.version
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    cluster.patch("Pod", "a", "default", {"status": {"conditions": [condition]}}, "status")
    cluster.patch("PodGroup", "g", "default", {"status": {"schedulingConditions": [{"type": "x"}]}}, "status")
    cluster.patch("Queue", "q", None, {"status": {"requested": {"cpu": "1"}}}, "status")
    mirror.update()
    assert mirror.working.version == version


def test_a_mirror_that_saw_each_status_of_pods_has_the_records_of_one_that_sees_the_last(cluster, build) -> None:
    early = mirrored(cluster)
    cluster.create(build.node("n"))
    cluster.create(build.podgroup("g", "q", 3))
    claims = [{"name": "gpu", "resourceClaimTemplateName": "missing"}]
    for name, fields in {"ends": {}, "leaves": {}, "claims": {"resourceClaims": claims}}.items():
        cluster.create(build.member(name, "g", **fields))
        early.update()
        cluster.bind("default", name, "n", {})
    changes: list[tuple[str, dict[str, Any]]] = [
        ("ends", {"phase": "Running"}),
        ("leaves", {"phase": "Running", "nominatedNodeName": "n"}),
        ("claims", {"phase": "Running"}),
        ("claims", {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "made"}]}),
        ("ends", {"phase": "Succeeded"}),
        ("ends", {"phase": "Failed"}),
    ]
    for name, status in changes:
        early.update()
        cluster.patch("Pod", name, "default", {"status": status}, "status")
    cluster.delete("Pod", "leaves", "default", grace_seconds=300)
    early.update()
    assert early.tasks == mirrored(cluster).tasks
    assert {name: task.status for name, task in tasks(early).items()} == {
        "leaves": Status.RELEASING, "claims": Status.RUNNING,
    }  # fmt: skip


def test_a_mirror_begun_later_sees_the_same(cluster, build) -> None:
    early = mirrored(cluster)
    cluster.create(build.node("n"))
    cluster.create(build.queue("q"))
    cluster.create(build.member("a", "g"))
    early.update()
    cluster.create(build.podgroup("g", "q", 2))
    cluster.create(build.member("b", "g", 0, annotations={"gpu-fraction": "0.5"}))
    cluster.bind("default", "b", "n", {})
    early.update()
    cluster.advance(30)
    early.update()
    late = mirrored(cluster)
    assert late.tasks == early.tasks
    assert late.podgroups == early.podgroups
    assert late.nodes == early.nodes
    assert late.queues == early.queues
