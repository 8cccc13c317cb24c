"""Files that users name, and folders that may come from strangers, are opened in one place (``kailab.model.files``), which bounds what it reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kailab

ROOT = Path(kailab.__file__).parent
READS = {"read_text", "read_bytes"}
UNPACKS = {
    ("gzip", "open"),
    ("gzip", "decompress"),
    ("zlib", "decompress"),
    ("tarfile", "open"),
    ("zipfile", "ZipFile"),
}
ROOMS = (
    "cli", "course", "evidence", "fleet", "grouping", "lab", "model", "policies", "replay", "report", "scenarios", "scheduler", "studies", "trials",
)  # fmt: skip
"""What reads files of users. The others read what they made themselves: caches, certificates, logs of processes."""
OWN = {
    "model/files.py": "the one place",
    "model/file_trees.py": "files of an archive that was opened there, up to a bound",
    "model/schema_files.py": "a schema of the package",
    "model/private_files.py": "files that are written",
    "snapshots/anonymising.py": "a list of words of the package",
    "model/validation/core.py": "a table of the package",
    "course/slides.py": "a template of the package",
    "course/rules.py": "a shipped file, and a regular file beside it that has been read",
    "course/workspace.py": "shipped files, and a regular file that is to be replaced",
    "evidence/metrics/__init__.py": "a file of the package",
    "evidence/store.py": "an archive that is written",
    "snapshots/kai_archive.py": "bytes that were read, unpacked up to a bound",
    "report/page.py": "styles of the package",
    "replay/resume_file.py": "kailab's own modules",
    "scheduler/service/manifests/__init__.py": "a file of the package",
    "trials/upgrade.py": "tokens that the trial made",
}


def _reading(path: Path) -> list[int]:
    """Lines that read a file or unpack one."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):
            of = called.value.id if isinstance(called.value, ast.Name) else ""
            modes = [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
            plain_open = called.attr == "open" and modes[:1] in (["r"], ["rb"], ["rt"])
            if called.attr in READS or (of, called.attr) in UNPACKS or plain_open:
                found.append(node.lineno)
        elif isinstance(called, ast.Name) and called.id == "open":
            mode = next((one.value for one in node.args[1:2] if isinstance(one, ast.Constant)), "r")
            if "r" in mode:
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_files_of_users_are_opened_in_one_place(room) -> None:
    found = {
        str(path.relative_to(ROOT)): lines for path in sorted((ROOT / room).rglob("*.py")) if (lines := _reading(path))
    }
    assert {name: lines for name, lines in found.items() if name not in OWN} == {}


def test_what_is_excused_reads_something() -> None:
    assert [name for name in OWN if not _reading(ROOT / name)] == []
