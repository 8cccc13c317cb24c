"""Evidence on disk: list runs, find a run, test or lab, read it, verify it, prune old runs, and export a run as one file."""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from kailab.cluster.protocol import Object
from kailab.errors import EvidenceError, InputError, os_errors_as
from kailab.evidence import canonical
from kailab.evidence import cycles as cycle_files
from kailab.evidence import run as sums
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.entries import (
    CheckedExpectation,
    ClusterState,
    Decision,
    LabFacts,
    OutcomeEntry,
    PendingReason,
    RecordedEvent,
    RecordedStep,
    RunFacts,
    TimelineEntry,
)
from kailab.evidence.history import LabHistory, time_states
from kailab.evidence.large_files import SUFFIX, read_evidence_file
from kailab.evidence.recorder import RESULT, ResultHead, check_format
from kailab.evidence.run import RUN, SIGNATURES, FileProblem, run_digest, test_folders
from kailab.model import decoding
from kailab.model.files import file_bytes
from kailab.model.private_files import PARTIAL, make_private
from kailab.model.suggestions import closest_names
from kailab.model.times import parse_time

LATEST = "latest"
T = TypeVar("T")
_MOMENTS: tuple[Literal["before", "after"], ...] = ("before", "after")
_RUN_ID = re.compile(r"\d{8}T\d{6}\.\d{3}Z(-\d+)?")
"""The form of run ids (``RunFolder.begin``)."""


@dataclass(frozen=True)
class RunSummary:
    """One run. ``facts``: its run.json, None if the run did not finish. ``outcomes``: outcome -> number of tests."""

    run: str
    path: Path
    facts: RunFacts | None = None
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.facts is not None


@dataclass(frozen=True)
class TestEvidence:
    """One test's evidence. ``name`` is ``exercise/test``; ``labs`` maps a lab to its lab.json."""

    __test__ = False  # not a test class for pytest, despite its name

    name: str
    path: Path
    result: OutcomeEntry
    labs: dict[str, LabFacts]

    @property
    def outcome(self) -> str:
        return self.result.outcome

    # Each method raises EvidenceError if the file is missing or damaged.

    def steps(self, lab: str) -> list[RecordedStep]:
        return _decode(self.path / lab / "steps.json", list[RecordedStep])

    def decisions(self, lab: str) -> list[Decision]:
        return _decode_lines(self.path / lab / "decisions.jsonl", Decision)

    def expectations(self, lab: str) -> list[CheckedExpectation]:
        return _decode_lines(self.path / lab / "expectations.jsonl", CheckedExpectation)

    def pending(self, lab: str) -> list[PendingReason]:
        return _decode(self.path / lab / "pending.json", list[PendingReason])

    def events(self, lab: str) -> list[RecordedEvent]:
        return _decode(self.path / lab / "events.json", list[RecordedEvent])

    def timeline(self, lab: str) -> list[TimelineEntry]:
        return _decode(self.path / lab / "timeline.json", list[TimelineEntry])

    def states(self, lab: str) -> dict[str, ClusterState]:
        """The states after steps by file name, in order."""
        return {file.stem: _decode(file, ClusterState) for file in self._state_files(lab)}

    def last_state(self, lab: str) -> ClusterState | None:
        """The state after the last step; None if there is none."""
        files = self._state_files(lab)
        return _decode(files[-1], ClusterState) if files else None

    def _state_files(self, lab: str) -> list[Path]:
        # By length of the number first, because the hundredth has one digit more.
        files = [
            file.with_name(file.name.removesuffix(SUFFIX)) for file in (self.path / lab / "states").glob("*.json*")
        ]
        return sorted(files, key=lambda file: (len(file.stem.partition("-")[0]), file.stem))

    def objects(self, lab: str, moment: Literal["before", "after"], file: str) -> list[Object]:
        """The objects of a kind (``pods``, ``queues`` ...) when the lab opened or closed."""
        return _decode(self.path / lab / moment / f"{file}.json", list[Object])

    def history(self, lab: str) -> LabHistory:
        steps, folder = self.steps(lab), self.path / lab
        cycles: list[RecordedCycle] = []
        opened = None
        if cycle_files.has_cycles(folder):
            head, cycles = cycle_files.read_cycles_file(folder)
            opened = head.opened
        before, after = (
            {kind: self.objects(lab, moment, kind) for kind in ("pods", "podgroups", "queues", "priorityclasses")}
            for moment in _MOMENTS
        )
        decisions = self.decisions(lab)
        # A lab with another scheduler has no cycles. Each decision has both clocks.
        if opened is None:
            opened = _opened(decisions)
        states = time_states(list(self.states(lab).items()), steps)
        return LabHistory(opened, steps, decisions, states, cycles, before, after, self.pending(lab))

    def text(self, lab: str, file: str) -> str:
        """The text of a file that is no list of entries."""
        return read_evidence_file(self.path / lab / file).decode(errors="replace")


def _opened(decisions: Sequence[Decision]) -> float:
    for entry in decisions:
        return parse_time(entry.time) - entry.t
    return 0.0


def list_runs(root: Path | str) -> list[RunSummary]:
    """All runs directly below a folder, oldest first. Raises EvidenceError if the folder can't be read."""
    root = Path(root)
    if not root.is_dir():
        raise EvidenceError(f"{root}: there is no evidence")
    # Run ids begin with the time, so they sort by time.
    return [_summary(path) for path in sorted(root.iterdir()) if path.is_dir() and is_run(path)]


def find_run(root: Path | str, run: str = LATEST) -> Path:
    """The folder of a run: by id below ``root``, by path, or the latest run. Raises EvidenceError."""
    if run != LATEST:
        for path in (Path(root) / run, Path(run)):
            if path.is_dir():
                if not is_run(path) and (runs := [summary.run for summary in list_runs(path)]):
                    raise EvidenceError(
                        f"{path}: contains runs and is not a run itself; expected one of them, such as {path / runs[-1]}"
                    )
                return path
        raise EvidenceError(f"{root}: there is no run {run!r}")
    all_runs = list_runs(root)
    if not all_runs:
        raise EvidenceError(f"{root}: there are no runs")
    return all_runs[-1].path


def find_test(run: Path, text: str) -> str:
    """The name (``exercise/test``) of a test in a run; the last part is enough if it is unique. Raises InputError with similar names."""
    tests = test_folders(run)
    if text in tests:
        return text
    same = [name for name in tests if name.rpartition("/")[2] == text]
    if len(same) == 1:
        return same[0]
    if same:
        raise InputError(f"run {run.name} has several tests {text!r}: {', '.join(same)}")
    raise InputError(
        f"run {run.name} has no test {text!r}; {_near(text, tests)}`kailab evidence show {run.name}` lists them"
    )


def find_run_or_test(root: Path | str, text: str) -> tuple[Path, str]:
    """Resolve a word to a run (with an empty test), else to a test of the latest run. Raises InputError with similar names, EvidenceError."""
    if text == LATEST:
        return find_run(root), ""
    for path in (Path(root) / text, Path(text)):
        # Only a folder with evidence counts, because the working directory may have a folder of this name.
        if path.is_dir() and is_run(path):
            return path, ""
    try:
        latest = find_run(root)
    except EvidenceError as error:
        raise EvidenceError(f"there is no run {text!r}; {error}") from None
    tests = test_folders(latest)
    if text in tests or any(name.rpartition("/")[2] == text for name in tests):
        return latest, find_test(latest, text)
    names = [*(summary.run for summary in list_runs(root)), *tests]
    raise InputError(
        f"there is no run {text!r} in {root}, and the latest run ({latest.name}) has no such test; {_near(text, names)}"
        "`kailab evidence list` lists the runs, `kailab evidence show` the tests of the latest"
    )


def find_lab(root: Path | str, text: str) -> tuple[TestEvidence, str]:
    """Resolve a word to a lab: ``RUN/EXERCISE/TEST``, ``EXERCISE/TEST`` of the latest run, a run with one test, or the folder of any of these. For a test with
    several labs, ``/LAB`` is appended. Raises InputError, EvidenceError."""
    for path in (Path(text), Path(root) / text):
        # The folder of a test, or of one of its labs.
        for folder, lab in ((path, ""), (path.parent, path.name)):
            if (folder / RESULT).exists():
                return _one_lab(load_test(folder.parent.parent, "/".join(folder.parts[-2:])), lab)
    # ``RUN/EXERCISE/TEST`` and ``EXERCISE/TEST`` look alike: the first part is a run if a folder of this name exists.
    head, _, rest = text.partition("/")
    run, test = (find_run(root, head), rest) if rest and (Path(root) / head).is_dir() else find_run_or_test(root, text)
    if not test:
        tests = test_folders(run)
        if len(tests) != 1:
            raise InputError(f"run {run.name} has {len(tests)} tests; say which: {run.name}/EXERCISE/TEST")
        (test,) = tests
    return _one_lab(load_test(run, find_test(run, test)), "")


def _one_lab(test: TestEvidence, lab: str) -> tuple[TestEvidence, str]:
    if lab in test.labs or (not lab and len(test.labs) == 1):
        return test, lab or next(iter(test.labs))
    labs = ", ".join(test.labs) or "none"
    if lab:
        raise InputError(f"{test.name} has no lab {lab!r}; there are: {labs}")
    raise InputError(f"{test.name} has {len(test.labs)} labs; say which, {test.name}/LAB, of: {labs}")


def _near(text: str, known: list[str]) -> str:
    by_last = {name.rpartition("/")[2]: name for name in known}
    close = [name for name in known if name.startswith(text)]
    close += closest_names(text, known, 3)
    close += [by_last[last] for last in closest_names(text.rpartition("/")[2], by_last, 3)]
    suggestions = list(dict.fromkeys(close))[:3]
    return f"did you mean {' or '.join(suggestions)}? " if suggestions else ""


def prune_runs(root: Path | str, keep: int) -> list[RunSummary]:
    """Remove all but the newest ``keep`` runs directly below a folder, and older runs that were killed before their first test; return the removed runs. Other
    files and folders (a README, a folder of reference runs) stay. Raises EvidenceError."""
    runs = list_runs(root)
    doomed = runs[: len(runs) - keep] if keep < len(runs) else []
    newest = runs[-1].run if keep and runs else None
    # A newer one may still be written.
    begun = [path for path in Path(root).iterdir() if path.is_dir() and not is_run(path) and _was_begun(path)]
    doomed += [RunSummary(path.name, path) for path in sorted(begun) if newest is None or path.name < newest]
    for run in doomed:
        with os_errors_as(EvidenceError, f"{run.path}: can't be removed"):
            shutil.rmtree(run.path)
    return doomed


def read_run(run: Path) -> tuple[RunSummary, list[TestEvidence]]:
    """Read a run and its tests. Raises EvidenceError if a file can't be read."""
    tests = test_folders(run) if run.is_dir() else []
    if not tests and not (run / RUN).exists():
        raise EvidenceError(f"{run}: there is no evidence")
    return _summary(run), [load_test(run, name) for name in tests]


def load_test(run: Path, name: str) -> TestEvidence:
    """Read one test (``exercise/test``) of a run. Raises EvidenceError."""
    path = run / name
    # The format is checked first: missing fields of another format would be reported as damage.
    check_format(_decode(path / RESULT, ResultHead).format, path)
    result = _decode(path / RESULT, OutcomeEntry)
    labs = {lab: _decode(path / lab / "lab.json", LabFacts) for lab in result.labs}
    return TestEvidence(name, path, result, labs)


def is_signed(run: Path) -> bool:
    """True if a run has a signature of any key."""
    return any(run.glob(f"{SIGNATURES}*"))


def verify_evidence(path: Path) -> list[FileProblem]:
    """Verify a run or one test's folder; return the problems. Raises EvidenceError if there is nothing to verify."""
    if not path.is_dir():
        raise EvidenceError(f"{path}: there is no evidence")
    if (path / RESULT).exists():
        return sums.check_sums(path)
    tests = test_folders(path)
    if not tests and not (path / RUN).exists() and not _was_begun(path):
        raise EvidenceError(f"{path}: there is no evidence")
    # The run as a whole first: a test without a checksum was added, a checksum without its test shows a removed test.
    problems = _check_run(path, set(tests))
    for name in tests:
        problems += sums.check_sums(path / name, name)
    return problems


def _check_run(path: Path, tests: set[str]) -> list[FileProblem]:
    problems = [
        FileProblem("unfinished", entry.name) for entry in sorted(path.iterdir()) if entry.name.startswith(PARTIAL)
    ]
    problems += (
        FileProblem("extra", entry.relative_to(path).as_posix())
        for folder in [
            path,
            *(entry for entry in sorted(path.iterdir()) if entry.is_dir() and not entry.name.startswith(PARTIAL)),
        ]
        for entry in sorted(folder.iterdir())
        if not entry.is_dir()
        and not entry.name.startswith(PARTIAL)
        and (folder != path or (entry.name not in (RUN, sums.SUMS_FILE) and not entry.name.startswith(SIGNATURES)))
        and f"{folder.relative_to(path).as_posix()}" not in tests
    )
    problems += (
        FileProblem("damaged", signature.name, "not a signature as kailab writes it")
        for signature in sorted(path.glob(f"{SIGNATURES}*"))
        if not signature.is_dir() and not _as_written(signature)
    )
    if not (path / RUN).exists():
        return [*problems, FileProblem("missing", RUN, "the run did not finish")]
    # Only for a finished run: an unfinished one may have an exercise's folder without tests.
    problems += (
        FileProblem("extra", name, "an empty folder")
        for name in sums.empty_folders(path)
        if not name.startswith(PARTIAL) and not any(f"{name}/".startswith(f"{test}/") for test in tests)
    )
    try:
        facts = _decode(path / RUN, dict[str, Any])  # as a plain dict, because the digest covers unknown fields too
    except EvidenceError as error:
        return [*problems, FileProblem("damaged", RUN, str(error))]
    if not _as_written(path / RUN):
        problems.append(FileProblem("changed", RUN, "not in the form in which kailab writes it"))
    # From run.json down: its own digest, that of the run's SHA256SUMS, those of the tests' SHA256SUMS, then the files.
    if facts.get("digest") != run_digest(facts):
        problems.append(FileProblem("changed", RUN))
    try:
        listing = sums.read_sums(path / sums.SUMS_FILE)
    except FileNotFoundError:
        return [*problems, FileProblem("missing", sums.SUMS_FILE)]
    except (OSError, ValueError) as error:
        return [*problems, FileProblem("damaged", sums.SUMS_FILE, str(error))]
    if facts.get("sums") != sums.digest(read_evidence_file(path / sums.SUMS_FILE)):
        problems.append(FileProblem("changed", sums.SUMS_FILE))
    for file, expected in listing.items():
        name = file.removesuffix(f"/{sums.SUMS_FILE}")
        if name not in tests:
            problems.append(FileProblem("missing", name))
        # A missing file is reported by the check of the test.
        elif (path / file).exists() and sums.digest(read_evidence_file(path / file)) != expected:
            problems.append(FileProblem("changed", file))
    listed = {file.removesuffix(f"/{sums.SUMS_FILE}") for file in listing}
    return problems + [FileProblem("extra", name) for name in sorted(tests - listed)]


def _as_written(path: Path) -> bool:
    """True if a file without a checksum has exactly the text that kailab writes for its content. Another text could contain a key twice, which readers
    interpret differently."""
    try:
        return not path.is_symlink() and read_evidence_file(path) == canonical.pretty_json(
            _decode(path, dict[str, Any])
        )
    except (OSError, EvidenceError):
        return False


def is_run(path: Path) -> bool:
    """True if a folder is a run, finished or not."""
    if (path / RUN).exists():
        return True
    return any((path / name / RESULT).exists() for name in test_folders(path))


def _was_begun(path: Path) -> bool:
    """True if a run was started in a folder and killed before its first test was complete."""
    return any(path.glob(f"{PARTIAL}*")) or (bool(_RUN_ID.fullmatch(path.name)) and not sums.files_in(path))


def _summary(path: Path) -> RunSummary:
    facts = _decode(path / RUN, RunFacts) if (path / RUN).exists() else None
    outcomes = Counter(_decode(path / name / RESULT, ResultHead).outcome for name in test_folders(path))
    return RunSummary(path.name, path, facts, dict(outcomes))


def _decode(path: Path, type: type[T]) -> T:
    return _decoded(read_evidence_file(path), type, path)


def _decode_lines(path: Path, type: Any) -> list[Any]:
    return [_decoded(line, type, path) for line in read_evidence_file(path).splitlines()]


def _decoded(content: bytes, type: type[T], path: Path) -> T:
    try:
        return decoding.decode_json(content, type)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise EvidenceError(f"{path}: damaged: {error}") from error


def export_run(run: Path, target: Path) -> int:
    """Write a run as a tar archive, which is the same for the same run. Return the number of files. Nothing is overwritten and no partial file is left. Raises
    InputError if the target exists, EvidenceError if the run is damaged or the archive can't be written."""
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists already; nothing is overwritten")
    # Verified first: a damaged run in an archive would look as if it had been damaged in transit.
    problems = verify_evidence(run)
    if problems:
        raise EvidenceError(f"{run}: not exported: {'; '.join(map(str, problems[:3]))}")
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    try:
        _write_archive(run, names, target)
    except FileExistsError as error:
        raise InputError(f"{target} exists already; nothing is overwritten") from error
    except OSError as error:
        raise EvidenceError(f"{target}: can't be written: {error.strerror or error}") from error
    return len(names)


def _write_archive(run: Path, names: list[str], target: Path) -> None:
    """Write to a temporary file and link it to the target; unlike a rename, a link never replaces a file."""
    descriptor, partial = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
    try:
        make_private(descriptor)
        with (
            os.fdopen(descriptor, "wb") as file,
            # Without names, owners and times, so that equal runs give equal bytes.
            gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name in names:
                content = file_bytes(run / name)
                member = tarfile.TarInfo(f"{run.name}/{name}")
                member.size, member.mode = len(content), 0o644
                archive.addfile(member, io.BytesIO(content))
        os.link(partial, target)
    finally:
        os.unlink(partial)
