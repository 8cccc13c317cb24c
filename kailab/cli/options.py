"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

STATE = Path(".kailab/lab.state")


class Format(StrEnum):
    """How objects are printed."""

    table = ""
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


class TextOrJson(StrEnum):
    """For people, or for programs."""

    text = "text"
    json = "json"


StateOption = Annotated[
    Path, typer.Option("--state", envvar="KAILAB_STATE", help="The file that keeps the lab.", show_default=True)
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="The namespace.")]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Objects of every namespace.")]
SelectorOption = Annotated[
    str, typer.Option("--selector", "-l", help="Only objects with these labels: app=train, 'app in (a, b)'.")
]
FilesOption = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", help="A manifest, a folder of them, or - for stdin. May be repeated."),
]
OutputOption = Annotated[
    TextOrJson, typer.Option("--output", "-o", help="For people, or for programs.", show_default=True)
]
EvidenceOption = Annotated[
    Path, typer.Option("--evidence", envvar="KAILAB_EVIDENCE", help="The folder that runs are kept in.")
]
SettleOption = Annotated[bool, typer.Option("--settle/--no-settle", help="Run the lab until nothing changes.")]
