"""``-k``: what a kustomization makes, by kustomize or kubectl, whichever is here."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from kailab.errors import InputError, KailabError, Where

TIMEOUT_SECONDS = 120
_LOGGED = re.compile(r'err="((?:\\.|[^"\\])*)"')


def built(folder: Path) -> str:
    """The manifests as YAML. Raises InputError where there is no program for it, or it refuses."""
    if not folder.is_dir():
        raise InputError("is no folder; expected one with a kustomization.yaml", Where(file=str(folder)))
    command = [*_program(), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except OSError as error:
        raise InputError(f"{command[0]} can't be run: {error.strerror or error}") from None
    except subprocess.TimeoutExpired:
        raise InputError(f"{command[0]} did not end in {TIMEOUT_SECONDS} s", Where(file=str(folder))) from None
    if done.returncode:
        # kubectl's last line is one of its log: ... "command failed" err="what is wrong".
        said = _LOGGED.search(done.stderr)
        raise InputError(" ".join((said[1] if said else done.stderr).split()), Where(file=str(folder)))
    if not done.stdout.strip():
        raise InputError("the kustomization makes no objects", Where(file=str(folder)))
    return done.stdout


def _program() -> list[str]:
    from kailab.components.sets import find_components

    if kustomize := shutil.which("kustomize"):
        return [kustomize, "build"]
    if kubectl := shutil.which("kubectl"):
        return [kubectl, "kustomize"]
    try:
        return [str(find_components().path("kubectl")), "kustomize"]
    except KailabError:
        raise InputError(
            "-k needs kustomize or kubectl: neither is in PATH; `kailab components get` gets kubectl"
        ) from None
