"""A release of KAI by its chart: what is found in a folder, what the chart is told, what is refused before anything begins."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.helm import HELM_VARIABLE, Helm, HelmFailed, find_helm
from kailab.errors import ConnectError, InputError, KailabError
from kailab.undertest.kai.chart import CHART_ENV, chart_values, check_images, find_chart, images_of
from kailab.undertest.kai.installation import Installation
from kailab.undertest.selection import absolute_name, check_lab, choose_scheduler

REGISTRY = "registry.test/kai"
POD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: kai-operator}
spec:
  template:
    spec:
      containers:
      - {name: operator, image: "{{ .Values.global.registry }}/operator:{{ .Values.global.tag | default .Chart.AppVersion }}"}
"""
CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: kai-config-manifest}
data:
  kai-config.yaml: |
    apiVersion: kai.scheduler/v1
    kind: Config
    metadata: {name: kai-config}
    spec:
      scheduler:
        service:
          enabled: true
          image: {name: scheduler, repository: "{{ .Values.global.registry }}", tag: "{{ .Values.global.tag }}"}
      nodeScaleAdjuster:
        service:
          enabled: false
          image: {name: nodescaleadjuster, repository: "{{ .Values.global.registry }}", tag: "{{ .Values.global.tag }}"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: kai-operator}
"""


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHART_ENV, raising=False)


def _chart(folder: Path, version: str = "v0.16.8") -> Path:
    """A chart as a folder."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(
        f"apiVersion: v2\nname: kai-scheduler\nversion: {version}\nappVersion: {version}\n"
    )
    (folder / "values.yaml").write_text("global: {registry: published.test/kai}\n")
    (folder / "templates" / "pod.yaml").write_text(POD)
    (folder / "templates" / "config.yaml").write_text(CONFIG)
    return folder


def _packed(folder: Path, version: str) -> Path:
    """The same as an archive."""
    made = folder / f"kai-scheduler-{version}.tgz"
    source = _chart(folder.parent / f"source-{version}", version)
    with tarfile.open(made, "w:gz") as archive:
        archive.add(source, "kai-scheduler")
    return made


def _images(path: Path, *names: str, oci: bool = False) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table: Any = [{"Config": "c.json", "RepoTags": list(names), "Layers": []}]
    if oci:
        table = {"manifests": [{"annotations": {"io.containerd.image.name": name}} for name in names]}
    content = json.dumps(table).encode()
    member = tarfile.TarInfo("index.json" if oci else "manifest.json")
    member.size = len(content)
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def helm() -> Helm:
    try:
        return Helm(find_helm())
    except ConnectError as error:
        pytest.skip(str(error))


class TestName:
    def test_a_release_is_no_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("v0.16.8").write_text("kai: {kind: kai}\n")
        one = choose_scheduler("kai@v0.16.8")
        assert (one.kind, one.name, one.option("kai_release"), one.installed) == ("kai", "kai", "v0.16.8", True)
        assert absolute_name("kai@v0.16.8") == "kai@v0.16.8"
        assert one != choose_scheduler("kai@v0.16.7")

    def test_a_name_of_a_file_is_no_release(self, tmp_path: Path) -> None:
        names = tmp_path / "v0.16.8"
        names.write_text("new: {kind: kai, release: v0.16.8, chart: air}\n")
        one = choose_scheduler(f"new@{names}")
        assert (one.name, one.option("kai_release")) == ("new", "v0.16.8")
        assert one.option("kai_chart") == str(tmp_path / "air")

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("kai@0.16.8", "expected a whole release after the @, as in kai@v0.16.8"),
            ("kai@v0.16", "expected a whole release after the @"),
            ("kueue@v0.19.2", "kueue is installed by no chart; those that are: kai"),
        ],
    )
    def test_text_that_is_no_release_is_refused(self, text: str, told: str) -> None:
        with pytest.raises(InputError) as caught:
            choose_scheduler(text)
        assert told in str(caught.value)
        assert caught.value.exit_code == 2

    @pytest.mark.parametrize("backend", ["controlplane", "embedded"])
    def test_fake_nodes_run_no_pods(self, backend: str) -> None:
        with pytest.raises(InputError) as caught:
            check_lab(backend, "kai@v0.16.8", {})
        told = str(caught.value)
        assert "real API server" in told or "its nodes are all fake" in told

    @pytest.mark.parametrize("backend", ["kind", "kubeconfig"])
    def test_real_nodes_do(self, backend: str, tmp_path: Path) -> None:
        check_lab(backend, "kai@v0.16.8", {"kai_chart": tmp_path})

    def test_it_is_not_run_from_a_folder_too(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--kai-bin applies only to a KAI in a folder"):
            choose_scheduler("kai@v0.16.8", {"kai": tmp_path}).check_options()

    def test_a_chart_is_for_a_release(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="--kai-chart applies only to a KAI that its chart installs"):
            choose_scheduler("kai", {"kai_chart": tmp_path}).check_options()


class TestFolder:
    def test_a_chart_of_the_repository_serves_any_release(self, tmp_path: Path) -> None:
        chart = _chart(tmp_path / "kai-scheduler", "0.0.0")
        found = find_chart("v0.16.8", tmp_path)
        assert (found.chart.ref, found.numbered, found.archives) == (str(chart), False, ())

    def test_of_several_the_one_of_the_release(self, tmp_path: Path) -> None:
        folder = tmp_path / "air"
        folder.mkdir()
        _packed(folder, "v0.15.2")
        wanted = _packed(folder, "v0.16.8")
        assert find_chart("v0.16.8", folder).chart.ref == str(wanted)

    def test_images_say_registry_and_tag(self, tmp_path: Path) -> None:
        _chart(tmp_path / "kai-scheduler")
        _images(tmp_path / "images" / "a.tar", f"{REGISTRY}/scheduler:v0.16.8", f"{REGISTRY}/binder:v0.16.8")
        _images(tmp_path / "b.tar.gz", f"{REGISTRY}/operator:v0.16.8", oci=True)
        found = find_chart("v0.16.8", tmp_path)
        assert found.images == {f"{REGISTRY}/{name}:v0.16.8" for name in ("scheduler", "binder", "operator")}
        told = chart_values(found)["global"]
        assert (told["registry"], told["tag"]) == (REGISTRY, "v0.16.8")

    def test_the_environment_names_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        chart = _chart(tmp_path / "kai-scheduler")
        monkeypatch.setenv(CHART_ENV, str(tmp_path))
        assert find_chart("v0.16.8").chart.ref == str(chart)

    @pytest.mark.parametrize(("release", "owner"), [("v0.12.23", "nvidia"), ("v0.16.8", "kai-scheduler")])
    def test_published_ones(self, release: str, owner: str) -> None:
        chart = find_chart(release).chart
        assert chart == (f"oci://ghcr.io/{owner}/kai-scheduler/kai-scheduler", release)

    def test_a_missing_folder_is_refused(self, tmp_path: Path) -> None:
        def refused(folder: Path, release: str = "v0.16.8") -> str:
            with pytest.raises(InputError) as caught:
                find_chart(release, folder)
            assert caught.value.exit_code == 2
            return str(caught.value)

        assert "is not there; expected the folder with KAI's chart" in refused(tmp_path / "none")
        assert f"{tmp_path}: has no chart kai-scheduler" in refused(tmp_path)
        _packed(tmp_path, "v0.15.2")
        assert "has no chart of v0.16.8; there is kai-scheduler-v0.15.2.tgz (v0.15.2)" in refused(tmp_path)
        assert "kai@v0.99.0: is KAI v0.99.0, whose flags" in refused(tmp_path, "v0.99.0")
        _chart(tmp_path / "one")
        _chart(tmp_path / "two")
        assert "has several charts of v0.16.8: one, two" in refused(tmp_path)
        (tmp_path / "bad.tar").write_bytes(b"nothing")
        for name in ("one", "two"):
            (tmp_path / name / "Chart.yaml").unlink()
        _chart(tmp_path / "three")
        assert "bad.tar: can't be read as an archive" in refused(tmp_path)
        _images(tmp_path / "bad.tar")
        assert "bad.tar: its images have no names" in refused(tmp_path)


class TestValues:
    def test_older_ones_have_no_operator(self) -> None:
        told = chart_values(find_chart("v0.8.5"))
        assert told["scheduler"]["additionalArgs"] == ["--update-pod-eviction-condition=true"]
        assert told["binder"]["additionalArgs"] == ["--fake-gpu-nodes=true"]
        assert chart_values(find_chart("v0.6.23"))["scheduler"]["additionalArgs"] == []
        assert "binder" not in chart_values(find_chart("v0.9.20"))

    def test_no_runtime_class_and_no_queue_of_its_own(self) -> None:
        told = chart_values(find_chart("v0.16.8"))
        assert set(told["admission"].values()) == {""}
        assert told["defaultQueue"] == {"createDefaultQueue": False}


class TestImages:
    def test_images_of_pods_and_of_programs_that_the_operator_starts(self) -> None:
        pod = {
            "spec": {"initContainers": [{"image": "r/first:1"}], "containers": [{"image": "r/main:1"}, {"name": "x"}]}
        }
        service = {"enabled": True, "image": {"name": "scheduler", "repository": "r", "tag": "1"}}
        config = {"kind": "Config", "spec": {"scheduler": {"service": service}, "global": {}}}
        off = {"kind": "Config", "spec": {"scheduler": {"service": {**service, "enabled": False}}}}
        assert sorted(images_of([pod, config, off])) == ["r/first:1", "r/main:1", "r/scheduler:1"]

    def test_a_missing_image_is_named(self, tmp_path: Path) -> None:
        _chart(tmp_path / "kai-scheduler")
        _images(tmp_path / "a.tar", f"{REGISTRY}/scheduler:v0.16.8")
        pod = {"spec": {"containers": [{"image": f"{REGISTRY}/operator:v0.16.8"}]}}
        with pytest.raises(InputError, match=f"the image archives beside the chart lack {REGISTRY}/operator:v0.16.8"):
            check_images(find_chart("v0.16.8", tmp_path), [pod])

    def test_kais_own_must_be_among_them(self, tmp_path: Path) -> None:
        _chart(tmp_path / "kai-scheduler")
        _images(tmp_path / "a.tar", "busybox:1")
        with pytest.raises(InputError, match="none of the image archives has KAI's image scheduler: busybox:1"):
            chart_values(find_chart("v0.16.8", tmp_path))


class TestHelm:
    def test_the_values_name_the_registry_of_the_images(self, helm: Helm, tmp_path: Path) -> None:
        _chart(tmp_path / "kai-scheduler")
        _images(tmp_path / "a.tar", *(f"{REGISTRY}/{name}:v9" for name in ("scheduler", "operator")))
        source = find_chart("v0.16.8", tmp_path)
        Installation(helm, source).check()
        (tmp_path / "a.tar").unlink()
        _images(tmp_path / "a.tar", f"{REGISTRY}/scheduler:v9")
        with pytest.raises(InputError, match=f"lack {REGISTRY}/operator:v9"):
            Installation(helm, find_chart("v0.16.8", tmp_path)).check()

    def test_one_of_the_repository_is_packed_as_the_release(self, helm: Helm, tmp_path: Path) -> None:
        _chart(tmp_path / "kai-scheduler", "0.0.0")
        _images(tmp_path / "a.tar", *(f"{REGISTRY}/{name}:v0.16.8" for name in ("scheduler", "operator")))
        pod = tmp_path / "kai-scheduler" / "templates" / "pod.yaml"
        # As older charts have it, which know no tag.
        pod.write_text(POD.replace(".Values.global.tag | default ", ""))
        Installation(helm, find_chart("v0.16.8", tmp_path)).check()

    def test_a_file_that_is_no_chart_is_refused(self, helm: Helm, tmp_path: Path) -> None:
        chart = _chart(tmp_path / "kai-scheduler")
        (chart / "templates" / "pod.yaml").write_text("{{ .Values.global.nothing.inside }}")
        with pytest.raises(HelmFailed, match=r"helm template failed: .*nil pointer") as caught:
            Installation(helm, find_chart("v0.16.8", tmp_path)).check()
        assert caught.value.exit_code == 2

    def test_there_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.delenv(HELM_VARIABLE, raising=False)
        _chart(tmp_path / "kai-scheduler")
        with pytest.raises(KailabError, match=r"there is no helm here.*components get --helm") as caught:
            choose_scheduler("kai@v0.16.8", {"kai_chart": tmp_path}).check_options()
        assert caught.value.exit_code == 2
        monkeypatch.setenv(HELM_VARIABLE, str(tmp_path / "kai-scheduler" / "Chart.yaml"))
        with pytest.raises(ConnectError, match="is no helm program"):
            find_helm()
