"""Read YAML into plain values with the line of every value, and write it.

The reader processes events with an explicit stack and bounds nesting and alias expansion, so hostile text leads to an
error. Scalars resolve as in the YAML of Kubernetes (go-yaml): JSON's types, no timestamps, ``1e3`` is a number. A
duplicate key is an error, and so are values that JSON can't hold (NaN, infinities, integers beyond 64 bits).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import yaml

from kailab.errors import InputError, Where

DEEPEST = 100  # levels of nesting
LARGEST = 2_000_000  # values in one document, aliases expanded
MOST_DOCUMENTS = 200_000  # in one text, empty ones too

Lines: TypeAlias = "int | tuple[int, dict[str, Any]] | tuple[int, list[Any]]"
"""The line of a scalar, or the line of a collection with the lines of its items."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$", re.ASCII)
_OTHER_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+)$", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$", re.ASCII)
_NOT_FINITE = frozenset(sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")) | {
    ".nan",
    ".NaN",
    ".NAN",
}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_WRITTEN_QUOTED = frozenset(("y", "Y", "n", "N", "=", "<<"))  # other readers do not take these for text
_NUMBER_START = frozenset("+-.0123456789")
_CORE = "tag:yaml.org,2002:"


class _Open:
    """A collection being read."""

    __slots__ = ("anchor", "awaiting", "key", "key_line", "line", "lines", "merges", "size", "value")

    def __init__(self, value: Any, line: int, anchor: str | None) -> None:
        self.value = value
        self.line = line
        self.anchor = anchor
        self.lines: Any = {} if isinstance(value, dict) else []
        self.awaiting = False  # a mapping: its key has been read
        self.key = ""
        self.key_line = 0
        self.merges: list[tuple[Any, Any]] = []
        self.size = 1


def read_document(text: str, file: str, expected: str) -> tuple[Any, Lines]:
    """Read a text with one document: its value and lines. ``expected`` describes the document in errors. Raises InputError."""
    documents = list(read_documents(text, file))
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents; expected {expected}", Where(file=file))
    return documents[0]


def read_documents(text: str, file: str = "", *, largest: int = LARGEST) -> Iterator[tuple[Any, Lines]]:
    """Yield the value and the lines of each document of a text. Empty documents (only comments) are skipped. ``largest``: the most values
    in one document.

    Raises InputError with file and line.
    """
    try:
        yield from _Reader(file, largest).read(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        if problem := _plain_problem(error, text):
            raise InputError(f"not valid YAML: {problem}", Where(file=file, line=line)) from None
        problem = " ".join(part for part in (error.context, error.problem) if part)
        end = "; the text ends here, so it may be incomplete" if line > 1 and line > text.rstrip().count("\n") else ""
        raise InputError(f"not valid YAML: {problem}{end}", Where(file=file, line=line)) from None
    except yaml.reader.ReaderError as error:
        raise InputError(f"not valid YAML: {_reader_problem(error)}", Where(file=file)) from None
    except yaml.YAMLError as error:
        raise InputError(f"not valid YAML: {error}", Where(file=file)) from None


def _plain_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """The problem where the parser names no character: a tab, or a character that begins no value; "" for any other."""
    mark, problem = error.problem_mark, error.problem or ""
    lines = text.split("\n", mark.line + 1) if mark else []
    if mark is None or len(lines) <= mark.line:
        return ""
    line = lines[mark.line]
    if "\t" in line[: len(line) - len(line.lstrip())] and ("tab character" in problem or "start any token" in problem):
        return "the line is indented with a tab; indent it with spaces"
    if "start any token" in problem and mark.column < len(line):
        return f"{line[mark.column]!r} begins no value; write the value in quotes"
    return ""


def load_foreign(text: str | bytes) -> Any:
    """The one document of a file of another tool, as PyYAML reads it. Raises yaml.YAMLError, for a date or a number that Python can't hold too."""
    try:
        return yaml.safe_load(text)
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from error


def _reader_problem(error: yaml.reader.ReaderError) -> str:
    shown = f"#x{error.character:04x}" if isinstance(error.character, int) else repr(error.character)
    return f"{error.reason}: {shown} at position {error.position}"


class _Reader:
    def __init__(self, file: str, largest: int) -> None:
        self.file = file
        self.largest = largest
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, Any, int]] = {}
        self.root: tuple[Any, Any, int] | None = None

    def fail(self, message: str, line: int) -> InputError:
        return InputError(message, Where(file=self.file, line=line))

    def read(self, events: Iterable[Any]) -> Iterator[tuple[Any, Lines]]:
        documents = 0
        for event in events:
            line = event.start_mark.line + 1
            if isinstance(event, yaml.ScalarEvent):
                self.scalar(event, line)
            elif isinstance(event, yaml.MappingStartEvent):
                self.open({}, event, line, "map")
            elif isinstance(event, yaml.SequenceStartEvent):
                self.open([], event, line, "seq")
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self.close()
            elif isinstance(event, yaml.AliasEvent):
                self.alias(event.anchor or "", line)
            elif isinstance(event, yaml.DocumentStartEvent):
                self.anchors, self.root = {}, None
                documents += 1
                if documents > MOST_DOCUMENTS:
                    raise self.fail(f"more than {MOST_DOCUMENTS:,} documents in one text", line)
            elif isinstance(event, yaml.DocumentEndEvent) and self.root is not None and self.root[0] is not None:
                yield self.root[0], self.root[1]

    def scalar(self, event: Any, line: int) -> None:
        parent = self.stack[-1] if self.stack else None
        if parent is not None and isinstance(parent.value, dict) and not parent.awaiting:
            self.key(parent, event, line)
            return
        value = self.resolve(event, line)
        size = 1 + len(event.value) // 64  # long text counts for more: aliases may repeat it
        if event.anchor:
            self.anchors[event.anchor] = (value, line, size)
        self.add(value, line, size, line)

    def key(self, parent: _Open, event: Any, line: int) -> None:
        key = event.value
        if event.anchor:
            self.anchors[event.anchor] = (key, line, 1)
        # A quoted ``<<`` is an ordinary key; a plain one may occur several times.
        if key in parent.value and not (key == "<<" and event.implicit[0]):
            first = first_line(parent.lines[key])
            raise self.fail(f"key {key!r:.80} is given twice in one mapping (first on line {first})", line)
        parent.key, parent.key_line, parent.awaiting = key, line, True
        if key == "<<" and event.implicit[0]:
            parent.key = ""
            parent.merges.append((None, None))  # set when its value has been read

    def open(self, value: Any, event: Any, line: int, kind: str) -> None:
        if self.stack and isinstance(self.stack[-1].value, dict) and not self.stack[-1].awaiting:
            raise self.fail("a mapping or list can't be the key of a mapping; expected text", line)
        if event.tag and event.tag not in (_CORE + kind, "!"):
            raise self.fail(f"tag {event.tag!r:.80} is not supported; expected plain values", line)
        if len(self.stack) >= DEEPEST:
            raise self.fail(f"nested deeper than {DEEPEST} levels", line)
        if event.anchor:
            self.anchors.pop(event.anchor, None)  # an alias inside its own anchor has nothing to refer to
        self.stack.append(_Open(value, line, event.anchor))

    def close(self) -> None:
        done = self.stack.pop()
        # Merged at the end of the mapping, because its own keys take precedence wherever the merge is.
        for value, lines in done.merges:
            self.merge(done, value, lines)
        if done.anchor:
            self.anchors[done.anchor] = (done.value, (done.line, done.lines), done.size)
        self.add(done.value, (done.line, done.lines), done.size, done.line)

    def merge(self, done: _Open, value: Any, lines: Any) -> None:
        sources = list(zip(value, lines[1])) if isinstance(value, list) else [(value, lines)]
        for source, at in sources:
            if not isinstance(source, dict):
                raise self.fail("'<<' merges mappings; expected a mapping or a list of them", done.line)
            for key, item in source.items():
                if key not in done.value:
                    done.value[key] = item
                    done.lines[key] = at[1][key]

    def alias(self, anchor: str, line: int) -> None:
        known = self.anchors.get(anchor)
        if known is None:
            raise self.fail(f"alias *{anchor:.80} refers to no finished anchor before it", line)
        value, lines, size = known
        parent = self.stack[-1] if self.stack else None
        if parent is not None and isinstance(parent.value, dict) and not parent.awaiting:
            raise self.fail("an alias can't be the key of a mapping; expected text", line)
        # Checked before copying, because a few lines of nested aliases can expand beyond the memory.
        self.bound(size, line)
        if size > 1 and len(self.stack) + _depth(value) > DEEPEST:
            raise self.fail(f"nested deeper than {DEEPEST} levels", line)
        self.add(copied(value), lines, size, line)

    def bound(self, more: int, line: int) -> None:
        if sum(open.size for open in self.stack) + more > self.largest:
            raise self.fail(f"more than {self.largest:,} values in one document", line)

    def add(self, value: Any, lines: Any, size: int, line: int) -> None:
        if not self.stack:
            self.root = (value, lines, size)
            return
        parent = self.stack[-1]
        parent.size += size
        if parent.size > self.largest:
            raise self.fail(f"more than {self.largest:,} values in one document", line)
        if isinstance(parent.value, list):
            parent.value.append(value)
            parent.lines.append(lines)
        elif parent.merges and parent.merges[-1] == (None, None):
            parent.merges[-1] = (value, lines)
            parent.awaiting = False
        else:
            parent.value[parent.key] = value
            # the key's line is more useful than the first line of its collection
            parent.lines[parent.key] = parent.key_line if isinstance(lines, int) else (parent.key_line, lines[1])
            parent.awaiting = False

    def resolve(self, event: Any, line: int) -> Any:
        text, tag = event.value, event.tag
        if tag is None or tag == "!":
            value = _plain(text) if event.implicit[0] and tag is None else text
        elif tag == _CORE + "str":
            value = text
        elif tag in (_CORE + "int", _CORE + "float", _CORE + "bool", _CORE + "null"):
            value = _plain(text)
            wanted = tag.removeprefix(_CORE)
            fits = {"int": type(value) is int, "bool": isinstance(value, bool), "null": value is None}
            if wanted == "float" and type(value) is int:
                # float() fails on larger numbers; integers of that size are refused below.
                value = float(value) if abs(value) < 2**1000 else value
            elif not fits.get(wanted, isinstance(value, float)):
                raise self.fail(f"{text!r:.80} is not a YAML {wanted}", line)
        else:
            raise self.fail(f"tag {tag!r:.80} is not supported; expected plain values", line)
        wrong = _unholdable(value)
        if wrong:
            raise self.fail(f"{text:.40} {wrong}" if not isinstance(value, str) else wrong, line)
        return value


def check_plain(value: Any) -> tuple[str, str] | None:
    """Find why JSON can't hold a value that a program or a lenient JSON reader made: (path, message), or None."""
    # An explicit stack, because such a value may be nested more deeply than Python's recursion limit.
    todo: list[tuple[Any, str, int]] = [(value, "", 0)]
    while todo:
        item, path, depth = todo.pop()
        if depth > DEEPEST:
            return path, f"nested deeper than {DEEPEST} levels"
        if isinstance(item, dict):
            for key, inner in item.items():
                if not isinstance(key, str) or _unholdable(key):
                    return path, f"key {key!a:.80} is not text"
                todo.append((inner, f"{path}.{key}" if path else key, depth + 1))
        elif isinstance(item, list):
            todo.extend((inner, f"{path}[{index}]", depth + 1) for index, inner in enumerate(item))
        elif item is not None and not isinstance(item, (str, int, float)):
            return path, f"{type(item).__name__} is not a type that JSON can hold"
        elif wrong := _unholdable(item):
            return path, wrong
    return None


def _unholdable(value: Any) -> str:
    """The reason why JSON, with the 64-bit integers of its readers, can't hold a scalar; "" if it can."""
    # Signed or unsigned, because Go reads both.
    if type(value) is int and not -(2**63) <= value < 2**64:
        return "does not fit a 64-bit integer"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "is not a number that JSON can hold"
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return "text with half of a surrogate pair"
    return ""


def _plain(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    # A fast path for words, which most scalars are.
    if text[0] not in _NUMBER_START:
        return text
    if _INT.match(text):
        return _integer(text, 10)
    if _OTHER_INT.match(text):
        body = text.lstrip("+-").replace("_", "")
        base = {"0b": 2, "0x": 16, "0o": 8}.get(body[:2].lower(), 8)
        digits = body[2:] if body[1:2].isalpha() else body
        return _integer(("-" if text[0] == "-" else "") + digits, base) if digits else text
    if text in _NOT_FINITE:
        return float(text.replace(".", ""))
    if _FLOAT.match(text):
        try:
            return float(text.replace("_", ""))
        except ValueError:
            return text
    return text


def _integer(text: str, base: int) -> Any:
    digits = text.replace("_", "")
    if len(digits) > 80:  # far beyond 64 bits; converting millions of digits would take minutes
        return 2**64 if digits[0] != "-" else -(2**64)
    try:
        return int(digits, base)
    except ValueError:
        return text


def first_line(lines: Any) -> int:
    """The line at which a value begins. ``lines``: its ``Lines``."""
    return lines if isinstance(lines, int) else lines[0]


def copied(value: Any) -> Any:
    """An independent copy of a value whose depth is bounded: by the reader, or by ``check_plain``."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


class _Writer(_Dumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(writer: Any, text: str) -> Any:
    # Text that unquoted would be read as another value.
    if text in _WRITTEN_QUOTED or (text and type(_plain(text)) is not str):
        return writer.represent_scalar(_CORE + "str", text, style="'")
    # A block that begins with a space or an empty line would need an indentation indicator, so it is quoted.
    style = "|" if "\n" in text and not text.startswith((" ", "\n")) else None
    return writer.represent_scalar(_CORE + "str", text, style=style)


_Writer.add_representer(str, _represent_text)


def write_documents(objects: Iterable[Any]) -> str:
    """Write values as YAML, one document each, with sorted keys. Reading it yields equal values."""
    return yaml.dump_all(
        objects,
        Dumper=_Writer,
        default_flow_style=False,
        allow_unicode=True,
        width=10_000,  # lines are not folded
        sort_keys=True,
        explicit_start=True,
    )
