"""The replay that the options of a run stand for."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

from kailab.errors import InputError
from kailab.fleet import Fleet
from kailab.lab.names import there_are
from kailab.replay import queues as making
from kailab.replay.fleets import replay_fleet
from kailab.replay.queues import Queues
from kailab.replay.replaying import Plan
from kailab.replay.trace import Trace, read_trace
from kailab.scheduler import settings_of
from kailab.studies.resampling import resampled
from kailab.studies.study import Run


def plan_of(run: Run) -> Plan:
    """Raises InputError."""
    options = run.options
    fleet = _fleet(options["fleet"])
    trace = _trace(
        options["trace"],
        options.get("format", ""),
        tuple(sorted(options.get("columns", {}).items())),
        options.get("skipBroken", False),
    )
    # Quotas by share are those of the trace as it is: what a team is promised does not follow what it came to ask for.
    queues = _queues(options.get("queues", "none"), trace, fleet)
    for field, name in (("quotas", "quota"), ("limits", "limit")):
        queues = _with(queues, name, options.get(field, {}), field)
    return Plan(
        trace=trace if run.seed is None else resampled(trace, run.seed),
        fleet=fleet,
        queues=queues,
        config=settings_of(options["config"]) if "config" in options else None,
        lasting=options.get("for"),
        checkpoint=options.get("checkpoint"),
        endless=options.get("arrivalsOnly", False),
    )


@cache
def _fleet(name_or_path: str) -> Fleet:
    return replay_fleet(name_or_path)


@cache
def _trace(path: str, form: str, columns: tuple[tuple[str, str], ...], skip_broken: bool) -> Trace:
    return read_trace(Path(path), form, dict(columns), skip_broken=skip_broken)


def _queues(how: str, trace: Trace, fleet: Fleet) -> Queues:
    if how == "by-share":
        return making.by_share(trace, fleet.summary().gpus)
    if how == "one":
        return making.one_queue(trace)
    return making.without_quota(trace) if how == "none" else making.from_file(trace, Path(how))


def _with(queues: Queues, part: str, told: Mapping[str, float], field: str) -> Queues:
    """GPUs of some queues otherwise than they are."""
    if not told:
        return queues
    objects = {obj["metadata"]["name"]: deepcopy(obj) for obj in queues.objects}
    for name, gpus in told.items():
        if name not in objects:
            raise InputError(f"{field}: there is no queue {name!r:.80}; {there_are(objects, name)}")
        resources = objects[name]["spec"].setdefault("resources", {})
        resources.setdefault("gpu", {"quota": 0, "limit": -1, "overQuotaWeight": 1})[part] = gpus
    return replace(queues, objects=list(objects.values()))
