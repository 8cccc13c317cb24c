"""Volcano as a user has it: a folder of its programs, with its CRDs in ``crds`` beside them.

Its module can't be built by others (its API is a folder of its own repository), so nobody gets it for the user.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.undertest.binaries import definitions, named_version, program

FOLDER_ENV = "KAILAB_VOLCANO_BIN"
PROGRAMS = ("scheduler", "controller-manager")
"""By the names that they have in its source (cmd/)."""

_WHOLE = f"a Volcano is these programs in one folder: {', '.join(PROGRAMS)}"
_NEEDED = (
    "queues.scheduling.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "jobs.batch.volcano.sh",
    # Without those of its job flows its controllers wait for ever, and open no queue.
    "jobflows.flow.volcano.sh",
    "jobtemplates.flow.volcano.sh",
)
_SAID = re.compile(r"^Version: (v\S+)", re.MULTILINE)
_SAY_SECONDS = 60


@dataclass(frozen=True)
class VolcanoFolder:
    """``programs``: each there, executable and for this platform. ``crds``: the definitions' objects."""

    path: Path
    programs: Mapping[str, Path]
    crds: tuple[dict[str, Any], ...]

    def version(self) -> str:
        """As its scheduler says, or as the folder is called; empty where neither tells it."""
        try:
            said = subprocess.run(
                [self.programs["scheduler"], "--version"],
                capture_output=True, text=True, timeout=_SAY_SECONDS, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return named_version(self.path)
        found = _SAID.search(said.stdout)
        return found[1] if found else named_version(self.path)


def find_volcano(given: Path | str | None = None) -> VolcanoFolder:
    """What is given, then ``KAILAB_VOLCANO_BIN``. Raises InputError, naming the file at fault."""
    text = str(given or os.environ.get(FOLDER_ENV) or "")
    if not text:
        raise InputError(
            f"the scheduler volcano needs the folder of its programs: volcano=DIR, or {FOLDER_ENV}. It holds "
            f"{' and '.join(PROGRAMS)}, and in crds/ the definitions of config/crd/volcano/bases and config/crd/jobflow/bases"
        )
    folder = Path(text).expanduser().absolute()
    if not folder.is_dir():
        told = "is a file" if folder.exists() else "is not there"
        raise InputError(f"{told}; expected the folder of Volcano's programs", Where(file=str(folder)))
    found = {name: program(folder, name, _WHOLE) for name in PROGRAMS}
    return VolcanoFolder(folder, found, _crds(folder / "crds"))


def _crds(folder: Path) -> tuple[dict[str, Any], ...]:
    if not folder.is_dir():
        raise InputError("is not there; expected the folder of Volcano's CRDs", Where(file=str(folder)))
    found = definitions(folder)
    for name in _NEEDED:
        if name not in found:
            raise InputError(f"has no CRD {name}; a lab with Volcano needs it", Where(file=str(folder)))
    return tuple(found.values())
