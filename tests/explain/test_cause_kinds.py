"""The table of causes."""

from __future__ import annotations

from kailab.explain.cause_kinds import CAUSE_KINDS, FALLBACK_FINDERS, FINDERS
from kailab.lab.answer import CauseCode


def test_every_code_has_one_entry() -> None:
    assert set(CAUSE_KINDS) == set(CauseCode)
    assert all(kind.code is code for code, kind in CAUSE_KINDS.items())


def test_no_finder_is_asked_twice() -> None:
    finders = (*FINDERS, *FALLBACK_FINDERS)
    assert len(set(finders)) == len(finders)
