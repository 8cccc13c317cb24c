from __future__ import annotations

from kailab.conformance.fairshare import main, run_file


def test_every_recorded_division_agrees(conformance_folder):
    report, _ = run_file(conformance_folder / "fairshare.json")
    assert report.passed > 0
    assert [result for result in report.results if not result.passed] == []


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
