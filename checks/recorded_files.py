"""Where the recorded cases are: a folder outside the project, named by the variable KAILAB_SHARED."""

from __future__ import annotations

import json
import os
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


VARIABLE = "KAILAB_SHARED"


def shared_folder() -> Path:
    """The folder of recorded cases: $KAILAB_SHARED, or ``../shared`` beside the project's own folder."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[1].parent / "shared"
