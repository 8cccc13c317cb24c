"""SparkApplication: a driver pod that creates its executors."""

from __future__ import annotations

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import shape_of_type

_SETTINGS = "it decides how many pods there are, what they ask for, or where they run"

KINDS = (
    Kind(
        group="sparkoperator.k8s.io",
        kind="SparkApplication",
        versions=("v1beta2",),
        plural="sparkapplications",
        short=("sparkapp",),
        shape=shape_of_type("SparkApplication"),
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
