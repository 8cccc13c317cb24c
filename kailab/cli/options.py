"""Options that several commands share, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from kailab.cli import completion
from kailab.cli.labfile import STATE


def parse_seconds(option: str, text: str) -> float:
    """Raises InputError that names the option."""
    from kailab.errors import InputError
    from kailab.model.times import duration_seconds

    try:
        return duration_seconds(text, days=True)
    except InputError as error:
        raise InputError(f"{option}: {error}") from None


EVIDENCE = Path("evidence")
PATH = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


class Format(StrEnum):
    """How objects are printed."""

    table = ""
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"
    tree = "tree"
    turns = "turns"


class TextOrJson(StrEnum):
    """For people, or for programs."""

    text = "text"
    json = "json"


state = click.option(
    "--state", type=PATH, default=STATE, envvar="KAILAB_STATE", show_envvar=True, help="The file that keeps the lab."
)
namespace = click.option(
    "--namespace", "-n", default="default", shell_complete=completion.namespaces, help="The namespace."
)
all_namespaces = click.option("--all-namespaces", "-A", is_flag=True, help="Objects of every namespace.")
selector = click.option(
    "--selector",
    "-l",
    default="",
    show_default=False,
    help="Only objects with these labels: app=train, 'app in (a, b)'.",
)
files = click.option(
    "--filename",
    "-f",
    "files",
    multiple=True,
    shell_complete=completion.files,
    help="A manifest, a folder of them, or - for stdin. May be repeated.",
)
recursive = click.option("--recursive", "-R", is_flag=True, help="-f FOLDER: and all folders in it.")
kustomize = click.option(
    "--kustomize", "-k", "kustomization", type=PATH, help="What the kustomization in this folder makes."
)
output = click.option(
    "--output", "-o", type=click.Choice(TextOrJson), default=TextOrJson.text, help="For people, or for programs."
)
evidence = click.option(
    "--evidence",
    type=PATH,
    default=EVIDENCE,
    envvar="KAILAB_EVIDENCE",
    show_envvar=True,
    help="The folder that runs are kept in.",
)
studies = click.option(
    "--studies",
    "root",
    type=PATH,
    default=Path("studies"),
    envvar="KAILAB_STUDIES",
    show_envvar=True,
    help="The folder that studies are kept in.",
)
settle = click.option("--settle/--no-settle", default=True, help="Run the lab until nothing changes.")
kubeconfig = click.option(
    "--kubeconfig", type=PATH, help="Backends kubeconfig, vcluster: the file, if not $KUBECONFIG or ~/.kube/config."
)
context = click.option("--context", help="Backends kubeconfig, vcluster: the context to use, if not the current one.")
components = click.option(
    "--components",
    type=PATH,
    help="Backends controlplane, kind, vcluster: folder of etcd, kube-apiserver ..., if not $KAILAB_COMPONENTS.",
)
kubernetes = click.option(
    "--kubernetes", help="Backends controlplane, kind, vcluster: version of Kubernetes, if not the default one."
)
operators = click.option(
    "--with",
    "operators",
    multiple=True,
    metavar="OPERATOR",
    help="Backend controlplane: run these operators beside it: jobset,kuberay. May be repeated.",
)
scheduler = click.option(
    "--scheduler",
    default="kailab",
    shell_complete=completion.schedulers,
    help="What decides: kailab, kube-scheduler, kai (a real KAI), kai=DIR, kai@RELEASE, or NAME@FILE.",
    show_default=True,
)
kai = click.option("--kai-bin", "kai", type=PATH, help="Scheduler kai: folder of its binaries, if not $KAILAB_KAI_BIN.")
kai_crds = click.option(
    "--kai-crds", type=PATH, help="Scheduler kai: its CRDs, file or folder, if not $KAILAB_KAI_CRDS."
)
kai_chart = click.option(
    "--kai-chart",
    type=PATH,
    help="Scheduler kai@RELEASE: folder with its chart and images, if not $KAILAB_KAI_CHART or published.",
)


def where(command: Command) -> Command:
    """All that says which cluster a backend takes, and which programs."""
    for one in (kai_crds, kai, kubernetes, components, context, kubeconfig):
        command = one(command)
    return command
