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


class Entry(NamedTuple):
    """``module``: in kailab.cli. ``attribute``: the click command in it. ``help``: its line in the list of commands."""

    module: str
    attribute: str
    help: str


COMMANDS: Mapping[str, Entry] = {
    "up": Entry("life", "up", "Start a lab: a fleet of fake GPU nodes and a scheduler."),
    "down": Entry("life", "down", "End the lab and remove its file."),
    "status": Entry("life", "status", "Sum up the lab: fleet, scheduler, time, GPUs, pods."),
    "apply": Entry("objects", "apply", "Apply manifests, then run the lab until nothing changes."),
    "submit": Entry("submit", "submit", "Submit a Job in a line: its queue and its gang are said for you."),
    "delete": Entry("objects", "delete", "Delete objects, then run the lab until nothing changes."),
    "scale": Entry("editing", "scale", "Set how many replicas something has."),
    "patch": Entry("patching", "patch", "Change fields of objects."),
    "label": Entry("editing", "label", "Set labels of objects, or take them away."),
    "annotate": Entry("editing", "annotate", "Set annotations of objects, or take them away."),
    "cordon": Entry("node_commands", "cordon", "Let no more pods onto nodes."),
    "uncordon": Entry("node_commands", "uncordon", "Let pods onto nodes again."),
    "drain": Entry("node_commands", "drain", "Cordon nodes and delete their pods."),
    "taint": Entry("node_commands", "taint", "Keep pods off nodes that do not tolerate it."),
    "fail": Entry("node_commands", "fail", "Let nodes fail: not ready, and tainted as Kubernetes does."),
    "recover": Entry("node_commands", "recover", "Let failed nodes be well again."),
    "get": Entry("get", "get", "Show objects: pods, queues, podgroups, nodes, jobs ..."),
    "describe": Entry("describe", "describe", "Show what is known of an object, its events included."),
    "wait": Entry("wait", "wait", "Let the lab go on until objects are as wanted."),
    "explain": Entry("explain", "explain", "Say why something waits and what would let it run."),
    "audit": Entry("audit", "audit", "Look through all queues: who starves, what is idle, what can never run."),
    "timeline": Entry("timeline", "timeline", "Say what happened to something: bound, evicted, for whom."),
    "health": Entry("health", "health", "Say how the scheduler is doing, and what is wrong with it."),
    "cost": Entry("cost", "cost", "Say what the GPUs cost: at work, lent, idle, held for nothing."),
    "metrics": Entry("metrics", "group", "Print metrics for Prometheus: of the lab, or of a run over time."),
    "simulate": Entry("simulate", "simulate", "Say whether work would run: now, after a time, or never."),
    "whatif": Entry("whatif", "whatif", "Say who would run, wait, move or be evicted if something were changed."),
    "replay": Entry("replay", "replay", "Replay a trace of a real cluster in virtual time."),
    "trace": Entry("trace", "group", "Record the jobs of a cluster as a trace."),
    "sweep": Entry("sweep", "sweep", "Replay a trace under many settings, and tell which serve."),
    "capacity": Entry("capacity", "capacity", "Find the fewest GPUs that serve a trace as asked."),
    "trial": Entry("trial", "group", "Compare schedulers, releases, configurations on the same exercises."),
    "hunt": Entry("hunt", "hunt", "Look for clusters that kailab and another scheduler decide otherwise."),
    "translate": Entry(
        "translate", "translate", "Say what of KAI's acts as the policies that documents about it show."
    ),
    "lint": Entry("lint", "lint", "Hold manifests against what practice asks for."),
    "course": Entry("course", "group", "Learn: lessons that ask you first, challenges that start broken."),
    "run": Entry("life", "run", "Let time pass in the lab."),
    "top": Entry("top", "top", "Show the lab in the terminal as it changes."),
    "serve": Entry("serve", "serve", "Serve a live page of the lab: look, change, preview, undo."),
    "open": Entry("open", "open_lab", "Open a snapshot of a cluster as a lab."),
    "snapshot": Entry("snapshot", "group", "Take a snapshot of a cluster."),
    "report": Entry("evidence", "report", "Report on a test run: expected, seen, and why."),
    "doctor": Entry("doctor", "doctor", "Say what is installed: Python, packages, backends, tools."),
    "fleet": Entry("fleets", "group", "List, show and check fleets: files that describe fake nodes."),
    "evidence": Entry("evidence", "group", "Show, check, compare, replay and capture evidence."),
    "components": Entry("components", "group", "Get and check the programs of a real control plane."),
    "kind": Entry("kind", "group", "Make node images for the backend kind, without an image registry."),
    "vcluster": Entry("vcluster", "group", "Make the image of virtual clusters, without an image registry."),
    "conformance": Entry("conformance", "group", "Compare with recorded behaviour of a real KAI."),
    "bench": Entry("bench", "group", "Measure how long a lab takes from jobs to running pods."),
    "scheduler": Entry("scheduler", "group", "Run kailab's scheduler on a Kubernetes cluster."),
    "completion": Entry("completion", "completion", "Print a script that completes commands in a shell."),
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
