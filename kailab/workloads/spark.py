"""SparkApplication: a driver pod, and executors that the driver owns once it runs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from kailab.model import labels as names
from kailab.model.objects import (
    Object,
    annotations_of,
    is_active,
    is_ended,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
    status_of,
    uid_of,
)
from kailab.model.quantities import parse_count
from kailab.model.times import parse_time
from kailab.model.validation.advice import DescribedPod
from kailab.workloads.controller import Controller

_MEBIBYTES = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}
_LEAST_OVERHEAD_MIB = 384  # the minimum of Spark's overhead factor
_RETRY_SECONDS = 5  # the operator's default
_JVM_OVERHEAD, _OTHER_OVERHEAD = 0.1, 0.4
"""Parts of the memory that are added: of an application in Java or Scala, and of one in Python or R."""


class SparkController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, name = self._bench, name_of(owner)
        state = (status_of(owner).get("applicationState") or {}).get("state", "")
        if state in ("COMPLETED", "FAILED"):
            self.expire(owner, status_of(owner).get("terminationTime"), owner["spec"].get("timeToLiveSeconds") or None)
            return
        selector = f"spark-{zlib.crc32((uid_of(owner) + name).encode()):08x}"
        driver = bench.find("Pod", (namespace_of(owner), f"{name}-driver"))
        if driver is None:
            driver = self._pod(owner, owner, "driver", f"{name}-driver", selector)
            if driver is None:
                return
            # An evicted driver is replaced in the same attempt.
            if state in ("", "PENDING_RERUN"):
                attempts = status_of(owner).get("executionAttempts", 0) + 1
                owner = self.set_status(owner, executionAttempts=attempts, lastSubmissionAttemptTime=bench.stamp())
        elif state == "PENDING_RERUN" and is_terminating(driver):
            return
        phase = phase_of(driver)
        executors = bench.owned(driver, "Pod")
        if phase == "Running" and is_active(driver):
            self._executors(owner, driver, executors, selector)
            state = "RUNNING"
        elif is_ended(driver):
            bench.delete("Pod", *executors)
            state = self._ended(owner, driver, succeeded=phase == "Succeeded")
        else:
            state = "SUBMITTED"
        self.set_status(
            owner,
            applicationState={"state": state},
            sparkApplicationId=selector,
            executorState={name_of(pod): phase_of(pod).upper() for pod in bench.owned(driver, "Pod")},
            driverInfo={"podName": name_of(driver)},
            terminationTime=bench.stamp() if state in ("COMPLETED", "FAILED") else None,
        )

    def _ended(self, owner: Object, driver: Object, *, succeeded: bool) -> str:
        """The state of an application whose driver has ended. Its restartPolicy may run it again, after a pause that grows with each
        attempt."""
        status, policy = status_of(owner), owner["spec"].get("restartPolicy") or {}
        attempts, kind = status.get("executionAttempts", 0), policy.get("type", "Never")
        retried = kind == "OnFailure" and not succeeded and attempts <= policy.get("onFailureRetries", -1)
        if kind != "Always" and not retried:
            return "COMPLETED" if succeeded else "FAILED"
        pause = 0 if succeeded else policy.get("onFailureRetryInterval", _RETRY_SECONDS) * attempts
        if not self.is_due(owner, parse_time(status.get("lastSubmissionAttemptTime")) + pause):
            return "FAILING"
        self._bench.delete("Pod", driver)
        return "PENDING_RERUN"

    def _executors(self, owner: Object, driver: Object, executors: list[Object], selector: str) -> None:
        """Create missing executors; a lost one is replaced with the next number."""
        bench = self._bench
        # Numbers are never reused, as in Spark, so an annotation keeps the last one.
        last = parse_count(annotations_of(owner).get("kailab.dev/executors"))
        bench.delete("Pod", *filter(is_ended, executors))
        missing = wanted_executors(owner["spec"]) - sum(map(is_active, executors))
        if missing <= 0:
            return
        for number in range(last + 1, last + 1 + missing):
            pod_name = f"{name_of(owner)}-exec-{number}"
            if self._pod(owner, driver, "executor", pod_name, selector, number) is None:
                return
            last = number
        bench.patch(self.kind, owner, {"metadata": {"annotations": {"kailab.dev/executors": str(last)}}})

    def _pod(
        self, owner: Object, controller: Object, role: str, name: str, selector: str, number: int = 0
    ) -> Object | None:
        spec, app = owner["spec"].get(role) or {}, name_of(owner)
        labels = {
            **labels_of(owner),
            **(spec.get("labels") or {}),
            "spark-app-name": app,
            "spark-app-selector": selector,
            "spark-role": role,
            "sparkoperator.k8s.io/app-name": app,
            "sparkoperator.k8s.io/launched-by-spark-operator": "true",
            "spark-version": str(owner["spec"].get("sparkVersion", "")),
        }
        if number:
            labels["spark-exec-id"] = str(number)
        pod_spec = _pod_spec(owner["spec"], role)
        annotations = spec.get("annotations") or {}
        return self._bench.create_pod(
            controller,
            {**(spec.get("template") or {}), "spec": pod_spec},
            name=name,
            labels=labels,
            annotations=annotations,
        )


def pods_of_application(obj: Object) -> Iterator[DescribedPod]:
    for role in ("driver", "executor"):
        spec, path = obj["spec"].get(role) or {}, f"spec.{role}."
        marks = {key: spec[key] for key in ("labels", "annotations") if spec.get(key)}
        yield DescribedPod(path, path, {"metadata": marks, "spec": _pod_spec(obj["spec"], role)})


def _pod_spec(application: Object, role: str) -> dict[str, Any]:
    """The spec of a pod. ``application``: the spec of the SparkApplication."""
    spec = application.get(role) or {}
    template = spec.get("template") or {}
    pod_spec: dict[str, Any] = {"restartPolicy": "Never", **(template.get("spec") or {})}
    for field in ("tolerations", "nodeSelector", "affinity", "priorityClassName", "schedulerName", "hostNetwork",
                  "terminationGracePeriodSeconds"):  # fmt: skip
        if field in spec:
            pod_spec[field] = spec[field]
    if spec.get("serviceAccount"):
        pod_spec["serviceAccountName"] = spec["serviceAccount"]
    if selector_of_all := application.get("nodeSelector"):
        pod_spec["nodeSelector"] = {**selector_of_all, **pod_spec.get("nodeSelector", {})}
    if "batchScheduler" in application and "schedulerName" not in pod_spec:
        pod_spec["schedulerName"] = application["batchScheduler"]
    containers = list(pod_spec.get("containers") or ({},))
    containers[0] = {
        "name": f"spark-kubernetes-{role}" if role == "driver" else "spark-kubernetes-executor",
        "image": spec.get("image") or application.get("image", ""),
        **containers[0],
        "resources": _resources(application, role),
    }
    # The operator's webhook gives pods the volumes that they mount.
    if mounts := spec.get("volumeMounts"):
        containers[0]["volumeMounts"] = [*(containers[0].get("volumeMounts") or ()), *mounts]
        mounted = {mount.get("name") for mount in mounts}
        volumes = [volume for volume in application.get("volumes") or () if volume.get("name") in mounted]
        pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), *volumes]
    pod_spec["containers"] = [*containers, *(spec.get("sidecars") or ())]
    if before := [*(pod_spec.get("initContainers") or ()), *(spec.get("initContainers") or ())]:
        pod_spec["initContainers"] = before
    return pod_spec


def wanted_executors(app: Object) -> int:
    """The executors that a driver asks for. With dynamic allocation those that it begins with, because there is no load here: Spark begins with
    the largest of these numbers (Utils.getDynamicAllocationInitialExecutors)."""
    executor, dynamic = app.get("executor") or {}, app.get("dynamicAllocation") or {}
    if not dynamic.get("enabled"):
        return int(executor.get("instances", 1))
    begins = (executor.get("instances"), dynamic.get("initialExecutors"), dynamic.get("minExecutors"))
    return int(max(number or 0 for number in begins))


def _resources(app: Object, role: str) -> dict[str, dict[str, Any]]:
    """Requests and limits from cores, memory with overhead, and GPUs, as Spark computes them."""
    spec = app.get(role) or {}
    memory = f"{_memory(app, role)}Mi"
    requests: dict[str, Any] = {"cpu": str(spec.get("coreRequest") or spec.get("cores", 1)), "memory": memory}
    limits: dict[str, Any] = {"memory": memory}
    if "memoryLimit" in spec:
        limits["memory"] = f"{int(mebibytes(spec['memoryLimit']))}Mi"
    if "coreLimit" in spec:
        limits["cpu"] = str(spec["coreLimit"])
    gpu = spec.get("gpu") or {}
    if gpu.get("quantity"):
        limits[gpu.get("name", names.GPU_RESOURCE)] = requests[gpu.get("name", names.GPU_RESOURCE)] = gpu["quantity"]
    return {"requests": requests, "limits": limits}


def _memory(app: Object, role: str) -> int:
    """MiB of a pod. A value of the application for a role wins over its sparkConf, which wins over Spark's defaults. Source: Spark,
    BasicDriverFeatureStep and ResourceProfile.getResourcesForClusterManager."""
    spec, conf = app.get(role) or {}, app.get("sparkConf") or {}
    size = mebibytes(spec.get("memory") or conf.get(f"spark.{role}.memory") or "1g")
    overhead = spec.get("memoryOverhead") or conf.get(f"spark.{role}.memoryOverhead")
    if overhead is not None:
        extra = mebibytes(overhead)
    else:
        factor = (
            conf.get(f"spark.{role}.memoryOverheadFactor")
            or app.get("memoryOverheadFactor")
            or conf.get("spark.kubernetes.memoryOverheadFactor")
            or (_OTHER_OVERHEAD if app.get("type") in ("Python", "R") else _JVM_OVERHEAD)
        )
        extra = max(int(size * float(factor)), _LEAST_OVERHEAD_MIB)
    if role == "executor":
        if str(conf.get("spark.memory.offHeap.enabled", "")).lower() == "true":
            # In bytes if it has no unit, unlike all others.
            extra += mebibytes(conf.get("spark.memory.offHeap.size", "0"), "b")
        if app.get("type") == "Python":
            extra += mebibytes(conf.get("spark.executor.pyspark.memory", "0"))
    return int(size + extra)


def mebibytes(text: object, unit: str = "m") -> float:
    """An amount of memory as Spark parses it. ``unit``: of a number without one.

    >>> mebibytes("4g"), mebibytes("512"), mebibytes("2048k")
    (4096.0, 512.0, 2.0)
    """
    # ``4g``, ``4gb`` and ``4gib`` are the same amount in Spark, in binary units. ``4b`` is in bytes, ``4`` in MiB.
    text = str(text).strip().lower()
    number = text.rstrip("bigkmt")
    return float(number) * _MEBIBYTES[text[len(number) :][:1] or unit]
