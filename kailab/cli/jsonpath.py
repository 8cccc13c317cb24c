"""JSONPath in kubectl's form: ``{.items[*].metadata.name}``, ``{range .items[*]}{.metadata.name}{"\\n"}{end}``.

Paths follow RFC 9535 (parsed by python-jsonpath), except that the leading ``$`` is left out, and a backslash escapes a dot in a name:
``.metadata.labels.kai\\.scheduler/queue``. Source: kubernetes.io/docs/reference/kubectl/jsonpath.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jsonpath

from kailab.errors import InputError

# A dot and a name, in which a backslash escapes the next character; or brackets with quoted or unquoted content.
_STEP = re.compile(
    r"(?P<down>\.\.)?\.?(?P<name>(?:\\.|[^\s.\[\]\\{}*])+)|(?P<all>\.\.?\*)|(?P<deep>\.\.)|(?P<inside>\[(?:'[^']*'|\"[^\"]*\"|[^\]'\"])*\])"
)

# Literal text, or braces with content; a brace in quotes does not end them.
_PIECE = re.compile(r"(?P<literal>[^{}]+)|\{(?P<braced>(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^{}\"'])*)\}")


class JsonPath:
    """A path. Raises InputError if the text is no path."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.absolute = text.lstrip().startswith("$")
        try:
            self._query = jsonpath.compile(_as_rfc(text))
        except jsonpath.JSONPathError as error:
            raise InputError(f"{text!r} is no JSONPath: {str(error).splitlines()[0]}") from None

    def values(self, data: Any) -> list[Any]:
        """The values at the path; none if a field is missing."""
        return list(self._query.findall(data))


def parse_relaxed_path(text: str) -> JsonPath:
    """Parse a path of ``--sort-by`` or ``custom-columns``: ``{.metadata.name}``, ``.metadata.name`` or ``metadata.name``."""
    bare = text.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    if not bare:
        raise InputError(f"{text!r}: expected a path such as .metadata.name")
    return JsonPath(bare if bare[0] in ".$[@" else f".{bare}")


def format_values(values: Sequence[Any]) -> str:
    """Join values with spaces: strings unchanged, others as JSON."""
    return " ".join(value if isinstance(value, str) else json.dumps(value) for value in values)


class JsonPathTemplate:
    """Text with paths in braces. Raises InputError if it can't be parsed."""

    def __init__(self, text: str) -> None:
        self._nodes, remaining = _parsed(list(_pieces(text)), inside=False)
        assert not remaining

    def render(self, data: Any) -> str:
        return "".join(_rendered(self._nodes, data, data))


class _Range(NamedTuple):
    over: JsonPath
    nodes: list[Any]  # str: text; Path: values; _Range


def _rendered(nodes: Sequence[Any], data: Any, root: Any) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif isinstance(node, JsonPath):
            yield format_values(node.values(root if node.absolute else data))
        else:
            for each in node.over.values(root if node.over.absolute else data):
                yield from _rendered(node.nodes, each, root)


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Split into (True for braces, content)."""
    at = 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            raise InputError(f"{text!r} is no JSONPath template: a brace is missing")
        yield (False, piece["literal"]) if piece["literal"] else (True, piece["braced"].strip())
        at = piece.end()


def _parsed(pieces: list[tuple[bool, str]], inside: bool) -> tuple[list[Any], list[tuple[bool, str]]]:
    nodes: list[Any] = []
    while pieces:
        (braced, text), pieces = pieces[0], pieces[1:]
        if not braced:
            nodes.append(text)
        elif text[:1] in ("'", '"'):
            nodes.append(_unquoted(text))
        elif text == "end":
            if not inside:
                raise InputError("{end} without {range}")
            return nodes, pieces
        elif text.startswith("range "):
            within, pieces = _parsed(pieces, inside=True)
            nodes.append(_Range(JsonPath(text.removeprefix("range ").strip()), within))
        else:
            nodes.append(JsonPath(text))
    if inside:
        raise InputError("{range} without {end}")
    return nodes, pieces


def _unquoted(text: str) -> str:
    if len(text) < 2 or text[-1] != text[0]:
        raise InputError(f"{{{text}}}: a quote is missing")
    try:
        value = json.loads(f'"{text[1:-1]}"')
    except ValueError:
        raise InputError(f"{{{text}}}: not a quoted text") from None
    return str(value)


def _as_rfc(text: str) -> str:
    """Rewrite a path for RFC 9535: with the root, and each name in brackets."""
    path = text.strip()
    relative = path[1:] if path[:1] in ("$", "@") else path
    if path[:1] not in (".", "$", "@", "["):
        raise InputError(f"{text!r} is no JSONPath: expected a dot at the beginning, as in {{.metadata.name}}")
    result, at = "$", 0
    if relative == ".":
        return result
    while at < len(relative):
        step = _STEP.match(relative, at)
        if step is None:
            raise InputError(f"{text!r} is no JSONPath: {relative[at:]!r} can't be read")
        if step["name"]:
            name = re.sub(r"\\(.)", r"\1", step["name"])
            result += f"{step['down'] or ''}[{json.dumps(name)}]"
        elif step["all"]:
            result += "[*]" if len(step["all"]) == 2 else "..[*]"
        else:
            result += step["deep"] or step["inside"]
        at = step.end()
    return result
