"""``kailab report --html``: of a run, of the lab in hand, of a snapshot; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"


@pytest.fixture
def lab(kailab, home: Path) -> Path:
    """Its file, with something in the lab."""
    kailab("up")
    assert kailab("apply", "-f", str(MANIFESTS / "queues.yaml"), "-f", str(MANIFESTS / "borrower.yaml")).code == 0
    return home / ".kailab" / "lab.state"


def test_a_lab_a_run_and_a_snapshot_become_pages(kailab, lab: Path, home: Path) -> None:
    done = kailab("report", "--state", str(lab), "--html", "lab.html")
    assert done.code == 0, done.err
    assert done.out.startswith(f"lab.html: the lab of {lab}, ")
    run = kailab("evidence", "capture").out.strip()
    done = kailab("report", run, "--html", "run.html")
    assert (done.code, done.out.split(",")[0]) == (0, f"run.html: run {Path(run).name}")
    other = kailab("evidence", "capture").out.strip()
    done = kailab("report", "--against", run, "--html", "both.html")
    assert done.out.startswith(f"both.html: run {Path(other).name} and run {Path(run).name}, ")
    done = kailab("report", run, "--against", run, "--html", "x.html")
    assert (done.code, "is the run itself" in done.err) == (2, True)
    assert kailab("snapshot", "take", "cluster.json").code == 0
    done = kailab("report", "cluster.json", "--html", "cluster.html")
    assert done.code == 0, done.err
    pages = sorted(home.glob("*.html"))
    assert [page.name for page in pages] == ["both.html", "cluster.html", "lab.html", "run.html"]
    assert all(page.read_text().startswith("<!doctype html>") for page in pages)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nothing", "--html", "x.html"), "there is no run 'nothing'"),
        (("--html", "none/x.html"), "does not exist"),
        (("--html", "."), "is a folder"),
        (("--state", "x"), "--state needs --html"),
        (("--against", "x"), "--against needs --html"),
        (("--html", "x.html", "--format", "text"), "can't be used together"),
        (("latest", "--html", "x.html", "--state", "x"), "can't be used with a run"),
        (("--html", "x.html", "--state", "x"), "no lab is here"),
        (("plain.txt", "--html", "x.html"), "can't be opened"),
        (("plain.txt", "--against", "x", "--html", "x.html"), "a snapshot is not a run"),
        (("plain.txt",), "is a file, not a run"),
        (("empty", "--html", "x.html"), "is not a run"),
    ],
)
def test_what_can_not_be_shown_is_refused(kailab, home: Path, arguments: tuple[str, ...], told: str) -> None:
    (home / "plain.txt").write_text("plain")
    (home / "empty").mkdir()
    done = kailab("report", *arguments)
    assert done.code == 2
    assert told in done.err
    assert "Traceback" not in done.err
    assert not (home / "x.html").exists()
