"""The selection of recorded cases."""

from __future__ import annotations

import pytest

from checks.recorded.selection import matching
from kailab.errors import InputError

NAMES = ("reclaim/Gang/1", "reclaim/Mig/2", "preempt/Gang/3")


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("", NAMES),
        ("reclaim", NAMES[:2]),
        ("RECLAIM", NAMES[:2]),
        ("reclaim and gang", NAMES[:1]),
        ("mig or preempt", NAMES[1:]),
        ("not mig", (NAMES[0], NAMES[2])),
        ("reclaim and not (mig or topology)", NAMES[:1]),
        ("gang/3", NAMES[2:]),
        ("not not mig", NAMES[1:2]),
    ],
)
def test_names_are_chosen_by_an_expression(expression, chosen):
    matches = matching(expression)
    assert tuple(name for name in NAMES if matches(name)) == chosen


@pytest.mark.parametrize("expression", ["not", "and gang", "gang or", "(gang", "gang)", "gang mig", "()"])
def test_an_expression_that_can_t_be_read_says_so(expression):
    with pytest.raises(InputError, match="can't be read"):
        matching(expression)
