"""Where the recorded cases are: a folder outside the project, named by the variable KAILAB_SHARED."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "KAILAB_SHARED"


def shared_folder() -> Path:
    """The folder of recorded cases: $KAILAB_SHARED, or ``../shared`` beside the project's own folder."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[1].parent / "shared"
