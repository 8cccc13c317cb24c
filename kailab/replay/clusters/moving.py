"""The way of a job to a cluster: the latency between its home and there, and the moving of its data over links that move one dataset after the other."""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

from kailab.replay.clusters.declared import DataSet, Sites

GIGABYTE = 10**9


class Way(NamedTuple):
    """``seconds``: whole ones, rounded up, until the job and its data are there. ``moved``: bytes that are moved for it, from ``source``, at ``cost``."""

    seconds: int
    moved: int = 0
    cost: float = 0.0
    source: str = ""


class Moving:
    """Which cluster has which data, from when on. What was moved stays there: the next job that needs it finds it, or waits for the same move."""

    def __init__(self, sites: Sites, began: int) -> None:
        """``began``: when the first job arrived."""
        self._sites = sites
        self._began = began
        self._there: dict[tuple[str, str], int] = {
            (data.name, name): 0 for data in sites.datasets.values() for name in data.at
        }
        self._busy: dict[tuple[str, str], int] = {}

    def __getstate__(self) -> dict[str, Any]:
        """To be kept. Links are given anew."""
        return {**self.__dict__, "_sites": None}

    def given(self, sites: Sites) -> None:
        """Of one that was kept."""
        self._sites = sites

    def reached(self, name: str, at: int) -> int:
        """When a cluster is reached from ``at`` on: then, or once an outage is over."""
        return self._began + self._sites.reached_from(name, at - self._began)

    def way(self, data: DataSet | None, home: str, to: str, now: int) -> Way:
        """As it would be from now on."""
        latency = ceil(self._sites.between(home, to).latency)
        if data is None:
            return Way(latency)
        there = self._there.get((data.name, to))
        if there is not None:
            return Way(max(latency, there - now))
        ends = {name: self._end(data, name, to, now) for (own, name) in self._there if own == data.name}
        source = min(ends, key=lambda name: (ends[name], name))
        cost = self._sites.between(source, to).per_gigabyte * data.size / GIGABYTE
        return Way(max(latency, ends[source] - now), data.size, cost, source)

    def send(self, data: DataSet | None, home: str, to: str, now: int) -> Way:
        """As ``way``, and begun."""
        way = self.way(data, home, to, now)
        if data is not None and way.moved:
            end = self._end(data, way.source, to, now)
            self._there[data.name, to] = end
            self._busy[_pair(way.source, to)] = end
        return way

    def _end(self, data: DataSet, source: str, to: str, now: int) -> int:
        link = self._sites.between(source, to)
        # A copy that is itself on its way is passed on once it has come.
        begin = max(now, self._there[data.name, source], self._busy.get(_pair(source, to), 0))
        # Nobody has a copy begun in a cluster that is not reached.
        begin = self.reached(source, begin)
        seconds = link.latency + (0.0 if link.bits is None else data.size * 8 / link.bits)
        return begin + ceil(seconds)


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)
