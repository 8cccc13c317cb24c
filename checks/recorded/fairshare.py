"""Runs recorded fair-share computations (fairshare.json) through the engine's division.

Computations are compared resource by resource. Checks of single rules are in ``queue_rules``, runs of KAI's time-based
simulator in ``time_fairness``. Kinds of cases that kailab does not know are reported as not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from checks.recorded import queue_rules, time_fairness
from checks.recorded.queue_rules import queue_of, scaled
from checks.recorded_files import read_json
from checks.report import Report, Result
from kailab.engine.queueing.fairshare import UNITS, Amounts, Claim, divide, divide_over_quota, tree_shares
from kailab.errors import InputError, Where

RESOURCES = ("gpu", "cpu", "memory")
TOLERANCE = 1e-3  # in milli-GPU, millicores or bytes: the possible error of KAI's floats


def claim(queue: Mapping[str, Any], resource: str) -> Claim:
    share = queue[resource]
    return Claim(
        name=queue["uid"],
        quota=scaled(resource, share["deserved"]),
        limit=scaled(resource, share["max_allowed"]),
        weight=share["over_quota_weight"],
        request=scaled(resource, share["request"]),
        usage=share.get("usage", 0.0),
        priority=queue["priority"],
        created=float(queue.get("creation_order", 0)),
        uid=queue["uid"],
        share=scaled(resource, share["fair_share"]),
    )


def _one_resource(case: Mapping[str, Any], over_quota_only: bool) -> list[str]:
    given, output = case["input"], case["output"]
    resource = given["resource"].lower()
    unit, total = int(getattr(UNITS, resource)), scaled(resource, given["total"])
    claims = [claim(queue, resource) for queue in given["queues"]]
    if over_quota_only:
        remaining = divide_over_quota(total, claims, unit=unit, k_value=given["k_value"])
    else:
        remaining, _ = divide(total, claims, unit=unit, k_value=given["k_value"])
    differences = []
    if abs(remaining - scaled(resource, output["remaining"])) > TOLERANCE:
        differences.append(f"{remaining} {resource} remain, KAI had {output['remaining']}")
    return differences + _compare_shares({c.uid: c.share for c in claims}, resource, output["fair_share"])


def _all_resources(case: Mapping[str, Any]) -> list[str]:
    given, output = case["input"], case["output"]
    differences = []
    for resource in RESOURCES:
        claims = [claim(queue, resource) for queue in given["queues"]]
        divide(
            scaled(resource, given["total"][resource]),
            claims,
            unit=int(getattr(UNITS, resource)),
            k_value=given.get("k_value", 0.0),
        )
        # KAI's own tables name some results by their position, starting at 1.
        names = {c.uid if c.uid in output["fair_share"] else str(i): c.share for i, c in enumerate(claims, 1)}
        differences += _compare_shares(names, resource, output["fair_share"])
    return differences


def _tree(case: Mapping[str, Any]) -> list[str]:
    given, output = case["input"], case["output"]
    queues = [queue_of(queue) for queue in given["queues"]]
    requests = {
        queue["uid"]: Amounts(**{resource: scaled(resource, queue[resource]["request"]) for resource in RESOURCES})
        for queue in given["queues"]
    }
    usage = {
        queue["uid"]: {resource: queue[resource].get("usage", 0.0) for resource in RESOURCES}
        for queue in given["queues"]
    }
    totals = Amounts(**{resource: scaled(resource, given["total"][resource]) for resource in RESOURCES})
    shares = tree_shares(queues, totals, requests, k_value=given.get("k_value", 0.0), usage=usage)
    differences = []
    for resource in RESOURCES:
        ours = {name: getattr(share, resource) for name, share in shares.items()}
        differences += _compare_shares(ours, resource, output["fair_share"])
    return differences


def _compare_shares(ours: Mapping[str, float], resource: str, recorded: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        f"queue {name}: fair share of {resource} {ours.get(name)}, KAI had {scaled(resource, wanted[resource])}"
        for name, wanted in recorded.items()
        if name not in ours or abs(ours[name] - scaled(resource, wanted[resource])) > TOLERANCE
    ]


KINDS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {
    "set_resource_share": lambda case: _one_resource(case, over_quota_only=False),
    "divide_over_quota": lambda case: _one_resource(case, over_quota_only=True),
    "set_resources_share": _all_resources,
    "set_fair_share_hierarchy": _tree,
    **queue_rules.KINDS,
}


PARTS = {
    "cases": ("id", "kind", "input", "output"),
    "generated": ("id", "input", "output"),
    "time_based_simulations": ("id", "config", "runs"),
}
"""Parts of a file, and the fields that each entry must have."""


def run_file(path: Path) -> tuple[Report, Counter[str]]:
    """Run every case of a known kind. Returns the report, and the number of cases of each unknown kind."""
    data = _read(path)
    report, unknown = Report("fair share"), Counter[str]()
    for case in data.get("cases", ()):
        run = KINDS.get(case["kind"])
        if run is None:
            unknown[case["kind"]] += 1
            continue
        report.results.append(_result(case["id"], case["kind"], partial(run, case)))
    for case in data.get("generated", ()):
        report.results.append(_result(case["id"], "generated", partial(_all_resources, case)))
    for simulation in data.get("time_based_simulations", ()):
        for number, run in enumerate(simulation["runs"], 1):
            name = f"{simulation['id']}/run-{number}"
            report.results.append(
                _result(name, "time_based_simulation", partial(time_fairness.differences, simulation, run))
            )
    return report, unknown


def _read(path: Path) -> Mapping[str, Any]:
    data = read_json(path)
    if not isinstance(data, dict) or not isinstance(data.get("cases"), list):
        raise InputError('expected an object with a list "cases"', Where(file=str(path)))
    for part, needed in PARTS.items():
        for entry in data.get(part, ()):
            if not isinstance(entry, dict) or any(key not in entry for key in needed):
                raise InputError(f"{part}: expected entries with {', '.join(needed)}", Where(file=str(path)))
    return data


def _result(id: str, suite: str, run: Callable[[], list[str]]) -> Result:
    """Run a case. A failure of the engine is a difference, never an exception."""
    try:
        differences = run()
    except Exception as error:
        differences = [f"the engine failed: {type(error).__name__}: {error}"]
    return Result(id=id, suite=suite, differences=tuple(differences))
