"""What was cut of a lab that goes on, kept from one look to the next: objects and entries do not change, so only new ones are cut anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from kailab.evidence.cut_records import names_in
from kailab.evidence.cycles import Cycle
from kailab.evidence.redaction import Redaction
from kailab.evidence.scrubbing import Scrubber

T = TypeVar("T")

_SPARE = 1000
"""So many objects that are gone are kept at least."""


class _Cut(NamedTuple):
    """``source`` is held, so that no other object takes its identity."""

    source: Any
    kept: Any
    left_out: frozenset[str]
    fields: frozenset[str]
    words: frozenset[str]


class Cuts:
    """Of one lab. Words that were kept once are no secrets later: a name stays in text when its object is gone."""

    def __init__(self) -> None:
        self._selected: set[str] = set()
        self._learned: dict[int, tuple[Any, frozenset[str]]] = {}
        self._objects: dict[int, _Cut] = {}
        self._used: set[int] = set()
        self._manifests: dict[int, tuple[msgspec.Raw, Any]] = {}
        self._named: dict[int, Cycle] = {}
        self._words: set[str] = set()
        self._new_words: set[str] = set()
        self._left_out: set[str] = set()
        self._scrubber: Scrubber | None = None
        self._entries: dict[int, tuple[Any, Any]] = {}

    def learn(self, redaction: Redaction, objects: Iterable[Any]) -> None:
        """As ``Redaction.learn``."""
        for obj in objects:
            known = self._learned.get(id(obj))
            if known is None:
                one = Redaction()
                one.learn([obj])
                known = self._learned[id(obj)] = (obj, frozenset(one.selected))
            redaction.selected |= known[1]

    def cut(self, redaction: Redaction, obj: Any, words: Callable[[Any], set[str]]) -> Any:
        """As ``Redaction.object``. ``words``: those of what is kept that are no secrets."""
        if redaction.selected != self._selected:
            # Labels that nothing selected by are kept now.
            self._selected = set(redaction.selected)
            self._objects.clear()
        known = self._objects.get(id(obj))
        if known is None:
            one = Redaction()
            one.selected = redaction.selected
            kept = one.object(obj)
            known = _Cut(obj, kept, frozenset(one.left_out), frozenset(one.fields), frozenset(words(kept)))
            self._objects[id(obj)] = known
            self._new_words |= known.words - self._words
        self._used.add(id(obj))
        redaction.left_out |= known.left_out
        redaction.fields |= known.fields
        return known.kept

    def decoded(self, manifest: msgspec.Raw) -> Any:
        """The objects of a manifest, the same ones each time."""
        known = self._manifests.get(id(manifest))
        if known is None:
            known = self._manifests[id(manifest)] = (manifest, msgspec.json.decode(manifest))
        return known[1]

    def names(self, cycles: Iterable[Cycle]) -> None:
        """Take in the names of cycles' records."""
        new = [cycle for cycle in cycles if id(cycle) not in self._named]
        self._named.update((id(cycle), cycle) for cycle in new)
        self._new_words |= names_in(new) - self._words

    def scrubber(self, left_out: set[str]) -> Scrubber:
        """For what was left out by now."""
        if len(self._objects) > 2 * len(self._used) + _SPARE:
            self._objects = {key: cut for key, cut in self._objects.items() if key in self._used}
            self._learned = {key: one for key, one in self._learned.items() if key in self._used}
        self._used = set()
        self._words |= self._new_words
        if self._scrubber is None or left_out != self._left_out:
            self._left_out = set(left_out)
            self._scrubber = Scrubber(left_out, self._words)
            self._entries.clear()
        elif self._new_words and self._scrubber.spare(self._new_words):
            self._entries.clear()
        self._new_words = set()
        return self._scrubber

    def each(self, entries: Sequence[Any], make: Callable[[Any], T]) -> list[T]:
        """What is made of each entry by the scrubber, of which it was not yet."""
        known, found = self._entries, []
        for entry in entries:
            one = known.get(id(entry))
            if one is None:
                one = known[id(entry)] = (entry, make(entry))
            found.append(one[1])
        return found
