"""Which KAI it is: as its scheduler says when it starts, as its program was built, or as its folder is called."""

from __future__ import annotations

import hashlib
import mmap
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kailab.undertest.kai.buildinfo import best_stamp
from kailab.undertest.kai.folder import KaiFolder

_SAID = re.compile(r"^(gitVersion|gitCommit): (?!Not provided)(\S+)$", re.MULTILINE)
_LAST_SAID = b"gitVersion: "
_AROUND = 256  # the other lines about its version stand beside this one


def kai_version(kai: KaiFolder, log: Path | None = None) -> str:
    """The version of a KAI, with the first digits of its scheduler's checksum, which tell two builds apart. ``log``: of its
    scheduler's process."""
    binary = kai.binaries["scheduler"]
    return f"{_said(log) or kai.version}, scheduler sha256:{_digest(binary, binary.stat().st_mtime_ns)[:12]}"


def _said(log: Path | None) -> str:
    """The scheduler prints its version first of all. What another release said in the same log before it does not count."""
    if log is None:
        return ""
    # An empty file can't be mapped.
    with (
        suppress(OSError, ValueError),
        log.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as words,
    ):
        at = words.rfind(_LAST_SAID)
        if at >= 0:
            told = words[max(0, at - _AROUND) : at + _AROUND].decode("utf-8", "replace")
            return best_stamp(dict(_SAID.findall(told)))
    return ""


@lru_cache(maxsize=16)
def _digest(binary: Path, changed: int) -> str:
    # ``changed`` is only there for the cache: a program that was replaced is read again.
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
