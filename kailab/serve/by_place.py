"""Objects of a look at a lab that goes on, by the places of what they are in the form's columns: those stay, places in lists do not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, overload

from kailab.cluster.protocol import Object


class ByPlace(Sequence[Object | None]):
    """``names``: the column, in full names; None where no object of that name is there."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.names: Sequence[str] = ()
        self._objects = objects

    @cached_property
    def _by_name(self) -> dict[str, Object]:
        return {full_name(one): one for one in self._objects}

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, place: int) -> Object | None: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Object | None]: ...

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self._by_name.get(name) for name in self.names[place]]
        return self._by_name.get(self.names[place])


def full_name(obj: Object) -> str:
    """``namespace/name``; the name of what is in no namespace."""
    metadata = obj["metadata"]
    space = metadata.get("namespace", "")
    return f"{space}/{metadata['name']}" if space else str(metadata["name"])
