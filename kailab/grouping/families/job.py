"""Jobs: one PodGroup per Job, one pod enough unless ``kai.scheduler/batch-min-member`` on the Job says more.

CronJobs: one PodGroup per Job they made. RunaiJobs: one per pod name without its last part. Each can keep to a PodGroup
that an older KAI made under another name (``legacy_pod_groups``).

A Job whose pods carry the gang labels of the older KAI takes ``job-size`` where batch-min-member does not speak.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.families.pod import gang_size, has_gang_labels
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, title, whole_number
from kailab.grouping.records import GroupingError, Plan
from kailab.model.kinds import api_version_of
from kailab.model.labels import BATCH_MIN_MEMBER, JOB_ID, JOB_SIZE
from kailab.model.objects import annotations_of, labels_of, name_of, namespace_of, uid_of


def _job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    legacy_name = f"pg-{name_of(pod)}-{uid_of(top)}"
    # An older KAI made a PodGroup for each pod: pods that run keep theirs while KAI is upgraded.
    if _is_legacy(legacy_name, pod, context) and legacy_name != grouping.name:
        grouping.name = legacy_name
        return Plan(grouping)
    override = annotations_of(top).get(BATCH_MIN_MEMBER)
    if override is not None:
        grouping.min_member = whole_number(override, f"{title(top)}: annotation {BATCH_MIN_MEMBER}", least=0)
    elif context.config.older_labels and has_gang_labels(labels_of(pod)):
        grouping.min_member = gang_size(pod)
    return Plan(grouping)


def _cron_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("kind") == "Job":
            job = context.reads.get("batch/v1", "Job", namespace_of(pod), reference["name"])
            if job is None:
                raise GroupingError(f"Job {namespace_of(pod)}/{reference['name']}, owner of the pod, does not exist")
            return Plan(default_grouping(job, pod, (), context))
    raise GroupingError(f"{title(pod)} comes from {title(top)} but no Job owns it")


def _runai_job(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    # The older name, which was that of the job only where it had a single pod (calcLegacyName).
    alone = (integer(top, "spec", "parallelism") or 0) <= 1
    legacy_name = f"pg-{name_of(top if alone else pod)}-{uid_of(top)}"
    if _is_legacy(legacy_name, pod, context):
        grouping.name = legacy_name
    else:
        grouping.name = f"pg-{name_of(pod).rpartition('-')[0] or name_of(pod)}-{uid_of(top)}"
    return Plan(grouping)


def _is_legacy(pod_group: str, pod: Object, context: Context) -> bool:
    """Whether an older KAI left a PodGroup of this name."""
    if not context.config.legacy_pod_groups:
        return False
    return context.reads.get(api_version_of("PodGroup"), "PodGroup", namespace_of(pod), pod_group) is not None


JOB = Family("job", _job, pod_labels=(JOB_ID, JOB_SIZE))
CRON_JOB = Family("cronjob", _cron_job, per_owner=False)
RUNAI_JOB = Family("runaijob", _runai_job, per_owner=False)
