"""The programs that a trial's cells need, got before the first of them begins: cells side by side would build them each for itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kailab.cluster.backends import BACKENDS
from kailab.trials.matrix import Trial


def get(trial: Trial, tell: Callable[[str], None]) -> None:
    """Of the control planes, and of contenders that are add-ons of one (by the name of their kind). Raises KailabError where they can't
    be got."""
    planes = [name for name in trial.isolations if "components" in BACKENDS[name].options]
    if not planes:
        return
    from kailab.components import ADDONS, get_addon, get_components

    folder = trial.options.get("components")
    get_components(trial.options.get("kubernetes"), Path(folder) if folder else None, tell=tell)
    for kind in dict.fromkeys(one.kind for one in trial.contenders):
        if kind in ADDONS:
            get_addon(kind, tell=tell)
