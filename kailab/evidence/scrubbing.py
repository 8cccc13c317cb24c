"""Free text without what was left out of objects: a webhook's refusal, an event or a failure may quote it.

Three rules: a text that was left out is cut wherever it is quoted, plain, escaped or in base64; so is each word of it that looks like a
credential; and so is what has a credential's form, whoever wrote it. A word that is kept elsewhere (a name, a label, a queue) stays.
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
from kailab.model import typed

_SHORTEST = 6
"""Shorter texts (``yes``, ``8080``) say nothing and stand everywhere."""

_LONGEST_TOLD = 4096  # longer texts are not looked for in base64
_WORD = re.compile(r"[^\s\"'`=,;()\[\]{}<>|&\\]+")
# Words as a language or an option has them: ``learning-rate``, ``batchSize``. Digits in it make it telling.
_PLAIN_WORD = re.compile(r"[A-Z]?[a-z]*(?:-[a-z]+|[A-Z][a-z]+)*[.:!?]?")
_FORMS = re.compile(
    r"(?P<head>[a-z][a-z0-9+.-]*://)[^\s/@\"']+@"
    r"|(?P<kind>\b(?:Bearer|Basic)\s+)[A-Za-z0-9+/_=.~-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    re.DOTALL,
)


class Scrubber:
    """``left_out``: texts that are in no object of the evidence; ``kept``: words that are."""

    def __init__(self, left_out: Iterable[str], kept: Iterable[str]) -> None:
        # By their first characters: each place of a text is looked up once, however many texts were left out.
        self._by_start: dict[str, list[str]] = {}
        self._words: set[str] = set()
        self._memo: dict[str, str] = {}
        # One text of all kept words: what is a part of any of them can't be cut without cutting that one.
        known = "\n".join(sorted(set(kept)))
        self._leave_out(left_out, lambda form: form in known)

    def _leave_out(self, left_out: Iterable[str], is_kept: Callable[[str], bool]) -> tuple[set[str], set[str]]:
        """Look for more texts from now on. The texts and words that are looked for."""
        texts: set[str] = set()
        words: set[str] = set()
        for text in set(left_out):
            for form in (text, *_decoded(text)):
                form = form.strip()
                if len(form) >= _SHORTEST and not is_kept(form):
                    texts.add(form)
                words.update(word for word in _WORD.findall(form) if _is_telling(word) and not is_kept(word))
        texts |= {form for text in texts if len(text) <= _LONGEST_TOLD for form in _written(text)}
        for one in texts:
            if one not in (known := self._by_start.setdefault(one[:_SHORTEST], [])):
                known.append(one)
        self._words |= words
        return texts, words

    def leave_out(self, left_out: Iterable[str], kept: Collection[str]) -> bool:
        """Look for more texts from now on. ``kept``: as at the beginning. Whether any text is cut otherwise now."""
        texts, words = self._leave_out(left_out, lambda form: any(form in word for word in kept))
        new = texts | words
        if not new or not any(one in text for text in self._memo for one in new):
            return False
        self._memo.clear()
        return True

    def spare(self, kept: Iterable[str]) -> bool:
        """Take in more words that are kept. Whether any text is cut otherwise now."""
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
        """The text, with a mark where something was cut."""
        if len(text) < _SHORTEST:
            return text
        found = self._memo.get(text)
        if found is None:
            found = self._memo[text] = self._scrubbed(text)
        return found

    def value(self, value: Any) -> Any:
        """A JSON value with all its texts scrubbed; itself where nothing was cut."""
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
        """An entry of evidence with all its texts scrubbed; itself where nothing was cut."""
        plain = msgspec.to_builtins(entry)
        new = self.value(plain)
        return entry if new is plain else typed.convert(new, type(entry))

    def entries(self, entries: Iterable[EntryType]) -> list[EntryType]:
        """Several of them."""
        return [self.entry(one) for one in entries]

    def _scrubbed(self, text: str) -> str:
        new = text
        starts = self._by_start
        ends = len(text) - _SHORTEST + 1
        quoted = {one for at in range(ends) for one in starts.get(text[at : at + _SHORTEST], ())} if starts else set()
        # The longest first: one that is a part of another would leave the rest of it.
        for secret in sorted(quoted, key=lambda one: (-len(one), one)):
            new = new.replace(secret, LEFT_OUT)
        # After whole texts, which may consist of words that tell nothing by themselves.
        if self._words:
            new = _WORD.sub(lambda match: LEFT_OUT if match[0] in self._words else match[0], new)
        new = _FORMS.sub(
            lambda match: f"{match['head'] or match['kind'] or ''}{LEFT_OUT}{'@' if match['head'] else ''}", new
        )
        return text if new == text else new


def _is_telling(word: str) -> bool:
    """Whether a word is more than a word of a language or an option's name."""
    return len(word) >= 8 and _PLAIN_WORD.fullmatch(word.lstrip("-")) is None


def _written(text: str) -> Iterable[str]:
    """How a text is quoted: in base64, in JSON, in the source of a program."""
    yield base64.b64encode(text.encode()).decode()
    # What has to be escaped makes another text of it, of which words that tell nothing would stay.
    if not text.isalnum():
        yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1])


def _decoded(text: str) -> Iterable[str]:
    """What a base64 text stands for, if it is one: ``data`` of a Secret is."""
    if len(text) % 4 or len(text) < 8:
        return
    try:
        yield base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return
