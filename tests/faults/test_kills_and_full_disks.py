"""Whatever is killed, or finds the disk full, at whatever moment: what was there is whole, as before or as after, and nothing runs on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import chdir
from http.client import HTTPException
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.cluster.controlplane.supervision import processes_of
from kailab.model.private_files import PARTIAL
from tests.cli.conftest import MANIFESTS
from tests.faults.dying import FEWER, Doomed, Ended, Moment, kailab, nearly_full, spread
from tests.replay.test_resume_file import COMMAND, HEADER, busy
from tests.serve.conftest import TEXTS, Served

pytestmark = pytest.mark.slow

FLEET = """\
apiVersion: kailab.dev/v1
kind: Fleet
name: two
pools: [{name: a, count: 2, gpus: 8, gpuModel: A100, cpu: 64, memory: 500Gi}]
"""
RUN = kailab("run", "--for", "10m")
CAPTURE = kailab("evidence", "capture")


def told(folder: Path, *arguments: str) -> tuple[int, str]:
    """A command of this process, its exit code and all that it said."""
    with chdir(folder):
        result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def well(folder: Path, *arguments: str) -> str:
    code, said = told(folder, *arguments)
    assert code == 0, said
    return said


def is_whole(folder: Path, before: float = 0.0) -> None:
    """A lab's file and the record of what was done to it: both are read, agree, and can be gone on with."""
    found = json.loads(well(folder, "status", "-o", "json"))
    assert found["age_seconds"] >= before
    well(folder, "run", "--for", "1m")
    run = well(folder, "evidence", "capture").split()[-1]
    well(folder, "evidence", "verify", run)
    well(folder, "evidence", "replay", run)
    assert list((folder / ".kailab").rglob(f"{PARTIAL}*")) == []


def ends_in_order(done: Ended) -> None:
    """As a command does that finds the disk full: done all the same, or refused, with what it is that went wrong."""
    assert done.code in (0, 2), done.err
    assert "Traceback" not in done.err
    assert "internal error" not in done.err.lower()
    if done.code == 2:
        assert "No space left" in done.err or "can't be" in done.err, done.err


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A folder with a lab that is up and busy; tests work on copies of it."""
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "fleet.yaml").write_text(FLEET)
    (folder / "work.yaml").write_text(MANIFESTS)
    well(folder, "up", "--fleet", "fleet.yaml")
    well(folder, "apply", "-f", "work.yaml")
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Callable[[Path], Doomed]]:
    """``copies(folder)``: that folder anew, at the same place each time, with no process of an earlier one."""
    made: list[Doomed] = []

    def copy(folder: Path) -> Doomed:
        place = tmp_path / "copy"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place, symlinks=True)
        made.append(Doomed(place))
        return made[-1]

    yield copy
    for one in made:
        one.end_all()


@pytest.mark.parametrize("command", [RUN, CAPTURE], ids=["run", "evidence capture"])
def test_a_command_killed_leaves_a_whole_lab(
    lab: Path, copies: Callable[[Path], Doomed], command: list[str], tmp_path: Path
) -> None:
    for moment in copies(lab).moments(command, tmp_path / "count"):
        doomed = copies(lab)
        doomed.run(command, "kill", moment)
        doomed.nothing_runs()
        print(moment)
        is_whole(doomed.folder)
        runs_are_whole_or_unfinished(doomed.folder)


def runs_are_whole_or_unfinished(folder: Path) -> None:
    for run in sorted((folder / "evidence").glob("[0-9]*")):
        code, said = told(folder, "evidence", "verify", str(run))
        lines = [line for line in said.splitlines() if line.split(":")[0] in ("changed", "damaged", "extra", "missing")]
        assert code == 0 or lines == ["missing: run.json (the run did not finish)"], said


@pytest.mark.parametrize("command", [RUN, CAPTURE], ids=["run", "evidence capture"])
def test_a_full_disk_leaves_the_lab_as_it_was(
    lab: Path, copies: Callable[[Path], Doomed], command: list[str], tmp_path: Path
) -> None:
    for moment in copies(lab).moments(command, tmp_path / "count", changes_only=True):
        doomed = copies(lab)
        print(moment)
        ends_in_order(doomed.run(command, "full", moment))
        is_whole(doomed.folder)
        runs_are_whole_or_unfinished(doomed.folder)


@pytest.mark.parametrize("command", [RUN, CAPTURE], ids=["run", "evidence capture"])
@pytest.mark.parametrize("free", [0, 4_096, 16_384, 65_536, 150_000])
def test_a_disk_with_little_left_leaves_the_lab_as_it_was(
    lab: Path, copies: Callable[[Path], Doomed], command: list[str], free: int
) -> None:
    doomed = copies(lab)
    with nearly_full(doomed.folder, free) as small:
        if not small:
            pytest.skip("this user may mount no disk")
        ends_in_order(doomed.run(command))
        well(doomed.folder, "status")
        runs_are_whole_or_unfinished(doomed.folder)
        shutil.copytree(doomed.folder, after := doomed.folder.with_name("after"), symlinks=True)
    is_whole(after)


WISHES = (
    {"do": "add-nodes", "nodes": "a:1"},
    {"do": "submit", "text": next(iter(TEXTS.values()))},
    {"do": "drain", "node": "a-0"},
)


@pytest.mark.parametrize("fault", ["kill", "full"])
def test_a_served_lab_stays_whole(
    lab: Path, copies: Callable[[Path], Doomed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def acted(doomed: Doomed, planted: str = "", at: float = 0, count: Path | None = None) -> tuple[int, str]:
        """How many actions were answered with success, and what the server said in the end."""
        with monkeypatch.context() as within:
            for name, value in doomed.environment(planted, at, count).items():
                within.setenv(name, value)
            within.chdir(doomed.folder)
            served = Served(doomed.folder / ".kailab" / "lab.state")
        done = 0
        try:
            for wish in WISHES:
                served.done(wish)
                done += 1
        except (HTTPException, OSError, AssertionError):
            assert planted, "undisturbed, all actions are answered"
        finally:
            served.process.kill()
        return done, served.process.communicate()[1]

    done, _ = acted(copies(lab), count=tmp_path / "count")
    assert done == len(WISHES)
    for moment in spread(0.0, int((tmp_path / "count").read_text())):
        doomed, said = copies(lab), ""
        print(moment)
        try:
            _, said = acted(doomed, fault, moment.at)
        except AssertionError as error:
            assert "no URL" in str(error)  # noqa: PT017  (it did not come so far as to serve)
        assert "Traceback" not in said
        doomed.nothing_runs()
        is_whole(doomed.folder)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "replayed"
    folder.mkdir()
    (folder / "trace.csv").write_text("\n".join([HEADER, *busy(60)]) + "\n")
    return folder


REPLAY = ["replay", "trace.csv", "--fleet", "lesson", "--quota-by-share", "--checkpoint", "1m", "-o", "json"]
RESUMED = [*REPLAY, "--jobs", "jobs.csv", "--resume", "kept"]


def replayed() -> list[str]:
    return [kailab()[0], "-c", COMMAND, *RESUMED]


@pytest.mark.parametrize("fault", ["kill", "full"])
def test_a_replay_is_gone_on_from(trace: Path, copies: Callable[[Path], Doomed], tmp_path: Path, fault: str) -> None:
    whole = copies(trace)
    moments = whole.moments(replayed(), tmp_path / "count", changes_only=fault == "full")
    expected = (whole.folder / "jobs.csv").read_bytes()
    for moment in moments:
        doomed = copies(trace)
        print(moment)
        done = doomed.run(replayed(), fault, moment)
        doomed.nothing_runs()
        if fault == "full":
            ends_in_order(done)
        assert doomed.run(replayed()).code == 0
        assert (doomed.folder / "jobs.csv").read_bytes() == expected
        assert sorted(path.name for path in doomed.folder.iterdir()) == ["jobs.csv", "kept.lock", "trace.csv"]


STUDY = """\
trace: trace.csv
fleet: lesson
queues: by-share
grid: {limits: [{team-0: 8}, {team-0: 16}]}
seeds: 2
"""
SWEEP = kailab("sweep", "study.yaml", "--workers", "2", "--table", "table.csv")


@pytest.mark.parametrize("fault", ["kill", "full"])
def test_a_sweep_is_gone_on_from(trace: Path, copies: Callable[[Path], Doomed], tmp_path: Path, fault: str) -> None:
    (trace / "trace.csv").write_text("\n".join([HEADER, *busy(12)]) + "\n")
    (trace / "study.yaml").write_text(STUDY)
    whole = copies(trace)
    moments = whole.moments(SWEEP, tmp_path / "count", changes_only=fault == "full", number=FEWER)
    expected = (whole.folder / "table.csv").read_bytes()
    for moment in moments:
        doomed = copies(trace)
        print(moment)
        done = doomed.run(SWEEP, fault, moment)
        doomed.nothing_runs()
        if fault == "full":
            ends_in_order(done)
        again = doomed.run(SWEEP)
        assert again.code == 0, again.err
        assert (doomed.folder / "table.csv").read_bytes() == expected
        assert list(doomed.folder.rglob(f"{PARTIAL}*")) == []


PLANE = kailab("up", "--fleet", "fleet.yaml", "--backend", "controlplane")


@pytest.mark.usefixtures("components")
def test_down_takes_away_what_is_there_of_a_control_plane_whose_start_was_killed(
    copies: Callable[[Path], Doomed], tmp_path: Path
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    (folder / "fleet.yaml").write_text(FLEET)
    whole = copies(folder)
    # Of these at least the last is a moment at which programs of the control plane run.
    moments = [*whole.moments(PLANE, tmp_path / "count", number=FEWER), Moment("processes", 2)]
    assert whole.left()
    well(whole.folder, "down")
    assert whole.left() == []
    found = False
    for moment in moments:
        doomed = copies(folder)
        print(moment)
        doomed.run(PLANE, "kill", moment)
        found |= bool(doomed.left())
        told(doomed.folder, "down")
        assert processes_of(doomed.folder / ".kailab" / "controlplane") == []
        doomed.nothing_runs()
        there = doomed.folder / ".kailab"
        assert {path.name for path in there.iterdir()} <= {"lab.state.lock"} if there.exists() else True
    assert found
