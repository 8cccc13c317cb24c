"""Node images that are built here: requirements, contents, the store, and what a failed build leaves."""

import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kailab.cluster.built_images import ARCHIVE, RECORD, NodeImage, NodeImageStore
from kailab.cluster.kind import docker
from kailab.cluster.kind.docker import default_node_image, load_built_image, provide_image
from kailab.cluster.kind.options import choose_options
from kailab.cluster.polling import wait_until
from kailab.components import KIND, ComponentCache, find_components, pins
from kailab.components.manifests import write_files
from kailab.components.pins import NODE_FILES, node_pins, this_machine
from kailab.errors import ConnectError, InputError, StateError
from tools.images import node_image, requirements
from tools.images.build_inputs import SUITE, gather_inputs
from tools.images.control_plane_images import put_with_libraries
from tools.images.debian import Root
from tools.images.layers import write_image
from tools.images.node_files import put_kinds_files
from tools.images.requirements import CannotBuild

SECONDS = 300.0


def _may_build() -> bool:
    if os.geteuid() != 0 or any(shutil.which(name) is None for name in ("gpgv", "setpriv", "unshare")):
        return False
    return subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode == 0


AS_ROOT = pytest.mark.skipif(
    not _may_build(), reason="it needs gpgv, util-linux, and root that may mount, as a build does"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ComponentCache:
    """Programs that are none, in a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAILAB_COMPONENTS", raising=False)
    monkeypatch.delenv("KAILAB_KIND_IMAGE", raising=False)
    made = ComponentCache()
    for pin in (*pins(), *node_pins()):
        file = tmp_path / pin.name
        file.write_text(f"#!/bin/sh\necho {pin}\n")
        made.put(pin, file, "built", "this test")
    return made


@pytest.fixture
def mirror(tmp_path: Path) -> str:
    """As far as it is looked at before a build."""
    release = tmp_path / "mirror" / "dists" / SUITE / "InRelease"
    release.parent.mkdir(parents=True)
    release.write_text("Origin: Debian\n")
    return (tmp_path / "mirror").as_uri()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a debootstrap of a few words in front of PATH."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def debootstrap(words: str) -> None:
        (folder / "debootstrap").write_text(f"#!/bin/sh\n{words}\n")
        (folder / "debootstrap").chmod(0o755)

    monkeypatch.setattr(requirements, "KEYRING", Path(sys.executable))  # a file that is there
    return debootstrap


def record(number: int = 1, **fields: object) -> NodeImage:
    given: dict = {
        "name": f"kailab/node:v1.35.4-{number:012x}",
        "kubernetes": "v1.35.4",
        "kind": KIND.version,
        "layer": "sha256:1",
        "sha256": hashlib.sha256(b"an archive").hexdigest(),
        "megabytes": 1,
        "created": f"2026-01-0{number}T00:00:00+00:00",
        "suite": SUITE,
        "mirror": "file:///mirror",
        "packages": {"bash": "5"},
        "checksums": {"kubelet": "1"},
        "images": ("pause:3.10",),
        **fields,
    }
    return NodeImage(**given)


def kept(store: NodeImageStore, image: NodeImage) -> NodeImage:
    store.folder(image.name).mkdir(parents=True)
    store.archive(image).write_bytes(b"an archive")
    store.put(image)
    return image


class TestNeeds:
    def test_all_that_is_missing_is_said_at_once_and_nothing_is_got(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        monkeypatch.setattr(requirements, "KEYRING", tmp_path / "keyring.gpg")
        monkeypatch.setattr(requirements, "ARCHIVE_BYTES", 10**18)
        with pytest.raises(CannotBuild) as refused:
            node_image.build(mirror=f"{tmp_path.as_uri()}/nothing")
        told = str(refused.value)
        for part in (
            "it needs root",
            "no debootstrap here (apt install debootstrap)",
            "no gpgv here",
            "keyring.gpg, which verifies Debian's packages, is not here",
            "there is no Go here, and coredns v1.13.1, node-files.zip v0.30.0 can only be built with it",
            "GB are needed",
            "the Debian mirror can't be reached",
            "--mirror names another one",
        ):
            assert part in told
        assert not (tmp_path / "cache").exists()

    @AS_ROOT
    def test_where_nothing_is_missing(self, cache: ComponentCache, mirror: str, tools: Callable[[str], None]) -> None:
        tools("exit 1")
        assert node_image.check(mirror=mirror) == ()

    def test_a_release_of_which_there_can_be_none(self) -> None:
        with pytest.raises(
            InputError, match=r"no node image can be made of Kubernetes v1\.36\.3: .* v1\.34\.4, v1\.35\.4"
        ):
            node_image.check("1.36")
        with pytest.raises(InputError, match="not among the releases"):
            node_image.check("1.2")


class TestName:
    def test_it_follows_from_what_is_in_it(self, cache: ComponentCache, tmp_path: Path) -> None:
        first = gather_inputs(find_components())
        assert gather_inputs(find_components()).name == first.name
        assert first.name.startswith("kailab/node:v1.35.4-")
        # Where packages come from makes no other image.
        assert gather_inputs(find_components(), "http://another.invalid/debian").name == first.name
        (kubelet,) = (pin for pin in node_pins() if pin.name == "kubelet")
        another = tmp_path / "another"
        another.write_text("#!/bin/sh\n")
        cache.put(kubelet, another, "built", "this test")
        assert gather_inputs(find_components()).name != first.name

    def test_the_newest_that_was_built_here_is_the_default(self, cache: ComponentCache, tmp_path: Path) -> None:
        kind = tmp_path / "kind"
        kind.write_text("#!/bin/sh\n")
        kind.chmod(0o755)
        assert choose_options(kind).image == "kindest/node:v1.35.4"
        store = NodeImageStore()
        kept(store, record(1))
        kept(store, record(2))
        kept(store, record(3, kubernetes="v1.34.4"))
        kept(store, record(4, recipe=0))
        assert choose_options(kind).image == record(2).name
        assert default_node_image("v1.34.4") == record(3).name
        assert choose_options(kind, "mine:1").image == "mine:1"


class TestStore:
    def test_what_is_kept_is_found_and_removed(self, tmp_path: Path) -> None:
        store = NodeImageStore(tmp_path / "images")
        assert store.images() == []
        first, second = kept(store, record(1)), kept(store, record(2))
        assert store.images() == [second, first]
        assert store.find(first.name) == store.find(first.name.partition(":")[2]) == first
        assert store.checked(first).read_bytes() == b"an archive"
        store.remove(first)
        assert store.images() == [second]
        with pytest.raises(InputError, match=rf"no node image .* was built here; there are: {second.name}"):
            store.get(first.name)

    def test_what_is_damaged_is_not_loaded(self, tmp_path: Path) -> None:
        store = NodeImageStore(tmp_path)
        image = kept(store, record())
        store.archive(image).write_bytes(b"something else")
        with pytest.raises(StateError, match=r"its sha256 is .* was built; it is not loaded; .*--again"):
            store.checked(image)
        store.archive(image).unlink()
        with pytest.raises(StateError, match="can't be read"):
            store.checked(image)
        (store.folder(image.name) / RECORD).write_text("{")
        assert store.images() == []


def test_an_image_of_one_layer(tmp_path: Path) -> None:
    root = Root(tmp_path / "root")
    root.write("bin/hello", "#!/bin/sh\n", 0o755)
    root.link("usr/bin", "/bin")
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    layers = [
        write_image(archive, "test:1", root.path, "amd64", entrypoint=("/bin/hello",), stop_signal="SIGTERM")
        for archive in archives
    ]
    # The times are not those of the files.
    os.utime(root.path / "bin" / "hello", (5, 5))
    assert write_image(archives[1], "test:1", root.path, "amd64") == layers[0] == layers[1]
    with tarfile.open(archives[0]) as archive:
        (manifest,) = json.load(archive.extractfile("manifest.json"))
        config = archive.extractfile(manifest["Config"]).read()
        unpacked = gzip.decompress(archive.extractfile(manifest["Layers"][0]).read())
    assert manifest["RepoTags"] == ["test:1"]
    assert manifest["Config"] == f"{hashlib.sha256(config).hexdigest()}.json"
    described = json.loads(config)
    assert described["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"] == [layers[0]]
    assert described["config"]["Entrypoint"] == ["/bin/hello"]
    assert described["config"]["StopSignal"] == "SIGTERM"
    (tmp_path / "layer.tar").write_bytes(unpacked)
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert layer.getmember("./bin/hello").mode == 0o755
        assert layer.getmember("./usr/bin").linkname == "/bin"


def test_an_image_in_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = docker.docker_reason()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, image = NodeImageStore(), record(9)
    store.folder(image.name).mkdir(parents=True)
    root = Root(tmp_path / "root")
    root.write("hello", "one")
    layer = write_image(store.archive(image), image.name, root.path, this_machine().architecture)
    image = msgspec.structs.replace(
        image, layer=layer, sha256=hashlib.sha256(store.archive(image).read_bytes()).hexdigest()
    )
    store.put(image)
    told: list[str] = []
    try:
        provide_image(image.name, told.append)
        assert told == [f"loading the node image {image.name}"]
        assert docker.image_layers(image.name) == [layer]
        provide_image(image.name, told.append)
        assert len(told) == 1
        with pytest.raises(ConnectError, match="another image of the name"):
            load_built_image(msgspec.structs.replace(image, layer="sha256:2"), told.append)
    finally:
        docker.remove_image(image.name)
    assert not docker.has_image(image.name)
    docker.remove_image(image.name)


def test_kinds_own_files_come_from_its_module(tmp_path: Path) -> None:
    module = tmp_path / "kind@v0"
    for path in ("etc/containerd/config.toml", "usr/local/bin/entrypoint", "kind/bin/hook.sh"):
        file = module / "images" / "base" / "files" / path
        file.parent.mkdir(parents=True)
        file.write_text(path)
    archive = tmp_path / NODE_FILES
    write_files(archive, module, ("images/base/files",))
    root = Root(tmp_path / "root")
    put_kinds_files(root, archive)
    modes = {
        str(path.relative_to(root.path)): path.stat().st_mode & 0o777 for path in root.path.rglob("*") if path.is_file()
    }
    assert modes == {"etc/containerd/config.toml": 0o644, "usr/local/bin/entrypoint": 0o755, "kind/bin/hook.sh": 0o755}
    assert (root.path / "kind/bin/hook.sh").read_text() == "kind/bin/hook.sh"


@AS_ROOT
def test_programs_run_in_an_image_of_their_own(tmp_path: Path) -> None:
    if Path("/lib").resolve() != Path("/usr/lib"):
        pytest.skip("/lib is no link to /usr/lib here, as it is in the root of an image")
    own = Root(tmp_path / "root")
    put_with_libraries(["/bin/bash", "/usr/bin/ls"], Root(Path("/")), own)
    assert own.run("/bin/bash", "-c", "echo works; /usr/bin/ls /").split() == [
        "works",
        "bin",
        "lib",
        "lib64",
        "sbin",
        "usr",
    ]


@AS_ROOT
class TestBuildsThatFail:
    def test_the_last_words_are_told_and_nothing_is_left(
        self, cache: ComponentCache, mirror: str, tools: Callable[[str], None]
    ) -> None:
        tools("echo W: no such suite; exit 3")
        told: list[str] = []
        with pytest.raises(StateError, match=r"(?s)could not be built; see .*build\.log:.*no such suite"):
            node_image.build(mirror=mirror, tell=told.append)
        assert told == ["installing Debian packages"]
        (folder,) = (path for path in NodeImageStore().root.iterdir() if path.name != "downloads")
        assert {path.name for path in folder.iterdir()} == {".lock", "build.log"}
        assert NodeImageStore().images() == []

    def test_a_build_that_is_killed_takes_all_with_it(
        self, cache: ComponentCache, mirror: str, tools: Callable[[str], None], tmp_path: Path
    ) -> None:
        begun, command = tmp_path / "begun", f"sleep 9{os.getpid():08}"  # nobody else's
        # Its second process is in a session of its own, as daemons are.
        tools(f"setsid {command} & cat /proc/self/mounts >{begun}; {command}")
        script = "from tools.images import node_image; node_image.build(mirror=__import__('sys').argv[1])"
        building = subprocess.Popen([sys.executable, "-c", script, mirror], stderr=subprocess.DEVNULL)
        try:
            assert wait_until(lambda: begun.exists() and ".work" in begun.read_text(), SECONDS)
            assert ".work" not in Path("/proc/self/mounts").read_text()
        finally:
            building.send_signal(signal.SIGKILL)
            building.wait(SECONDS)
        assert wait_until(lambda: not _running(command), SECONDS)
        assert not list(NodeImageStore().root.glob(f"*/{ARCHIVE}"))


def _running(command: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text().replace("\0", " ").strip())
        except OSError:
            continue
    return [one for one in found if one == command]


class TestCommands:
    def images(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tools.images", "kind", *arguments], capture_output=True, text=True, check=False
        )

    def test_list_show_and_remove(self, cache: ComponentCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
        assert "`python -m tools.images kind build` builds one" in self.images("list").stderr
        image = kept(NodeImageStore(), record())
        (listed,) = json.loads(self.images("list", "-o", "json").stdout)
        assert listed["name"] == image.name
        assert image.name in self.images("list").stdout
        shown = json.loads(self.images("show", image.name, "-o", "json").stdout)
        assert shown["packages"] == {"bash": "5"}
        assert "  bash 5" in self.images("show", image.name).stdout
        refused = self.images("load", image.name)
        assert (
            refused.returncode,
            "Docker engine can't be reached" in refused.stderr or "no docker command" in refused.stderr,
        ) == (2, True)
        assert self.images("remove", image.name).returncode == 0
        gone = self.images("show", image.name)
        assert (gone.returncode, "there are: none" in gone.stderr) == (2, True)

    def test_what_can_not_be_built_is_exit_2(self, cache: ComponentCache, mirror: str) -> None:
        refused = self.images("build", "--check", "--mirror", f"{mirror}/nothing")
        assert refused.returncode == 2
        assert "no node image can be built here" in refused.stderr
        assert "Traceback" not in refused.stderr
        refused = self.images("build", "--kubernetes", "1.36")
        assert (refused.returncode, "containerd 2" in refused.stderr) == (2, True)
