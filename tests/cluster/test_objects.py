"""Create, read, change, delete: what the cluster protocol promises."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Cluster, VirtualTime
from kailab.errors import AlreadyExists, ApiError, Conflict, Forbidden, Invalid, NotFound
from kailab.model.kind import Kind
from kailab.model.kinds import registered_kinds


def test_it_is_a_cluster_with_virtual_time(cluster):
    assert isinstance(cluster, Cluster)
    assert isinstance(cluster, VirtualTime)
    assert cluster.name == "embedded"
    assert cluster.now() == 1767225600.0


def test_base_objects(cluster):
    names = [ns["metadata"]["name"] for ns in cluster.list("Namespace")]
    assert names == ["default", "kai-resource-reservation", "kai-scheduler", "kube-system"]
    values = {pc["metadata"]["name"]: pc["value"] for pc in cluster.list("PriorityClass")}
    assert values["train"] == 50
    assert values["build-preemptible"] == 75
    assert values["build"] == 100
    assert values["inference"] == 125
    assert "system-node-critical" in values


def test_create_fills_in_what_is_the_servers(cluster, build):
    pod = cluster.create(build.pod())
    meta = pod["metadata"]
    assert meta["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert meta["generation"] == 1
    assert meta["uid"].startswith("00000000-0000-4000-8000-")
    assert pod["status"]["phase"] == "Pending"
    assert pod["spec"]["restartPolicy"] == "Always"
    assert pod["spec"]["priority"] == 0
    later = cluster.create(build.pod("q"))["metadata"]
    assert later["uid"] > meta["uid"]
    assert int(later["resourceVersion"]) > int(meta["resourceVersion"])


def test_what_a_client_says_of_server_fields_and_status_is_dropped(cluster, build):
    pod = {**build.pod(uid="mine", resourceVersion="7"), "status": {"phase": "Running"}}
    stored = cluster.create(pod)
    assert stored["metadata"]["uid"] != "mine"
    assert stored["status"]["phase"] == "Pending"


def test_unknown_kinds_and_fields_survive(cluster):
    obj = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "namespace": "default"},
        "x": {"y": [1]},
    }
    cluster.create(copy.deepcopy(obj))
    assert cluster.get("Thing.example.com", "t", "default")["x"] == {"y": [1]}


def test_generated_names_differ_and_are_the_same_in_every_run(cluster, build):
    def names(where):
        made = []
        for _ in range(50):
            pod = build.pod(generateName="job-")
            del pod["metadata"]["name"]
            made.append(where.create(pod)["metadata"]["name"])
        return made

    first = names(cluster)
    assert len(set(first)) == 50
    assert all(name.startswith("job-") and len(name) == 9 for name in first)
    assert names(type(cluster)()) == first


def test_errors_have_the_reasons_of_kubernetes(cluster, build):
    cluster.create(build.pod())
    with pytest.raises(AlreadyExists, match="'p' already exists"):
        cluster.create(build.pod())
    with pytest.raises(NotFound, match="'nope'"):
        cluster.get("Pod", "nope", "default")
    with pytest.raises(NotFound, match="namespace 'nowhere' not found"):
        cluster.create(build.pod(namespace="nowhere"))
    for action in (
        lambda: cluster.delete("Pod", "x"),
        lambda: cluster.patch("Pod", "x", None, {}),
        lambda: cluster.update(build.pod("x")),
    ):
        with pytest.raises(NotFound):
            action()


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"apiVersion": "v1"},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": []},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 3}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "Bad_Name"}, "spec": {"containers": [{"name": "c"}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": []}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": 7},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}},
    ],
)
def test_broken_objects_are_refused_and_nothing_is_stored(cluster, broken):
    before = cluster.dump()
    with pytest.raises(ApiError):
        cluster.create(broken)
    with pytest.raises(ApiError):
        cluster.apply(broken)
    assert cluster.dump() == before


def test_unknown_priority_class_is_refused(cluster, build):
    with pytest.raises(ApiError, match="no PriorityClass with name 'none'"):
        cluster.create(build.pod(spec={"priorityClassName": "none"}))
    assert cluster.create(build.pod(spec={"priorityClassName": "train"}))["spec"]["priority"] == 50


def test_lists_are_sorted_and_filtered(cluster, build):
    cluster.create(build.namespace("b"))
    for name, namespace, tier in (("z", "default", "1"), ("a", "b", "2"), ("m", "default", "2"), ("a", "default", "3")):
        cluster.create(build.pod(name, namespace, labels={"app": "x", "tier": tier}))

    def names(*args, **kwargs):
        return [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in cluster.list("Pod", *args, **kwargs)]

    assert names() == [("b", "a"), ("default", "a"), ("default", "m"), ("default", "z")]
    assert names("default") == [("default", "a"), ("default", "m"), ("default", "z")]
    assert names(labels={"tier": "2"}) == [("b", "a"), ("default", "m")]
    assert names("default", labels={"tier": "2", "app": "x"}) == [("default", "m")]
    assert names(labels="tier in (1,3),app=x") == [("default", "a"), ("default", "z")]
    assert names(labels="tier!=2,app") == [("default", "a"), ("default", "z")]
    assert names(labels="!app") == []
    cluster.patch("Pod", "m", "default", {"metadata": {"labels": {"tier": "1"}}})
    cluster.delete("Pod", "a", "b")
    assert names(labels={"tier": "2"}) == []
    assert names(labels={"tier": "1"}) == [("default", "m"), ("default", "z")]
    with pytest.raises(Invalid):
        cluster.list("Pod", labels="what is this?")


def test_optimistic_concurrency(cluster, build):
    first = cluster.create(build.config(data={"a": "1"}))
    second = cluster.update({**first, "data": {"a": "2"}})
    with pytest.raises(Conflict, match="read it again"):
        cluster.update({**first, "data": {"a": "3"}})
    with pytest.raises(Conflict):
        cluster.patch("ConfigMap", "c", "default", {"metadata": {"resourceVersion": "1"}, "data": {"a": "3"}})
    unconditional = {**second, "metadata": {"name": "c", "namespace": "default"}, "data": {"a": "4"}}
    assert cluster.update(unconditional)["data"] == {"a": "4"}


def test_writing_nothing_new_is_no_write(cluster, build):
    stored = cluster.create(build.config(data={"a": "1"}))
    watch = cluster.watch(["ConfigMap"])
    watch.poll()
    assert cluster.update(dict(stored)) is stored
    assert cluster.patch("ConfigMap", "c", "default", {"data": {"a": "1", "b": None}}) is stored
    assert watch.poll() == []


def test_patch_leaves_what_was_handed_out_alone(cluster, build):
    before = cluster.create(build.config(data={"a": "1"}, annotations={"x": "y"}))
    kept = copy.deepcopy(before)
    after = cluster.patch("ConfigMap", "c", "default", {"metadata": {"annotations": {"x": None, "z": "1"}}})
    assert before == kept
    assert after["metadata"]["annotations"] == {"z": "1"}
    assert after["data"] is before["data"], "shares what did not change"


def test_status_and_the_rest_are_written_apart(cluster, build):
    cluster.create(build.pod())
    cluster.patch("Pod", "p", "default", {"status": {"phase": "Running"}})
    assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Pending"
    cluster.patch("Pod", "p", "default", {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}, "status")
    pod = cluster.get("Pod", "p", "default")
    assert pod["status"]["phase"] == "Running"
    assert "labels" not in pod["metadata"]
    assert pod["metadata"]["generation"] == 1
    cluster.update({**pod, "status": {}, "metadata": {**pod["metadata"], "labels": {"a": "b"}}})
    assert cluster.get("Pod", "p", "default")["status"]["phase"] == "Running"


def test_generation_counts_changes_of_the_spec(cluster):
    spec = {"selector": {"matchLabels": {"app": "a"}}, "replicas": 1,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}  # fmt: skip
    cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
    assert cluster.patch("Deployment", "a", None, {"metadata": {"labels": {"x": "y"}}})["metadata"]["generation"] == 1
    assert cluster.patch("Deployment", "a", None, {"spec": {"replicas": 2}})["metadata"]["generation"] == 2


def test_fixed_fields(cluster, build):
    cluster.create(build.pod())
    with pytest.raises(Invalid, match=r"spec\.nodeName"):
        cluster.patch("Pod", "p", "default", {"spec": {"nodeName": "elsewhere"}})
    with pytest.raises(Invalid, match=r"spec\.containers"):
        cluster.patch("Pod", "p", "default", {"spec": {"containers": [{"name": "d", "image": "pause"}]}})
    cluster.patch("Pod", "p", "default", {"spec": {"containers": [{"name": "c", "image": "other"}]}})
    with pytest.raises(Invalid, match="immutable"):
        cluster.patch("PriorityClass", "train", None, {"value": 51})


_JOB_SET = {"replicatedJobs": [], "failurePolicy": {"maxRestarts": 3}, "managedBy": "example.com/x"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}}}


@pytest.mark.parametrize(
    ("api_version", "content", "changes", "refused"),
    [
        # A rule of a definition on an optional field does not see that the field goes or comes; JobSet's webhook sees all.
        ("jobset.x-k8s.io/v1alpha2", {"kind": "JobSet", "spec": _JOB_SET}, {"failurePolicy": {"maxRestarts": 4}}, "failurePolicy"),
        ("jobset.x-k8s.io/v1alpha2", {"kind": "JobSet", "spec": _JOB_SET}, {"failurePolicy": None}, ""),
        ("jobset.x-k8s.io/v1alpha2", {"kind": "JobSet", "spec": _JOB_SET}, {"managedBy": None}, "managedBy"),
        ("jobset.x-k8s.io/v1alpha2", {"kind": "JobSet", "spec": {}}, {"managedBy": "a.b/c"}, "managedBy"),
        ("jobset.x-k8s.io/v1alpha2", {"kind": "JobSet", "spec": {}}, {"network": {"subdomain": "a"}}, "network"),
        ("v1", {"kind": "PersistentVolumeClaim", "spec": _CLAIM}, {"resources": {"limits": None}}, "resources.limits"),
        ("v1", {"kind": "PersistentVolumeClaim", "spec": _CLAIM}, {"volumeMode": "Filesystem"}, ""),
        ("v1", {"kind": "PersistentVolumeClaim", "spec": _CLAIM}, {"volumeMode": "Block"}, "volumeMode"),
    ],
)  # fmt: skip
def test_removing_and_setting_a_field_that_never_changes(cluster, api_version, content, changes, refused):
    cluster.create({"apiVersion": api_version, "metadata": {"name": "a", "namespace": "default"}, **content})
    if not refused:
        cluster.patch(content["kind"], "a", "default", {"spec": changes})
        return
    with pytest.raises(Invalid, match=rf"spec\.{refused}: field is immutable"):
        cluster.patch(content["kind"], "a", "default", {"spec": changes})


def test_a_config_map_that_says_so_never_changes(cluster, build):
    cluster.create(build.config(data={"a": "1"}))
    cluster.patch("ConfigMap", "c", "default", {"data": {"a": "2"}, "immutable": True})
    for change in ({"data": {"a": "3"}}, {"immutable": None}, {"binaryData": {"b": "Yg=="}}):
        with pytest.raises(Invalid, match="field is immutable"):
            cluster.patch("ConfigMap", "c", "default", change)


def test_apply_is_three_way(cluster, build):
    assert cluster.apply(build.config(data={"a": "1", "b": "1"}))[1] == "created"
    assert cluster.apply(build.config(data={"a": "1", "b": "1"}))[1] == "unchanged"
    cluster.patch("ConfigMap", "c", "default", {"data": {"other": "kept"}})
    after, what = cluster.apply(build.config(data={"a": "2"}))
    assert what == "configured"
    assert after["data"] == {"a": "2", "other": "kept"}


def test_apply_merges_containers_by_name_and_keeps_defaults(cluster):
    def deployment(**container):
        spec = {"selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}}  # fmt: skip
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}

    cluster.apply(deployment(resources={"limits": {"nvidia.com/gpu": 1}}))
    assert cluster.apply(deployment(resources={"limits": {"nvidia.com/gpu": 1}}))[1] == "unchanged"
    cluster.patch("Deployment", "a", None, {"spec": {"replicas": 5}})
    after, _ = cluster.apply(deployment(resources={"limits": {"nvidia.com/gpu": 1}}, command=["x"]))
    assert after["spec"]["replicas"] == 5, "was never applied, so it stays"
    assert after["spec"]["template"]["spec"]["containers"][0]["command"] == ["x"]


def test_apply_to_a_bound_pod_changes_nothing(cluster, running, build):
    running("q")
    cluster.apply(build.pod())
    cluster.bind("default", "p", "n")
    assert cluster.apply(build.pod())[1] == "unchanged"


def test_events_of_one_kind_count_up(cluster, build):
    pod = cluster.create(build.pod())
    watch = cluster.watch(["Event"])
    for _ in range(3):
        cluster.event(pod, "Warning", "Unschedulable", "no room")
        cluster.advance(5)
    cluster.event(pod, "Normal", "Scheduled", "there")
    first, second = sorted(cluster.list("Event", "default"), key=lambda event: event["reason"], reverse=True)
    assert first["count"] == 3
    assert (first["firstTimestamp"], first["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z")
    assert first["involvedObject"]["uid"] == pod["metadata"]["uid"]
    assert second["count"] == 1
    assert [event.type for event in watch.poll()] == ["ADDED", "MODIFIED", "MODIFIED", "ADDED"]
    assert cluster.get("Event", first["metadata"]["name"], "default") == first
    cluster.delete("Event", first["metadata"]["name"], "default")
    assert len(cluster.list("Event")) == 1


def test_bind(cluster, build):
    cluster.create(build.pod())
    cluster.bind("default", "p", "n", {"gpu": "3"})
    pod = cluster.get("Pod", "p", "default")
    assert pod["spec"]["nodeName"] == "n"
    assert pod["metadata"]["annotations"] == {"gpu": "3"}
    assert pod["status"]["conditions"][0]["type"] == "PodScheduled"
    with pytest.raises(Conflict, match="bound to node 'n' already"):
        cluster.bind("default", "p", "m")
    with pytest.raises(NotFound):
        cluster.bind("default", "q", "n")
    cluster.create(build.pod("gated", spec={"schedulingGates": [{"name": "g"}]}))
    with pytest.raises(Conflict, match="gates"):
        cluster.bind("default", "gated", "n")
    cluster.create(build.pod("leaving", finalizers=["example.com/hold"]))
    cluster.delete("Pod", "leaving", "default")
    with pytest.raises(Conflict, match="being deleted"):
        cluster.bind("default", "leaving", "n")


def test_one_priority_class_at_most_is_the_global_default(cluster):
    def priority(name, default):
        meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        return {**meta, "value": 5, "globalDefault": default}

    cluster.create(priority("first", True))
    with pytest.raises(ApiError, match="'first' is the global default already") as refused:
        cluster.create(priority("second", True))
    assert refused.value.reason == "Forbidden"
    cluster.create(priority("second", False))
    with pytest.raises(ApiError, match="'first' is the global default already"):
        cluster.apply(priority("second", True))
    cluster.patch("PriorityClass", "first", None, {"description": "still it"})
    cluster.patch("PriorityClass", "first", None, {"globalDefault": False})
    assert cluster.patch("PriorityClass", "second", None, {"globalDefault": True})["globalDefault"]


def test_kinds_in_use(cluster, build):
    assert cluster.kinds() == ["Namespace", "PriorityClass"]
    cluster.event(cluster.create(build.pod()), "Normal", "X", "y")
    assert cluster.kinds() == ["Event", "Namespace", "Pod", "PriorityClass"]


@pytest.mark.parametrize("labels", [{"": ""}, {"a": "A B"}, {"a": 1}, {"a/b/c": "d"}])
def test_a_patch_of_labels_is_checked_as_at_creation(cluster, build, labels):
    cluster.create(build.config())
    with pytest.raises(Invalid, match=r"metadata\.labels"):
        cluster.patch("ConfigMap", "c", "default", {"metadata": {"labels": labels}})
    assert "labels" not in cluster.get("ConfigMap", "c", "default")["metadata"]


def _job(name, image="i", **metadata):
    container = {"name": "c", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def test_a_job_like_one_before_comes_out_as_if_it_were_the_first(cluster):
    from kailab.cluster.embedded import EmbeddedCluster

    cluster.create(_job("first"))
    second = _job("second", labels={"a": "b", "gone": None}, annotations={"n": "1"})
    stored = cluster.create(copy.deepcopy(second))
    alone = EmbeddedCluster().create(copy.deepcopy(second))
    for each in (stored, alone):
        for field in ("uid", "resourceVersion"):
            each["metadata"].pop(field)
    assert stored == alone
    assert list(stored) == list(alone)
    assert "requests" not in stored["spec"]["template"]["spec"]["containers"][0]["resources"]


def _with_template_metadata(job, metadata):
    spec = job["spec"]
    return {**job, "spec": {**spec, "template": {"metadata": metadata, **spec["template"]}}}


def test_jobs_whose_pods_differ_only_in_labels_and_annotations_share_their_pod_spec(cluster):
    from kailab.cluster.embedded import EmbeddedCluster

    first = cluster.create(_with_template_metadata(_job("first"), {"annotations": {"kailab.dev/run-seconds": "1"}}))
    second = {"labels": {"a": "b", "gone": None}, "annotations": {"kailab.dev/run-seconds": "2"}}
    stored = cluster.create(_with_template_metadata(_job("second"), second))
    alone = EmbeddedCluster().create(_with_template_metadata(_job("second"), second))
    assert stored["spec"] == alone["spec"]
    assert list(stored["spec"]["template"]) == list(alone["spec"]["template"])
    assert stored["spec"]["template"]["spec"] is first["spec"]["template"]["spec"]
    assert "metadata" not in cluster.create(_job("third"))["spec"]["template"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"annotations": {"kailab.dev/run-seconds": "soon"}}, "metadata.annotations[kailab.dev/run-seconds]"),
        ({"annotations": {"gpu-fraction": "2"}}, "metadata.annotations[gpu-fraction]"),
        ({"annotations": {"a": 1}}, "metadata.annotations"),
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": "none"}, "metadata.labels"),
        ({"finalizers": "none"}, "metadata.finalizers"),
    ],
)
def test_what_is_wrong_with_the_pod_template_of_a_job_like_one_before_is_told(cluster, metadata, field):
    first, second = _job("first"), _job("second")
    for job in (first, second):
        job["spec"]["template"]["spec"]["schedulerName"] = "kai-scheduler"
    cluster.create(_with_template_metadata(first, {"labels": {"a": "b"}}))
    with pytest.raises(Invalid) as refused:
        cluster.create(_with_template_metadata(second, metadata))
    assert f"spec.template.{field}" in str(refused.value)


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"a b": "c"}}, "metadata.labels"),
        ({"labels": {"a": 1}}, "metadata.labels"),
        ({"annotations": {"a": 1}}, "metadata.annotations"),
        ({"annotations": "none"}, "metadata.annotations"),
        ({"ownerReferences": [{"kind": "Job"}]}, "metadata.ownerReferences"),
        ({"ownerReferences": "none"}, "metadata.ownerReferences"),
        ({"finalizers": "none"}, "metadata.finalizers"),
    ],
)
def test_what_is_wrong_with_the_metadata_of_a_job_like_one_before_is_told(cluster, metadata, field):
    cluster.create(_job("first"))
    with pytest.raises(Invalid) as refused:
        cluster.create(_job("second", **metadata))
    assert field in str(refused.value)
    with pytest.raises(Invalid, match=r"metadata\.name"):
        cluster.create(_job("A_B"))


@pytest.mark.parametrize("template", [{"metadata": {"labels": {"x": "y"}}}, {"metadata": {}, "spec": "x"}])
def test_what_a_kind_without_pod_templates_calls_a_template_is_compared_as_a_whole(cluster, template):
    for name in ("first", "second"):
        spec = {"minMember": 1, "queue": "q", "template": template}
        metadata = {"name": name, "namespace": "default"}
        made = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        assert cluster.create(made)["spec"]["template"] == template


def test_a_kind_of_another_distribution_may_check_the_metadata_of_its_template(cluster):
    def check(faults, obj):
        if "team" not in obj["spec"]["template"]["metadata"].get("labels", {}):
            faults.add("spec.template.metadata.labels", "has no team")

    kind = Kind(group="example.com", kind="Widget", versions=("v1",), plural="widgets", spec_alone=True, check=check)
    with registered_kinds(kind):
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "default"}}
        spec = {"template": {"metadata": {"labels": {"team": "blue"}}, "spec": {}}}
        cluster.create({**widget, "spec": spec})
        widget["metadata"]["name"] = "b"
        with pytest.raises(Invalid, match="has no team"):
            cluster.create({**widget, "spec": {"template": {"metadata": {"labels": {}}, "spec": {}}}})


def test_a_job_that_says_nearly_the_same_as_one_before_is_checked(cluster):
    cluster.create(_job("first", image="1"))
    broken = _job("second")
    # To Python the text and the number may be equal keys of a table; to Kubernetes an image is text.
    broken["spec"]["template"]["spec"]["containers"][0]["image"] = 1
    with pytest.raises(Invalid, match="image"):
        cluster.create(broken)
    flagged = _job("third")
    flagged["spec"]["parallelism"] = True
    cluster.create({**_job("one"), "spec": {**_job("one")["spec"], "parallelism": 1}})
    with pytest.raises(Invalid, match="parallelism"):
        cluster.create(flagged)


def test_of_a_topology_the_aliases_may_be_edited_and_no_more():
    cluster = EmbeddedCluster()
    levels = [{"nodeLabel": "lab/zone", "alias": "zone"}, {"nodeLabel": "lab/rack"}]
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t"}}
    cluster.create({**topology, "spec": {"levels": levels}})
    edited = [{"nodeLabel": "lab/zone", "alias": "area"}, {"nodeLabel": "lab/rack", "alias": "rack"}]
    cluster.apply({**topology, "spec": {"levels": edited}})
    assert cluster.get("Topology", "t")["spec"]["levels"] == edited
    for other in ([*edited, {"nodeLabel": "lab/host"}], edited[:1], edited[::-1], [{"nodeLabel": "x"}, edited[1]]):
        with pytest.raises(Invalid, match=r"spec\.levels: field is immutable"):
            cluster.apply({**topology, "spec": {"levels": other}})


@pytest.mark.parametrize(
    "notes", [{"gpu-fraction": "500m"}, {"gpu-fraction": "0.5"}, {"kailab.dev/run-seconds": "1h"}, {"gpu-memory": "-1"}]
)
def test_annotations_that_are_changed_are_read_as_those_of_a_new_pod(notes):
    """The pod asks for a whole GPU, beside which no share is taken."""
    cluster = EmbeddedCluster()
    resources = {"limits": {"nvidia.com/gpu": 1}}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x", "resources": resources}]}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    with pytest.raises(Invalid, match=next(iter(notes))):
        cluster.patch("Pod", "p", "default", {"metadata": {"annotations": notes}})
    cluster.patch(
        "Pod", "p", "default", {"metadata": {"annotations": {"kailab.dev/run-seconds": "90", "other": "500m"}}}
    )


def _claim(**spec: Any) -> dict[str, Any]:
    size = {"requests": {"storage": "2Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": size, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}


def _storage_class(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "csi.x", **fields,
    }  # fmt: skip


def _indexed(**spec: Any) -> dict[str, Any]:
    job = _job("indexed")
    return {**job, "spec": {**job["spec"], "completionMode": "Indexed", **spec}}


def _gated(**spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x"}], "schedulingGates": [{"name": "a.b/c"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gated"}, "spec": spec}


_GROWN = {"resources": {"requests": {"storage": "3Gi"}}}
_EXPANDS = _storage_class(allowVolumeExpansion=True)
_TOLERATION = {"key": "a", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ([_claim()], _claim(accessModes=["ReadWriteMany"]), "accessModes"),
        ([_claim()], _claim(**_GROWN), "only change once the claim is bound"),
        ([_storage_class(), _claim()], _claim(**_GROWN), "allowVolumeExpansion"),
        ([_EXPANDS, _claim(**_GROWN)], _claim(), "may only grow"),
        ([_storage_class()], _storage_class(reclaimPolicy="Retain"), "reclaimPolicy"),
        ([_indexed(completions=2, parallelism=1)], _indexed(completions=3, parallelism=1), "completions"),
        ([_indexed(completions=2)], _indexed(completions=2, successPolicy={"rules": [{"succeededCount": 1}]}), "successPolicy"),
        ([_gated(nodeSelector={"a": "b"})], _gated(nodeSelector={"a": "c"}), "nodeSelector"),
        ([_gated(tolerations=[_TOLERATION])], _gated(), "tolerations"),
        ([_gated(activeDeadlineSeconds=5)], _gated(activeDeadlineSeconds=6), "activeDeadlineSeconds"),
        ([_gated()], _gated(terminationGracePeriodSeconds=5), "terminationGracePeriodSeconds"),
    ],
)  # fmt: skip
def test_a_change_that_a_server_refuses_is_refused(before, after, field):
    cluster = EmbeddedCluster()
    for obj in before:
        cluster.apply(obj)
    with pytest.raises((Invalid, Forbidden), match=field):
        cluster.apply(after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (_storage_class(), _storage_class(reclaimPolicy="Delete", volumeBindingMode="Immediate")),
        (_claim(), _claim(volumeMode="Filesystem")),
        (_indexed(completions=2, parallelism=2), _indexed(completions=3, parallelism=3)),
        (_indexed(completions=2, parallelism=2), _indexed(completions=2, parallelism=0)),
        (_gated(nodeSelector={"a": "b"}), _gated(nodeSelector={"a": "b", "c": "d"})),
        (_gated(tolerations=[_TOLERATION]), _gated(tolerations=[{**_TOLERATION, "tolerationSeconds": 9}])),
        (_gated(activeDeadlineSeconds=5), _gated(activeDeadlineSeconds=4)),
    ],
)
def test_a_change_that_a_server_takes_is_taken(before, after):
    cluster = EmbeddedCluster()
    cluster.apply(before)
    assert cluster.apply(after)[1] in ("configured", "unchanged")


def test_a_bound_claim_grows_with_its_volume_as_far_as_quota_and_limits_go():
    cluster = EmbeddedCluster()
    cluster.apply(_EXPANDS)
    cluster.apply(_claim())
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"requests.storage": "5Gi"}},
    }
    limit = {"type": "PersistentVolumeClaim", "max": {"storage": "4Gi"}}
    cluster.apply(quota)
    cluster.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [limit]}})
    cluster.apply(_claim(**_GROWN))
    (volume,) = cluster.list("PersistentVolume")
    assert volume["spec"]["capacity"] == {"storage": "3Gi"}
    assert cluster.get("PersistentVolumeClaim", "c", "default")["status"]["capacity"] == {"storage": "3Gi"}
    for size, why in (("6Gi", "exceeded quota|maximum storage"), ("5Gi", "maximum storage")):
        with pytest.raises(Forbidden, match=why):
            cluster.apply(_claim(resources={"requests": {"storage": size}}))
