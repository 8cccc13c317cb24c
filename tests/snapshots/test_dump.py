"""Files of a cluster, as kubectl and collectors write them, opened as a lab."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from checks.fuzzing.walk import Walk, steps_of
from kailab.advice.audit import audit
from kailab.errors import InputError, Invalid
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.fleet.reading import load_fleet
from kailab.lab.answer import Verdict
from kailab.lab.lab import Lab
from kailab.model import file_trees
from kailab.model.kinds import KINDS
from kailab.model.objects import Object, name_of, namespace_of
from kailab.model.times import format_time, parse_time
from kailab.snapshots import dump, opening, taking

Objects = dict[str, list[Object]]


def as_printed(lab: Lab) -> Objects:
    """The objects of a lab by kind, as kubectl prints those of a cluster."""
    found: Objects = {}
    for kind in lab.cluster.kinds():
        for obj in lab.cluster.list(kind):
            shown = json.loads(json.dumps(obj))
            fields = {"manager": "x", "operation": "Update", "time": shown["metadata"]["creationTimestamp"]}
            shown["metadata"]["managedFields"] = [{**fields, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]
            found.setdefault(kind, []).append(shown)
    return found


def listed(objects: Sequence[Object | None]) -> Object:
    return {"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}}


def text_of(objects: list[Object]) -> str:
    return yaml.dump(listed(objects), Dumper=yaml.CSafeDumper)


def one_file_each(folder: Path, objects: Objects) -> None:
    """A must-gather: a file for each object, beside logs."""
    for kind, several in objects.items():
        known = KINDS[kind]
        for obj in several:
            space = namespace_of(obj)
            at = (
                folder
                / "quay-io-x"
                / (f"namespaces/{space}" if space else "cluster-scoped-resources")
                / (known.group or "core")
            )
            (at / known.plural).mkdir(parents=True, exist_ok=True)
            (at / known.plural / f"{name_of(obj)}.yaml").write_text("---\n" + yaml.dump(obj))
    (folder / "quay-io-x" / "must-gather.logs").write_text("{ not yaml")


def support_bundle(folder: Path, objects: Objects) -> None:
    """Lists without kinds, by namespace, and an archive."""
    with tarfile.open(folder / "bundle.tar.gz", "w:gz") as archive:
        for kind, several in objects.items():
            by_space: Objects = {}
            for obj in several:
                plain = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
                by_space.setdefault(str(namespace_of(obj) or ""), []).append(obj if KINDS[kind].group else plain)
            for space, items in by_space.items():
                name = f"{KINDS[kind].plural}/{space}.json" if space else f"{KINDS[kind].plural}.json"
                add(archive, f"b/cluster-resources/{name}", json.dumps(items, indent=1).encode())
                add(archive, f"b/cluster-resources/{KINDS[kind].plural}-errors.json", b"null")


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def one_yaml(folder: Path, objects: Objects) -> None:
    (folder / "all.yaml").write_text(text_of([obj for several in objects.values() for obj in several]))


def a_list_for_each_kind(folder: Path, objects: Objects) -> None:
    for kind, several in objects.items():
        (folder / f"{kind.lower()}.json").write_text(json.dumps(listed(several), indent=4))


def a_zip_of_documents(folder: Path, objects: Objects) -> None:
    with zipfile.ZipFile(folder / "state.zip", "w") as archive:
        for kind, several in objects.items():
            archive.writestr(f"../{kind}.yml", yaml.dump_all(several, Dumper=yaml.CSafeDumper))


FORMS: list[Callable[[Path, Objects], None]] = [
    one_file_each, support_bundle, one_yaml, a_list_for_each_kind, a_zip_of_documents,
]  # fmt: skip


@pytest.fixture(scope="module")
def busy() -> Any:
    walk = Walk(3)
    for step in steps_of(3, 25):
        walk.take(step)
    yield walk.lab
    walk.close()


def answers(lab: Lab) -> list[Any]:
    """What audit finds, and why 20 workloads run or wait."""
    found: list[Any] = [audit(lab).data()]
    works = [
        (kind, name_of(obj), str(namespace_of(obj)))
        for kind in ("Job", "Deployment", "StatefulSet", "PodGroup")
        for obj in sorted(lab.cluster.list(kind), key=name_of)
    ]
    for kind, name, space in works[:20]:
        found.append((kind, name, lab.explain(kind, name, space, tried=False).data()))
    assert len(found) > 10
    return found


@pytest.mark.parametrize("form", FORMS)
def test_files_give_the_answers_of_a_snapshot(form: Any, busy: Lab, tmp_path: Path) -> None:
    form(tmp_path, as_printed(busy))
    [*files] = tmp_path.iterdir()
    path = files[0] if len(files) == 1 else tmp_path
    # As of a cluster: it is not known what its scheduler decided last, nor that the controllers were those of a lab.
    taken = structs.replace(taking.of_lab(busy), embedded=False, decided=SchedulerDecisions())
    read = opening.read_snapshot_source(path, at=format_time(taken.taken + 0.999))
    assert {kind: len(several) for kind, several in read.snapshot.objects.items()} == {
        kind: len(several) for kind, several in taken.objects.items()
    }
    same_time = structs.replace(taken, taken=read.snapshot.taken, opened=read.snapshot.taken)
    with opening.lab_of(read.snapshot) as one, opening.lab_of(same_time) as other:
        assert answers(one) == answers(other)


def test_the_clock_starts_at_the_newest_time(tmp_path: Path) -> None:
    node = a_node("a")
    node["metadata"]["managedFields"] = [{"manager": "kubelet", "time": "2026-03-01T10:00:07Z"}]
    lease = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a", "namespace": "kube-node-lease", "uid": "u-l"},
        "spec": {"renewTime": "2026-03-01T10:00:09.000000Z"},
    }  # fmt: skip
    (tmp_path / "n.yaml").write_text(text_of([node]))
    assert opening.read_snapshot_source(tmp_path).snapshot.taken == parse_time("2026-03-01T10:00:07Z")
    (tmp_path / "leases.yaml").write_text(text_of([lease]))
    assert opening.read_snapshot_source(tmp_path).snapshot.taken == parse_time("2026-03-01T10:00:09Z")
    assert opening.read_snapshot_source(tmp_path, at="2026-03-02T00:00:00Z").snapshot.taken == parse_time(
        "2026-03-02T00:00:00Z"
    )


def test_a_time_that_has_not_come_is_told_and_does_not_set_the_clock(tmp_path: Path) -> None:
    nodes = [a_node(name) for name in "abc"]
    nodes[1]["metadata"]["managedFields"] = [{"manager": "kubelet", "time": "2299-01-01T00:00:00Z"}]
    (tmp_path / "n.yaml").write_text(text_of(nodes))
    read = opening.read_snapshot_source(tmp_path)
    assert read.snapshot.taken == parse_time("2026-03-01T09:00:00Z")
    assert read.notices[0].startswith("1 object with a time in the future: Node/b in ")
    given = opening.read_snapshot_source(tmp_path, at="2299-01-01T00:00:00Z")
    assert given.snapshot.taken == parse_time("2299-01-01T00:00:00Z")
    assert "after the newest time in the files, 2026-03-01T09:00:00Z" in given.notices[0]
    # A lab may have run until then.
    for node in nodes:
        node["metadata"]["managedFields"] = [{"manager": "kubelet", "time": "2299-01-01T00:00:00Z"}]
    (tmp_path / "n.yaml").write_text(text_of(nodes))
    assert opening.read_snapshot_source(tmp_path).snapshot.taken == parse_time("2299-01-01T00:00:00Z")


def a_node(name: str, version: str = "1", model: str = "A100") -> Object:
    offer = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-01T09:00:00Z"}
    meta = {
        "name": name,
        "uid": f"u-{name}",
        "resourceVersion": version,
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": {"nvidia.com/gpu.product": model},
    }
    status = {"capacity": offer, "allocatable": offer, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status}


def a_pod(name: str, node: str, owner: str = "") -> Object:
    meta: Object = {
        "name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": "5", "creationTimestamp": "2026-03-01T08:00:00Z",
        "labels": {"kai.scheduler/queue": "q"}, "annotations": {"pod-group-name": "pg-x"},
    }  # fmt: skip
    if owner:
        meta["ownerReferences"] = [
            {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"u-{owner}", "controller": True}
        ]
    container = {
        "name": "main",
        "image": "x",
        "resources": {"limits": {"nvidia.com/gpu": "4"}, "requests": {"nvidia.com/gpu": "4"}},
    }
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {"nodeName": node, "schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]},
        "status": {"phase": "Running", "startTime": "2026-03-01T08:00:05Z"},
    }  # fmt: skip


def a_queue() -> Object:
    amounts = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return {
        "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q", "uid": "u-q", "resourceVersion": "1"},
        "spec": {"resources": {"gpu": amounts, "cpu": amounts, "memory": amounts}},
    }  # fmt: skip


def test_running_pods_without_their_owners_stay_and_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_pod("p-0", "a", "train"), a_queue()]))
    read = opening.read_snapshot_source(tmp_path)
    [owners] = [text for text in read.notices if "the owners of" in text]
    assert "Job of 1" in owners
    assert "jobs.batch" in owners
    assert any("PodGroups of 1 pod" in text for text in read.notices)
    with opening.lab_of(read.snapshot) as lab:
        lab.settle()
        lab.advance(60)
        lab.settle()
        [pod] = lab.get("pods", None, None)
        assert (pod["spec"]["nodeName"], pod["metadata"]["uid"]) == ("a", "u-p-0")
        assert pod["metadata"]["creationTimestamp"] == "2026-03-01T08:00:00Z"
        assert lab.picture().shares.queues["q"].allocated == 4000


def a_deployment(gpus: int) -> Object:
    containers = [{"name": "main", "image": "web", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    spec = {
        "replicas": 6, "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web", "kai.scheduler/queue": "q"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": containers},
        },
    }  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize("update", [False, True], ids=["settled", "an update is under way"])
def test_deployments_keep_their_pods_where_the_replicasets_are_not_in_the_files(tmp_path: Path, update: bool) -> None:
    with Lab.open("lesson") as lab:
        lab.apply(a_queue(), a_deployment(1))
        lab.settle()
        if update:
            # Pods of the new template have no place, so that old ones stay.
            lab.apply(a_deployment(64))
            lab.settle()
        printed = as_printed(lab)
        pods = {name_of(pod) for pod in lab.get("pods", None, None)}
    del printed["ReplicaSet"]
    one_file_each(tmp_path / "cluster", printed)
    read = opening.read_snapshot_source(tmp_path / "cluster")
    [told] = [text for text in read.notices if "ReplicaSets" in text]
    assert told.startswith("the ReplicaSets of the Deployment web are not in the files")
    with opening.lab_of(read.snapshot) as opened:
        opened.settle()
        opened.advance(120)
        opened.settle()
        assert {name_of(pod) for pod in opened.get("pods", None, None)} == pods
        assert opened.get("Deployment", "web")["status"]["replicas"] == len(pods)


def test_work_that_would_make_its_pods_a_second_time_is_told(tmp_path: Path) -> None:
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": []},
        "metadata": {"name": "train", "namespace": "team", "uid": "u-set", "resourceVersion": "1"},
    }  # fmt: skip
    objects = [a_node("a"), a_pod("p-0", "a", "train-workers-0"), a_pod("p-1", "a", "other-0"), a_queue(), job_set]
    (tmp_path / "x.yaml").write_text(text_of(objects))
    [told] = [text for text in opening.read_snapshot_source(tmp_path).notices if "a second time" in text]
    assert told.startswith("of these pods, 1 are made a second time by JobSet team/train")


def test_podgroups_of_work_that_is_not_in_the_files_are_told(tmp_path: Path) -> None:
    """The file of a namespace's work is missing, the one of all PodGroups is there. A PodGroup with its pod is not told."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "absent", "uid": "u-absent"}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": {"minMember": 1, "queue": "q"},
        "metadata": {"name": "pg-absent", "namespace": "team", "uid": "u-pg", "resourceVersion": "1", "ownerReferences": [owner]},
    }  # fmt: skip
    shown = {**group, "metadata": {**group["metadata"], "name": "pg-x", "uid": "u-pg-x"}}
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_pod("p-0", "a"), a_queue(), group, shown]))
    [told] = [text for text in opening.read_snapshot_source(tmp_path).notices if "neither pods nor owners" in text]
    assert told.startswith("1 PodGroup has neither pods nor owners in the files (Job team/absent)")
    assert told.endswith("kubectl get jobs.batch,pods -A -o yaml")


def test_pods_of_a_real_cluster_do_not_lack_the_configmaps_that_nobody_hands_out(tmp_path: Path) -> None:
    """Every pod mounts the cluster's certificate with its token. A namespace of which some ConfigMap is there lacks others."""
    pod = a_pod("p-0", "", "train")
    del pod["spec"]["nodeName"]
    pod["status"] = {"phase": "Pending"}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": {"minMember": 1, "queue": "q"},
        "metadata": {"name": "pg-x", "namespace": "team", "uid": "u-pg", "resourceVersion": "1"},
    }  # fmt: skip
    sources = [{"configMap": {"name": name, "items": []}} for name in ("kube-root-ca.crt", "settings")]
    pod["spec"]["volumes"] = [{"name": "token", "projected": {"sources": sources}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "token", "mountPath": "/x"}]

    def missing(*more: Object) -> tuple[list[str], str]:
        (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), group, pod, *more]))
        read = opening.read_snapshot_source(tmp_path)
        with opening.lab_of(read.snapshot) as lab:
            cause = "\n".join(lab.explain("Pod", "p-0", "team", tried=False).cause_lines())
        return [text for text in read.notices if "ConfigMap" in text and "pods use" in text], cause

    told, cause = missing()
    assert "VolumeMissing" not in cause
    assert told == [
        "1 ConfigMap that pods use (settings) is not in the files, nor any other of the namespace: taken as there"
    ]
    certificate = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": "x"}}
    meta = {"name": "kube-root-ca.crt", "namespace": "team", "uid": "u-ca", "resourceVersion": "1"}
    told, cause = missing({**certificate, "metadata": meta})
    assert (told, "VolumeMissing" in cause) == ([], True)


def test_what_work_names_and_the_files_lack_is_told(tmp_path: Path) -> None:
    """Each kind with its names, its effect and the command that gets it; nothing for what is there or has ended."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", "uid": "u-g", "resourceVersion": "1"},
        "spec": {"minMember": 1, "queue": "q", "priorityClassName": "fast", "topologyConstraint": {"topology": "dc"},
                 "subGroups": [{"name": "s", "minMember": 1, "topologyConstraint": {"topology": "racks"}}]},
    }  # fmt: skip
    pod = a_pod("p-0", "a", "train")
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "set"}}]
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), group, pod]))
    told = [text for text in opening.read_snapshot_source(tmp_path).notices if "is not in the files" in text]
    assert told == [
        "1 pod group names a Topology that is not in the files (dc, racks): none of them can start. If the cluster has it, add "
        "`kubectl get topologies.kai.scheduler -A -o yaml`",
        "1 pod group names a PriorityClass that is not in the files (fast): they count with the default priority. If the "
        "cluster has it, add `kubectl get priorityclasses.scheduling.k8s.io -A -o yaml`",
        "1 pod names a PersistentVolumeClaim that is not in the files (set): those that wait can't start. If the cluster has "
        "it, add `kubectl get persistentvolumeclaims -A -o yaml`",
    ]
    topology = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "spec": {"levels": [{"nodeLabel": "rack"}]}}
    there = [{**topology, "metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in ("dc", "racks")]
    pod["status"] = {"phase": "Succeeded"}
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), group, pod, *there]))
    told = [text for text in opening.read_snapshot_source(tmp_path).notices if "is not in the files" in text]
    assert [text.split(" that")[0] for text in told] == ["1 pod group names a PriorityClass"]


def test_work_whose_pods_the_files_lack_is_told(tmp_path: Path) -> None:
    def a_job(name: str) -> Object:
        meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "creationTimestamp": "2026-03-01T08:00:00Z"}
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}
        status = {"active": 1}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": meta,
            "spec": {"template": template},
            "status": status,
        }

    objects = [a_node("a"), a_pod("p-0", "a", "train"), a_job("train"), a_job("lost")]
    (tmp_path / "x.yaml").write_text(text_of([*objects, a_queue()]))
    [told] = [
        text for text in opening.read_snapshot_source(tmp_path).notices if "what they hold counts as free" in text
    ]
    assert "the pods of 1 workload are not in the files (Job team/lost)" in told


def test_a_text_that_another_object_quotes_keeps_its_meaning(tmp_path: Path) -> None:
    """A controller quotes labels, taints and amounts in its arguments, which are left out; selectors and amounts elsewhere are not cut."""
    node, pod, quoting, queue = a_node("a"), a_pod("p-0", "a"), a_pod("agent", "a"), a_queue()
    node["status"]["allocatable"] = node["status"]["capacity"] = {**node["status"]["capacity"], "memory": "263840300Ki"}
    node["spec"]["taints"] = [{"key": "vendor.example/reserved", "value": "frontier-9", "effect": "NoSchedule"}]
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"role": "ring-worker-7"}}}
    pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod["spec"]["tolerations"] = [{"key": "vendor.example/reserved", "operator": "Exists"}]
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "t", "uid": "u-t"},
        "spec": {"levels": [{"nodeLabel": "topology.kubernetes.io/zone"}]},
    }  # fmt: skip
    container = quoting["spec"]["containers"][0]
    container["args"] = [
        "--key=topology.kubernetes.io/zone",
        "--taint=vendor.example/reserved:frontier-9",
        "--api=scheduling.run.ai/v2",
        "--resource=nvidia.com/gpu",
    ]
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": message}]
    container["env"] = [{"name": "MEMORY", "value": "263840300Ki"}, {"name": "ROLE", "value": "ring-worker-7"}]
    queue["metadata"]["managedFields"] = [{"apiVersion": "scheduling.run.ai/v2", "fieldsV1": {"f:spec": {}}}]
    (tmp_path / "x.yaml").write_text(text_of([node, pod, quoting, queue, topology]))
    objects = opening.read_snapshot_source(tmp_path).snapshot.objects
    assert objects["Queue"][0]["apiVersion"] == "scheduling.run.ai/v2"
    assert objects["Node"][0]["status"]["allocatable"]["memory"] == "263840300Ki"
    assert objects["Node"][0]["spec"]["taints"] == node["spec"]["taints"]
    assert objects["Topology"][0]["spec"] == topology["spec"]
    [kept] = [each for each in objects["Pod"] if name_of(each) == "p-0"]
    assert kept["spec"]["affinity"] == pod["spec"]["affinity"]
    assert kept["spec"]["tolerations"] == pod["spec"]["tolerations"]
    assert kept["status"]["conditions"][0]["message"] == message


def test_the_state_of_a_ray_job_stays_and_cuts_no_phase_of_a_pod(tmp_path: Path) -> None:
    """A RayJob's status has the word of its running pods, and says that a finished job is not run again."""
    container = {"name": "main", "image": "x"}
    group = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}

    def ray_job(name: str, state: str) -> Object:
        return {
            "apiVersion": "ray.io/v1", "kind": "RayJob",
            "metadata": {"name": name, "namespace": "team", "uid": f"u-{name}", "resourceVersion": "1"},
            "spec": {"rayClusterSpec": {"headGroupSpec": group}, "shutdownAfterJobFinishes": True},
            "status": {"jobDeploymentStatus": state, "jobStatus": state.upper(), "rayClusterName": f"{name}-x"},
        }  # fmt: skip

    pod = a_pod("p-0", "a")
    pod["spec"]["containers"][0]["env"] = [{"name": "SINCE", "value": pod["status"]["startTime"]}]
    objects = [a_node("a"), pod, a_queue(), ray_job("one", "Running"), ray_job("two", "Complete")]
    (tmp_path / "x.yaml").write_text(text_of(objects))
    read = opening.read_snapshot_source(tmp_path)
    assert read.snapshot.objects["Pod"][0]["status"] == pod["status"]
    with opening.lab_of(read.snapshot) as lab:
        lab.settle()
        assert lab.picture().shares.queues["q"].allocated == 4000
        assert [name_of(cluster) for cluster in lab.get("rayclusters", None, None)] == ["one-x"]


def test_work_whose_podgroups_the_files_lack_is_explained_as_once_it_is_grouped(tmp_path: Path) -> None:
    objects = [a_node("a"), a_queue()]
    for name, node in (("holder", "a"), ("train", "")):
        pods = [a_pod(f"{name}-{number}", node, name) for number in range(2)]
        for pod in pods:
            pod["metadata"]["annotations"]["pod-group-name"] = f"pg-{name}"
            if not node:
                pod["status"] = {"phase": "Pending"}
        template = {"metadata": {"labels": {"kai.scheduler/queue": "q"}}, "spec": a_pod("p", "")["spec"]}
        meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "labels": {"kai.scheduler/queue": "q"}}
        spec = {"parallelism": 2, "completions": 2, "template": template}
        objects += [{"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": {"active": 2}}]
        objects += pods
    (tmp_path / "x.yaml").write_text(text_of(objects))
    read = opening.read_snapshot_source(tmp_path)
    assert any("PodGroups of 4 pods" in text and "kailab run" in text for text in read.notices)
    with opening.lab_of(read.snapshot) as lab:
        assert lab.explain("Job", "train", "team", tried=False).verdict is Verdict.LATER


def test_priority_classes_that_nobody_handed_out_have_the_values_of_pods_and_of_kai(tmp_path: Path) -> None:
    """Files without any PriorityClass: the cluster had those that its pods name, or it would not have admitted the pods."""
    groups = [
        {
            "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
            "spec": {"minMember": 1, "queue": "q", "priorityClassName": name},
        }
        for name in ("inference", "urgent", "nobody-knows")
    ]  # fmt: skip
    pod = a_pod("p-0", "a", "train")
    pod["spec"] |= {"priorityClassName": "urgent", "priority": 90}
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), *groups, pod]))
    read = opening.read_snapshot_source(tmp_path)
    classes = {obj["metadata"]["name"]: obj["value"] for obj in read.snapshot.objects["PriorityClass"]}
    assert classes == {"inference": 125, "urgent": 90}
    told = [text for text in read.notices if "PriorityClass" in text]
    assert any("(inference 125, urgent 90)" in text for text in told)
    assert any("1 pod group names a PriorityClass that is not in the files (nobody-knows)" in text for text in told)
    there = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7,
             "metadata": {"name": "inference", "uid": "c", "resourceVersion": "1"}}  # fmt: skip
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), *groups, pod, there]))
    [only] = opening.read_snapshot_source(tmp_path).snapshot.objects["PriorityClass"]
    assert only["value"] == 7


def test_podgroups_and_queues_without_a_spec_have_an_empty_one(busy: Lab, tmp_path: Path) -> None:
    """KAI's CRDs allow it, and an API server adds none."""
    objects = as_printed(busy)
    for kind, version in (("PodGroup", "v2alpha2"), ("Queue", "v2")):
        meta = {"name": "bare", "uid": f"bare-{kind}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        meta |= {"namespace": "default"} if kind == "PodGroup" else {}
        objects[kind].append({"apiVersion": f"scheduling.run.ai/{version}", "kind": kind, "metadata": meta})
    (tmp_path / "all.yaml").write_text(text_of([obj for several in objects.values() for obj in several]))
    with opening.lab_of(opening.read_snapshot_source(tmp_path).snapshot) as lab:
        assert lab.cluster.get("PodGroup", "bare", "default")["spec"] == {}
        assert lab.cluster.get("Queue", "bare")["spec"] == {}
        lab.settle()
        lab.cluster_state()


def test_an_object_whose_metadata_is_null_is_told(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": None, "status": {"capacity": {"cpu": "8"}}}
    (tmp_path / "node.json").write_text(json.dumps(listed([node])))
    with pytest.raises(InputError, match=r"node\.json: Node: has no name"):
        opening.read_snapshot_source(tmp_path)


def test_the_newest_copy_of_an_object_counts(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text(text_of([a_node("a", "12", "H100")]))
    (tmp_path / "old.yaml").write_text(text_of([a_node("a", "9", "L40")]))
    read = opening.read_snapshot_source(tmp_path)
    [node] = read.snapshot.objects["Node"]
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "H100"
    assert any("1 older copy" in text for text in read.notices)
    (tmp_path / "third.yaml").write_text(text_of([a_node("a", "12", "T4")]))
    with pytest.raises(InputError, match=r"is different in .*new\.yaml"):
        opening.read_snapshot_source(tmp_path)


def test_manifests_beside_the_state_are_applied(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(text_of([a_node("a")]))
    queue = a_queue()
    queue["metadata"] = {"name": "q"}
    job = """\
---
# Source: chart/templates/empty.yaml
---
# Source: chart/templates/job.yaml
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml, labels: {kai.scheduler/queue: q}}
spec:
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
    (tmp_path / "rendered.yaml").write_text(yaml.dump(queue) + job)
    read = opening.read_snapshot_source(tmp_path)
    with opening.lab_of(read.snapshot) as lab:
        warnings = opening.apply_manifests(lab, read.manifests)
        assert any("namespaces that were not there: ml" in text for text in warnings)
        lab.settle()
        [pod] = lab.get("pods", None, "ml")
        assert pod["status"]["phase"] == "Running"


def whole() -> bytes:
    return text_of([a_node("a"), a_node("b")]).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "It holds no Kubernetes objects"),
        (b"{}", "It holds no Kubernetes objects"),
        (whole()[: whole().index(b"kind: List")], "the list at its beginning never ends"),
        (whole()[:300], "x.yaml"),
        (yaml.dump(a_node("a")).encode() + b"---\napiVersion: ", "ends in the middle of an object"),
        (yaml.dump(a_node("a")).encode() + b"---\napiVersion: v1\nkind: Pod\n", "ends in the middle of an object"),
        (json.dumps(listed([a_node("a")])).encode()[:-40], "ends in the middle of a value"),
        (b"apiVersion: v1\nkind: Node\nmetadata: {name: a, uid: u}\n", "has no status"),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {uid: u}\nstatus: {phase: Running}\n", "has no name"),
        (b"\xff\x00", "not UTF-8"),
        (b"\xff\xfe\x00", "not UTF-16"),
        (gzip.compress(bytes(10_240), mtime=0), "is an empty archive"),
        (b"[" * 100_000, "x.yaml"),
        (b'{"a": ' * 100_000, "x.yaml"),
        (b"\x1f\x8b\x08\x00 damaged", "can't be unpacked"),
        (b"PK\x03\x04 damaged", "damaged"),
        (whole()[: whole().index(b"capacity") + 4], "the text ends here, so it may be incomplete"),
        (
            b'Error from server (Forbidden): pods is forbidden: User "jo" cannot\n' + whole(),
            r"x.yaml:1: begins with a message of kubectl \(Error",
        ),
        (
            b"W0301 10:22:33.123456   12345 warnings.go:70] v1 is deprecated\n" + whole(),
            "begins with a message of kubectl",
        ),
    ],
)
def test_half_written_files_are_told(content: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=told):
        opening.read_snapshot_source(path)


def test_files_as_powershell_writes_them(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text_of([a_node("a")]), encoding="utf-16")
    assert len(opening.read_snapshot_source(tmp_path).snapshot.objects["Node"]) == 1
    assert len(opening.read_snapshot_source(tmp_path / "x.yaml").snapshot.objects["Node"]) == 1


def test_what_cannot_be_read_is_left_out_on_request(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(whole())
    (tmp_path / "b.json").write_text('{"kind": "List", "items": [')
    with pytest.raises(InputError, match=r"b\.json"):
        opening.read_snapshot_source(tmp_path)
    read = opening.read_snapshot_source(tmp_path, partial=True)
    assert len(read.snapshot.objects["Node"]) == 2
    assert any("left out" in text and "b.json" in text for text in read.notices)


def test_objects_that_are_older_than_a_rule_stay_and_act_as_in_a_cluster(tmp_path: Path) -> None:
    template = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}}}
    meta = {
        "name": "nightly", "namespace": "default", "uid": "u-c", "resourceVersion": "3", "creationTimestamp": "2023-01-01T00:00:00Z",
    }  # fmt: skip
    old = {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "status": {"lastScheduleTime": "2026-03-01T00:00:00Z"},
        "spec": {"schedule": "CRON_TZ=Asia/Tokyo 0 9 * * *", "jobTemplate": {"spec": template}},
    }  # fmt: skip
    node = a_node("a")
    node["status"]["capacity"]["koordinator.sh/gpu-memory"] = "640Gi"
    node["status"]["allocatable"] = {**node["status"]["capacity"], "nvidia.com/gpu": "9"}
    selector = {"cel": {"expression": 'device.attributes["x"].family.startsIn("H")'}}
    devices = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "new", "uid": "u-d"},
        "spec": {"selectors": [selector]},
    }  # fmt: skip
    # Nothing of kailab's reads a Service, so its faults count for nothing.
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "S", "uid": "u-s"}, "spec": {"ports": 3}}
    # KAI's API server takes negative amounts.
    amounts = {
        "gpu": {"quota": -2, "limit": 4},
        "cpu": {"quota": -1, "limit": -1},
        "memory": {"quota": -3, "limit": -1},
    }
    queue = {
        "apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team", "uid": "u-q"},
        "spec": {"resources": amounts},
    }  # fmt: skip
    (tmp_path / "x.yaml").write_text(text_of([node, old, devices, service, queue]))
    read = opening.read_snapshot_source(tmp_path)
    kept = [text for text in read.notices if "kept, because the cluster has it" in text]
    assert [text.partition(":")[0] for text in kept] == [
        "Node/a",
        "CronJob/default/nightly",
        "DeviceClass/new",
        "Queue/team",
    ]
    with opening.lab_of(read.snapshot) as lab:
        lab.advance(16 * 3600)
        lab.settle()
        [job] = lab.cluster.list("Job")
        scheduled = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        assert scheduled == "2026-03-02T00:00:00Z"
        again = {**old, "metadata": {"name": "nightly"}, "spec": {**old["spec"], "schedule": "TZ=Asia/Seoul 0 9 * * *"}}
        lab.apply([again])
        lab.cluster.patch("CronJob", "nightly", "default", {"spec": {"schedule": "0 9 * * *"}})
        with pytest.raises(InputError, match="names a zone"):
            lab.apply([again])
        with pytest.raises(Invalid, match="names a zone"):
            lab.cluster.patch("CronJob", "nightly", "default", {"spec": {"schedule": "TZ=Asia/Seoul 0 9 * * *"}})


def tar_member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_archives_are_only_read(tmp_path: Path) -> None:
    """Odd paths lead nowhere, links and devices are skipped and named, and a file that is cut short is named."""
    path = tmp_path / "state.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "/etc/../../nodes.yaml", whole())
        add(archive, "./.git/more.yaml", text_of([a_node("hidden")]).encode())
        archive.addfile(tar_member("link.yaml", tarfile.SYMTYPE, "/etc/passwd"))
        archive.addfile(tar_member("hard.yaml", tarfile.LNKTYPE, "/etc/../../nodes.yaml"))
        archive.addfile(tar_member("device.yaml", tarfile.CHRTYPE))
        archive.addfile(tar_member("current", tarfile.SYMTYPE, "../elsewhere"))
        archive.addfile(tar_member("pod.log", tarfile.SYMTYPE, "/var/log/pod.log"))
    read = opening.read_snapshot_source(path)
    assert len(read.snapshot.objects["Node"]) == 2
    told = "\n".join(read.notices)
    for part in (
        "2 links in an archive not followed", "link.yaml", "hard.yaml", "1 pipe, socket or device not read", "device.yaml",
        "1 link to a folder not followed", "current",
    ):  # fmt: skip
        assert part in told
    assert "pod.log" not in told
    assert [file.name for file in tmp_path.iterdir()] == ["state.tar"]
    data = path.read_bytes()
    path.write_bytes(data[:900])
    with pytest.raises(InputError, match="incomplete"):
        opening.read_snapshot_source(path)


def test_a_link_in_a_zip_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "state.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nodes.yaml", whole())
        link = zipfile.ZipInfo("again.yaml")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "nodes.yaml")
    read = opening.read_snapshot_source(path)
    assert len(read.snapshot.objects["Node"]) == 2
    assert any("1 link in an archive not followed" in notice and "again.yaml" in notice for notice in read.notices)


def test_links_that_stay_in_the_folder_are_followed_and_all_others_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "..data").mkdir(parents=True)
    (folder / "..data" / "nodes").write_bytes(whole())
    (folder / "nodes.yaml").symlink_to("..data/nodes")
    (folder / "loop").symlink_to(folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "node.yaml").write_text(text_of([a_node("outside")]))
    (folder / "outside").symlink_to(tmp_path / "other")
    (folder / "outside.yaml").symlink_to(tmp_path / "other" / "node.yaml")
    (folder / "gone.yaml").symlink_to(tmp_path / "nowhere.yaml")
    (folder / "round").symlink_to(folder / "round")
    os.mkfifo(folder / "pipe.log")
    os.mkfifo(folder / "pipe.yaml")
    found = opening.read_snapshot_source(folder)
    assert [name_of(node) for node in found.snapshot.objects["Node"]] == ["a", "b"]
    told = {notice.partition(":")[0]: notice.partition(":")[2] for notice in found.notices}
    for begins, names in {
        "1 link to a folder not followed": ["in/loop"],
        "2 links that lead out of the folder not followed": ["in/outside", "in/outside.yaml"],
        "2 links that lead nowhere": ["in/gone.yaml", "in/round"],
        "1 pipe, socket or device not read": ["in/pipe.yaml"],
    }.items():
        [files] = [files for text, files in told.items() if text.startswith(begins)]
        assert [name.strip() for name in files.split(",")] == [f"{tmp_path}/{name}" for name in names]
    (folder / "self.yaml").symlink_to(folder / "self.yaml")
    with pytest.raises(InputError, match="can't be read"):
        opening.read_snapshot_source(folder)
    assert any(
        "left out" in notice and "self.yaml" in notice
        for notice in opening.read_snapshot_source(folder, partial=True).notices
    )
    (folder / "nodes.yaml").unlink()
    (folder / "self.yaml").unlink()
    with pytest.raises(InputError, match=r"no Kubernetes objects .*2 links that lead out of the folder"):
        opening.read_snapshot_source(folder)


def test_a_fleet_is_not_made_of_a_part_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "nodes.yaml").write_bytes(whole())
    (folder / "loop").symlink_to(folder)
    assert len(load_fleet(folder).nodes()) == 2
    (tmp_path / "node.yaml").write_text(text_of([a_node("outside")]))
    (folder / "outside.yaml").symlink_to(tmp_path / "node.yaml")
    with pytest.raises(InputError, match=r"outside.yaml: .*leads out of the folder"):
        load_fleet(folder)


def test_what_cannot_be_read_of_an_archive_is_left_out_on_request(tmp_path: Path) -> None:
    path = tmp_path / "state.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "nodes.yaml", whole())
        add(archive, "pods.yaml", b"#" * 5000)
    path.write_bytes(path.read_bytes()[:4000])
    with pytest.raises(InputError, match="incomplete"):
        opening.read_snapshot_source(path)
    read = opening.read_snapshot_source(path, partial=True)
    assert len(read.snapshot.objects["Node"]) == 2
    assert any("left out" in notice and "incomplete" in notice for notice in read.notices)


def test_any_number_of_damaged_objects_is_left_out_on_request(tmp_path: Path) -> None:
    damaged = [{**a_node(f"n{index}"), "status": {}} for index in range(150)]
    (tmp_path / "nodes.yaml").write_text(text_of([a_node("a"), *damaged]))
    with pytest.raises(InputError, match="100 errors; the rest was not read"):
        opening.read_snapshot_source(tmp_path)
    read = opening.read_snapshot_source(tmp_path, partial=True)
    assert len(read.snapshot.objects["Node"]) == 1
    assert any("50 more files and objects" in notice for notice in read.notices)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = tmp_path / "bomb.yaml.gz"
    bomb.write_bytes(gzip.compress(b" " * (80 * 2**20)))
    with pytest.raises(InputError, match="not plausible"):
        opening.read_snapshot_source(bomb)
    monkeypatch.setattr(file_trees, "LARGEST_FILE", 300)
    (tmp_path / "nodes.yaml").write_bytes(whole())
    with pytest.raises(InputError, match="larger than"):
        opening.read_snapshot_source(tmp_path / "nodes.yaml")
    monkeypatch.setattr(file_trees, "LARGEST_FILE", 2**20)
    monkeypatch.setattr(file_trees, "LARGEST_TREE", 300)
    with pytest.raises(InputError, match="give fewer files"):
        opening.read_snapshot_source(tmp_path / "nodes.yaml")


def test_kais_configuration_is_read_from_the_files(tmp_path: Path) -> None:
    container = {
        "name": "s",
        "image": "kai/scheduler:v0.16.8",
        "args": ["--scheduler-conf=/etc/c.yaml", "--default-staleness-grace-period=5s"],
    }
    spec = {"containers": [container], "volumes": [{"name": "c", "configMap": {"name": "conf"}}]}
    meta = {"namespace": "kai-scheduler", "uid": "u-s", "resourceVersion": "1"}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "scheduler", **meta},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}, "status": {},
    }  # fmt: skip
    config = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", **meta, "uid": "u-c"},
        "data": {"c.yaml": 'actions: "allocate"\ntiers: [{plugins: [{name: predicates}]}]\n'},
    }  # fmt: skip
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), deployment, config]))
    read = opening.read_snapshot_source(tmp_path)
    assert read.snapshot.facts.settings.engine.actions == ("allocate",)
    assert read.snapshot.facts.scheduler == "kai v0.16.8"
    assert "predicates" not in json.dumps(read.snapshot.objects)
    assert read.snapshot.facts.backend == dump.BACKEND


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (listed([a_node("a"), None]), r"List: items\[1\]: is None; expected a Kubernetes object"),
        (listed([a_node("a"), {"metadata": {"name": "x"}}]), r"items\[1\]: has no kind \(it has metadata\)"),
        (listed([a_node("a"), {**a_node("b"), "metadata": {**a_node("b")["metadata"], "uid": "u-a"}}]), "Node/b: has the uid of Node a"),
        (listed([a_node("a"), a_node("a", model="H100")]), "is there twice with different content"),
    ],
)  # fmt: skip
def test_objects_that_no_cluster_lists_so_are_told(content: Object, told: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=told):
        opening.read_snapshot_source(tmp_path)


def test_an_archive_without_files_is_told(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w"):
        pass
    with pytest.raises(InputError, match="is an empty archive"):
        opening.read_snapshot_source(tmp_path / "x.tar")


def test_a_list_whose_items_are_null_is_empty(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text_of([a_node("a")]))
    (tmp_path / "y.json").write_text(json.dumps({**listed([]), "kind": "PodList", "items": None}))
    assert list(opening.read_snapshot_source(tmp_path).snapshot.objects) == ["Node"]


def test_lists_in_lists_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(listed([a_node("a"), listed([a_node("b"), listed([a_node("c")])])])))
    assert [name_of(node) for node in opening.read_snapshot_source(tmp_path).snapshot.objects["Node"]] == [
        "a",
        "b",
        "c",
    ]


def test_pods_on_nodes_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_pod("p-0", "a"), a_pod("p-1", "gone"), a_queue()]))
    [told] = [
        text for text in opening.read_snapshot_source(tmp_path).notices if "nodes that are not in the files" in text
    ]
    assert "1 pod is on" in told
    assert "(gone)" in told


def test_faults_of_the_queue_tree_are_told(tmp_path: Path) -> None:
    def below(name: str, parent: str) -> Object:
        queue = a_queue()
        return {
            **queue,
            "metadata": {"name": name, "uid": f"u-{name}"},
            "spec": {**queue["spec"], "parentQueue": parent},
        }

    queues = [below("x", "y"), below("y", "x"), below("z", "lost")]
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), *queues]))
    told = "\n".join(opening.read_snapshot_source(tmp_path).notices)
    assert "Queue/x: spec.parentQueue: the queues form a cycle: x -> y -> x" in told
    assert "Queue/z: spec.parentQueue: there is no queue 'lost'" in told


def test_a_zip_of_windows_and_archives_within_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "state.zip", "w") as archive:
        archive.writestr(".\\state\\nodes.yaml", whole())
        archive.writestr("more\\pods.yaml.gz", gzip.compress(b""))
        archive.writestr("more\\node.log.gz", b"")
    read = opening.read_snapshot_source(tmp_path / "state.zip")
    assert len(read.snapshot.objects["Node"]) == 2
    [told] = [text for text in read.notices if "archive within" in text]
    assert told.startswith("1 archive ")
    assert told.endswith("state.zip:more/pods.yaml.gz")


def test_runtime_classes_that_nobody_handed_out_are_there_with_the_overhead_of_their_pods(tmp_path: Path) -> None:
    """Files without any RuntimeClass: the cluster had those that its pods name, or it would have refused the pods."""
    pod = a_pod("p-0", "a", "train")
    pod["spec"] |= {"runtimeClassName": "kata.qemu", "overhead": {"cpu": "250m"}}
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), pod]))
    read = opening.read_snapshot_source(tmp_path)
    [told] = [text for text in read.notices if "RuntimeClass" in text]
    assert "those that pods name (kata.qemu) count as there" in told
    with opening.lab_of(read.snapshot) as lab:
        again = {
            "containers": pod["spec"]["containers"],
            "schedulerName": "kai-scheduler",
            "runtimeClassName": "kata.qemu",
        }
        lab.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "team"}, "spec": again})
        assert lab.cluster.get("Pod", "new", "team")["spec"]["overhead"] == {"cpu": "250m"}
    other = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia",
             "metadata": {"name": "nvidia", "uid": "c", "resourceVersion": "1"}}  # fmt: skip
    (tmp_path / "x.yaml").write_text(text_of([a_node("a"), a_queue(), pod, other]))
    [told] = [text for text in opening.read_snapshot_source(tmp_path).notices if "RuntimeClass" in text]
    assert told.startswith("1 pod names a RuntimeClass that is not in the files (kata.qemu): new ones are refused")


def test_fields_of_a_cluster_that_nothing_here_reads_are_told_once(tmp_path: Path) -> None:
    pod = a_pod("gated", "n1")
    pod["spec"]["readinessGates"] = [{"conditionType": "example.com/ready"}]
    other = json.loads(json.dumps(pod))
    other["metadata"] |= {"name": "other", "uid": "other"}
    (tmp_path / "cluster.yaml").write_text(text_of([a_node("n1"), pod, other]))
    said = [notice for notice in opening.read_snapshot_source(tmp_path).notices if "does not read it" in notice]
    assert [notice.partition(": kailab")[0] for notice in said] == ["Pod/team/gated: spec.readinessGates"]
