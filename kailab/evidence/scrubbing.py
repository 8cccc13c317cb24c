"""Removes from free text what was left out of objects. A webhook's refusal, an event or a failure may quote it.

Three rules: a text that was left out is cut wherever it is quoted, plain, escaped or in base64; each of its words that looks like a credential is cut; and
text in the form of a credential is always cut. Words that are kept elsewhere (names, labels, queues) stay.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from kailab.evidence.entries import EntryType
from kailab.evidence.redaction import LEFT_OUT
from kailab.model import decoding

_SHORTEST = 6
"""Shorter texts (``yes``, ``8080``) are not cut, because they occur everywhere."""

_LONGEST_TOLD = 4096  # longer texts are not searched for in base64
_WORD = re.compile(r"[^\s\"'`=,;()\[\]{}<>|&\\]+")
# Ordinary words and options: ``learning-rate``, ``batchSize``. A word with digits is not ordinary.
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]*(?:-[a-z]+|[A-Z][a-z]+)*[.:!?]?")
_FORMS = re.compile(
    r"(?P<head>[a-z][a-z0-9+.-]*://)[^\s/@\"']+@"
    r"|(?P<kind>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/_=.~-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)


class Scrubber:
    """``left_out``: texts that no object of the evidence contains. ``kept``: words that the objects contain."""

    def __init__(self, left_out: Iterable[str], kept: Iterable[str]) -> None:
        # Indexed by their first characters, so that each place of a text costs one look-up, however many texts were left out.
        self._by_start: dict[str, list[str]] = {}
        self._words: set[str] = set()
        self._memo: dict[str, str] = {}
        # A part of a kept word can't be cut without damaging that word.
        known = "\n".join(sorted(set(kept)))
        self._leave_out(left_out, lambda form: form in known)

    def _leave_out(self, left_out: Iterable[str], is_kept: Callable[[str], bool]) -> tuple[set[str], set[str]]:
        """Add texts to cut. Return the added texts and words."""
        texts: set[str] = set()
        words: set[str] = set()
        for text in set(left_out):
            for form in (text, *_decoded(text)):
                form = form.strip()
                if len(form) >= _SHORTEST and not is_kept(form):
                    texts.add(form)
                words.update(word for word in _WORD.findall(form) if _is_telling(word) and not is_kept(word))
        texts |= {form for text in texts if len(text) <= _LONGEST_TOLD for form in _written(text)}
        for secret in texts:
            if secret not in (known := self._by_start.setdefault(secret[:_SHORTEST], [])):
                known.append(secret)
        self._words |= words
        return texts, words

    def leave_out(self, left_out: Iterable[str], kept: Collection[str]) -> bool:
        """Add texts to cut. ``kept``: as in the constructor. Return True if this changes texts that were scrubbed before."""
        texts, words = self._leave_out(left_out, lambda form: any(form in word for word in kept))
        new = texts | words
        if not new or not any(new_text in text for text in self._memo for new_text in new):
            return False
        self._memo.clear()
        return True

    def spare(self, kept: Iterable[str]) -> bool:
        """Add kept words. Return True if this changes texts that were scrubbed before."""
        known = "\n".join(kept)
        words = {word for word in self._words if word in known}
        texts = [text for texts in self._by_start.values() for text in texts if text in known]
        if not words and not texts:
            return False
        self._words -= words
        for text in texts:
            self._by_start[text[:_SHORTEST]].remove(text)
        self._memo.clear()
        return True

    def text(self, text: str) -> str:
        """Scrub a text; a mark replaces what is cut."""
        if len(text) < _SHORTEST:
            return text
        scrubbed = self._memo.get(text)
        if scrubbed is None:
            scrubbed = self._memo[text] = self._scrubbed(text)
        return scrubbed

    def value(self, value: Any) -> Any:
        """Scrub all strings of a JSON value. Returns the value itself if nothing was cut."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            new: Any = {key: self.value(inside) for key, inside in value.items()}
            return value if all(new[key] is inside for key, inside in value.items()) else new
        if isinstance(value, list | tuple):
            new = [self.value(inside) for inside in value]
            return value if all(a is b for a, b in zip(new, value)) else new
        return value

    def entry(self, entry: EntryType) -> EntryType:
        """Scrub all strings of an entry. Returns the entry itself if nothing was cut."""
        plain = msgspec.to_builtins(entry)
        new = self.value(plain)
        return entry if new is plain else decoding.convert(new, type(entry))

    def entries(self, entries: Iterable[EntryType]) -> list[EntryType]:
        """Scrub several entries."""
        return [self.entry(entry) for entry in entries]

    def _scrubbed(self, text: str) -> str:
        new = text
        starts = self._by_start
        ends = len(text) - _SHORTEST + 1
        quoted = (
            {secret for at in range(ends) for secret in starts.get(text[at : at + _SHORTEST], ())} if starts else set()
        )
        # Longest first, because a text that is part of another would leave its rest.
        for secret in sorted(quoted, key=lambda secret: (-len(secret), secret)):
            new = new.replace(secret, LEFT_OUT)
        # After whole texts, which may consist of ordinary words.
        if self._words:
            new = _WORD.sub(lambda match: LEFT_OUT if match[0] in self._words else match[0], new)
        new = _FORMS.sub(
            lambda match: f"{match['head'] or match['kind'] or ''}{LEFT_OUT}{'@' if match['head'] else ''}", new
        )
        return text if new == text else new


def _is_telling(word: str) -> bool:
    """True if a word is neither an ordinary word nor an option name."""
    return len(word) >= 8 and _PLAIN_WORD.fullmatch(word.lstrip("-")) is None


def _written(text: str) -> Iterable[str]:
    """The quoted forms of a text: in base64, in JSON, in source code."""
    yield base64.b64encode(text.encode()).decode()
    # Escaping changes the text, so that it would not be found as a whole.
    if not text.isalnum():
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])


def _decoded(text: str) -> Iterable[str]:
    """The decoded text, if a text is base64, as in ``data`` of a Secret."""
    if len(text) % 4 or len(text) < 8:
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return
