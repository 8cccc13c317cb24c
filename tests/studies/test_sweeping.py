"""Studies in local processes give the same table whatever order runs end in and whatever is lost meanwhile."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kailab.errors import ExtensionError, InputError, StateError
from kailab.replay.trace import read_trace
from kailab.studies import study_folder
from kailab.studies.comparison import find_best
from kailab.studies.confidence import TargetVerdict
from kailab.studies.measures import result_of
from kailab.studies.planning import resample_trace
from kailab.studies.study_file import read_study
from kailab.studies.subprocess_run import run_in_subprocess
from kailab.studies.sweep import sweep
from tests.studies.conftest import Write

GRID = "{limits: [{red: 8}, {red: 16}]}"


def test_a_lower_limit_makes_its_team_wait(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file(grid="{limits: [{red: 8}, {red: 32}]}"))
    low, high = (result_of(run) for run in study.runs())
    waited = [{row["queue"]: row["waited_mean"] for row in one.rows} for one in (low, high)]
    assert waited[0]["red"] > waited[1]["red"]
    assert low.rows[0]["ended"] == high.rows[0]["ended"] == 20


@pytest.mark.slow
def test_one_worker_or_three_write_the_same_table(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file(grid=GRID, seeds="2"))
    tables = [sweep(study, tmp_path / str(workers), workers=workers).table.read_bytes() for workers in (1, 3)]
    assert tables[0] == tables[1]
    assert tables[0].count(b"\n") == 1 + 4 * 3  # all, red, blue


KILLS_ITS_PROCESS = """\
import os
import signal
from pathlib import Path

from kailab.engine import JobOrder

MARK = Path(__file__).with_name("killed")


class Killed(JobOrder, frozen=True):
    def key(self, job):
        if not MARK.exists():
            MARK.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return job.wants.gpu
"""


@pytest.mark.slow
def test_a_process_that_is_killed_loses_nothing(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLS_ITS_PROCESS)
    study = read_study(study_file(grid="{policies: [['killed.py:Killed']]}", seeds="2"))
    disturbed = sweep(study, tmp_path / "disturbed", workers=2)
    assert (tmp_path / "killed").exists()
    assert not disturbed.failed
    assert disturbed.table.read_bytes() == sweep(study, tmp_path / "undisturbed", workers=2).table.read_bytes()


ENDS_ITS_PROCESS = """\
import os

from kailab.engine import JobOrder


class Leaves(JobOrder, frozen=True):
    def key(self, job):
        os._exit(7)
"""


@pytest.mark.slow
def test_a_policy_that_ends_its_process_loses_its_own_runs_only(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(ENDS_ITS_PROCESS)
    study = read_study(study_file(grid="{policies: [['leaves.py:Leaves'], [fifo]]}"))
    swept = sweep(study, tmp_path / "studies", workers=1)
    (failed,) = swept.failed
    assert failed.setting == {"policies": ["leaves.py:Leaves"]}
    assert re.search(
        "ended 3 times without a result, decided by .*leaves.py:Leaves: .* exit code 7", swept.results[failed.key].error
    )
    assert len(swept.results[swept.runs[1].key].rows) == 3


@pytest.mark.slow
def test_what_was_done_before_an_interruption_is_not_done_again(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file(grid=GRID, seeds="2"))

    def interrupt(what: str, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(study, tmp_path, workers=1, progress=interrupt)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / study.name / "runs").iterdir()}
    assert len(kept) == 2

    swept = sweep(study, tmp_path, workers=1)
    assert swept.before == 2
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / study.name / "runs").iterdir()}
    assert len(now) == 4
    assert {name: now[name] for name in kept} == kept


def test_a_setting_that_stands_for_no_replay_is_refused_before_anything_is_begun(
    study_file: Write, tmp_path: Path
) -> None:
    study = read_study(study_file(grid="{limits: [{red: 8}, {rde: 8}]}"))
    with pytest.raises(InputError, match=r"limits.*no queue 'rde'.*red"):
        sweep(study, tmp_path / "studies")
    assert not (tmp_path / "studies").exists()


def test_a_configuration_that_nobody_takes_is_refused_before_anything_is_begun(
    study_file: Write, tmp_path: Path
) -> None:
    (tmp_path / "odd.yaml").write_text("actions: nothing\n")
    with pytest.raises(InputError, match=r"odd\.yaml"):
        sweep(read_study(study_file(config="odd.yaml")), tmp_path / "studies")


def test_a_result_that_is_damaged_is_told(study_file: Write, tmp_path: Path) -> None:
    study = read_study(study_file())
    folder = study_folder.StudyFolder(tmp_path, study.name)
    with folder.locked():
        (run,) = study.runs()
        (folder.path / "runs" / f"{run.key}.json").write_text("{")
    with pytest.raises(StateError, match="is not a result of a run"):
        sweep(study, tmp_path)


def test_a_seed_draws_other_jobs_of_the_same_team(study_file: Write, tmp_path: Path) -> None:
    study_file()
    trace = read_trace(tmp_path / "trace.csv")
    one, again, other = resample_trace(trace, 1), resample_trace(trace, 1), resample_trace(trace, 2)
    assert one == again != other
    assert [job.arrival for job in one.jobs] == [job.arrival for job in trace.jobs]
    assert [job.team for job in one.jobs] == [job.team for job in trace.jobs]
    of_red = {(job.seconds, job.gpus) for job in trace.jobs if job.team == "red"}
    assert {(job.seconds, job.gpus) for job in other.jobs if job.team == "red"} <= of_red


@pytest.mark.slow
def test_of_the_settings_that_hold_the_one_with_the_least_is_best(study_file: Write, tmp_path: Path) -> None:
    study = read_study(
        study_file(
            grid="{limits: [{red: 32}, {red: 8}, {red: 28}]}",
            seeds="3",
            find="{measure: waited_mean, queue: red, below: 30m, least: limits}",
        )
    )
    found = find_best(sweep(study, tmp_path, workers=2))
    assert found is not None
    for judged in found.settings:
        (one,) = judged.estimates
        assert len(one.values) == 3
        assert one.mean is not None
        assert one.bound is not None
        assert one.mean <= one.bound
        assert (one.verdict is TargetVerdict.yes) == (one.bound < 1800)
    holding = [one.setting["limits"]["red"] for one in found.settings if one.verdict is TargetVerdict.yes]
    best = None if found.best is None else found.best.setting["limits"]["red"]
    assert best == (min(holding) if holding else None)
    assert holding, "a limit of all GPUs holds"


@pytest.mark.slow
def test_a_run_alone_is_that_of_a_study(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(ENDS_ITS_PROCESS)
    study = read_study(study_file(grid="{policies: [[], ['leaves.py:Leaves']]}"))
    fine, leaves = study.runs()
    assert run_in_subprocess(fine) == result_of(fine)
    assert "ended 3 times without a result" in run_in_subprocess(leaves).error


FEWEST = """\
from kailab.engine import JobOrder


class Fewest(JobOrder, frozen=True):
    sign: int = {sign}

    def key(self, job):
        return self.sign * job.wants.gpu
"""


def test_a_policy_of_a_file_is_tried_with_its_parameters(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "fewest.py").write_text(FEWEST.format(sign=1))
    grid = (
        "{policies: [[{policy: 'fewest.py:Fewest'}], [{policy: 'fewest.py:Fewest', parameters: {sign: -1}}, backfill]]}"
    )
    study = read_study(study_file(grid=grid, fleet="lesson", size="8"))
    told = [row["policies"] for row in csv.DictReader(sweep(study, tmp_path / "studies", workers=1).table.open())]
    assert {text.rpartition(":")[2] for text in told} == {"Fewest", "Fewest sign=-1 backfill"}
    odd = read_study(study_file(grid="{policies: [[{policy: 'fewest.py:Fewest', parameters: {sgn: 1}}]]}"))
    with pytest.raises(InputError, match=r"fewest.py:Fewest.*parameters.*sgn"):
        sweep(odd, tmp_path / "others")


def test_runs_are_done_anew_where_the_policy_of_a_configuration_is_another(study_file: Write, tmp_path: Path) -> None:
    (tmp_path / "fewest.py").write_text(FEWEST.format(sign=1))
    (tmp_path / "kai.yaml").write_text("kailab: {jobOrder: fewest.py:Fewest}\n")
    path = study_file(config="kai.yaml")
    # A process takes one version of a policy's file only.
    tell = "import pathlib, sys; from kailab.studies.study_file import read_study; print(read_study(pathlib.Path(sys.argv[1])).runs()[0].key)"
    keys = []
    for sign in (1, 1, -1):
        (tmp_path / "fewest.py").write_text(FEWEST.format(sign=sign))
        keys.append(subprocess.run([sys.executable, "-c", tell, str(path)], check=True, capture_output=True).stdout)
    assert keys[0] == keys[1] != keys[2]


def test_a_study_s_folder_can_be_moved(study_file: Write, tmp_path: Path) -> None:
    """Runs are known by the content of their files, and tables name files as the study does."""
    (tmp_path / "fewest.py").write_text(FEWEST.format(sign=1))
    (tmp_path / "kai.yaml").write_text("kailab: {jobOrder: fewest.py:Fewest}\n")
    path = study_file(grid="{config: [kai.yaml], policies: [[], ['fewest.py:Fewest']]}", **{"for": "10m"})
    here = sweep(read_study(path), tmp_path / "studies", workers=1)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("study.yaml", "trace.csv", "fewest.py", "kai.yaml"):
        shutil.copy(tmp_path / name, moved)
    shutil.copytree(tmp_path / "studies", moved / "studies")
    there = sweep(read_study(moved / "study.yaml"), moved / "studies", workers=1)
    assert there.before == 2
    assert there.table.read_bytes() == here.table.read_bytes()
    assert "kai.yaml,fewest.py:Fewest" in there.table.read_text()
    (moved / "kai.yaml").write_text("kailab: {jobOrder: fewest.py:Fewest}\nactions: allocate\n")
    assert {run.key for run in read_study(moved / "study.yaml").runs()}.isdisjoint(run.key for run in there.runs)


@pytest.mark.slow
def test_policies_are_tried_by_their_names(study_file: Write, tmp_path: Path) -> None:
    study = read_study(
        study_file(
            queues="one", limits="{trace: 8}", grid="{policies: [[fifo], [shortest-job], [random]]}", seeds="[4]"
        )
    )
    swept = sweep(study, tmp_path, workers=2)
    waited = [swept.results[run.key].rows[0]["waited_mean"] for run in swept.runs]
    assert waited[1] < waited[0], "the shortest first has jobs wait less in the mean"
    with pytest.raises(ExtensionError, match="fofi"):
        sweep(read_study(study_file(policies="[fofi]")), tmp_path / "other")
