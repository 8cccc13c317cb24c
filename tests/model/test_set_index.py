"""Ordered sets by key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kailab.model.multimap import SetIndex

CHANGES = st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 9)), max_size=60)


@given(CHANGES, CHANGES)
def test_an_index_has_the_values_of_dicts_without_values(first: list, then: list) -> None:
    index: SetIndex[str, int] = SetIndex()
    expected: dict[str, dict[int, None]] = {"a": {}, "b": {}}

    def change(index: SetIndex[str, int], expected: dict[str, dict[int, None]], changes: list) -> None:
        for adds, key, value in changes:
            if adds:
                index.add(key, value)
                expected[key][value] = None
            else:
                index.discard(key, value)
                expected[key].pop(value, None)
            assert {key: list(index.of(key)) for key in "ab"} == {key: list(values) for key, values in expected.items()}

    change(index, expected, first)
    copy = index.copy()
    change(copy, {key: values.copy() for key, values in expected.items()}, then)
    assert {key: list(index.of(key)) for key in "ab"} == {key: list(values) for key, values in expected.items()}
