"""Large files of evidence, which are compressed: ``pods.json`` is then ``pods.json.gz``. Evidence of an older kailab has them as they are.

Pods, events and states repeat the same fields for each object, so they compress to a fiftieth of their size.
"""

from __future__ import annotations

import errno
import gzip
from pathlib import Path

from kailab.errors import EvidenceError, InputError, Where, os_errors_as
from kailab.model.files import file_bytes, unpacked
from kailab.model.private_files import write_bytes

LARGE = 100_000
"""A file is compressed from this many bytes on."""
SUFFIX = ".gz"


def write_stored_file(path: Path, content: bytes) -> None:
    """Write a file, compressed if it is large. Raises OSError."""
    if len(content) < LARGE:
        write_bytes(path, content)
    else:
        # Without the time of writing, so that equal runs give equal bytes.
        write_bytes(compressed(path), gzip.compress(content, 6, mtime=0))


def compressed(path: Path) -> Path:
    """The path of the compressed form of a file."""
    return path.with_name(f"{path.name}{SUFFIX}")


def stored_path(path: Path) -> Path:
    """The path of a file as it is on disk: itself, or its compressed form if only that exists."""
    return path if path.exists() or not (packed := compressed(path)).exists() else packed


def read_stored_file(path: Path) -> bytes:
    """The content of a file, compressed or not. Raises OSError, also if it can't be unpacked."""
    path = stored_path(path)
    content = file_bytes(path)
    if path.suffix != SUFFIX:
        return content
    try:
        return unpacked(content, Where())
    except InputError as error:
        raise OSError(errno.EINVAL, error.message, str(path)) from None


def read_evidence_file(path: Path) -> bytes:
    """As ``read_stored_file``, but raises EvidenceError."""
    with os_errors_as(EvidenceError, f"{path}: can't be read"):
        return read_stored_file(path)
