"""What may have been meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Iterable


def closest_names(wanted: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Those of the names that are most alike, the closest first, whatever their case."""
    # Imported only to tell of a mistake.
    import difflib

    known = {name.lower(): name for name in names}
    return [known[one] for one in difflib.get_close_matches(wanted.lower(), known, n=most)]
