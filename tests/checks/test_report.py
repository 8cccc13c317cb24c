from __future__ import annotations

import json

from checks.report import Report, Result


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
    assert drawn().by_area() == {"large": (3, 2, 1), "small": (1, 1, 1)}


def test_the_table_of_areas_comes_last_before_the_totals():
    assert drawn().text().splitlines()[-6:] == [
        "AREA       CASES  STATUS   NODES",
        "large          3   66.7%   33.3%",
        "small          1  100.0%  100.0%",
        "all areas      4   75.0%   50.0%",
        "",
        "2 passed, 3 failed",
    ]
    assert "AREA" not in example().text()


def test_json_has_the_areas():
    assert json.loads(drawn().as_json())["areas"]["large"] == {"cases": 3, "status": 2, "nodes": 1}
    assert json.loads(example().as_json())["areas"] == {}
