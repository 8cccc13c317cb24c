"""Ray: a RayCluster is a head pod and groups of workers; a RayJob or RayService creates and uses one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kailab.cluster.protocol import WatchEvent
from kailab.model.kind import Need
from kailab.model.objects import (
    Object,
    annotations_of,
    has_condition,
    is_active,
    is_ended,
    is_ready,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    object_key,
    status_of,
)
from kailab.model.times import parse_time
from kailab.model.validation.fields import shown
from kailab.workloads.apps import passed_on_annotations, surplus_pods
from kailab.workloads.controller import Controller, Reference, Workbench

PREFIX = "ray.io/"
_CONFIG_HASH = PREFIX + "hash-without-replicas-and-workers-to-delete"
_NUMBERS_HASH = PREFIX + "hash-of-config"
"""Annotations of the RayCluster of a RayService: hashes of the configuration that it was made from, without and with numbers of workers."""
_REPLACED = PREFIX + "replaced-at"
_DELETION_SECONDS = 60.0


def needs_of_ray_job(obj: Object) -> Iterator[Need]:
    name = _selected_name(obj)
    if name:
        text = f"there is no RayCluster {shown(name)}: the job waits, and nothing runs until there is one"
        yield Need(("RayCluster",), lambda one: name_of(one) == name, "spec.clusterSelector", text)


def _selected_name(job: Object) -> str | None:
    return (job["spec"].get("clusterSelector") or {}).get(PREFIX + "cluster")


class RayClusterController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        if spec.get("suspend"):
            bench.delete("Pod", *bench.owned(owner, "Pod"))
            self._report(owner, 0)
            return
        # Replaced even if they succeeded, because pods of a cluster should run.
        bench.delete("Pod", *filter(is_ended, bench.owned(owner, "Pod")))
        self._group(owner, "headgroup", "head", _with_autoscaler(spec), 1)
        desired = 0
        for group in spec.get("workerGroupSpecs") or ():
            wanted = desired_workers(group)
            desired += wanted
            self._group(owner, group.get("groupName", "workergroup"), "worker", _with_waiting(group), wanted)
        self._report(owner, desired)

    def _group(self, owner: Object, group: str, role: str, spec: Object, wanted: int) -> None:
        bench, name = self._bench, name_of(owner)
        pods = [pod for pod in bench.owned(owner, "Pod") if labels_of(pod).get(PREFIX + "group") == group]
        active = list(filter(is_active, pods))
        bench.delete("Pod", *surplus_pods(active, wanted))
        labels = {
            PREFIX + "cluster": name,
            PREFIX + "group": group,
            PREFIX + "node-type": role,
            PREFIX + "identifier": f"{name}-{role}",
            PREFIX + "is-ray-node": "yes",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        middle = "head" if role == "head" else f"{group}-worker"
        # Wait until the old head is gone, because there must not be two.
        blocked = len(pods) if role == "head" else len(active)
        for _ in range(wanted - blocked):
            pod_name = bench.cluster.store.generate_name("Pod", namespace_of(owner), f"{name}-{middle}-")
            if bench.create_pod(owner, spec["template"], name=pod_name, labels=labels) is None:
                break

    def _report(self, owner: Object, desired: int) -> None:
        pods = list(filter(is_active, self._bench.owned(owner, "Pod")))
        head = [pod for pod in pods if labels_of(pod).get(PREFIX + "node-type") == "head"]
        workers = [pod for pod in pods if pod not in head]
        ready = sum(map(is_ready, workers))
        head_ready = any(map(is_ready, head))
        groups = owner["spec"].get("workerGroupSpecs") or ()
        provisioned = head_ready and ready >= desired
        reason = "HeadPodRunningAndReady" if head_ready else "HeadPodNotFound"
        conditions = [("HeadPodReady", head_ready, reason, "")]
        # It becomes true once and stays true when pods are lost later.
        if provisioned or has_condition(owner, "RayClusterProvisioned"):
            message = "All Ray Pods are ready for the first time"
            conditions.append(("RayClusterProvisioned", True, "AllPodRunningAndReadyFirstTime", message))
        # If neither holds, the previous state stays.
        state: dict[str, Any] = {}
        if owner["spec"].get("suspend"):
            state["state"] = "suspended"
        elif provisioned:
            state["state"] = "ready"
        self.set_status(
            owner,
            *conditions,
            **state,
            desiredWorkerReplicas=desired,
            availableWorkerReplicas=len(workers),
            readyWorkerReplicas=ready,
            minWorkerReplicas=sum(g.get("minReplicas", 0) for g in groups),
            maxWorkerReplicas=sum(g.get("maxReplicas", 2**31 - 1) for g in groups),
            head={"podName": name_of(head[0])} if head else {},
            observedGeneration=metadata_of(owner)["generation"],
        )


def _with_autoscaler(spec: Object) -> Object:
    """The head group of a RayCluster's spec. Ray's autoscaler is a container of the head (KubeRay, common/pod.go)."""
    head: Object = spec["headGroupSpec"]
    if not spec.get("enableInTreeAutoscaling"):
        return head
    small = {"cpu": "500m", "memory": "512Mi"}
    given = (spec.get("autoscalerOptions") or {}).get("resources")
    container = {"name": "autoscaler", "image": "ray", "resources": given or {"limits": small, "requests": small}}
    return _with_container(head, container)


def _with_waiting(group: Object) -> Object:
    """A worker group whose pods first wait for the head, in an init container with requests of its own (KubeRay, common/pod.go)."""
    template = group["template"]
    spec = template["spec"]
    amounts = {"cpu": "200m", "memory": "256Mi"}
    waiting = {
        "name": "wait-gcs-ready",
        "image": spec["containers"][0].get("image", ""),
        "resources": {"limits": amounts, "requests": amounts},
    }
    pod_spec = {**spec, "initContainers": [*(spec.get("initContainers") or ()), waiting]}
    return {**group, "template": {**template, "spec": pod_spec}}


def _with_container(group: Object, container: Object) -> Object:
    template = group["template"]
    pod_spec = {**template["spec"], "containers": [*template["spec"]["containers"], container]}
    return {**group, "template": {**template, "spec": pod_spec}}


def desired_workers(group: Object) -> int:
    """Pods of a worker group: replicas between minimum and maximum, times the hosts of each; 0 while it is suspended."""
    if group.get("suspend"):
        return 0
    least, most = group.get("minReplicas", 0), group.get("maxReplicas", 2**31 - 1)
    # A maximum below the minimum wins, as with KubeRay.
    wanted = min(max(group.get("replicas") or 0, least), most)
    return int(wanted * (group.get("numOfHosts") or 1))


class RayJobController(Controller):
    """Creates a RayCluster named after the job, then a submitter Job once the cluster is ready. A failed job is retried on a new cluster, up
    to backoffLimit, but not after activeDeadlineSeconds (KubeRay, rayjob_controller.go)."""

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec, status = self._bench, owner["spec"], status_of(owner)
        if status.get("jobDeploymentStatus") in ("Complete", "Failed"):
            self._shut_down(owner)
            return
        selected = _selected_name(owner)
        clusters = self._selected(owner, selected) if selected else bench.owned(owner, "RayCluster")
        submitter = next(iter(bench.owned(owner, "Job")), None)
        if spec.get("suspend"):
            self._take_down(owner)
            self.set_status(owner, jobDeploymentStatus="Suspended", jobStatus=None, rayClusterName=None, startTime=None)
            return
        if any(map(is_terminating, clusters)):
            return
        if past := self._past_deadline(owner):
            self._failed(owner, *past)
            return
        cluster = clusters[0] if clusters else None
        if cluster is None:
            if "rayClusterSpec" not in spec or selected:
                self.set_status(owner, jobDeploymentStatus="Waiting")
                return
            name = status.get("rayClusterName") or _cluster_name(bench, owner)
            # Store the name before the cluster exists: the grouping of its pods reads it.
            owner = self.set_status(
                owner,
                rayClusterName=name,
                jobDeploymentStatus="Initializing",
                startTime=status.get("startTime") or bench.stamp(),
            )
            _create_cluster(bench, self.kind, owner, name, self._cluster_spec(spec))
            return
        if selected and not status.get("startTime"):
            fields = {"rayClusterName": selected, "jobDeploymentStatus": "Initializing", "startTime": bench.stamp()}
            owner = self.set_status(owner, **fields)
        if status_of(cluster).get("state") != "ready" and submitter is None:
            return
        if submitter is None:
            if spec.get("submissionMode", "K8sJobMode") == "K8sJobMode":
                submitter = self._submit(owner, cluster)
            self.set_status(owner, jobDeploymentStatus="Running", jobStatus="RUNNING")
        elif has_condition(submitter, "Complete"):
            owner = self.set_status(owner, jobStatus="SUCCEEDED", endTime=bench.stamp(), jobDeploymentStatus="Complete")
            self._shut_down(owner)
        elif has_condition(submitter, "Failed"):
            owner = self.set_status(owner, jobStatus="FAILED")
            self._failed(owner, "AppFailed", "")

    def _selected(self, owner: Object, name: str) -> list[Object]:
        """The RayCluster that clusterSelector names. The job does not own it, so it stays when the job has ended."""
        cluster = self._bench.find("RayCluster", (namespace_of(owner), name))
        return [cluster] if cluster is not None else []

    def concerned(self, event: WatchEvent) -> list[Reference]:
        """The RayJobs that wait for a RayCluster that they select."""
        if event.kind != "RayCluster":
            return []
        name = name_of(event.object)
        return [
            (self.kind, object_key(job))
            for job in self._bench.cluster.list(self.kind, namespace_of(event.object))
            if _selected_name(job) == name
        ]

    @staticmethod
    def _cluster_spec(spec: Object) -> Object:
        """The spec of the job's RayCluster. With SidecarMode the submitter is a container of its head."""
        cluster: Object = spec["rayClusterSpec"]
        if spec.get("submissionMode") != "SidecarMode":
            return cluster
        return {**cluster, "headGroupSpec": _with_container(cluster["headGroupSpec"], _submitter(cluster))}

    def _past_deadline(self, owner: Object) -> tuple[str, str] | None:
        """Reason and message if a deadline has passed. If not, the job is synced again then."""
        spec, status = owner["spec"], status_of(owner)
        running = status.get("jobDeploymentStatus") == "Running"
        fields = ["activeDeadlineSeconds"] if running else ["activeDeadlineSeconds", "preRunningDeadlineSeconds"]
        times = [
            (parse_time(status["startTime"]) + spec[field], field)
            for field in fields
            if spec.get(field) is not None and status.get("startTime")
        ]
        if not times:
            return None
        end, field = min(times)
        if not self.is_due(owner, end):
            return None
        reason = "DeadlineExceeded" if field == "activeDeadlineSeconds" else "PreRunningDeadlineExceeded"
        began = f"it began {status['startTime']} and may take {spec[field]} s."
        return reason, f"The RayJob has passed the {field}: {began}"

    def _failed(self, owner: Object, reason: str, message: str) -> None:
        """Retry if retries are left, else end."""
        failed = status_of(owner).get("failed", 0) + 1
        if reason != "DeadlineExceeded" and failed <= (owner["spec"].get("backoffLimit") or 0):
            # Count before deleting, so that nothing is counted twice.
            owner = self.set_status(
                owner,
                failed=failed,
                jobDeploymentStatus="Retrying",
                jobStatus=None,
                rayClusterName=None,
                startTime=None,
            )
            self._take_down(owner)
            return
        owner = self.set_status(
            owner,
            failed=failed,
            endTime=self._bench.stamp(),
            jobDeploymentStatus="Failed",
            reason=reason,
            message=message or None,
        )
        self._shut_down(owner)

    def _shut_down(self, owner: Object) -> None:
        """Delete what an ended job leaves: by its deletionStrategy, else with shutdownAfterJobFinishes its cluster."""
        spec, ended = owner["spec"], status_of(owner).get("endTime")
        if not ended or spec.get("clusterSelector"):
            return
        # The earliest last, because the owner has one timer.
        deletions = sorted(_deletions(spec, status_of(owner)), key=lambda deletion: -deletion[1])
        due = [policy for policy, seconds in deletions if self.is_due(owner, parse_time(ended) + seconds)]
        if due:
            self._delete(owner, max(due, key=_DELETIONS.index))

    def _delete(self, owner: Object, policy: str) -> None:
        bench = self._bench
        if policy == "DeleteSelf":
            bench.delete(self.kind, owner)
        elif policy == "DeleteWorkers":
            for cluster in bench.owned(owner, "RayCluster"):
                groups = [{**group, "suspend": True} for group in cluster["spec"].get("workerGroupSpecs") or ()]
                bench.patch("RayCluster", cluster, {"spec": {"workerGroupSpecs": groups}})
        elif policy == "DeleteCluster":
            bench.delete("RayCluster", *bench.owned(owner, "RayCluster"))
            # A submitter needs the cluster, so it goes with it. An ended one stays for its logs.
            submitters = bench.owned(owner, "Job")
            bench.delete("Job", *(job for job in submitters if not has_condition(job, "Complete", "Failed")))

    def _take_down(self, owner: Object) -> None:
        for kind in ("RayCluster", "Job"):
            self._bench.delete(kind, *self._bench.owned(owner, kind))

    def _submit(self, owner: Object, cluster: Object) -> Object | None:
        spec, name = owner["spec"], name_of(owner)
        labels = {**_origin(owner, "RayJob"), "app.kubernetes.io/created-by": "kuberay-operator"}
        template = spec.get("submitterPodTemplate")
        if template is None:
            # It has neither scheduler nor queue, whatever the cluster's pods have.
            template = {"spec": {"containers": [_submitter(cluster["spec"])]}}
        pod_spec = {"restartPolicy": "Never", **template["spec"]}
        return self._bench.create(owner, "Job", {
            "metadata": {"name": name, "labels": labels},
            "spec": {"backoffLimit": (spec.get("submitterConfig") or {}).get("backoffLimit", 2),
                     "template": {**template, "spec": pod_spec}},
        })  # fmt: skip


_DELETIONS = ("DeleteNone", "DeleteWorkers", "DeleteCluster", "DeleteSelf")
"""The deletions that an ended RayJob may carry out. A later entry deletes more than an earlier one."""


def _deletions(spec: Object, status: Mapping[str, Any]) -> list[tuple[str, float]]:
    """What is deleted after an ended RayJob, and how many seconds after its end. Source: KubeRay 1.6, rayjob_controller.go
    (handleDeletionRules, handleLegacyDeletionPolicy)."""
    strategy, seconds = spec.get("deletionStrategy"), spec.get("ttlSecondsAfterFinished", 0)
    if strategy is None:
        return [("DeleteCluster", seconds)] if spec.get("shutdownAfterJobFinishes") else []
    if strategy.get("deletionRules") is not None:
        return [
            (rule["policy"], rule["condition"].get("ttlSeconds", 0))
            for rule in strategy["deletionRules"]
            if all(
                rule["condition"].get(field) in (None, status.get(field))
                for field in ("jobStatus", "jobDeploymentStatus")
            )
        ]
    ends = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}
    legacy = strategy.get(ends.get(status.get("jobStatus", ""), "")) or {}
    return [(legacy["policy"], seconds)] if legacy.get("policy") else []


def _submitter(cluster: Object) -> Object:
    """The container of KubeRay's own submitter, with its requests. ``cluster``: the spec of the RayCluster."""
    first = cluster["headGroupSpec"]["template"]["spec"]["containers"][0]
    small = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    return {"name": "ray-job-submitter", "image": first.get("image", ""), "resources": small}


class RayServiceController(Controller):
    """A RayCluster for serving; the service is ready when the cluster is. A new configuration gets a cluster of its own, which takes over
    when it is ready; the old one goes a minute later. A change of numbers of workers alone goes to the cluster that is there (KubeRay,
    rayservice_controller.go)."""

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, config = self._bench, owner["spec"].get("rayClusterConfig") or {}
        clusters = {name_of(each): each for each in bench.owned(owner, "RayCluster") if not is_terminating(each)}
        serving, coming = (
            (status_of(owner).get(field) or {}).get("rayClusterName", "")
            for field in ("activeServiceStatus", "pendingServiceStatus")
        )
        made_from = {_CONFIG_HASH: _hash_of(_without_numbers(config)), _NUMBERS_HASH: _hash_of(config)}

        def is_of(name: str, mark: str) -> bool:
            return annotations_of(clusters[name]).get(mark) == made_from[mark]

        if coming in clusters and is_of(coming, _CONFIG_HASH) and status_of(clusters[coming]).get("state") == "ready":
            serving, coming = coming, ""
        latest = next((name for name in (coming, serving) if name in clusters), "")
        replaces = (owner["spec"].get("upgradeStrategy") or {}).get("type") != "None"
        if not latest or (not is_of(latest, _CONFIG_HASH) and (replaces or latest == coming)):
            # If this was interrupted, the cluster has a name already.
            if not coming or coming in clusters:
                coming = _cluster_name(bench, owner)
            owner = self.set_status(owner, pendingServiceStatus={"rayClusterName": coming})
            _create_cluster(bench, self.kind, owner, coming, config, made_from)
        elif is_of(latest, _CONFIG_HASH) and not is_of(latest, _NUMBERS_HASH):
            bench.patch("RayCluster", clusters[latest], {"metadata": {"annotations": made_from}, "spec": config})
        running = serving in clusters and status_of(clusters[serving]).get("state") == "ready"
        self.set_status(
            owner,
            ("Ready", running, "NonZeroServeEndpoints" if running else "Initializing", ""),
            activeServiceStatus={"rayClusterName": serving} if serving in clusters else {},
            pendingServiceStatus={"rayClusterName": coming} if coming else {},
            serviceStatus="Running" if running else "",
            observedGeneration=metadata_of(owner)["generation"],
        )
        self._delete_replaced(owner, [each for name, each in clusters.items() if name not in (serving, coming)])

    def _delete_replaced(self, owner: Object, clusters: list[Object]) -> None:
        """Delete clusters that neither serve nor are about to, some time after that was first so."""
        bench, delay = self._bench, owner["spec"].get("rayClusterDeletionDelaySeconds")
        for cluster in clusters:
            since = annotations_of(cluster).get(_REPLACED)
            if since is None:
                since = bench.stamp()
                cluster = bench.patch("RayCluster", cluster, {"metadata": {"annotations": {_REPLACED: since}}})
            if self.is_due(owner, parse_time(since) + (_DELETION_SECONDS if delay is None else delay)):
                bench.delete("RayCluster", cluster)


def _without_numbers(config: Object) -> Object:
    """A RayCluster's spec without the numbers of its workers, whose change needs no new cluster."""
    numbers = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
    groups = [
        {field: value for field, value in group.items() if field not in numbers}
        for group in config.get("workerGroupSpecs") or ()
    ]
    return {**config, "workerGroupSpecs": groups}


def _cluster_name(bench: Workbench, owner: Object) -> str:
    return bench.cluster.store.generate_name("RayCluster", namespace_of(owner), f"{name_of(owner)[:40]}-")


def _hash_of(config: Object) -> str:
    return hashlib.sha1(json.dumps(config, sort_keys=True).encode(), usedforsecurity=False).hexdigest()


def _create_cluster(
    bench: Workbench, kind: str, owner: Object, name: str, spec: Object, annotations: Mapping[str, str] | None = None
) -> None:
    """Create the RayCluster of a RayJob or RayService, with labels that name its origin. ``annotations``: added to the owner's."""
    labels = {**labels_of(owner), **_origin(owner, kind)}
    metadata = {"name": name, "labels": labels, "annotations": {**passed_on_annotations(owner), **(annotations or {})}}
    bench.create(owner, "RayCluster", {"metadata": metadata, "spec": spec})


def _origin(owner: Object, kind: str) -> dict[str, str]:
    return {PREFIX + "originated-from-cr-name": name_of(owner), PREFIX + "originated-from-crd": kind}
