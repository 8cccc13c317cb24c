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
