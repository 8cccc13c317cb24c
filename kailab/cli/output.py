"""The values of ``-o``: tables, objects as data, names, paths and columns of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from kailab.cli.options import Format

if TYPE_CHECKING:
    from kailab.cli.jsonpath import Path, Template

Object = dict[str, Any]
JSONPATH, COLUMNS = "jsonpath", "custom-columns"
NONE = "<none>"


class Output(NamedTuple):
    """``form``: a ``Format``, ``jsonpath`` or ``custom-columns``; ``argument``: what stands behind its ``=``."""

    form: str
    argument: str = ""


class OutputType(click.ParamType):
    """Reads ``wide``, ``json``, ``jsonpath={.items[*].metadata.name}``, ``custom-columns=NAME:.metadata.name``."""

    name = "output"
    choices = (*(one.value for one in Format if one.value), f"{JSONPATH}=TEMPLATE", f"{COLUMNS}=HEADER:PATH,...")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        if isinstance(value, Output):
            return value
        form, equals, argument = str(value).partition("=")
        if equals and form in (JSONPATH, COLUMNS):
            return Output(form, argument)
        if not equals and form in tuple(Format):
            return Output(form)
        return self.fail(f"{value!r} is not one of {', '.join(map(repr, self.choices))}.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = (one.partition("=") for one in self.choices)
        return [CompletionItem(word + equals) for word, equals, _ in words if word.startswith(incomplete)]

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"[{'|'.join(self.choices)}]"


class Column(NamedTuple):
    header: str
    path: Path


def columns(text: str) -> list[Column]:
    """Those of ``custom-columns``. Raises InputError."""
    from kailab.cli.jsonpath import relaxed
    from kailab.errors import InputError

    found = []
    for part in _parts(text):
        header, colon, path = part.partition(":")
        if not colon or not header.strip() or not path.strip():
            raise InputError(f"-o {COLUMNS}: {part!r}: expected HEADER:PATH, as in NAME:.metadata.name")
        found.append(Column(header.strip(), relaxed(path)))
    return found


def _parts(text: str) -> list[str]:
    """Between commas; not those within brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "[(") - (sign in "])")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def cells(wanted: Sequence[Column], obj: Object) -> list[str]:
    """One row."""
    return [",".join(_cell(value) for value in column.path.values(obj)) or NONE for column in wanted]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def template(text: str) -> Template:
    """Of ``jsonpath``. Raises InputError."""
    from kailab.cli.jsonpath import Template

    return Template(text)


def data(objects: Sequence[Object], single: bool) -> Object:
    """What ``json``, ``yaml`` and ``jsonpath`` are about: the object asked for by name, else a List."""
    return objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def as_text(found: Object, form: str) -> str:
    """``form``: json or yaml."""
    if form == Format.json:
        return json.dumps(found, indent=4)
    from kailab.model.manifests import dump

    return dump([found]).removeprefix("---\n").rstrip("\n")
