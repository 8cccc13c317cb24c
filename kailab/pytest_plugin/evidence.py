"""The evidence of a pytest run: one run folder, shared by all workers, and the tests that wrote into it."""

from __future__ import annotations

import platform
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kailab.errors import ExpectationFailed
from kailab.pytest_plugin.settings import PluginSettings
from kailab.version import __version__

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder
    from kailab.evidence.run import RunFolder
    from kailab.pytest_plugin.source_lines import SourceFinder

PROPERTY = "kailab_evidence"
REPORTS = pytest.StashKey[dict[str, pytest.TestReport]]()
CAUSE = pytest.StashKey[str]()
FAILED_AT = pytest.StashKey[Any]()
FOLDER = pytest.StashKey[Path]()

_AS_EXPECTED = ("passed", "xfailed", "skipped")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class RunEvidence:
    """``run_id``: None in the main process, which makes the run at the first use. In a worker: the id of the main process's run.
    ``root``: pytest's rootdir. ``unwritten``: the running test, if its evidence is still to be written."""

    def __init__(self, settings: PluginSettings, run_id: str | None, root: Path) -> None:
        self._settings = settings
        self._given_id = run_id
        self._root = root
        self.unwritten: pytest.Item | None = None
        self._run: RunFolder | None = None
        self.written: list[str] = []  # in the main process: folders of tests, relative to the run

    @property
    def on(self) -> bool:
        return self._settings.evidence is not None

    @cached_property
    def sources(self) -> SourceFinder:
        """Finds lines of tests."""
        from kailab.pytest_plugin.source_lines import SourceFinder

        return SourceFinder(self._root)

    @property
    def run(self) -> RunFolder:
        """The run's folder. Raises EvidenceError if no evidence can be written."""
        if self._run is None:
            from kailab.evidence.run import RunFolder

            assert self._settings.evidence is not None
            if self._given_id is None:
                self._run = RunFolder.begin(self._settings.evidence)
            else:
                self._run = RunFolder(self._settings.evidence, self._given_id)
        return self._run

    def write(self, item: pytest.Item, recorders: list[Recorder], teardown_error: BaseException | None) -> Path | None:
        """Write the evidence of a test and return its folder; None if only failures leave evidence and the test did not fail.
        ``teardown_error``: the exception that the teardown of its fixtures raised."""
        from kailab.evidence.recorder import write_test

        self.unwritten = None
        exercise, test = names_of(item)
        outcome = outcome_of(item, teardown_error)
        if self._settings.failures_only and outcome in _AS_EXPECTED:
            return None
        facts: dict[str, Any] = {
            "message": message_of(item),
            "sentence": sentence_of(item),
            "reason": reason_of(item),
            "source": item.stash.get(FAILED_AT, None),
        }
        if teardown_error is not None and outcome == "error" and CAUSE not in item.stash:
            facts |= {
                "message": failure_text(teardown_error),
                "source": self.sources.of_failure(teardown_error.__traceback__),
            }
        folder = self.run.write(
            exercise,
            test,
            lambda partial: write_test(partial, f"{exercise}/{test}", recorders, outcome, **facts),
        )
        item.user_properties.append((PROPERTY, folder.relative_to(self.run.path).as_posix()))
        item.stash[FOLDER] = folder
        return folder

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A hook, because this object is registered as a plugin. The main process sees the reports of all workers."""
        if report.when == "teardown":
            self.written += (str(value) for name, value in report.user_properties if name == PROPERTY)

    def finish(self) -> None:
        """Finish the run. Called by the main process."""
        if self.on and self.written:
            self.run.finish(versions(), self.facts())

    def facts(self) -> dict[str, Any]:
        """The default settings of labs."""
        settings = self._settings
        return {"backend": settings.backend, "scheduler": settings.scheduler, "fleet": settings.fleet}


def in_allure(config: pytest.Config) -> bool:
    """True if this run writes results of allure, whose plugin has then imported it."""
    return bool(config.getoption("allure_report_dir", None)) and "allure" in sys.modules


def versions() -> dict[str, str]:
    """Versions common to all tests of a run; each lab's folder has the versions of its programs."""
    return {"kailab": __version__, "python": platform.python_version(), "pytest": pytest.__version__}


def names_of(item: pytest.Item) -> tuple[str, str]:
    """Return (exercise, test), the names under which a test's evidence is stored.

    The exercise is the marker's name, else the test's folder below ``exercises``, else its path from the root joined by
    dashes. The test's name includes its module unless the module is named like the exercise."""
    marker = item.get_closest_marker("exercise")
    try:
        folders = list(item.path.parent.relative_to(item.config.rootpath).parts)
    except ValueError:
        folders = [item.path.parent.name]
    below = folders[folders.index("exercises") + 1 :] if "exercises" in folders else folders
    exercise = str(marker.args[0]) if marker and marker.args else "-".join(below or folders) or "tests"
    inside = item.nodeid.split("::")[1:] or [item.name]
    module = item.path.stem
    module_name = module if module.removeprefix("test_") != exercise.rpartition("-")[2] else ""
    return exercise, ".".join(part for part in (module_name, *inside) if part)


def sentence_of(item: pytest.Item) -> str:
    """A test's docstring on one line; empty without one."""
    docstring = getattr(getattr(item, "function", None), "__doc__", None) or ""
    return " ".join(docstring.split())


def outcome_of(item: pytest.Item, teardown_error: BaseException | None = None) -> str:
    """The outcome of a test. A fixture that fails before the test, or after it (``teardown_error``), is an error."""
    report = _deciding_report(item)
    if report is None:
        return "interrupted"
    if report.failed:
        return "error" if report.when == "setup" else "failed"
    if teardown_error is not None and not isinstance(teardown_error, KeyboardInterrupt):
        return "error"
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return report.outcome


def message_of(item: pytest.Item) -> str:
    """Why a test failed."""
    report = _deciding_report(item)
    # A strict xfail that passes has no exception.
    return item.stash.get(CAUSE, "") or (report.longreprtext if report is not None and report.failed else "")


def reason_of(item: pytest.Item) -> str:
    """Why a test was skipped, or expected to fail."""
    report = _deciding_report(item)
    if report is None:
        return ""
    if hasattr(report, "wasxfail"):
        return str(report.wasxfail).removeprefix("reason: ").removeprefix("[NOTRUN] ")
    if not report.skipped:
        return ""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return str(reason).removeprefix("Skipped: ")


def _deciding_report(item: pytest.Item) -> pytest.TestReport | None:
    """The report of the phase in which a test ended; None if it never ran. Call this after all hooks, because pytest applies xfail marks
    after this plugin's ``pytest_runtest_makereport``."""
    reports = item.stash.get(REPORTS, {})
    setup = reports.get("setup")
    return setup if setup is not None and not setup.passed else reports.get("call")


def note_failure(item: pytest.Item, error: BaseException, sources: SourceFinder) -> None:
    """Remember why and where a test failed."""
    if not isinstance(error, pytest.skip.Exception | pytest.xfail.Exception):
        item.stash[CAUSE] = failure_text(error)
        item.stash[FAILED_AT] = sources.of_failure(error.__traceback__)


def failure_text(error: BaseException) -> str:
    """Why a test failed, in a text that is the same in every run: an expectation's text, else the first line of the error."""
    if isinstance(error, pytest.FixtureLookupError):
        return error.msg or f"fixture {error.argname!r} not found"
    text = str(error)
    if isinstance(error, ExpectationFailed):
        return text
    first = text.splitlines()[0] if text else ""
    return _ADDRESS.sub("0x...", f"{type(error).__name__}: {first}" if first else type(error).__name__)


def scrub_failure(report: pytest.TestReport, error: BaseException, recorders: list[Recorder]) -> None:
    """Remove values that evidence must not contain from a failure's texts. Other texts stay unchanged."""

    def scrubbed(text: str) -> str:
        for recorder in recorders:
            text = recorder.scrub(text)
        return text

    text = report.longreprtext
    if text and (remaining := scrubbed(text)) != text:
        report.longrepr = remaining
    message = str(error)
    if (remaining := scrubbed(message)) != message:
        error.args = (remaining,)
    report.sections = [(title, scrubbed(content)) for title, content in report.sections]
