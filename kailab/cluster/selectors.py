"""Label selectors: kubectl's ``-l`` text, plain mappings and ``LabelSelector`` objects, each read into a list of terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from kailab.errors import Invalid

LabelOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]

_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
_EQUALITY = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*({_VALUE})$")
_SET = re.compile(rf"^({_KEY})\s+(in|notin)\s*\(([^()]*)\)$")
_EXISTS = re.compile(rf"^(!?)\s*({_KEY})$")
# A comma between terms, not inside the parentheses of ``in (a, b)``.
_COMMA = re.compile(r",(?![^(]*\))")


class Term(NamedTuple):
    """One requirement on a label."""

    key: str
    operator: LabelOperator
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator == "In":
            return value in self.values
        if self.operator == "NotIn":
            # No set contains an absent label: NotIn holds, as in Kubernetes.
            return value not in self.values
        return (value is not None) == (self.operator == "Exists")


Selector = tuple[Term, ...]


def matches(selector: Selector, labels: Mapping[str, str] | None) -> bool:
    """True if all terms hold; an empty selector matches everything."""
    labels = labels or {}
    return all(term.holds(labels) for term in selector)


# The same few selectors are parsed again and again.
@lru_cache(maxsize=512)
def parse_selector(text: str) -> Selector:
    """Terms of a selector as kubectl takes it: ``a=b,c!=d,e in (f,g),h notin (i),j,!k``. Raises Invalid.

    >>> [term.operator for term in parse_selector("app=a,tier in (x, y),!old")]
    ['In', 'In', 'DoesNotExist']
    """
    terms: list[Term] = []
    for part in _COMMA.split(text) if text.strip() else []:
        part = part.strip()
        if match := _EQUALITY.match(part):
            key, sign, value = match.groups()
            terms.append(Term(key, "NotIn" if sign == "!=" else "In", frozenset((value,))))
        elif match := _SET.match(part):
            key, word, inside = match.groups()
            values = frozenset(value.strip() for value in inside.split(","))
            terms.append(Term(key, "In" if word == "in" else "NotIn", values))
        elif match := _EXISTS.match(part):
            terms.append(Term(match[2], "DoesNotExist" if match[1] else "Exists"))
        else:
            raise Invalid(f"{text!r} is not a label selector: can't read {part!r}", "labels")
    return tuple(terms)


def selector_of(labels: Mapping[str, str] | str | None) -> Selector:
    """The selector that a ``labels`` argument of the cluster protocol stands for."""
    if not labels:
        return ()
    if isinstance(labels, str):
        return parse_selector(labels)
    return tuple(Term(key, "In", frozenset((value,))) for key, value in labels.items())


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector | None:
    """Terms of a ``LabelSelector`` object (matchLabels, matchExpressions); None (nothing matches) for None."""
    if selector is None:
        return None
    expressions = selector.get("matchExpressions") or ()
    return (
        *selector_of(selector.get("matchLabels")),
        *(Term(each["key"], each["operator"], frozenset(each.get("values") or ())) for each in expressions),
    )
