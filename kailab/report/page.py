"""A run as one HTML file to travel through: its data, compressed, and the viewer's modules, in one file that loads nothing."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from kailab import __version__
from kailab.engine.snapshot import jsonform
from kailab.errors import EvidenceError, InputError
from kailab.evidence import store
from kailab.evidence.run import write_file
from kailab.evidence.store import TestEvidence
from kailab.report.lab_form import LabFormBuilder, read_recorded_lab
from kailab.report.page_data import FORMAT, NONE, ExpectedForm, LabRef, Page, RunForm, TestForm
from kailab.report.raw import RawTextFiles

VIEWER = Path(__file__).parent / "viewer"
MAIN = "app"

KINDS = ("run", "lab", "snapshot", "trial")


def write_page(runs: Sequence[Path], file: Path, kind: str = "run", title: str = "") -> int:
    """Write the page of a run's folder, or of two to compare. Bytes of the file. Raises InputError where the file can't be written,
    EvidenceError where a run can't be read."""
    check_page_file(file)
    chunks: dict[str, bytes] = {}
    told = [_run(run, f"r{place}", chunks) for place, run in enumerate(runs)]
    name = title or " and ".join(run.run for run in told)
    return write_runs_page(told, chunks, file, kind, name)


def write_runs_page(runs: Sequence[RunForm], chunks: Mapping[str, bytes], file: Path, kind: str, title: str) -> int:
    """Write the page of runs in the viewer's form, with their ``chunks``. Bytes of the file. Raises InputError where it can't be
    written."""
    page = Page(format=FORMAT, kailab=__version__, kind=kind, title=title, runs=list(runs))
    content = page_html(page, chunks)
    write_file(file, content)
    return len(content)


def page_html(page: Page, chunks: Mapping[str, bytes]) -> bytes:
    """``chunks``: of labs and of raw text, by the names that the page has for them, ``packed``."""
    return b"".join(_html(page.title, {"page": pack_chunk(page), **chunks}))


def pack_chunk(value: Any) -> bytes:
    """As a chunk of the page."""
    # Exact fractions need the engine's encoder.
    return gzip.compress(jsonform.encode(value), 6, mtime=0)


def check_page_file(file: Path) -> None:
    """Raises InputError where no page can be written to that file."""
    if file.is_dir():
        raise InputError(f"{file}: is a folder; expected the name of an HTML file")
    if not file.absolute().parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.absolute().parent}")


def _run(run: Path, chunk: str, chunks: dict[str, bytes]) -> RunForm:
    if not store.is_run(run):
        raise EvidenceError(f"{run}: is no run; expected a folder with run.json, or with folders of tests")
    summary, tests = store.read_run(run)
    problems = [str(problem) for problem in store.verify_evidence(run)]
    told = [read_test_form(test, f"{chunk}t{place}", chunks) for place, test in enumerate(tests)]
    facts = None if summary.facts is None else msgspec.to_builtins(summary.facts)
    return RunForm(run=summary.run, facts=facts, outcomes=summary.outcomes, problems=problems, tests=told)


def read_test_form(test: TestEvidence, chunk: str, chunks: dict[str, bytes], shown: str = "") -> TestForm:
    """``chunks``: its labs and their raw text are added to them, under names that begin with ``chunk``. ``shown``: what the test's folder
    is called on the page, if not by the test's name. Raises EvidenceError."""
    labs, expectations = [], []
    for place, (lab, facts) in enumerate(test.labs.items()):
        name = f"{chunk}l{place}"
        raw = RawTextFiles(test.path / lab, f"{shown or test.name}/{lab}", f"{name}raw")
        gathering = LabFormBuilder(read_recorded_lab(test, lab), raw)
        form, first, checked = gathering.form(), gathering.expectations, gathering.checked()
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
                t=one.t, moment=moment, subject=one.subject, expected=one.expected, seen=one.seen, held=one.held,
                lab=lab, line=place + 1, ref=first + place, source=one.source,
            )
            for place, (one, moment) in enumerate(zip(test.expectations(lab), chain(checked, repeat(NONE))))
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
    )


def _html(title: str, chunks: dict[str, bytes]) -> Iterator[bytes]:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(VIEWER), undefined=jinja2.StrictUndefined, autoescape=True
    )
    modules = {f"viewer/{path.stem}": _data_url(path) for path in sorted(VIEWER.glob("*.js"))}
    styles = "\n".join(path.read_text(encoding="utf-8") for path in sorted(VIEWER.glob("*.css")))
    # A marker stands for the data: a template engine would hold all of it several times over.
    marker = "<!--data-->"
    text = environment.get_template("page.html").render(
        title=title, imports=msgspec.json.encode({"imports": modules}).decode(), styles=styles, main=f"viewer/{MAIN}"
    )
    head, _, tail = text.partition(marker)
    yield head.encode()
    for name, chunk in chunks.items():
        # Names are made of letters and digits, and base64 has no character that means something in HTML.
        yield f'<script type="application/gzip" id="{name}">'.encode()
        yield base64.b64encode(chunk)
        yield b"</script>\n"
    yield tail.encode()


def _data_url(path: Path) -> str:
    """A module that other modules import by name, through the page's import map."""
    return "data:text/javascript;base64," + base64.b64encode(path.read_bytes()).decode()
