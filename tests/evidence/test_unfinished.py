"""Runs that were killed before they held anything: told for what they are, and removed with those of their age."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import EvidenceError
from kailab.evidence import store
from kailab.evidence.run import RunFolder


def finished(root: Path, run: str) -> Path:
    folder = RunFolder(root, run)
    folder.write(
        "quota", "test_one", lambda test: (test / "result.json").write_text('{"format": 3, "outcome": "passed"}')
    )
    folder.finish()
    return folder.path


@pytest.mark.parametrize("inside", ["", "lab", ".partial-x1"], ids=["nothing", "an exercise", "half a test"])
def test_a_run_killed_before_its_first_test(tmp_path: Path, inside: str) -> None:
    killed = tmp_path / "20260102T000000.000Z"
    (killed / inside).mkdir(parents=True)
    if inside.startswith("."):
        (killed / inside / "result.json").write_text("{}")
    assert [str(one) for one in store.verify_evidence(killed) if one.kind != "unfinished"] == [
        "missing: run.json (the run did not finish)"
    ]
    later = finished(tmp_path, "20260103T000000.000Z")
    assert [one.run for one in store.list_runs(tmp_path)] == [later.name]
    # One that is newer than all that is kept may be being written.
    newest = tmp_path / "20260104T000000.000Z"
    (newest / inside).mkdir(parents=True)
    assert [one.path for one in store.prune_runs(tmp_path, 1)] == [killed]
    assert sorted(path.name for path in tmp_path.iterdir()) == [later.name, newest.name]


def test_a_folder_without_files_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(EvidenceError, match="there is no evidence"):
        store.verify_evidence(tmp_path / "empty")


def test_a_run_that_can_not_be_written_leaves_no_folder(tmp_path: Path) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    run = RunFolder.begin(tmp_path)
    with pytest.raises(EvidenceError, match="No space left"):
        run.write("quota", "test_one", full)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_of_a_file_goes_when_it_is_written_again(tmp_path: Path) -> None:
    from kailab.evidence.run import write_file

    (tmp_path / ".partial-999999999-jobs.csv").write_text("half")
    (tmp_path / ".partial-999999999-other.csv").write_text("half")
    write_file(tmp_path / "jobs.csv", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".partial-999999999-other.csv", "jobs.csv"]
