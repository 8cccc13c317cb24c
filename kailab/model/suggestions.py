"""Suggest existing names for a misspelled one."""

from __future__ import annotations

import re
from collections.abc import Iterable


def closest_names(wanted: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Up to ``most`` of the names that are most similar to ``wanted``, ignoring case, the closest first."""
    # Imported here because it is only needed after a mistake.
    import difflib

    known = {name.lower(): name for name in names}
    return [known[match] for match in difflib.get_close_matches(wanted.lower(), known, n=most)]


def meant_name(wanted: str, names: Iterable[str]) -> str | None:
    """The name that ``wanted`` clearly stands for, ignoring case; None if there is none, or more than one.

    It is the same name with other separators, or a longer one that has all parts of it, or one of which some parts have a letter more, less
    or other. A part with digits is never a slip of another: an A100 is no H100. Neither is a single letter: team-a is not team-x.

    >>> meant_name("team-ff", ["team-a", "team-f"]), meant_name("H100", ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"])
    ('team-f', 'NVIDIA-H100-80GB-HBM3')
    >>> meant_name("team-x", ["team-a"]), meant_name("H100", ["A100"])
    (None, None)
    """
    others = sorted(set(names) - {wanted})
    own = _parts(wanted)
    if not own:
        return None
    for alike in (
        lambda parts: "".join(parts) == "".join(own),
        lambda parts: set(own) < set(parts),
        lambda parts: len(parts) == len(own) and all(map(_is_slip, own, parts)),
    ):
        found = [name for name in others if alike(_parts(name))]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _parts(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.lower())


LETTERS_A_SLIP = 4
"""A part of a name may have one slip for each of so many letters, and at least one."""


def _is_slip(wanted: str, part: str) -> bool:
    if wanted == part:
        return True
    if any(letter.isdigit() for letter in wanted + part) or max(len(wanted), len(part)) < 2:
        return False
    return _edits(wanted, part) <= max(1, max(len(wanted), len(part)) // LETTERS_A_SLIP)


def _edits(part: str, other: str) -> int:
    """The number of letters that are inserted, left out, replaced, or swapped with the next one (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(part, 1):
        last, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against)))
            if i > 1 and j > 1 and letter == other[j - 2] and part[i - 2] == against:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]
