"""The vcluster CLI, run as its documentation says: create, connect, delete; and where the CLI, Helm and the chart are
found.

Neither the CLI's own settings nor the user's kubeconfig are touched.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kailab.cluster.connect import connect
from kailab.cluster.controlplane.supervision import MARK
from kailab.cluster.helm import Chart, Helm, HelmFailed, Release, find_helm
from kailab.cluster.protocol import Cluster
from kailab.components import VCLUSTER, VCLUSTER_CHART, ComponentCache, find_program
from kailab.components.process_group import process_group, wait_for_end
from kailab.errors import ConnectError, InputError, KailabError
from kailab.model.private_files import make_folder, open_private

VCLUSTER_VARIABLE = "KAILAB_VCLUSTER"
CHART_VARIABLE = "KAILAB_VCLUSTER_CHART"
_HOW = "`kailab components get --vcluster` gets it, and the chart"


@dataclass(frozen=True)
class HostCluster:
    """The cluster that hosts virtual clusters. ``context`` None: the kubeconfig's current one."""

    kubeconfig: Path
    context: str | None = None

    def connected(self) -> AbstractContextManager[Cluster]:
        """Raises ConnectError, InputError."""
        return connect(self.kubeconfig, self.context, "vcluster")


@dataclass(frozen=True)
class VclusterTools:
    """``chart``: a folder or an archive; None: the CLI fetches it."""

    vcluster: Path
    helm: Path
    chart: Path | None


def find_tools() -> VclusterTools:
    """Raises ConnectError for a missing program, InputError for an invalid chart."""
    return VclusterTools(find_program(VCLUSTER, VCLUSTER_VARIABLE, _HOW), find_helm(), _chart())


def tools_reason() -> str | None:
    """Why no virtual cluster can be made here; None if the programs are here."""
    try:
        find_tools()
    except KailabError as error:
        return str(error)
    return None


def packed_chart(tools: VclusterTools, folder: Path) -> Path | None:
    """The chart in a folder, numbered with the CLI's version; None: the CLI fetches it. The module's chart has no
    number, and the chart's image is named by it. Raises HelmFailed, InputError."""
    if tools.chart is None:
        return None
    source = tools.chart
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            archive.extractall(folder / "source")
        source = folder / "source" / "chart"
    if not source.is_dir():
        return source
    made = folder / "packed"
    made.mkdir(parents=True, exist_ok=True)
    return Path(Helm(tools.helm).package(Chart(str(source)), VCLUSTER.version.removeprefix("v"), made).ref)


def _chart() -> Path | None:
    if variable := os.environ.get(CHART_VARIABLE):
        path = Path(variable).expanduser().absolute()
        if not ((path / "Chart.yaml").is_file() or (path.is_file() and path.name.endswith(".tgz"))):
            raise InputError(f"{path}: is no chart (a folder with Chart.yaml, or a .tgz); {CHART_VARIABLE} names it")
        return path
    return ComponentCache().checked(VCLUSTER_CHART)


CREATE_SECONDS = 600.0
CONNECT_SECONDS = 600.0
DELETE_SECONDS = 300.0
_LAST_LINES = 5


@dataclass(frozen=True)
class VclusterCommand:
    """Runs the vcluster CLI. ``folder``: of the virtual cluster, for the CLI's settings and log."""

    tools: VclusterTools
    host: HostCluster
    folder: Path

    def create(self, name: str, values: Path, chart: Path | None, check: Callable[[], None]) -> None:
        """Return when its objects exist; they become ready later. ``check``: called repeatedly meanwhile. Raises
        ConnectError."""
        own = () if chart is None else ("--local-chart-dir", str(chart))
        self._run(
            "create", name, "--namespace", name, "--values", str(values), *own,
            "--connect=false", "--expose-local=false", "--background-proxy=false", "--add=false",
            seconds=CREATE_SECONDS, check=check,
        )  # fmt: skip

    def kubeconfig(self, name: str, server: str, check: Callable[[], None]) -> str:
        """A kubeconfig for an administrator. ``server``: the URL of its API server. Raises ConnectError."""
        return self._run(
            "connect", name, "--namespace", name, "--print", "--silent", "--background-proxy=false", f"--server={server}",
            seconds=CONNECT_SECONDS, check=check,
        )  # fmt: skip

    def delete(self, name: str) -> None:
        """Delete it, even if it does not exist or is incomplete. Raises ConnectError."""
        self._run(
            "delete", name, "--namespace", name, "--ignore-not-found", "--delete-context=false", seconds=DELETE_SECONDS
        )
        # The CLI does not find an incomplete one, while Helm keeps its cluster roles.
        try:
            Helm(self.tools.helm, self.host.kubeconfig, self.host.context).uninstall(
                Release(name, name), DELETE_SECONDS
            )
        except HelmFailed as error:
            raise ConnectError(f"virtual cluster {name!r}: {error}") from error

    def _run(self, *arguments: str, seconds: float, check: Callable[[], None] = lambda: None) -> str:
        where = ["--config", str(self.folder / "vcluster-cli.json"), "--driver", "helm"]
        where += ["--context", self.host.context] if self.host.context else []
        make_folder(self.folder / "logs")
        with (
            open_private(self.folder / "logs" / "vcluster.log", "ab") as log,
            open_private(self.folder / f"vcluster-{arguments[0]}.out", "w+b") as output,
        ):
            begin = log.tell()
            command = [str(self.tools.vcluster), *arguments, *where]
            with process_group(command, cwd=self.folder, env=self._environment(), stdout=output, stderr=log) as process:
                if not wait_for_end(process, seconds, check):
                    raise ConnectError(f"vcluster {arguments[0]} {arguments[1]} took over {seconds:.0f} s")
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        Path(output.name).unlink(missing_ok=True)
        if process.returncode:
            output_bytes = text.encode() + (self.folder / "logs" / "vcluster.log").read_bytes()[begin:]
            lines = [line.strip() for line in output_bytes.decode("utf-8", "replace").splitlines() if line.strip()]
            raise ConnectError(
                f"vcluster {arguments[0]} {arguments[1]} failed: {'; '.join(lines[-_LAST_LINES:]) or 'it printed nothing'}"
            )
        return text

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            # The CLI takes the first helm in PATH, and would download one otherwise.
            "PATH": f"{self.tools.helm.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "KUBECONFIG": str(self.host.kubeconfig),
            "VCLUSTER_SKIP_VERSION_CHECK": "true",
            # By the mark, its child processes are found if this process can't end them any more.
            MARK: str(self.folder),
        }
