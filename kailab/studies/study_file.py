"""Read a study's file (YAML). Every fault is reported with line and field.

    trace: philly.csv
    fleet: scale-500
    queues: by-share
    grid:
      config: [kai.yaml, fifo.yaml]
      limits: [{vision: 100}, {vision: 150}]
    seeds: 5
    find: {target: vision p99 wait < 10m, least: gpus}

Paths are relative to the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kailab.errors import InputError
from kailab.model.schema_files import SchemaFault, find_duration_faults, read_schema_file
from kailab.model.times import duration_seconds
from kailab.studies.study import Study, StudyQuestion, located, read_search, search_faults
from kailab.studies.target import ALL, StudyTarget, is_time, part_fault, read_subject, read_target

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
"""Form of a study's name."""
_SCHEMA = Path(__file__).with_name("study.schema.json")
_OPTIONS = (
    "trace", "format", "columns", "skipBroken", "fleet", "clusters", "dispatch", "size", "queues", "quotas", "limits", "for", "checkpoint", "checkpointCost", "restart", "estimates", "failures", "speeds", "services", "block", "arrivalsOnly", "config", "policies", "prices",
)  # fmt: skip
_DURATIONS = {"for": 1, "checkpoint": 1, "checkpointCost": 1, "restart": 0, "block": 1}
"""Options that are times, with the least number of seconds."""
GPUS = "gpus"
"""A value for ``least`` that need not be varied: the GPUs of the fleet."""
COST = "cost"
"""Another such value: the cost of the replay, the mean over the seeds. It needs prices."""


def read_study(path: Path) -> Study:
    """Read the file. Raises InputError, or InputErrors with every fault of the file."""
    value = read_schema_file(path, _SCHEMA, "one study", _faults)
    base = path.absolute().parent
    grid = {
        name: tuple(_measured(name, option_value) for option_value in values)
        for name, values in value.get("grid", {}).items()
    }
    search = None
    if "search" in value:
        search = read_search(value["search"], _measured)
        grid = dict.fromkeys(search.over, ())
    seeds = value.get("seeds", ())
    return Study(
        name=value.get("name", path.name.partition(".")[0]),
        options={name: placed(name, value[name], base) for name in _OPTIONS if name in value},
        grid=grid,
        seeds=tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds),
        find=_find(value["find"]) if "find" in value else None,
        search=search,
        compare=tuple(value.get("compare", {}).get("measures", ())),
        against=value.get("compare", {}).get("against", ""),
        base=base,
    )


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """Faults of a study beyond its schema."""
    for name, least in _DURATIONS.items():
        yield from find_duration_faults(value.get(name), name, whole=True, least=least)
        for index, duration in enumerate(value.get("grid", {}).get(name, ())):
            yield from find_duration_faults(duration, f"grid.{name}[{index}]", whole=True, least=least)
    yield from _cluster_faults(value)
    given = {**value.get("grid", {}), **value}
    if "checkpointCost" in given and "checkpoint" not in given:
        yield SchemaFault(
            _where("checkpointCost", value), "expected checkpoint with it, because nothing is saved without"
        )
    for name in ("restart", "estimates"):
        if name in given and value.get("arrivalsOnly"):
            yield SchemaFault(_where(name, value), "expected none with arrivalsOnly, because jobs do not end")
    if "block" in value and "seeds" not in value:
        yield SchemaFault("block", "expected seeds with it, which draw blocks of the trace")
    if value.get("arrivalsOnly") and ("checkpoint" in value or "checkpoint" in value.get("grid", {})):
        yield SchemaFault("checkpoint", "expected no checkpoint with arrivalsOnly, because jobs do not end")
    if "search" in value:
        if "grid" in value:
            yield SchemaFault("search", "expected one of grid and search")
        yield from search_faults(value["search"])
    for index, text in enumerate(value.get("compare", {}).get("measures", ())):
        try:
            read_subject(text)
        except InputError as error:
            yield SchemaFault(f"compare.measures[{index}]", error.message)
    find = value.get("find")
    if find is None:
        return
    yield from _asked(find)
    least = find.get("least", GPUS)
    known = (GPUS, COST, *value.get("grid", {}), *value.get("search", {}).get("over", {}))
    if least not in known:
        yield SchemaFault("find.least", f"the study does not vary {least!r:.80}; expected one of {', '.join(known)}")


def _cluster_faults(value: dict[str, Any]) -> Iterator[SchemaFault]:
    """A study has one fleet or several clusters, and some options belong to one of these only."""
    varied = {**value.get("search", {}).get("over", {}), **value.get("grid", {})}
    given = {**varied, **value}
    if ("fleet" in given) == ("clusters" in given):
        yield SchemaFault("fleet", "expected one of fleet and clusters")
    elif "clusters" in given:
        for name in ("size", "quotas", "limits", "failures", "speeds", "services"):
            if name in given:
                yield SchemaFault(
                    _where(name, value), "applies only to a single fleet; expected it in the file of clusters"
                )
    elif "dispatch" in given:
        yield SchemaFault(_where("dispatch", value), "expected clusters together with dispatch")


def _where(name: str, value: dict[str, Any]) -> str:
    return name if name in value else f"grid.{name}" if name in value.get("grid", {}) else f"search.over.{name}"


def _asked(find: dict[str, Any]) -> Iterator[SchemaFault]:
    if ("target" in find) == ("measure" in find):
        yield SchemaFault("find", "expected one of target and measure")
        return
    if "target" in find:
        if surplus := [name for name in ("queue", "below", "above") if name in find]:
            yield SchemaFault(f"find.{surplus[0]}", "expected no such field with target, whose text contains it")
        for index, text in enumerate(_texts(find["target"])):
            try:
                read_target(text)
            except InputError as error:
                yield SchemaFault(
                    f"find.target[{index}]" if isinstance(find["target"], list) else "find.target", error.message
                )
        return
    if ("below" in find) == ("above" in find):
        yield SchemaFault("find", "expected one of below and above")
    measure = find["measure"]
    for side in ("below", "above"):
        if isinstance(find.get(side), str):
            if not is_time(measure):
                yield SchemaFault(
                    f"find.{side}", f"{find[side]!r:.40} is a time and {measure} is none; expected a number"
                )
            yield from find_duration_faults(find[side], f"find.{side}", whole=True)
        elif side in find and (fault := part_fault(measure, find[side])):
            yield SchemaFault(f"find.{side}", fault)


def _texts(target: str | list[str]) -> list[str]:
    return [target] if isinstance(target, str) else target


def placed(name: str, value: Any, base: Path) -> Any:
    """Convert an option's value: file names to absolute paths seen from ``base``, durations to seconds."""
    return located(name, _measured(name, value), base)


def _measured(name: str, value: Any) -> Any:
    """Convert durations to seconds."""
    return int(duration_seconds(value, days=True)) if name in _DURATIONS else value


def _find(question: dict[str, Any]) -> StudyQuestion:
    least = question.get("least", GPUS)
    if "target" in question:
        return StudyQuestion(targets=tuple(read_target(text) for text in _texts(question["target"])), least=least)
    limits = {
        side: duration_seconds(bound, days=True) if isinstance(bound, str) else float(bound)
        for side in ("below", "above")
        if (bound := question.get(side)) is not None
    }
    return StudyQuestion(
        targets=(StudyTarget(measure=question["measure"], queue=question.get("queue", ALL), **limits),), least=least
    )
