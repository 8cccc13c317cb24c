"""Settings of grouping, under the names and defaults of KAI's podgrouper flags."""

from __future__ import annotations

from dataclasses import dataclass

from kailab.model import labels


@dataclass(frozen=True, slots=True)
class GroupingConfig:
    """How pods are grouped.

    ``scheduler_names``: pods with one of these schedulerNames are grouped. ``defaults_configmap``: (namespace, name)
    of a ConfigMap whose key ``types`` gives priority class and preemptibility by kind (JSON, as KAI reads it).
    ``knative_gang``: a Knative revision is one gang of its min-scale rather than a PodGroup per pod.
    ``legacy_pod_groups``: look for PodGroups that an older KAI made in another shape and keep to it.
    ``older_labels``: accept ``runai/queue`` and the ``kai.nvidia.com/job-*`` gang labels.
    """

    scheduler_names: tuple[str, ...] = (labels.SCHEDULER_NAME,)
    queue_label: str = labels.QUEUE
    node_pool_label: str = labels.NODE_POOL
    defaults_configmap: tuple[str, str] | None = None
    knative_gang: bool = True
    legacy_pod_groups: bool = False
    older_labels: bool = True
