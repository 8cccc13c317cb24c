"""The runner of recorded cases: KAI's own records show no difference, and deviations are found."""

from __future__ import annotations

from copy import deepcopy

import pytest

from checks.invariants import check
from checks.recorded.case_reading import build_case, read_cases
from checks.recorded.cases import check_loading, run_case
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.decisions import Bind, Decisions, Evict, Pipeline


def decisions_of(events, default_action, group_of=None):
    """KAI's recorded operations of one cycle as Decisions. A pipeline after an eviction of the same task is a move."""
    binds, pipelines, evictions, acting = [], [], [], {}
    for event in events or ():
        task, node, groups = event["task"], event.get("node", ""), tuple(event.get("gpu_groups") or ())
        action = event.get("during") or event.get("action") or acting.get(task, default_action)
        common = {"task": task, "podgroup": (group_of or {}).get(task, ""), "queue": "", "node": node}
        if event["op"] == "bind":
            binds.append(Bind(**common, gpu_groups=groups, action=action))
        elif event["op"] == "evict":
            acting[task] = action
            evictions.append(Evict(**common, action=action, beneficiary=event.get("preemptor") or ""))
        else:
            pipelines.append(Pipeline(**common, gpu_groups=groups, action=action, moved=task in acting))
    return Decisions(now=0.0, binds=tuple(binds), pipelines=tuple(pipelines), evictions=tuple(evictions))


def kai(case):
    """A decider that does what KAI did in this case, cycle by cycle."""
    cycles = [r["events"] for r in case.raw["kai_rounds"]] if case.integration else [case.raw["kai_events"]]
    turns = iter(cycles)
    return lambda working, config, now: decisions_of(next(turns), config.actions[0])


def nothing(working, config, now):
    return Decisions(now=now)


def test_opening_states_are_loaded_as_recorded(conformance_folder):
    report = check_loading(read_cases([conformance_folder / "cases", conformance_folder / "fuzz"]))
    assert report.passed > 0
    assert [result for result in report.results if not result.passed] == []


def test_what_kai_did_satisfies_every_expectation(conformance_folder):
    cases = [case for case in read_cases([conformance_folder / "cases"]) if "numa" not in case.tags]
    assert cases
    differing = {
        case.id: result.differences for case in cases if not (result := run_case(case, decide=kai(case))).passed
    }
    assert differing == {}


def test_what_kai_did_in_random_cases_agrees_at_the_strictest_level(conformance_folder):
    cases = list(read_cases([conformance_folder / "fuzz" / "part-00.json"]))
    assert cases
    differing = {
        case.id: result.differences
        for case in cases
        if not (result := run_case(case, "operations", decide=kai(case))).passed
    }
    assert differing == {}


def test_doing_nothing_is_seen_wherever_kai_did_something(conformance_folder):
    cases = list(read_cases([conformance_folder / "fuzz" / "part-00.json"]))
    for case in cases:
        # What the last of the "until" cycles began is undone by the translation, so only lasting changes show.
        net = case.raw["happened"]["net"]
        if any(net.get(key) for key in ("started", "lost", "moved")):
            assert not run_case(case, decide=nothing).passed, case.id


def small_case():
    node = {
        "name": "n0",
        "allocatable": {"cpu_millis": 8000, "memory_bytes": 10**10, "gpus": 2, "pods": 110},
        "gpus": 2,
        "gpu_memory_mib": 100,
        "gpu_memory_synced": True,
        "labels": {},
    }
    resources = {name: {"quota": -1, "limit": -1, "over_quota_weight": 1} for name in ("gpu", "cpu", "memory")}
    task = {
        "uid": "a-0",
        "state": "Pending",
        "sub_group": "default",
        "request_type": "Regular",
        "gpu": {"devices": 1, "portion": 1},
        "request": {"cpu_millis": 1000, "memory_bytes": 10**9, "gpus": 1, "pods": 1},
    }
    return {
        "id": "small",
        "suite": "allocate",
        "tags": [],
        "unsupported": [],
        "mode": "single_session",
        "actions": ["allocate"],
        "rounds_until_match": None,
        "rounds_after_match": None,
        "config": {"plugins": "default", "predicates_plugin_enabled": True},
        "nodes": [node],
        "queues": [
            {"name": "q", "parent": "", "priority": 100, "creation_order": 0, "resources": resources, "kai_initial": {}}
        ],
        "jobs": [
            {
                "name": "a",
                "namespace": "",
                "queue": "q",
                "priority": 50,
                "preemptible": True,
                "created_seconds_ago": 60,
                "root_sub_group_set": {"pod_sets": [{"name": "default", "min_available": 1}]},
                "tasks": [task],
            }
        ],
        "operation_limits": {"defined": True, "max_binds": 1},
        "expected": {
            "jobs": {"a": {"status": "Binding", "node": "n0"}},
            "tasks": {},
            "nodes": {"n0": {"idle_gpus": 1, "releasing_gpus": 0}},
        },
        "kai_actual": {"jobs": {}},
    }


BIND = Bind(task="a-0", podgroup="a", queue="q", node="n0")


def decide(*binds):
    return lambda working, config, now: Decisions(now=now, binds=binds)


def test_the_expected_bind_passes():
    assert run_case(build_case(small_case()), decide=decide(BIND)).passed


def test_each_difference_is_spelt_out():
    result = run_case(build_case(small_case()), decide=nothing)
    assert result.differences == (
        "a-0 is Pending, expected Binding on n0",
        "node n0: idle_gpus 2, expected 1",
    )


def test_an_operation_beyond_the_limit_is_a_difference():
    raw = small_case()
    raw["operation_limits"]["max_binds"] = 0
    assert run_case(build_case(raw), decide=decide(BIND)).differences == ("bind x1, at most 0 allowed",)


def test_a_decision_that_cannot_be_carried_out_is_a_difference():
    result = run_case(
        build_case(small_case()), decide=decide(BIND, Bind(task="b-0", podgroup="b", queue="q", node="n0"))
    )
    assert "binds b-0, which is not pending" in result.differences


def test_a_fault_of_the_engine_is_a_failed_case():
    def broken(working, config, now):
        raise ZeroDivisionError("division by zero")

    (difference,) = run_case(build_case(small_case()), decide=broken).differences
    assert difference.startswith("the engine failed: ZeroDivisionError: division by zero (test_cases.py:")


def test_cases_with_parts_that_cannot_be_expressed_are_not_counted():
    raw = small_case() | {"unsupported": ["asserts on an internal counter"]}
    result = run_case(build_case(raw), decide=nothing)
    assert not result.counted
    assert "asserts on an internal counter" in result.notes


@pytest.mark.parametrize(("left", "deleted", "counted"), [("g", True, True), ("h", True, False), ("h", False, True)])
def test_a_recording_in_which_a_deleted_pod_leaves_a_gpu_on_which_it_never_ran_is_not_counted(left, deleted, counted):
    raw = small_case()
    raw["jobs"][0]["delete_in_test"] = deleted
    raw["jobs"][0]["tasks"][0] |= {"state": "Running", "node": "n0", "gpu_groups": ["g"]}
    raw["kai_rounds"] = [{"tasks": {"a-0": {"status": "Releasing", "node": "n0", "gpu_groups": [left]}}}]
    assert build_case(raw).unsupported == (
        () if counted else ("the recording lets a-0 leave a place on which it never ran",)
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_a_recording_that_runs_claims_of_more_devices_than_a_node_has_is_not_counted(devices):
    raw = small_case()
    raw["kai_actual"] = {"jobs": {"a": {"tasks": {"a-0": {"status": "Running", "node": "n0"}}}}}
    raw["jobs"][0]["tasks"][0] |= {"resource_claim_names": ["one", "other"]}
    raw["dra"] = {
        "resource_slices": [{"node_name": "n0", "device_count": devices}],
        "resource_claims": [
            {"namespace": raw["jobs"][0]["namespace"], "name": n, "count": 1, "device_class_name": "gpu"}
            for n in ("one", "other")
        ],
    }
    assert build_case(raw).unsupported == (
        ("the recording runs pods with claims of more devices than n0 has",) if devices == 1 else ()
    )


def recorded_case(node, *others):
    """A case with what KAI's code did in place of expectations: it put a-0 on this node, in other runs on others."""
    raw = small_case() | {"compare": "kai_actual", "kai_rounds": [], "kai_stability": {}}
    raw["nodes"].append(raw["nodes"][0] | {"name": "n1"})
    raw["kai_summary"] = {"running_tasks_by_job": {}, "gpus_allocated_by_queue": {}}
    raw["kai_actual"], *raw["kai_other_outcomes"] = (
        {"jobs": {"a": {"tasks": {"a-0": {"status": "Binding", "node": name}}}}} for name in (node, *others)
    )
    return build_case(raw)


@pytest.mark.parametrize(
    ("node", "binds", "same_status", "passed"),
    [("n0", (BIND,), True, True), ("n1", (BIND,), True, False), ("n0", (), False, False)],
)
def test_a_recorded_case_tells_whether_the_status_agrees_whatever_the_node(node, binds, same_status, passed):
    result = run_case(recorded_case(node), decide=decide(*binds))
    assert (result.same_status, result.passed) == (same_status, passed)
    assert run_case(recorded_case(node), "status", decide(*binds)).same_status is None


def test_a_case_that_kai_decides_in_several_ways_agrees_with_each_of_them_and_with_nothing_else():
    assert run_case(recorded_case("n1", "n0"), decide=decide(BIND)).passed
    result = run_case(recorded_case("n1", "n2"), decide=decide(BIND))
    assert result.differences == ("a-0 is on n0, KAI had it on n1",)


def test_integration_runs_to_a_stable_state():
    raw = small_case() | {"mode": "integration", "rounds_until_match": 1, "rounds_after_match": 2}
    raw["expected"] = {"jobs": {"a": {"status": "Running", "node": "n0"}}, "tasks": {}, "nodes": {}}
    case = build_case(deepcopy(raw))
    turns = iter([(BIND,), (), ()])
    assert run_case(case, decide=lambda s, c, now: Decisions(now=now, binds=next(turns))).passed
    late = iter([(), (BIND,), ()])
    result = run_case(build_case(raw), decide=lambda s, c, now: Decisions(now=now, binds=next(late)))
    assert "a-0 is Pending, expected Running on n0" in result.differences
    assert "cycle 2: a-0 is Binding on n0, expected Running on n0" in result.differences


def test_the_state_after_the_last_cycle_is_compared_too():
    raw = small_case() | {"mode": "integration", "rounds_until_match": 1, "rounds_after_match": 0}
    raw["expected"] = {"jobs": {"a": {"status": "Running", "node": "n0"}}, "tasks": {}, "nodes": {}}
    assert run_case(build_case(deepcopy(raw)), decide=decide(BIND)).passed
    assert "a-0 is Pending, expected Running on n0" in run_case(build_case(raw), decide=decide()).differences


def claim_case(consumers, tasks=1, allocated=False):
    """Tasks of one gang that name one claim, which so many consumers that are no pods of the case have reserved; three cycles."""
    raw = small_case() | {"mode": "integration", "rounds_until_match": 1, "rounds_after_match": 2}
    raw["nodes"][0]["allocatable"]["gpus"] = 1
    raw["operation_limits"] = {"defined": True, "max_binds": tasks}
    job = raw["jobs"][0] | {"namespace": "test"}
    job["root_sub_group_set"] = {"pod_sets": [{"name": "default", "min_available": tasks}]}
    fields = {"gpu": {"devices": 1, "dra": {"gpu.example.com": 1}}, "resource_claim_names": ["shared"]}
    job["tasks"] = [{**job["tasks"][0], **fields, "uid": f"a-{number}"} for number in range(tasks)]
    raw["jobs"] = [job]
    status = {"reservedFor": [{"resource": "pods", "name": f"p{n}", "uid": f"p{n}"} for n in range(consumers)]}
    claim = {
        "name": "shared",
        "namespace": "test",
        "device_class_name": "gpu.example.com",
        "count": 1,
        "labels": {"kai.scheduler/queue": "q"},
        "status": status | ({"allocation": {}} if allocated else {}),
    }
    slices = {
        "name": "n0",
        "node_name": "n0",
        "driver": "gpu.example.com",
        "device_class_name": "gpu.example.com",
        "device_count": 1,
    }
    raw["dra"] = {"device_classes": ["gpu.example.com"], "resource_claims": [claim], "resource_slices": [slices]}
    return raw


@pytest.mark.parametrize(
    ("consumers", "tasks", "status"),
    [(256, 1, "Pending"), (255, 1, "Running"), (254, 3, "Pending"), (254, 2, "Running"), (0, 2, "Running")],
)
@pytest.mark.parametrize("allocated", [False, True])
def test_a_claim_keeps_consumers_that_are_no_tasks_of_the_case(consumers, tasks, status, allocated):
    raw = claim_case(consumers, tasks, allocated)
    raw["expected"] = {"jobs": {"a": {"status": status}}, "tasks": {}, "nodes": {}}
    assert run_case(build_case(raw)).differences == ()


def test_kai_itself_keeps_the_invariants(conformance_folder):
    # A check of the invariants: what is called a violation must not be KAI's ordinary behaviour.
    for case in read_cases([conformance_folder / "fuzz" / "part-00.json"]):
        group_of = {task.uid: task.podgroup for task in case.tasks}
        table = SimulatedCluster(case)
        for cycle in case.raw["kai_rounds"]:
            decisions = decisions_of(cycle["events"], "allocate", group_of)
            assert check(case, table.tasks, decisions) == [], case.id
            table.apply(decisions)
            table.settle_round()
