"""Texts made to cost much: refused in words after a bounded amount of work."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.model import yamltext
from kailab.model.device_selectors import compile_selector
from kailab.model.manifests import MOST_ERRORS, load_text

LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\n" * 250_000, "more than 200,000 documents"),
        ("--- 1\n" * 250_000, "errors; the rest was not read"),
        (LAUGHS, "more than 2,000,000 values"),
        ("[" * 100_000, "nested deeper than 100"),
        ('{"a":' * 100_000, "nested deeper than 100"),
        ("- " * 100_000, "nested deeper than 100"),
        ("".join(" " * n + "a:\n" for n in range(400)), "nested deeper than 100"),
        ("a: " + "9" * 1_000_000, "64-bit integer"),
        ("x" * 1_000_000 + ": 1", "not valid YAML"),
        ("a: &a [*a]", "refers to no finished anchor"),
    ],
    ids=[
        "separators",
        "scalars",
        "laughs",
        "brackets",
        "braces",
        "dashes",
        "indents",
        "digits",
        "long key",
        "own alias",
    ],
)
def test_a_text_made_to_cost_much_is_refused(text, expected):
    with pytest.raises(InputError) as caught:
        load_text(text)
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 50_000


def test_the_work_grows_as_the_text_does_and_ends(monkeypatch):
    """Counted in events, not in seconds: of the events of a text with too many documents no more than the limit is read."""
    seen = 0
    parse = yamltext.yaml.parse

    def counting(*arguments, **options):
        nonlocal seen
        for event in parse(*arguments, **options):
            seen += 1
            yield event

    monkeypatch.setattr(yamltext, "MOST_DOCUMENTS", 1000)
    monkeypatch.setattr(yamltext.yaml, "parse", counting)
    with pytest.raises(InputError, match="more than 1,000 documents"):
        load_text("---\n" * 100_000)
    assert seen < 4 * 1000


def test_errors_of_many_objects_are_told_up_to_a_limit():
    text = "{kind: List, apiVersion: v1, items: [" + "1, " * 5_000 + "]}"
    with pytest.raises(InputError) as caught:
        load_text(text)
    assert len(str(caught.value).splitlines()) <= MOST_ERRORS + 1


def test_a_number_of_thousands_of_digits_in_a_device_selector_is_refused():
    with pytest.raises(InputError, match="64 bits"):
        compile_selector("device.attributes['x'].count > " + "9" * 5_000)
