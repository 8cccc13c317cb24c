"""Write a run as one self-contained HTML file: its compressed data and the viewer's modules."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from kailab.engine.snapshot import jsonform
from kailab.errors import EvidenceError, InputError
from kailab.evidence import store
from kailab.evidence.run import write_file
from kailab.evidence.store import TestEvidence
from kailab.report.lab_form import LabFormBuilder, read_recorded_lab
from kailab.report.page_data import FORMAT, NONE, ExpectedForm, LabRef, Page, RunForm, TestForm, WarningForm
from kailab.report.raw import RawTextFiles
from kailab.version import __version__

VIEWER = Path(__file__).parent / "viewer"
MAIN = "app"

KINDS = ("run", "lab", "snapshot", "trial")


def write_page(runs: Sequence[Path], file: Path, kind: str = "run", title: str = "") -> int:
    """Write the page of a run's folder, or of two to compare.

    Returns the size in bytes. Raises InputError if the file cannot be written, EvidenceError if a run cannot be read.
    """
    check_page_file(file)
    chunks: dict[str, bytes] = {}
    forms = [_run(run, f"r{index}", chunks) for index, run in enumerate(runs)]
    name = title or " and ".join(run.run for run in forms)
    return write_runs_page(forms, chunks, file, kind, name)


def write_runs_page(runs: Sequence[RunForm], chunks: Mapping[str, bytes], file: Path, kind: str, title: str) -> int:
    """Write the page of runs in the viewer's form with their ``chunks``. Returns the size in bytes. Raises InputError
    if it cannot be written."""
    page = Page(format=FORMAT, kailab=__version__, kind=kind, title=title, runs=list(runs))
    content = page_html(page, chunks)
    write_file(file, content)
    return len(content)


def page_html(page: Page, chunks: Mapping[str, bytes]) -> bytes:
    """The page as HTML. ``chunks``: packed labs and raw text, by the names that the page uses."""
    return b"".join(_html(page.title, {"page": pack_chunk(page), **chunks}))


def pack_chunk(value: Any) -> bytes:
    """Encode and compress a chunk of the page."""
    # The engine's encoder keeps exact fractions.
    return gzip.compress(jsonform.encode(value), 6, mtime=0)


def check_page_file(file: Path) -> None:
    """Raise InputError if no page can be written to the file."""
    if file.is_dir():
        raise InputError(f"{file} is a folder; expected the name of an HTML file")
    if not file.absolute().parent.is_dir():
        raise InputError(f"{file}: the folder {file.absolute().parent} does not exist")


def _run(run: Path, chunk: str, chunks: dict[str, bytes]) -> RunForm:
    if not store.is_run(run):
        raise EvidenceError(f"{run} is not a run; expected a folder with run.json, or with folders of tests")
    summary, tests = store.read_run(run)
    problems = [str(problem) for problem in store.verify_evidence(run)]
    tests_form = [read_test_form(test, f"{chunk}t{index}", chunks) for index, test in enumerate(tests)]
    facts = None if summary.facts is None else msgspec.to_builtins(summary.facts)
    return RunForm(run=summary.run, facts=facts, outcomes=summary.outcomes, problems=problems, tests=tests_form)


def read_test_form(test: TestEvidence, chunk: str, chunks: dict[str, bytes], shown: str = "") -> TestForm:
    """Read a test and add its labs and raw text to ``chunks``, under names that begin with ``chunk``.

    ``shown``: the name of the test's folder on the page; empty: the test's name. Raises EvidenceError.
    """
    labs, expectations = [], []
    for index, (lab, facts) in enumerate(test.labs.items()):
        name = f"{chunk}l{index}"
        raw = RawTextFiles(test.path / lab, f"{shown or test.name}/{lab}", f"{name}raw")
        builder = LabFormBuilder(read_recorded_lab(test, lab), raw)
        form, first, checked = builder.form(), builder.expectations, builder.checked()
        form.raw, texts = raw.form()
        chunks[name] = pack_chunk(form)
        chunks |= texts
        labs.append(
            LabRef(
                name=lab,
                fleet=facts.fleet,
                scheduler=facts.scheduler,
                backend=facts.backend,
                nodes=facts.nodes,
                gpus=facts.gpus,
                chunk=name,
            )
        )
        expectations += [
            ExpectedForm(
                t=expectation.t, moment=moment, subject=expectation.subject, expected=expectation.expected, seen=expectation.seen, held=expectation.held,
                lab=lab, line=index + 1, ref=first + index, source=expectation.source,
            )
            for index, (expectation, moment) in enumerate(zip(test.expectations(lab), chain(checked, repeat(NONE))))
        ]  # fmt: skip
    result = test.result
    return TestForm(
        name=test.name,
        outcome=result.outcome,
        message=result.message,
        sentence=result.sentence,
        cycles=result.cycles,
        decisions=result.decisions,
        expectations=expectations,
        labs=labs,
        reason=result.reason,
        source=result.source,
        warnings=[
            WarningForm(lab=lab, t=step.t, step=step.title, text=text)
            for lab in test.labs
            for step in test.steps(lab)
            for text in step.warnings
        ],
    )


def _html(title: str, chunks: dict[str, bytes]) -> Iterator[bytes]:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(VIEWER), undefined=jinja2.StrictUndefined, autoescape=True
    )
    modules = {f"viewer/{path.stem}": _data_url(path) for path in sorted(VIEWER.glob("*.js"))}
    styles = "\n".join(path.read_text(encoding="utf-8") for path in sorted(VIEWER.glob("*.css")))
    # Insert the data at a marker, because a template engine would keep several copies of it.
    marker = "<!--data-->"
    text = environment.get_template("page.html").render(
        title=title, imports=msgspec.json.encode({"imports": modules}).decode(), styles=styles, main=f"viewer/{MAIN}"
    )
    head, _, tail = text.partition(marker)
    yield head.encode()
    for name, chunk in chunks.items():
        # Neither the names (letters and digits) nor base64 need escaping in HTML.
        yield f'<script type="application/gzip" id="{name}">'.encode()
        yield base64.b64encode(chunk)
        yield b"</script>\n"
    yield tail.encode()


def _data_url(path: Path) -> str:
    """A module as a data URL, which other modules import by name through the page's import map."""
    return "data:text/javascript;base64," + base64.b64encode(path.read_bytes()).decode()
