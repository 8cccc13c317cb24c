"""A real KAI as a user has it: a folder of its binaries, and its CRDs in a folder or file.

Everything is looked at before anything is started, so that what is missing is told at once and by its name.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kailab.errors import InputError, Where
from kailab.undertest.kai.buildinfo import built_version, named_version
from kailab.undertest.kai.dialects import Dialect
from kailab.undertest.kai.releases import dialect_by_marks, dialect_of, marks_of

BINARIES_ENV = "KAILAB_KAI_BIN"
CRDS_ENV = "KAILAB_KAI_CRDS"

BINARIES = ("scheduler", "podgrouper", "binder", "queuecontroller", "podgroupcontroller")
"""KAI's programs that a lab needs, by the names they have in its source (cmd/)."""

_ELF_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64"}
_MACHO_CPUS = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
_SAME_MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class KaiFolder:
    """``binaries``: program -> file, each there, executable and for this platform. ``crds``: the definitions' objects.
    ``version``: as its programs were built, its folder is called, or its programs' words tell; ``dialect``: of its release."""

    path: Path
    binaries: Mapping[str, Path]
    crds: tuple[dict[str, Any], ...]
    version: str
    dialect: Dialect


def find_kai(binaries: Path | str | None = None, crds: Path | str | None = None) -> KaiFolder:
    """What is given, then the environment (``KAILAB_KAI_BIN``, ``KAILAB_KAI_CRDS``); CRDs lie in ``crds`` beside the
    binaries where nothing else is said. Raises InputError, naming the file at fault."""
    folder = _given(binaries, BINARIES_ENV)
    if folder is None:
        raise InputError(
            "the scheduler kai needs the folder of a KAI's binaries: give it with --kailab-kai-bin (on the command line: "
            f"--kai-bin) or in {BINARIES_ENV}. It holds {', '.join(BINARIES)}, and KAI's CRDs in crds/"
        )
    if not folder.is_dir():
        told = "is a file" if folder.exists() else "is not there"
        raise InputError(f"{told}; expected the folder of KAI's binaries", Where(file=str(folder)))
    found = {name: _binary(folder, name) for name in BINARIES}
    try:
        version, dialect = _release(folder, found)
    except InputError as error:
        raise InputError(error.message, Where(file=str(folder))) from None
    return KaiFolder(folder, found, _crds(_given(crds, CRDS_ENV) or folder / "crds", dialect), version, dialect)


def _release(folder: Path, binaries: Mapping[str, Path]) -> tuple[str, Dialect]:
    built, named = built_version(binaries["scheduler"]), named_version(folder)
    # A build may tell no more than a commit; the folder's name then says which release it is.
    if (dialect := dialect_of(f"{built} {named}")) is not None:
        return built or named, dialect
    dialect, between = dialect_by_marks(marks_of(binaries))
    return f"{built} ({between}, by its programs' words)".lstrip(), dialect


def _given(value: Path | str | None, env: str) -> Path | None:
    text = str(value or os.environ.get(env) or "")
    return Path(text).expanduser().absolute() if text else None


def _binary(folder: Path, name: str) -> Path:
    """The file of a program: ``name``, or ``name-amd64`` and the like, as KAI's own build calls it."""
    machine = platform.machine().lower()
    suffix = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    path = next((p for p in (folder / name, folder / f"{name}-{suffix}") if p.exists()), None)
    if path is None:
        raise InputError(
            f"is not there; a KAI is these programs in one folder: {', '.join(BINARIES)}",
            Where(file=str(folder / name)),
        )
    if not path.is_file():
        raise InputError("is not a file; expected a program", Where(file=str(path)))
    if not os.access(path, os.X_OK):
        raise InputError(f"is not executable; try `chmod +x {path}`", Where(file=str(path)))
    _check_platform(path)
    return path


def _check_platform(path: Path) -> None:
    """A program's file says what it is for in its first bytes (ELF, Mach-O); scripts run anywhere."""
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
        # The field e_machine, in the byte order that the sixth byte says.
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


def _crds(path: Path, dialect: Dialect) -> tuple[dict[str, Any], ...]:
    if not path.exists():
        raise InputError(
            f"is not there; expected KAI's CRDs (a folder or file of YAML): give it in {CRDS_ENV}, or put them into crds/ "
            "beside the binaries",
            Where(file=str(path)),
        )
    files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for document in _documents(file):
            if isinstance(document, dict) and document.get("kind") == "CustomResourceDefinition":
                # By name: of a definition that is there twice the last one counts, as if both were applied.
                found[str((document.get("metadata") or {}).get("name"))] = document
    for name, version in dialect.crds.items():
        if name not in found:
            raise InputError(f"has no CRD {name}; a lab with KAI needs it", Where(file=str(path)))
        served = [v.get("name") for v in found[name].get("spec", {}).get("versions", ()) if v.get("served")]
        if version not in served:
            told = ", ".join(map(str, served)) or "no version"
            raise InputError(f"CRD {name} serves {told}; expected {version}", Where(file=str(path)))
    return tuple(found.values())


def _documents(file: Path) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # KAI's CRDs are long
    try:
        return list(yaml.load_all(file.read_text(encoding="utf-8"), loader))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"can't be read: {error}", Where(file=str(file))) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        raise InputError(f"is not YAML: {getattr(error, 'problem', error)}", Where(file=str(file), line=line)) from None
