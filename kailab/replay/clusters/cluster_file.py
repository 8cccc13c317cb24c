"""Read a file of clusters. Every fault is reported with line and field.

    apiVersion: kailab.dev/v1
    kind: Clusters
    dispatch: {policy: spill-over, parameters: {bound: 600}}
    clusters:
      - {name: onprem, fleet: hundred, teams: [vision, speech]}
      - {name: cloud, fleet: cloud.yaml, prices: cloud-prices.yaml}
    link: {latency: 40ms, gigabitsPerSecond: 10, perGigabyte: 0.09}
    datasets:
      - {name: images, size: 2Ti, at: [onprem], teams: [vision]}

Paths are relative to the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import ExtensionError, InputError, InputErrors, PolicyError, Where
from kailab.fleet.fleet import Fleet
from kailab.lab.seen_names import describe_names
from kailab.model.prices import Prices, load_prices
from kailab.model.quantities import mem_bytes
from kailab.model.schema_files import SchemaFault, field_place, find_duration_faults, read_schema_file
from kailab.model.times import duration_seconds
from kailab.replay.clusters.sites import (
    ALL,
    RETRY,
    ClusterOutage,
    ClusterSite,
    ClusterSites,
    Dataset,
    DispatchSettings,
    NetworkLink,
    dispatch_policy,
    resolve_path,
)
from kailab.replay.costs import gpus_by_model
from kailab.replay.fleets import replay_fleet
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import NamedPolicy, files_of, uses_random_numbers, with_replay_policies
from kailab.replay.queues import MODES, NO_QUOTA, priorities_of, queues_for
from kailab.replay.resume_file import facts_digest, lab_dependencies, program_facts, trace_facts
from kailab.replay.trace import Trace, unknown_priority, without
from kailab.scheduler.settings.policies import load_choice, names_policy_file, resolve_policy_name

_SCHEMA = Path(__file__).with_name("clusters.schema.json")
DEFAULT = "spill-over"
"""The dispatch policy if the file names none."""


@dataclass(frozen=True)
class SiteDefaults:
    """Settings of clusters for which the file states none, and settings for all clusters.

    ``queues``: see ``queues_for``. ``dispatch``: a policy that replaces the file's, by name or with parameters.
    ``skip_broken``: as in ``read_trace``, for jobs that name something that a cluster does not have.
    """

    queues: str = NO_QUOTA
    config: Path | None = None
    policies: tuple[NamedPolicy, ...] = ()
    prices: Path | None = None
    seed: int | None = None
    checkpoint: int | None = None
    endless: bool = False
    dispatch: str | PolicyChoice = ""
    skip_broken: bool = False
    saving: int = 0
    restart: int | None = None


def read_sites(path: Path, trace: Trace, otherwise: SiteDefaults = SiteDefaults()) -> ClusterSites:
    """Read the file. Raises InputError, or InputErrors with every fault of the file."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    base = path.absolute().parent
    contexts = [_reading_context(path, place, entry, base, otherwise) for place, entry in enumerate(value["clusters"])]
    if mig := next((job for job in trace.jobs if job.mig), None):
        raise InputError(
            "the job asks for MIG instances, which no dispatcher counts; expected --fleet", trace.where(mig.line)
        )
    datasets = {entry["name"]: _dataset(entry) for entry in value.get("datasets", ())}
    trace = without(trace, partial(_strange, path, contexts, datasets), skip_broken=otherwise.skip_broken)
    warnings = list(_strangers(value, trace, path))
    if attempts := sum(1 for job in trace.jobs if job.attempts):
        # A dispatcher knows one end of a job.
        trace = replace(trace, jobs=[structs.replace(job, attempts=()) for job in trace.jobs])
        warnings.append(
            f"{trace.file}: jobs with several attempts, {attempts} in all, run once, for as long as all of them"
        )
    if elastic := sum(1 for job in trace.jobs if job.least):
        trace = replace(trace, jobs=[structs.replace(job, least=0) for job in trace.jobs])
        warnings.append(
            f"{trace.file}: jobs that could work with some of their pods, {elastic} in all, start with all of them"
        )
    sites = [_site(entry, trace, base, otherwise, path) for entry in contexts]
    currencies = {entry.prices.currency for entry in sites if entry.prices is not None}
    if len(currencies) > 1:
        raise InputError(f"prices in {' and '.join(sorted(currencies))}; expected one currency", Where(file=str(path)))
    return ClusterSites(
        file=str(path),
        trace=trace,
        sites=sites,
        homes=_homes(value, trace, path),
        dispatching=_dispatching(value.get("dispatch", {}), otherwise.dispatch, base, path),
        links={(entry["between"][0], entry["between"][1]): _link(entry) for entry in value.get("links", ())},
        link=_link(value.get("link", {})),
        outages=[_outage(entry) for entry in value.get("outages", ())],
        datasets=datasets,
        drawing=any(uses_random_numbers(entry.policies) for entry in contexts),
        warnings=warnings,
    )


def configurations_of(path: Path) -> list[str]:
    """The scheduler configuration files that the file names and that exist. Raises InputError."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    return [str(place) for place in _configurations(value, path.absolute().parent)]


def _configurations(value: Mapping[str, Any], base: Path) -> list[Path]:
    return [path for cluster in value["clusters"] if (path := resolve_path(cluster.get("config", ""), base)).is_file()]


def named_files(path: Path) -> list[Path]:
    """The file and all existing files that it names. Raises InputError."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    base = path.absolute().parent
    named = [
        cluster[field]
        for cluster in value["clusters"]
        for field in ("fleet", "queues", "config", "prices")
        if field in cluster
    ]
    policies = [name for cluster in value["clusters"] for name in cluster.get("policies", ())]
    policies += [value.get("dispatch", {}).get("policy", "")]
    named += [name.rpartition(":")[0] for name in policies if names_policy_file(name)]
    named += [name for config in _configurations(value, base) for name in files_of(config)]
    return [path, *(file for name in dict.fromkeys(named) if (file := resolve_path(name, base)).is_file())]


@dataclass(frozen=True, kw_only=True)
class _ReadingContext:
    """What is known of a cluster before the trace is read.

    ``entry``: from the file; ``field``: where that stands. ``how``: see ``queues_for``. ``priorities``: names of
    its PriorityClasses.
    """

    entry: Mapping[str, Any]
    field: str
    fleet: Fleet
    policies: tuple[NamedPolicy, ...]
    how: str
    priorities: tuple[str, ...]


def _reading_context(
    path: Path, index: int, entry: Mapping[str, Any], base: Path, otherwise: SiteDefaults
) -> _ReadingContext:
    field = f"clusters[{index}]"
    fleet_path = resolve_path(entry["fleet"], base)
    with _named_in(path, f"{field}.fleet"):
        fleet = replay_fleet(str(fleet_path) if fleet_path.is_file() else entry["fleet"])
    queues = entry.get("queues", "")
    how = otherwise.queues if not queues else queues if queues in MODES else str(resolve_path(queues, base))
    with _named_in(path, f"{field}.queues" if queues else ""):
        priorities = priorities_of(how, fleet)
    own_policies = entry.get("policies")
    policies = (
        otherwise.policies if own_policies is None else tuple(resolve_policy_name(name, base) for name in own_policies)
    )
    return _ReadingContext(entry=entry, field=field, fleet=fleet, policies=policies, how=how, priorities=priorities)


def _strange(path: Path, contexts: Sequence[_ReadingContext], datasets: Mapping[str, Dataset], job: TraceJob) -> str:
    """The reason if the job names a priority or a dataset that does not exist; empty otherwise."""
    for context in contexts:
        if fault := unknown_priority(job, context.priorities):
            return f"cluster {context.entry['name']}: {fault}"
    if job.dataset and job.dataset not in datasets:
        return f"no dataset {job.dataset!r:.80}; {path} has: {', '.join(datasets) or 'none'}"
    return ""


def _site(context: _ReadingContext, trace: Trace, base: Path, otherwise: SiteDefaults, path: Path) -> ClusterSite:
    entry, fleet = context.entry, context.fleet
    config = resolve_path(entry["config"], base) if "config" in entry else otherwise.config
    seed = otherwise.seed if uses_random_numbers(context.policies) else None
    with _named_in(path, f"{context.field}.queues" if "queues" in entry else ""):
        queues = queues_for(trace, fleet.summary().gpus, context.how)
    own_field = next((field for field in ("policies", "config") if field in entry), "")
    with _named_in(path, f"{context.field}.{own_field}" if own_field else ""):
        settings = with_replay_policies(config, context.policies, trace, fleet, seed)
    with _named_in(path, f"{context.field}.prices" if "prices" in entry else ""):
        prices = _prices(resolve_path(entry["prices"], base) if "prices" in entry else otherwise.prices, fleet)
    return ClusterSite(
        name=entry["name"],
        plan=ReplayPlan(
            trace=trace,
            fleet=fleet,
            queues=queues,
            config=settings,
            checkpoint=otherwise.checkpoint,
            saving=otherwise.saving,
            restart=otherwise.restart,
            endless=otherwise.endless,
            prices=prices,
        ),
        limit=entry.get("limit"),
        pay=entry.get("pay", ALL),
    )


@contextmanager
def _named_in(path: Path, field: str) -> Iterator[None]:
    """Add the file and ``field`` to errors about something that the field names, unless they have a line of their own.

    An empty field stands for the command line.
    """
    try:
        yield
    except InputErrors:
        raise
    except (InputError, ExtensionError, PolicyError) as error:
        if isinstance(error, InputError) and (not field or error.where.line):
            raise
        raise InputError(str(error), field_place(path, field) if field else None) from None


def _prices(path: Path | None, fleet: Any) -> Prices | None:
    if path is None:
        return None
    prices = load_prices(path)
    prices.check(gpus_by_model(fleet))
    return prices


def _homes(value: Mapping[str, Any], trace: Trace, path: Path) -> dict[str, str]:
    named = {team: cluster["name"] for cluster in value["clusters"] for team in cluster.get("teams", ())}
    home = value.get("home") or (value["clusters"][0]["name"] if len(value["clusters"]) == 1 else "")
    if homeless := [team for team in trace.teams if team not in named and not home]:
        raise InputError(
            f"no cluster lists the trace's teams {', '.join(map(repr, homeless[:5]))}; expected them under teams, or home: NAME for all others",
            field_place(path, "home"),
        )
    return {team: named.get(team, home) for team in trace.teams}


def _strangers(value: Mapping[str, Any], trace: Trace, path: Path) -> Iterator[str]:
    """Warnings about teams of the file that have no job in the trace."""
    teams = trace.teams  # iterates over all jobs
    for part in ("clusters", "datasets"):
        for index, entry in enumerate(value.get(part, ())):
            for team in entry.get("teams", ()):
                if team not in teams:
                    yield f"{path}: {part}[{index}].teams: the trace has no job of the team {team!r:.80}; {describe_names(teams, team)}"


def _dispatching(entry: Mapping[str, Any], override: str | PolicyChoice, base: Path, path: Path) -> DispatchSettings:
    name = resolve_policy_name(entry["policy"], base) if "policy" in entry else DEFAULT
    field = "dispatch"
    choice = PolicyChoice(name=name, parameters=entry.get("parameters", {}))
    if isinstance(override, PolicyChoice):
        choice, field = override, ""
    elif override and override != name:
        # The file's parameters belong to the policy that they were given for.
        choice, field = PolicyChoice(name=override), ""
    with _named_in(path, field):
        dispatch_policy(choice)
    return DispatchSettings(
        policy=choice,
        retry=int(duration_seconds(entry["retry"], days=True)) if "retry" in entry else RETRY,
        again=int(duration_seconds(entry["again"], days=True)) if "again" in entry else None,
        most=entry.get("most", DispatchSettings.most),
    )


def _link(entry: Mapping[str, Any]) -> NetworkLink:
    bits = entry.get("gigabitsPerSecond")
    return NetworkLink(
        latency=duration_seconds(entry["latency"]) if "latency" in entry else 0.0,
        bits=None if bits is None else bits * 10**9,
        per_gigabyte=float(entry.get("perGigabyte", 0)),
    )


def _dataset(entry: Mapping[str, Any]) -> Dataset:
    return Dataset(
        name=entry["name"], size=mem_bytes(entry["size"]), at=tuple(entry["at"]), teams=tuple(entry.get("teams", ()))
    )


def _outage(entry: Mapping[str, Any]) -> ClusterOutage:
    begin = int(duration_seconds(entry["from"], days=True))
    return ClusterOutage(
        cluster=entry["cluster"], begin=begin, end=begin + int(duration_seconds(entry["for"], days=True))
    )


# --- faults beyond the schema ------------------------------------------------------------------------------------------


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    names = [entry["name"] for entry in value["clusters"]]
    teams: dict[str, str] = {}
    for index, entry in enumerate(value["clusters"]):
        if entry["name"] in names[:index]:
            yield SchemaFault(f"clusters[{index}].name", f"duplicate cluster {entry['name']}; expected each name once")
        for team in entry.get("teams", ()):
            if teams.setdefault(team, entry["name"]) != entry["name"]:
                yield SchemaFault(
                    f"clusters[{index}].teams", f"the team {team!r:.80} already belongs to the cluster {teams[team]}"
                )
    if "home" in value and value["home"] not in names:
        yield SchemaFault("home", f"no cluster {value['home']!r:.80}; {describe_names(names, value['home'])}")
    for field in ("retry", "again"):
        yield from find_duration_faults(value.get("dispatch", {}).get(field), f"dispatch.{field}", whole=True)
    yield from find_duration_faults(value.get("link", {}).get("latency"), "link.latency")
    pairs: set[frozenset[str]] = set()
    for index, entry in enumerate(value.get("links", ())):
        yield from find_duration_faults(entry.get("latency"), f"links[{index}].latency")
        for name in entry["between"]:
            if name not in names:
                yield SchemaFault(f"links[{index}].between", f"no cluster {name!r:.80}; {describe_names(names, name)}")
        pair = frozenset(entry["between"])
        if len(pair) < 2 or pair in pairs:
            yield SchemaFault(f"links[{index}].between", "expected two different clusters, and each pair once")
        pairs.add(pair)
    for index, entry in enumerate(value.get("outages", ())):
        if entry["cluster"] not in names:
            yield SchemaFault(
                f"outages[{index}].cluster",
                f"no cluster {entry['cluster']!r:.80}; {describe_names(names, entry['cluster'])}",
            )
        yield from find_duration_faults(entry["from"], f"outages[{index}].from", whole=True, least=0)
        yield from find_duration_faults(entry["for"], f"outages[{index}].for", whole=True)
    yield from _data_faults(value, names)


def _data_faults(value: dict[str, Any], names: list[str]) -> Iterator[SchemaFault]:
    known: set[str] = set()
    teams: dict[str, str] = {}
    for index, dataset in enumerate(value.get("datasets", ())):
        path = f"datasets[{index}]"
        if dataset["name"] in known:
            yield SchemaFault(f"{path}.name", f"duplicate dataset {dataset['name']!r:.80}; expected each name once")
        known.add(dataset["name"])
        for name in dataset["at"]:
            if name not in names:
                yield SchemaFault(f"{path}.at", f"no cluster {name!r:.80}; {describe_names(names, name)}")
        for team in dataset.get("teams", ()):
            if teams.setdefault(team, dataset["name"]) != dataset["name"]:
                yield SchemaFault(f"{path}.teams", f"the team {team!r:.80} already has the dataset {teams[team]!r:.80}")
        try:
            mem_bytes(dataset["size"])
        except InputError as error:
            yield SchemaFault(f"{path}.size", error.message)


def dispatch_facts(sites: ClusterSites, lasting: int | None) -> dict[str, str]:
    """Everything that the course of the replay depends on, as ``resume_facts``. Raises InputError,
    ExtensionError."""
    facts = trace_facts(sites.trace)
    for site in sites.sites:
        facts.update(
            {f"{description} of cluster {site.name}": text for description, text in lab_dependencies(site.plan).items()}
        )
    dispatching = sites.dispatching
    facts["the file of clusters"] = facts_digest(
        [(site.name, site.limit, site.pay) for site in sites.sites],
        dict(sites.homes),
        (dispatching.retry, dispatching.again, dispatching.most),
        [[*pair, link] for pair, link in sites.links.items()],
        sites.link,
        dict(sites.datasets),
        list(sites.outages),
    )
    facts["the dispatch policy"] = facts_digest(load_choice(dispatching.policy))
    plan = sites.sites[0].plan
    facts["--for, --checkpoint or --arrivals-only"] = f"{lasting} {plan.progress} {plan.endless}"
    return {**facts, **program_facts()}
