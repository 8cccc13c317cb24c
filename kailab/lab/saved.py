"""The file of a lab between commands: what the lab is, where its cluster is, what was decided, and for a cluster that is kept in the
file all of its objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kailab.cluster.embedded.storage.persistence import read_state, write_state
from kailab.engine.decisions import Decisions
from kailab.errors import InputError, StateError
from kailab.evidence.entries import PodEvicted
from kailab.lab.spec import LabSpec
from kailab.lab.venues import Place
from kailab.model import decoding


class SavedLab(LabSpec, kw_only=True):
    """``place``: where the cluster is. ``cycle``, ``evictions``, ``last``: of the decision log. ``changed``: it has not settled since
    something was done to it. ``starting``: its start is not done, so all that is known is where it will be."""

    place: Place = Place(backend="embedded")
    cycle: int = 0
    evictions: list[PodEvicted] = []
    last: Decisions | None = None
    changed: bool = True
    starting: bool = False

    @property
    def spec(self) -> LabSpec:
        return LabSpec(**{name: getattr(self, name) for name in LabSpec.__struct_fields__})


@dataclass(frozen=True)
class LabFile:
    """What was read from ``path``. ``state``: all its sections."""

    path: Path
    lab: SavedLab
    state: Mapping[str, Any]

    @contextmanager
    def damage_told(self) -> Iterator[None]:
        """Whatever the content of the file makes stumble is damage of it."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, msgspec.MsgspecError) as error:
            raise damaged(self.path, error) from error


def damaged(path: Path, error: Exception) -> StateError:
    return StateError(f"{path}: damaged: {error!r}; start afresh with `kailab down` and `kailab up`")


def read(path: Path) -> LabFile:
    """Raises StateError where there is none, or it is damaged."""
    state = read_state(path)
    try:
        # In files of earlier versions the lab of a real cluster has a section of its own.
        lab = decoding.convert(state["live"] if "live" in state else state["lab"], SavedLab)
        lab.spec.under_test  # noqa: B018  (there is such a scheduler)
    except (KeyError, ValueError, msgspec.MsgspecError, InputError) as error:
        raise damaged(path, error) from error
    return LabFile(path, lab, state)


def started(path: Path) -> LabFile:
    """As ``read``, of a lab whose start is done. Raises StateError where it is not, too."""
    file = read(path)
    if file.lab.starting:
        raise StateError(
            f"{path}: this lab is being started, or its start was cut short: `kailab up` starts it again, `kailab down` takes away what is "
            "there of it"
        )
    return file


def write(path: Path, lab: SavedLab) -> None:
    """The file of a lab whose cluster is elsewhere. Raises StateError."""
    write_state(path, {"lab": msgspec.to_builtins(lab)})
