"""The results of a benchmark, as text and as JSON."""

from __future__ import annotations

import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kailab.errors import KailabError

KIB = 1024


class WrongOutcome(KailabError):
    """A benchmark did not end with the expected outcome, so its times mean nothing."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement. ``phases``: phase -> seconds, which add up to ``seconds``. ``pods``: number of pods that reached the measured
    state. ``facts``: further numbers."""

    name: str
    seconds: float
    pods: int
    phases: Mapping[str, float] = field(default_factory=dict)
    cycles: int = 0
    lab_seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "seconds": round(self.seconds, 6),
            "pods": self.pods,
            "pods_per_second": round(self.pods_per_second, 1),
            "cycles": self.cycles,
            "lab_seconds": round(self.lab_seconds, 3),
            "phases": {name: round(seconds, 6) for name, seconds in self.phases.items()},
            **self.facts,
        }


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """A benchmark's measurements and its lab. ``idle_cycle``: seconds of a scheduling cycle without changes at the end; None: not measured."""

    benchmark: str
    fleet: str
    nodes: int
    gpus: int
    measured: tuple[Measured, ...]
    idle_cycle: float | None
    peak_memory: int

    def as_dict(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "fleet": self.fleet,
            "nodes": self.nodes,
            "gpus": self.gpus,
            "results": [one.as_dict() for one in self.measured],
            "idle_cycle_seconds": None if self.idle_cycle is None else round(self.idle_cycle, 6),
            "peak_memory_bytes": self.peak_memory,
        }

    def text(self) -> str:
        """A table for each measurement, then what holds for the whole."""
        lines = [f"{self.benchmark} on {self.fleet}: {self.nodes} nodes, {self.gpus} GPUs"]
        for one in self.measured:
            head = f"{one.name}: {one.seconds:.3f} s"
            if one.pods:
                head += f", {count(one.pods, 'pod')}, {one.pods_per_second:,.0f} pods/s"
            head += f", {count(one.cycles, 'cycle')}, {one.lab_seconds:g} s of lab time"
            lines += ["", head]
            lines += [
                f"  {name:<24} {seconds:>9.3f} s  {_percent(seconds, one.seconds)}"
                for name, seconds in one.phases.items()
            ]
            lines += [f"  {name.replace('_', ' '):<24} {_shown(value):>9}" for name, value in one.facts.items()]
        lines.append("")
        if self.idle_cycle is not None:
            lines.append(f"idle cycle: {self.idle_cycle * 1000:.2f} ms")
        lines.append(f"memory at its highest: {self.peak_memory / KIB**2:,.0f} MiB")
        return "\n".join(lines)


def peak_memory() -> int:
    """Bytes of memory that this process held at most."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KIB


def count(number: int, noun: str) -> str:
    """A number of things in words.

    >>> count(1, "pod"), count(4000, "pod")
    ('1 pod', '4,000 pods')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:>5.1f} %" if whole else ""


def _shown(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
