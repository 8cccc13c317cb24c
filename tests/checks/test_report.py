from __future__ import annotations

import json

import pytest

from checks.report import ImitatedOutcome, Report, Result
from kailab.engine.faults import COUNTED_TWICE, GPU_LOST, FaultsBehind


def example():
    return Report(
        "example",
        [
            Result("one", "alpha", tags=("gang",)),
            Result("two", "alpha", ("a-0 is Pending, expected Running", "second"), ("gang", "topology"), ("a note",)),
            Result("three", "beta", ("odd",), counted=False),
        ],
    )


def test_counts_leave_out_what_is_not_counted():
    report = example()
    assert (report.passed, report.failed) == (1, 1)
    assert report.by_suite() == {"alpha": (1, 1)}
    assert report.by_tag() == {"gang": (1, 1), "topology": (0, 1)}


def test_text_ends_with_the_totals():
    lines = example().text().splitlines()
    assert lines[0] == "DIFFERS two: a-0 is Pending, expected Running (and 1 more)"
    assert lines[1] == "differs (not counted) three: odd"
    assert lines[-1] == "1 passed, 1 failed"
    assert "second" in example().text(verbose=True)


def test_json_has_every_result():
    data = json.loads(example().as_json())
    assert [result["passed"] for result in data["results"]] == [True, False, False]
    assert data["results"][1]["differences"][1] == "second"


def drawn():
    """Random cases of two areas: all agree; a task is on another node; another status; and one whose nodes were not compared."""
    large, small = ("area-large", "did-evict"), ("area-small",)
    return Report(
        "drawn",
        [
            Result("one", "fresh", tags=large, same_status=True),
            Result("two", "fresh", ("a-0 is on n1, KAI had it on n0",), large, same_status=True),
            Result("three", "fresh", ("a: 1 running, KAI had 2",), large, same_status=False),
            Result("four", "fresh", tags=small, same_status=True),
            Result("five", "fresh", ("a: 1 running, KAI had 2",), small),
        ],
    )


def test_agreement_is_counted_by_area():
    assert drawn().by_area() == {"large": (3, 2, 1, None, None), "small": (1, 1, 1, None, None)}


def test_the_table_of_areas_comes_last_before_the_totals():
    assert drawn().text().splitlines()[-6:] == [
        "AREA   CASES  STATUS   NODES",
        "large      3   66.7%   33.3%",
        "small      1  100.0%  100.0%",
        "all        4   75.0%   50.0%",
        "",
        "2 passed, 3 failed",
    ]
    assert "AREA" not in example().text()


def test_json_has_the_areas():
    assert json.loads(drawn().as_json())["areas"]["large"] == {"cases": 3, "status": 2, "nodes": 1}
    assert json.loads(example().as_json())["areas"] == {}


def imitated(id, differences, behind, same=True, size=3):
    outcome = ImitatedOutcome(same, same, behind)
    return Result(id, "fresh", differences, ("area-large",), same_status=not differences, size=size, imitating=outcome)


@pytest.mark.parametrize(
    ("behind", "cause"),
    [
        (FaultsBehind((GPU_LOST,)), "fault 4"),
        (FaultsBehind((COUNTED_TWICE, GPU_LOST)), "fault 2 or 4"),
        (FaultsBehind((COUNTED_TWICE, GPU_LOST), together=True), "faults 2 and 4 together"),
        (FaultsBehind(()), "the order of equally full devices"),
        (None, "not explained by faults that can be imitated"),
    ],
)
def test_a_difference_is_told_by_the_faults_behind_it(behind, cause):
    assert imitated("one", ("differs",), behind).cause == cause
    assert imitated("one", (), None).cause == ""


def test_agreement_is_counted_by_size_both_ways():
    results = [
        imitated("one", (), None, size=4),
        imitated("two", ("differs",), FaultsBehind((GPU_LOST,)), size=5),
        imitated("three", ("differs",), None, same=False, size=40),
    ]
    lines = Report("drawn", results, by=("size",)).text().splitlines()
    assert lines[-11:-3] == [
        "SIZE               CASES  STATUS   NODES  IMITATING: STATUS   NODES",
        "1 to 4 nodes           1  100.0%  100.0%             100.0%  100.0%",
        "5 to 8 nodes           1    0.0%    0.0%             100.0%  100.0%",
        "33 nodes and more      1    0.0%    0.0%               0.0%    0.0%",
        "all                    3   33.3%   33.3%              66.7%   66.7%",
        "",
        "CASES  WHY THEY DIFFER",
        "    1  fault 4: two",
    ]
    assert next(iter(Report("drawn", results, by=("area", "size")).by_area())) == "large, 1 to 4 nodes"
