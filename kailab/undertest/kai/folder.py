"""Read a user's KAI: a folder of its programs, and its CRDs in a folder or file. The folder is checked before anything is started, so that a
missing file is reported by name.

The version comes from the log of the running scheduler, from the build information of its program, or from the name of the folder.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kailab.components.versions import build_information
from kailab.errors import InputError, Where
from kailab.undertest.binaries import (
    check_folder,
    given_path,
    locate_optional_program,
    locate_program,
    named_version,
    read_definitions,
)
from kailab.undertest.kai.releases import ADMISSION, ReleaseFeatures, features_by_marks, features_of, marks_of

_MODULE = re.compile(r"^mod\t[^\t\n]*(?:kai-scheduler|KAI-Scheduler|run-ai|NVIDIA)[^\t\n]*\t(v[^\t\n]+)", re.MULTILINE)
_REVISION = re.compile(r"^build\tvcs\.revision=([0-9a-f]{7,})", re.MULTILINE)
_STAMPED = re.compile(r"version\.(gitVersion|gitCommit)=([^'\"\s]+)")


def built_version(binary: Path) -> str:
    """The version in the build information that Go puts into a program (since Go 1.18)."""
    text = build_information(binary)
    if stamped := best_stamp(dict(_STAMPED.findall(text))):
        return stamped
    match = _MODULE.search(text) or _REVISION.search(text)
    return match[1] if match else ""


def best_stamp(stamps: dict[str, str]) -> str:
    """The version and commit that were stamped into a program."""
    version, commit = stamps.get("gitVersion", ""), stamps.get("gitCommit", "")
    return " ".join(part for part in (version, f"commit {commit}" if commit else "") if part)


# --- programs and CRDs ------------------------------------------------------------------------------------------------

BINARIES_ENV = "KAILAB_KAI_BIN"
CRDS_ENV = "KAILAB_KAI_CRDS"

BINARIES = ("scheduler", "podgrouper", "binder", "queuecontroller", "podgroupcontroller")
"""KAI's programs that a lab needs, by their names in its source (cmd/)."""

_WHOLE = f"a KAI consists of these programs in one folder: {', '.join(BINARIES)}"


@dataclass(frozen=True)
class KaiFolder:
    """``binaries``: program -> file; they exist, are executable and fit this platform. They include ``admission`` if the folder has it and
    its release needs it. ``crds``: the CRD objects. ``version``: from the build information, the folder's name, or strings in the
    programs; ``dialect``: the features of its release."""

    path: Path
    binaries: Mapping[str, Path]
    crds: tuple[dict[str, Any], ...]
    version: str
    dialect: ReleaseFeatures


def find_kai(binaries: Path | str | None = None, crds: Path | str | None = None) -> KaiFolder:
    """The KAI in the given folders, or in those that ``KAILAB_KAI_BIN`` and ``KAILAB_KAI_CRDS`` name. The default for CRDs is ``crds`` beside
    the programs. Raises InputError, naming the file at fault."""
    folder = given_path(binaries, BINARIES_ENV)
    if folder is None:
        raise InputError(
            "the scheduler kai needs the folder of a KAI's binaries: give it with --kailab-kai-bin (on the command line: "
            f"--kai-bin) or in {BINARIES_ENV}. It holds {', '.join(BINARIES)}, and KAI's CRDs in crds/"
        )
    check_folder(folder, "of KAI's binaries")
    programs = {name: locate_program(folder, name, _WHOLE) for name in BINARIES}
    try:
        version, dialect = _release(folder, programs)
    except InputError as error:
        raise InputError(error.message, Where(file=str(folder))) from None
    if dialect.pod_webhook is not None and (admission := locate_optional_program(folder, ADMISSION)) is not None:
        programs[ADMISSION] = admission
    return KaiFolder(folder, programs, _crds(given_path(crds, CRDS_ENV) or folder / "crds", dialect), version, dialect)


def _release(folder: Path, binaries: Mapping[str, Path]) -> tuple[str, ReleaseFeatures]:
    built, named = built_version(binaries["scheduler"]), named_version(folder)
    # The build information may have only a commit; then the name of the folder gives the release.
    if (dialect := features_of(f"{built} {named}")) is not None:
        return built or named, dialect
    dialect, between = features_by_marks(marks_of(binaries))
    return f"{built} ({between}, by its programs' words)".lstrip(), dialect


def _crds(path: Path, dialect: ReleaseFeatures) -> tuple[dict[str, Any], ...]:
    if not path.exists():
        raise InputError(
            f"is not there; expected KAI's CRDs (a folder or file of YAML): give it in {CRDS_ENV}, or put them into crds/ "
            "beside the binaries",
            Where(file=str(path)),
        )
    definitions = read_definitions(path)
    for name, version in dialect.crds.items():
        if name not in definitions:
            raise InputError(f"has no CRD {name}; a lab with KAI needs it", Where(file=str(path)))
        served = [v.get("name") for v in definitions[name].get("spec", {}).get("versions", ()) if v.get("served")]
        if version not in served:
            versions = ", ".join(map(str, served)) or "no version"
            raise InputError(f"CRD {name} serves {versions}; expected {version}", Where(file=str(path)))
    return tuple(definitions.values())


# --- version of a running KAI -----------------------------------------------------------------------------------------

_VERSION_LINE = re.compile(r"^(gitVersion|gitCommit): (?!Not provided)(\S+)$", re.MULTILINE)
_VERSION_MARK = b"gitVersion: "
_AROUND = 256  # in bytes; the other lines about the version are near this one


def kai_version(kai: KaiFolder, log: Path | None = None) -> str:
    """The version of a KAI, with the first digits of its scheduler's checksum, which distinguish two builds. ``log``: of its scheduler."""
    binary = kai.binaries["scheduler"]
    return f"{_logged_version(log) or kai.version}, scheduler sha256:{_digest(binary, binary.stat().st_mtime_ns)[:12]}"


def _logged_version(log: Path | None) -> str:
    """The version that the scheduler printed at its last start, or "". The log may contain starts of other releases before it."""
    if log is None:
        return ""
    # An empty file can't be mapped.
    with (
        suppress(OSError, ValueError),
        log.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as words,
    ):
        at = words.rfind(_VERSION_MARK)
        if at >= 0:
            near = words[max(0, at - _AROUND) : at + _AROUND].decode("utf-8", "replace")
            return best_stamp(dict(_VERSION_LINE.findall(near)))
    return ""


@lru_cache(maxsize=16)
def _digest(binary: Path, changed: int) -> str:
    # ``changed`` makes the cache read a replaced program again.
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
