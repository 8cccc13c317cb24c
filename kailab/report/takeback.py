"""What holds for one moment only: changes of lists, dicts and fields that are noted, and taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ABSENT: Any = object()


class Takeback:
    """Notes changes from ``begin`` on, so that ``back`` undoes them. Before ``begin`` it only carries them out."""

    def __init__(self) -> None:
        self._noted: list[Callable[[], object]] | None = None

    def begin(self) -> None:
        self._noted = []

    def back(self) -> None:
        """All is as it was at ``begin``."""
        for undo in reversed(self._noted or ()):
            undo()
        self._noted = None

    def append(self, items: list[Any], value: Any) -> None:
        items.append(value)
        if self._noted is not None:
            self._noted.append(items.pop)

    def put(self, items: Any, key: Any, value: Any) -> None:
        """An item of a list, or of a dict."""
        if self._noted is not None:
            before = items.get(key, _ABSENT) if isinstance(items, dict) else items[key]
            self._noted.append(lambda: items.pop(key, None) if before is _ABSENT else items.__setitem__(key, before))
        items[key] = value

    def drop(self, items: dict[Any, Any], key: Any) -> None:
        """An item of a dict, which is there."""
        before = items.pop(key)
        if self._noted is not None:
            self._noted.append(lambda: items.__setitem__(key, before))

    def set(self, of: Any, name: str, value: Any) -> None:
        """A field."""
        if self._noted is not None:
            before = getattr(of, name)
            self._noted.append(lambda: setattr(of, name, before))
        setattr(of, name, value)
