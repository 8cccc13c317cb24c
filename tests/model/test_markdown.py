"""Strangers' text in Markdown stays text: read back by a parser it is what it was, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kailab.errors import escaped
from kailab.model.markup import Markup, bold, code, escape_markup, fenced, italic, markdown_table

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
EVIL = "<script>alert(1)</script> | `x` <!-- [a](javascript:alert(1)) ![i](http://e) **b** _c_ \\ &amp; ~~d~~ @team #1\n\n# heading\n| a | b |"
TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("<>|`*_[]()!\\&~#-+=@$\n\r\t 1."), max_size=60)


def words(text: str) -> str:
    return " ".join(escaped(re.sub("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]", " ", text)).split())


def flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from flat(token.children or [])


def cells(document: str) -> list[list[Token]]:
    """Inline tokens of each cell of the one table that is there."""
    tokens = PARSER.parse(document)
    assert [one.type for one in tokens if one.level == 0] == ["table_open", "table_close"]
    return [list(flat(one.children or [])) for one in tokens if one.type == "inline"]


@example(EVIL)
@example("_a_ a_b __c__ *d*")
@example("- a")
@example("1. a")
@example("    indented")
@example("\x1f\x1e")
@given(TEXTS)
def test_text_in_a_cell_is_read_back_as_it_was(text: str) -> None:
    first, *rest = cells(markdown_table(["a", "b"], [[escape_markup(text), bold(text)]]))[2:]
    assert {one.type for one in first} <= {"text", "text_special"}
    assert words("".join(one.content for one in first)) == words(text)
    assert {one.type for cell in rest for one in cell} <= {"text", "text_special", "strong_open", "strong_close"}


@example(EVIL)
@example("# a")
@example("===")
@example("> a")
@given(TEXTS)
def test_text_that_begins_a_line_is_a_paragraph(text: str) -> None:
    tokens = PARSER.parse(f"Above:\n\n{escape_markup(text).strip()}\n")
    assert {one.type for one in flat(tokens)} <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}


@example(EVIL)
@example("``` a `` b `")
@example("`")
@given(TEXTS)
def test_code_in_a_cell_is_code(text: str) -> None:
    [cell] = cells(markdown_table([code("head"), "b"], [[code(f"x{text}"), "y"]]))[2:3]
    assert [one.type for one in cell] == ["code_inline"]
    assert words(cell[0].content) == " ".join(escaped(f"x{text}").split())


@example("```\n<script>")
@given(TEXTS)
def test_a_fence_is_closed_by_nothing_in_it(text: str) -> None:
    tokens = PARSER.parse(f"{fenced(text)}\n")
    assert [one.type for one in tokens] == ["fence"]


@pytest.mark.parametrize("made", [escape_markup, bold, italic])
def test_nobody_is_mentioned(made: object) -> None:
    assert "@" not in made("@team")  # type: ignore[operator]


def test_what_is_markup_already_stays() -> None:
    assert escape_markup(Markup("**a**")) == "**a**"
