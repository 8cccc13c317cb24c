"""Which family groups the pods of which kind of top owner, by API group and kind.

The table is KAI's, but that a kind's family holds for all of its versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from kailab.grouping.families import simple
from kailab.grouping.families.deployment import DEPLOYMENT
from kailab.grouping.families.grove import GROVE
from kailab.grouping.families.job import CRON_JOB, JOB, RUNAI_JOB
from kailab.grouping.families.jobset import JOBSET
from kailab.grouping.families.knative import KNATIVE
from kailab.grouping.families.kubeflow import JAX, MPI, TENSORFLOW, XGBOOST
from kailab.grouping.families.leaderworkerset import LEADER_WORKER_SET
from kailab.grouping.families.pod import POD
from kailab.grouping.families.pytorch import PYTORCH
from kailab.grouping.families.ray import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from kailab.grouping.families.wrapper import WRAPPER
from kailab.grouping.family import Family

_FAMILIES: dict[tuple[str, str], Family] = {
    ("", "Pod"): POD,
    ("apps", "Deployment"): DEPLOYMENT,
    ("batch", "Job"): JOB,
    ("batch", "CronJob"): CRON_JOB,
    ("jobset.x-k8s.io", "JobSet"): JOBSET,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): LEADER_WORKER_SET,
    ("kubeflow.org", "PyTorchJob"): PYTORCH,
    ("kubeflow.org", "TFJob"): TENSORFLOW,
    ("kubeflow.org", "XGBoostJob"): XGBOOST,
    ("kubeflow.org", "JAXJob"): JAX,
    ("kubeflow.org", "MPIJob"): MPI,
    ("kubeflow.org", "Notebook"): simple.NOTEBOOK,
    ("ray.io", "RayCluster"): RAY_CLUSTER,
    ("ray.io", "RayJob"): RAY_JOB,
    ("ray.io", "RayService"): RAY_SERVICE,
    ("serving.knative.dev", "Service"): KNATIVE,
    ("grove.io", "PodCliqueSet"): GROVE,
    ("grove.io", "PodGangSet"): GROVE,
    ("run.ai", "RunaiJob"): RUNAI_JOB,
    ("amlarc.azureml.com", "AmlJob"): simple.AML_JOB,
    ("egx.nvidia.io", "SPOTRequest"): simple.SPOT_REQUEST,
    ("argoproj.io", "Workflow"): WRAPPER,
    ("trainer.kubeflow.org", "TrainJob"): WRAPPER,
    ("nvidia.com", "DynamoGraphDeployment"): WRAPPER,
    ("run.ai", "TrainingWorkload"): WRAPPER,
    ("run.ai", "InteractiveWorkload"): WRAPPER,
    ("run.ai", "DistributedWorkload"): WRAPPER,
    ("run.ai", "InferenceWorkload"): WRAPPER,
    ("run.ai", "DistributedInferenceWorkload"): WRAPPER,
}


def family_for(group: str, kind: str) -> Family:
    """The family of a kind of top owner; kinds that have none are grouped by the default rules."""
    return _FAMILIES.get((group, kind), simple.DEFAULT)


def families() -> Iterator[Family]:
    """Every family once, the default one first."""
    yield simple.DEFAULT
    yield from dict.fromkeys(_FAMILIES.values())
