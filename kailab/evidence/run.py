"""The folder of one run: evidence/<run id>/<exercise>/<test>/, each test's folder appearing whole or not at all.

Several processes may write tests into one run at once (pytest-xdist); one of them, the one that began it,
finishes it. ``run.json`` is the only file with wall times and versions, hence the only one that differs between
equal runs. It carries its own digest and that of the run's SHA256SUMS, which in turn sums up the SHA256SUMS of
every test."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from kailab.errors import EvidenceError, InputError
from kailab.evidence import canonical, sums
from kailab.evidence.entries import LabFacts, RanOn, RunFacts
from kailab.model import typed
from kailab.model.files import file_bytes
from kailab.model.private_files import FOLDER_MODE, PARTIAL, make_folder, replace_file, replacing

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
            sums.write(partial)
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
            listing = sums.render(
                (f"{name}/{sums.FILE}", sums.digest(file_bytes(self.path / name / sums.FILE))) for name in tests
            )
            # The sums before run.json: whoever sees run.json may rely on all that it sums up.
            replace_file(self.path / sums.FILE, listing)
            run = RunFacts(
                run=self.run_id,
                begun=canonical.rfc3339(round(self._begun, 3)),
                ended=canonical.rfc3339(round(time.time(), 3)),
                tests=len(tests),
                labs=tuple(_labs(self.path, tests)),
                versions=versions or {},
                settings=settings or {},
                sums=sums.digest(listing),
            )
            run = structs.replace(run, digest=run_digest(msgspec.to_builtins(run)))
            replace_file(self.path / RUN, canonical.pretty(run))
        except OSError as error:
            raise EvidenceError(f"{self.path}: evidence can't be written: {error.strerror or error}") from error
        return len(tests)


def _labs(run: Path, tests: list[str]) -> list[RanOn]:
    """What the labs of a run ran on, each combination once, with the number of labs."""
    counts: dict[bytes, int] = {}
    for path in (lab for test in tests for lab in sorted((run / test).glob("*/lab.json"))):
        facts = typed.decode_json(file_bytes(path), LabFacts)
        one = RanOn(
            backend=facts.backend, scheduler=facts.scheduler, fleet=facts.fleet, versions=facts.versions, labs=0
        )
        # Structs with dicts in them can't be keys of a dict; their canonical text can, and puts them in order.
        key = canonical.compact(one)
        counts[key] = counts.get(key, 0) + 1
    return [structs.replace(typed.decode_json(key, RanOn), labs=count) for key, count in sorted(counts.items())]


def run_digest(run: Mapping[str, Any]) -> str:
    """The digest that run.json carries: of all its other fields."""
    return sums.digest(canonical.compact({key: value for key, value in run.items() if key != "digest"}))


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
