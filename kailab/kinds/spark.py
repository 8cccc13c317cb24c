"""SparkApplication: a driver pod that creates its executors."""

from __future__ import annotations

import re
from typing import Any

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import fields_of, loose_pod_spec, shape
from kailab.model.validation.fields import Fault
from kailab.model.validation.shapes import (
    COUNT,
    FLAG,
    PODS,
    TEXT,
    Check,
    both,
    filled,
    memory_text,
    named,
    one_of,
    quantity,
    record,
    table,
    whole,
    with_spec,
)

_POD_FIELDS = ("tolerations", "nodeSelector", "affinity", "priorityClassName", "schedulerName", "hostNetwork",
          "terminationGracePeriodSeconds")  # fmt: skip


def _factor(value: Any) -> list[Fault] | None:
    """Check a part of the memory, as text."""
    if isinstance(value, str) and _FACTOR.fullmatch(value):
        return None
    return [Fault("", f'is {value!r:.80}; expected a part of the memory as text, such as "0.1"')]


def _bytes(value: Any) -> list[Fault] | None:
    """Check memory that is in bytes without a unit, so that it may have more digits."""
    return None if isinstance(value, str) and _PLAIN_BYTES.fullmatch(value) else memory_text(value)


_PLAIN_BYTES = re.compile(r"[0-9]{1,15}b?", re.ASCII)
_FACTOR = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?|\.[0-9]{1,6}", re.ASCII)
_CONF: dict[str, Check] = {
    "spark.kubernetes.memoryOverheadFactor": _factor,
    "spark.memory.offHeap.size": _bytes,
    "spark.executor.pyspark.memory": memory_text,
    **{
        f"spark.{role}.{name}": of
        for role in ("driver", "executor")
        for name, of in (("memory", memory_text), ("memoryOverhead", memory_text), ("memoryOverheadFactor", _factor))
    },
}
"""The keys of sparkConf that decide about the memory requests of pods."""


def _shape() -> Check:
    pod = fields_of("V1PodSpec")
    containers = named(record(fields_of("V1Container"), ("name",)))
    role = {
        **{name: pod[name] for name in _POD_FIELDS},
        "instances": PODS,
        "cores": whole(0, 100_000),
        "coreRequest": quantity,
        "coreLimit": quantity,
        "memory": memory_text,
        "memoryOverhead": memory_text,
        "memoryLimit": memory_text,
        "image": TEXT,
        "labels": table(TEXT),
        "annotations": table(TEXT),
        "serviceAccount": TEXT,
        "volumeMounts": shape("[V1VolumeMount]"),
        "sidecars": containers,
        "initContainers": containers,
        "gpu": record({"name": filled(TEXT), "quantity": COUNT}),
        "template": record({"metadata": shape("V1ObjectMeta"), "spec": loose_pod_spec()}),
    }
    spec = {
        "driver": record(role),
        "executor": record(role),
        "nodeSelector": table(TEXT),
        "volumes": shape("[V1Volume]"),
        "dynamicAllocation": record(
            {"enabled": FLAG, **dict.fromkeys(("initialExecutors", "minExecutors", "maxExecutors"), PODS)}
        ),
        "image": TEXT,
        "batchScheduler": TEXT,
        "sparkVersion": TEXT,
        "type": TEXT,
        "timeToLiveSeconds": COUNT,
        "restartPolicy": record(
            {
                "type": one_of("Never", "OnFailure", "Always"),
                "onFailureRetries": COUNT,
                "onFailureRetryInterval": COUNT,
            }
        ),
        "memoryOverheadFactor": _factor,
        "sparkConf": both(table(TEXT), record(_CONF)),
    }
    return with_spec(record(spec))


_SETTINGS = "it decides how many pods there are, what they ask for, or where they run"

KINDS = (
    Kind(
        group="sparkoperator.k8s.io",
        kind="SparkApplication",
        versions=("v1beta2",),
        plural="sparkapplications",
        short=("sparkapp",),
        shape=_shape,
        describes="kailab.workloads.spark:pods_of_application",
        controller="kailab.workloads.spark:SparkController",
        wanted_pods="kailab.workloads.wanted_pods:spark_application",
        unread=(
            Unread(
                ("spec", "dynamicAllocation", "enabled"),
                "Spark changes how many executors there are, by the load; here those that it begins with stay",
            ),
            *(
                Unread(("spec", "sparkConf", setting), _SETTINGS)
                for setting in (
                    "spark.dynamicAllocation.enabled",
                    "spark.executor.instances",
                    "spark.driver.cores",
                    "spark.executor.cores",
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
