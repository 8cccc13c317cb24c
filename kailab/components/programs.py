"""A program that is run as its users run it: named by its caller or a variable, else PATH's, else the cache's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kailab.components.cache import Cache
from kailab.components.pins import Pin
from kailab.errors import ConnectError


def find_program(pin: Pin, variable: str, how: str, path: Path | None = None) -> Path:
    """``variable``: of the environment, with a path; ``how``: one gets it, as half a sentence; ``path``: the caller's own, before all
    others. Raises ConnectError for a path that is no program, and where there is none; DamagedComponent."""
    told = path or (Path(os.environ[variable]).expanduser() if os.environ.get(variable) else None)
    if told is not None:
        if not (told.is_file() and os.access(told, os.X_OK)):
            raise ConnectError(f"{told} is no {pin.name} program; it was named as one (by {variable} or the caller)")
        return told.resolve()
    if (on_path := shutil.which(pin.name)) is not None:
        return Path(on_path)
    if (cached := Cache().checked(pin)) is not None:
        return cached
    raise ConnectError(f"there is no {pin.name} here, neither in PATH nor named by {variable}; {how}")
