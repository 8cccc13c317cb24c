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
KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig", help="Backend kubeconfig: the file, if not $KUBECONFIG or ~/.kube/config.", show_default=False
    ),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Backend kubeconfig: not the current context.", show_default=False)
]
ComponentsOption = Annotated[
    Path | None,
    typer.Option(
        "--components",
        help="Backends controlplane, kind: folder of etcd, kube-apiserver ..., if not $KAILAB_COMPONENTS.",
        show_default=False,
    ),
]
KubernetesOption = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        help="Backends controlplane, kind: version of Kubernetes, if not the default one.",
        show_default=False,
    ),
]
KaiOption = Annotated[
    Path | None,
    typer.Option(
        "--kai-bin", help="Scheduler kai: folder of its binaries, if not $KAILAB_KAI_BIN.", show_default=False
    ),
]
KaiCrdsOption = Annotated[
    Path | None,
    typer.Option(
        "--kai-crds", help="Scheduler kai: its CRDs, file or folder, if not $KAILAB_KAI_CRDS.", show_default=False
    ),
]
