"""Reading a recorded file as JSON; what should be in it is its reader's own matter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.model.files import read_text


def read_json(path: Path) -> Any:
    """Raises InputError, with the file's name, where the file can't be read or isn't JSON."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", Where(file=str(path))) from None
