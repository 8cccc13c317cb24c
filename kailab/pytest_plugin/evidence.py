"""The evidence of a pytest run: one run folder, shared by all workers, and the tests that wrote into it."""

from __future__ import annotations

import platform
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kailab import __version__
from kailab.pytest_plugin.settings import PluginSettings

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.evidence.run import RunFolder
    from kailab.pytest_plugin.source_lines import SourceFinder

PROPERTY = "kailab_evidence"
REPORTS = pytest.StashKey[dict[str, pytest.TestReport]]()
CAUSE = pytest.StashKey[str]()
FAILED_AT = pytest.StashKey[Any]()
FOLDER = pytest.StashKey[Path]()

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class RunEvidence:
    """``run_id`` None on a run's main process until the first need; workers are given it. ``root``: pytest's rootdir. ``owed``: a test that
    asks for a lab and is not written up yet."""

    def __init__(self, settings: PluginSettings, run_id: str | None, root: Path) -> None:
        self._settings = settings
        self._given_id = run_id
        self._root = root
        self.owed: pytest.Item | None = None
        self._run: RunFolder | None = None
        self.written: list[str] = []  # seen from the main process: folders, relative to the run

    @property
    def on(self) -> bool:
        return self._settings.evidence is not None

    @cached_property
    def sources(self) -> SourceFinder:
        """Tells lines of tests."""
        from kailab.pytest_plugin.source_lines import SourceFinder

        return SourceFinder(self._root)

    @property
    def run(self) -> RunFolder:
        """Raises EvidenceError where no evidence can be written."""
        if self._run is None:
            from kailab.evidence.run import RunFolder

            assert self._settings.evidence is not None
            if self._given_id is None:
                self._run = RunFolder.begin(self._settings.evidence)
            else:
                self._run = RunFolder(self._settings.evidence, self._given_id)
        return self._run

    def write(self, item: pytest.Item, recorders: list[Recorder], broken: BaseException | None) -> Path:
        """Write what a test's labs recorded, if it opened any, whatever became of the test. ``broken``: what its fixtures raised when they
        were torn down."""
        from kailab.evidence.recorder import write_test

        self.owed = None
        exercise, test = names_of(item)
        outcome = outcome_of(item, broken)
        told: dict[str, Any] = {
            "message": message_of(item),
            "sentence": sentence_of(item),
            "reason": reason_of(item),
            "source": item.stash.get(FAILED_AT, None),
        }
        if broken is not None and outcome == "error" and CAUSE not in item.stash:
            told |= {"message": failure_cause(broken), "source": self.sources.of_failure(broken.__traceback__)}
        folder = self.run.write(
            exercise,
            test,
            lambda partial: write_test(partial, f"{exercise}/{test}", recorders, outcome, **told),
        )
        item.user_properties.append((PROPERTY, folder.relative_to(self.run.path).as_posix()))
        item.stash[FOLDER] = folder
        return folder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A hook (this object is registered): on the main process it sees the reports of all workers."""
        if report.when == "teardown":
            self.written += (str(value) for name, value in report.user_properties if name == PROPERTY)

    def finish(self) -> None:
        """Main process, at the end of the run."""
        if self.on and self.written:
            self.run.finish(versions(), self.facts())

    def facts(self) -> dict[str, Any]:
        """What labs have that say nothing else."""
        settings = self._settings
        return {"backend": settings.backend, "scheduler": settings.scheduler, "fleet": settings.fleet}


def in_allure(config: pytest.Config) -> bool:
    """Whether this run writes results of allure. Whoever writes them has loaded it."""
    return bool(config.getoption("allure_report_dir", None)) and "allure" in sys.modules


def versions() -> dict[str, str]:
    """What all tests of a run share; what each lab ran on is in its own folder."""
    return {"kailab": __version__, "python": platform.python_version(), "pytest": pytest.__version__}


def names_of(item: pytest.Item) -> tuple[str, str]:
    """(exercise, test) under which a test's evidence is kept.

    The exercise is the marker's name, else the test's folder below ``exercises``, else its folder from the root
    joined by dashes. The test goes without its module's name where that says no more than the exercise's."""
    marker = item.get_closest_marker("exercise")
    try:
        parts = list(item.path.parent.relative_to(item.config.rootpath).parts)
    except ValueError:
        parts = [item.path.parent.name]
    below = parts[parts.index("exercises") + 1 :] if "exercises" in parts else parts
    exercise = str(marker.args[0]) if marker and marker.args else "-".join(below or parts) or "tests"
    inside = item.nodeid.split("::")[1:] or [item.name]
    module = item.path.stem
    own = module if module.removeprefix("test_") != exercise.rpartition("-")[2] else ""
    return exercise, ".".join(part for part in (own, *inside) if part)


def sentence_of(item: pytest.Item) -> str:
    """A test's docstring, in one line; empty where it has none."""
    docstring = getattr(getattr(item, "function", None), "__doc__", None) or ""
    return " ".join(docstring.split())


def outcome_of(item: pytest.Item, broken: BaseException | None = None) -> str:
    """Of a test whose call is over or never came. A fixture that fails is an error, before the test or (``broken``) after it."""
    report = _decisive(item)
    if report is None:
        return "interrupted"
    if report.failed:
        return "error" if report.when == "setup" else "failed"
    if broken is not None and not isinstance(broken, KeyboardInterrupt):
        return "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


def message_of(item: pytest.Item) -> str:
    """Why a test failed."""
    report = _decisive(item)
    # Nothing was raised where one passed that must not.
    return item.stash.get(CAUSE, "") or (report.longreprtext if report is not None and report.failed else "")


def reason_of(item: pytest.Item) -> str:
    """Why a test was skipped, or expected to fail."""
    report = _decisive(item)
    if report is None:
        return ""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ").removeprefix("[NOTRUN] ")
    if not report.skipped:
        return ""
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return str(told).removeprefix("Skipped: ")


def _decisive(item: pytest.Item) -> pytest.TestReport | None:
    """The report of the phase at which a test ended; None where it came to neither. Marks are applied after ``pytest_runtest_makereport``
    of this plugin, so it is read once all of them are through."""
    reports = item.stash.get(REPORTS, {})
    setup = reports.get("setup")
    return setup if setup is not None and not setup.passed else reports.get("call")


def note_failure(item: pytest.Item, error: BaseException, sources: SourceFinder) -> None:
    """Keep why a test failed, and where."""
    if not isinstance(error, pytest.skip.Exception | pytest.xfail.Exception):
        item.stash[CAUSE] = failure_cause(error)
        item.stash[FAILED_AT] = sources.of_failure(error.__traceback__)


def failure_cause(error: BaseException) -> str:
    """Why a test failed, in words that are the same in every run: an expectation's own, else the first line."""
    from kailab.errors import ExpectationFailed

    if isinstance(error, pytest.FixtureLookupError):
        return error.msg or f"fixture {error.argname!r} not found"
    text = str(error)
    if isinstance(error, ExpectationFailed):
        return text
    first = text.splitlines()[0] if text else ""
    return _ADDRESS.sub("0x...", f"{type(error).__name__}: {first}" if first else type(error).__name__)


def scrub_failure(report: pytest.TestReport, error: BaseException, recorders: list[Recorder]) -> None:
    """Take out of a failure's texts what evidence leaves out; one that quotes nothing of it stays as pytest made it."""

    def scrubbed(text: str) -> str:
        for recorder in recorders:
            text = recorder.scrub(text)
        return text

    text = report.longreprtext
    if text and (left := scrubbed(text)) != text:
        report.longrepr = left
    told = str(error)
    if (left := scrubbed(told)) != told:
        error.args = (left,)
    report.sections = [(title, scrubbed(content)) for title, content in report.sections]
