"""A study's file: YAML, with every fault named by line and field.

    trace: philly.csv
    fleet: scale-500
    queues: by-share
    grid:
      config: [kai.yaml, fifo.yaml]
      limits: [{vision: 100}, {vision: 150}]
    seeds: 5
    find: {target: vision p99 wait < 10m, least: gpus}

Paths are seen from the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kailab.errors import InputError
from kailab.model.schema_files import SchemaFault, find_duration_faults, read_schema_file
from kailab.model.times import duration_seconds
from kailab.replay.policies import NamedPolicy
from kailab.replay.queues import MODES
from kailab.scheduler.settings.policies import resolve_policy_name
from kailab.studies.study import Study, StudyQuestion, read_search, search_faults
from kailab.studies.target import ALL, StudyTarget, read_subject, read_target

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
"""Of a study."""
_SCHEMA = Path(__file__).with_name("study.schema.json")
_OPTIONS = (
    "trace", "format", "columns", "skipBroken", "fleet", "clusters", "dispatch", "size", "queues", "quotas", "limits", "for", "checkpoint", "arrivalsOnly", "config", "policies", "prices",
)  # fmt: skip
GPUS = "gpus"
"""What a setting may have least of without being varied itself: the GPUs of its fleet."""
COST = "cost"
"""Another: what the replay cost, the mean over the seeds; with prices."""


def read_study(path: Path) -> Study:
    """Raises InputError, or InputErrors with every fault of the file."""
    value = read_schema_file(path, _SCHEMA, "one study", _faults)
    base = path.absolute().parent
    grid = {name: tuple(placed(name, one, base) for one in values) for name, values in value.get("grid", {}).items()}
    search = None
    if "search" in value:
        search = read_search(value["search"], lambda name, one: placed(name, one, base))
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
    )


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """Of a study that has the form."""
    for name in ("for", "checkpoint"):
        yield from find_duration_faults(value.get(name), name, whole=True)
        for place, one in enumerate(value.get("grid", {}).get(name, ())):
            yield from find_duration_faults(one, f"grid.{name}[{place}]", whole=True)
    yield from _cluster_faults(value)
    if value.get("arrivalsOnly") and ("checkpoint" in value or "checkpoint" in value.get("grid", {})):
        yield SchemaFault("checkpoint", "with arrivalsOnly no job has an end that it could come nearer to")
    if "search" in value:
        if "grid" in value:
            yield SchemaFault("search", "expected one of grid and search")
        yield from search_faults(value["search"])
    for place, text in enumerate(value.get("compare", {}).get("measures", ())):
        try:
            read_subject(text)
        except InputError as error:
            yield SchemaFault(f"compare.measures[{place}]", error.message)
    find = value.get("find")
    if find is None:
        return
    yield from _asked(find)
    least = find.get("least", GPUS)
    known = (GPUS, COST, *value.get("grid", {}), *value.get("search", {}).get("over", {}))
    if least not in known:
        yield SchemaFault(
            "find.least", f"{least!r:.80} is nothing that the study varies; expected one of {', '.join(known)}"
        )


def _cluster_faults(value: dict[str, Any]) -> Iterator[SchemaFault]:
    """One fleet, or several clusters; and what is of one only."""
    varied = {**value.get("search", {}).get("over", {}), **value.get("grid", {})}
    given = {**varied, **value}
    if ("fleet" in given) == ("clusters" in given):
        yield SchemaFault("fleet", "expected one of fleet and clusters")
    elif "clusters" in given:
        for name in ("size", "quotas", "limits"):
            if name in given:
                yield SchemaFault(_where(name, value), "is of one fleet; a file of clusters says it of each")
    elif "dispatch" in given:
        yield SchemaFault(_where("dispatch", value), "expected clusters with it")


def _where(name: str, value: dict[str, Any]) -> str:
    return name if name in value else f"grid.{name}" if name in value.get("grid", {}) else f"search.over.{name}"


def _asked(find: dict[str, Any]) -> Iterator[SchemaFault]:
    if ("target" in find) == ("measure" in find):
        yield SchemaFault("find", "expected one of target and measure")
        return
    if "target" in find:
        if odd := [name for name in ("queue", "below", "above") if name in find]:
            yield SchemaFault(f"find.{odd[0]}", "with target it is said there")
        for place, text in enumerate(_texts(find["target"])):
            try:
                read_target(text)
            except InputError as error:
                yield SchemaFault(
                    f"find.target[{place}]" if isinstance(find["target"], list) else "find.target", error.message
                )
        return
    if ("below" in find) == ("above" in find):
        yield SchemaFault("find", "expected one of below and above")
    for side in ("below", "above"):
        if isinstance(find.get(side), str):
            yield from find_duration_faults(find[side], f"find.{side}", whole=True)


def _texts(told: str | list[str]) -> list[str]:
    return [told] if isinstance(told, str) else told


def placed(name: str, value: Any, base: Path) -> Any:
    """An option's value: files, seen from ``base``, with their whole path; durations in seconds."""
    if name in ("for", "checkpoint"):
        return int(duration_seconds(value, days=True))
    if name == "dispatch":
        return _policy(value, base)
    if name in ("trace", "config", "prices", "clusters"):
        return str(base / Path(value).expanduser())
    if name == "queues" and value not in MODES:
        return str(base / Path(value).expanduser())
    if name == "policies":
        return [_policy(one, base) for one in value]
    if name == "fleet" and (base / Path(value).expanduser()).is_file():
        return str(base / Path(value).expanduser())
    return value


def _policy(told: NamedPolicy, base: Path) -> NamedPolicy:
    return (
        resolve_policy_name(told, base)
        if isinstance(told, str)
        else {**told, "policy": resolve_policy_name(told["policy"], base)}
    )


def _find(told: dict[str, Any]) -> StudyQuestion:
    least = told.get("least", GPUS)
    if "target" in told:
        return StudyQuestion(targets=tuple(read_target(text) for text in _texts(told["target"])), least=least)
    limits = {
        side: duration_seconds(bound, days=True) if isinstance(bound, str) else float(bound)
        for side in ("below", "above")
        if (bound := told.get(side)) is not None
    }
    return StudyQuestion(
        targets=(StudyTarget(measure=told["measure"], queue=told.get("queue", ALL), **limits),), least=least
    )
