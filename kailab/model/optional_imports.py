"""Import libraries that only an extra of the package installs."""

from __future__ import annotations

import importlib
from typing import Any

from kailab.errors import InputError


def import_optional(module: str, extra: str, need: str) -> Any:
    """A module of an extra. ``need``: what needs which library, as a sentence without its end. Raises InputError where it is not
    installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{need}, which is not installed: pip install 'kailab[{extra}]'") from None
