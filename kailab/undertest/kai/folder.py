"""A real KAI as a user has it: a folder of its binaries, and its CRDs in a folder or file.

Everything is looked at before anything is started, so that what is missing is told at once and by its name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.undertest.binaries import definitions, named_version, program, program_if_there
from kailab.undertest.kai.buildinfo import built_version
from kailab.undertest.kai.dialects import ADMISSION, Dialect
from kailab.undertest.kai.releases import dialect_by_marks, dialect_of, marks_of

BINARIES_ENV = "KAILAB_KAI_BIN"
CRDS_ENV = "KAILAB_KAI_CRDS"

BINARIES = ("scheduler", "podgrouper", "binder", "queuecontroller", "podgroupcontroller")
"""KAI's programs that a lab needs, by the names they have in its source (cmd/)."""

_WHOLE = f"a KAI is these programs in one folder: {', '.join(BINARIES)}"


@dataclass(frozen=True)
class KaiFolder:
    """``binaries``: program -> file, each there, executable and for this platform; beside those that a lab needs ``admission``, where
    the folder has it and its release has a use for it. ``crds``: the definitions' objects.
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
    found = {name: program(folder, name, _WHOLE) for name in BINARIES}
    try:
        version, dialect = _release(folder, found)
    except InputError as error:
        raise InputError(error.message, Where(file=str(folder))) from None
    if dialect.pod_webhook is not None and (admission := program_if_there(folder, ADMISSION)) is not None:
        found[ADMISSION] = admission
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


def _crds(path: Path, dialect: Dialect) -> tuple[dict[str, Any], ...]:
    if not path.exists():
        raise InputError(
            f"is not there; expected KAI's CRDs (a folder or file of YAML): give it in {CRDS_ENV}, or put them into crds/ "
            "beside the binaries",
            Where(file=str(path)),
        )
    found = definitions(path)
    for name, version in dialect.crds.items():
        if name not in found:
            raise InputError(f"has no CRD {name}; a lab with KAI needs it", Where(file=str(path)))
        served = [v.get("name") for v in found[name].get("spec", {}).get("versions", ()) if v.get("served")]
        if version not in served:
            told = ", ".join(map(str, served)) or "no version"
            raise InputError(f"CRD {name} serves {told}; expected {version}", Where(file=str(path)))
    return tuple(found.values())
