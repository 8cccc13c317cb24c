"""Fields of a trace's line as values. What can't be read is a ``BrokenLine``, which says the field, what stands there, and what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

MOST = 10**12
"""No amount and no time in a trace is larger: what is, was written by mistake, and sums would leave 64 bits."""
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""With which a cell begins that a spreadsheet takes for a formula; the last four are the first four in full width."""
_TEXT = re.compile(r"[\x20-\x7e\xa0-\ud7ff\ue000-\U0010ffff]*")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class BrokenLine(Exception):
    """Why a line can't be read."""


class Fields:
    """The fields of one line by their names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """Empty where it is not there."""
        found = self._values.get(name) or ""
        if not _TEXT.fullmatch(found):
            raise BrokenLine(f"{name} is {found!r:.80}; expected printable text in UTF-8")
        found = found.strip()
        # As a table of kailab's is written (``kailab.replay.tables``), so that a recorded trace has the names that it recorded.
        return found[1:] if found.startswith("'") and found[1:].startswith(FORMULA_SIGNS) else found

    def number(self, name: str, default: float | None = None, *, least: float = 0) -> float:
        """Not below ``least``. ``default``: where it is empty; None: it must be there."""
        text = self.text(name)
        if not text:
            if default is None:
                raise BrokenLine(f"{name} is empty; expected a number")
            return default
        try:
            found = float(text)
        except ValueError:
            raise BrokenLine(f"{name} is {text!r:.80}; expected a number") from None
        if not math.isfinite(found) or not least <= found <= MOST:
            raise BrokenLine(f"{name} is {text!r:.80}; expected a number from {least:g} to {MOST:g}")
        return found

    def whole(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """A number without a fraction."""
        found = self.number(name, default, least=least)
        if found != int(found):
            raise BrokenLine(f"{name} is {self.text(name)!r:.80}; expected a whole number")
        return int(found)

    def seconds(self, name: str) -> int:
        """A time span, to the second; anything longer than nothing counts as one at least."""
        found = self.number(name)
        return max(1, round(found)) if found > 0 else 0

    def moment(self, name: str) -> int:
        """Seconds, or a date and time, as seconds since the epoch (UTC where it names no zone)."""
        text = self.text(name)
        try:
            found = float(text)
        except ValueError:
            return moment_of(text, name)
        if not math.isfinite(found) or not 0 <= found <= MOST:
            raise BrokenLine(f"{name} is {text!r:.80}; expected seconds from 0 to {MOST:g}, or a date and time")
        return round(found)


@lru_cache(maxsize=65_536)
def moment_of(text: str, name: str) -> int:
    """Seconds since the epoch of ISO 8601 text. Raises BrokenLine."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BrokenLine(
            f"{name} is {text!r:.80}; expected seconds, or a date and time as 2017-10-09 07:01:55"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
