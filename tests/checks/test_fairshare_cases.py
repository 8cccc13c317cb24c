from __future__ import annotations

from checks.recorded.fairshare import run_file


def test_every_recorded_division_agrees(conformance_folder):
    report, unwired = run_file(conformance_folder / "fairshare.json")
    assert report.passed > 0
    assert not unwired
    assert [result for result in report.results if not result.passed] == []


def test_a_case_that_stops_the_engine_is_a_difference(tmp_path):
    file = tmp_path / "one.json"
    file.write_text('{"cases": [{"id": "x", "kind": "set_resource_share", "input": {}, "output": {}}]}')
    (result,) = run_file(file)[0].results
    assert (result.id, result.passed) == ("x", False)
    assert result.differences[0].startswith("the engine failed: KeyError")
