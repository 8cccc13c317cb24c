"""What making any image needs of this machine, looked at before anything is got or made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from kailab.components import ComponentCache, Pin
from kailab.components.acquisition import format_seconds
from kailab.components.build import find_go
from kailab.components.lookup import chosen_folder
from kailab.components.pins import only_built, pins
from kailab.components.recipes import usual_seconds

_GB = 10**9


def missing_components(
    wanted: tuple[Pin, ...], kubernetes: str, components: Path | None, cache: ComponentCache
) -> tuple[Pin, ...]:
    """Programs that have to be got first: of those ``wanted`` and, unless a folder has them, those of a control plane of this release."""
    needed = wanted if components or chosen_folder() else (*pins(kubernetes), *wanted)
    return tuple(pin for pin in needed if cache.entry(pin) is None)


def tell_missing(missing: tuple[Pin, ...], tell: Callable[[str], None]) -> None:
    if missing:
        seconds = format_seconds(sum(map(usual_seconds, missing)))
        tell(f"to be got first: {', '.join(map(str, missing))}; where they have to be built that takes about {seconds}")


def without_go(missing: tuple[Pin, ...]) -> Iterator[str]:
    """That there is no Go for what can only be had with it."""
    built = [pin for pin in missing if only_built(pin)]
    if built and find_go() is None:
        yield f"there is no Go here, and {', '.join(map(str, built))} can only be had with it"


def without_room(store: Path, wanted: int) -> Iterator[str]:
    """That ``wanted`` bytes can't be written to the store."""
    place = next(path for path in (store, *store.parents) if path.is_dir())
    if (free := shutil.disk_usage(place).free) < wanted:
        yield f"{place}: {free / _GB:.1f} GB are free; {wanted / _GB:.0f} GB are needed"
    if not os.access(place, os.W_OK):
        yield f"{place}: can't be written"
