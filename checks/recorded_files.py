"""Recorded files: where they are, and reading them as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.model.files import read_text


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises InputError with the file's name if it cannot be read or is not JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", Where(file=str(path))) from None


VARIABLE = "KAILAB_SHARED"
"""The environment variable with the folder of recorded files."""


def shared_folder() -> Path:
    """The folder of recorded files: $KAILAB_SHARED, or ``../shared`` beside the project."""
    configured = os.environ.get(VARIABLE)
    return Path(configured) if configured else Path(__file__).resolve().parents[1].parent / "shared"
