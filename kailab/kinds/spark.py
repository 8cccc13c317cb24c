"""SparkApplication: a driver pod that makes its executors."""

from __future__ import annotations

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import fields_of, loose_pod_spec, shape
from kailab.model.validation.shapes import (
    COUNT,
    PODS,
    TEXT,
    Check,
    filled,
    memory_text,
    quantity,
    record,
    table,
    whole,
    with_spec,
)

_TAKEN = ("tolerations", "nodeSelector", "affinity", "priorityClassName", "schedulerName", "hostNetwork",
          "terminationGracePeriodSeconds")  # fmt: skip


def _shape() -> Check:
    pod = fields_of("V1PodSpec")
    role = {
        **{name: pod[name] for name in _TAKEN},
        "instances": PODS,
        "cores": whole(0, 100_000),
        "coreRequest": quantity,
        "coreLimit": quantity,
        "memory": memory_text,
        "image": TEXT,
        "labels": table(TEXT),
        "annotations": table(TEXT),
        "gpu": record({"name": filled(TEXT), "quantity": COUNT}),
        "template": record({"metadata": shape("V1ObjectMeta"), "spec": loose_pod_spec()}),
    }
    spec = {
        "driver": record(role),
        "executor": record(role),
        "image": TEXT,
        "batchScheduler": TEXT,
        "sparkVersion": TEXT,
    }
    return with_spec(record(spec))


_BESIDE = "they run beside the main container, and what they ask for is added"
_SETTINGS = "it decides how many pods there are, what they ask for, or where they run"

KINDS = (
    Kind(
        group="sparkoperator.k8s.io",
        kind="SparkApplication",
        versions=("v1beta2",),
        plural="sparkapplications",
        short=("sparkapp",),
        shape=_shape,
        controller="kailab.workloads.spark:SparkController",
        unread=(
            Unread(("spec", "dynamicAllocation", "enabled"), "Spark changes how many executors there are"),
            Unread(("spec", "nodeSelector"), "driver and executors run on such nodes only"),
            Unread(("spec", "restartPolicy", "type"), "an application that ends may be submitted again", ("Never",)),
            *(
                Unread(("spec", role, field), _BESIDE)
                for role in ("driver", "executor")
                for field in ("sidecars", "initContainers")
            ),
            *(
                Unread(("spec", "sparkConf", setting), _SETTINGS)
                for setting in (
                    "spark.dynamicAllocation.enabled",
                    "spark.executor.instances",
                    "spark.driver.cores",
                    "spark.executor.cores",
                    "spark.driver.memory*",
                    "spark.executor.memory*",
                    "spark.*.resource.gpu.amount",
                    "spark.kubernetes.*node.selector.*",
                    "spark.kubernetes.*podTemplateFile",
                    "spark.kubernetes.*scheduler.name",
                    "spark.kubernetes.*request.cores",
                )
            ),
        ),
    ),
)
