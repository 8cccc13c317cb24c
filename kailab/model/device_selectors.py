"""Decide which devices a DRA selector matches: the part of CEL that device selectors use.

Supported: ``device.driver``, ``device.attributes["domain"].name``, ``device.capacity["domain"].name``, literals (text, whole numbers,
true, false, lists), ``== != < <= > >= in && || ! ?: ( )``, ``has()``, ``size()``, ``cel.bind()``, ``quantity()``, ``isQuantity()``,
``semver()``, ``isSemver()``, and the methods of ``METHODS``. Any other expression is refused with its text, as is one that the API
server's type check refuses: ``quantity("1Gi") < quantity("2Gi")`` has to be written with ``compareTo``.

As in CEL, an attribute that a device lacks is an error, not false: a claim with such a selector can't be allocated on the device's
node unless ``has()``, ``&&`` or ``||`` make the error irrelevant.

Sources: resource.k8s.io/v1 CELDeviceSelector; semver.org 2.0.0 for ``Semver``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, partial, total_ordering
from typing import Any, NamedTuple, TypeAlias

import msgspec

from kailab.errors import InputError
from kailab.model.quantities import parse

_NUMBER = r"(0|[1-9]\d*)"
_FORM = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class _Parts(NamedTuple):
    """The parts of a version, in the order of their weight: a final version comes after its pre-releases (True > False); of pre-releases, a list
    that ends sooner comes first, and numbers come before words."""

    major: int
    minor: int
    patch: int
    final: bool
    before: tuple[tuple[int, int, str], ...]


@lru_cache(maxsize=1024)
def _parts(version: str) -> _Parts:
    match = _FORM.fullmatch(version)
    if match is None:
        raise ValueError(f"{version!r} is no semantic version; expected one such as 1.2.3 or 1.2.3-rc.1")
    major, minor, patch, before = match.groups()
    words = before.split(".") if before else []
    ranks = tuple((0, int(word), "") if word.isdigit() else (1, 0, word) for word in words)
    return _Parts(int(major), int(minor), int(patch), before is None, ranks)


@total_ordering
class Semver(msgspec.Struct, frozen=True, eq=False):
    """Ordered by precedence: 1.0.0-rc.2 < 1.0.0-rc.10 < 1.0.0. The part after a plus sign is ignored. Raises ValueError."""

    version: str

    def __post_init__(self) -> None:
        _parts(self.version)

    @classmethod
    def parse(cls, text: Any) -> Semver:
        """Raises InputError."""
        try:
            return cls(text if isinstance(text, str) else repr(text))
        except ValueError as error:
            raise InputError(str(error)) from None

    @property
    def parts(self) -> _Parts:
        return _parts(self.version)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.parts == other.parts

    def __lt__(self, other: Semver) -> bool:
        return self.parts < other.parts

    def __hash__(self) -> int:
        return hash(self.parts)


# --- CEL operators and functions --------------------------------------------------------------------------------------

EQUAL: dict[str, Callable[[Any, Any], Any]] = {"==": operator.eq, "!=": operator.ne}
ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class SelectorUndecided(Exception):
    """A selector has no value for a device, because the device lacks an attribute or has one of another type."""


TYPES: dict[str, type] = {"text": str, "number": int, "truth": bool, "quantity": Fraction, "version": Semver}
NAMES = {kind: name for name, kind in TYPES.items()}


def kind_of(value: Any) -> str:
    return NAMES.get(type(value), "map")


def truth_of(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SelectorUndecided(f"a {kind_of(value)} where true or false is needed")
    return value


def compare_values(compare: Callable[[Any, Any], Any], sign: str, left: Any, right: Any) -> bool:
    """Equality in CEL: values of different types are never equal."""
    # By exact type: to Python, True == 1.
    if type(left) is not type(right):
        if sign in EQUAL:
            return sign == "!="
        raise SelectorUndecided(f"{kind_of(left)} {sign} {kind_of(right)}")
    if sign in ORDER and isinstance(left, (Fraction, Semver)):
        raise SelectorUndecided(f"{sign} does not compare a {kind_of(left)}")
    return bool(compare(left, right))


def look_up_attribute(table: Any, key: str) -> Any:
    if not isinstance(table, Mapping) or key not in table:
        raise SelectorUndecided(f"no such attribute: {key}")
    return table[key]


def _matches(text: str, pattern: str) -> bool:
    try:
        # CEL uses RE2, which also finds a match anywhere in the text. Differences in syntax are ignored.
        return re.search(pattern, text) is not None
    except re.error as error:
        raise SelectorUndecided(f"{pattern!r} is no regular expression: {error}") from None


def _quantity(text: Any) -> Fraction:
    try:
        return parse(text)
    except InputError:
        raise SelectorUndecided(f"{text!r} is no quantity") from None


def _semver(text: Any) -> Semver:
    try:
        return Semver.parse(text)
    except InputError:
        raise SelectorUndecided(f"{text!r} is no semantic version") from None


def _has_value(read: Callable[..., Any], *arguments: Any) -> bool:
    try:
        read(*arguments)
    except SelectorUndecided:
        return False
    return True


FUNCTIONS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "quantity": ("text", "quantity", _quantity),
    "isQuantity": ("text", "truth", partial(_has_value, _quantity)),
    "semver": ("text", "version", _semver),
    "isSemver": ("text", "truth", partial(_has_value, _semver)),
    "size": ("", "number", len),
}
_ORDERED = ("quantity", "version")
METHODS: dict[tuple[str, int], tuple[tuple[str, ...], str, Callable[..., Any]]] = {
    ("startsWith", 1): (("text",), "truth", str.startswith),
    ("endsWith", 1): (("text",), "truth", str.endswith),
    ("contains", 1): (("text",), "truth", lambda text, part: part in text),
    ("matches", 1): (("text",), "truth", _matches),
    ("lowerAscii", 0): (("text",), "text", str.lower),
    ("upperAscii", 0): (("text",), "text", str.upper),
    ("size", 0): (("text",), "number", len),
    ("compareTo", 1): (_ORDERED, "number", lambda a, b: (a > b) - (a < b)),
    ("isGreaterThan", 1): (_ORDERED, "truth", operator.gt),
    ("isLessThan", 1): (_ORDERED, "truth", operator.lt),
    ("sign", 0): (("quantity",), "number", lambda a: (a > 0) - (a < 0)),
    ("add", 1): (("quantity",), "quantity", operator.add),
    ("sub", 1): (("quantity",), "quantity", operator.sub),
    ("major", 0): (("version",), "number", lambda version: version.parts.major),
    ("minor", 0): (("version",), "number", lambda version: version.parts.minor),
    ("patch", 0): (("version",), "number", lambda version: version.parts.patch),
}


# --- parsing and evaluation -------------------------------------------------------------------------------------------

LONGEST = 10 * 1024
"""Characters of one expression. Source: resource.k8s.io/v1."""

_LONGEST_NUMBER = 20  # characters: a CEL number has 64 bits
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!?:()\[\].,]))"
)


Attribute: TypeAlias = str | int | bool | Semver | None


class Device(NamedTuple):
    """One device of a ResourceSlice. ``attributes`` and ``capacity`` by domain, then name; taints as in the slice."""

    driver: str
    pool: str
    name: str
    attributes: Mapping[str, Mapping[str, Attribute]] = {}
    capacity: Mapping[str, Mapping[str, Fraction]] = {}
    taints: tuple[Mapping[str, Any], ...] = ()


Scope: TypeAlias = Mapping[str, Any]  # ``device``, and what cel.bind() named
Evaluate: TypeAlias = Callable[[Scope], Any]


class _Term(NamedTuple):
    """``type``: the type of the value as far as it is known without a device; "any" for attributes."""

    type: str
    of: Evaluate


@lru_cache(maxsize=1024)
def compile_selector(expression: str) -> Callable[[Device], bool]:
    """Return the test that an expression describes; the test raises SelectorUndecided. Raises InputError for unsupported syntax."""
    if len(expression) > LONGEST:
        raise InputError(f"a device selector of {len(expression)} characters; {LONGEST} are the most there may be")
    term = _Parser(expression).whole()

    def means(device: Device) -> bool:
        return truth_of(term.of({"device": device}))

    return means


class _Parser:
    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        self._bound: dict[str, str] = {}  # names of cel.bind() -> type
        position = 0
        # A token includes the space before it. A remainder at the end is an unknown token.
        stripped = expression.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise self._unknown(stripped[position:])
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            position = match.end()

    def _unknown(self, what: str) -> InputError:
        return InputError(f"the device selector {self._expression!r} can't be evaluated here: {what!r}")

    def _mistyped(self, what: str) -> InputError:
        return InputError(f"the device selector {self._expression!r} is not valid: {what}")

    def whole(self) -> _Term:
        term = self._choice()
        if self._at < len(self._tokens):
            raise self._unknown(self._tokens[self._at][1])
        if term.type not in ("truth", "any"):
            raise self._mistyped(f"it must be true or false, not a {term.type}")
        return term

    # --- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def _kind(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise self._unknown("its end")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token != sign:
            raise self._unknown(token)

    def _is_next(self, sign: str) -> bool:
        if self._kind() == "sign" and self._peek() == sign:
            self._at += 1
            return True
        return False

    # --- grammar, weakest first --------------------------------------------------------------------------------------

    def _choice(self) -> _Term:
        condition = self._either()
        if not self._is_next("?"):
            return condition
        self._check("truth", condition, "?:")
        yes = self._choice()
        self._expect(":")
        no = self._choice()
        kind = yes.type if yes.type == no.type else "any"
        return _Term(kind, lambda scope: yes.of(scope) if truth_of(condition.of(scope)) else no.of(scope))

    def _either(self) -> _Term:
        return self._joined("||", True, self._both)

    def _both(self) -> _Term:
        return self._joined("&&", False, self._comparison)

    def _joined(self, sign: str, decisive: bool, part: Callable[[], _Term]) -> _Term:
        """Parts that a sign joins. ``decisive``: the value of one part that decides the whole expression."""
        terms = [part()]
        while self._is_next(sign):
            terms.append(part())
        if len(terms) == 1:
            return terms[0]
        for term in terms:
            self._check("truth", term, sign)

        def of(scope: Scope) -> bool:
            # The result of && and || in CEL does not depend on the order of their parts: an error counts only if no other part decides.
            failed: SelectorUndecided | None = None
            for term in terms:
                try:
                    if truth_of(term.of(scope)) is decisive:
                        return decisive
                except SelectorUndecided as error:
                    failed = failed or error
            if failed is not None:
                raise failed
            return not decisive

        return _Term("truth", of)

    def _comparison(self) -> _Term:
        left = self._unary()
        sign = self._peek()
        if self._kind() == "sign" and (sign in EQUAL or sign in ORDER):
            self._next()
            right = self._unary()
            # The type of an attribute is known only with a device, so the comparison is checked then.
            if "any" not in (left.type, right.type) and left.type != right.type:
                raise self._mistyped(f"{left.type} {sign} {right.type}")
            if sign in ORDER and {left.type, right.type} & {"quantity", "version", "map", "list"}:
                raise self._mistyped(f"{sign} does not compare a {left.type}; use compareTo()")
            compare = EQUAL.get(sign) or ORDER[sign]
            return _Term("truth", lambda scope: compare_values(compare, sign, left.of(scope), right.of(scope)))
        if sign == "in" and self._kind() == "name":
            self._next()
            right = self._unary()
            if right.type not in ("list", "map", "any"):
                raise self._mistyped(f"in needs a list or a map, not a {right.type}")
            return _Term("truth", lambda scope: left.of(scope) in right.of(scope))
        return left

    def _unary(self) -> _Term:
        if self._is_next("!"):
            term = self._unary()
            self._check("truth", term, "!")
            return _Term("truth", lambda scope: not truth_of(term.of(scope)))
        term = self._primary()
        while True:
            if self._is_next("."):
                term = self._member(term)
            elif self._kind() == "sign" and self._peek() == "[":
                self._next()
                term = self._entry(term, self._choice())
                self._expect("]")
            else:
                return term

    def _primary(self) -> _Term:
        kind = self._kind()
        token = self._next()
        if kind == "text":
            text = _unquoted(token)
            return _Term("text", lambda scope: text)
        if kind == "number":
            if len(token) > _LONGEST_NUMBER:
                raise self._mistyped("a number does not fit 64 bits")
            number = int(token)
            return _Term("number", lambda scope: number)
        if token == "(":
            term = self._choice()
            self._expect(")")
            return term
        if token == "[":
            items = self._list("]")
            return _Term("list", lambda scope: [item.of(scope) for item in items])
        if token in ("true", "false"):
            truth = token == "true"
            return _Term("truth", lambda scope: truth)
        if token in self._bound:
            return _Term(self._bound[token], lambda scope: scope[token])
        if token == "cel" and (self._peek(), self._peek(1), self._peek(2)) == (".", "bind", "("):
            self._at += 3
            return self._bind()
        if token == "device" and kind == "name":
            return self._part()
        if self._peek() == "(" and token in (*FUNCTIONS, "has"):
            self._next()
            return self._function(token)
        raise self._unknown(token)

    def _list(self, end: str) -> list[_Term]:
        """Expressions with commas between them, up to the sign ``end``."""
        items: list[_Term] = []
        while not self._is_next(end):
            if items:
                self._expect(",")
            items.append(self._choice())
        return items

    def _bind(self) -> _Term:
        name = self._next()
        self._expect(",")
        value = self._choice()
        self._expect(",")
        # The name is valid only in the body, where it may hide another one.
        before = dict(self._bound)
        self._bound[name] = value.type
        body = self._choice()
        self._bound = before
        self._expect(")")
        return _Term(body.type, lambda scope: body.of({**scope, name: value.of(scope)}))

    def _function(self, name: str) -> _Term:
        begun = self._at
        argument = self._choice()
        if name == "has":
            # has() takes a field, so the second to last token must be the dot before its name.
            if self._tokens[self._at - 2][1] != "." or self._at - begun < 3:
                raise self._mistyped("has() is asked of a field: has(device.attributes['domain'].name)")
            self._expect(")")
            return _Term("truth", lambda scope: _has_value(argument.of, scope))
        self._expect(")")
        takes, gives, function = FUNCTIONS[name]
        if takes:
            self._check(takes, argument, f"{name}()")
        # A literal text is checked now, because a wrong one would fail on every device.
        if name in ("quantity", "semver") and self._tokens[begun][0] == "text" and self._at - begun == 2:
            try:
                function(_unquoted(self._tokens[begun][1]))
            except SelectorUndecided as error:
                raise self._mistyped(str(error)) from None
        return _Term(gives, lambda scope: function(argument.of(scope)))

    def _part(self) -> _Term:
        self._expect(".")
        part = self._next()
        if part == "driver":
            return _Term("text", lambda scope: scope["device"].driver)
        if part == "attributes":
            return _Term("domains", lambda scope: scope["device"].attributes)
        if part == "capacity":
            return _Term("amounts by domain", lambda scope: scope["device"].capacity)
        raise self._unknown(f"device.{part}")

    def _entry(self, term: _Term, key: _Term) -> _Term:
        """``term[key]``. A domain without attributes of the device is an empty mapping."""
        self._check("text", key, "[]")
        if term.type in ("domains", "amounts by domain"):
            inner = "map" if term.type == "domains" else "amounts"
            return _Term(inner, lambda scope: term.of(scope).get(key.of(scope), {}))
        if term.type not in ("map", "amounts", "any"):
            raise self._mistyped(f"[] of a {term.type}")
        return _Term(
            "quantity" if term.type == "amounts" else "any",
            lambda scope: look_up_attribute(term.of(scope), key.of(scope)),
        )

    def _member(self, term: _Term) -> _Term:
        name = self._next()
        if not self._is_next("("):
            return self._entry(term, _Term("text", lambda scope: name))
        arguments = self._list(")")
        method = METHODS.get((name, len(arguments)))
        if method is None:
            raise self._unknown(f".{name}()")
        takes, gives, function = method
        if term.type not in ("any", *takes):
            raise self._mistyped(f".{name}() of a {term.type}")
        same = term.type if term.type in takes else "any"
        for argument in arguments:
            if "any" not in (argument.type, same) and argument.type != same:
                raise self._mistyped(f".{name}() of a {same} takes a {same}, not a {argument.type}")

        def of(scope: Scope) -> Any:
            values = [term.of(scope), *(argument.of(scope) for argument in arguments)]
            if NAMES.get(type(values[0])) not in takes or len({type(value) for value in values}) > 1:
                raise SelectorUndecided(f".{name}() of {' and '.join(kind_of(value) for value in values)}")
            return function(*values)

        return _Term(gives, of)

    def _check(self, wanted: str, term: _Term, where: str) -> None:
        if term.type not in (wanted, "any"):
            raise self._mistyped(f"{where} needs a {wanted}, not a {term.type}")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1])
