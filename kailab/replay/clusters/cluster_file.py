"""A file of clusters, with every fault named by line and field.

    apiVersion: kailab.dev/v1
    kind: Clusters
    dispatch: {policy: spill-over, parameters: {bound: 600}}
    clusters:
      - {name: onprem, fleet: hundred, teams: [vision, speech]}
      - {name: cloud, fleet: cloud.yaml, prices: cloud-prices.yaml}
    link: {latency: 40ms, gigabitsPerSecond: 10, perGigabyte: 0.09}
    datasets:
      - {name: images, size: 2Ti, at: [onprem], teams: [vision]}

Paths are seen from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import ExtensionError, InputError, InputErrors, PolicyError, Where
from kailab.fleet import Fleet
from kailab.lab.seen_names import there_are
from kailab.model.prices import Prices, load_prices
from kailab.model.quantities import mem_bytes
from kailab.model.schema_files import SchemaFault, field_place, find_duration_faults, read_schema_file
from kailab.model.times import duration_seconds
from kailab.replay.checkpoint import facts_digest, lab_facts, program_facts, trace_facts
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
    seen,
)
from kailab.replay.costs import gpus_by_model
from kailab.replay.fleets import replay_fleet
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.policies import NamedPolicy, files_of, uses_random_numbers, with_replay_policies
from kailab.replay.queues import MODES, NO_QUOTA, priorities_of, queues_for
from kailab.replay.trace import Trace, unknown_priority, without
from kailab.scheduler.settings.policies import load_choice, names_policy_file, resolve_policy_name

_SCHEMA = Path(__file__).with_name("clusters.schema.json")
DEFAULT = "spill-over"
"""Dispatch policy where none is named."""


@dataclass(frozen=True)
class SiteDefaults:
    """What holds for clusters of which the file does not say it, and for all. ``queues``: see ``queues_for``. ``dispatch``: a policy in the place of
    the file's, by its name or with parameters. ``skip_broken``: as of ``read_trace``, for jobs that name what a cluster does not have."""

    queues: str = NO_QUOTA
    config: Path | None = None
    policies: tuple[NamedPolicy, ...] = ()
    prices: Path | None = None
    seed: int | None = None
    checkpoint: int | None = None
    endless: bool = False
    dispatch: str | PolicyChoice = ""
    skip_broken: bool = False


def read_sites(path: Path, trace: Trace, otherwise: SiteDefaults = SiteDefaults()) -> ClusterSites:
    """Raises InputError, or InputErrors with every fault of the file."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    base = path.absolute().parent
    grounds = [_reading_context(path, place, one, base, otherwise) for place, one in enumerate(value["clusters"])]
    datasets = {one["name"]: _dataset(one) for one in value.get("datasets", ())}
    trace = without(trace, partial(_strange, path, grounds, datasets), skip_broken=otherwise.skip_broken)
    sites = [_site(one, trace, base, otherwise, path) for one in grounds]
    currencies = {one.prices.currency for one in sites if one.prices is not None}
    if len(currencies) > 1:
        raise InputError(f"prices in {' and '.join(sorted(currencies))}; expected one currency", Where(file=str(path)))
    return ClusterSites(
        file=str(path),
        trace=trace,
        sites=sites,
        homes=_homes(value, trace, path),
        dispatching=_dispatching(value.get("dispatch", {}), otherwise.dispatch, base, path),
        links={(one["between"][0], one["between"][1]): _link(one) for one in value.get("links", ())},
        link=_link(value.get("link", {})),
        outages=[_outage(one) for one in value.get("outages", ())],
        datasets=datasets,
        drawing=any(uses_random_numbers(one.policies) for one in grounds),
        strangers=list(_strangers(value, trace, path)),
    )


def configurations_of(path: Path) -> list[str]:
    """The files of how clusters decide, as far as they are there. Raises InputError."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    return [str(place) for place in _configurations(value, path.absolute().parent)]


def _configurations(value: Mapping[str, Any], base: Path) -> list[Path]:
    return [place for one in value["clusters"] if (place := seen(one.get("config", ""), base)).is_file()]


def named_files(path: Path) -> list[Path]:
    """The file and all that it names, as far as they are there. Raises InputError."""
    value = read_schema_file(path, _SCHEMA, "one list of clusters", _faults)
    base = path.absolute().parent
    named = [
        one[field] for one in value["clusters"] for field in ("fleet", "queues", "config", "prices") if field in one
    ]
    policies = [name for one in value["clusters"] for name in one.get("policies", ())]
    policies += [value.get("dispatch", {}).get("policy", "")]
    named += [name.rpartition(":")[0] for name in policies if names_policy_file(name)]
    named += [name for config in _configurations(value, base) for name in files_of(config)]
    return [path, *(place for name in dict.fromkeys(named) if (place := seen(name, base)).is_file())]


@dataclass(frozen=True, kw_only=True)
class _ReadingContext:
    """What a cluster has whatever the trace is. ``field``: where it stands in the file. ``how``: see ``queues_for``. ``priorities``: names of its
    PriorityClasses."""

    told: Mapping[str, Any]
    field: str
    fleet: Fleet
    policies: tuple[NamedPolicy, ...]
    how: str
    priorities: tuple[str, ...]


def _reading_context(
    path: Path, place: int, told: Mapping[str, Any], base: Path, otherwise: SiteDefaults
) -> _ReadingContext:
    field = f"clusters[{place}]"
    placed = seen(told["fleet"], base)
    with _named_in(path, f"{field}.fleet"):
        fleet = replay_fleet(str(placed) if placed.is_file() else told["fleet"])
    queues = told.get("queues", "")
    how = otherwise.queues if not queues else queues if queues in MODES else str(seen(queues, base))
    with _named_in(path, f"{field}.queues" if queues else ""):
        priorities = priorities_of(how, fleet)
    own = told.get("policies")
    policies = otherwise.policies if own is None else tuple(resolve_policy_name(name, base) for name in own)
    return _ReadingContext(told=told, field=field, fleet=fleet, policies=policies, how=how, priorities=priorities)


def _strange(path: Path, grounds: Sequence[_ReadingContext], datasets: Mapping[str, Dataset], job: TraceJob) -> str:
    """What a job names and is not there; empty where all is."""
    for one in grounds:
        if strange := unknown_priority(job, one.priorities):
            return f"cluster {one.told['name']}: {strange}"
    if job.dataset and job.dataset not in datasets:
        return f"no dataset is called {job.dataset!r:.80}; {path} has: {', '.join(datasets) or 'none'}"
    return ""


def _site(one: _ReadingContext, trace: Trace, base: Path, otherwise: SiteDefaults, path: Path) -> ClusterSite:
    told, fleet = one.told, one.fleet
    config = seen(told["config"], base) if "config" in told else otherwise.config
    seed = otherwise.seed if uses_random_numbers(one.policies) else None
    with _named_in(path, f"{one.field}.queues" if "queues" in told else ""):
        queues = queues_for(trace, fleet.summary().gpus, one.how)
    own = next((field for field in ("policies", "config") if field in told), "")
    with _named_in(path, f"{one.field}.{own}" if own else ""):
        decided = with_replay_policies(config, one.policies, trace, fleet, seed)
    with _named_in(path, f"{one.field}.prices" if "prices" in told else ""):
        prices = _prices(seen(told["prices"], base) if "prices" in told else otherwise.prices, fleet)
    return ClusterSite(
        name=told["name"],
        plan=ReplayPlan(
            trace=trace,
            fleet=fleet,
            queues=queues,
            config=decided,
            checkpoint=otherwise.checkpoint,
            endless=otherwise.endless,
            prices=prices,
        ),
        limit=told.get("limit"),
        pay=told.get("pay", ALL),
    )


@contextmanager
def _named_in(path: Path, field: str) -> Iterator[None]:
    """What is wrong with something that the field names is told with the field, unless it is told with a line of its own. Empty: it is named on the command line."""
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
    found = load_prices(path)
    found.check(gpus_by_model(fleet))
    return found


def _homes(value: Mapping[str, Any], trace: Trace, path: Path) -> dict[str, str]:
    named = {team: one["name"] for one in value["clusters"] for team in one.get("teams", ())}
    home = value.get("home") or (value["clusters"][0]["name"] if len(value["clusters"]) == 1 else "")
    if homeless := [team for team in trace.teams if team not in named and not home]:
        raise InputError(
            f"no cluster names the trace's {', '.join(map(repr, homeless[:5]))} among its teams; expected that, or home: NAME for all others",
            field_place(path, "home"),
        )
    return {team: named.get(team, home) for team in trace.teams}


def _strangers(value: Mapping[str, Any], trace: Trace, path: Path) -> Iterator[str]:
    """No error: a file may be of more teams than a trace has."""
    teams = trace.teams  # a look at every job
    for part in ("clusters", "datasets"):
        for place, one in enumerate(value.get(part, ())):
            for team in one.get("teams", ()):
                if team not in teams:
                    yield f"{path}: {part}[{place}].teams: no job of the trace is of the team {team!r:.80}; {there_are(teams, team)}"


def _dispatching(told: Mapping[str, Any], instead: str | PolicyChoice, base: Path, path: Path) -> DispatchSettings:
    name = resolve_policy_name(told["policy"], base) if "policy" in told else DEFAULT
    field = "dispatch"
    choice = PolicyChoice(name=name, parameters=told.get("parameters", {}))
    if isinstance(instead, PolicyChoice):
        choice, field = instead, ""
    elif instead and instead != name:
        # Parameters are those of the policy for which they are told.
        choice, field = PolicyChoice(name=instead), ""
    with _named_in(path, field):
        dispatch_policy(choice)
    return DispatchSettings(
        policy=choice,
        retry=int(duration_seconds(told["retry"], days=True)) if "retry" in told else RETRY,
        again=int(duration_seconds(told["again"], days=True)) if "again" in told else None,
        most=told.get("most", DispatchSettings.most),
    )


def _link(told: Mapping[str, Any]) -> NetworkLink:
    bits = told.get("gigabitsPerSecond")
    return NetworkLink(
        latency=duration_seconds(told["latency"]) if "latency" in told else 0.0,
        bits=None if bits is None else bits * 10**9,
        per_gigabyte=float(told.get("perGigabyte", 0)),
    )


def _dataset(told: Mapping[str, Any]) -> Dataset:
    return Dataset(
        name=told["name"], size=mem_bytes(told["size"]), at=tuple(told["at"]), teams=tuple(told.get("teams", ()))
    )


def _outage(told: Mapping[str, Any]) -> ClusterOutage:
    begin = int(duration_seconds(told["from"], days=True))
    return ClusterOutage(
        cluster=told["cluster"], begin=begin, end=begin + int(duration_seconds(told["for"], days=True))
    )


# --- faults of a file that has the form --------------------------------------------------------------------------------


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    names = [one["name"] for one in value["clusters"]]
    teams: dict[str, str] = {}
    for place, one in enumerate(value["clusters"]):
        if one["name"] in names[:place]:
            yield SchemaFault(f"clusters[{place}].name", f"a second cluster {one['name']}; expected each once")
        for team in one.get("teams", ()):
            if teams.setdefault(team, one["name"]) != one["name"]:
                yield SchemaFault(f"clusters[{place}].teams", f"{team!r:.80} is at home in {teams[team]} already")
    if "home" in value and value["home"] not in names:
        yield SchemaFault("home", f"there is no cluster {value['home']!r:.80}; {there_are(names, value['home'])}")
    for field in ("retry", "again"):
        yield from find_duration_faults(value.get("dispatch", {}).get(field), f"dispatch.{field}", whole=True)
    yield from find_duration_faults(value.get("link", {}).get("latency"), "link.latency")
    pairs: set[frozenset[str]] = set()
    for place, one in enumerate(value.get("links", ())):
        yield from find_duration_faults(one.get("latency"), f"links[{place}].latency")
        for name in one["between"]:
            if name not in names:
                yield SchemaFault(
                    f"links[{place}].between", f"there is no cluster {name!r:.80}; {there_are(names, name)}"
                )
        pair = frozenset(one["between"])
        if len(pair) < 2 or pair in pairs:
            yield SchemaFault(f"links[{place}].between", "expected two different clusters, each two once")
        pairs.add(pair)
    for place, one in enumerate(value.get("outages", ())):
        if one["cluster"] not in names:
            yield SchemaFault(
                f"outages[{place}].cluster",
                f"there is no cluster {one['cluster']!r:.80}; {there_are(names, one['cluster'])}",
            )
        yield from find_duration_faults(one["from"], f"outages[{place}].from", whole=True, least=0)
        yield from find_duration_faults(one["for"], f"outages[{place}].for", whole=True)
    yield from _data_faults(value, names)


def _data_faults(value: dict[str, Any], names: list[str]) -> Iterator[SchemaFault]:
    known: set[str] = set()
    teams: dict[str, str] = {}
    for place, one in enumerate(value.get("datasets", ())):
        path = f"datasets[{place}]"
        if one["name"] in known:
            yield SchemaFault(f"{path}.name", f"a second dataset {one['name']!r:.80}; expected each once")
        known.add(one["name"])
        for name in one["at"]:
            if name not in names:
                yield SchemaFault(f"{path}.at", f"there is no cluster {name!r:.80}; {there_are(names, name)}")
        for team in one.get("teams", ()):
            if teams.setdefault(team, one["name"]) != one["name"]:
                yield SchemaFault(f"{path}.teams", f"{team!r:.80} has the dataset {teams[team]!r:.80} already")
        try:
            mem_bytes(one["size"])
        except InputError as error:
            yield SchemaFault(f"{path}.size", error.message)


# What a replay over several clusters is a replay of, for the file that it is kept in.


def dispatch_facts(sites: ClusterSites, lasting: int | None) -> dict[str, str]:
    """As those of a plan. Raises InputError, ExtensionError."""
    found = trace_facts(sites.trace)
    for site in sites.sites:
        found.update({f"{what} of cluster {site.name}": text for what, text in lab_facts(site.plan).items()})
    dispatching = sites.dispatching
    found["the file of clusters"] = facts_digest(
        [(site.name, site.limit, site.pay) for site in sites.sites],
        dict(sites.homes),
        (dispatching.retry, dispatching.again, dispatching.most),
        [[*pair, link] for pair, link in sites.links.items()],
        sites.link,
        dict(sites.datasets),
        list(sites.outages),
    )
    found["the dispatch policy"] = facts_digest(load_choice(dispatching.policy))
    plan = sites.sites[0].plan
    found["--for, --checkpoint or --arrivals-only"] = f"{lasting} {plan.checkpoint} {plan.endless}"
    return {**found, **program_facts()}
