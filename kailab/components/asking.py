"""Programs asked for their version: that each runs here, and is what it is taken for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kailab.components.failures import WrongComponent
from kailab.components.pins import Pin

_PATIENCE_SECONDS = 120.0  # the first start of a program of 150 MB, on a busy machine
_QUESTIONS = {"kubectl": ("version", "--client")}
_VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+[-+.\w]*)")


def told_version(name: str, path: Path) -> str:
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
    told = told_version(pin.name, path)
    if told != pin.version:
        raise WrongComponent(f"{path}: it is {pin.name} {told}; {pin.version} was expected")
