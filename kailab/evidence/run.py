"""The folder of one run: evidence/<run id>/<exercise>/<test>/. A test's folder appears complete or not at all.

Several processes may write tests into one run (pytest-xdist); the process that started the run finishes it. ``run.json`` is the only file with wall times and
versions, so it is the only one that differs between equal runs. It contains two digests: its own, and that of the run's SHA256SUMS. That file lists the
SHA256SUMS of every test. SHA256SUMS has the form of ``sha256sum -c``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import structs

from kailab.errors import EvidenceError, InputError, os_errors_as
from kailab.evidence import canonical
from kailab.evidence.entries import LabFacts, RanOn, RunFacts
from kailab.model import decoding
from kailab.model.files import file_bytes
from kailab.model.private_files import FOLDER_MODE, PARTIAL, make_folder, replace_file, replacing, write_bytes

SUMS_FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class FileProblem(NamedTuple):
    """A difference between a folder and its checksums. ``path`` is relative to the run's folder."""

    kind: Literal["changed", "missing", "extra", "damaged", "unfinished"]
    path: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}" + (f" ({self.detail})" if self.detail else "")


def digest(content: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(content).hexdigest()


def files_in(folder: Path) -> list[str]:
    """All files and links below a folder, relative and sorted, without its own SHA256SUMS."""
    # Links to folders are listed but not followed, because their targets are not part of the evidence.
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in paths if (name := path.relative_to(folder).as_posix()) != SUMS_FILE)


def render_sums(sums: Iterable[tuple[str, str]]) -> bytes:
    """Format (relative path, digest) pairs as a SHA256SUMS file."""
    return "".join(f"{value}  {name}\n" for name, value in sums).encode()


def empty_folders(folder: Path) -> list[str]:
    """All folders below a folder that contain no file, relative and sorted. Evidence has none, and checksums do not cover them."""
    folders = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folders
        if not files_in(path) and not (path / SUMS_FILE).exists()
    )


def write_sums(folder: Path) -> None:
    """Write the checksums of all files in a folder."""
    write_bytes(folder / SUMS_FILE, render_sums((name, digest(file_bytes(folder / name))) for name in files_in(folder)))


def read_sums(path: Path) -> dict[str, str]:
    """Read relative path -> digest. Raises ValueError for a text that kailab does not write (a duplicate file, other line ends), OSError if it can't be
    read."""
    sums: dict[str, str] = {}
    lines = file_bytes(path).decode("utf-8").split("\n")
    if lines.pop():
        raise ValueError("its last line does not end")
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not '<sha256>  <file>'")
        if match.group(2) in sums:
            raise ValueError(f"line {number} names {match.group(2)} again")
        sums[match.group(2)] = match.group(1)
    return sums


def _mismatch(path: Path, expected: str) -> str | None:
    """None if a file matches its checksum. Otherwise the error, or nothing where the content differs."""
    try:
        return None if digest(file_bytes(path)) == expected else ""
    except OSError as error:
        return error.strerror or str(error)


def check_sums(folder: Path, label: str = "") -> list[FileProblem]:
    """Compare a folder with its SHA256SUMS. ``label`` is the prefix of reported paths."""
    prefix = f"{label}/" if label else ""
    listing = folder / SUMS_FILE
    try:
        sums = read_sums(listing)
    except FileNotFoundError:
        return [FileProblem("missing", f"{prefix}{SUMS_FILE}")]
    except (OSError, ValueError) as error:
        return [FileProblem("damaged", f"{prefix}{SUMS_FILE}", str(error))]
    problems: list[FileProblem] = []
    present = set(files_in(folder))
    for name, expected in sums.items():
        if name not in present:
            problems.append(FileProblem("missing", prefix + name))
        # Evidence has no links: the target can change or be another file on the machine where it is checked.
        elif (folder / name).is_symlink():
            problems.append(FileProblem("changed", prefix + name, "is a link"))
        elif (mismatch := _mismatch(folder / name, expected)) is not None:
            problems.append(FileProblem("changed", prefix + name, mismatch))
    problems += (FileProblem("extra", prefix + name) for name in sorted(present - set(sums)))
    problems += (FileProblem("extra", prefix + name, "an empty folder") for name in empty_folders(folder))
    return problems


RUN = "run.json"
SIGNATURES = "signature-"
"""The prefix of the names of signature files (``kailab.evidence.signing``)."""


def check_writable(root: Path) -> None:
    """Raise EvidenceError if no run can be written below ``root``. Leaves no files."""
    # The nearest existing parent is where the first folder would be created.
    existing = root
    while not existing.exists() and not existing.is_symlink() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise EvidenceError(f"{root}: evidence can't be written there: {existing} is not a folder")
    with (
        os_errors_as(EvidenceError, f"{root}: evidence can't be written there"),
        tempfile.TemporaryDirectory(prefix=PARTIAL, dir=existing),
    ):
        pass


class RunFolder:
    """``path`` is created with the first test, so that a run without labs leaves no folder."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id
        self._begun = time.time()

    @classmethod
    def begin(cls, root: Path | str) -> RunFolder:
        """Start a run, named by the wall time. Raises EvidenceError if it can't be written."""
        root = Path(root)
        check_writable(root)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        run_id, again = stamp, 1
        # Two runs may start in the same millisecond.
        while (root / run_id).exists():
            again += 1
            run_id = f"{stamp}-{again}"
        return cls(root, run_id)

    @property
    def has_evidence(self) -> bool:
        return self.path.is_dir()

    def write(self, exercise: str, test: str, fill: Callable[[Path], None]) -> Path:
        """Write one test's folder: ``fill`` writes files into a temporary folder, which then gets checksums and its final name."""
        exercise, test = canonical.safe_name(exercise), canonical.safe_name(test)
        partial: Path | None = None
        try:
            home = self.path / exercise
            make_folder(home)
            # Inside the run's folder, so that the rename stays within one file system and leftovers of killed processes are found.
            partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=self.path))
            partial.chmod(FOLDER_MODE)  # independent of the umask
            fill(partial)
            write_sums(partial)
            return self._publish(partial, home, test)
        except BaseException as error:
            if partial is not None:
                shutil.rmtree(partial, ignore_errors=True)
            for folder in (self.path / exercise, self.path):
                with suppress(OSError):  # it is not empty
                    folder.rmdir()
            if isinstance(error, OSError):
                raise EvidenceError(f"{self.path}: evidence can't be written: {error.strerror or error}") from error
            raise

    @staticmethod
    def _publish(partial: Path, home: Path, test: str) -> Path:
        """Give the folder its name. The rename is atomic and refuses an existing folder, so a test that runs again gets a name of its own."""
        again = 1
        while True:
            target = home / (test if again == 1 else f"{test}-{again}")
            if not target.exists():
                try:
                    os.rename(partial, target)
                    return target
                # Another process may have created this folder meanwhile; then the next name is tried.
                except OSError:
                    if not target.exists():
                        raise
            again += 1

    def finish(self, versions: dict[str, str] | None = None, settings: dict[str, Any] | None = None) -> int:
        """Write the run's SHA256SUMS and run.json. Return the number of tests with evidence; with 0, nothing is written. ``versions``, ``settings``: common to all
        tests."""
        if not self.has_evidence:
            return 0
        tests = test_folders(self.path)
        with os_errors_as(EvidenceError, f"{self.path}: evidence can't be written"):
            listing = render_sums(
                (f"{name}/{SUMS_FILE}", digest(file_bytes(self.path / name / SUMS_FILE))) for name in tests
            )
            # The checksums are written before run.json: if run.json exists, all files that it covers exist.
            replace_file(self.path / SUMS_FILE, listing)
            run = RunFacts(
                run=self.run_id,
                begun=canonical.format_rfc3339(round(self._begun, 3)),
                ended=canonical.format_rfc3339(round(time.time(), 3)),
                tests=len(tests),
                labs=tuple(_lab_combinations(self.path, tests)),
                versions=versions or {},
                settings=settings or {},
                sums=digest(listing),
            )
            run = structs.replace(run, digest=run_digest(msgspec.to_builtins(run)))
            replace_file(self.path / RUN, canonical.pretty_json(run))
        return len(tests)


def _lab_combinations(run: Path, tests: list[str]) -> list[RanOn]:
    """The combinations of backend, scheduler, fleet and versions of a run's labs, with the number of labs of each."""
    counts: Counter[bytes] = Counter()
    for path in (lab for test in tests for lab in sorted((run / test).glob("*/lab.json"))):
        facts = decoding.decode_json(file_bytes(path), LabFacts)
        combination = RanOn(
            backend=facts.backend, scheduler=facts.scheduler, fleet=facts.fleet, versions=facts.versions, labs=0
        )
        # Structs with dicts are not hashable; their canonical JSON is, and it sorts.
        counts[canonical.compact_json(combination)] += 1
    return [structs.replace(decoding.decode_json(key, RanOn), labs=count) for key, count in sorted(counts.items())]


def run_digest(run: Mapping[str, Any]) -> str:
    """The digest in run.json: of all its other fields."""
    return digest(canonical.compact_json({key: value for key, value in run.items() if key != "digest"}))


def test_folders(run: Path) -> list[str]:
    """``exercise/test`` of all tests in a run, sorted."""
    return sorted(
        test.relative_to(run).as_posix()
        for exercise in run.iterdir()
        if exercise.is_dir() and not exercise.name.startswith(".")
        for test in exercise.iterdir()
        if test.is_dir()
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file that a user asked for, completely or not at all, with the mode of the umask. Raises InputError if it can't be written."""
    with os_errors_as(InputError, f"{path}: can't be written"), replacing(path) as partial:
        partial.write_bytes(content)
