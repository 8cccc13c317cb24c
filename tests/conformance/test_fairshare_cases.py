from __future__ import annotations

import pytest

from kailab.conformance.recorded.fairshare import main, run_file


def test_every_recorded_division_agrees(conformance_folder):
    report, unwired = run_file(conformance_folder / "fairshare.json")
    assert report.passed > 0
    assert not unwired
    assert [result for result in report.results if not result.passed] == []


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "{}", '{"cases": 1}', '{"cases": [1]}', '{"cases": [{"id": "a"}]}', "{"])
def test_a_file_of_another_form_is_refused(tmp_path, capsys, content):
    file = tmp_path / "odd.json"
    file.write_text(content)
    assert main([str(file)]) == 2
    assert "odd.json" in capsys.readouterr().err


def test_a_case_that_stops_the_engine_is_a_difference(tmp_path, capsys):
    file = tmp_path / "one.json"
    file.write_text('{"cases": [{"id": "x", "kind": "set_resource_share", "input": {}, "output": {}}]}')
    assert main([str(file)]) == 1
    assert "DIFFERS x: the engine failed: KeyError" in capsys.readouterr().out
