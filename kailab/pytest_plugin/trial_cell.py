"""The plugin of a trial's cell, loaded by ``-p`` in its process: it measures the labs of each test and stores each result as soon as the test has
ended."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kailab.errors import ConnectError, InputErrors, StateError
from kailab.pytest_plugin.evidence import PROPERTY, names_of
from kailab.pytest_plugin.fixtures import EVIDENCE
from kailab.trials.cell import CELL
from kailab.trials.recorder import CellRecorder
from kailab.trials.results import CellResult, TestResult, TestVerdict
from kailab.trials.store import CellFolder
from kailab.undertest.contract import NotExpressible, SchedulerFailed

_RECORDERS = pytest.StashKey[dict[str, CellRecorder]]()
_FAULT = pytest.StashKey[tuple[TestVerdict, str, str]]()
_STARTED = pytest.StashKey[float]()
_UNABLE = (ConnectError, StateError, SchedulerFailed)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_ResultStore(CellFolder(Path(os.environ[CELL]))), "kailab-trial-cell-keeper")


class _ResultStore:
    def __init__(self, folder: CellFolder) -> None:
        self._folder = folder
        subject = folder.cell.subject
        self._subject = subject.name
        path = Path(subject.path.partition("::")[0])
        self._root = path if path.is_dir() else path.parent
        self._finished = folder.tests()
        self._names: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect tests that an earlier process of this cell has finished."""
        self._names = list(dict.fromkeys(self._name(item) for item in items))
        remaining = [item for item in items if self._name(item) not in self._finished]
        if len(remaining) < len(items):
            config.hook.pytest_deselected(items=[item for item in items if self._name(item) in self._finished])
            items[:] = remaining

    def pytest_kailab_observers(self, item: pytest.Item, lab: str) -> Sequence[CellRecorder]:
        recorder = CellRecorder()
        item.stash.setdefault(_RECORDERS, {})[lab] = recorder
        return [recorder]

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[_STARTED] = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        if error is not None and item.stash.get(_FAULT, None) is None:
            item.stash[_FAULT] = _fault(error, report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        outcome = yield
        verdict, message, concept = item.stash.get(_FAULT, None) or ("passed", "", "")
        written = [str(value) for name, value in item.user_properties if name == PROPERTY]
        run = item.config.stash[EVIDENCE].run.run_id if written else ""
        self._folder.keep(
            TestResult(
                name=self._name(item),
                verdict=verdict,
                message=message,
                concept=concept,
                evidence=f"{run}/{written[-1]}" if written else "",
                seconds=round(time.monotonic() - item.stash.get(_STARTED, time.monotonic()), 3),
                labs={lab: recorder.result() for lab, recorder in item.stash.get(_RECORDERS, {}).items()},
            )
        )
        return outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        # The exit code OK alone is not enough: pytest also returns it if the report of an interrupt fails.
        complete = bool(self._names) and self._folder.tests().keys() >= set(self._names)
        if exitstatus == pytest.ExitCode.TESTS_FAILED or (
            complete and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        ):
            self._folder.finish(CellResult(tests=tuple(self._names)))

    def _name(self, item: pytest.Item) -> str:
        """The test's name within the subject, because the name of an exercise depends on the folder in which pytest is called."""
        test = names_of(item)[1].removeprefix(f"{item.path.stem}.")
        below = item.path.relative_to(self._root) if item.path.is_relative_to(self._root) else Path(item.path.name)
        # The name leaves out a module that is named like its folder.
        named_differently = below.stem.removeprefix("test_") != item.path.parent.name
        return "/".join(
            (self._subject, ".".join((*below.parts[:-1], *([below.stem] if named_differently else []), test)))
        )


def _fault(error: BaseException, report: pytest.TestReport) -> tuple[TestVerdict, str, str]:
    """Return (verdict, reason, missing concept)."""
    if report.outcome == "skipped":
        return "skipped", str(getattr(error, "msg", error)), ""
    for cause in error.errors if isinstance(error, InputErrors) else [error]:
        if isinstance(cause, NotExpressible):
            return "not expressible", str(cause), cause.concept
    reason = str(error) or type(error).__name__
    if isinstance(error, _UNABLE) or report.when != "call":
        return "error", reason, ""
    return "failed", reason, ""
