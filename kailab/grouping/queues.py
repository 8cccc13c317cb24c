"""Which queue a pod's group goes to.

KAI's rule: the queue label of the owner, else of the pod, else the project label of either (joined with the pod's
node pool, if it has one), else ``default-queue``. Before the last, what an older KAI read: the ``runai/queue`` label
of owner or pod, and that label on the namespace as the queue of everything in it.
"""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.grouping.family import Context
from kailab.model.labels import QUEUE_RUNAI
from kailab.model.objects import labels_of, namespace_of

DEFAULT_QUEUE = "default-queue"
PROJECT = "project"


def queue_of(owner: Object, pod: Object, context: Context) -> str:
    config = context.config
    owner_labels, pod_labels = labels_of(owner), labels_of(pod)
    queue = owner_labels.get(config.queue_label)
    # Asked for by None: an empty label is an answer, as in KAI.
    if queue is None:
        queue = pod_labels.get(config.queue_label)
    if queue is not None:
        return queue
    project = owner_labels.get(PROJECT)
    if project is None:
        project = pod_labels.get(PROJECT)
    if project:
        node_pool = pod_labels.get(config.node_pool_label)
        return project if node_pool is None else f"{project}-{node_pool}"
    if config.older_labels:
        queue = owner_labels.get(QUEUE_RUNAI) or pod_labels.get(QUEUE_RUNAI) or _queue_of_namespace(pod, context)
    return queue or DEFAULT_QUEUE


def _queue_of_namespace(pod: Object, context: Context) -> str | None:
    namespace = context.reads.get("v1", "Namespace", None, namespace_of(pod))
    return None if namespace is None else labels_of(namespace).get(QUEUE_RUNAI)
