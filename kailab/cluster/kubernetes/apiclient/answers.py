"""What a server has answered so far: how often which code, and since when it refuses the credentials."""

from __future__ import annotations

import time
from collections.abc import Callable

from kailab.errors import Unauthorized


class Answers:
    """``counted``: (method, code; 0: no answer) -> count. ``refused_since``: since when, in seconds of ``clock``, nothing was answered
    but 401; None: the last answer was another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.counted: dict[tuple[str, int], int] = {}
        self.refused_since: float | None = None
        self._clock = clock

    def count(self, method: str, code: int) -> None:
        self.counted[method, code] = self.counted.get((method, code), 0) + 1
        self.heard(code)

    def heard(self, code: int) -> None:
        """An answer that is not counted: a watch that begins."""
        if code == Unauthorized.code:
            self.refused_since = self._clock() if self.refused_since is None else self.refused_since
        # Where nobody answers nothing is said of the credentials.
        elif code:
            self.refused_since = None
