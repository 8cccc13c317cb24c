"""The image of virtual control planes that is built here: contents, requirements, and the hosts that have it."""

import json
import stat
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cluster.built_images import ARCHIVE, RECORD, VclusterImage, VclusterImageStore
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.vcluster.virtual_cluster import provide_control_plane_image, vcluster_chart_values
from kailab.components import DEFAULT_KUBERNETES, HELM, VCLUSTER, ComponentCache, pins
from kailab.components.pins import IMAGE_OF_VCLUSTER, SYNCER
from kailab.errors import InputError, StateError
from tools.images import vcluster_image as images
from tools.images.__main__ import app
from tools.images.requirements import CannotBuild
from tools.images.vcluster_image import REPOSITORY


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ComponentCache:
    """Programs that are none, in a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAILAB_COMPONENTS", raising=False)
    made = ComponentCache()
    for pin in (*pins(), *IMAGE_OF_VCLUSTER, HELM):
        file = tmp_path / pin.name
        file.write_text(f"#!/bin/sh\necho {pin}\n")
        made.put(pin, file, "built", "this test")
    return made


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["vcluster", *arguments])
    return done.exit_code, done.stdout, done.stderr


class TestBuild:
    def test_each_program_is_where_the_chart_and_the_others_look_for_it(self, cache: ComponentCache) -> None:
        made = images.build()
        assert made.name.startswith(f"{REPOSITORY}:{VCLUSTER.version}-{DEFAULT_KUBERNETES}-")
        with tarfile.open(VclusterImageStore().archive(made)) as archive:
            (manifest,) = json.load(archive.extractfile("manifest.json"))
            assert manifest["RepoTags"] == [made.name]
            config = json.load(archive.extractfile(manifest["Config"]))
            assert config["config"]["Entrypoint"] == ["/vcluster", "start"]
            assert config["rootfs"]["diff_ids"] == [made.layer]
            with tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer:
                files = {one.name.removeprefix("./"): one for one in layer.getmembers()}
                assert b"kube-apiserver" in layer.extractfile(files["kubernetes/kube-apiserver"]).read()
        programs = {name for name, one in files.items() if one.isfile()}
        assert programs == {
            "vcluster",
            "bin/cp",
            "usr/local/bin/helm",
            "usr/local/bin/kine",
            *(f"kubernetes/kube-{name}" for name in ("apiserver", "controller-manager", "scheduler")),
        }
        # Whoever made it, it is root's, and anybody may run it.
        assert {(one.uid, one.gid) for one in files.values()} == {(0, 0)}
        assert {stat.S_IMODE(files[name].mode) for name in programs} == {0o755}
        assert stat.S_IMODE(files["tmp"].mode) == 0o1777

    def test_the_same_is_not_made_again_and_another_program_makes_another(
        self, cache: ComponentCache, tmp_path: Path
    ) -> None:
        told: list[str] = []
        first = images.build()
        assert images.build(tell=told.append) == first
        assert "is here already" in told[-1]
        again = images.build(again=True)
        assert (again.name, again.layer, again.sha256) == (first.name, first.layer, first.sha256)
        (tmp_path / "another").write_text("#!/bin/sh\n")
        cache.put(SYNCER, tmp_path / "another", "built", "this test")
        second = images.build()
        assert second.name != first.name
        assert {one.name for one in VclusterImageStore().images()} == {first.name, second.name}
        assert not list(VclusterImageStore().root.glob("*/.root*"))

    def test_what_is_missing_is_said_and_nothing_is_got(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(images, "BYTES", 10**18)
        with pytest.raises(CannotBuild) as refused:
            images.build()
        for part in (
            "no image of a virtual control plane can be built here:",
            "there is no Go here, and vcluster-syncer v0.30.0, kine v0.16.4, cp v0.15.0 can only be built with it",
            "there is no tar here",
            "GB are needed",
        ):
            assert part in str(refused.value)
        code, _, told = run("build", "--check")
        assert code == 2
        assert "there is no Go here" in told
        assert not (tmp_path / "cache").exists()
        with pytest.raises(InputError, match="not among the releases"):
            images.check("1.2")

    def test_a_damaged_archive_is_told(self, cache: ComponentCache) -> None:
        made = images.build()
        VclusterImageStore().archive(made).write_bytes(b"something else")
        with pytest.raises(
            StateError, match=r"is not loaded; `python -m tools.images vcluster build --again` builds it anew"
        ):
            images.build()
        assert images.build(again=True).sha256 == made.sha256


def test_the_command_line(cache: ComponentCache) -> None:
    assert "`python -m tools.images vcluster build` builds one" in run("list")[2]
    code, name, _ = run("build")
    assert code == 0
    (listed,) = json.loads(run("list", "-o", "json")[1])
    assert (listed["name"], listed["kubernetes"], listed["vcluster"]) == (name.strip(), "v1.35.4", "v0.30.0")
    code, told, _ = run("show", name.strip())
    assert code == 0
    assert "  kine v0.16.4" in told
    code, _, told = run("show", "kailab/vcluster:none")
    assert code == 2
    assert f"there are: {name.strip()}" in told
    assert run("remove", name.strip())[0] == 0
    assert VclusterImageStore().images() == []


class TestHosts:
    @pytest.fixture
    def made(self, cache: ComponentCache) -> VclusterImage:
        return images.build()

    @staticmethod
    def host(*nodes: dict) -> EmbeddedCluster:
        cluster = EmbeddedCluster()
        for number, node in enumerate(nodes):
            metadata = {"name": f"node-{number}", "annotations": node.pop("annotations", {})}
            cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, **node})
        return cluster

    @staticmethod
    def has(name: str) -> dict:
        return {"status": {"images": [{"names": ["registry.k8s.io/pause:3.10", name]}]}}

    def provided(self, *nodes: dict, kubernetes: str = DEFAULT_KUBERNETES) -> VclusterImage | None:
        return provide_control_plane_image(self.host(*nodes), kubernetes, Path("kubectl"), lambda _: None)

    def test_one_whose_nodes_have_it(self, made: VclusterImage) -> None:
        told = f"docker.io/{made.name}"
        fake = {"annotations": {"kwok.x-k8s.io/node": "fake"}}
        assert self.provided(self.has(told), self.has(made.name), fake) == made
        assert self.provided(self.has(told), kubernetes="v1.34.4") is None

    def test_one_whose_nodes_can_not_be_given_it(self, made: VclusterImage) -> None:
        assert self.provided(self.has(f"docker.io/{made.name}"), {}) is None
        assert self.provided({"spec": {"providerID": "aws:///eu/i-1"}}) is None
        # A kind cluster, but of no engine here.
        assert self.provided({"spec": {"providerID": "kind://docker/kailab-none-of-these/node-0"}}) is None
        assert self.provided() is None

    def test_where_none_was_made(self, cache: ComponentCache) -> None:
        assert self.provided(self.has("kailab/vcluster:any")) is None

    def test_one_of_another_recipe_is_not_taken(self, made: VclusterImage) -> None:
        record = VclusterImageStore().folder(made.name) / RECORD
        record.write_text(record.read_text().replace('"recipe": 1', '"recipe": 0'))
        assert (VclusterImageStore().folder(made.name) / ARCHIVE).is_file()
        assert self.provided(self.has(made.name)) is None


def test_the_chart_is_told_one_image_for_both() -> None:
    told = vcluster_chart_values("v1.35.4", "kailab/vcluster:v0.30.0-x")["controlPlane"]
    own = {"registry": "", "repository": "kailab/vcluster", "tag": "v0.30.0-x"}
    assert told["statefulSet"]["image"] == told["distro"]["k8s"]["image"] == own
    # Else the chart takes it for the tag.
    assert "version" not in told["distro"]["k8s"]
    assert vcluster_chart_values("v1.35.4")["controlPlane"]["distro"]["k8s"]["version"] == "v1.35.4"
