"""What kailab writes of a lab is its owner's alone, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import MANIFESTS, Kailab


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, home: Path) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Of all that is below a folder, and of the folder."""
    return {
        str(path.relative_to(folder.parent)): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))
    }


def are_private(folder: Path) -> bool:
    found = modes(folder)
    wanted = {name: 0o700 if (folder.parent / name).is_dir() else 0o600 for name in found}
    assert found == wanted
    return len(found) > 1


@pytest.mark.usefixtures("umask")
def test_a_lab_its_record_its_evidence_and_its_snapshot_are_private(kailab: Kailab, home: Path) -> None:
    assert kailab("up").code == 0
    assert kailab("apply", "-f", "-", input=MANIFESTS).code == 0
    assert are_private(home / ".kailab")
    assert kailab("evidence", "capture").code == 0
    assert are_private(home / "evidence")
    [run] = [path for path in (home / "evidence").iterdir() if path.is_dir()]
    for arguments in (
        ("snapshot", "take", "now.snapshot"),
        ("evidence", "export", str(run), "run.tar.gz"),
    ):
        done = kailab(*arguments)
        assert done.code == 0, done.err
    assert {modes(home / name)[name] for name in ("now.snapshot", "run.tar.gz")} == {0o600}


@pytest.mark.usefixtures("umask")
def test_course_work_is_private(kailab: Kailab, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_COURSE", str(home / "progress" / "course.json"))
    done = kailab("course", "lesson", "quota", "work")
    assert done.code == 0, done.err
    assert are_private(home / "work")
    assert are_private(home / "progress")


def test_files_that_an_earlier_version_left_open_become_private(started: Kailab, state: Path) -> None:
    for path in state.parent.rglob("*"):
        if path.is_file():
            path.chmod(0o644)
    assert started("apply", "-f", "-", input=MANIFESTS).code == 0
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
