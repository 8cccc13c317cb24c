"""Programs asked for their version: that each runs here, and is what it is taken for."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kailab.components.buildinfo import module_version
from kailab.components.failures import WrongComponent
from kailab.components.pins import ADDONS, FILES, MANIFESTS, Pin
from kailab.components.recipes import RECIPES

if TYPE_CHECKING:
    from kailab.components.sets import ComponentSet

_PATIENCE_SECONDS = 120.0  # the first start of a program of 150 MB, on a busy machine
_QUESTIONS = {
    "kubectl": ("version", "--client"),
    "kubeadm": ("version", "--output", "short"),
    "helm": ("version", "--template", "{{.Version}}"),
}
_SILENT = (*ADDONS, "kine", "u-root")
"""Few of their programs answer to ``--version``, or not with their module's."""
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)")


def reported_version(name: str, path: Path) -> str:
    """With its ``v``. Raises WrongComponent."""
    question = [str(path), *_QUESTIONS.get(name, ("--version",))]
    try:
        done = subprocess.run(
            question,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongComponent(f"{path}: it does not run here: {error}") from error
    found = _VERSION.search(done.stdout)
    if done.returncode or found is None:
        said = " ".join((done.stderr or done.stdout).split())[:200]
        raise WrongComponent(f"{path}: asked for its version it said {said!r} (exit code {done.returncode})")
    return f"v{found.group(1)}"


def check_version(pin: Pin, path: Path) -> None:
    """Raises WrongComponent."""
    if pin.name in (MANIFESTS, *FILES):
        return  # written by us, from the module of that version
    told = _built_version(pin, path) if pin.project in _SILENT else reported_version(pin.name, path)
    if told != pin.version:
        raise WrongComponent(f"{path}: it is {pin.name} {told}; {pin.version} was expected")


def _built_version(pin: Pin, path: Path) -> str:
    told = module_version(path, RECIPES[pin.project].module)
    if not told:
        raise WrongComponent(f"{path}: it does not say in its build information that it is {pin.name}")
    return told


def reported_or_unknown(name: str, programs: ComponentSet) -> str:
    """The version of a program of a set, for a record; ``unknown``, and why, where it does not say it."""
    try:
        return _told_once(name, programs.path(name))
    except WrongComponent as error:
        return f"unknown ({error})"


_told_once = lru_cache(maxsize=64)(reported_version)
