"""A file with a header that identifies it and proves that it is intact: a line of JSON (magic, format, length,
checksum), then the body.

It is written under a temporary name, flushed to disk and renamed, so that a killed command leaves the previous file
intact.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from kailab.model import decoding
from kailab.model.private_files import make_folder, open_private, replacing

_LONGEST_HEADER = 4096


class SealHeader(msgspec.Struct):
    """The first line of the file. ``version``: of the format. ``sha256``: of the ``length`` bytes after the line."""

    magic: str
    version: int
    length: int
    sha256: str


class DamagedFile(ValueError):
    """The file is not as it was written."""


class WrongMagic(ValueError):
    """The file does not begin with the expected header."""


def seal(path: Path, magic: str, version: int, body: bytes) -> None:
    """Write a file atomically. Raises OSError; the old file then stays."""
    header = SealHeader(magic, version, len(body), hashlib.sha256(body).hexdigest())
    make_folder(path.parent)
    with replacing(path) as partial, open_private(partial, "wb") as file:
        file.write(msgspec.json.encode(header) + b"\n")
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    # The rename changes the directory, which must reach the disk, too.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def header_of(data: bytes, magic: str) -> tuple[SealHeader, bytes]:
    """The header and the bytes after it, unchecked. Raises WrongMagic."""
    # Do not search a large foreign file for an end of line.
    line, newline, body = data.partition(b"\n") if b"\n" in data[:_LONGEST_HEADER] else (b"", b"", b"")
    try:
        header = decoding.decode_json(line, SealHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise WrongMagic from None
    if not newline or header.magic != magic:
        raise WrongMagic
    return header, body


def check_body(header: SealHeader, body: bytes) -> None:
    """Raises DamagedFile with the reason."""
    if len(body) != header.length:
        raise DamagedFile(f"{header.length} bytes expected, {len(body)} found")
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise DamagedFile("its checksum does not match")
