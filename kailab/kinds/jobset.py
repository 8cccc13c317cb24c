"""JobSet: a group of Jobs that start, succeed, fail and start over together."""

from __future__ import annotations

from kailab.kinds.kubernetes import unread_of_claims
from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.labels import BATCH_MIN_MEMBER, SCHEDULER_NAME
from kailab.model.objects import DIRECTIVES, Object, annotations_of, spec_of, without_scheduling_directives
from kailab.model.quantities import parse_count
from kailab.model.validation.core import shape_of_type
from kailab.model.validation.fields import Faults

_ACTIONS = ("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts")


IMMUTABLE_POLICIES = ("network", "successPolicy", "failurePolicy", "startupPolicy", "volumeClaimPolicies")
"""Fields of a JobSet's spec with rules of their own in its definition, and in that of Trainer's runtimes."""
_MADE_WITH = {
    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "successPolicy": {"operator": "All"},
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
}
"""Defaults by JobSet's webhook, which it sets only when a JobSet is made."""


def _fixed(stored: Object, obj: Object) -> Object:
    if obj is stored:
        obj = {**obj, "spec": {**_MADE_WITH, **obj["spec"]}}
    return _without_directives(stored, obj)


def _without_directives(stored: Object, obj: Object) -> Object:
    """While a JobSet is suspended, and when it becomes so, its scheduling directives may change, as Kueue does it. Source: JobSet's
    webhook (ValidateUpdate)."""
    before, entries = stored["spec"].get("replicatedJobs") or [], obj["spec"].get("replicatedJobs") or []
    if stored["spec"].get("suspend"):
        entries = list(map(_fixed_entry, entries))
    elif obj["spec"].get("suspend") and list(map(_fixed_entry, entries)) == list(map(_fixed_entry, before)):
        entries = before
    else:
        return obj
    return {**obj, "spec": {**obj["spec"], "replicatedJobs": entries}}


def _fixed_entry(entry: Object) -> Object:
    job = entry["template"]
    template = without_scheduling_directives(job["spec"]["template"], *DIRECTIVES)
    return {**entry, "template": {**job, "spec": {**job["spec"], "template": template}}}


def unread_of_job_sets(*above: str) -> tuple[Unread, ...]:
    """The unread fields of a JobSet's spec. ``above``: the path to the spec."""
    return (
        Unread(
            (*above, "failurePolicy", "rules", "*", "action"),
            "JobSet refuses it unless its feature gate RestartJob is on; then only the Job that failed starts over, and here the JobSet does",
            _ACTIONS,
        ),
        Unread(
            (*above, "failurePolicy", "restartStrategy"),
            "Jobs are made again when all old ones are gone; JobSet refuses InPlaceRestart unless its feature gate is on",
            only=("BlockingRecreate", "InPlaceRestart"),
        ),
        *unread_of_claims(*above, "volumeClaimPolicies", "*", "templates", "*", "spec"),
    )


def advise_start(faults: Faults, obj: Object) -> None:
    """Advise on jobs that wait for others of their own gang."""
    _advise_start(faults, obj, "")


def advise_start_of_runtime(faults: Faults, obj: Object) -> None:
    """As ``advise_start``, for the JobSets that Trainer makes from a runtime."""
    _advise_start(faults, spec_of(obj).get("template") or {}, "spec.template.")


def _advise_start(faults: Faults, job_set: Object, path: str) -> None:
    entries = spec_of(job_set).get("replicatedJobs") or ()
    first = [entry for entry in entries if not entry.get("dependsOn")]
    pods = (spec_of(spec_of(entry["template"]).get("template") or {}) for entry in entries)
    least = annotations_of(job_set).get(BATCH_MIN_MEMBER)
    needed = parse_count(least, len(entries)) if least is not None else len(entries)
    if len(first) < needed and any(pod.get("schedulerName") == SCHEDULER_NAME for pod in pods):
        at = next(index for index, entry in enumerate(entries) if entry.get("dependsOn"))
        faults.add(
            f"{path}spec.replicatedJobs[{at}].dependsOn",
            f"KAI starts {needed} jobs of the JobSet together, and only {len(first)} can be made before another has started: none starts, unless the "
            f'JobSet has the annotation {BATCH_MIN_MEMBER}: "1"',
        )


KINDS = (
    Kind(
        group="jobset.x-k8s.io",
        kind="JobSet",
        versions=("v1alpha2",),
        plural="jobsets",
        defaults=spec_defaults({"suspend": False}, template=False),
        # The operator's definition does not require a spec, and a JobSet without Jobs is one.
        shape=shape_of_type("JobSet"),
        check="kailab.workloads.jobset_webhook:check_jobset",
        advice=advise_start,
        immutable=("spec.replicatedJobs", "spec.managedBy"),
        immutable_while_set=tuple(f"spec.{field}" for field in IMMUTABLE_POLICIES),
        fixed=_fixed,
        controller="kailab.workloads.jobset:JobSetController",
        wanted_pods="kailab.workloads.wanted_pods:job_set",
        replaces_failed_pods=True,
        suspended_by="suspend",
        grouping="kailab.grouping.families.jobset:JOBSET",
        in_all=True,
        unread=(
            *unread_of_job_sets("spec"),
            Unread(
                ("spec", "managedBy"),
                "the controller that it names makes the pods",
                ("jobset.sigs.k8s.io/jobset-controller",),
            ),
        ),
    ),
)
