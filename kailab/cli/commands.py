"""The commands there are: each in a module of its own, imported when it is called.

A new command is a module with a click command in it, and a line here. Help and shell completion are made from this table, so
that they import no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from kailab.cli.error_messages import ReportingGroup


class CommandEntry(NamedTuple):
    """``module``: in kailab.cli. ``attribute``: the click command in it. ``help``: its line in the list of commands."""

    module: str
    attribute: str
    help: str


COMMANDS: Mapping[str, CommandEntry] = {
    "up": CommandEntry("life", "up", "Start a lab: a fleet of fake GPU nodes and a scheduler."),
    "down": CommandEntry("life", "down", "End the lab and remove its file."),
    "status": CommandEntry("life", "status", "Sum up the lab: fleet, scheduler, time, GPUs, pods."),
    "apply": CommandEntry("objects", "apply", "Apply manifests, then run the lab until nothing changes."),
    "submit": CommandEntry("submit", "submit", "Submit a Job in a line: its queue and its gang are said for you."),
    "delete": CommandEntry("objects", "delete", "Delete objects, then run the lab until nothing changes."),
    "scale": CommandEntry("editing", "scale", "Set how many replicas something has."),
    "patch": CommandEntry("patching", "patch", "Change fields of objects."),
    "label": CommandEntry("editing", "label", "Set labels of objects, or take them away."),
    "annotate": CommandEntry("editing", "annotate", "Set annotations of objects, or take them away."),
    "cordon": CommandEntry("node_commands", "cordon", "Let no more pods onto nodes."),
    "uncordon": CommandEntry("node_commands", "uncordon", "Let pods onto nodes again."),
    "drain": CommandEntry("node_commands", "drain", "Cordon nodes and delete their pods."),
    "taint": CommandEntry("node_commands", "taint", "Keep pods off nodes that do not tolerate it."),
    "fail": CommandEntry("node_commands", "fail", "Let nodes fail: not ready, and tainted as Kubernetes does."),
    "recover": CommandEntry("node_commands", "recover", "Let failed nodes be well again."),
    "get": CommandEntry("get", "get", "Show objects: pods, queues, podgroups, nodes, jobs ..."),
    "describe": CommandEntry("describe", "describe", "Show what is known of an object, its events included."),
    "wait": CommandEntry("wait", "wait", "Let the lab go on until objects are as wanted."),
    "explain": CommandEntry("explain", "explain", "Say why something waits and what would let it run."),
    "audit": CommandEntry("audit", "audit", "Look through all queues: who starves, what is idle, what can never run."),
    "timeline": CommandEntry("timeline", "timeline", "Say what happened to something: bound, evicted, for whom."),
    "health": CommandEntry("health", "health", "Say how the scheduler is doing, and what is wrong with it."),
    "cost": CommandEntry("cost", "cost", "Say what the GPUs cost: at work, lent, idle, held for nothing."),
    "metrics": CommandEntry("metrics", "group", "Print metrics for Prometheus: of the lab, or of a run over time."),
    "simulate": CommandEntry("simulate", "simulate", "Say whether work would run: now, after a time, or never."),
    "whatif": CommandEntry(
        "whatif", "whatif", "Say who would run, wait, move or be evicted if something were changed."
    ),
    "replay": CommandEntry("replay", "replay", "Replay a trace of a real cluster in virtual time."),
    "trace": CommandEntry("trace", "group", "Record the jobs of a cluster as a trace."),
    "sweep": CommandEntry("sweep", "sweep", "Replay a trace under many settings, and tell which serve."),
    "capacity": CommandEntry("capacity", "capacity", "Find the fewest GPUs that serve a trace as asked."),
    "trial": CommandEntry("trial", "group", "Compare schedulers, releases, configurations on the same exercises."),
    "hunt": CommandEntry("hunt", "hunt", "Look for clusters that kailab and another scheduler decide otherwise."),
    "translate": CommandEntry(
        "translate", "translate", "Say what of KAI's acts as the policies that documents about it show."
    ),
    "lint": CommandEntry("lint", "lint", "Hold manifests against what practice asks for."),
    "course": CommandEntry("course", "group", "Learn: lessons that ask you first, challenges that start broken."),
    "run": CommandEntry("life", "run", "Let time pass in the lab."),
    "top": CommandEntry("top", "top", "Show the lab in the terminal as it changes."),
    "serve": CommandEntry("serve", "serve", "Serve a live page of the lab: look, change, preview, undo."),
    "open": CommandEntry("open", "open_lab", "Open a snapshot of a cluster as a lab."),
    "snapshot": CommandEntry("snapshot", "group", "Take a snapshot of a cluster."),
    "report": CommandEntry("evidence", "report", "Report on a test run: expected, seen, and why."),
    "doctor": CommandEntry("doctor", "doctor", "Say what is installed: Python, packages, backends, tools."),
    "fleet": CommandEntry("fleets", "group", "List, show and check fleets: files that describe fake nodes."),
    "evidence": CommandEntry("evidence", "group", "Show, check, compare, replay and capture evidence."),
    "components": CommandEntry("components", "group", "Get and check the programs of a real control plane."),
    "kind": CommandEntry("kind", "group", "Make node images for the backend kind, without an image registry."),
    "vcluster": CommandEntry("vcluster", "group", "Make the image of virtual clusters, without an image registry."),
    "conformance": CommandEntry("conformance", "group", "Compare with recorded behaviour of a real KAI."),
    "bench": CommandEntry("bench", "group", "Measure how long a lab takes from jobs to running pods."),
    "scheduler": CommandEntry("scheduler", "group", "Run kailab's scheduler on a Kubernetes cluster."),
    "completion": CommandEntry("completion", "completion", "Print a script that completes commands in a shell."),
}


class CommandTable(ReportingGroup):
    """A group whose commands are those of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(f"kailab.cli.{entry.module}"), entry.attribute)
        # Two names may lead to one module: what the user typed is what usage and errors have to say.
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # The group's own completion would load every command whose name fits, only to ask whether it is hidden.
        named = [
            CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return named + click.Command.shell_complete(self, ctx, incomplete)
