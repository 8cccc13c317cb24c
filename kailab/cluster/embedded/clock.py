"""The virtual clock: time moves only on request, and due timers run in time order, ties by sequence.

There are two sorts of timers. Settling runs *prompt* ones (a pod becoming ready). The others (the end of a job's run
time) wait until someone advances the clock on purpose. Timers are not saved; their owners set them again from the
objects.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from kailab.model.times import format_time

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z


class _Timer:
    __slots__ = ("action", "key")

    def __init__(self, action: Callable[[], None] | None, key: str) -> None:
        self.action = action
        self.key = key


class VirtualClock:
    """Seconds since the epoch, and timers."""

    def __init__(self, start: float = EPOCH) -> None:
        self.now = float(start)
        self._sequence = 0
        self._all: list[tuple[float, int, _Timer]] = []
        # The prompt timers again, in a heap of their own: settling asks for the next one all the time.
        self._prompt: list[tuple[float, int, _Timer]] = []
        self._keyed: dict[str, _Timer] = {}

    def stamp(self) -> str:
        """The time as objects record it: Kubernetes keeps whole seconds. Rounded down, so that a recorded time is never in the future."""
        return format_time(self.now // 1)

    def call_at(self, when: float, action: Callable[[], None], *, prompt: bool = True, key: str = "") -> None:
        """Run ``action`` when the clock reaches ``when`` (a past time: at the next advance, even by 0).

        A timer with a ``key`` replaces the earlier one with that key.
        """
        timer = _Timer(action, key)
        if key:
            self.cancel(key)
            self._keyed[key] = timer
        # The sequence number decides ties, so that timers are never compared.
        self._sequence += 1
        entry = (float(when), self._sequence, timer)
        heapq.heappush(self._all, entry)
        if prompt:
            heapq.heappush(self._prompt, entry)

    def cancel(self, key: str) -> None:
        """Remove the timer with this key, if there is one."""
        if timer := self._keyed.pop(key, None):
            # It stays in the heaps without an action, which is cheaper than searching them.
            timer.action = None

    def next_timer(self) -> float | None:
        """The time of the next timer of either sort; None without timers."""
        return self._head(self._all)

    def next_prompt(self) -> float | None:
        """The time of the next prompt timer; None without one."""
        return self._head(self._prompt)

    @staticmethod
    def _head(heap: list[tuple[float, int, _Timer]]) -> float | None:
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass."""
        if seconds < 0:
            raise ValueError("time goes forward only")
        self.advance_to(self.now + seconds)

    def advance_to(self, when: float) -> None:
        """Let time pass until ``when``, running due timers; nothing happens if ``when`` is past."""
        # Look up the next timer each time: an action may set one that is due before ``when``.
        while (due := self.next_timer()) is not None and due <= when:
            _, _, timer = heapq.heappop(self._all)
            # This also disables its entry in the heap of prompt timers.
            action, timer.action = timer.action, None
            # Before the action, which may set a timer with the same key.
            if timer.key and self._keyed.get(timer.key) is timer:
                del self._keyed[timer.key]
            # A timer set for the past runs now; the clock does not go back.
            self.now = max(self.now, due)
            if action is not None:
                action()
        self.now = max(self.now, float(when))
