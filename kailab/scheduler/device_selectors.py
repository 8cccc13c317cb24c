"""Which devices a DRA selector means: the part of CEL that selectors of devices are made of.

Known are ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name``, literals (text, whole
numbers, true, false), ``quantity("40Gi")``, ``== != < <= > >= in && || ! ( )``, and the methods ``startsWith``, ``endsWith``,
``contains``, ``matches``, ``lowerAscii``, ``compareTo``, ``isGreaterThan``, ``isLessThan``. Anything else is refused with its
text, never guessed at. Source: resource.k8s.io/v1 CELDeviceSelector.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from kailab.errors import InputError
from kailab.model.quantities import parse

_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\].,]))"
)
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Device(NamedTuple):
    """One device of a ResourceSlice. ``attributes`` and ``capacity`` by (domain, name)."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[tuple[str, str], Any]
    capacity: Mapping[tuple[str, str], Fraction]
    taints: tuple[Mapping[str, Any], ...] = ()


Term: TypeAlias = Callable[[Device], Any]


class _Absent(Exception):
    """The device has no such attribute: the selector does not mean it."""


@lru_cache(maxsize=1024)
def selector(expression: str) -> Callable[[Device], bool]:
    """The test that an expression stands for. Raises InputError for what is not known here."""
    term = _Parser(expression).whole()

    def means(device: Device) -> bool:
        try:
            return term(device) is True
        except (_Absent, TypeError):
            return False

    return means


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        position = 0
        stripped = expression.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self._unknown(stripped[position:])
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()

    def _unknown(self, what: str) -> InputError:
        return InputError(f"the device selector {self._expression!r} can't be evaluated here: {what!r}")

    def whole(self) -> Term:
        term = self._either()
        if self._at < len(self._tokens):
            raise self._unknown(self._tokens[self._at][1])
        return term

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise self._unknown("its end")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, sign: str) -> None:
        found = self._next()
        if found != sign:
            raise self._unknown(found)

    def _text(self) -> str:
        if self._kind() != "text":
            raise self._unknown(self._peek() or "its end")
        return _unquoted(self._next())

    # --- grammar, weakest first ----------------------------------------------------------------------------------------

    def _either(self) -> Term:
        terms = [self._both()]
        while self._peek() == "||":
            self._next()
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else lambda device: any(_true(term(device)) for term in terms)

    def _both(self) -> Term:
        terms = [self._comparison()]
        while self._peek() == "&&":
            self._next()
            terms.append(self._comparison())
        return terms[0] if len(terms) == 1 else lambda device: all(_true(term(device)) for term in terms)

    def _comparison(self) -> Term:
        left = self._unary()
        sign = self._peek()
        if sign in _COMPARE and self._kind() == "sign":
            self._next()
            right, compare = self._unary(), _COMPARE[sign]
            return lambda device: compare(*_alike(left(device), right(device)))
        if sign == "in":
            self._next()
            self._expect("[")
            choices = [self._unary()]
            while self._peek() == ",":
                self._next()
                choices.append(self._unary())
            self._expect("]")
            return lambda device: left(device) in [choice(device) for choice in choices]
        return left

    def _unary(self) -> Term:
        if self._peek() == "!" and self._kind() == "sign":
            self._next()
            term = self._unary()
            return lambda device: not _true(term(device))
        term = self._primary()
        while self._peek() == ".":
            self._next()
            term = self._method(term)
        return term

    def _primary(self) -> Term:
        kind = self._kind()
        if kind == "text":
            text = self._text()
            return lambda device: text
        token = self._next()
        if kind == "number":
            number = int(token)
            return lambda device: number
        if token == "(":
            term = self._either()
            self._expect(")")
            return term
        if token in ("true", "false"):
            truth = token == "true"
            return lambda device: truth
        if token == "quantity":
            self._expect("(")
            amount = parse(self._text())
            self._expect(")")
            return lambda device: amount
        if token == "device":
            return self._part()
        raise self._unknown(token)

    def _part(self) -> Term:
        self._expect(".")
        part = self._next()
        if part == "driver":
            return lambda device: device.driver
        if part not in ("attributes", "capacity"):
            raise self._unknown(f"device.{part}")
        self._expect("[")
        domain = self._text()
        self._expect("]")
        self._expect(".")
        key = (domain, self._next())

        def look(device: Device) -> Any:
            table: Mapping[tuple[str, str], Any] = device.attributes if part == "attributes" else device.capacity
            if key not in table:
                raise _Absent
            return table[key]

        return look

    def _method(self, term: Term) -> Term:
        name = self._next()
        self._expect("(")
        argument = None if self._peek() == ")" else self._unary()
        self._expect(")")
        if name == "lowerAscii" and argument is None:
            return lambda device: _of(str, term(device)).lower()
        method = _METHODS.get(name)
        if method is None or argument is None:
            raise self._unknown(f".{name}()")
        return lambda device: method(term(device), argument(device))


def _of(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _true(value: Any) -> bool:
    return bool(_of(bool, value))


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """CEL compares like with like only."""
    if type(left) is not type(right):
        raise TypeError(left, right)
    return left, right


def _matches(text: str, pattern: str) -> bool:
    try:
        return re.search(_of(str, pattern), _of(str, text)) is not None
    except re.error:
        return False


_METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "startsWith": lambda text, part: _of(str, text).startswith(_of(str, part)),
    "endsWith": lambda text, part: _of(str, text).endswith(_of(str, part)),
    "contains": lambda text, part: _of(str, part) in _of(str, text),
    "matches": _matches,
    "compareTo": lambda a, b: (_of(Fraction, a) > _of(Fraction, b)) - (_of(Fraction, a) < _of(Fraction, b)),
    "isGreaterThan": lambda a, b: _of(Fraction, a) > _of(Fraction, b),
    "isLessThan": lambda a, b: _of(Fraction, a) < _of(Fraction, b),
}


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
