"""The programs that a trial's cells need, got before the first of them begins: cells side by side would build them each for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kailab.cluster.backends import BACKENDS
from kailab.trials.matrix import Trial


def get(trial: Trial, tell: Callable[[str], None]) -> None:
    """Of the control planes. (A contender whose own programs are not here was refused, with the command that gets them.) Raises
    KailabError where they can't be got."""
    planes = [name for name in trial.isolations if "components" in BACKENDS[name].options]
    if not planes:
        return
    from kailab.components import get_components

    folder = trial.options.get("components")
    get_components(trial.options.get("kubernetes"), Path(folder) if folder else None, tell=tell)
