"""Suggest existing names for a misspelled one."""

from __future__ import annotations

from collections.abc import Iterable


def closest_names(wanted: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Up to ``most`` of the names that are most similar to ``wanted``, ignoring case, the closest first."""
    # Imported here because it is only needed after a mistake.
    import difflib

    known = {name.lower(): name for name in names}
    return [known[match] for match in difflib.get_close_matches(wanted.lower(), known, n=most)]
