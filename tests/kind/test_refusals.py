"""Why no kind cluster can be made, told at once."""

import fcntl
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psutil
import pytest
import yaml

from kailab.cluster.controlplane.cluster_folder import make_cluster_folder
from kailab.cluster.kind import KindPlane, kind_cluster, kind_command, kind_reason
from kailab.cluster.kind.docker import default_node_image
from kailab.cluster.kind.kind_command import kind_error
from kailab.cluster.kind.options import API, choose_options, cluster_config, find_kind, name_for
from kailab.cluster.polling import wait_until
from kailab.components import (
    KIND,
    PROGRAMS,
    AcquisitionMethod,
    ComponentCache,
    ComponentSet,
    DamagedComponent,
    get_program,
)
from kailab.errors import ConnectError, InputError, KailabError, StateError


@pytest.fixture
def programs(tmp_path: Path) -> ComponentSet:
    return ComponentSet("v1.35.4", {name: tmp_path / name for name in PROGRAMS})


def _program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def _refused(folder: Path, programs: ComponentSet, **options: object) -> KailabError:
    with pytest.raises(KailabError) as refused:
        KindPlane.up(folder, components=programs, **options)
    assert not folder.exists()
    return refused.value


def test_the_extra_is_not_installed(tmp_path: Path, programs: ComponentSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_command, "find_spec", lambda name: None)
    assert "kailab[kind]" in str(_refused(tmp_path / "lab", programs))
    assert "kailab[kind]" in str(kind_reason())


class TestNoEngine:
    @pytest.fixture(autouse=True)
    def _installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kind_command, "find_spec", lambda name: object())

    def test_no_docker(self, tmp_path: Path, programs: ComponentSet, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "no docker command" in str(_refused(tmp_path / "lab", programs))
        assert "no docker command" in str(kind_reason())

    def test_no_engine(self, tmp_path: Path, programs: ComponentSet, monkeypatch: pytest.MonkeyPatch) -> None:
        if shutil.which("docker") is None:
            pytest.skip("there is no docker command here")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
        refused = _refused(tmp_path / "lab", programs)
        assert isinstance(refused, ConnectError)
        assert "the Docker engine can't be reached" in str(refused)
        assert str(kind_reason()) == str(refused)


class TestChoices:
    @pytest.fixture(autouse=True)
    def _bare(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("KAILAB_KIND", "KAILAB_KIND_IMAGE", "KAILAB_KIND_CONFIG"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PATH", str(tmp_path / "path"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def test_kind_is_looked_for_in_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ConnectError, match="no kind here"):
            find_kind()
        cached = ComponentCache().put(KIND, _program(tmp_path / "made" / "kind"), "built", "this test")
        assert cached.is_relative_to(tmp_path / "cache")
        assert find_kind() == cached
        cached.write_text("something else")
        with pytest.raises(DamagedComponent, match="components get --kind"):
            find_kind()
        on_path = _program(tmp_path / "path" / "kind")
        assert find_kind() == on_path
        told = _program(tmp_path / "told" / "kind")
        monkeypatch.setenv("KAILAB_KIND", str(told))
        assert find_kind() == told
        assert find_kind(cached) == cached

    def test_a_kind_that_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KAILAB_KIND", str(tmp_path / "missing"))
        with pytest.raises(ConnectError, match=r"missing is no kind program.*KAILAB_KIND"):
            find_kind()

    def test_image_and_configuration(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        kind = _program(tmp_path / "kind")
        assert choose_options(kind)[1:] == (default_node_image(), None)
        assert choose_options(kind, kubernetes="v1.34.4").image == "kindest/node:v1.34.4"
        config = tmp_path / "kind.yaml"
        monkeypatch.setenv("KAILAB_KIND_IMAGE", "mine:1")
        monkeypatch.setenv("KAILAB_KIND_CONFIG", str(config))
        with pytest.raises(InputError, match=r"kind\.yaml: there is no such file"):
            choose_options(kind)
        config.write_text("kind: Cluster\n")
        assert choose_options(kind)[1:] == ("mine:1", config)
        assert choose_options(kind, "other:2")[1:] == ("other:2", config)


def test_an_image_that_can_not_be_pulled(kind_here: None, tmp_path: Path, programs: ComponentSet) -> None:
    refused = _refused(tmp_path / "lab", programs, image="localhost:1/nothing:v0")
    assert isinstance(refused, ConnectError)
    assert "localhost:1/nothing:v0 is not here and can't be pulled" in str(refused)


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 49])
def test_a_name_that_can_not_be(kind_here: None, tmp_path: Path, programs: ComponentSet, name: str) -> None:
    assert isinstance(_refused(tmp_path / "lab", programs, name=name), InputError)


def test_a_folder_with_something_in_it(kind_here: None, tmp_path: Path, programs: ComponentSet) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(StateError, match="not empty"):
        KindPlane.up(tmp_path, components=programs)
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "lab"
    make_cluster_folder(folder, "a kind cluster")
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "mine").write_text("kept")
    with pytest.raises(StateError, match=r"not empty \(mine \.\.\.\); a kind cluster needs a folder of its own"):
        make_cluster_folder(folder, "a kind cluster")
    with pytest.raises(StateError, match="can't be the folder of a kind cluster"):
        make_cluster_folder(folder / "mine", "a kind cluster")


@pytest.mark.slow
def test_what_kind_says_is_told(kind_here: None, tmp_path: Path, programs: ComponentSet) -> None:
    config = tmp_path / "kind.yaml"
    config.write_text("kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes: [{role: nonsense}]\n")
    refused = _refused(tmp_path / "lab", programs, config=config)
    assert isinstance(refused, ConnectError)
    assert "nonsense" in str(refused)


@pytest.mark.slow
def test_what_kubeadm_says_is_told_and_the_log_is_where_the_message_says(
    kind_here: None, tmp_path: Path, programs: ComponentSet
) -> None:
    config = tmp_path / "kind.yaml"
    without_certificates = "kind: InitConfiguration\nskipPhases: [preflight, certs]\n"
    described = {"kind": "Cluster", "apiVersion": API, "kubeadmConfigPatches": [without_certificates]}
    config.write_text(yaml.safe_dump(described))
    refused = _refused(tmp_path / "lab", programs, config=config)
    assert isinstance(refused, ConnectError)
    assert "error execution phase kubeconfig/admin: couldn't create a kubeconfig" in str(refused)
    kept = Path(str(refused).rpartition("; its logs are in ")[2])
    assert "[init] Using Kubernetes version" in (kept / "kind.log").read_text()


_SAID = """\
Creating cluster "lab" ...
 \u2717 Starting control-plane
Deleted nodes: ["lab-control-plane"]
ERROR: failed to create cluster: failed to init node with kubeadm: command "docker exec lab kubeadm init" failed with error: exit status 1

Command Output: I1123 04:53:58.761455     117 initconfiguration.go:260] loading configuration from "/kind/kubeadm.conf"
[control-plane-check] kube-apiserver is not healthy after 4m0.000s
error: error execution phase wait-control-plane: failed while waiting for the control plane to start:
kube-apiserver check failed at https://172.18.0.2:6443/livez: context deadline exceeded
k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow.(*Runner).Run.func1
	k8s.io/kubernetes@v1.35.4/cmd/kubeadm/app/cmd/phases/workflow/runner.go:262
main.main
	k8s.io/kubernetes@v1.35.4/cmd/kubeadm/kubeadm.go:25
"""


class TestReasons:
    def test_kubeadms_own_error_comes_with_kinds(self) -> None:
        said = kind_error(_SAID)
        assert said.startswith(
            "failed to create cluster: failed to init node with kubeadm: error execution phase wait-"
        )
        assert said.endswith("kube-apiserver check failed at https://172.18.0.2:6443/livez: context deadline exceeded")

    def test_where_no_command_failed(self) -> None:
        assert kind_error("ERROR: failed to delete\n\nStack Trace: \nmain\n") == "failed to delete"
        assert kind_error("Traceback\nNameError: x\n") == "NameError: x"
        assert kind_error("\n") == "kind gave no reason"


class TestLogsOfStartsThatFailed:
    @pytest.fixture(autouse=True)
    def _cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def logs(self, folder: Path, said: str) -> Path:
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / "kind.log").write_text(said)
        return folder

    def test_they_outlive_the_folder(self, tmp_path: Path) -> None:
        kept = kind_cluster.save_failed_logs(self.logs(tmp_path / "lab", "first"), "lab")
        assert kept is not None
        again = kind_cluster.save_failed_logs(self.logs(tmp_path / "again", "second"), "lab")
        assert again == kept
        assert [path.read_text() for path in kept.iterdir()] == ["second"]
        assert kind_cluster.save_failed_logs(tmp_path / "none", "other") is None

    def test_only_the_last_few_are_kept(self, tmp_path: Path) -> None:
        kept = [kind_cluster.save_failed_logs(self.logs(tmp_path / f"{n}", ""), f"lab-{n}") for n in range(9)]
        there = [path for path in kept if path is not None and path.is_dir()]
        assert len(there) == 5
        assert kept[-1] in there


def test_names_are_valid_and_differ(tmp_path: Path) -> None:
    names = {name_for(tmp_path / text) for text in ("lab", "Lab", "a b", "kailab-x_y", "é", "x" * 200)}
    assert len(names) == 6
    assert all(kind_command.check_name(name) == name for name in names)
    assert name_for(tmp_path / "lab") == name_for(tmp_path / "." / "lab")


@pytest.mark.parametrize(
    "text, told",
    [
        ("kind: [", "no YAML"),
        ("- a list", "no configuration of kind's"),
        ("kind: Pod", "no configuration of kind's"),
        ("kind: Cluster\nkubeadmConfigPatches: x", "kubeadmConfigPatches: expected a list"),
    ],
)
def test_a_configuration_that_is_none(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "kind.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=f"kind.yaml.*{told}"):
        cluster_config(path)


def test_the_users_configuration_has_the_last_word(tmp_path: Path) -> None:
    path = tmp_path / "kind.yaml"
    theirs = {
        "kind": "Cluster",
        "kubeadmConfigPatches": ["kind: InitConfiguration\n"],
        "nodes": [{"role": "control-plane", "extraMounts": [{"hostPath": "cni", "containerPath": "/etc/cni"}]}],
    }
    path.write_text(yaml.safe_dump(theirs))
    described = cluster_config(path)
    assert described["kubeadmConfigPatches"][1:] == theirs["kubeadmConfigPatches"]
    assert described["nodes"][0]["extraMounts"][0]["hostPath"] == str(tmp_path / "cni")
    assert cluster_config(None)["kubeadmConfigPatches"] == described["kubeadmConfigPatches"][:1]


@pytest.mark.parametrize("control_planes, elects", [(0, False), (1, False), (3, True)])
def test_only_several_control_planes_choose_a_leader(tmp_path: Path, control_planes: int, elects: bool) -> None:
    path = tmp_path / "kind.yaml"
    roles = [{"role": "control-plane"}] * control_planes + [{"role": "worker"}]
    path.write_text(yaml.safe_dump({"kind": "Cluster", "nodes": roles if control_planes else None}))
    (patch,) = map(yaml.safe_load, cluster_config(path)["kubeadmConfigPatches"])
    for component in ("controllerManager", "scheduler"):
        assert (patch[component]["extraArgs"].get("leader-elect") != "false") is elects


def test_the_control_plane_has_time_on_a_busy_machine(tmp_path: Path) -> None:
    (patch,) = map(yaml.safe_load, cluster_config(None)["kubeadmConfigPatches"])
    minutes = re.fullmatch(r"(\d+)m0s", patch["apiServer"]["timeoutForControlPlane"])
    assert minutes is not None
    # kubeadm's own is four; beyond ours kind itself is given up.
    assert 4 * 60 < int(minutes[1]) * 60 < kind_command.CREATE_SECONDS


@pytest.mark.slow
def test_kind_is_built_with_go(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go here")
    told: list[str] = []
    path = get_program(KIND, way=AcquisitionMethod.build, cache=ComponentCache(tmp_path), tell=told.append)
    assert (
        subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1] == "0.30.0"
    )
    assert any("building" in line for line in told)


def test_a_start_whose_process_has_ended_is_no_start(tmp_path: Path) -> None:
    """Also where nobody has taken note of its end, and where a stranger has its process id now."""
    child = subprocess.Popen(["/bin/sleep", "600"])
    described = kind_cluster.KindRecord(
        name="lab", kind="", kubectl="", image="", created=0.0, starter=(child.pid, born(child.pid))
    )
    described.write(tmp_path)
    known = kind_cluster.KindRecord.read(tmp_path)
    assert known is not None
    assert known.is_starting
    assert not msgspec.structs.replace(known, starter=(child.pid, born(child.pid) - 100)).is_starting
    child.kill()
    assert wait_until(lambda: not known.is_starting, 60)
    child.wait()
    assert not known.is_starting
    assert known.with_starter().is_starting
    assert not known.with_starter().as_ready().is_starting


def born(pid: int) -> float:
    return psutil.Process(pid).create_time()


def test_a_lock_that_its_last_holder_removed_meanwhile_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    maker = kind_command.KindCommand(_program(tmp_path / "kind"), tmp_path / "kubectl")
    first, lock, locked = ExitStack(), fcntl.flock, []

    def late(file: int, operation: int) -> None:
        locked.append(file)
        # The second has opened the file; only now the first is done with it.
        if len(locked) == 2:
            first.close()
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    first.enter_context(maker.claimed("lab"))
    with maker.claimed("lab"), pytest.raises(StateError, match="being made by another"), maker.claimed("lab"):
        pass
    assert not list(tmp_path.glob("*.lock"))
