from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.model.yamltext import read_documents, write_documents

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(
        ["1e3", "0o7", "yes", "y", "~", ".inf", "2020-01-01", "0x1F", "<<", "=", "- a", "a: b", "#x", "010", "1_0"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


def read(text):
    return [value for value, _ in read_documents(text, "f.yaml")]


@given(st.dictionaries(st.text(), values, min_size=1, max_size=4))
def test_what_is_written_reads_back_equal(value):
    assert read(write_documents([value])) == [value]


@given(values)
def test_writing_is_stable(value):
    text = write_documents([{"a": value}])
    assert write_documents(read(text)) == text


def test_scalars_are_what_kubernetes_reads():
    text = (
        "{a: 1, b: 1.5, c: 1e3, d: yes, e: 'yes', f: ~, g: 2020-01-01, h: 0x1F, i: 010, j: 12:30:00, k: 0o17, l: off}"
    )
    assert read(text) == [
        {"a": 1, "b": 1.5, "c": 1000.0, "d": True, "e": "yes", "f": None, "g": "2020-01-01", "h": 31, "i": 8,
         "j": "12:30:00", "k": 15, "l": False}
    ]  # fmt: skip


def test_documents_aliases_and_merges():
    text = "a: &x {p: 1, q: 2}\nb: *x\nc: {<<: *x, q: 3}\n---\n# nothing\n---\n- 1\n"
    assert read(text) == [{"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 2}, "c": {"p": 1, "q": 3}}, [1]]


def test_aliases_are_values_of_their_own():
    value = read("a: &x {p: 1}\nb: *x")[0]
    assert value["a"] is not value["b"]


def test_lines_of_every_value():
    _, lines = next(read_documents("a: 1\nb:\n  - x\n  - y: 2\n\n    z: 3\n", "f"))
    assert lines == (1, {"a": 1, "b": (2, [3, (4, {"y": 4, "z": 6})])})


LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 20)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"f.yaml:3: key 'a' is given twice .*line 1"),
        ("a: [", "not valid YAML"),
        ("a:\n\t- x", r"f.yaml:2: not valid YAML"),
        ("[" * 100_000, "nested deeper than 100"),
        ("- " * 100_000, "nested deeper than 100"),
        ("{a: " * 100_000, "nested deeper than 100"),
        ("&a [*a]", "no finished anchor"),
        ("a: *b", "no finished anchor"),
        (LAUGHS, "more than 2,000,000 values"),
        ("a: .nan", "not a number that JSON can hold"),
        ("a: 1e999", "not a number that JSON can hold"),
        ("a: " + "9" * 1_000_000, "64-bit"),
        ("a: 18446744073709551616", "64-bit"),
        ("a: !!python/object/apply:os.system [x]", "tag .* not supported"),
        ("a: !x y", "tag .* not supported"),
        ("? [a]\n: b", "can't be the key"),
        ("a: \x07", "control characters"),
        ("<<: 3", "merges mappings"),
        ('a: "\\ud800"', "not valid YAML|surrogate"),
    ],
)
def test_bad_text_is_told_with_its_line(text, message):
    with pytest.raises(InputError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a:\n\tb: 1\n", "f.yaml:2: not valid YAML: the line is indented with a tab; indent it with spaces"),
        ("kind: Pod\n\tspec: 1\nc: 2\n", "f.yaml:2: not valid YAML: the line is indented with a tab"),
        ("a: 1\nb: @x\n", "f.yaml:2: not valid YAML: '@' begins no value; write the value in quotes"),
    ],
)
def test_the_character_that_can_not_be_read_is_named(text: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text)
    assert str(refused.value).startswith(problem)
