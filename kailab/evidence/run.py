"""SHA256SUMS: what a folder held when it was written, in the form that ``sha256sum -c`` reads."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import structs

from kailab.errors import EvidenceError, InputError
from kailab.evidence import canonical
from kailab.evidence.entries import LabFacts, RanOn, RunFacts
from kailab.model import typed
from kailab.model.files import file_bytes
from kailab.model.private_files import FOLDER_MODE, PARTIAL, make_folder, replace_file, replacing, write_bytes

SUMS_FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class FileProblem(NamedTuple):
    """One way in which a folder is not what was written. ``path`` is relative to the run's folder."""

    kind: Literal["changed", "missing", "extra", "damaged", "unfinished"]
    path: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}" + (f" ({self.detail})" if self.detail else "")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files_in(folder: Path) -> list[str]:
    """Every file and link below a folder, relative, sorted, but for its own SHA256SUMS."""
    # A link to a folder is listed, not followed: what lies outside of the run is not its evidence.
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in found if (name := path.relative_to(folder).as_posix()) != SUMS_FILE)


def render_sums(sums: Iterable[tuple[str, str]]) -> bytes:
    """(relative path, digest) pairs as a SHA256SUMS file."""
    return "".join(f"{value}  {name}\n" for name, value in sums).encode()


def empty_folders(folder: Path) -> list[str]:
    """Every folder below a folder that holds no file, relative, sorted. None is ever written; a sum shows none of them."""
    found = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    return sorted(
        path.relative_to(folder).as_posix() for path in found if not files_in(path) and not (path / SUMS_FILE).exists()
    )


def write_sums(folder: Path) -> None:
    """Sum up all that is in the folder now."""
    write_bytes(folder / SUMS_FILE, render_sums((name, digest(file_bytes(folder / name))) for name in files_in(folder)))


def read_sums(path: Path) -> dict[str, str]:
    """Relative path -> digest. Raises ValueError for text that kailab does not write so (a file named twice, other line ends), OSError
    where it can't be read."""
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


def _unlike(path: Path, expected: str) -> str:
    """Why a file is not what was summed up, a space where nothing more can be told; empty where it is."""
    try:
        return "" if digest(file_bytes(path)) == expected else " "
    except OSError as error:
        return error.strerror or str(error)


def check_sums(folder: Path, label: str = "") -> list[FileProblem]:
    """Compare a folder with its SHA256SUMS. ``label`` goes in front of the paths reported."""
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
        # Links are never written. What one points to may change, or be another file on the machine where it is checked.
        elif (folder / name).is_symlink():
            problems.append(FileProblem("changed", prefix + name, "is a link"))
        elif fault := _unlike(folder / name, expected):
            problems.append(FileProblem("changed", prefix + name, fault.strip()))
    problems += (FileProblem("extra", prefix + name) for name in sorted(present - set(sums)))
    problems += (FileProblem("extra", prefix + name, "an empty folder") for name in empty_folders(folder))
    return problems


# The folder of one run: evidence/<run id>/<exercise>/<test>/, each test's folder appearing whole or not at all.
#
# Several processes may write tests into one run at once (pytest-xdist); one of them, the one that began it,
# finishes it. ``run.json`` is the only file with wall times and versions, hence the only one that differs between
# equal runs. It carries its own digest and that of the run's SHA256SUMS, which in turn sums up the SHA256SUMS of
# every test.

RUN = "run.json"
SIGNATURES = "signature-"
"""What names of files with signatures of a run begin with (``kailab.evidence.signing``)."""


def check_writable(root: Path) -> None:
    """Raises EvidenceError where no run could be written below ``root``. Leaves nothing behind."""
    # The nearest folder that is there is where the first one would be made.
    existing = root
    while not existing.exists() and not existing.is_symlink() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise EvidenceError(f"{root}: evidence can't be written there: {existing} is not a folder")
    try:
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=existing):
            pass
    except OSError as error:
        raise EvidenceError(f"{root}: evidence can't be written there: {error.strerror or error}") from error


class RunFolder:
    """``path`` is made when the first test is written, so that a run without labs leaves nothing."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.root = root
        self.run_id = run_id
        self.path = root / run_id
        self._begun = time.time()

    @classmethod
    def begin(cls, root: Path | str) -> RunFolder:
        """A new run, named by the wall time. Raises EvidenceError where it can't be written."""
        root = Path(root)
        check_writable(root)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
        run_id, again = stamp, 1
        # Two runs may begin in the same millisecond.
        while (root / run_id).exists():
            again += 1
            run_id = f"{stamp}-{again}"
        return cls(root, run_id)

    @property
    def has_evidence(self) -> bool:
        return self.path.is_dir()

    def write(self, exercise: str, test: str, fill: Callable[[Path], None]) -> Path:
        """Make one test's folder: ``fill`` puts files into a folder of its own, which then gets sums and its name."""
        exercise, test = canonical.safe_name(exercise), canonical.safe_name(test)
        partial: Path | None = None
        try:
            home = self.path / exercise
            make_folder(home)
            # In the run's own folder: the rename stays within one file system, and what a killed process leaves is
            # found there.
            partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=self.path))
            partial.chmod(FOLDER_MODE)  # whatever the umask left of it
            fill(partial)
            write_sums(partial)
            return self._publish(partial, home, test)
        except BaseException as error:
            if partial is not None:
                shutil.rmtree(partial, ignore_errors=True)
            for folder in (self.path / exercise, self.path):
                with suppress(OSError):  # it holds something
                    folder.rmdir()
            if isinstance(error, OSError):
                raise EvidenceError(f"{self.path}: evidence can't be written: {error.strerror or error}") from error
            raise

    @staticmethod
    def _publish(partial: Path, home: Path, test: str) -> Path:
        """Rename is atomic, and refuses a folder that is there: a test run again gets its own."""
        again = 1
        while True:
            target = home / (test if again == 1 else f"{test}-{again}")
            if not target.exists():
                try:
                    os.rename(partial, target)
                    return target
                # Another process may have made a folder of this name since it was looked for; the next name is tried
                # then.
                except OSError:
                    if not target.exists():
                        raise
            again += 1

    def finish(self, versions: dict[str, str] | None = None, settings: dict[str, Any] | None = None) -> int:
        """Sum up the run and write run.json. Returns how many tests have evidence; 0 writes nothing. ``versions``,
        ``settings``: what all its tests share."""
        if not self.has_evidence:
            return 0
        tests = test_folders(self.path)
        try:
            listing = render_sums(
                (f"{name}/{SUMS_FILE}", digest(file_bytes(self.path / name / SUMS_FILE))) for name in tests
            )
            # The sums before run.json: whoever sees run.json may rely on all that it sums up.
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
        except OSError as error:
            raise EvidenceError(f"{self.path}: evidence can't be written: {error.strerror or error}") from error
        return len(tests)


def _lab_combinations(run: Path, tests: list[str]) -> list[RanOn]:
    """What the labs of a run ran on, each combination once, with the number of labs."""
    counts: dict[bytes, int] = {}
    for path in (lab for test in tests for lab in sorted((run / test).glob("*/lab.json"))):
        facts = typed.decode_json(file_bytes(path), LabFacts)
        one = RanOn(
            backend=facts.backend, scheduler=facts.scheduler, fleet=facts.fleet, versions=facts.versions, labs=0
        )
        # Structs with dicts in them can't be keys of a dict; their canonical text can, and puts them in order.
        key = canonical.compact_json(one)
        counts[key] = counts.get(key, 0) + 1
    return [structs.replace(typed.decode_json(key, RanOn), labs=count) for key, count in sorted(counts.items())]


def run_digest(run: Mapping[str, Any]) -> str:
    """The digest that run.json carries: of all its other fields."""
    return digest(canonical.compact_json({key: value for key, value in run.items() if key != "digest"}))


def test_folders(run: Path) -> list[str]:
    """``exercise/test`` of every test in a run, sorted."""
    return sorted(
        test.relative_to(run).as_posix()
        for exercise in run.iterdir()
        if exercise.is_dir() and not exercise.name.startswith(".")
        for test in exercise.iterdir()
        if test.is_dir()
    )


def write_file(path: Path, content: bytes) -> None:
    """A file that a user asked for, whole or not at all. It may be meant for others: its mode is the umask's. Raises InputError where it can't be
    written."""
    try:
        with replacing(path) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror or error}") from error
