"""What was cut of a lab that goes on, kept from one look to the next: objects and entries do not change, so only new ones are cut anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kailab.evidence.cut_records import names_in
from kailab.evidence.cycles import Cycle
from kailab.evidence.redaction import Redaction
from kailab.evidence.scrubbing import Scrubber

_MANY = 100
"""So many new texts to be left out are looked for one by one."""


class _Cut(NamedTuple):
    """``source`` is held, so that no other object takes its identity."""

    source: Any
    kept: Any
    left_out: frozenset[str]
    fields: frozenset[str]
    words: frozenset[str]


class Fresh(NamedTuple):
    """What is another since the look before, in a look: objects as they are kept, by kind."""

    new: dict[str, list[Any]]
    gone: dict[str, list[Any]]


class Cuts:
    """Of one lab. Words that were kept once are no secrets later: a name stays in text when its object is gone. ``generation`` counts how
    often all had to be cut anew."""

    def __init__(self) -> None:
        self.generation = 0
        self._selected: set[str] = set()
        self._learned: dict[int, tuple[Any, frozenset[str]]] = {}
        self._objects: dict[int, _Cut] = {}
        self._looks: dict[str, dict[str, dict[int, _Cut]]] = {}
        self._given: dict[str, Mapping[str, Sequence[Any]]] = {}
        self._held: Counter[str] = Counter()
        self._manifests: dict[int, tuple[msgspec.Raw, Any]] = {}
        self._named = 0
        self._words: set[str] = set()
        self._new_words: set[str] = set()
        self._left_out: set[str] = set()
        self._scrubber: Scrubber | None = None

    def learn(self, redaction: Redaction, objects: Sequence[Any]) -> None:
        """As ``Redaction.learn``, of a list that does not change."""
        known = self._learned.get(id(objects))
        if known is None:
            one = Redaction()
            one.learn(objects)
            known = self._learned[id(objects)] = (objects, frozenset(one.selected))
        redaction.selected |= known[1]

    def cut(self, redaction: Redaction, obj: Any, words: Callable[[Any], set[str]]) -> Any:
        """As ``Redaction.object``, of an object that stays. ``words``: those of what is kept that are no secrets."""
        self._select(redaction)
        known = self._objects.get(id(obj))
        if known is None:
            known = self._objects[id(obj)] = self._cut(obj, words, redaction.applied)
        redaction.left_out |= known.left_out
        redaction.fields |= known.fields
        return known.kept

    def look(
        self, redaction: Redaction, name: str, look: Mapping[str, Sequence[Any]], words: Callable[[Any], set[str]]
    ) -> Fresh:
        """Cut the objects of a look, those that were not there before; what was left out of any is known then."""
        self._select(redaction)
        looks, fresh = self._looks.setdefault(name, {}), Fresh({}, {})
        same, self._given[name] = self._given.get(name) is look, look
        for kind, objects in () if same else look.items():
            before = looks.get(kind, {})
            here = looks[kind] = {id(obj): before.get(id(obj)) or self._cut(obj, words) for obj in objects}
            fresh.new[kind] = [cut.kept for key, cut in here.items() if key not in before]
            gone = [cut for key, cut in before.items() if key not in here]
            fresh.gone[kind] = [cut.kept for cut in gone]
            self._held.update(text for key, cut in here.items() if key not in before for text in cut.left_out)
            self._held.subtract(text for cut in gone for text in cut.left_out)
        redaction.left_out |= {text for text, count in self._held.items() if count > 0}
        return fresh

    def kept(self, name: str, kind: str, obj: Any) -> Any:
        """What is kept of an object of a look."""
        return self._looks[name][kind][id(obj)].kept

    def _select(self, redaction: Redaction) -> None:
        if redaction.selected != self._selected:
            # Labels that nothing selected by are kept now.
            self._selected = set(redaction.selected)
            self._objects.clear()
            self._looks.clear()
            self._given.clear()
            self._held.clear()
            self.generation += 1

    def _cut(self, obj: Any, words: Callable[[Any], set[str]], applied: bool = False) -> _Cut:
        one = Redaction()
        one.applied = applied
        one.selected = self._selected
        kept = one.object(obj)
        found = frozenset(words(kept))
        self._new_words |= found - self._words
        return _Cut(obj, kept, frozenset(one.left_out), frozenset(one.fields), found)

    def decoded(self, manifest: msgspec.Raw) -> Any:
        """The objects of a manifest, the same ones each time."""
        known = self._manifests.get(id(manifest))
        if known is None:
            known = self._manifests[id(manifest)] = (manifest, msgspec.json.decode(manifest))
        return known[1]

    def names(self, cycles: Sequence[Cycle]) -> None:
        """Take in the names of cycles' records, of those that came behind the ones of before."""
        self._new_words |= names_in(cycles[self._named :]) - self._words
        self._named = len(cycles)

    def scrubber(self, left_out: set[str]) -> Scrubber:
        """For what was left out by now. It stays left out when its object is gone."""
        spared, self._words = self._new_words - self._words, self._words | self._new_words
        self._new_words = set()
        more = left_out - self._left_out
        self._left_out |= more
        if self._scrubber is None or len(more) > _MANY:
            self._scrubber = Scrubber(self._left_out, self._words)
            self.generation += 1
            return self._scrubber
        otherwise = bool(spared) and self._scrubber.spare(spared)
        if more:
            otherwise |= self._scrubber.leave_out(more, self._words)
        self.generation += otherwise
        return self._scrubber
