"""What a virtual cluster is made with: the vcluster CLI, Helm, the chart, the host cluster; and why none can be made here."""

from __future__ import annotations

import os
import zipfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kailab.cluster.connected import connected
from kailab.cluster.helm import Chart, Helm, find_helm
from kailab.cluster.protocol import Cluster
from kailab.components import VCLUSTER, VCLUSTER_CHART, Cache, find_program
from kailab.errors import InputError, KailabError

VCLUSTER_VARIABLE = "KAILAB_VCLUSTER"
CHART_VARIABLE = "KAILAB_VCLUSTER_CHART"
_HOW = "`kailab components get --vcluster` gets it, and the chart"


@dataclass(frozen=True)
class Host:
    """The cluster in which virtual ones are made. ``context`` None: the kubeconfig's current one."""

    kubeconfig: Path
    context: str | None = None

    def connected(self) -> AbstractContextManager[Cluster]:
        """Raises ConnectError, InputError."""
        return connected(self.kubeconfig, self.context, "vcluster")


@dataclass(frozen=True)
class Tools:
    """``chart``: a folder or an archive; None: the CLI fetches it."""

    vcluster: Path
    helm: Path
    chart: Path | None


def find_tools() -> Tools:
    """Raises ConnectError for a program that is not here, InputError for a chart that is none."""
    return Tools(find_program(VCLUSTER, VCLUSTER_VARIABLE, _HOW), find_helm(), _chart())


def tools_reason() -> str | None:
    """Why no virtual cluster can be made here; None: one can, as far as the programs go."""
    try:
        find_tools()
    except KailabError as error:
        return str(error)
    return None


def packed_chart(tools: Tools, folder: Path) -> Path | None:
    """The chart under the number of the CLI's version, in a folder; None: the CLI fetches it. That of the module is unnumbered, and its image is
    called by its number. Raises HelmFailed, InputError."""
    if tools.chart is None:
        return None
    source = tools.chart
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as kept:
            kept.extractall(folder / "source")
        source = folder / "source" / "chart"
    if not source.is_dir():
        return source
    made = folder / "packed"
    made.mkdir(parents=True, exist_ok=True)
    return Path(Helm(tools.helm).package(Chart(str(source)), VCLUSTER.version.removeprefix("v"), made).ref)


def _chart() -> Path | None:
    if told := os.environ.get(CHART_VARIABLE):
        path = Path(told).expanduser().absolute()
        if not ((path / "Chart.yaml").is_file() or (path.is_file() and path.name.endswith(".tgz"))):
            raise InputError(f"{path}: is no chart (a folder with Chart.yaml, or a .tgz); {CHART_VARIABLE} names it")
        return path
    return Cache().checked(VCLUSTER_CHART)
