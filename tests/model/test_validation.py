from __future__ import annotations

import re

import pytest

from kailab.model.kinds import kind_key
from kailab.model.validation import advise, validate
from kailab.model.validation.advice import advise_scheduler
from kailab.model.validation.fields import Faults

RESOURCES = "spec.containers[0].resources"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
INDEXED = {"completionMode": "Indexed", "completions": 5, "parallelism": 1}


def container(**resources):
    return {"containers": [{"name": "main", "resources": resources}]}


def test_sound_objects_have_no_faults(make, faults):
    constraint = {"topology": "t", "requiredTopologyLevel": "rack"}
    for obj in (
        make["pod"](),
        make["deployment"](),
        make["job"](parallelism=0, completions=3),
        make["queue"](),
        make["podgroup"](minMember=2, topologyConstraint=constraint, preemptionDelay="30s", stalenessGracePeriod="-1s"),
        make["topology"]({"nodeLabel": "lab/rack", "alias": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}),
    ):
        assert faults(obj) == {}


@pytest.mark.parametrize(
    ("resources", "field", "message"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": 1}}, "requests[cpu]", "more than the limit of 1"),
        ({"requests": {"nvidia.com/gpu": 1}}, "requests[nvidia.com/gpu]", "needs an equal limit"),
        (
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            "requests[nvidia.com/gpu]",
            "must equal",
        ),
        ({"limits": {"nvidia.com/gpu": "500m"}}, "limits[nvidia.com/gpu]", "a whole number"),
        ({"limits": 1, "requests": {"nvidia.com/gpu": 1}}, "limits", "1 is not valid; expected a mapping"),
        ({"limits": True, "requests": {"nvidia.com/gpu": 1}}, "limits", "expected a mapping"),
        ({"limits": {"cpu": "-1"}}, "limits[cpu]", "negative"),
        ({"limits": {"memory": "1GB"}}, "limits[memory]", "expected a quantity"),
        ({"limits": {"memory": True}}, "limits[memory]", "expected a quantity"),
        ({"limits": [1]}, "limits", "expected a mapping"),
        ({"limits": {"a b": 1}}, "limits[a b]", "not a resource name"),
        ({"requests": {"a b": 1}}, "requests[a b]", "not a resource name"),
        ({"limits": {"gpu": 1}}, "limits[gpu]", "not a resource of containers"),
        ({"requests": {"hugepages-2Mi": "4Mi", "cpu": 1}}, "requests[hugepages-2Mi]", "needs an equal limit"),
    ],
)
def test_resources(make, faults, resources, field, message):
    assert message in faults(make["pod"](spec=container(**resources)))[f"{RESOURCES}.{field}"]


@pytest.mark.parametrize(
    ("fields", "volumes", "field"),
    [
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}, [], "spec.containers[0].volumeMounts[0].name"),
        ({}, [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}], "spec.volumes[0]"),
        ({"volumeMounts": [{"name": "v", "mountPath": "/a"}] * 2}, [{"name": "v", "emptyDir": {}}], "spec.containers[0].volumeMounts[1].mountPath"),
        ({"env": [{"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}, [], "spec.containers[0].env[0].valueFrom"),
        ({"env": [{"name": "A", "valueFrom": {}}]}, [], "spec.containers[0].env[0].valueFrom"),
        ({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}, [], "spec.containers[0].ports[1].name"),
        ({"readinessProbe": {"periodSeconds": 1}}, [], "spec.containers[0].readinessProbe"),
        ({"lifecycle": {"preStop": {}}}, [], "spec.containers[0].lifecycle.preStop"),
        ({"resources": {"limits": {"hugepages-2Mi": "4Mi"}}}, [], "spec.containers[0].resources"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_in_a_container_is_a_fault(make, faults, fields, volumes, field):
    spec = {"containers": [{"name": "main", **fields}], "volumes": volumes}
    assert list(faults(make["pod"](spec=spec))) == [field]


def test_a_volume_without_a_source_is_an_empty_directory(make, faults):
    spec = {
        "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/a"}]}],
        "volumes": [{"name": "v"}],
    }
    assert not faults(make["pod"](spec=spec))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"maxFailedIndexes": 1}, "spec.maxFailedIndexes"),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore"}]}}, "spec.podFailurePolicy.rules[0]"),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}, "spec.podReplacementPolicy"),
        ({"completionMode": "Indexed", "completions": 1, "successPolicy": {"rules": [{}]}}, "spec.successPolicy.rules[0]"),
        ({"selector": {"matchLabels": {"app": "a"}}}, "spec.selector"),
        ({"manualSelector": True}, "spec.selector"),
        ({**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0,2-1"}]}}, "spec.successPolicy.rules[0].succeededIndexes"),
        ({**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "2-5"}]}}, "spec.successPolicy.rules[0].succeededIndexes"),
        (
            {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 3}]}},
            "spec.successPolicy.rules[0].succeededCount",
        ),
        ({**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, "spec.maxFailedIndexes"),
        ({**INDEXED, "backoffLimitPerIndex": 1, "completions": 100_001}, "spec.maxFailedIndexes"),
        ({"managedBy": "other"}, "spec.managedBy"),
        (
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 1]}}]}},
            "spec.podFailurePolicy.rules[0].onExitCodes.values",
        ),
    ],
)  # fmt: skip
def test_rules_of_a_job_that_need_one_another(make, faults, spec, field):
    assert list(faults(make["job"](**spec))) == [field]


def test_a_job_that_a_server_has_stored_has_the_server_s_selector(make, faults):
    selector = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert faults(make["job"](selector=selector)) == {}


@pytest.mark.parametrize(
    ("annotations", "limits", "message"),
    [
        ({"gpu-fraction": "1.5"}, {}, "more than 0 and less than 1"),
        ({"gpu-fraction": "0"}, {}, "more than 0 and less than 1"),
        ({"gpu-fraction": "half"}, {}, "expected a decimal number of more than 0 and less than 1"),
        ({"gpu-fraction": "500m"}, {}, "expected a decimal number of more than 0 and less than 1"),
        ({"gpu-memory": "3000000000"}, {}, "2147483647 at most"),
        ({"gpu-memory": "1e3"}, {}, "whole number of 1 or more"),
        ({"gpu-fraction": "0.5"}, {"nvidia.com/gpu": 1}, "can't be combined with a whole"),
        ({"gpu-memory": "0"}, {}, "1 or more"),
        ({"gpu-memory": "1Gi"}, {}, "whole number of 1 or more"),
        ({"gpu-memory": "100", "gpu-fraction": "0.5"}, {}, "can't be combined with gpu-fraction"),
        ({"gpu-memory": "100"}, {"nvidia.com/gpu": 1}, "can't be combined with a whole"),
        ({"gpu-fraction-num-devices": "2"}, {}, "needs gpu-fraction or gpu-memory"),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}, {}, "1 or more"),
        ({"mps": "true"}, {}, "needs gpu-fraction or gpu-memory"),
        ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "other"}, {}, "no container is called 'other'"),
    ],
)
def test_gpu_sharing_as_kai_admits_it(make, faults, annotations, limits, message):
    spec = {**container(limits=limits), "schedulerName": "kai-scheduler"}
    assert message in " ".join(faults(make["pod"](spec=spec, annotations=annotations)).values())
    other = {**container(limits=limits), "schedulerName": "default-scheduler"}
    assert faults(make["pod"](spec=other, annotations=annotations)) == {}  # KAI judges its own pods only


def test_visible_devices_may_be_named_as_in_kai(make, faults):
    """KAI's webhook refuses NVIDIA_VISIBLE_DEVICES only where its Config asks for that (blockNvidiaVisibleDevices)."""
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    spec = {"containers": [{"name": "main", "env": env}], "schedulerName": "kai-scheduler"}
    assert faults(make["pod"](spec=spec)) == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a"}, {"name": "a"}]}, "spec.containers[1].name"),
        ({"containers": [3]}, "spec.containers[0]"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"serviceAccountName": "${ACCOUNT}"}, "spec.serviceAccountName"),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, "spec.volumes[0].ephemeral.volumeClaimTemplate"),
        ({"containers": [{"name": "a", "restartPolicy": "Sometimes"}]}, "spec.containers[0].restartPolicy"),
        ({"initContainers": [{"name": "a", "restartPolicy": 3}]}, "spec.initContainers[0].restartPolicy"),
        ({"terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector[a]"),
        ({"tolerations": [{"operator": "Equal"}]}, "spec.tolerations[0].operator"),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}, "spec.tolerations[0].value"),
        ({"priority": "high"}, "spec.priority"),
        ({"schedulingGates": [{}]}, "spec.schedulingGates[0].name"),
        ({"resourceClaims": [{"name": "a"}]}, "spec.resourceClaims[0]"),
        (
            {
                "resourceClaims": [{"name": "a", "resourceClaimName": "one"}],
                "initContainers": [{"name": "first", "resources": {"claims": [{"name": "b"}]}}],
            },
            "spec.initContainers[0].resources.claims[0].name",
        ),
        (
            {"containers": [{"name": "a", "resources": {"claims": [{"name": "b"}]}}]},
            "spec.containers[0].resources.claims[0].name",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a"}]},
            "spec.topologySpreadConstraints[0].maxSkew",
        ),
        ({"hostNetwork": "yes"}, "spec.hostNetwork"),
        ({"volumes": [{"configMap": 3}]}, "spec.volumes[0].configMap"),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, "spec.volumes[1].name"),
        ({"schedulingGates": [{"name": "a/b"}], "nodeName": "n"}, "spec.nodeName"),
        ({"runtimeClassName": ""}, "spec.runtimeClassName"),
        ({"ephemeralContainers": [{"name": "d", "image": "x"}]}, "spec.ephemeralContainers"),
        ({"schedulingGates": [{"name": "a/b"}, {"name": "a/b"}]}, "spec.schedulingGates[1].name"),
        ({"hostname": "a.b"}, "spec.hostname"),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "spec.resources.limits[nvidia.com/gpu]"),
        ({"topologySpreadConstraints": [SPREAD, SPREAD]}, "spec.topologySpreadConstraints[1]"),
        ({"topologySpreadConstraints": [{**SPREAD, "minDomains": 0}]}, "spec.topologySpreadConstraints[0].minDomains"),
        ({"topologySpreadConstraints": [{**SPREAD, "matchLabelKeys": ["a"]}]}, "spec.topologySpreadConstraints[0].matchLabelKeys"),
        ({"tolerations": [{"key": "a", "value": "b c"}]}, "spec.tolerations[0].value"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]}, "spec.volumes[0].persistentVolumeClaim.claimName"),
        ({"containers": [{"name": "a", "resources": {"limits": {"hugepages-2Mi": "3Mi", "cpu": 1}}}]}, f"{RESOURCES}.limits[hugepages-2Mi]"),
        ({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"port": 0}}}]}, "spec.containers[0].livenessProbe.httpGet.port"),
        ({"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "Web"}]}]}, "spec.containers[0].ports[0].name"),
    ],
)  # fmt: skip
def test_pod_specs(make, faults, spec, field):
    assert field in faults(make["pod"](spec=make["pod_spec"](**spec)))


def test_pods_that_are_replaced_for_ever_have_no_deadline(make, faults):
    deployment = make["deployment"]()
    deployment["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 60
    assert "spec.template.spec.activeDeadlineSeconds" in faults(deployment)


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ({"key": "a", "operator": "Inside"}, "operator"),
        ({"key": "a"}, "operator"),
        ({"key": "a", "operator": "In"}, "values"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "values"),
        ({"key": "a", "operator": "Gt", "values": ["x"]}, "values"),
        ({"key": "a", "operator": "In", "values": [1]}, "values"),
        ({"key": "a b", "operator": "Exists"}, "key"),
    ],
)
def test_node_affinity(make, faults, expression, part):
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = faults(make["pod"](spec=make["pod_spec"](affinity=affinity)))
    assert [field.rpartition(".")[2] for field in found] == [part]


def test_a_preferred_node_may_have_any_value(make, faults):
    terms = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x y"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms]}}
    for affinity, sound in ((preferred, True), (required, False)):
        assert (faults(make["pod"](spec=make["pod_spec"](affinity={"nodeAffinity": affinity}))) == {}) == sound


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda spec: spec["resources"]["gpu"].update(quota=-2), "spec.resources.gpu.quota"),
        (lambda spec: spec["resources"]["gpu"].update(limit="8"), "spec.resources.gpu.limit"),
        (lambda spec: spec["resources"]["cpu"].update(quota=1e40), "spec.resources.cpu.quota"),
        (lambda spec: spec["resources"]["gpu"].update(overQuotaWeight=-1), "spec.resources.gpu.overQuotaWeight"),
        (lambda spec: spec.update(priority=1.5), "spec.priority"),
        (lambda spec: spec.update(priority=True), "spec.priority"),
        (lambda spec: spec.update(parentQueue="team"), "spec.parentQueue"),
        (lambda spec: spec.update(preemptMinRuntime="soon"), "spec.preemptMinRuntime"),
        (lambda spec: spec.update(reclaimMinRuntime="-5s"), "spec.reclaimMinRuntime"),
        (lambda spec: spec.update(resources=[]), "spec.resources"),
    ],
)
def test_queues(make, faults, change, field):
    queue = make["queue"]()
    change(queue["spec"])
    assert list(faults(queue)) == [field]


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"minMember": -1}, ["spec.minMember"]),
        ({"minMember": 1, "minSubGroup": 1}, ["spec.minMember"]),
        ({"preemptibility": "maybe"}, ["spec.preemptibility"]),
        ({"preemptionDelay": "-1s"}, ["spec.preemptionDelay"]),
        ({"subGroups": [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]}, ["spec.subGroups[1].name"]),
        ({"subGroups": [{"name": "a", "minMember": 1, "parent": "x"}]}, ["spec.subGroups[0].parent"]),
        ({"subGroups": [{"name": "a", "parent": "a"}]}, ["spec.subGroups[0].parent"]),
        (
            {"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]},
            ["spec.subGroups[0].parent", "spec.subGroups[1].parent"],
        ),
        ({"subGroups": [{"name": "a"}]}, ["spec.subGroups[0].minMember"]),
        ({"subGroups": [{"name": "a", "minSubGroup": 1}]}, ["spec.subGroups[0].minSubGroup"]),
        (
            {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]},
            ["spec.subGroups[0].minMember"],
        ),
    ],
)
def test_podgroups(make, faults, spec, fields):
    assert sorted(faults(make["podgroup"](**spec))) == fields


def test_more_subgroups_wanted_than_there_are_is_advice_as_in_kai(make):
    group = make["podgroup"](minSubGroup=3, subGroups=[{"name": "a", "minMember": 1}])
    assert validate(group, "PodGroup") == []
    assert "there are 1" in advise(group, "PodGroup")[0].message


@pytest.mark.parametrize(
    ("levels", "field"),
    [
        ([], "spec.levels"),
        ([{"nodeLabel": "a"}, {"nodeLabel": "a"}], "spec.levels[1].nodeLabel"),
        ([{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "a"}], "spec.levels[0].nodeLabel"),
        ([{"nodeLabel": "a", "alias": "b"}, {"nodeLabel": "b"}], "spec.levels[0].alias"),
        ([{"alias": "b"}], "spec.levels[0].nodeLabel"),
        ([{"nodeLabel": f"l{i}"} for i in range(17)], "spec.levels"),
    ],
)
def test_topologies(make, faults, levels, field):
    assert field in faults(make["topology"](*levels))


def test_workloads(make, faults):
    assert "spec.selector.matchLabels[app]" in faults(make["deployment"](labels={"app": "other"}))
    assert "spec.replicas" in faults(make["deployment"](replicas=-1))
    assert "spec.replicas" in faults(make["deployment"](replicas="2"))
    assert "spec.parallelism" in faults(make["job"](parallelism=1.5))
    assert "spec.completions" in faults(make["job"](completionMode="Indexed", parallelism=2))
    assert not faults(make["job"](completionMode="Indexed"))  # both are 1 by default
    always = make["job"]()
    always["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert "OnFailure or Never" in faults(always)["spec.template.spec.restartPolicy"]
    bad = make["job"]()
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "x"}}
    assert list(faults(bad)) == ["spec.template.spec.containers[0].resources.limits[cpu]"]


def test_a_template_that_was_sound_once_is_judged_anew_where_anything_differs(make, faults):
    always = make["deployment"]()
    assert faults(always) == {}
    elsewhere = make["job"]()
    elsewhere["spec"]["template"] = always["spec"]["template"]
    assert "OnFailure or Never" in faults(elsewhere)["spec.template.spec.restartPolicy"]
    assert faults(make["job"]()) == {}
    for value in (True, 1.0, "1"):
        odd = make["job"]()
        odd["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 1
        assert faults(odd) == {}
        odd["spec"]["template"]["spec"]["activeDeadlineSeconds"] = value
        assert "spec.template.spec.activeDeadlineSeconds" in faults(odd)
    row = make["job"]()
    row["spec"]["template"]["spec"]["containers"] = tuple(row["spec"]["template"]["spec"]["containers"])
    assert "spec.template.spec.containers" in faults(row)


def test_training_jobs_are_checked_by_role(make, faults):
    def training(**worker):
        roles = {"Worker": {"replicas": 1, "template": {"spec": make["pod_spec"]()}, **worker}}
        return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"},
                "spec": {"pytorchReplicaSpecs": roles}}  # fmt: skip

    assert faults(training()) == {}
    assert list(faults(training(replicas=-1))) == ["spec.pytorchReplicaSpecs.Worker.replicas"]
    assert list(faults(training(template={"spec": {}}))) == ["spec.pytorchReplicaSpecs.Worker.template.spec.containers"]


@pytest.mark.parametrize(
    ("kind", "field", "role", "expected"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", "Workers", "Master or Worker"),
        ("XGBoostJob", "xgbReplicaSpecs", "worker", "Master or Worker"),
        ("PaddleJob", "paddleReplicaSpecs", "PS", "Master or Worker"),
        ("JAXJob", "jaxReplicaSpecs", "Master", "Worker"),
    ],
)
def test_roles_that_the_training_operator_refuses(make, faults, kind, field, role, expected):
    """Its webhooks take the roles of each kind by their exact names (pkg/webhooks); those of TFJob are not looked at."""

    def training(kind, field, role):
        roles = {role: {"replicas": 1, "template": {"spec": make["pod_spec"]()}}}
        return {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "t"}, "spec": {field: roles}}

    found = faults(training(kind, field, role))
    assert found == {f"spec.{field}.{role}": f"there is no such role; expected {expected}"}
    assert faults(training(kind, field, "Worker")) == {}
    assert faults(training("TFJob", "tfReplicaSpecs", "Trainer")) == {}


def test_nodes(faults):
    def node(**status):
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}

    assert faults(node(allocatable={"cpu": 4, "nvidia.com/gpu": 8})) == {}
    assert "status.allocatable[nvidia.com/gpu]" in faults(node(allocatable={"nvidia.com/gpu": 0.5}))
    assert (
        "more than the capacity" in faults(node(capacity={"cpu": 1}, allocatable={"cpu": 2}))["status.allocatable[cpu]"]
    )


def test_roles_and_their_bindings(faults):
    def rbac(kind, **fields):
        return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "n"}, **fields}

    account, role = {"kind": "ServiceAccount", "name": "a"}, {"kind": "ClusterRole", "name": "r"}
    url, pods = (
        {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        {"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]},
    )
    for sound in (
        rbac("RoleBinding", roleRef=role, subjects=[account, {"kind": "User", "name": "u"}]),
        rbac("ClusterRoleBinding", roleRef=role),
        rbac("ClusterRole", rules=[url, pods]),
        rbac("ClusterRole", rules=None, aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
    ):
        assert faults(sound) == {}
    assert faults(rbac("ClusterRoleBinding", roleRef={**role, "kind": "Role"}, subjects=[account])).keys() == {
        "roleRef.kind",
        "subjects[0].namespace",
    }
    assert "subjects[0].kind" in faults(rbac("RoleBinding", roleRef=role, subjects=[{"kind": "Robot", "name": "r"}]))
    assert faults(rbac("Role", rules=[url, {"verbs": ["get"], "apiGroups": [""]}])).keys() == {
        "rules[0].nonResourceURLs",
        "rules[1].resources",
    }


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"name": "x" * 254}, "metadata.name"),
        ({"name": "a..b"}, "metadata.name"),
        ({"labels": {"a": "b c"}}, "metadata.labels[a]"),
        ({"labels": {"a/b/c": "d"}}, "metadata.labels[a/b/c]"),
        ({"labels": []}, "metadata.labels"),
        ({"annotations": {"a": 1}}, "metadata.annotations[a]"),
        ({"namespace": "Not"}, "metadata.namespace"),
        ({"ownerReferences": [{"kind": "Job"}]}, "metadata.ownerReferences[0].uid"),
        ({"uid": 3}, "metadata.uid"),
    ],
)
def test_metadata(make, faults, meta, field):
    assert field in faults(make["pod"](**meta))


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"labels": {"kai.scheduler/preemptibility": "yes"}}, "neither preemptible nor non-preemptible"),
        ({"annotations": {"kai.scheduler/preemption-delay": "-5s"}}, "negative; expected a duration .* KAI ignores it"),
        ({"annotations": {"kai.scheduler/staleness-grace-period": "5"}}, "is not a duration"),
        ({"annotations": {"kai.scheduler/batch-min-member": "-1"}}, "they stay pending"),
        ({"annotations": {"kai.scheduler/batch-min-member": "two"}}, "they stay pending"),
    ],
)
def test_what_kai_would_pass_over_is_advice(make, meta, message):
    job = make["job"]()
    job["metadata"].update(meta)
    job["spec"]["template"]["metadata"].update(meta)
    assert validate(job, "Job") == []
    found = advise(job, "Job")
    assert [fault.field.partition("[")[0].rpartition(".")[0] for fault in found] == [
        "metadata",
        "spec.template.metadata",
    ]
    assert re.search(message, found[0].message)


def test_sound_hints_need_no_advice(make):
    notes = {"kai.scheduler/batch-min-member": "4", "kai.scheduler/staleness-grace-period": "-1s"}
    pod = make["pod"](labels={"kai.scheduler/preemptibility": "non-preemptible"}, annotations=notes)
    assert advise(pod, "Pod") == []


@pytest.mark.parametrize(
    ("spec", "makes"),
    [
        ({"parallelism": 2, "completions": 8}, "2 pods"),
        ({"parallelism": 8, "completions": 3}, "3 pods"),
        ({}, "1 pod at"),
    ],
)
def test_a_gang_above_what_the_job_makes_at_a_time_is_advice(make, spec, makes):
    job = make["job"](**spec)
    job["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "4"}
    assert validate(job, "Job") == []
    [found] = advise(job, "Job")
    assert found.field == "metadata.annotations[kai.scheduler/batch-min-member]"
    assert found.message.startswith(f"is 4, but the Job makes {makes}")
    job["metadata"]["annotations"] = {"kai.scheduler/batch-min-member": "1"}
    assert advise(job, "Job") == []


def fields_advised(obj):
    faults = Faults()
    advise_scheduler(faults, obj)
    return [fault.field for fault in faults.found]


def test_work_that_names_a_queue_but_not_its_scheduler_is_advice(make):
    deployment = make["deployment"]()
    deployment["metadata"]["labels"] = {"kai.scheduler/queue": "team"}
    assert fields_advised(deployment) == []
    del deployment["spec"]["template"]["spec"]["schedulerName"]
    assert fields_advised(deployment) == ["spec.template.spec.schedulerName"]
    del deployment["metadata"]["labels"]
    assert fields_advised(deployment) == []


@pytest.mark.parametrize(
    "key",
    [
        "run-seconds",
        "ready-seconds",
        "expected-seconds",
        "ran-seconds",
        "checkpoint-seconds",
        "termination-seconds",
        "fail",
    ],
)
@pytest.mark.parametrize(
    ("text", "sound"),
    [("90", True), ("0", True), ("0.5", True), ("1e3", True), ("500m", False), ("1Ki", False), ("-1", False), ("nan", False),
     ("inf", False), ("1h", False), ("", False), (" 5", False), ("1_000", False), ("9" * 5000, False)],
)  # fmt: skip
def test_seconds_in_annotations_are_numbers(make, faults, key, text, sound):
    found = faults(make["pod"](annotations={f"kailab.dev/{key}": text}))
    assert not found if sound else "seconds, zero or more" in found[f"metadata.annotations[kailab.dev/{key}]"]


@pytest.mark.parametrize(
    ("toleration", "fault"),
    [
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**63 - 1}, ""),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}, ""),
        ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2**63}, "tolerationSeconds"),
        ({"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}, "effect"),
        ({"operator": "Exists", "tolerationSeconds": 5}, "effect"),
    ],
)
def test_toleration_seconds_are_for_no_execute(make, faults, toleration, fault):
    found = faults(make["pod"](spec={**container(), "tolerations": [toleration]}))
    assert list(found) == ([f"spec.tolerations[0].{fault}"] if fault else [])


@pytest.mark.parametrize(
    ("name", "value", "sound"),
    [("a", 10**9, True), ("a", 10**9 + 1, False), ("a", -(2**31), True), ("system-node-critical", 2_000_001_000, True), ("system-node-critical", 2**31, False)],
)  # fmt: skip
def test_the_highest_priorities_are_the_systems(faults, name, value, sound):
    obj = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    assert list(faults(obj)) == ([] if sound else ["value"])


@pytest.mark.parametrize(("name", "value"), [("system-node-critical", 5), ("system-mine", 5)])
def test_names_of_the_systems_priority_classes_are_kubernetes_own(faults, name, value):
    obj = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    assert "system-cluster-critical (2000000000)" in faults(obj)["metadata.name"]


@pytest.mark.parametrize(
    ("template", "spec", "field"),
    [
        ({"subGroupPolicy": {"subGroupSize": 9}}, {}, "leaderWorkerTemplate.subGroupPolicy.subGroupSize"),
        (
            {"subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}},
            {},
            "leaderWorkerTemplate.subGroupPolicy.subGroupSize",
        ),
        ({"size": 5, "subGroupPolicy": {"subGroupSize": 3}}, {}, "leaderWorkerTemplate.subGroupPolicy.subGroupSize"),
        ({}, {"partition": -1}, "rolloutStrategy.rollingUpdateConfiguration.partition"),
        ({}, {"maxUnavailable": "200%"}, "rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"),
        ({}, {"maxUnavailable": 0}, "rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"),
        ({"subGroupPolicy": {"subGroupSize": 3}}, {"maxUnavailable": 0, "maxSurge": 1}, None),
    ],
)
def test_a_leader_worker_set_is_checked_as_by_its_webhook(template, spec, field):
    pod = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    obj = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a"},
        "spec": {
            "leaderWorkerTemplate": {"size": 4, "workerTemplate": pod, **template},
            "rolloutStrategy": {"rollingUpdateConfiguration": spec},
        },
    }
    assert [path for path, _ in validate(obj, "LeaderWorkerSet")] == ([f"spec.{field}"] if field else [])


@pytest.mark.parametrize(
    ("kind", "name", "more", "sound"),
    [
        ("CronJob", "a" * 52, {}, True),
        ("CronJob", "a" * 53, {}, False),
        ("Job", "a" * 63, {}, True),
        ("Job", "a" * 64, {}, False),
        ("Job", "a" * 61, INDEXED, True),
        ("Job", "a" * 62, INDEXED, False),
        ("StatefulSet", "a.b", {}, False),
    ],
)
def test_names_from_which_those_of_pods_are_made(kind, name, more, sound):
    found = validate({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": more}, kind)
    assert ("metadata.name" not in dict(found)) is sound


@pytest.mark.parametrize(("annotations", "advised"), [({}, True), ({"kai.scheduler/batch-min-member": "1"}, False)])
def test_a_job_that_waits_for_one_of_its_own_gang_is_advised(annotations, advised):
    pods = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}
    first = {"name": "first", "template": {"spec": {"template": {"spec": pods}}}}
    second = {**first, "name": "second", "dependsOn": [{"name": "first", "status": "Complete"}]}
    spec = {"replicatedJobs": [first, second]}
    metadata = {"name": "a", "annotations": annotations}
    job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "a"},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": spec}},
    }
    for obj, path in ((job_set, "spec"), (runtime, "spec.template.spec")):
        found = [fault.field for fault in advise(obj, kind_key(obj))]
        assert found == [f"{path}.replicatedJobs[1].dependsOn"] * advised


@pytest.mark.parametrize(("container", "advised"), [("pytorch", False), ("trainer", True)])
def test_a_container_that_the_training_operator_asks_for_is_advised(container, advised):
    template = {"spec": {"containers": [{"name": container, "image": "i"}]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}}},
    }
    path = "spec.pytorchReplicaSpecs.Master.template.spec.containers"
    assert [fault.field for fault in advise(job, kind_key(job))] == [path] * advised
