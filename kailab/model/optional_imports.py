"""Import libraries that only an extra of the package installs."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from kailab.errors import InputError


def import_optional(module: str, extra: str, need: str) -> Any:
    """Return a module of an extra. ``need``: the beginning of the message, such as "Parquet needs pyarrow". Raises InputError if it
    is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{need}, which is not installed: pip install 'kailab[{extra}]'") from None


def require_extra(extra: str, libraries: tuple[str, ...], need: str) -> None:
    """Raise InputError if a library of an extra is not installed. A package that imports them at the top calls this first."""
    missing = [library for library in libraries if find_spec(library) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        raise InputError(
            f"{need} needs {' and '.join(missing)}, which {are} not installed: pip install 'kailab[{extra}]'"
        )
