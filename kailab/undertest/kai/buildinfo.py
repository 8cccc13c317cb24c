"""Which KAI a folder has: as its scheduler was built, or as the folder is called."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

_MODULE = re.compile(r"^mod\t[^\t\n]*(?:kai-scheduler|KAI-Scheduler|run-ai|NVIDIA)[^\t\n]*\t(v[^\t\n]+)", re.MULTILINE)
_REVISION = re.compile(r"^build\tvcs\.revision=([0-9a-f]{7,})", re.MULTILINE)
_STAMPED = re.compile(r"version\.(gitVersion|gitCommit)=([^'\"\s]+)")
_FOLDER = re.compile(r"(?:^|[-_])(v\d+\.\d+\.\d+[-+.\w]*)$")
_MAGIC = b"\xff Go buildinf:"


def built_version(binary: Path) -> str:
    """From the build information that Go puts into a program (since Go 1.18)."""
    text = build_information(binary)
    if stamped := best_stamp(dict(_STAMPED.findall(text))):
        return stamped
    found = _MODULE.search(text) or _REVISION.search(text)
    return found[1] if found else ""


def best_stamp(stamps: dict[str, str]) -> str:
    """Version and commit, of what was stamped into a program."""
    version, commit = stamps.get("gitVersion", ""), stamps.get("gitCommit", "")
    return " ".join(part for part in (version, f"commit {commit}" if commit else "") if part)


def named_version(folder: Path) -> str:
    """A folder that is called for a release, or lies in one that is."""
    for one in (folder, folder.parent):
        if found := _FOLDER.search(one.name):
            return f"{found[1]} (by its folder's name)"
    return ""


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
