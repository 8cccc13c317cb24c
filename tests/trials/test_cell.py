"""One cell: results of its tests, all verdicts, and resuming after an interruption."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kailab.cluster.protocol import Cluster, Object
from kailab.trials import scenario_cell
from kailab.trials.cell import CELL
from kailab.trials.matrix import Contender, TrialCell, TrialSubject
from kailab.trials.store import CellFolder
from kailab.undertest.contract import NotExpressible, SchedulerUnderTest
from kailab.undertest.registry import SCHEDULERS, SchedulerKind

# In the cell's own process the exercise's conftest.py brings the scheduler, as a distribution of its own would.
CONFTEST = """\
from kailab.undertest.registry import SCHEDULERS, SchedulerKind

SCHEDULERS.register("treeless", SchedulerKind("knows no trees", made="tests.trials.test_cell:Treeless"))
"""

TESTS = """\
import pytest
from kailab.errors import ConnectError
from kailab.lab import expect

def test_tree(lab):
    lab.apply("manifests/queues.yaml")

def test_nothing(lab):
    expect(lab).no_pods()

def test_more_than_there_is(lab):
    expect(lab).running(pods=3)

@pytest.mark.kailab_only("others have no forks")
def test_own(lab):
    lab.fork()

def test_unreachable(lab):
    raise ConnectError("no server answers")
"""


@dataclass(frozen=True)
class Treeless(SchedulerUnderTest):
    title = "Treeless"
    scheduler_name = "treeless"

    def translate(self, objects: Sequence[Object], there: Cluster) -> Sequence[Sequence[Object]]:
        for obj in objects:
            if obj["kind"] == "Queue" and obj["spec"].get("parentQueue"):
                raise NotExpressible(self.name, "tree of queues", f"Queue/{obj['metadata']['name']}")
        return [(obj,) for obj in objects]


@pytest.fixture
def treeless() -> Iterator[str]:
    SCHEDULERS.register("treeless", SchedulerKind("knows no trees", made=f"{__name__}:Treeless"))
    yield "treeless"
    SCHEDULERS._choices.pop("treeless")


def cell_of(home: Path, scheduler: str, subject: TrialSubject) -> CellFolder:
    contender = Contender(name=scheduler, scheduler=scheduler, kind=scheduler)
    folder = CellFolder(home / "cell")
    folder.begin(TrialCell(contender=contender, isolation="embedded", subject=subject, fleet="lesson"))
    return folder


def run(folder: CellFolder) -> int:
    root = str(Path(__file__).parents[2])
    with open(folder.log, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "kailab.trials.cell", str(folder.path)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, CELL: str(folder.path), "PYTHONPATH": root},
        )
        process.wait()
    assert process.stdin is not None
    process.stdin.close()
    return process.returncode


def test_verdicts_of_tests(home: Path) -> None:
    (home / "lending" / "conftest.py").write_text(CONFTEST)
    (home / "lending" / "test_lending.py").write_text(TESTS)
    folder = cell_of(home, "treeless", TrialSubject(kind="exercise", name="lending", path=str(home / "lending")))
    run(folder)
    tests = folder.tests()
    verdicts = {name.rpartition("/")[2]: (test.verdict, test.concept) for name, test in tests.items()}
    assert verdicts == {
        "test_tree": ("not expressible", "tree of queues"),
        "test_nothing": ("passed", ""),
        "test_more_than_there_is": ("failed", ""),
        "test_own": ("skipped", ""),
        "test_unreachable": ("error", ""),
    }, folder.log.read_text()
    result = folder.result
    assert result is not None
    assert (set(result.tests), result.error) == (set(tests), "")
    assert "expected the lab: 3 pods running" in tests["lending/test_more_than_there_is"].message
    assert (folder.evidence / tests["lending/test_nothing"].evidence / "result.json").is_file()


@pytest.mark.slow
def test_tests_that_ended_are_not_run_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second test kills the process the first time that it runs."""
    mark = home / "mark"
    (home / "lending" / "test_lending.py").write_text(
        "import os, pathlib, signal\n"
        "def test_first(lab):\n    print(file=open(f'{os.environ[\"MARK\"]}-first', 'a'))\n"
        "def test_second(lab):\n"
        "    mark = pathlib.Path(os.environ['MARK'])\n"
        "    if not mark.exists():\n        mark.touch()\n        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.setenv("MARK", str(mark))
    folder = cell_of(home, "kailab", TrialSubject(kind="exercise", name="lending", path=str(home / "lending")))
    assert run(folder) == -9
    assert (list(folder.tests()), folder.result) == (["lending/test_first"], None)
    assert run(folder) == 0
    result = folder.result
    assert result is not None
    assert result.tests == ("lending/test_first", "lending/test_second")
    assert Path(f"{mark}-first").read_text() == "\n"


def test_a_cell_that_was_stopped_and_goes_on_is_no_cell_whose_trial_has_ended(home: Path) -> None:
    """As by a frozen machine. The kernel begins a read anew then, from the file that the descriptor names by now."""
    (home / "lending" / "test_lending.py").write_text(
        "import os, signal, subprocess\n"
        "def test_stopped(lab):\n"
        "    me = os.getpid()\n"
        "    wake = f'until ! kill -0 {me} || ps -o stat= -p {me} | grep -q T; do sleep 0.1; done; kill -CONT {me}'\n"
        "    with subprocess.Popen(['sh', '-c', wake]):\n"
        "        os.kill(me, signal.SIGSTOP)\n"
    )
    folder = cell_of(home, "kailab", TrialSubject(kind="exercise", name="lending", path=str(home / "lending")))
    assert run(folder) == 0, folder.log.read_text()
    assert [test.verdict for test in folder.tests().values()] == ["passed"]


def test_verdicts_of_scenarios(home: Path, treeless: str) -> None:
    subject = TrialSubject(kind="scenarios", name="returning", path=str(home / "returning.yaml"))
    folder = cell_of(home, treeless, subject)
    scenario_cell.run_scenarios(folder, folder.cell)
    assert {(test.verdict, test.concept) for test in folder.tests().values()} == {("not expressible", "tree of queues")}


def test_a_folder_without_tests_is_told(home: Path) -> None:
    (home / "lending" / "test_lending.py").write_text("")
    folder = cell_of(home, "kailab", TrialSubject(kind="exercise", name="lending", path=str(home / "lending")))
    assert run(folder) != 0
    result = folder.result
    assert result is not None
    assert "no tests found" in result.error
