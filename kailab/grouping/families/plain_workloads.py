"""Families without a gang of their own: plain owners, Deployments, bare pods, Jobs and wrappers of other workloads.

Plain owners (StatefulSet, ReplicaSet, DaemonSet, every kind without a family) make one PodGroup with ``minMember`` 1. A Kubeflow Notebook
has the priority class ``build``, a SPOTRequest ``inference``; an AmlJob needs all its nodes.

Deployments make one PodGroup per replica, owned by the pod, with the priority class ``inference``.

A bare pod is a PodGroup of its own. A Spark driver and its executors share the PodGroup that their label ``spark-app-selector`` names.
An older KAI made one gang of a namespace's bare pods with the same ``kai.nvidia.com/job-id``: ``job-size`` is its minMember,
``job-index`` numbers the pods, the first pod decides the rest, and all of them own the PodGroup.

A Job is one PodGroup; ``minMember`` is its annotation ``kai.scheduler/batch-min-member``, else ``job-size`` of its pods' older gang labels,
else 1. A CronJob makes one PodGroup per Job, a RunaiJob one per pod name without its last part. Each keeps a PodGroup that an older KAI
made under another name (``legacy_pod_groups``).

Wrappers (Argo Workflow, TrainJob, run:ai workloads, DynamoGraphDeployment) are grouped by the owner below them, or as a bare pod. That
owner takes over the wrapper's labels and annotations that it lacks, after the defaults for the wrapper's kind.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import (
    BUILD,
    INFERENCE,
    TOP_OWNER_METADATA,
    default_grouping,
    kind_defaults,
    pod_group_name,
    reference_to,
)
from kailab.grouping.family import Context, Family, MakePlan
from kailab.grouping.fields import group_version, integer, title, whole_number
from kailab.grouping.records import Grouping, GroupingError, Plan
from kailab.model.labels import (
    BATCH_MIN_MEMBER,
    JOB_ID,
    JOB_INDEX,
    JOB_SIZE,
    PREEMPTIBILITY,
    PRIORITY_CLASS,
    SUBGROUP_NAME,
)
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of, owner_references, uid_of


def _default(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    # As in KAI, labels of all owners count here.
    return Plan(default_grouping(top, pod, chain, context))


def _with_class(priority_class: str) -> MakePlan:
    return lambda top, pod, chain, context: Plan(default_grouping(top, pod, (), context, priority_class))


def _aml_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    nodes = integer(top, "spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    if nodes is None:
        raise GroupingError(f"{title(top)}: spec.job.options.envs.AZUREML_NODE_COUNT is missing")
    grouping.min_member = nodes
    return Plan(grouping)


DEFAULT = Family("default", _default)
NOTEBOOK = Family("notebook", _with_class(BUILD))
SPOT_REQUEST = Family("spotrequest", _with_class(INFERENCE))
AML_JOB = Family("amljob", _aml_job)


def _deployment(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    # Name and owner are the pod's, the rest is the Deployment's.
    grouping = default_grouping(top, pod, (), context, INFERENCE)
    grouping.name = pod_group_name(pod)
    grouping.owner = reference_to(pod)
    return Plan(grouping)


DEPLOYMENT = Family("deployment", _deployment, per_owner=False)


_SPARK_APP = "spark-app-name"
_SPARK_SELECTOR = "spark-app-selector"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9-]+")


def _pod(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    labels = labels_of(pod)
    grouping = default_grouping(top, pod, (), context)
    if _SPARK_APP in labels and _SPARK_SELECTOR in labels:
        grouping.name = labels[_SPARK_SELECTOR]
    # Only bare pods: pods owned by a pod, such as Spark executors, are also in this family.
    elif context.config.older_labels and not chain and has_gang_labels(labels):
        _make_gang(grouping, pod)
    return Plan(grouping)


def has_gang_labels(labels: Mapping[str, str]) -> bool:
    """Whether a pod has the gang labels of an older KAI: an id and a size."""
    return bool(labels.get(JOB_ID)) and JOB_SIZE in labels


def gang_size(pod: Object) -> int:
    """The ``job-size`` of a pod with that label. Raises GroupingError unless it is a whole number above 0."""
    return whole_number(labels_of(pod)[JOB_SIZE], f"{title(pod)}: label {JOB_SIZE}", least=1)


def _make_gang(grouping: Grouping, pod: Object) -> None:
    grouping.name = f"pg-{_as_name(labels_of(pod)[JOB_ID])}"
    grouping.min_member = gang_size(pod)
    grouping.shared = True
    # Without the labels of the single pod.
    grouping.labels = {k: v for k, v in labels_of(pod).items() if k not in (JOB_INDEX, SUBGROUP_NAME)}
    grouping.annotations = {k: v for k, v in annotations_of(pod).items() if k != TOP_OWNER_METADATA}


def _as_name(job_id: str) -> str:
    """The id as part of an object's name. A digest keeps ids distinct that had to be changed."""
    name = _NOT_IN_A_NAME.sub("-", job_id.lower()).strip("-")
    if name == job_id:
        return name
    return f"{name}-{hashlib.sha256(job_id.encode()).hexdigest()[:8]}".lstrip("-")


POD = Family("pod", _pod, per_owner=False)


def _job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    legacy_name = f"pg-{name_of(pod)}-{uid_of(top)}"
    # An older KAI made a PodGroup for each pod; running pods keep theirs.
    if legacy_name != grouping.name and context.legacy_pod_group(grouping.namespace, legacy_name) is not None:
        grouping.name = legacy_name
        return Plan(grouping)
    override = annotations_of(top).get(BATCH_MIN_MEMBER)
    if override is not None:
        grouping.min_member = whole_number(override, f"{title(top)}: annotation {BATCH_MIN_MEMBER}", least=0)
    elif context.config.older_labels and has_gang_labels(labels_of(pod)):
        grouping.min_member = gang_size(pod)
    return Plan(grouping)


def _cron_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    for reference in owner_references(pod):
        if reference.get("kind") == "Job":
            job = context.reads.get("batch/v1", "Job", namespace_of(pod), reference["name"])
            if job is None:
                raise GroupingError(f"Job {namespace_of(pod)}/{reference['name']}, owner of the pod, does not exist")
            return Plan(default_grouping(job, pod, (), context))
    raise GroupingError(f"{title(pod)} comes from {title(top)} but no Job owns it")


def _runai_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    # An older KAI named it after the job only if it had a single pod. Source: KAI calcLegacyName.
    single_pod = (integer(top, "spec", "parallelism") or 0) <= 1
    legacy_name = f"pg-{name_of(top if single_pod else pod)}-{uid_of(top)}"
    if context.legacy_pod_group(grouping.namespace, legacy_name) is not None:
        grouping.name = legacy_name
    else:
        grouping.name = f"pg-{name_of(pod).rpartition('-')[0] or name_of(pod)}-{uid_of(top)}"
    return Plan(grouping)


JOB = Family("job", _job, pod_labels=(JOB_ID, JOB_SIZE))
CRON_JOB = Family("cronjob", _cron_job, per_owner=False)
RUNAI_JOB = Family("runaijob", _runai_job, per_owner=False)


def _wrapper(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    below = chain[-2] if len(chain) > 1 else pod
    defaults = kind_defaults(top, context)
    default_labels = {PRIORITY_CLASS: defaults.priority_class, PREEMPTIBILITY: defaults.preemptibility}
    defaulted = {**{key: value for key, value in default_labels.items() if value}, **labels_of(below)}
    inner = _with_metadata(below, {**labels_of(top), **defaulted}, {**annotations_of(top), **annotations_of(below)})
    # In the chain the inner owner only gets the defaults, not the labels of the wrapper.
    owners = [*chain[:-2], _with_metadata(below, defaulted, annotations_of(below))] if len(chain) > 1 else []
    group, _ = group_version(inner.get("apiVersion") or "v1")
    return context.family_for(group, inner.get("kind") or "Pod").plan(inner, pod, owners, context)


def _with_metadata(obj: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": dict(labels), "annotations": dict(annotations)}}


WRAPPER = Family("wrapper", _wrapper, per_owner=False)
