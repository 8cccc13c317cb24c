"""Runs recorded scenarios (manifests in steps, with the outcome a real KAI showed after each) on labs.

``python -m kailab.conformance.recorded.scenarios [DIR|FILE ...]``. Compared after each step: Running pods per app (always),
Pending pods per app (where given), the codes of pending PodGroups, and in scenarios about placement how many pods of
an app each rack and its nodes got, whatever the nodes' names.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cluster.protocol import Cluster, Object
from kailab.conformance.jsonfile import read_json
from kailab.conformance.recorded.choosing import matching
from kailab.conformance.report import Report, Result
from kailab.conformance.shared import shared_folder
from kailab.errors import InputError, KailabError, Where
from kailab.lab import Lab
from kailab.lab.venues import Venue
from kailab.model import labels
from kailab.workloads.podfailure import back_off

RACK = "lab/rack"
ABOUT_PLACEMENT = ("place-", "topology-", "consolidate-")
NO_CODE = "Unschedulable"
LATE_SECONDS = 12.0
"""For what a real cluster does late; as long again when a Job's back-off is over."""


class HeldBack(NamedTuple):
    """``pods``: that Jobs owe and hold back after failures; ``seconds``: how long the longest of their back-offs lasts."""

    pods: int
    seconds: float


def read_scenarios(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Scenarios of the given files and of all ``*.json`` in the given folders. ``suite`` is the file's name."""
    scenarios: list[dict[str, Any]] = []
    for path in paths:
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            entries = read_json(file)
            if not isinstance(entries, list) or not all(_is_scenario(entry) for entry in entries):
                raise InputError("expected a list of scenarios (name, fleet, steps)", Where(file=str(file)))
            scenarios += [{"suite": file.stem, **entry} for entry in entries]
    return scenarios


def _is_scenario(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("fleet"), str)
        and isinstance(entry.get("steps"), list)
        and all(isinstance(step, dict) for step in entry["steps"])
    )


def run_scenario(
    scenario: Mapping[str, Any], scheduler: str = "kailab", backend: str = "embedded", venue: Venue | None = None
) -> Result:
    """Run one scenario on a lab of its own. What stops it is its last difference. ``venue``: see Lab.open."""
    differences: list[str] = []
    known: set[str] = set()
    number = 0
    try:
        with Lab.open(fleet=scenario["fleet"], backend=backend, scheduler=scheduler, venue=venue) as lab:
            for number, step in enumerate(scenario["steps"], 1):
                for obj in step.get("apply", ()):
                    known |= _apps_of(obj)
                if "apply" in step:
                    lab.apply(step["apply"])
                if "delete" in step:
                    lab.delete(step["delete"]["kind"], step["delete"]["name"])
                lab.settle()
                found = _step(lab.cluster, scenario["name"], step, known)
                if found and not lab.venue.exclusive:
                    found = _later(lab, scenario["name"], step, known, found)
                differences += [f"step {number}: {one}" for one in found]
    except KailabError as error:
        differences.append(f"step {number}: stopped: {error}")
    except Exception as error:
        last = f"{type(error).__name__}: {error}"
        differences.append(f"step {number}: kailab failed: {last}")
    return Result(
        id=f"{scenario['suite']}/{scenario['name']}",
        suite=scenario["suite"],
        differences=tuple(differences),
        notes=("KAI was still changing after two minutes",) if scenario.get("unsettled") else (),
    )


def _later(lab: Lab, name: str, step: Mapping[str, Any], known: set[str], found: list[str]) -> list[str]:
    """What still differs after a while. A Job controller that holds back new pods looks like rest until it goes on: pods that
    KAI's run had again, where the recorded cluster lost them before they were counted as failed, are waited for as long as the
    back-off may last."""
    for _ in lab.moments(LATE_SECONDS + _missed(lab.cluster, step)):
        found = _step(lab.cluster, name, step, known)
        if not found:
            lab.settle()
            return _step(lab.cluster, name, step, known)
    return found


def _missed(cluster: Cluster, step: Mapping[str, Any]) -> float:
    """Seconds of the longest back-off among Jobs whose pods KAI had running. 0: there is none."""
    wanted = step["expect"]["apps"]
    running = Counter(
        pod["metadata"].get("labels", {}).get("app")
        for pod in cluster.list("Pod")
        if pod.get("status", {}).get("phase") == "Running"
    )
    missed = [
        held.seconds
        for app, held in _held_back(cluster).items()
        if held.pods and running[app] < wanted.get(app, {}).get("Running", 0)
    ]
    return max(missed, default=0.0)


def _apps_of(obj: Object) -> set[str]:
    app = obj.get("metadata", {}).get("labels", {}).get("app")
    return {app} if app else set()


def _step(cluster: Cluster, name: str, step: Mapping[str, Any], known: set[str]) -> list[str]:
    if "expect" not in step:
        return []
    pods: dict[str, list[Object]] = {}
    for pod in cluster.list("Pod"):
        app = pod["metadata"].get("labels", {}).get("app")
        if app:
            pods.setdefault(app, []).append(pod)
    codes = _codes(cluster)
    held_back = _held_back(cluster)
    wanted = step["expect"]["apps"]
    differences = []
    for app in sorted({*known, *wanted}):
        seen = Counter(pod.get("status", {}).get("phase", "Pending") for pod in pods.get(app, ()))
        why = "; ".join(sorted({text for _, text in _of_pods(pods.get(app, ()), codes)}))
        for phase, count in {"Running": 0, **wanted.get(app, {})}.items():
            if phase == "Pending" and seen[phase] < count:
                seen[phase] += min(held_back[app].pods if app in held_back else 0, count - seen[phase])
            if seen[phase] != count:
                told = f" ({why})" if why and phase == "Running" and seen[phase] < count else ""
                differences.append(f"{app}: {seen[phase]} {phase}, KAI had {count}{told}")
    for app, allowed in step["expect"].get("pending_reasons", {}).items():
        ours = {code for code, _ in _of_pods(pods.get(app, ()), codes)}
        if ours - set(allowed):
            differences.append(f"{app}: pending for {', '.join(sorted(ours))}, KAI gave {' or '.join(allowed)}")
    if name.startswith(ABOUT_PLACEMENT):
        differences += _placement(cluster, pods, step.get("seen_nodes") or {})
    return differences


def _held_back(cluster: Cluster) -> dict[str, HeldBack]:
    """By app. A Job whose pods were evicted waits 10 s after one of them, minutes after several at once; where the recorded
    cluster lost pods before they were counted as failed, it did not."""
    found: dict[str, HeldBack] = {}
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
        # Some may not have been counted yet.
        failures = status.get("failed", 0) + seen["Failed"]
        if not failures or any(c["status"] == "True" for c in status.get("conditions") or ()):
            continue
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - status.get("succeeded", 0))
        before = found.get(app, HeldBack(0, 0.0))
        owed = max(0, wanted - seen["Pending"] - seen["Running"])
        found[app] = HeldBack(before.pods + owed, max(before.seconds, back_off(failures)))
    return found


Codes = Mapping[tuple[str, str], list[tuple[str, str]]]


def _codes(cluster: Cluster) -> Codes:
    """PodGroup (namespace, name) -> (code, message) of each reason in its scheduling conditions."""
    codes: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for group in cluster.list("PodGroup"):
        found = []
        for condition in group.get("status", {}).get("schedulingConditions") or ():
            reasons = condition.get("reasons") or [{"reason": NO_CODE, "message": condition.get("message", "")}]
            found += [(r.get("reason") or NO_CODE, r.get("message", "")) for r in reasons]
        codes[group["metadata"].get("namespace", ""), group["metadata"]["name"]] = found
    return codes


def _of_pods(pods: Iterable[Object], codes: Codes) -> list[tuple[str, str]]:
    """Reasons of the PodGroups that pending pods belong to; a pod without a PodGroup has none to give."""
    groups = {
        (pod["metadata"].get("namespace", ""), pod["metadata"].get("annotations", {}).get(labels.POD_GROUP, ""))
        for pod in pods
        if pod.get("status", {}).get("phase", "Pending") == "Pending" and not pod.get("spec", {}).get("nodeName")
    }
    return [reason for group in sorted(groups) for reason in codes.get(group, ())]


def _placement(cluster: Cluster, pods: Mapping[str, list[Object]], seen: Mapping[str, Mapping[str, int]]) -> list[str]:
    racks = {
        node["metadata"]["name"]: node["metadata"].get("labels", {}).get(RACK, "") for node in cluster.list("Node")
    }
    differences = []
    for app, nodes in seen.items():
        ours = Counter(
            pod["spec"]["nodeName"]
            for pod in pods.get(app, ())
            if pod.get("status", {}).get("phase") == "Running" and pod["spec"].get("nodeName")
        )
        got, wanted = _spread(ours, racks), _spread(nodes, racks)
        if got != wanted:
            differences.append(f"{app}: placed {got or 'nowhere'}, KAI had {wanted or 'nothing placed'}")
    return differences


def _spread(nodes: Mapping[str, int], racks: Mapping[str, str]) -> str:
    """Pods per rack, as counts of its nodes from the fullest: ``rack-1: 8+2, rack-2: 8``."""
    by_rack: dict[str, list[int]] = {}
    for node, count in nodes.items():
        by_rack.setdefault(racks.get(node, node), []).append(count)
    return ", ".join(
        f"{rack}: {'+'.join(map(str, sorted(counts, reverse=True)))}" for rack, counts in sorted(by_rack.items())
    )


def run_scenarios(scenarios: Iterable[Mapping[str, Any]], scheduler: str = "kailab") -> Report:
    return Report("scenarios", [run_scenario(scenario, scheduler) for scenario in scenarios])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kailab.conformance.recorded.scenarios", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, metavar="DIR|FILE", help="default: the shared scenarios")
    parser.add_argument("-k", dest="expression", default="", help="only scenarios whose name matches")
    parser.add_argument("-v", "--verbose", action="store_true", help="every difference, not the first alone")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    try:
        matches = matching(options.expression)
        chosen = [s for s in read_scenarios(options.paths or [shared_folder() / "scenarios"]) if matches(s["name"])]
    except KailabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if not chosen:
        print("no scenario matches", file=sys.stderr)
        return 2
    report = run_scenarios(chosen)
    if options.output == "json":
        print(report.as_json())
    else:
        for result in report.results:
            if result.passed:
                print(f"agrees {result.id}")
        print(report.text(options.verbose))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
