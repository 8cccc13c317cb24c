"""``up``, ``down``, ``status`` and ``run``: a lab begins, is looked at, lives on and ends."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kailab.cli import labfile, terminal
from kailab.cli.options import (
    STATE,
    ComponentsOption,
    ContextOption,
    KaiCrdsOption,
    KaiOption,
    KubeconfigOption,
    KubernetesOption,
    OutputOption,
    StateOption,
    TextOrJson,
)

if TYPE_CHECKING:
    from kailab.lab import Lab


def up(
    fleet: Annotated[
        str, typer.Option("--fleet", help="The fleet: a name (`kailab fleet list`) or a file.")
    ] = "lesson",
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="What decides: kailab, kube-scheduler, or kai (a real one).")
    ] = "kailab",
    backend: Annotated[
        str,
        typer.Option(
            "--backend", help="Where the cluster lives: embedded, controlplane, kind, or kubeconfig (any cluster)."
        ),
    ] = "embedded",
    config: Annotated[
        Path | None,
        typer.Option(
            "--scheduler-config",
            "--config",
            help="Scheduler configuration, a file as KAI reads it.",
            show_default=False,
        ),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt-default-scheduler", help="Pods that name no scheduler are this scheduler's too.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew if a lab is up already.")] = False,
    dra: Annotated[bool, typer.Option("--dra", help="Publish the GPUs for dynamic resource allocation too.")] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    components: ComponentsOption = None,
    kubernetes: KubernetesOption = None,
    kai: KaiOption = None,
    kai_crds: KaiCrdsOption = None,
    state: StateOption = STATE,
) -> None:
    """Begin a lab: a fleet of fake GPU nodes with a scheduler. The embedded one is kept in a file; the others are a real
    Kubernetes API. None needs root, only kind needs Docker."""
    from kailab.errors import InputError
    from kailab.lab import Lab, assembly
    from kailab.scheduler import settings_of

    assembly.check_backend(backend)
    assembly.check_scheduler(scheduler)
    assembly.check_pair(backend, scheduler)

    settings = settings_of(config)
    for notice in settings.notices:
        terminal.notice(notice)
    engine = settings.engine
    with labfile.locked(state):
        if state.exists() and not fresh:
            with Lab.resume(state) as there:
                wanted = (_fleet_name(fleet), scheduler, engine, settings.usage, adopt, backend)
                has = (
                    there.fleet, there.scheduler, there.config, there.usage, there.adopt_default_scheduler, there.backend
                )  # fmt: skip
                if has != wanted:
                    raise InputError(
                        f"{state}: a lab is up already (fleet {there.fleet}, scheduler {there.scheduler}, backend "
                        f"{there.backend}); end it with `kailab down`, or begin anew with --fresh"
                    )
                terminal.notice(f"The lab is up already: {_told(there)}")
                return
        if state.exists():
            _end(state)
        if backend == "kubeconfig" and kubeconfig is None:
            kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
        if backend != "embedded":
            from kailab.lab import livelab

            with terminal.waiting("bringing up the lab") as tell:
                about = livelab.begin(
                    state, fleet, backend, scheduler, settings,
                    adopt_default_scheduler=adopt, devices=dra, scheduler_config=config, kubeconfig=kubeconfig,
                    context=context, components=components, kubernetes=kubernetes, kai=kai, kai_crds=kai_crds,
                    tell=tell,
                )  # fmt: skip
            with livelab.resume(about) as lab:
                terminal.say(f"The lab is up: {_told(lab)}, on Kubernetes {lab.kubernetes}")
                terminal.say(f"export KUBECONFIG={about.place.kubeconfig}")
            terminal.notice(
                "Next: kubectl get nodes,queues; kailab apply -f FILE, kailab get pods -o wide, kailab explain queue NAME"
            )
            return
        with Lab.open(fleet, backend, scheduler, settings, adopt_default_scheduler=adopt) as lab:
            lab.settle()
            lab.save(state)
            terminal.say(f"The lab is up: {_told(lab)}")
    terminal.notice("Next: kailab apply -f FILE, kailab get pods -o wide, kailab explain queue NAME")


def down(state: StateOption = STATE) -> None:
    """End the lab and remove its file."""
    if not state.exists():
        terminal.notice(f"{state}: no lab is up")
        return
    with labfile.locked(state):
        _end(state)
    terminal.say("The lab is down.")


def _end(state: Path) -> None:
    """End the lab of a state file; one that can't be read is only removed."""
    from kailab.errors import StateError
    from kailab.lab import livelab

    try:
        about = livelab.read(state)
    except StateError:
        about = None
    if about is not None:
        livelab.end(state, about)
    state.unlink(missing_ok=True)


def run(
    duration: Annotated[str, typer.Option("--for", help="How long: 30s, 5m, 1h30m, 2d.", show_default=False)] = "",
    state: StateOption = STATE,
) -> None:
    """Let time pass in the lab: run times end, protections run out, and the scheduler acts on it as it happens. Without
    --for: only until nothing changes any more."""
    from kailab.cli.happened import Before, elapsed
    from kailab.errors import InputError
    from kailab.model.times import duration_seconds

    try:
        seconds = duration_seconds(duration, days=True) if duration else 0.0
    except InputError as error:
        raise InputError(f"--for: {error}") from None
    with labfile.changed(state) as lab, terminal.progress_bars() as tell:
        before, begun = Before(lab), lab.now
        lab.settle()
        for _ in lab.moments(max(0.0, seconds - (lab.now - begun))):
            tell("lab time, in seconds", int(lab.now - begun), int(seconds))
        lab.settle()
        told = before.told("ran for" if duration else "settled after")
    ended = elapsed(lab.now - lab.opened)
    terminal.say(f"{told} (the lab is {ended} old)")


def status(output: OutputOption = TextOrJson.text, state: StateOption = STATE) -> None:
    """Sum up the lab: fleet, scheduler, time, GPUs, pods and what waits."""
    from kailab.cli.happened import elapsed

    with labfile.looked_at(state) as lab:
        data = _summary(lab)
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
    lines |= _processes(state)
    for name, text in lines.items():
        terminal.say(f"{name:<10} {text}")


def _processes(state: Path) -> dict[str, str]:
    """What there is to say of the processes of a lab that has some."""
    from kailab.lab import livelab

    about = livelab.read(state)
    if about is None:
        return {}
    found = livelab.processes(about)
    running = ", ".join(one.name for one in found if one.running)
    dead = "; ".join(f"{one.name} ({one.why})" for one in found if not one.running)
    told = {"Kubeconfig": about.place.kubeconfig}
    if running:
        told["Processes"] = running
    if dead:
        told["Ended"] = dead
    return told


def _summary(lab: Lab) -> dict[str, Any]:
    from kailab.evidence.standing import ALIVE
    from kailab.model.times import format_time

    picture = lab.picture()
    facts = lab.facts()
    del facts["config"]
    held = sum(row["milli_gpus"] for row in picture.rows if row["node"] and row["phase"] in ALIVE)
    return {
        **facts,
        "time": format_time(lab.now),
        "age_seconds": lab.now - lab.opened,
        "gpus_in_use": held / 1000,
        "queues": len(lab.cluster.list("Queue")),
        "pods": dict(sorted(Counter(row["phase"] for row in picture.rows).items())),
        "waiting": dict(sorted(Counter(entry["reason"] or "no reason yet" for entry in picture.waiting()).items())),
    }


def _fleet_name(fleet: str) -> str:
    from kailab.fleet import load_fleet

    return load_fleet(fleet).name


def _told(lab: Lab) -> str:
    facts = lab.facts()
    return f"fleet {lab.fleet} ({facts['gpus']} GPUs on {facts['nodes']} nodes), scheduler {lab.scheduler}"
