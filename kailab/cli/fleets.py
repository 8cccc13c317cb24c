"""``fleet``: list, show and validate fleets of fake nodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from kailab.cli import options, terminal
from kailab.cli.error_messages import CommandGroup
from kailab.cli.options import TextOrJson
from kailab.cli.table import render_table
from kailab.errors import InputError, KailabError
from kailab.model.objects import name_of


@click.group(cls=CommandGroup)
def group() -> None:
    """List, show and validate fleets: files that describe fake nodes."""


@group.command("list")
@options.output
def list_fleets(output: TextOrJson) -> None:
    """List the fleets of the library."""
    from kailab.fleet.library import available_fleets
    from kailab.fleet.reading import load_fleet

    rows: list[tuple[str, str, str, str]] = []
    data: list[dict[str, Any]] = []
    for name, path in available_fleets().items():
        try:
            fleet = load_fleet(path)
        except KailabError as error:
            terminal.warn(str(error))
            continue
        summary = fleet.summary()
        rows.append((name, str(summary.nodes), str(summary.gpus), fleet.description))
        data.append({"name": name, "file": str(path), "description": fleet.description, **_numbers(summary)})
    if output is TextOrJson.json:
        terminal.say_json(data)
    else:
        terminal.say(render_table(("NAME", "NODES", "GPUS", "DESCRIPTION"), rows))


@group.command()
@click.argument("fleet", default="lesson", help="A fleet's name, or a file.")
@options.flag("--nodes", help="Print the Node objects: YAML, or JSON with -o json.")
@options.output
def show(fleet: str, nodes: bool, output: TextOrJson) -> None:
    """Show the nodes and GPUs of a fleet."""
    from kailab.fleet.reading import load_fleet
    from kailab.model.yamltext import write_documents

    described = load_fleet(fleet)
    if nodes:
        objects = described.objects()
        as_json = output is TextOrJson.json
        terminal.say(json.dumps(objects, indent=2) if as_json else write_documents(objects).rstrip("\n"))
        return
    summary = described.summary()
    if output is TextOrJson.json:
        data = {"name": described.name, "description": described.description, **_numbers(summary)}
        terminal.say_json(data)
        return
    terminal.say(f"{described.name}: {summary}")
    if described.description:
        terminal.say(described.description)
    rows = [
        (pool.name, str(pool.count), str(pool.gpus), pool.gpu_model or "<none>", pool.cpu, pool.memory)
        for pool in described.pools
    ]
    terminal.say("")
    terminal.say(render_table(("POOL", "NODES", "GPUS", "MODEL", "CPU", "MEMORY"), rows))
    for topology in described.topologies:
        levels = " > ".join(level["nodeLabel"] for level in topology["spec"]["levels"])
        terminal.say(f"\nTopology {name_of(topology)}: {levels}")


@group.command()
@click.argument("files", nargs=-1, required=True, help="Fleet files or names, or nodes of a cluster.")
def validate(files: tuple[str, ...]) -> None:
    """Validate fleet files. Each error names the file, line and field."""
    from kailab.fleet.reading import load_fleet

    failed = 0
    for file in files:
        try:
            fleet = load_fleet(Path(file) if Path(file).exists() else file)
        except InputError as error:
            failed += 1
            terminal.error(str(error))
        else:
            terminal.say(f"{file}: {fleet.summary()}")
            for notice in fleet.notices:
                terminal.notice(notice)
    if failed:
        raise click.exceptions.Exit(2)


def _numbers(summary: Any) -> dict[str, Any]:
    data = asdict(summary)
    del data["name"]
    return data
