"""A run as one file: a tar archive, compressed, that is the same for the same run."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
from pathlib import Path

from kailab.errors import EvidenceError, InputError
from kailab.evidence import store
from kailab.model.files import file_bytes
from kailab.model.private_files import make_private


def export(run: Path, target: Path) -> int:
    """Write a run to ``target``; the number of files in it. Nothing is overwritten, and no half-written file is left. Raises InputError
    where there is a file already, EvidenceError for a run that is not what was written, or where it can't be written."""
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} is there already; nothing is overwritten")
    # Verified first: a damaged run in an archive would look like one that was damaged on its way.
    problems = store.verify(run)
    if problems:
        raise EvidenceError(f"{run}: not exported: {'; '.join(map(str, problems[:3]))}")
    names = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    try:
        _write(run, names, target)
    except FileExistsError as error:
        raise InputError(f"{target} is there already; nothing is overwritten") from error
    except OSError as error:
        raise EvidenceError(f"{target}: can't be written: {error.strerror or error}") from error
    return len(names)


def _write(run: Path, names: list[str], target: Path) -> None:
    """A link, unlike a rename, never takes the place of a file that has come meanwhile."""
    descriptor, partial = tempfile.mkstemp(dir=target.absolute().parent, prefix=f".{target.name}.")
    try:
        make_private(descriptor)
        with (
            os.fdopen(descriptor, "wb") as file,
            # Equal runs give equal bytes: neither a name nor a time goes in, and members have no owner and no time.
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
