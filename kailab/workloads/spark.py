"""SparkApplication: a driver pod, and executors that the driver owns once it runs."""

from __future__ import annotations

import zlib
from typing import Any

from kailab.cluster.protocol import Object
from kailab.model import labels as names
from kailab.model.quantities import counted
from kailab.workloads.bench import is_active, is_ended
from kailab.workloads.controller import Controller

_MEBIBYTES = {"b": 2**-20, "k": 2**-10, "": 1, "m": 1, "g": 2**10, "t": 2**20}
_LEAST_OVERHEAD_MIB = 384  # Spark's own minimum, beside a tenth of the memory


class SparkController(Controller):
    def sync(self, owner: Object) -> None:
        bench, meta = self._bench, owner["metadata"]
        state = ((owner.get("status") or {}).get("applicationState") or {}).get("state", "")
        if "deletionTimestamp" in meta or state in ("COMPLETED", "FAILED"):
            return
        name = meta["name"]
        selector = f"spark-{zlib.crc32((meta['uid'] + name).encode()):08x}"
        driver = bench.find("Pod", (meta["namespace"], f"{name}-driver"))
        if driver is None:
            driver = self._pod(owner, owner, "driver", f"{name}-driver", selector)
            if driver is None:
                return
        phase = driver["status"].get("phase")
        executors = bench.owned(driver, "Pod")
        if phase == "Running" and is_active(driver):
            self._executors(owner, driver, executors, selector)
            state = "RUNNING"
        elif is_ended(driver):
            for pod in executors:
                bench.delete("Pod", pod)
            state = "COMPLETED" if phase == "Succeeded" else "FAILED"
        else:
            state = "SUBMITTED"
        states = {pod["metadata"]["name"]: pod["status"].get("phase", "").upper() for pod in bench.owned(driver, "Pod")}
        bench.set_status(
            self.kind,
            owner,
            applicationState={"state": state},
            sparkApplicationId=selector,
            executorState=states,
            driverInfo={"podName": driver["metadata"]["name"]},
            terminationTime=bench.stamp() if state in ("COMPLETED", "FAILED") else None,
        )

    def _executors(self, owner: Object, driver: Object, executors: list[Object], selector: str) -> None:
        """As many as asked for; one that is lost is made anew under the next number."""
        bench, meta = self._bench, owner["metadata"]
        wanted = owner["spec"].get("executor", {}).get("instances", 1)
        alive = [pod for pod in executors if is_active(pod)]
        # Numbers are never used again, as in Spark; the note outlives the pods that had them.
        last = counted((meta.get("annotations") or {}).get("kailab.dev/executors"))
        for pod in executors:
            if is_ended(pod):
                bench.delete("Pod", pod)
        if len(alive) >= wanted:
            return
        for number in range(last + 1, last + 1 + wanted - len(alive)):
            pod_name = f"{meta['name']}-exec-{number}"
            if self._pod(owner, driver, "executor", pod_name, selector, number) is None:
                return
            last = number
        bench.patch(self.kind, owner, {"metadata": {"annotations": {"kailab.dev/executors": str(last)}}})

    def _pod(
        self, owner: Object, controller: Object, role: str, name: str, selector: str, number: int = 0
    ) -> Object | None:
        spec, app = owner["spec"].get(role) or {}, owner["metadata"]["name"]
        labels = {
            **(owner["metadata"].get("labels") or {}),
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
        template = spec.get("template") or {}
        inner = template.get("metadata") or {}
        pod_spec: dict[str, Any] = {"restartPolicy": "Never", **(template.get("spec") or {})}
        for field in ("tolerations", "nodeSelector", "affinity", "priorityClassName", "schedulerName", "hostNetwork",
                      "terminationGracePeriodSeconds"):  # fmt: skip
            if field in spec:
                pod_spec[field] = spec[field]
        if "batchScheduler" in owner["spec"] and "schedulerName" not in pod_spec:
            pod_spec["schedulerName"] = owner["spec"]["batchScheduler"]
        containers = list(pod_spec.get("containers") or ({},))
        containers[0] = {
            "name": f"spark-kubernetes-{role}" if role == "driver" else "spark-kubernetes-executor",
            "image": spec.get("image") or owner["spec"].get("image", ""),
            **containers[0],
            "resources": _resources(spec),
        }
        pod_spec["containers"] = containers
        merged = {
            "metadata": {
                "labels": {**(inner.get("labels") or {}), **labels},
                "annotations": {**(inner.get("annotations") or {}), **(spec.get("annotations") or {})},
            },
            "spec": pod_spec,
        }
        if names.QUEUE in (owner["metadata"].get("labels") or {}):
            merged["metadata"]["labels"].setdefault(names.QUEUE, owner["metadata"]["labels"][names.QUEUE])
        return self._bench.create_pod(controller, merged, name=name)


def _resources(spec: Object) -> dict[str, dict[str, Any]]:
    """Requests and limits as Spark makes them from cores, memory with overhead, and GPUs."""
    # ``4g``, ``4gb`` and ``4gib`` are one amount to Spark: binary units. ``4b`` is in bytes, ``4`` in MiB.
    text = str(spec.get("memory", "1g")).lower()
    number = text.rstrip("bigkmt")
    size = float(number) * _MEBIBYTES[text[len(number) :][:1]]
    overhead = max(size * 0.1, _LEAST_OVERHEAD_MIB)
    memory = f"{int(size + overhead)}Mi"
    requests: dict[str, Any] = {"cpu": str(spec.get("coreRequest") or spec.get("cores", 1)), "memory": memory}
    limits: dict[str, Any] = {"memory": memory}
    if "coreLimit" in spec:
        limits["cpu"] = str(spec["coreLimit"])
    gpu = spec.get("gpu") or {}
    if gpu.get("quantity"):
        limits[gpu.get("name", names.GPU_RESOURCE)] = requests[gpu.get("name", names.GPU_RESOURCE)] = gpu["quantity"]
    return {"requests": requests, "limits": limits}
