"""What failed pods mean for their Job: the verdict of its podFailurePolicy on one, and the wait before others are made."""

from __future__ import annotations

from enum import Enum
from typing import Any

from kailab.cluster.protocol import Object

BACK_OFF_FIRST = 10.0
BACK_OFF_LAST = 600.0


def back_off(failures: int) -> float:
    """Seconds from the last of so many failures since the Job's last success until it makes pods anew. Source: the Job controller
    of Kubernetes 1.35."""
    return min(BACK_OFF_FIRST * 2.0 ** min(failures - 1, 16), BACK_OFF_LAST) if failures else 0.0


class Verdict(Enum):
    """What a failed pod counts as."""

    COUNT = "Count"
    IGNORE = "Ignore"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


def judge(job_spec: Object, pod: Object) -> tuple[Verdict, str]:
    """The action of the first rule that fits the pod, and a sentence for the Job's condition."""
    rules = (job_spec.get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if codes and (found := _exit_code(codes, pod)) is not None:
            message = f"Container for pod {name} failed with exit code {found} matching {rule['action']} rule at index {number}"
            return Verdict(rule["action"]), message
        if conditions and (kind := _condition(conditions, pod)):
            message = f"Pod {name} has condition {kind} matching {rule['action']} rule at index {number}"
            return Verdict(rule["action"]), message
    return Verdict.COUNT, ""


def _exit_code(wanted: dict[str, Any], pod: Object) -> int | None:
    for entry in pod["status"].get("containerStatuses") or ():
        ended = (entry.get("state") or {}).get("terminated")
        # Exit code 0 is no failure, not even for NotIn.
        if not ended or ended["exitCode"] == 0:
            continue
        if wanted.get("containerName") and wanted["containerName"] != entry["name"]:
            continue
        if (ended["exitCode"] in wanted.get("values", ())) == (wanted.get("operator") == "In"):
            return int(ended["exitCode"])
    return None


def _condition(patterns: list[dict[str, Any]], pod: Object) -> str:
    there = {entry["type"]: entry["status"] for entry in pod["status"].get("conditions") or ()}
    for pattern in patterns:
        if there.get(pattern["type"]) == pattern.get("status", "True"):
            return str(pattern["type"])
    return ""
