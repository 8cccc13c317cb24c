"""Names of labels, annotations, taints and resources that kailab reads or writes. Source: KAI's constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEDULER_NAME = "kai-scheduler"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

QUEUE = "kai.scheduler/queue"
QUEUE_RUNAI = "runai/queue"
PRIORITY_CLASS = "priorityClassName"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
BATCH_MIN_MEMBER = "kai.scheduler/batch-min-member"
SUBGROUP_NAME = "kai.scheduler/subgroup-name"
TOPOLOGY = "kai.scheduler/topology"
TOPOLOGY_REQUIRED = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED = "kai.scheduler/topology-preferred-placement"
PREEMPTION_DELAY = "kai.scheduler/preemption-delay"
STALENESS_GRACE = "kai.scheduler/staleness-grace-period"
SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
NODE_POOL = "kai.scheduler/node-pool"
TASK_PRIORITY = "kai.scheduler/task-priority"
POD_GROUP = "pod-group-name"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `apply` keeps a copy of the whole object."""
GPU_FRACTION = "gpu-fraction"
GPU_MEMORY = "gpu-memory"
GPU_FRACTION_DEVICES = "gpu-fraction-num-devices"
GPU_SHARES = (GPU_FRACTION, GPU_MEMORY)
"""Annotations that ask for a part of a GPU."""
GPU_SHARING = (*GPU_SHARES, GPU_FRACTION_DEVICES)
"""Annotations that say how much of how many GPUs a pod shares. Every module that reads, keeps or checks such annotations takes the list
from here."""
GPU_FRACTION_CONTAINER = "gpu-fraction-container-name"
GPU_GROUP = "runai-gpu-group"
GPU_MULTI_GROUP_PREFIX = "runai-gpu-group/"
RESERVATION_NAMESPACE = "kai-resource-reservation"
RESERVED_DEVICE = "run.ai/reserve_for_gpu_index"  # which device a reservation pod got
RECEIVED_RESOURCE_TYPE = "received-resource-type"
MIG_PREFIX = "nvidia.com/mig-"
LAST_START = "kai.scheduler/last-start-timestamp"
STALE_SINCE = "kai.scheduler/stale-podgroup-timestamp"

# Gang labels of an older KAI, as the lesson material uses them.
JOB_ID = "kai.nvidia.com/job-id"
JOB_SIZE = "kai.nvidia.com/job-size"
JOB_INDEX = "kai.nvidia.com/job-index"

GPU_RESOURCE = "nvidia.com/gpu"
AMD_GPU_RESOURCE = "amd.com/gpu"
GPU_RESOURCES = (GPU_RESOURCE, AMD_GPU_RESOURCE)
"""KAI treats these as one resource: it adds them up on nodes and in requests."""
GPU_COUNT = "nvidia.com/gpu.count"
RACK_SUFFIX = "/rack"  # of the key of a label that says in which rack a node is
GPU_PRODUCT = "nvidia.com/gpu.product"
AMD_GPU_PRODUCT = "amd.com/gpu.product-name"
GPU_PRESENT = "nvidia.com/gpu.present"  # GPU feature discovery: the node has GPUs of NVIDIA
GPU_NODE_MEMORY = "nvidia.com/gpu.memory"
HOSTNAME = "kubernetes.io/hostname"
SUBGROUP_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"  # keeps a resource claim that is allocated
FAKE_NODE_TAINT = "kwok.x-k8s.io/node"
KNATIVE_MIN_SCALE = "autoscaling.knative.dev/min-scale"
KSERVE_DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
KSERVE_STOP = "serving.kserve.io/stop"

# kailab's own annotations on pods of the embedded cluster (and of our KWOK stages).
RUN_SECONDS = "kailab.dev/run-seconds"
READY_SECONDS = "kailab.dev/ready-seconds"
FAIL = "kailab.dev/fail"
EXPECTED_SECONDS = "kailab.dev/expected-seconds"  # how long its user says that it will run: for policies
RAN_SECONDS = "kailab.dev/ran-seconds"  # how long the pods that it replaces ran: for policies
CHECKPOINT_SECONDS = "kailab.dev/checkpoint-seconds"  # it can save its state, and how long that takes
TERMINATION_SECONDS = "kailab.dev/termination-seconds"
SECONDS = (RUN_SECONDS, READY_SECONDS, EXPECTED_SECONDS, RAN_SECONDS, CHECKPOINT_SECONDS, TERMINATION_SECONDS)
"""Annotations that are a number of seconds."""
CHECKPOINT_REQUESTED = "kailab.dev/checkpoint-requested"  # when it was asked to
CHECKPOINT_DONE = "kailab.dev/checkpoint-done"  # it says so itself: no need to wait any longer


def gpu_model(labels: Mapping[str, Any]) -> str:
    """The GPU model in a node's labels, or ""."""
    return str(labels.get(GPU_PRODUCT) or labels.get(AMD_GPU_PRODUCT) or "")


DEFAULT_QUEUE = "default-queue"
"""The queue of work that names none. KAI's chart makes it, below ``DEFAULT_PARENT_QUEUE``."""
DEFAULT_PARENT_QUEUE = "default-parent-queue"
