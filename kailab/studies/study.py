"""What a study searches through, and what for; as its file says it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from kailab import __version__
from kailab.errors import InputError
from kailab.model.files import read_bytes
from kailab.model.schema_files import SchemaFault
from kailab.replay.clusters.cluster_file import configurations_of, named_files
from kailab.replay.policies import choice_of, files_of
from kailab.studies.target import StudyTarget, read_subject, subject


class ValueRange(msgspec.Struct, frozen=True):
    """Numbers from ``low`` to ``high``, both among them, in steps."""

    low: float
    high: float
    step: float


class StudySearch(msgspec.Struct, frozen=True, kw_only=True):
    """``over``: option -> the values that there are, a range, or ranges by queue. The ``measure`` of ``queue`` is to be as large as can be (``largest``), or as small.
    ``trials``: settings proposed in all, ``batch`` of them before the search is told what came of them."""

    over: Mapping[str, Any]
    measure: str
    queue: str
    largest: bool
    trials: int
    seed: int = 0
    batch: int = 4

    @property
    def subject(self) -> str:
        return subject(self.measure, self.queue)


def search_faults(told: Mapping[str, Any]) -> Iterator[SchemaFault]:
    """Of one that has the form."""
    if ("minimise" in told) == ("maximise" in told):
        yield SchemaFault("search", "expected one of minimise and maximise")
    for side in ("minimise", "maximise"):
        if side in told:
            try:
                read_subject(told[side])
            except InputError as error:
                yield SchemaFault(f"search.{side}", error.message)
    for option, values in told["over"].items():
        if isinstance(values, dict):
            for path, one in (
                [(option, values)] if "from" in values else [(f"{option}.{q}", v) for q, v in values.items()]
            ):
                if one["from"] >= one["to"]:
                    yield SchemaFault(
                        f"search.over.{path}", f"from {one['from']:g} to {one['to']:g}; expected the smaller first"
                    )
                elif one["to"] - one["from"] < one["step"]:
                    yield SchemaFault(f"search.over.{path}", f"a step of {one['step']:g} leaves only {one['from']:g}")


def read_search(told: Mapping[str, Any], placed: Any) -> StudySearch:
    """Of one without faults. ``placed``: makes an option's value of what the file says."""
    side = "minimise" if "minimise" in told else "maximise"
    queue, measure = read_subject(told[side])
    over: dict[str, Any] = {}
    for option, values in told["over"].items():
        if not isinstance(values, dict):
            over[option] = tuple(placed(option, one) for one in values)
        elif "from" in values:
            over[option] = _range(values)
        else:
            over[option] = {name: _range(one) for name, one in values.items()}
    rest = {name: told[name] for name in ("seed", "batch") if name in told}
    return StudySearch(
        over=over, measure=measure, queue=queue, largest=side == "maximise", trials=told["trials"], **rest
    )


def _range(told: Mapping[str, Any]) -> ValueRange:
    # The last step may not reach the end: the sampler takes ranges of whole steps only.
    steps = int((told["to"] - told["from"]) / told["step"] + 1e-9)
    return ValueRange(told["from"], told["from"] + steps * told["step"], told["step"])


# What a study varies, and the runs that follow from it: each combination of values, with each seed.

FILES = ("trace", "fleet", "queues", "config", "prices")
"""Options whose value may be a file."""


FORM = 3
"""Of what is kept of a run: another where its measures are others."""


class StudyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """All ``targets`` are to be kept; of the settings that do that, the one with the least ``least``."""

    targets: tuple[StudyTarget, ...]
    least: str = "gpus"


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One replay. ``number``: from 0, in the study's order. ``options``: all of them, files with absolute paths. ``setting``: those that the
    study varies. ``seed``: None for the trace as it is. ``key``: another where anything differs that can change the result, files' content too."""

    number: int
    options: dict[str, Any]
    setting: dict[str, Any]
    seed: int | None
    key: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """``options``: of all runs. ``grid``: option -> its values. ``seeds``: none, for the trace as it is. ``search``: settings are
    searched for; the grid then has the options that it varies, without values. ``compare``: measures by which settings are held ``against`` one of them."""

    name: str
    options: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    seeds: tuple[int, ...] = ()
    find: StudyQuestion | None = None
    search: StudySearch | None = None
    compare: tuple[str, ...] = ()
    against: str = ""

    def settings(self) -> Iterator[dict[str, Any]]:
        """Every combination of the grid's values, the last option varied first."""
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))

    def configurations(self) -> list[str]:
        """The files of how is decided in any of the runs, each once. Raises InputError for a file of clusters that can't be read."""
        given = [self.options, *({name: value} for name, values in self.grid.items() for value in values)]
        found = [str(options["config"]) for options in given if "config" in options]
        found += [
            file for options in given if "clusters" in options for file in configurations_of(Path(options["clusters"]))
        ]
        return list(dict.fromkeys(found))

    def runs(self) -> list[StudyRun]:
        """Raises InputError for a file that can't be read."""
        digests: dict[str, str] = {}
        found: list[StudyRun] = []
        for setting in self.settings():
            options = {**self.options, **setting}
            for seed in self.seeds or (None,):
                found.append(run_of(len(found), options, setting, seed, digests))
        return found


def run_of(
    number: int, options: dict[str, Any], setting: dict[str, Any], seed: int | None, digests: dict[str, str]
) -> StudyRun:
    """``digests``: of files that were read already, and are now. Raises InputError for a file that can't be read."""
    return StudyRun(number=number, options=options, setting=setting, seed=seed, key=_key(options, seed, digests))


def format_value(value: Any) -> str:
    """A value of an option as a table has it.

    >>> told("kai.yaml"), told({"team-b": 200, "team-a": 8}), told(True), told(["fifo", "fgd"]), told([])
    ('kai.yaml', 'team-a=8 team-b=200', 'true', 'fifo fgd', 'none')
    >>> told({"policy": "spill-over", "parameters": {"bound": 60}})
    'spill-over bound=60'
    >>> told([{"policy": "tiresias", "parameters": {"thresholds": [60]}}, "backfill"])
    'tiresias thresholds=[60] backfill'
    """
    if isinstance(value, dict) and "policy" in value:
        parameters = value.get("parameters", {})
        return " ".join((value["policy"], *(f"{name}={parameters[name]}" for name in sorted(parameters))))
    if isinstance(value, dict):
        return " ".join(f"{name}={value[name]:g}" for name in sorted(value))
    if isinstance(value, list):
        return " ".join(map(format_value, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(options: Mapping[str, Any], seed: int | None, digests: dict[str, str]) -> str:
    named = [str(options[name]) for name in FILES if name in options]
    # FILE.py:CLASS
    told_policies = [*options.get("policies", ()), *([options["dispatch"]] if "dispatch" in options else [])]
    named += [choice_of(one).name.rpartition(":")[0] for one in told_policies]
    if "config" in options:
        named += files_of(Path(options["config"]))
    if "clusters" in options:
        named += [str(path) for path in named_files(Path(options["clusters"]))]
    contents = {name: _digest(name, digests) for name in named if Path(name).is_file()}
    whole = msgspec.json.encode(
        {"options": dict(options), "seed": seed, "files": contents, "form": FORM, "kailab": __version__}, order="sorted"
    )
    return hashlib.sha256(whole).hexdigest()[:20]


def _digest(path: str, digests: dict[str, str]) -> str:
    if path not in digests:
        digests[path] = hashlib.sha256(read_bytes(path, None)).hexdigest()
    return digests[path]
