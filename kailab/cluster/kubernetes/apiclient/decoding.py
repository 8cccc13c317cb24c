"""Decodes a server's JSON so that equal parts of objects are one value in memory.

Thousands of pods differ in their names and little else. A part with equal JSON in two objects (a field of the spec, a
condition, the labels) becomes one value, found by its bytes without decoding it again. Decoded objects are never
changed in place, so sharing is safe. ``managedFields`` is skipped without decoding: nobody reads it, and it is often
the largest part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kailab.cluster.protocol import Object

_fields: Callable[[bytes | msgspec.Raw], dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_entries: Callable[[bytes], list[dict[str, msgspec.Raw]]] = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_decode = msgspec.json.Decoder().decode
_KEPT = 4096  # parts of one generation
_LARGE = 1024  # bytes from which a part is rarely equal to another as a whole
_OWN = frozenset(("uid", "resourceVersion"))  # fields with a value of their own for each object or state


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Page(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class SharingDecoder:
    """Decodes objects and shares equal parts with those decoded recently. Several threads may use it at once."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        # Two generations: a part that is met again moves to the young one; others are dropped with the old one.
        self._young: dict[bytes, Any] = {}
        self._old: dict[bytes, Any] = {}

    def __len__(self) -> int:
        """The number of remembered parts."""
        return len(self._young) + len(self._old)

    def event(self, line: bytes) -> tuple[str, Object]:
        """Type and object of one line of a watch. Raises msgspec.DecodeError."""
        event = _EVENT(line)
        return event.type, self.object(event.object)

    def page(self, body: bytes) -> tuple[list[Object], dict[str, Any]]:
        """Objects and metadata of one page of a list. Raises msgspec.DecodeError."""
        page = _PAGE(body)
        return [self.object(item) for item in page.items or ()], page.metadata

    def object(self, raw: bytes | msgspec.Raw) -> Object:
        """One object, in a dict of its own, with metadata of its own. Raises msgspec.DecodeError."""
        return {
            sys.intern(name): self._metadata(bytes(value)) if name == "metadata" else self._parted(bytes(value), 2)
            for name, value in _fields(raw).items()
        }

    def _metadata(self, raw: bytes) -> Any:
        if not raw.startswith(b"{"):
            return _decode(raw)
        fields = _fields(raw)
        fields.pop("managedFields", None)
        return {
            sys.intern(name): _decode(value) if name in _OWN else self._parted(bytes(value), 1)
            for name, value in fields.items()
        }

    def _parted(self, raw: bytes, depth: int) -> Any:
        """A part, with its own parts shared down to this depth."""
        if len(raw) > _LARGE:
            return self._made(raw, depth)
        part = self._young.get(raw, self)
        if part is self:
            part = self._old.get(raw, self)
            if part is self:
                part = self._made(raw, depth)
            if len(self._young) >= self._kept:
                self._old, self._young = self._young, {}
            self._young[raw] = part
        return part

    def _made(self, raw: bytes, depth: int) -> Any:
        if depth <= 0:
            return _decode(raw)
        if raw.startswith(b"{"):
            return self._of(_fields(raw), depth)
        if raw.startswith(b"[{"):
            try:
                entries = _entries(raw)
            except msgspec.ValidationError:  # some entries are no objects
                return _decode(raw)
            return [self._of(entry, depth) for entry in entries]
        return _decode(raw)

    def _of(self, fields: Mapping[str, msgspec.Raw], depth: int) -> dict[str, Any]:
        return {sys.intern(name): self._parted(bytes(value), depth - 1) for name, value in fields.items()}


_EVENT: Callable[[bytes], _Event] = msgspec.json.Decoder(_Event).decode
_PAGE: Callable[[bytes], _Page] = msgspec.json.Decoder(_Page).decode
