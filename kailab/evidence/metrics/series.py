"""Metrics over a run, as steps: a value holds until the next one. None ends a series: what it was about is there no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kailab.evidence.metrics.families import FAMILIES, Family, Labels
from kailab.evidence.metrics.look import Look

Point = tuple[float, float | None]


class OneSeries(msgspec.Struct, frozen=True, kw_only=True):
    """``points``: (seconds since the lab opened, value), each where the value changed."""

    name: str
    labels: dict[str, str]
    points: list[Point]

    def at(self, t: float) -> float | None:
        """None: it is not there at that time."""
        found = None
        for when, value in self.points:
            if when > t:
                break
            found = value
        return found


class Series:
    """Takes looks in, in order of time."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, Labels], list[Point]] = {}
        self._there: set[tuple[str, Labels]] = set()
        self.end = 0.0

    def take(self, look: Look) -> None:
        now: set[tuple[str, Labels]] = set()
        for family in FAMILIES:
            for labels, value in family.values(look):
                key = (family.name, labels)
                now.add(key)
                self._put(key, look.t, float(value))
        for gone in self._there - now:
            self._put(gone, look.t, None)
        self._there, self.end = now, max(self.end, look.t)

    def _put(self, key: tuple[str, Labels], t: float, value: float | None) -> None:
        points = self._points.setdefault(key, [])
        if points and points[-1][0] == t:
            points.pop()
        if not points or points[-1][1] != value:
            points.append((t, value))

    def families(self) -> Iterator[tuple[Family, list[OneSeries]]]:
        """In the order of the table, each family that has a series, and its series by labels."""
        for family in FAMILIES:
            found = sorted((labels, points) for (name, labels), points in self._points.items() if name == family.name)
            if found:
                yield (
                    family,
                    [
                        OneSeries(
                            name=sample_name(family),
                            labels=dict(zip(family.labels, labels, strict=True)),
                            points=points,
                        )
                        for labels, points in found
                    ],
                )

    def every(self) -> list[OneSeries]:
        return [one for _, several in self.families() for one in several]


def sample_name(family: Family) -> str:
    return f"{family.name}_total" if family.kind == "counter" else family.name


def of_looks(looks: Iterable[Look]) -> Series:
    series = Series()
    for look in looks:
        series.take(look)
    return series
