"""Job and CronJob: pods that end, once or by a schedule."""

from __future__ import annotations

import re
from itertools import pairwise

from kailab.errors import InputError
from kailab.kinds.kubernetes import spec_check
from kailab.model.defaults import spec_defaults
from kailab.model.kind import Kind, Unread
from kailab.model.objects import DIRECTIVES, Object, status_of, without_scheduling_directives
from kailab.model.validation.fields import LARGEST_INT64, Faults, is_label_key
from kailab.model.validation.pods import check_template

_RESTART = ("OnFailure", "Never")
_CONTROLLER = {"controller-uid", "batch.kubernetes.io/controller-uid"}


def _spec_defaults(spec: Object) -> Object:
    """The defaults of batch/v1: parallelism 1, completions 1 if parallelism is missing too, backoffLimit 6."""
    defaults: Object = {"backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
    if "parallelism" not in spec:
        defaults["parallelism"] = 1
        if "completions" not in spec:
            defaults["completions"] = 1
    if "backoffLimitPerIndex" in spec:
        defaults["backoffLimit"] = 2**31 - 1
    return defaults


_job_defaults = spec_defaults(_spec_defaults)


def _cron_job_defaults(obj: Object) -> Object:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    defaults: Object = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    missing = {key: value for key, value in defaults.items() if key not in spec}
    template = spec.get("jobTemplate")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        filled = _job_defaults(template)
        if filled is not template:
            missing["jobTemplate"] = filled
    return {**obj, "spec": {**spec, **missing}} if missing else obj


@spec_check
def _check_cron_job(faults: Faults, spec: Object) -> None:
    # Loads the time zones, which a command that only looks at a lab does without.
    from kailab.model.cron import schedule_of, split_zone, zone_of

    zone = faults.text(spec, "timeZone", "spec.timeZone")
    if schedule := faults.text(spec, "schedule", "spec.schedule", required=True):
        own_zone, times = split_zone(schedule)
        faults.read(schedule_of, times, "spec.schedule")
        if own_zone is not None:
            faults.read(zone_of, own_zone, "spec.schedule")
            if zone:
                faults.add("spec.schedule", "names a zone, and timeZone another one; expected five fields")
            faults.ratchet("spec.schedule", "names a zone; expected five fields, and the zone in timeZone")
    if zone == "":
        faults.add("spec.timeZone", "must not be empty")
    if zone:
        try:
            zone_of(zone)
        except InputError as error:
            faults.ratchet("spec.timeZone", error.message)
    faults.one_of(spec, "concurrencyPolicy", "spec.concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    faults.boolean(spec, "suspend", "spec.suspend")
    faults.integer(spec, "startingDeadlineSeconds", "spec.startingDeadlineSeconds", most=LARGEST_INT64)
    template = faults.mapping(spec, "jobTemplate", "spec.jobTemplate", required=True)
    inner = faults.mapping(template or {}, "spec", "spec.jobTemplate.spec", required=template is not None)
    if inner is not None:
        _check_job_spec(faults, inner, "spec.jobTemplate.spec")


def _advise_cron_job(faults: Faults, obj: Object) -> None:
    from kailab.model.cron import NeverComing, schedule_of, split_zone

    if isinstance(schedule_of(split_zone(obj["spec"]["schedule"])[1]), NeverComing):
        faults.add("spec.schedule", "names a day that never comes, so it starts no Job")


def _check_job_spec(faults: Faults, spec: Object, path: str = "spec") -> None:
    """Source: Kubernetes ValidateJobSpec."""
    for key in (
        "parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
    ):  # fmt: skip
        faults.integer(spec, key, f"{path}.{key}")
    faults.integer(spec, "activeDeadlineSeconds", f"{path}.activeDeadlineSeconds", most=LARGEST_INT64)
    _check_many_indexes(faults, spec, path)
    manager = faults.text(spec, "managedBy", f"{path}.managedBy")
    if manager is not None and not ("/" in manager and is_label_key(manager) and len(manager) <= 63):
        faults.wrong(
            f"{path}.managedBy", manager, "a name with a domain such as example.com/controller, 63 letters at most"
        )
    mode = faults.one_of(spec, "completionMode", f"{path}.completionMode", ("NonIndexed", "Indexed"))
    # With neither of them, both are 1.
    if mode == "Indexed" and spec.get("completions") is None and spec.get("parallelism") is not None:
        faults.add(f"{path}.completions", "is required for an Indexed job")
    for key in ("successPolicy", "backoffLimitPerIndex"):
        if spec.get(key) is not None and mode != "Indexed":
            faults.add(f"{path}.{key}", "needs completionMode Indexed")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        faults.add(f"{path}.maxFailedIndexes", "needs backoffLimitPerIndex beside it")
    faults.boolean(spec, "suspend", f"{path}.suspend")
    check_template(faults, spec, path, _RESTART, ())
    _check_failure_policy(faults, spec, path)
    _check_success_policy(faults, spec, path)


def _check_many_indexes(faults: Faults, spec: Object, path: str) -> None:
    """Source: Kubernetes validateJobSpec."""
    completions, most = spec.get("completions"), spec.get("maxFailedIndexes")
    if not isinstance(completions, int) or spec.get("backoffLimitPerIndex") is None:
        return
    if isinstance(most, int) and most > completions:
        faults.wrong(f"{path}.maxFailedIndexes", most, f"{completions} at most, the number of completions")
    if completions <= _MANY:
        return
    if not isinstance(most, int):
        faults.add(f"{path}.maxFailedIndexes", f"is required with more than {_MANY} completions")
    for key, limit in (("parallelism", 10_000), ("maxFailedIndexes", 10_000)):
        if isinstance(value := spec.get(key), int) and value > limit:
            faults.wrong(f"{path}.{key}", value, f"{limit} at most with more than {_MANY} completions")


_MANY = 100_000
_MOST_RULES = 20


def _check_success_policy(faults: Faults, spec: Object, path: str) -> None:
    """Source: Kubernetes validateSuccessPolicy."""
    policy = faults.mapping(spec, "successPolicy", f"{path}.successPolicy")
    if policy is None:
        return
    at = f"{path}.successPolicy.rules"
    rules = faults.items(policy, "rules", at) or []
    if not 0 < len(rules) <= _MOST_RULES:
        faults.add(at, f"expected 1 to {_MOST_RULES} rules")
    completions = spec.get("completions")
    for place, rule in faults.mappings(policy, "rules", at):
        indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
        if indexes is None and count is None:
            faults.add(place, "has neither succeededIndexes nor succeededCount; expected one of them, or both")
        among = completions
        if isinstance(indexes, str) and isinstance(completions, int):
            among = _number_of_indexes(indexes, completions)
            if among is None:
                text = f"indexes and ranges in ascending order, such as 0,2-4, below {completions}"
                faults.wrong(f"{place}.succeededIndexes", indexes, text)
        if isinstance(count, int) and isinstance(among, int) and count > among:
            faults.wrong(f"{place}.succeededCount", count, f"{among} at most, the number of its indexes")


def _number_of_indexes(text: str, completions: int) -> int | None:
    """How many indexes a text such as ``0,2-4`` names; None if it is not one."""
    number, before = 0, -1
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not re.fullmatch(r"\d{1,9}", first, re.ASCII) or (dash and not re.fullmatch(r"\d{1,9}", last, re.ASCII)):
            return None
        begin, end = int(first), int(last or first)
        if not before < begin < completions or (dash and not begin < end < completions):
            return None
        number, before = number + end - begin + 1, end
    return number


def _check_failure_policy(faults: Faults, spec: Object, path: str) -> None:
    policy = faults.mapping(spec, "podFailurePolicy", f"{path}.podFailurePolicy")
    if policy is None:
        return
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if isinstance(pod, dict) and pod.get("restartPolicy") != "Never":
        faults.add(f"{path}.podFailurePolicy", "needs the restartPolicy Never in the template")
    if spec.get("podReplacementPolicy") == "TerminatingOrFailed":
        faults.wrong(f"{path}.podReplacementPolicy", "TerminatingOrFailed", "Failed, because of podFailurePolicy")
    # Other shapes are reported elsewhere.
    containers = [
        each
        for key in ("containers", "initContainers")
        for each in Faults().mappings(pod if isinstance(pod, dict) else {}, key, key)
    ]
    names = [container.get("name") for _, container in containers]
    if len(faults.items(policy, "rules", f"{path}.podFailurePolicy.rules") or ()) > _MOST_RULES:
        faults.add(f"{path}.podFailurePolicy.rules", f"expected {_MOST_RULES} rules at most")
    for at, rule in faults.mappings(policy, "rules", f"{path}.podFailurePolicy.rules"):
        if bool(rule.get("onExitCodes")) == bool(rule.get("onPodConditions")):
            faults.add(at, "expected either onExitCodes or onPodConditions")
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            faults.add(f"{at}.action", "is FailIndex, which needs backoffLimitPerIndex")
        codes = faults.mapping(rule, "onExitCodes", f"{at}.onExitCodes") or {}
        values = faults.items(codes, "values", f"{at}.onExitCodes.values") or []
        if codes and not values:
            faults.add(f"{at}.onExitCodes.values", "must not be empty")
        if codes.get("operator") == "In" and 0 in values:
            faults.add(f"{at}.onExitCodes.values", "holds 0, with which no container fails")
        numbers = [value for value in values if isinstance(value, int)]
        if any(first >= second for first, second in pairwise(numbers)) or len(values) > 255:
            faults.add(f"{at}.onExitCodes.values", "expected 255 at most, each once, in ascending order")
        if (named := codes.get("containerName")) is not None and named not in names:
            faults.wrong(f"{at}.onExitCodes.containerName", named, "the name of a container of the template")
        for place, condition in faults.mappings(rule, "onPodConditions", f"{at}.onPodConditions"):
            if isinstance(kind := condition.get("type"), str) and not is_label_key(kind):
                faults.wrong(f"{place}.type", kind, "the type of a pod's condition")


def _check_job(faults: Faults, spec: Object) -> None:
    _check_job_spec(faults, spec)
    selector = faults.mapping(spec, "selector", "spec.selector")
    labels = (selector or {}).get("matchLabels")
    # A Job that a server has stored has the selector that the server made.
    if selector and not spec.get("manualSelector") and not (isinstance(labels, dict) and _CONTROLLER & labels.keys()):
        faults.add(
            "spec.selector", "needs manualSelector: true; leave it out, so that the Job selects its own pods alone"
        )
    elif selector is None and spec.get("manualSelector"):
        faults.add("spec.selector", "is required where manualSelector is true")


def _fixed(stored: Object, obj: Object) -> Object:
    """The completions of an Indexed Job may change with its parallelism. While a Job is suspended and has not started, its scheduling
    directives may change, as Kueue does it. Source: Kubernetes' ValidateJobUpdate (AllowElasticIndexedJobs,
    AllowMutableSchedulingDirectives)."""
    before, spec = stored["spec"], obj["spec"]
    if spec.get("completionMode") == "Indexed" and all(
        each.get("completions") is not None and each["completions"] == each.get("parallelism")
        for each in (before, spec)
    ):
        obj = {**obj, "spec": {**spec, "completions": before["completions"]}}
    if not stored["spec"].get("suspend") or status_of(stored).get("startTime"):
        return obj
    template = without_scheduling_directives(obj["spec"]["template"], *DIRECTIVES, "nodeAffinity")
    return {**obj, "spec": {**obj["spec"], "template": template}}


KINDS = (
    Kind(
        group="batch",
        kind="Job",
        versions=("v1",),
        plural="jobs",
        schema="V1Job",
        status_schema="V1JobStatus",
        defaults=_job_defaults,
        check=spec_check(_check_job),
        advice="kailab.model.validation.advice:advise_gang",
        immutable=(
            "spec.selector",
            "spec.template",
            "spec.completions",
            "spec.completionMode",
            "spec.podFailurePolicy",
            "spec.successPolicy",
            "spec.backoffLimitPerIndex",
            "spec.managedBy",
        ),
        fixed=_fixed,
        spec_alone=True,
        controller="kailab.workloads.jobs:JobController",
        wanted_pods="kailab.workloads.wanted_pods:job",
        unread=(Unread(("spec", "scheduling"), "kube-scheduler starts its pods as a group by this policy"),),
        replaces_failed_pods=True,
        suspended_by="suspend",
        checked_templates=True,
        grouping="kailab.grouping.families.plain_workloads:JOB",
        columns="kailab.cli.object_tables:JOB",
        in_all=True,
    ),
    Kind(
        group="batch",
        kind="CronJob",
        versions=("v1",),
        plural="cronjobs",
        short=("cj",),
        schema="V1CronJob",
        defaults=_cron_job_defaults,
        check=_check_cron_job,
        advice=_advise_cron_job,
        controller="kailab.workloads.jobs:CronJobController",
        wanted_pods="kailab.workloads.wanted_pods:cron_job",
        replaces_failed_pods=True,
        grouping="kailab.grouping.families.plain_workloads:CRON_JOB",
        columns="kailab.cli.object_tables:CRON_JOB",
        in_all=True,
    ),
)
