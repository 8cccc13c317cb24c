"""``up``, ``down``, ``status``, ``run`` and ``serve``: start a lab, sum it up, let its time pass, serve its page, and end it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import completion, configurations, labfile, options, terminal
from kailab.cli.options import TextOrJson

if TYPE_CHECKING:
    from kailab.lab import Lab
    from kailab.scheduler import SchedulerSettings


@click.command()
@click.option(
    "--fleet",
    default="lesson",
    shell_complete=completion.fleets,
    help="The fleet: a name (`kailab fleet list`) or a file.",
)
@options.scheduler
@click.option(
    "--backend",
    default="embedded",
    shell_complete=completion.backends,
    help="Where the cluster lives: embedded, controlplane, kind, vcluster, or kubeconfig (any cluster).",
)
@click.option(
    "--scheduler-config",
    "--config",
    "config",
    type=options.PATH,
    help="Scheduler configuration, a file as KAI reads it.",
)
@click.option("--adopt-default-scheduler", "adopt", is_flag=True, help="Also schedule pods that name no scheduler.")
@click.option("--fresh", is_flag=True, help="If a lab is up already, replace it.")
@click.option("--keep", is_flag=True, help="If another lab is up already, keep it and say so; this is no error.")
@click.option("--dra", is_flag=True, help="Publish the GPUs for resource claims (DRA), not as nvidia.com/gpu.")
@options.where
@options.kai_chart
@options.operators
@options.state
def up(
    fleet: str,
    scheduler: str,
    backend: str,
    config: Path | None,
    adopt: bool,
    fresh: bool,
    keep: bool,
    dra: bool,
    kubeconfig: Path | None,
    context: str | None,
    components: Path | None,
    kubernetes: str | None,
    operators: tuple[str, ...],
    kai: Path | None,
    kai_crds: Path | None,
    kai_chart: Path | None,
    state: Path,
) -> None:
    """Start a lab: a fleet of fake GPU nodes and a scheduler. An embedded lab is kept in a file; the other backends
    are a real Kubernetes API. None needs root; only kind needs Docker."""
    from kailab.cluster.backends import BACKENDS
    from kailab.errors import InputError, KailabError
    from kailab.fleet import load_fleet
    from kailab.lab import Lab
    from kailab.lab.life import begin, check_decides, end, was_interrupted
    from kailab.lab.venues import ignore_message, provider_of
    from kailab.undertest.selection import check_lab, choose_scheduler

    options = {
        "config": config, "adopt_default_scheduler": adopt, "devices": dra, "kubeconfig": kubeconfig, "context": context,
        "components": components, "kubernetes": kubernetes, "operators": ",".join(operators) if operators else None, "kai": kai, "kai_crds": kai_crds, "kai_chart": kai_chart,
    }  # fmt: skip
    check_lab(backend, scheduler, options)
    if operators:
        options["operators"] = ",".join(_operators(",".join(operators)))
    one = choose_scheduler(scheduler, options)
    if config is None and (named := one.option("config")):
        options["config"] = config = Path(named)
    options |= {option: value for option, value in one.options if options.get(option) is None}
    check_decides(backend, options)
    if fresh and keep:
        raise InputError("--fresh ends a lab that is up, --keep leaves it: give one of them")
    settings = configurations.read_settings(config)
    options = provider_of(backend).completed(options)
    described = load_fleet(fleet)
    with labfile.lock_lab(state):
        if was_interrupted(state):
            terminal.notice(f"{state}: the start of a lab was cut short; what was left of it is taken down")
            end(state)
        if state.exists() and not fresh:
            try:
                with Lab.resume(state, read_only=True) as there:
                    _check_same(state, there, (described.name, backend, one.name), settings, options)
                    terminal.notice(f"The lab is up already: {_lab_line(there)}")
            except KailabError as error:
                if not keep:
                    raise
                terminal.warn(f"{error}\nno lab was begun: the one there is left as it is")
            return
        if state.exists():
            end(state)
        slow = BACKENDS[backend].api_server
        with terminal.spinner("bringing up the lab") if slow else nullcontext(ignore_message) as tell:
            lab = begin(state, described, backend, one, settings, options, tell)
        with lab:
            _say_up(lab)


def _operators(said: str) -> tuple[str, ...]:
    """Raises InputError."""
    from kailab.operators import OPERATORS, choose_operators

    names = choose_operators(said)
    for name in names:
        if name not in said.split(","):
            needing = ", ".join(one for one in names if name in OPERATORS[one].needs)
            terminal.notice(f"The operator {name} runs, too: {needing} needs it")
    return names


def _say_up(lab: Lab) -> None:
    kubeconfig = lab.venue.kubeconfig
    if kubeconfig is None:
        terminal.say(f"The lab is up: {_lab_line(lab)}")
    else:
        terminal.say(f"The lab is up: {_lab_line(lab)}, on Kubernetes {lab.kubernetes}")
        terminal.say(f"export KUBECONFIG={kubeconfig}")
    kubectl = "kubectl get nodes,queues; " if kubeconfig is not None else ""
    terminal.notice(f"Next: {kubectl}kailab apply -f FILE, kailab get pods -o wide, kailab explain queue NAME")


def _check_same(
    state: Path, there: Lab, wanted: tuple[str, str, str], settings: SchedulerSettings, options: Mapping[str, Any]
) -> None:
    """Raises InputError where the lab that is up is not the one asked for, naming all that differs."""
    from kailab.cluster.registry import FLAGS
    from kailab.errors import InputError
    from kailab.lab.life import options_of_cluster

    fleet, backend, scheduler = wanted
    pairs = {
        "--fleet": (fleet, there.fleet),
        "--backend": (backend, there.backend),
        "--scheduler": (scheduler, there.scheduler),
        FLAGS["adopt_default_scheduler"]: (options["adopt_default_scheduler"], there.adopt_default_scheduler),
        FLAGS["devices"]: (options["devices"], there.devices),
    }
    for name, value in options_of_cluster(options).items():
        pairs[FLAGS.get(name, name)] = (value, there.spec.options.get(name, "not given"))
    different = [
        f"{flag}: {_shown(want)} here, {_shown(has)} there" for flag, (want, has) in pairs.items() if want != has
    ]
    if (there.config, there.usage) != (settings.engine, settings.usage):
        different.append(f"{FLAGS['config']}: another configuration there")
    if different:
        raise InputError(
            f"{state}: another lab is up already ({_lab_line(there)}, backend {there.backend}). "
            f"{'; '.join(different)}. End it with `kailab down`, or begin anew with `kailab up --fresh`"
        )


def _shown(value: Any) -> str:
    return {True: "given", False: "not given"}.get(value, str(value)) if isinstance(value, bool) else str(value)


@click.command()
@options.state
def down(state: Path) -> None:
    """End the lab and remove its file."""
    from kailab.lab.life import end

    if not state.exists():
        terminal.notice(f"{state}: no lab is up")
        return
    with labfile.lock_lab(state):
        end(state)
    terminal.say("The lab is down.")


@click.command()
@click.option("--for", "duration", default="", show_default=False, help="How long: 30s, 5m, 1h30m, 2d.")
@options.state
def run(duration: str, state: Path) -> None:
    """Let time pass in the lab: pods finish, minimum runtimes run out, and the scheduler acts each time. Without --for:
    only until nothing changes."""
    from kailab.cli.options import parse_seconds
    from kailab.lab.lab_changes import LabChanges
    from kailab.lab.wording import elapsed

    seconds = parse_seconds("--for", duration) if duration else 0.0
    with labfile.change_lab(state) as lab, terminal.progress_bars() as tell:
        before, begun = LabChanges(lab), lab.now
        lab.settle()
        for _ in lab.moments(max(0.0, seconds - (lab.now - begun))):
            tell("lab time, in seconds", int(lab.now - begun), int(seconds))
        lab.settle()
        told = before.describe("ran for" if duration else "settled after")
    ended = elapsed(lab.now - lab.opened)
    terminal.say(f"{told} (the lab is {ended} old)")


@click.command()
@options.output
@options.state
def status(output: TextOrJson, state: Path) -> None:
    """Sum up the lab: fleet, scheduler, time, GPUs, pods, and the pods that wait."""
    from kailab.lab.wording import elapsed

    with labfile.read_lab(state) as lab:
        data, processes = _summary(lab), _processes(lab)
    if output is TextOrJson.json:
        terminal.say(json.dumps({"state": str(state), **data}, indent=2))
        return
    phases = ", ".join(f"{count} {phase}" for phase, count in data["pods"].items()) or "none"
    waiting = ", ".join(f"{count} {reason}" for reason, count in data["waiting"].items()) or "nothing"
    lines = {
        "Lab": str(state),
        "Backend": data["backend"],
        "Fleet": f"{data['fleet']}: {data['nodes']} nodes, {data['gpus']} GPUs",
        "Scheduler": data["scheduler"],
        "Lab time": f"{data['time']} ({elapsed(data['age_seconds'])} old)",
        "GPUs": f"{data['gpus_in_use']:g} of {data['gpus']} in use",
        "Queues": str(data["queues"]),
        "Pods": phases,
        "Waiting": waiting,
    }
    for name, text in (lines | processes).items():
        terminal.say(f"{name:<10} {text}")


def _processes(lab: Lab) -> dict[str, str]:
    """What there is to say of how others reach the lab, and of its processes."""
    if lab.venue.kubeconfig is None:
        return {}
    found = lab.venue.processes()
    running = ", ".join(one.name for one in found if one.running)
    dead = "; ".join(f"{one.name} ({one.why})" for one in found if not one.running)
    told = {"Kubeconfig": str(lab.venue.kubeconfig)}
    if running:
        told["Processes"] = running
    if dead:
        told["Ended"] = dead
    return told


def _summary(lab: Lab) -> dict[str, Any]:
    from kailab.model.times import format_time

    picture = lab.picture()
    facts = lab.facts()
    del facts["config"]
    return {
        **facts,
        "time": format_time(lab.now),
        "age_seconds": lab.now - lab.opened,
        "gpus_in_use": sum(picture.used.values()) / 1000,
        "queues": len(lab.cluster.list("Queue")),
        "pods": dict(sorted(Counter(row.phase for row in picture.rows).items())),
        "waiting": dict(sorted(Counter(entry.reason or "no reason yet" for entry in picture.waiting()).items())),
    }


def _lab_line(lab: Lab) -> str:
    facts = lab.facts()
    return f"fleet {lab.fleet} ({facts['gpus']} GPUs on {facts['nodes']} nodes), scheduler {lab.scheduler}"


DEFAULT_FLEET = "lesson"


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on the loopback address; 0: a free one.")
@click.option(
    "--fleet",
    shell_complete=completion.fleets,
    help=f"Where no lab is up: begin one with this fleet (a name or a file), if not {DEFAULT_FLEET}.",
)
@click.option(
    "--backend",
    help="Where no lab is up: begin one on this backend (embedded, controlplane, kind, vcluster, kubeconfig).",
)
@click.option("--scheduler", help="Where no lab is up: begin one with this scheduler (`kailab up --help`).")
@options.state
@click.pass_context
def serve(
    context: click.Context, port: int, fleet: str | None, backend: str | None, scheduler: str | None, state: Path
) -> None:
    """Serve a live page of the lab to the browser on this machine: fleet, queues, what waits and why, and forms to submit, delete, scale,
    cordon and set quotas, each tried on a copy before it is applied. Ctrl-C ends it; the lab stays."""
    from kailab.serve.server import serve as run

    given = {
        name: value
        for name, value in (("fleet", fleet), ("backend", backend), ("scheduler", scheduler))
        if value is not None
    }
    # Of a lab that is up `up` says what is otherwise than asked for.
    if given or not state.exists():
        context.invoke(up, state=state, **given)

    def ready(url: str) -> None:
        terminal.say(url)
        terminal.notice("Open this address in a browser on this machine. It is for you alone; Ctrl-C ends it.")

    run(state, port, ready, terminal.notice)
    terminal.notice("The page has ended; the lab is as it was left.")
