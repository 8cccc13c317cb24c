"""The file of a lab between commands: its spec, the place of its cluster, the decisions, and for an embedded cluster all objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kailab.cluster.embedded.storage.state_file import read_state, write_state
from kailab.engine.decisions import Decisions
from kailab.errors import InputError, StateError
from kailab.evidence.entries import PodEvicted
from kailab.lab.spec import LabSpec
from kailab.lab.venues import Place
from kailab.model import decoding


class SavedLab(LabSpec, kw_only=True):
    """``place``: where the cluster is. ``cycle``, ``evictions``, ``last``: of the decision log. ``changed``: the lab has not settled since
    the last change. ``starting``: the lab has not completely started, so that only its place is known."""

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
    """The content of the file ``path``. ``state``: all its sections."""

    path: Path
    lab: SavedLab
    state: Mapping[str, Any]

    @contextmanager
    def report_damage(self) -> Iterator[None]:
        """Treat any error inside as damage of the file. Raises StateError."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, msgspec.MsgspecError) as error:
            raise damaged(self.path, error) from error


def damaged(path: Path, error: Exception) -> StateError:
    return StateError(f"{path}: damaged: {error!r}; start afresh with `kailab down` and `kailab up`")


def read_saved_lab(path: Path) -> LabFile:
    """Raises StateError if there is no such file, or it is damaged."""
    state = read_state(path)
    try:
        lab = decoding.convert(state["lab"], SavedLab)
        lab.spec.under_test  # noqa: B018  (there is such a scheduler)
    except (KeyError, ValueError, msgspec.MsgspecError, InputError) as error:
        raise damaged(path, error) from error
    return LabFile(path, lab, state)


def read_started(path: Path) -> LabFile:
    """As ``read_saved_lab``, for a lab that has completely started. Raises StateError also if it has not."""
    file = read_saved_lab(path)
    if file.lab.starting:
        raise StateError(
            f"{path}: this lab is being started, or its start was interrupted: `kailab up` starts it again, `kailab down` removes "
            "what there is of it"
        )
    return file


def write_saved_lab(path: Path, lab: SavedLab) -> None:
    """Write the file of a lab whose cluster is not kept in it. Raises StateError."""
    write_state(path, {"lab": msgspec.to_builtins(lab)})
