"""Which KAI a folder has: as its scheduler was built, or as the folder is called."""

from __future__ import annotations

import re
from pathlib import Path

from kailab.components.buildinfo import build_information

_MODULE = re.compile(r"^mod\t[^\t\n]*(?:kai-scheduler|KAI-Scheduler|run-ai|NVIDIA)[^\t\n]*\t(v[^\t\n]+)", re.MULTILINE)
_REVISION = re.compile(r"^build\tvcs\.revision=([0-9a-f]{7,})", re.MULTILINE)
_STAMPED = re.compile(r"version\.(gitVersion|gitCommit)=([^'\"\s]+)")
_FOLDER = re.compile(r"(?:^|[-_])(v\d+\.\d+\.\d+[-+.\w]*)$")


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
