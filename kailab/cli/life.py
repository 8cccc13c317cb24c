"""``up``, ``down``, ``status``, ``run`` and ``serve``: start a lab, stop it, summarise it, advance its clock, serve its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kailab.cli import completion, configurations, labfile, options, terminal
from kailab.cli.options import TextOrJson, parse_seconds
from kailab.cli.table import render_table
from kailab.cluster import base_objects
from kailab.cluster.backends import BACKENDS
from kailab.cluster.registry import FLAGS
from kailab.errors import InputError, KailabError
from kailab.evidence.wording import count, elapsed
from kailab.lab.lab_changes import LabChanges
from kailab.lab.model_shortages import describe_shortage
from kailab.model.objects import name_of
from kailab.model.times import format_time, parse_time
from kailab.undertest.selection import check_lab, choose_scheduler

if TYPE_CHECKING:
    from kailab.fleet.fleet import Fleet
    from kailab.lab import Lab
    from kailab.lab.picture import Picture
    from kailab.scheduler.settings.config_file import SchedulerSettings


@click.command()
@click.option(
    "--fleet",
    default="lesson",
    shell_complete=completion.fleets,
    help="Fleet: a name (`kailab fleet list`), a file, or the nodes of a cluster: `kubectl get nodes -o yaml`.",
)
@options.text_option("--at", help="Start of the lab's clock (backend embedded): 2026-01-31T12:00:00Z.")
@options.scheduler
@click.option(
    "--backend",
    default="embedded",
    shell_complete=completion.backends,
    help=f"Where the cluster lives: {', '.join(BACKENDS)}.",
)
@options.scheduler_config
@options.flag("--adopt-default-scheduler", "adopt", help="Also schedule pods that name no scheduler.")
@options.flag("--fresh", help="Replace a lab that is up.")
@options.flag("--keep", help="Keep another lab that is up, with a warning instead of an error.")
@options.flag("--default-queues", help="Make the queues default-parent-queue and default-queue, as KAI's chart does.")
@options.flag("--dra", help="Publish the GPUs for resource claims (DRA) instead of as nvidia.com/gpu.")
@options.where
@options.kai_chart
@options.operators
@options.state
def up(
    fleet: str,
    at: str,
    scheduler: str,
    backend: str,
    config: Path | None,
    adopt: bool,
    fresh: bool,
    keep: bool,
    default_queues: bool,
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
    """Start a lab: a fleet of fake GPU nodes and a scheduler. An embedded lab is stored in a file; the other backends
    use a real Kubernetes API. No backend needs root; only kind needs Docker."""
    from kailab.fleet.reading import load_fleet
    from kailab.lab import Lab
    from kailab.lab.life import begin, check_decides, end, was_interrupted
    from kailab.lab.venues import ignore_message, provider_of

    options = {
        "config": config, "adopt_default_scheduler": adopt, "devices": dra, "kubeconfig": kubeconfig, "context": context,
        "components": components, "kubernetes": kubernetes, "operators": ",".join(operators) if operators else None, "kai": kai, "kai_crds": kai_crds, "kai_chart": kai_chart,
    }  # fmt: skip
    check_lab(backend, scheduler, options)
    if operators:
        options["operators"] = ",".join(_operators(",".join(operators), backend))
    choice = choose_scheduler(scheduler, options)
    if config is None and (config_file := choice.option("config")):
        options["config"] = config = Path(config_file)
    options |= {option: value for option, value in choice.options if options.get(option) is None}
    check_decides(backend, options)
    if fresh and keep:
        raise InputError("--fresh replaces a lab that is up, --keep keeps it; give one of them")
    settings = configurations.settings_of_file(config)
    options = provider_of(backend).completed(options)
    described = load_fleet(fleet)
    if at:
        described = _started_at(described, at, backend)
    for notice in described.notices:
        terminal.notice(notice)
    with labfile.lock_lab(state):
        if was_interrupted(state):
            terminal.notice(f"{state}: the start of a lab was interrupted; its remains are removed")
            end(state)
        if state.exists() and not fresh:
            try:
                with Lab.resume(state, read_only=True) as existing:
                    _check_same(state, existing, (described.name, backend, choice.name), settings, options)
                    if default_queues:
                        _check_default_queues(state, existing)
                    terminal.notice(f"The lab is up already: {_lab_line(existing)}")
            except KailabError as error:
                if not keep:
                    raise
                terminal.warn(f"{error}\nno lab was started; the existing lab is unchanged")
            return
        if state.exists():
            end(state)
        slow = BACKENDS[backend].api_server
        with terminal.spinner("starting the lab") if slow else nullcontext(ignore_message) as tell:
            objects = base_objects.default_queues() if default_queues else ()
            lab = begin(state, described, backend, choice, settings, options, tell, objects=objects)
        with lab:
            _say_up(lab)


def _started_at(fleet: Fleet, at: str, backend: str) -> Fleet:
    """The fleet with another start of the clock. Raises InputError."""
    if BACKENDS[backend].api_server:
        raise InputError(f"--at: a lab on the backend {backend} has real time; only an embedded lab's clock can be set")
    try:
        return replace(fleet, start_time=parse_time(at))
    except InputError as error:
        raise InputError(f"--at: {error}") from None


def _operators(text: str, backend: str) -> tuple[str, ...]:
    """Parse --with and add the operators that others need. Raises InputError."""
    from kailab.operators import OPERATORS, choose_operators

    names = choose_operators(text, backend)
    for name in names:
        if name not in text.split(","):
            dependents = ", ".join(operator for operator in names if name in OPERATORS[operator].needs)
            terminal.notice(f"The operator {name} also runs, because {dependents} needs it")
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
    state: Path, existing: Lab, requested: tuple[str, str, str], settings: SchedulerSettings, options: Mapping[str, Any]
) -> None:
    """Raises InputError with all differences if the existing lab is not the requested one."""
    from kailab.lab.life import options_of_cluster

    fleet, backend, scheduler = requested
    pairs = {
        "--fleet": (fleet, existing.fleet),
        "--backend": (backend, existing.backend),
        "--scheduler": (scheduler, existing.scheduler),
        FLAGS["adopt_default_scheduler"]: (options["adopt_default_scheduler"], existing.adopt_default_scheduler),
        FLAGS["devices"]: (options["devices"], existing.devices),
    }
    for name, value in options_of_cluster(options).items():
        pairs[FLAGS.get(name, name)] = (value, existing.spec.options.get(name, "not given"))
    different = [
        f"{flag}: requested {_flag_text(wanted)}, existing {_flag_text(present)}"
        for flag, (wanted, present) in pairs.items()
        if wanted != present
    ]
    if (existing.config, existing.usage) != (settings.engine, settings.usage):
        different.append(f"{FLAGS['config']}: the existing lab has another configuration")
    if different:
        raise InputError(
            f"{state}: another lab is up already ({_lab_line(existing)}, backend {existing.backend}). "
            f"{'; '.join(different)}. End it with `kailab down`, or replace it with `kailab up --fresh`"
        )


def _check_default_queues(state: Path, existing: Lab) -> None:
    present = {name_of(queue) for queue in existing.cluster.list("Queue")}
    if missing := [name for name in map(name_of, base_objects.default_queues()) if name not in present]:
        raise InputError(
            f"{state}: the lab that is up has no queue {' and no queue '.join(missing)}. Make a new lab with `kailab up --fresh --default-queues`"
        )


def _flag_text(value: Any) -> str:
    return {True: "given", False: "not given"}.get(value, str(value)) if isinstance(value, bool) else str(value)


@click.command()
@options.state
def down(state: Path) -> None:
    """Stop the lab and delete its file."""
    from kailab.lab.life import end

    if not state.exists():
        terminal.notice(f"{state}: no lab is up")
        return
    with labfile.lock_lab(state):
        end(state)
    terminal.say("The lab is down.")


@click.command()
@options.text_option("--for", "duration", help="Duration in lab time: 30s, 5m, 1h30m, 2d.")
@options.state
def run(duration: str, state: Path) -> None:
    """Advance the lab's clock: pods finish, minimum runtimes expire, and the scheduler acts. With --for, the command ends once that time has
    passed and nothing is under way, such as an eviction or the back-off of a Job, which may take longer. Without --for, run only until
    nothing changes any more."""
    seconds = parse_seconds("--for", duration) if duration else 0.0
    with labfile.change_lab(state) as lab, terminal.progress_bars() as tell:
        before, begun = LabChanges(lab), lab.now
        lab.settle()
        for _ in lab.moments(max(0.0, seconds - (lab.now - begun))):
            tell("lab time, in seconds", int(lab.now - begun), int(seconds))
        lab.settle()
        longer = lab.now - begun - seconds
        report = before.describe("ran for" if duration else "settled after")
    terminal.say(f"{report} (the lab is {elapsed(lab.now - lab.opened)} old)")
    if duration and longer >= _LONGER_SECONDS:
        terminal.notice(
            f"{elapsed(longer)} longer than asked for: something was under way at the end, such as an eviction or the back-off of a Job, and "
            "commands end once nothing is"
        )


_LONGER_SECONDS = 30.0
"""By how much a run may exceed its duration before that is reported. Evictions take seconds."""


@click.command()
@options.output
@options.state
def status(output: TextOrJson, state: Path) -> None:
    """Summarise the lab: fleet, scheduler, time, pods, reasons of waiting pods, and GPUs by model."""
    from kailab.cli.object_tables import MODEL_HEADERS, model_rows

    with labfile.read_lab(state) as lab:
        picture = lab.picture()
        data, processes = _summary(lab, picture), _processes(lab)
        uses = model_rows(picture)
        shortages = [describe_shortage(shortage) for shortage in picture.model_shortages]
    if output is TextOrJson.json:
        terminal.say_json({"state": str(state), **data})
        return
    phases = ", ".join(f"{number} {phase}" for phase, number in data["pods"].items()) or "none"
    waiting = ", ".join(f"{number} {reason}" for reason, number in data["waiting"].items()) or "nothing"
    lines = {
        "Lab": str(state),
        "Backend": data["backend"],
        "Fleet": f"{data['fleet']}: {count(data['nodes'], 'node')}, {count(data['gpus'], 'GPU')}",
        "Scheduler": data["scheduler"],
        "Lab time": f"{data['time']} ({elapsed(data['age_seconds'])} old)",
        "GPUs": f"{data['gpus_in_use']:g} of {data['gpus']} in use",
        "Queues": str(data["queues"]),
        "Pods": phases,
        "Waiting": waiting,
    }
    for name, text in (lines | processes).items():
        terminal.say(f"{name:<10} {text}")
    if len(data["models"]) > 1:
        terminal.say("")
        terminal.say(render_table(MODEL_HEADERS, uses))
    for line in shortages:
        terminal.say(line)


def _processes(lab: Lab) -> dict[str, str]:
    """The kubeconfig and the processes of a lab on an API server, as lines of the status."""
    if lab.venue.kubeconfig is None:
        return {}
    processes = lab.venue.processes()
    running = ", ".join(process.name for process in processes if process.running)
    ended = "; ".join(f"{process.name} ({process.why})" for process in processes if not process.running)
    lines = {"Kubeconfig": str(lab.venue.kubeconfig)}
    if running:
        lines["Processes"] = running
    if ended:
        lines["Ended"] = ended
    return lines


def _summary(lab: Lab, picture: Picture) -> dict[str, Any]:
    facts = lab.facts()
    del facts["config"]
    return {
        **facts,
        "time": format_time(lab.now),
        "age_seconds": lab.now - lab.opened,
        "gpus_in_use": sum(picture.used.values()) / 1000,
        "models": [use.data() for use in picture.models.values()],
        "model_shortages": [shortage.data() for shortage in picture.model_shortages],
        "queues": len(lab.cluster.list("Queue")),
        "pods": dict(sorted(Counter(row.phase for row in picture.rows).items())),
        "waiting": dict(
            sorted(Counter(entry.reason or picture.no_reason(entry.pods[0]) for entry in picture.waiting()).items())
        ),
    }


def _lab_line(lab: Lab) -> str:
    facts = lab.facts()
    return f"fleet {lab.fleet} ({count(facts['gpus'], 'GPU')} on {count(facts['nodes'], 'node')}), scheduler {lab.scheduler}"


DEFAULT_FLEET = "lesson"


@click.command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on the loopback address; 0: any free port."
)
@click.option(
    "--fleet",
    shell_complete=completion.fleets,
    help=f"If no lab is up, start one with this fleet (a name or a file) instead of {DEFAULT_FLEET}.",
)
@click.option(
    "--backend",
    help=f"If no lab is up, start one on this backend ({', '.join(BACKENDS)}).",
)
@click.option("--scheduler", help="If no lab is up, start one with this scheduler (`kailab up --help`).")
@options.state
@click.pass_context
def serve(
    context: click.Context, port: int, fleet: str | None, backend: str | None, scheduler: str | None, state: Path
) -> None:
    """Serve a live web page of the lab to a browser on this machine. It shows the fleet, queues, and waiting work with reasons, and has forms to
    submit, delete, scale, cordon and set quotas. Each change is previewed on a copy before it is applied. Ctrl-C ends the server; the lab stays."""
    from kailab.serve.server import serve as run

    requested = {
        name: value
        for name, value in (("fleet", fleet), ("backend", backend), ("scheduler", scheduler))
        if value is not None
    }
    # For a lab that is up, `up` refuses other options than it has.
    if requested or not state.exists():
        context.invoke(up, state=state, **requested)

    def ready(url: str) -> None:
        terminal.say(url)
        terminal.notice("Open this address in a browser on this machine, and keep it secret. Ctrl-C ends the server.")

    run(state, port, ready, terminal.notice)
    terminal.notice("The server has ended; the lab stays as it is.")
