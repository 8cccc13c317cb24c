"""Virtual clusters: what the chart is told, what is refused before anything is made, and that the real CLI leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kailab.cluster.backends import BACKENDS
from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.controlplane.supervision import processes_of
from kailab.cluster.helm import HELM_VARIABLE, Chart, Helm, Release, find_helm
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.vcluster import VclusterPlane, find_tools, take_down, tools_reason
from kailab.cluster.vcluster.vcluster_command import CHART_VARIABLE, VCLUSTER_VARIABLE, VclusterTools, packed_chart
from kailab.cluster.vcluster.virtual_cluster import NO_NODE, vcluster_chart_values
from kailab.components import VCLUSTER_CHART, ComponentCache, ComponentSet
from kailab.errors import ConnectError, InputError, KailabError, StateError
from kailab.lab.venues import open_venue, provider_of
from kailab.lab.venues.contract import Place
from kailab.trials.cell_runner import jobs_that_fit, only_one
from kailab.undertest.selection import check_lab
from tests.planes import taken_down


@pytest.fixture
def chart() -> Path:
    """The pinned version's, as it is in its module."""
    found = ComponentCache().checked(VCLUSTER_CHART)
    if found is None:
        pytest.skip("the chart is not here: `kailab components get --vcluster` gets it")
    return found


@pytest.fixture
def schema(chart: Path) -> Any:
    with zipfile.ZipFile(chart) as kept:
        return json.loads(kept.read("chart/values.schema.json"))


class TestValues:
    def test_they_are_what_the_charts_schema_allows(self, schema: Any) -> None:
        jsonschema.validate(vcluster_chart_values("v1.35.4"), schema)

    def test_the_schema_would_refuse_a_word_that_there_is_not(self, schema: Any) -> None:
        told = vcluster_chart_values("v1.35.4")
        told["sync"]["toHost"]["podz"] = {"enabled": False}
        with pytest.raises(jsonschema.ValidationError, match="podz"):
            jsonschema.validate(told, schema)

    def test_nothing_that_can_be_synced_is_left_out(self, schema: Any) -> None:
        """What a chart adds later would be synced by its own default."""
        told = vcluster_chart_values("v1.35.4")["sync"]
        for way, definition in (("toHost", "SyncToHost"), ("fromHost", "SyncFromHost")):
            kinds = set(schema["$defs"][definition]["properties"]) - {"customResources"}
            assert kinds == set(told[way])

    def test_a_scheduler_decides_inside_and_nothing_goes_out(self) -> None:
        told = vcluster_chart_values("v1.35.4")
        assert told["controlPlane"]["distro"]["k8s"]["scheduler"] == {"enabled": True}
        assert not any(one["enabled"] for one in told["sync"]["toHost"].values())
        synced = {kind for kind, one in told["sync"]["fromHost"].items() if one["enabled"]}
        assert synced == {"nodes"}
        assert told["sync"]["fromHost"]["nodes"]["selector"] == {"all": False, "labels": NO_NODE}

    def test_the_chart_renders(self, chart: Path, tmp_path: Path) -> None:
        try:
            helm = find_helm()
        except ConnectError as error:
            pytest.skip(str(error))
        packed = packed_chart(VclusterTools(tmp_path, helm, chart), tmp_path / "chart")
        assert packed is not None
        assert packed.name == f"vcluster-{VCLUSTER_CHART.version.removeprefix('v')}.tgz"
        objects = Helm(helm).template(Release("a", "a"), Chart(str(packed)), vcluster_chart_values("v1.35.4"))
        (pod,) = [one["spec"]["template"]["spec"] for one in objects if one["kind"] in ("Deployment", "StatefulSet")]
        assert pod["containers"][0]["image"] == f"ghcr.io/loft-sh/vcluster-oss:{packed.stem.partition('-')[2]}"
        assert pod["initContainers"][0]["image"] == "ghcr.io/loft-sh/kubernetes:v1.35.4"
        assert "PersistentVolumeClaim" not in {one["kind"] for one in objects}
        assert {"name": "data", "emptyDir": {}} in pod["volumes"]


class TestRefused:
    @pytest.fixture(autouse=True)
    def _nothing_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        for variable in (VCLUSTER_VARIABLE, HELM_VARIABLE, CHART_VARIABLE):
            monkeypatch.delenv(variable, raising=False)

    @staticmethod
    def _program(path: Path) -> Path:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def test_no_program(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(KailabError, match="there is no vcluster here") as caught:
            open_venue("vcluster", kubeconfig=tmp_path / "none")
        assert caught.value.exit_code == 2
        assert "components get --vcluster" in str(provider_of("vcluster").lacking())
        self._program(tmp_path / "vcluster")
        assert "there is no helm here" in str(tools_reason())
        self._program(tmp_path / "helm")
        assert find_tools().chart is None
        monkeypatch.setenv(VCLUSTER_VARIABLE, str(tmp_path / "other"))
        assert "is no vcluster program" in str(tools_reason())

    def test_no_chart_and_no_host(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._program(tmp_path / "vcluster")
        self._program(tmp_path / "helm")
        with pytest.raises(KailabError, match="none") as caught:
            open_venue("vcluster", kubeconfig=tmp_path / "none")
        assert caught.value.exit_code == 2
        monkeypatch.setenv(CHART_VARIABLE, str(tmp_path))
        with pytest.raises(InputError, match="is no chart"):
            find_tools()

    def test_what_has_no_place_in_it(self) -> None:
        with pytest.raises(InputError, match="Kueue's webhooks are on this machine"):
            check_lab("vcluster", "kueue", {})
        with pytest.raises(InputError, match=r"kai@RELEASE: the backend vcluster does not take it \(its pods are fake"):
            check_lab("vcluster", "kai@v0.16.8", {})
        for scheduler in ("kailab", "kube-scheduler", "kai=x"):
            check_lab("vcluster", scheduler, {"kubeconfig": "x", "context": "y"})

    def test_a_folder_that_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(StateError, match="no virtual cluster is here"):
            VclusterPlane.attach(tmp_path)
        with pytest.raises(StateError, match="no virtual cluster is here"):
            take_down(tmp_path)
        (tmp_path / "vcluster.json").write_text("{")
        with pytest.raises(StateError, match="can't be read"):
            VclusterPlane.attach(tmp_path)


def test_several_go_side_by_side() -> None:
    assert BACKENDS["vcluster"].own
    assert only_one(["vcluster"]) == ""
    assert jobs_that_fit(["vcluster"]) == jobs_that_fit(["controlplane"])


@pytest.fixture(scope="module")
def host(components: ComponentSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    if reason := tools_reason():
        pytest.skip(reason)
    if find_tools().chart is None:
        pytest.skip("the chart is not here: `kailab components get --vcluster` gets it")
    with taken_down(ControlPlane.up(tmp_path_factory.mktemp("host") / "plane", components)) as made:
        yield made


class TestTheCli:
    """On a light control plane as the host: it takes all that the CLI makes, and runs none of it."""

    @staticmethod
    def _left(host: ControlPlane) -> list[str]:
        cluster = KubernetesCluster(Connection.from_kubeconfig(host.kubeconfig), "host")
        try:
            kinds = ("Namespace", "ClusterRole", "ClusterRoleBinding")
            names = [obj["metadata"]["name"] for kind in kinds for obj in cluster.list(kind)]
        finally:
            cluster.close()
        return [name for name in names if "kailab-" in name]

    def _making(self, host: ControlPlane, folder: Path, tmp_path: Path) -> subprocess.Popen[bytes]:
        """A process that makes one, once the CLI has put all of it into the host."""
        script = tmp_path / "up.py"
        script.write_text(
            "import sys; from pathlib import Path; from kailab.cluster.vcluster import HostCluster, VclusterPlane\n"
            "from kailab.components import find_components\n"
            "VclusterPlane.up(Path(sys.argv[1]), host=HostCluster(Path(sys.argv[2])), components=find_components())\n"
        )
        process = subprocess.Popen(
            [sys.executable, str(script), str(folder), str(host.kubeconfig)],
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
        until = time.monotonic() + 240
        while not any("vc-" in name for name in self._left(host)):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        return process

    def test_interrupted_it_leaves_nothing(self, host: ControlPlane, tmp_path: Path) -> None:
        folder = tmp_path / "virtual"
        process = self._making(host, folder, tmp_path)
        process.send_signal(signal.SIGINT)
        process.wait(240)
        assert not folder.exists()
        assert self._left(host) == []
        assert processes_of(folder) == []

    def test_killed_it_is_found_and_deleted(self, host: ControlPlane, tmp_path: Path) -> None:
        folder = tmp_path / "virtual"
        process = self._making(host, folder, tmp_path)
        process.kill()
        process.wait()
        assert self._left(host) != []
        with pytest.raises(StateError, match="was interrupted here"):
            VclusterPlane.attach(folder)
        provider_of("vcluster").take_down(Place(backend="vcluster", folder=str(folder)))
        assert not folder.exists()
        assert self._left(host) == []
