"""What JobSet's webhook, and the rules of its definition that compare fields, refuse of a new JobSet.

Source: JobSet 0.12, pkg/webhooks/jobset_webhook.go (ValidateCreate), api/jobset/v1alpha2/jobset_types.go. The webhook also compares the
claims of ``volumeClaimPolicies`` with those in the cluster, which is not checked here.
"""

from __future__ import annotations

import re
from typing import Any

from kailab.model.kinds import kind_key
from kailab.model.objects import Object, name_of
from kailab.model.validation import shape_of
from kailab.model.validation.fields import (
    LARGEST_INT32,
    NAME_RULE,
    SERVICE_RULE,
    VALUE_RULE,
    Faults,
    is_dns_subdomain,
    is_label_value,
    is_service_label,
    shown,
)

_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_REPLICATED = "spec.replicatedJobs"


def coordinator_endpoint(obj: Object) -> str:
    """The address of the pod that a JobSet names as its coordinator."""
    spec, lead = obj["spec"], obj["spec"]["coordinator"]
    domain = (spec.get("network") or {}).get("subdomain") or name_of(obj)
    pod = f"{lead.get('replicatedJob')}-{lead.get('jobIndex') or 0}-{lead.get('podIndex') or 0}"
    return f"{name_of(obj)}-{pod}.{domain}"


def claim_name(obj: Object, template: Object) -> str:
    """The name of the claim that a JobSet makes from a template."""
    return f"{name_of(template)}-{name_of(obj)}"


def check_jobset(faults: Faults, obj: Object) -> None:
    """The webhook does not ask about older objects, so all faults are ratcheted."""
    asked = Faults()
    shape = shape_of(kind_key(obj))
    # What is not of the right shape is reported with the shape, and a JobSet without a spec is one.
    if isinstance(obj.get("spec"), dict) and (shape is None or shape(obj) is None):
        _check_order(asked, obj["spec"])
        jobs = {entry["name"]: entry for entry in obj["spec"].get("replicatedJobs") or ()}
        _check_names(asked, obj)
        _check_policies(asked, obj["spec"], jobs)
        if obj["spec"].get("coordinator"):
            _check_coordinator(asked, obj, jobs)
        _check_claims(asked, obj, jobs)
    for fault in asked.found:
        faults.ratchet(*fault)


def _check_order(faults: Faults, spec: dict[str, Any]) -> None:
    """``dependsOn``: only of jobs that stand before, and not together with a start in order."""
    before: list[Any] = []
    startup = spec.get("startupPolicy")
    in_order = isinstance(startup, dict) and startup.get("startupPolicyOrder") == "InOrder"
    for at, entry in faults.mappings(spec, "replicatedJobs", _REPLICATED):
        if entry.get("dependsOn") is not None:
            if in_order:
                faults.add(f"{at}.dependsOn", "can't be given together with startupPolicyOrder InOrder")
            elif not before:
                faults.add(f"{at}.dependsOn", "can't be given for the first job, as it depends on jobs before it")
        for place, need in faults.mappings(entry, "dependsOn", f"{at}.dependsOn"):
            name = need.get("name")
            # The webhook takes a job that depends on itself.
            if before and isinstance(name, str) and name not in (*before, entry.get("name")):
                faults.wrong(f"{place}.name", name, f"one of the jobs before it: {', '.join(map(str, before))}")
        before.append(entry.get("name"))


def _check_names(faults: Faults, obj: Object) -> None:
    """Names of Jobs, pods, groups and the subdomain, which all become those of Services or parts of them."""
    spec = obj["spec"]
    if (domain := (spec.get("network") or {}).get("subdomain")) and not is_service_label(domain):
        faults.wrong("spec.network.subdomain", domain, SERVICE_RULE)
    for at, entry in faults.mappings(spec, "replicatedJobs", _REPLICATED):
        replicas, job = entry.get("replicas", 1), entry["template"].get("spec") or {}
        if replicas * job.get("parallelism", 1) > LARGEST_INT32:
            faults.add(f"{at}.replicas", f"times the parallelism is more than {LARGEST_INT32}")
        if not is_service_label(group := entry.get("groupName", "default")):
            faults.wrong(f"{at}.groupName", group, SERVICE_RULE)
        if not name_of(obj):
            continue  # a generated name is not known yet
        made = [f"{name_of(obj)}-{entry['name']}-{replicas - 1}"]
        if job.get("completionMode", "Indexed") == "Indexed" and (completions := job.get("completions")) is not None:
            made.append(f"{made[0]}-{completions - 1}-abcde")
        for what, name in zip(("a Job", "a pod"), made, strict=False):
            if not is_service_label(name):
                faults.add(f"{at}.name", f"makes {shown(name)}, which can't name {what}; expected {SERVICE_RULE}")
                break


def _check_policies(faults: Faults, spec: Object, jobs: dict[str, Object]) -> None:
    _check_targets(faults, spec.get("successPolicy") or {}, "spec.successPolicy", jobs)
    path, names = "spec.failurePolicy.rules", set()
    for index, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        at, name = f"{path}[{index}]", rule.get("name") or f"failurePolicyRule{index}"
        if len(name) > 128 or not _RULE_NAME.fullmatch(name):
            expected = "letters, digits, '_', ',' and ':', beginning with a letter and ending with a letter, digit or '_', 128 at most"
            faults.wrong(f"{at}.name", name, expected)
        elif name in names:
            faults.add(f"{at}.name", f"{name!r:.80} is given twice")
        names.add(name)
        _check_targets(faults, rule, at, jobs)
        for number, reason in enumerate(rule.get("onJobFailureReasons") or ()):
            if reason not in _FAILURE_REASONS:
                faults.wrong(f"{at}.onJobFailureReasons[{number}]", reason, " or ".join(_FAILURE_REASONS))


def _check_targets(faults: Faults, policy: Object, path: str, jobs: dict[str, Object]) -> None:
    for index, name in enumerate(policy.get("targetReplicatedJobs") or ()):
        if name not in jobs:
            faults.wrong(f"{path}.targetReplicatedJobs[{index}]", name, _name_of_one(jobs))


def _name_of_one(jobs: dict[str, Object]) -> str:
    return f"the name of one of {_REPLICATED}: {', '.join(jobs) or 'there is none'}"


def _check_coordinator(faults: Faults, obj: Object, jobs: dict[str, Object]) -> None:
    path, lead = "spec.coordinator", obj["spec"]["coordinator"]
    if (entry := jobs.get(lead["replicatedJob"])) is None:
        faults.wrong(f"{path}.replicatedJob", lead["replicatedJob"], _name_of_one(jobs))
        return
    job = entry["template"].get("spec") or {}
    if job.get("completionMode", "Indexed") != "Indexed" or job.get("completions") is None:
        faults.add(
            f"{path}.replicatedJob", "is no Indexed Job with completions; expected one, as its pods have indexes"
        )
        return
    for field, most in (("jobIndex", entry.get("replicas", 1)), ("podIndex", job["completions"])):
        if (index := lead.get(field) or 0) >= most:
            faults.wrong(f"{path}.{field}", index, f"less than {most}")
    if name_of(obj) and not is_label_value(end := coordinator_endpoint(obj)):
        faults.add(path, f"has the address {shown(end)}, which can't be a label of the pods; expected {VALUE_RULE}")


def _check_claims(faults: Faults, obj: Object, jobs: dict[str, Object]) -> None:
    seen: set[str] = set()
    templates = ((entry["template"].get("spec") or {}).get("template") or {} for entry in jobs.values())
    pods = [template.get("spec") or {} for template in templates]
    for index, policy in enumerate(obj["spec"].get("volumeClaimPolicies") or ()):
        for number, template in enumerate(policy.get("templates") or ()):
            at = f"spec.volumeClaimPolicies[{index}].templates[{number}].metadata"
            name = name_of(template)
            if not is_dns_subdomain(name):
                faults.wrong(f"{at}.name", name, NAME_RULE)
            elif name in seen:
                faults.add(f"{at}.name", f"{name!r:.80} is given twice")
            elif len(claim := claim_name(obj, template)) > 63:
                faults.add(
                    f"{at}.name", f"makes the claim {shown(claim)}, which is too long; expected 63 letters at most"
                )
            seen.add(name)
            if (template.get("metadata") or {}).get("namespace"):
                faults.add(f"{at}.namespace", "can't be given: the claim is in the JobSet's namespace")
            for place, pod in enumerate(pods):
                if any(volume.get("name") == name for volume in pod.get("volumes") or ()):
                    volumes = f"{_REPLICATED}[{place}].template.spec.template.spec.volumes"
                    faults.add(
                        volumes, f"has a volume {name!r:.80}, which is the name of a claim of volumeClaimPolicies"
                    )
            if not any(mounts_volume(pod, name) for pod in pods):
                faults.add(
                    f"{at}.name", f"{name!r:.80} is mounted by no container; expected a volumeMount of this name"
                )


def mounts_volume(pod_spec: Object, name: str) -> bool:
    """True if a container of a pod spec mounts the volume of this name."""
    containers = (*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ()))
    return any(mount.get("name") == name for each in containers for mount in each.get("volumeMounts") or ())
