"""Compare a cluster after a step with what the step expects: pods by app, reasons for waiting, and placement.

Jobs delay new pods after evictions (back-off). ``held_back`` counts pods that are missing for that reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ExpectationFailed, KailabError
from kailab.lab import expect
from kailab.model import labels
from kailab.scenarios.scenario import Scenario, Step
from kailab.workloads.jobs import back_off

if TYPE_CHECKING:
    from kailab.lab import Lab


class HeldBack(NamedTuple):
    """``pods``: missing pods that Jobs will create after a back-off; ``seconds``: the longest back-off."""

    pods: int
    seconds: float


def held_back(cluster: Cluster) -> dict[str, HeldBack]:
    """Pods held back, by app.

    A Job waits 10 s after one evicted pod and minutes after several. In a recorded cluster it did not wait if pods
    vanished before they were counted as failed.
    """
    by_app: dict[str, HeldBack] = {}
    phases: dict[str, Counter[str]] = {}
    for pod in cluster.list("Pod"):
        phase = (
            "Terminating" if "deletionTimestamp" in pod["metadata"] else pod.get("status", {}).get("phase", "Pending")
        )
        if pod.get("status", {}).get("phase") == "Failed":
            phase = "Failed"
        for reference in pod["metadata"].get("ownerReferences") or ():
            phases.setdefault(reference["uid"], Counter())[phase] += 1
    for job in cluster.list("Job"):
        spec, status, seen = job["spec"], job.get("status") or {}, phases.get(job["metadata"]["uid"], Counter())
        app = spec["template"]["metadata"].get("labels", {}).get("app", "")
        # The Job's status may not count all of them yet.
        failures = status.get("failed", 0) + seen["Failed"]
        if not failures or any(c["status"] == "True" for c in status.get("conditions") or ()):
            continue
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        before = by_app.get(app, HeldBack(0, 0.0))
        owed = max(0, wanted - seen["Pending"] - seen["Running"])
        by_app[app] = HeldBack(before.pods + owed, max(before.seconds, back_off(failures)))
    return by_app


def missed(cluster: Cluster, wanted: dict[str, dict[str, int]]) -> float:
    """The longest back-off in seconds among Jobs with fewer running pods than wanted (app -> phase -> number); 0 if
    there is none."""
    running = Counter(
        pod["metadata"].get("labels", {}).get("app")
        for pod in cluster.list("Pod")
        if pod.get("status", {}).get("phase") == "Running"
    )
    return max(
        (
            held.seconds
            for app, held in held_back(cluster).items()
            if held.pods and running[app] < wanted.get(app, {}).get("Running", 0)
        ),
        default=0.0,
    )


RACK = "lab/rack"
NO_CODE = "Unschedulable"
Codes = Mapping[tuple[str, str], list[tuple[str, str]]]


def differences(lab: Lab, scenario: Scenario, step: Step, known: set[str], wanted_by: str) -> list[str]:
    """Differences as sentences; an empty list if everything is as expected.

    ``known``: apps applied so far; one that the step does not name must have nothing running. ``wanted_by``: introduces
    the expected value: ``KAI had`` or ``expected``.
    """
    if "expect" not in step:
        return []
    cluster = lab.cluster
    pods: dict[str, list[Object]] = {}
    for pod in cluster.list("Pod"):
        app = pod["metadata"].get("labels", {}).get("app")
        if app:
            pods.setdefault(app, []).append(pod)
    codes, held = _codes(cluster), held_back(cluster)
    wanted = step["expect"].get("apps", {})
    sentences = []
    for app in sorted({*known, *wanted}) if "apps" in step["expect"] else ():
        seen = Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods.get(app, ()))
        reasons = "; ".join(sorted({text for _, text in _of_pods(pods.get(app, ()), codes)}))
        for phase, count in {"Running": 0, **wanted.get(app, {})}.items():
            if phase == "Pending" and seen[phase] < count:
                seen[phase] += min(held[app].pods if app in held else 0, count - seen[phase])
                # This scheduler's waiting workloads have no pods, so fewer pending pods are expected.
                if lab.under_test.waits_without_pods:
                    continue
            if seen[phase] != count:
                suffix = f" ({reasons})" if reasons and phase == "Running" and seen[phase] < count else ""
                sentences.append(f"{app}: {seen[phase]} {phase}, {wanted_by} {count}{suffix}")
    for app, allowed in step["expect"].get("pending_reasons", {}).items():
        ours = {code for code, _ in _of_pods(pods.get(app, ()), codes)}
        if ours - set(allowed):
            given = "KAI gave" if wanted_by == "KAI had" else wanted_by
            sentences.append(f"{app}: pending for {', '.join(sorted(ours))}, {given} {' or '.join(allowed)}")
    sentences += _queues(lab, step, wanted_by)
    if scenario.placement:
        sentences += _placement(cluster, pods, step.get("seen_nodes") or {}, wanted_by)
    return sentences


def _queues(lab: Lab, step: Step, wanted_by: str) -> Iterable[str]:
    for queue, amounts in step["expect"].get("queues", {}).items():
        try:
            expect(lab.queue(queue)).running(gpus=amounts["gpus"])
        except ExpectationFailed as error:
            seen = next((line for line in str(error).splitlines() if line.startswith("seen")), str(error))
            yield f"queue {queue}: {seen.removeprefix('seen').strip()}, {wanted_by} {amounts['gpus']:g} GPUs running"
        except KailabError as error:
            yield f"queue {queue}: {error}"


def _codes(cluster: Cluster) -> Codes:
    """Map each PodGroup (namespace, name) to (code, message) of the reasons in its scheduling conditions."""
    codes: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for group in cluster.list("PodGroup"):
        codes_of_group: list[tuple[str, str]] = []
        for condition in group.get("status", {}).get("schedulingConditions") or ():
            reasons = condition.get("reasons") or [{"reason": NO_CODE, "message": condition.get("message", "")}]
            codes_of_group += [(r.get("reason") or NO_CODE, r.get("message", "")) for r in reasons]
        codes[group["metadata"].get("namespace", ""), group["metadata"]["name"]] = codes_of_group
    return codes


def _of_pods(pods: Iterable[Object], codes: Codes) -> list[tuple[str, str]]:
    """Reasons of the PodGroups of pending pods."""
    groups = {
        (pod["metadata"].get("namespace", ""), pod["metadata"].get("annotations", {}).get(labels.POD_GROUP, ""))
        for pod in pods
        if pod.get("status", {}).get("phase", "Pending") == "Pending" and not pod.get("spec", {}).get("nodeName")
    }
    return [reason for group in sorted(groups) for reason in codes.get(group, ())]


def _placement(
    cluster: Cluster, pods: Mapping[str, list[Object]], seen: Mapping[str, Mapping[str, int]], wanted_by: str
) -> Iterable[str]:
    racks = {
        node["metadata"]["name"]: node["metadata"].get("labels", {}).get(RACK, "") for node in cluster.list("Node")
    }
    for app, nodes in seen.items():
        ours = Counter(
            pod["spec"]["nodeName"]
            for pod in pods.get(app, ())
            if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
        )
        got, wanted = spread(ours, racks), spread(nodes, racks)
        if got != wanted:
            yield f"{app}: placed {got or 'nowhere'}, {wanted_by} {wanted or 'nothing placed'}"


def spread(nodes: Mapping[str, int], racks: Mapping[str, str]) -> str:
    """Pods by rack, as counts of its nodes from the fullest: ``rack-1: 8+2, rack-2: 8``."""
    by_rack: dict[str, list[int]] = {}
    for node, count in nodes.items():
        by_rack.setdefault(racks.get(node, node), []).append(count)
    return ", ".join(
        f"{rack}: {'+'.join(map(str, sorted(counts, reverse=True)))}" for rack, counts in sorted(by_rack.items())
    )
