"""Which KAI a folder has, as its scheduler was built."""

from __future__ import annotations

import re
from pathlib import Path

from kailab.components.buildinfo import build_information

_MODULE = re.compile(r"^mod\t[^\t\n]*(?:kai-scheduler|KAI-Scheduler|run-ai|NVIDIA)[^\t\n]*\t(v[^\t\n]+)", re.MULTILINE)
_REVISION = re.compile(r"^build\tvcs\.revision=([0-9a-f]{7,})", re.MULTILINE)
_STAMPED = re.compile(r"version\.(gitVersion|gitCommit)=([^'\"\s]+)")


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
