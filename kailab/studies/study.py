"""A study: the options that it varies, the runs that follow, and the question that it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from kailab.errors import InputError
from kailab.model.files import read_bytes
from kailab.model.schema_files import SchemaFault
from kailab.replay.clusters.cluster_file import configurations_of, named_files
from kailab.replay.policies import NamedPolicy, choice_of, files_of
from kailab.replay.queues import MODES
from kailab.scheduler.settings.policies import names_policy_file, resolve_policy_name
from kailab.studies.target import StudyTarget, read_subject, subject
from kailab.version import __version__


class ValueRange(msgspec.Struct, frozen=True):
    """Numbers from ``low`` to ``high`` inclusive, in steps."""

    low: float
    high: float
    step: float


class StudySearch(msgspec.Struct, frozen=True, kw_only=True):
    """A search over settings.

    ``over``: maps each option to its values, a range, or ranges by queue. The ``measure`` of ``queue`` is maximised
    (``largest``) or minimised. ``trials``: number of proposals; ``batch``: proposals before results are returned to the
    search.
    """

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


def search_faults(search: Mapping[str, Any]) -> Iterator[SchemaFault]:
    """Faults of a search beyond its schema."""
    if ("minimise" in search) == ("maximise" in search):
        yield SchemaFault("search", "expected one of minimise and maximise")
    for side in ("minimise", "maximise"):
        if side in search:
            try:
                read_subject(search[side])
            except InputError as error:
                yield SchemaFault(f"search.{side}", error.message)
    for option, values in search["over"].items():
        if isinstance(values, dict):
            for path, value_range in (
                [(option, values)] if "from" in values else [(f"{option}.{q}", v) for q, v in values.items()]
            ):
                if value_range["from"] >= value_range["to"]:
                    yield SchemaFault(
                        f"search.over.{path}",
                        f"from {value_range['from']:g} to {value_range['to']:g}; expected the smaller number first",
                    )
                elif value_range["to"] - value_range["from"] < value_range["step"]:
                    yield SchemaFault(
                        f"search.over.{path}",
                        f"with a step of {value_range['step']:g} the range has only the value {value_range['from']:g}",
                    )


def read_search(search: Mapping[str, Any], converted: Any) -> StudySearch:
    """Read a valid search. ``converted``: converts the durations of an option's value."""
    side = "minimise" if "minimise" in search else "maximise"
    queue, measure = read_subject(search[side])
    over: dict[str, Any] = {}
    for option, values in search["over"].items():
        if not isinstance(values, dict):
            over[option] = tuple(converted(option, value) for value in values)
        elif "from" in values:
            over[option] = _range(values)
        else:
            over[option] = {name: _range(value) for name, value in values.items()}
    optional = {name: search[name] for name in ("seed", "batch") if name in search}
    return StudySearch(
        over=over, measure=measure, queue=queue, largest=side == "maximise", trials=search["trials"], **optional
    )


def _range(values: Mapping[str, Any]) -> ValueRange:
    # The sampler takes only ranges of whole steps, so the end is rounded down.
    steps = int((values["to"] - values["from"]) / values["step"] + 1e-9)
    return ValueRange(values["from"], values["from"] + steps * values["step"], values["step"])


FILES = ("trace", "fleet", "queues", "config", "prices", "failures", "speeds", "services")
"""Options whose value may be a file."""

FORM = 3
"""Version of stored run results. A change of the measures changes it."""


class StudyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which setting keeps all ``targets`` with the smallest ``least``."""

    targets: tuple[StudyTarget, ...]
    least: str = "gpus"


class StudyRun(msgspec.Struct, frozen=True, kw_only=True):
    """One replay.

    ``number``: index in the study. ``options``: all options; files have absolute paths. ``setting``: the varied
    options, with files as the study names them. ``seed``: None for the original trace. ``key``: depends on everything
    that can change the result, including the content of files, and not on where they lie.
    """

    number: int
    options: dict[str, Any]
    setting: dict[str, Any]
    seed: int | None
    key: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study.

    ``options``: of all runs. ``grid``: maps each varied option to its values, with files as the study names them, seen
    from the folder ``base``. ``seeds``: empty for the original trace. ``search``: settings are searched; the grid then
    has the varied options without values. ``compare``: measures by which settings are compared with ``against``.
    """

    name: str
    options: Mapping[str, Any]
    grid: Mapping[str, tuple[Any, ...]]
    seeds: tuple[int, ...] = ()
    find: StudyQuestion | None = None
    search: StudySearch | None = None
    compare: tuple[str, ...] = ()
    against: str = ""
    base: Path = Path()

    def settings(self) -> Iterator[dict[str, Any]]:
        """Every combination of the grid's values; the last option varies fastest."""
        for values in product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))

    def options_of(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a run with this setting; files have absolute paths."""
        return {**self.options, **{name: located(name, value, self.base) for name, value in setting.items()}}

    def configurations(self) -> list[str]:
        """The scheduler configuration files of all runs, each once. Raises InputError for an unreadable file of
        clusters."""
        given = [
            self.options,
            *(self.options_of({name: value}) for name, values in self.grid.items() for value in values),
        ]
        files = [str(options["config"]) for options in given if "config" in options]
        files += [
            file for options in given if "clusters" in options for file in configurations_of(Path(options["clusters"]))
        ]
        return list(dict.fromkeys(files))

    def runs(self) -> list[StudyRun]:
        """All runs. Raises InputError for a file that cannot be read."""
        digests: dict[str, str] = {}
        runs: list[StudyRun] = []
        for setting in self.settings():
            options = self.options_of(setting)
            for seed in self.seeds or (None,):
                runs.append(run_of(len(runs), options, setting, seed, digests))
        return runs


def run_of(
    number: int, options: dict[str, Any], setting: dict[str, Any], seed: int | None, digests: dict[str, str]
) -> StudyRun:
    """Make a run. ``digests``: cache of file digests. Raises InputError for a file that cannot be read."""
    return StudyRun(number=number, options=options, setting=setting, seed=seed, key=_key(options, seed, digests))


def located(name: str, value: Any, base: Path) -> Any:
    """Convert the files in an option's value to absolute paths, seen from ``base``."""
    if name == "dispatch":
        return _located_policy(value, base)
    if name == "policies":
        return [_located_policy(policy, base) for policy in value]
    if name not in (*FILES, "clusters") or (name == "queues" and value in MODES):
        return value
    file = base / Path(value).expanduser()
    # A fleet may also be one of kailab's, by its name.
    return value if name == "fleet" and not file.is_file() else str(file)


def _located_policy(policy: NamedPolicy, base: Path) -> NamedPolicy:
    return (
        resolve_policy_name(policy, base)
        if isinstance(policy, str)
        else {**policy, "policy": resolve_policy_name(policy["policy"], base)}
    )


def format_option(value: Any) -> str:
    """Format an option's value for a table.

    >>> [format_option(value) for value in ("kai.yaml", {"team-b": 200, "team-a": 8}, True, ["fifo", "fgd"], [])]
    ['kai.yaml', 'team-a=8 team-b=200', 'true', 'fifo fgd', 'none']
    >>> format_option({"policy": "spill-over", "parameters": {"bound": 60}})
    'spill-over bound=60'
    >>> format_option([{"policy": "tiresias", "parameters": {"thresholds": [60]}}, "backfill"])
    'tiresias thresholds=[60] backfill'
    """
    if isinstance(value, dict) and "policy" in value:
        parameters = value.get("parameters", {})
        return " ".join((value["policy"], *(f"{name}={parameters[name]}" for name in sorted(parameters))))
    if isinstance(value, dict):
        return " ".join(f"{name}={value[name]:g}" for name in sorted(value))
    if isinstance(value, list):
        return " ".join(map(format_option, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _key(options: Mapping[str, Any], seed: int | None, digests: dict[str, str]) -> str:
    """The key of a run. It has the content of files and not where they lie, so that a study's folder can be moved."""
    contents = {name: _content(name, value, digests) for name, value in options.items()}
    content = msgspec.json.encode(
        {"options": contents, "seed": seed, "form": FORM, "kailab": __version__}, order="sorted"
    )
    return hashlib.sha256(content).hexdigest()[:20]


def _content(name: str, value: Any, digests: dict[str, str]) -> Any:
    """An option's value with the digests of files in place of their names."""
    if name == "policies":
        return [_policy_content(policy, digests) for policy in value]
    if name == "dispatch":
        return _policy_content(value, digests)
    if name == "clusters":
        return [_digest(str(path), digests) for path in named_files(Path(value))]
    if name not in FILES or not Path(str(value)).is_file():
        return value
    # The suffix decides how some files are read.
    digest = [Path(value).suffix, _digest(value, digests)]
    return digest + ([_digest(file, digests) for file in files_of(Path(value))] if name == "config" else [])


def _policy_content(policy: NamedPolicy, digests: dict[str, str]) -> Any:
    choice = choice_of(policy)
    name: Any = choice.name
    if names_policy_file(choice.name):
        file, _, class_name = choice.name.rpartition(":")
        name = [_digest(file, digests), class_name]
    return [name, choice.parameters]


def _digest(path: str, digests: dict[str, str]) -> str:
    if path not in digests:
        digests[path] = hashlib.sha256(read_bytes(path, None)).hexdigest()
    return digests[path]
