"""Programs and CRDs in a user's folder, checked before any of them is used."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from kailab.errors import InputError, Where
from kailab.model.files import LARGEST_FILE, file_bytes

_FOLDER = re.compile(r"(?:^|[-_])(v\d+\.\d+\.\d+[-+.\w]*)$")
_ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
_MACHO_CPUS = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


def given_path(value: Path | str | None, variable: str) -> Path | None:
    """The absolute path that a caller or an environment variable names; None if neither does."""
    text = str(value or os.environ.get(variable) or "")
    return Path(text).expanduser().absolute() if text else None


def check_folder(path: Path, expected: str) -> None:
    """Raises InputError if there is no such folder. ``expected``: what it should be, for the error."""
    if not path.is_dir():
        problem = "is a file" if path.exists() else "is not there"
        raise InputError(f"{problem}; expected the folder {expected}", Where(file=str(path)))


def locate_program(folder: Path, name: str, expected: str) -> Path:
    """The file of a program: ``name``, or ``name-amd64`` and similar, as some builds name it. ``expected``: added to the error if it is
    missing. Raises InputError if it is no program for this machine."""
    path = locate_optional_program(folder, name)
    if path is None:
        raise InputError(f"is not there; {expected}", Where(file=str(folder / name)))
    return path


def locate_optional_program(folder: Path, name: str) -> Path | None:
    """The file of a program that a folder may lack. Raises InputError if it is no program for this machine."""
    machine = platform.machine().lower()
    suffix = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    path = next((p for p in (folder / name, folder / f"{name}-{suffix}") if p.exists()), None)
    if path is None:
        return None
    if not path.is_file():
        raise InputError("is not a file; expected a program", Where(file=str(path)))
    if not os.access(path, os.X_OK):
        raise InputError(f"is not executable; try `chmod +x {path}`", Where(file=str(path)))
    _check_platform(path)
    return path


def _check_platform(path: Path) -> None:
    """Check the platform in the first bytes of a program (ELF, Mach-O); scripts run anywhere."""
    try:
        with path.open("rb") as file:
            head = file.read(20)
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", Where(file=str(path))) from None
    if head.startswith(b"#!"):
        return
    machine = platform.machine().lower()
    here = (sys.platform, _SAME_MACHINE.get(machine, machine))
    if head.startswith(b"\x7fELF") and len(head) == 20:
        # The field e_machine, in the byte order of the sixth byte.
        number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
        there = ("linux", _ELF_MACHINES.get(number, f"machine {number:#x}"))
    elif head.startswith(b"\xcf\xfa\xed\xfe"):
        number = int.from_bytes(head[4:8], "little")
        there = ("darwin", _MACHO_CPUS.get(number, f"cpu {number:#x}"))
    elif head.startswith(b"MZ"):
        there = ("windows", "any")
    else:
        raise InputError("is not a program (neither ELF nor Mach-O)", Where(file=str(path)))
    if there != here:
        raise InputError(f"is a program for {'/'.join(there)}, not for {'/'.join(here)}", Where(file=str(path)))


def _documents(file: Path) -> list[Any]:
    """The documents of a YAML file. Raises InputError if it can't be read."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # definitions are long
    try:
        return list(yaml.load_all(file_bytes(file, LARGEST_FILE).decode("utf-8"), loader))
    except (OSError, ValueError) as error:  # ValueError: also a date or a number that Python can't hold
        raise InputError(f"can't be read: {error}", Where(file=str(file))) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        raise InputError(f"is not YAML: {getattr(error, 'problem', error)}", Where(file=str(file), line=line)) from None


def read_definitions(path: Path) -> dict[str, dict[str, Any]]:
    """The CustomResourceDefinitions of a folder or a file, by name. Raises InputError if it can't be read."""
    files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    result: dict[str, dict[str, Any]] = {}
    for file in files:
        for document in _documents(file):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                # By name: of two definitions with one name the last one counts, as if both were applied.
                result[str((document.get("metadata") or {}).get("name"))] = document
    return result


def named_version(folder: Path) -> str:
    """The release in the name of a folder or of its parent, else ""."""
    for place in (folder, folder.parent):
        if match := _FOLDER.search(place.name):
            return f"{match[1]} (by its folder's name)"
    return ""
