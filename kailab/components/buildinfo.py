"""What a Go program tells of how it was built, read from its file: it need not be run for that."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

_MAGIC = b"\xff Go buildinf:"


def module_version(binary: Path, module: str) -> str:
    """Of a module that is in the program, with its ``v``; empty if it is not, or the program is not Go's."""
    found = re.search(rf"^(?:mod|dep)\t{re.escape(module)}\t(v[^\t\n]+)", build_information(binary), re.MULTILINE)
    return found[1] if found else ""


def build_information(binary: Path) -> str:
    """Module and settings of a Go program, a line each; empty for other programs. Source: Go's debug/buildinfo."""
    try:
        with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(_MAGIC)
            # Behind the magic: a pointer's size, flags (2: strings stand here), and padding up to 32 bytes.
            if at < 0 or not content[at + 15] & 2:  # before Go 1.18 there are pointers here
                return ""
            _, at = _string(content, at + 32)
            information, _ = _string(content, at)
    except (OSError, ValueError, IndexError):
        return ""
    # Go puts a mark of 16 bytes before and behind it.
    return information[16:-16].decode("utf-8", "replace")


def _string(content: mmap.mmap, at: int) -> tuple[bytes, int]:
    """A string with its length in front, and where it ends."""
    length = shift = 0
    while True:
        byte = content[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return content[at : at + length], at + length
