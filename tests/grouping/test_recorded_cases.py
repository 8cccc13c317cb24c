"""KAI's own test cases of its podgrouper, if the recordings are available."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from checks.recorded.grouping import run_file, run_group_case, run_object_case
from kailab.errors import InputError


def test_every_recorded_case_agrees(shared):
    report = run_file(shared("conformance/podgrouper.json"))
    assert [result.id for result in report.results if result.counted and not result.passed] == []
    assert report.passed > 150
    assert {result.suite for result in report.uncounted} <= {"KartaGrouper"}


def test_a_case_that_expects_something_else_differs(shared):
    cases = json.loads(shared("conformance/podgrouper.json").read_text())["group_cases"]
    case = next(each for each in cases if each["grouper"] == "PyTorchGrouper" and "error" not in each["expected"])
    wrong = {**case, "expected": {**case["expected"], "min_member": 77, "queue": "nowhere"}}
    assert [difference.split(":")[0] for difference in run_group_case(wrong).differences] == ["queue", "min_member"]
    assert run_group_case({**case, "expected": {"error": "no"}}).differences


@pytest.mark.parametrize("fields", [{}, {"controller": True}, {"controller": True, "blockOwnerDeletion": False}])
def test_an_owner_of_a_recorded_podgroup_is_compared_field_by_field(shared, fields):
    cases = json.loads(shared("conformance/podgrouper.json").read_text())["podgroup_object_cases"]
    case = deepcopy(next(each for each in cases if each["kind"] == "create_pod_group"))
    case["input"]["owner"] |= fields
    (reference,) = case["output"]["metadata"]["ownerReferences"]
    reference |= fields
    assert run_object_case(case).passed
    reference["controller"] = not reference.get("controller", False)
    assert not run_object_case(case).passed


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"group_cases": []}'])
def test_a_file_of_something_else_is_told(tmp_path, content):
    path = tmp_path / "cases.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"cases\.json"):
        run_file(path)
    with pytest.raises(InputError, match=r"none\.json"):
        run_file(tmp_path / "none.json")
