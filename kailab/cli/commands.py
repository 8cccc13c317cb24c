"""The table of commands. Each command is a click command in a module of its own, which is imported when the command is called.

To add a command, write a module with a click command and add a line to a section here. Help and shell completion are made from this table
and import no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from kailab.cli.error_messages import ReportingGroup


class CommandEntry(NamedTuple):
    """``module``: the module in ``kailab.cli``. ``attribute``: the click command in it. ``help``: its line in ``kailab --help``."""

    module: str
    attribute: str
    help: str


SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Lab": {
        "up": CommandEntry("life", "up", "Start a lab: a fleet of fake GPU nodes and a scheduler."),
        "down": CommandEntry("life", "down", "Stop the lab and delete its file."),
        "status": CommandEntry("life", "status", "Summarise the lab: fleet, scheduler, time, GPUs, pods."),
        "run": CommandEntry("life", "run", "Advance the lab's clock; pods finish and the scheduler acts."),
        "top": CommandEntry("top", "top", "Watch GPUs, queues, pending work and events in the terminal."),
        "serve": CommandEntry("life", "serve", "Serve a live web page of the lab: view, change, preview, undo."),
        "snapshot": CommandEntry("snapshot", "group", "Save a cluster's objects to a file."),
        "open": CommandEntry("snapshot", "open_lab", "Load a cluster as a lab: files of kubectl, a snapshot."),
    },
    "Objects": {
        "get": CommandEntry("get", "get", "List objects: pods, queues, podgroups, nodes, jobs ..."),
        "describe": CommandEntry("describe", "describe", "Show an object in detail, with its events."),
        "apply": CommandEntry("objects", "apply", "Apply manifests, then settle the lab."),
        "diff": CommandEntry("diff", "diff", "Show what applying manifests would change, and its effect on all work."),
        "submit": CommandEntry("objects", "submit", "Submit a Job to a queue without writing a manifest."),
        "delete": CommandEntry("objects", "delete", "Delete objects, then settle the lab."),
        "scale": CommandEntry("objects", "scale", "Set the number of replicas."),
        "patch": CommandEntry("objects", "patch", "Update fields of objects."),
        "label": CommandEntry("objects", "label", "Set or remove labels."),
        "annotate": CommandEntry("objects", "annotate", "Set or remove annotations."),
        "cordon": CommandEntry("node_commands", "cordon", "Mark nodes unschedulable."),
        "uncordon": CommandEntry("node_commands", "uncordon", "Mark nodes schedulable."),
        "drain": CommandEntry("node_commands", "drain", "Cordon nodes and evict their pods."),
        "taint": CommandEntry("node_commands", "taint", "Set or remove taints of nodes."),
        "fail": CommandEntry("node_commands", "fail", "Make nodes NotReady, with the taints that Kubernetes adds."),
        "recover": CommandEntry("node_commands", "recover", "Bring failed nodes back."),
        "wait": CommandEntry("wait", "wait", "Advance the lab's clock until a condition of objects is met."),
    },
    "Questions": {
        "explain": CommandEntry("explain", "explain", "Explain why work is pending and what would let it run."),
        "timeline": CommandEntry("timeline", "timeline", "List what happened to a workload: bound, evicted, for whom."),
        "events": CommandEntry("events", "events", "List events by workload, the latest first."),
        "whatif": CommandEntry("whatif", "whatif", "Preview a change: who would run, wait, move or be evicted."),
        "simulate": CommandEntry("whatif", "simulate", "Predict whether work would run: now, later or never."),
        "audit": CommandEntry("audit", "audit", "Check all queues: starvation, idle quota, work that can't run."),
        "health": CommandEntry("health", "health", "Check the scheduler: last cycle, failed binds, eviction loops."),
        "cost": CommandEntry("cost", "cost", "Calculate what the GPUs cost: used, borrowed, idle, blocked."),
        "metrics": CommandEntry("metrics", "group", "Print Prometheus metrics of the lab or of a test run."),
        "lint": CommandEntry("lint", "lint", "Check manifests against best practices."),
        "translate": CommandEntry(
            "translate", "translate", "Translate policies that KAI does not have into ones it has."
        ),
    },
    "Tests and evidence": {
        "report": CommandEntry("evidence", "report", "Report a test run: expected, observed, and why."),
        "evidence": CommandEntry("evidence", "group", "List, verify, sign, compare and replay test evidence."),
    },
    "Compare": {
        "trial": CommandEntry("trial", "group", "Compare schedulers, releases, configurations on the same tests."),
    },
    "Traces": {
        "trace": CommandEntry("trace", "group", "Record the jobs of a cluster as a trace."),
        "replay": CommandEntry("replay", "replay", "Replay a trace of a real cluster in virtual time."),
        "sweep": CommandEntry("sweep", "sweep", "Replay a trace under many settings and rank them."),
        "capacity": CommandEntry("capacity", "capacity", "Find the smallest fleet that meets a target for a trace."),
    },
    "Learn": {
        "course": CommandEntry("course", "group", "Take or teach lessons, and repair labs that start broken."),
    },
    "Set up": {
        "doctor": CommandEntry("doctor", "doctor", "Check what is installed: Python, packages, backends, tools."),
        "fleet": CommandEntry("fleets", "group", "List, show and validate fleets of fake nodes."),
        "components": CommandEntry(
            "components", "group", "Download, build and verify the programs of a control plane."
        ),
        "scheduler": CommandEntry("scheduler", "group", "Run kailab's scheduler on a Kubernetes cluster."),
        "completion": CommandEntry("completion", "completion", "Print a shell completion script."),
    },
}
"""The sections of ``kailab --help`` in order, with their commands."""

COMMANDS: Mapping[str, CommandEntry] = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class CommandTable(ReportingGroup):
    """A click group whose commands are those of the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(f"kailab.cli.{entry.module}"), entry.attribute)
        # Usage lines and errors must show the name that the user typed, not the name of the function.
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # click's own completion imports every command with that prefix, to ask whether it is hidden.
        matching = [
            CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]
        return matching + click.Command.shell_complete(self, ctx, incomplete)
