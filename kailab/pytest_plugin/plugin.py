"""The plugin that pytest loads by its entry point: only hooks. Modules that are slow to import are imported when a lab is used."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _pytest
import pluggy
import pytest

import kailab
from kailab.errors import ApplyWarning, EvidenceError, InputError
from kailab.pytest_plugin.evidence import (
    FOLDER,
    REPORTS,
    RunEvidence,
    in_allure,
    names_of,
    note_failure,
    scrub_failure,
    sentence_of,
    versions,
)
from kailab.pytest_plugin.fixtures import (
    EVIDENCE,
    LABS,
    SETTINGS,
    VENUES,
    VenuePool,
    asks_for_lab,
    baseline_lab,
    class_lab_factory,
    lab,
    lab_factory,
    manifests,
    module_lab_factory,
    package_lab_factory,
    session_lab_factory,
)
from kailab.pytest_plugin.kind import _kind_venues, lab_on_kind, pytest_runtest_setup
from kailab.pytest_plugin.settings import MARKERS, PluginSettings, add_options, read_plugin_settings

if TYPE_CHECKING:
    from kailab.evidence.recorder import Recorder

__all__ = [
    "_kind_venues",
    "baseline_lab",
    "class_lab_factory",
    "lab",
    "lab_factory",
    "lab_on_kind",
    "manifests",
    "module_lab_factory",
    "package_lab_factory",
    "pytest_runtest_setup",
    "session_lab_factory",
]

RUN_ID = "kailab_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from kailab.pytest_plugin import hooks

    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    settings = read_plugin_settings(config)
    worker = getattr(config, "workerinput", None)
    config.stash[SETTINGS] = settings
    config.stash[VENUES] = VenuePool(settings)
    config.stash[EVIDENCE] = evidence = RunEvidence(settings, worker[RUN_ID] if worker else None, config.rootpath)
    config.pluginmanager.register(evidence, "kailab-evidence")
    if worker is None and settings.evidence_given:
        _check_evidence(settings)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Check the default folder of evidence only if a test will write into it."""
    config = session.config
    settings = config.stash[SETTINGS]
    if settings.evidence_given or hasattr(config, "workerinput") or config.option.collectonly:
        return
    if any(map(asks_for_lab, session.items)):
        _check_evidence(settings)


def _check_evidence(settings: PluginSettings) -> None:
    if settings.evidence is None:
        return
    from kailab.evidence.run import check_writable

    try:
        check_writable(settings.evidence)
    except EvidenceError as error:
        pytest.exit(f"kailab: {error}", returncode=error.exit_code)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist: all workers write into the run that the main process started."""
    evidence = node.config.stash[EVIDENCE]
    node.workerinput[RUN_ID] = evidence.run.run_id if evidence.on else ""


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Runs innermost, so that other reporters (allure, JUnit) see the scrubbed text of a failure."""
    if call.excinfo is not None and isinstance(call.excinfo.value, InputError | ApplyWarning):
        _show_line_of_test(item, call.excinfo)
    report = yield
    item.stash.setdefault(REPORTS, {})[report.when] = report
    recorders = _recorders(item)
    if call.excinfo is not None and recorders:
        scrub_failure(report, call.excinfo.value, recorders)
    evidence = item.config.stash[EVIDENCE]
    if call.excinfo is not None and report.when != "teardown" and _has_evidence(item):
        note_failure(item, call.excinfo.value, evidence.sources)
    if report.failed and report.when == "call":
        for recorder in recorders:
            if text := _what_happened(recorder, item):
                report.sections.append((f"kailab: what happened in {recorder.lab}", text))
    return report


_MOST_LINES = 60


def _what_happened(recorder: Recorder, item: pytest.Item) -> str:
    """The timeline of a lab in a length that people read; empty if nothing happened."""
    from kailab.evidence.canonical import safe_name
    from kailab.evidence.recording import render_timeline

    entries, shorter = recorder.brief_timeline(_MOST_LINES)
    text = render_timeline(entries)
    if not shorter:
        return text
    evidence = item.config.stash[EVIDENCE]
    if not evidence.on:
        return f"{text}Cycles share lines here; with evidence (--kailab-evidence) each has its own in timeline.txt.\n"
    parts = *names_of(item), recorder.lab, "timeline.txt"
    file = evidence.run.path.joinpath(*map(safe_name, parts))
    return f"{text}Cycles share lines here; each has its own in {_relative(item.config, str(file))}\n"


_PYTEST = tuple(Path(str(module.__file__)).parent for module in (_pytest, pluggy))


def _show_line_of_test(item: pytest.Item, error: pytest.ExceptionInfo[BaseException]) -> None:
    """End the traceback of bad input, or of a warning that is an error, at the line of the test: the message says what is wrong, and kailab's own lines do not help. With
    ``--full-trace`` they stay."""
    if item.config.option.fulltrace:
        return
    lines = [error.tb]
    while (following := lines[-1].tb_next) is not None:
        lines.append(following)
    files = [Path(line.tb_frame.f_code.co_filename) for line in lines]
    start = max((index for index, file in enumerate(files) if file == item.path), default=-1)
    own = Path(kailab.__file__).parent
    first = next((index for index, file in enumerate(files) if index > start and file.is_relative_to(own)), 0)
    if not first:
        return
    # A fixture of kailab's has no line of the test above it, only pytest's own, so its own line stays.
    of_pytest = any(files[first - 1].is_relative_to(folder) for folder in _PYTEST)
    lines[first if of_pytest else first - 1].tb_next = None
    # Otherwise pytest shows the lines of the cause, which the message quotes.
    error.value.__cause__, error.value.__suppress_context__ = None, True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    evidence = item.config.stash[EVIDENCE]
    evidence.unwritten = item if _has_evidence(item) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Write the evidence after the labs are closed, because closing one may fail. Attachments made now belong to the test instead of a
    fixture."""
    teardown_error: BaseException | None = None
    try:
        return (yield)
    except BaseException as error:
        teardown_error = error
        raise
    finally:
        _write_evidence(item, teardown_error)
        if LABS in item.stash and in_allure(item.config):
            from kailab.pytest_plugin import allure_results

            allure_results.label_test(item, names_of(item)[0], sentence_of(item))
            if (folder := item.stash.get(FOLDER, None)) is not None:
                allure_results.attach_evidence(folder)


def _has_evidence(item: pytest.Item) -> bool:
    """True if evidence is written for a test. With pytest's --setup-only none is written."""
    return item.config.stash[EVIDENCE].on and asks_for_lab(item) and not item.config.getoption("setuponly", False)


def _write_evidence(item: pytest.Item, teardown_error: BaseException | None) -> None:
    if _has_evidence(item):
        item.config.stash[EVIDENCE].write(item, _recorders(item), teardown_error)


def _recorders(item: pytest.Item) -> list[Recorder]:
    """The recorders of a test's labs."""
    labs = item.stash.get(LABS, None)
    return [] if labs is None else labs.recorders


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[SETTINGS]
    where = "off" if settings.evidence is None else _relative(config, str(settings.evidence))
    return [
        f"kailab: backend {settings.backend}; scheduler {settings.scheduler} and fleet {settings.fleet}, unless a test is marked with "
        f"others; evidence {where}",
        *(f"kailab: {sentence}" for sentence in settings.left_out),
    ]


def pytest_unconfigure(config: pytest.Config) -> None:
    venues = config.stash.get(VENUES, None)
    if venues is not None:
        venues.close()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    evidence = session.config.stash[EVIDENCE]
    # pytest tears down only the fixtures of an interrupted test and calls no hook, so its evidence is written here.
    if evidence.unwritten is not None:
        _write_evidence(evidence.unwritten, None)
    if hasattr(session.config, "workerinput"):
        return
    evidence.finish()
    if in_allure(session.config):
        from kailab.pytest_plugin.allure_results import write_environment

        write_environment(session.config, {**evidence.facts(), **versions()})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    evidence = config.stash[EVIDENCE]
    if not evidence.written:
        return
    number = len(evidence.written)
    where = _relative(config, str(evidence.run.path))
    terminalreporter.write_line(f"kailab: evidence of {number} test{'' if number == 1 else 's'} in {where}")


def _relative(config: pytest.Config, path: str) -> str:
    """The path relative to the folder in which pytest was called; unchanged if it is outside of that folder."""
    relative = os.path.relpath(path, config.invocation_params.dir)
    return path if relative.startswith("..") else relative
