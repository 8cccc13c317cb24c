"""Carry out scenarios, each on a new lab, and compare the cluster after each step with what the step expects: pods by app, reasons for
waiting, and placement.

Jobs delay new pods after evictions (back-off). ``held_back`` counts pods that are missing for that reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ExpectationFailed, InputErrors, KailabError
from kailab.lab import Lab, expect
from kailab.lab.intake import Applied
from kailab.lab.venues import Venue
from kailab.model import labels
from kailab.model.multimap import multimap
from kailab.model.objects import (
    annotations_of,
    is_ended,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    owner_references,
    phase_of,
    pods_of_job,
    uid_of,
)
from kailab.model.times import duration_seconds
from kailab.scenarios.scenario import Scenario, Step
from kailab.scheduler.observers import Observer
from kailab.undertest.contract import NotExpressible, Unsupported
from kailab.workloads.jobs import back_off


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
        phase = "Terminating" if is_terminating(pod) else pod.get("status", {}).get("phase", "Pending")
        if pod.get("status", {}).get("phase") == "Failed":
            phase = "Failed"
        for reference in owner_references(pod):
            phases.setdefault(reference["uid"], Counter())[phase] += 1
    for job in cluster.list("Job"):
        spec, status, seen = job["spec"], job.get("status") or {}, phases.get(uid_of(job), Counter())
        app = labels_of(spec["template"]).get("app", "")
        # The Job's status may not count all of them yet.
        failures = status.get("failed", 0) + seen["Failed"]
        if not failures or any(c["status"] == "True" for c in status.get("conditions") or ()):
            continue
        wanted = pods_of_job(spec, status.get("succeeded", 0))
        before = by_app.get(app, HeldBack(0, 0.0))
        owed = max(0, wanted - seen["Pending"] - seen["Running"])
        by_app[app] = HeldBack(before.pods + owed, max(before.seconds, back_off(failures)))
    return by_app


def missed(cluster: Cluster, wanted: dict[str, dict[str, int]]) -> float:
    """The longest back-off in seconds among Jobs with fewer running pods than wanted (app -> phase -> number); 0 if
    there is none."""
    running = Counter(
        labels_of(pod).get("app") for pod in cluster.list("Pod") if pod.get("status", {}).get("phase") == "Running"
    )
    return max(
        (
            held.seconds
            for app, held in held_back(cluster).items()
            if held.pods and running[app] < wanted.get(app, {}).get("Running", 0)
        ),
        default=0.0,
    )


ORPHANED_SECONDS = 70.0
"""The pod garbage collector looks every 20 s, and deletes a pod once its node has been missing for 40 s (Kubernetes,
pkg/controller/podgc/gc_controller.go)."""


def orphaned(cluster: Cluster) -> float:
    """For how many seconds pods may stay on nodes that are gone; 0 if there are none."""
    nodes = {name_of(node) for node in cluster.list("Node")}
    stay = any(node_of(pod) and node_of(pod) not in nodes and not is_ended(pod) for pod in cluster.list("Pod"))
    return ORPHANED_SECONDS if stay else 0.0


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
    pods = multimap((app, pod) for pod in cluster.list("Pod") if (app := labels_of(pod).get("app")))
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
        codes[namespace_of(group), name_of(group)] = codes_of_group
    return codes


def _of_pods(pods: Iterable[Object], codes: Codes) -> list[tuple[str, str]]:
    """Reasons of the PodGroups of pending pods."""
    groups = {
        (namespace_of(pod), annotations_of(pod).get(labels.POD_GROUP, ""))
        for pod in pods
        if pod.get("status", {}).get("phase", "Pending") == "Pending" and not pod.get("spec", {}).get("nodeName")
    }
    return [reason for group in sorted(groups) for reason in codes.get(group, ())]


def _placement(
    cluster: Cluster, pods: Mapping[str, list[Object]], seen: Mapping[str, Mapping[str, int]], wanted_by: str
) -> Iterable[str]:
    racks = {name_of(node): labels_of(node).get(RACK, "") for node in cluster.list("Node")}
    for app, nodes in seen.items():
        ours = Counter(
            pod["spec"]["nodeName"]
            for pod in pods.get(app, ())
            if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
        )
        got, wanted = pods_by_rack(ours, racks), pods_by_rack(nodes, racks)
        if got != wanted:
            yield f"{app}: placed {got or 'nowhere'}, {wanted_by} {wanted or 'nothing placed'}"


def pods_by_rack(nodes: Mapping[str, int], racks: Mapping[str, str]) -> str:
    """Pods by rack, as counts of its nodes from the fullest: ``rack-1: 8+2, rack-2: 8``."""
    by_rack = multimap((racks.get(node, node), count) for node, count in nodes.items())
    return ", ".join(
        f"{rack}: {'+'.join(map(str, sorted(counts, reverse=True)))}" for rack, counts in sorted(by_rack.items())
    )


LATE_SECONDS = 12.0
"""Time for what a real cluster does late; added to a Job's back-off."""


@dataclass(frozen=True)
class ScenarioResult:
    """``differences``: sentences. ``stopped``: what ended the scenario early, if anything, and ``error``: the same as
    an exception; ``defect``: it is an unexpected error of kailab."""

    differences: tuple[str, ...] = ()
    stopped: str = ""
    defect: bool = False
    not_expressible: NotExpressible | None = None
    error: KailabError | None = None


def run_scenario(
    scenario: Scenario,
    scheduler: str = "kailab",
    backend: str = "embedded",
    venue: Venue | None = None,
    observers: Sequence[Observer] = (),
    *,
    wanted_by: str = "expected",
    **options: Any,
) -> ScenarioResult:
    """Run a scenario on a new lab.

    ``venue``, ``options``: see ``Lab.open``. ``wanted_by``: see ``differences``. Raises Unsupported if the scheduler
    lacks a setting of the lab.
    """
    sentences: list[str] = []
    known: set[str] = set()
    number = 0
    try:
        with Lab.open(scenario.fleet, backend, scheduler, observers=observers, venue=venue, **options) as lab:
            lab.base = scenario.base
            for number, step in enumerate(scenario.steps, 1):
                applied = do(lab, step)
                known |= set() if applied is None else _apps_of(lab, applied)
                lab.settle()
                step_differences = differences(lab, scenario, step, known, wanted_by)
                if step_differences and not lab.venue.exclusive:
                    step_differences = _later(lab, scenario, step, known, wanted_by, step_differences)
                sentences += [f"step {number}: {sentence}" for sentence in step_differences]
    except Unsupported:
        raise
    except KailabError as error:
        # A NotExpressible may be one of several faults of the manifests.
        errors = error.errors if isinstance(error, InputErrors) else [error]
        concept = next((each for each in errors if isinstance(each, NotExpressible)), None)
        return ScenarioResult(
            tuple(sentences), f"step {number}: stopped: {error}", not_expressible=concept, error=error
        )
    except Exception as error:
        return ScenarioResult(
            tuple(sentences), f"step {number}: kailab failed: {type(error).__name__}: {error}", defect=True
        )
    return ScenarioResult(tuple(sentences))


def do(lab: Lab, step: Step) -> Applied | None:
    """Do a step without settling; relative files are relative to the lab's ``base``.

    Returns the result of applying manifests, if the step has any. Raises InputError(s).
    """
    applied = None
    if "apply" in step:
        applied = lab.apply(*(Path(manifest) if isinstance(manifest, str) else manifest for manifest in step["apply"]))
    if "delete" in step:
        lab.delete(step["delete"]["kind"], step["delete"]["name"], step["delete"].get("namespace", "default"))
    if "scale" in step:
        scaled = step["scale"]
        lab.scale(scaled["kind"], scaled["name"], scaled["replicas"], scaled.get("namespace", "default"))
    if "patch" in step:
        patched = step["patch"]
        lab.patch(patched["kind"], patched["name"], patched["patch"], patched.get("namespace", "default"))
    if "end" in step:
        _complete(lab, step["end"])
    if "fail" in step:
        lab.fail_node(step["fail"])
    if "recover" in step:
        lab.recover_node(step["recover"])
    if "advance" in step:
        lab.advance(duration_seconds(step["advance"], days=True))
    return applied


def _complete(lab: Lab, app: str) -> None:
    """Let the running pods of an app end with success, as if their processes had exited with 0. If none runs, nothing changes, but the
    step is reported, so that every step has a phase of its own."""
    lab.observers.on_step("end", app)
    for pod in lab.cluster.list("Pod"):
        if labels_of(pod).get("app") == app and phase_of(pod) == "Running" and not is_terminating(pod):
            lab.patch("Pod", name_of(pod), {"status": {"phase": "Succeeded"}}, namespace_of(pod), "status")


def _apps_of(lab: Lab, applied: Applied) -> set[str]:
    apps = set()
    for change in applied.changes:
        stored = lab.cluster.get(change.kind, change.name, change.namespace or None)
        apps.add(labels_of(stored).get("app", ""))
    return apps - {""}


def _later(
    lab: Lab, scenario: Scenario, step: Step, known: set[str], wanted_by: str, remaining: list[str]
) -> list[str]:
    """The differences that remain after a while. A Job controller in back-off looks settled, and so does a cluster
    with pods on a node that is gone, so wait as long as these may last."""
    wanted = step["expect"].get("apps", {})
    for _ in lab.moments(LATE_SECONDS + missed(lab.cluster, wanted) + orphaned(lab.cluster)):
        remaining = differences(lab, scenario, step, known, wanted_by)
        if not remaining:
            lab.settle()
            return differences(lab, scenario, step, known, wanted_by)
    return remaining
