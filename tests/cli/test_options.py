"""No option is dropped in silence: what a backend, a scheduler or a command does not understand is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.cluster.backends import BACKENDS
from kailab.cluster.kind import kind_reason
from kailab.cluster.registry import FLAGS
from kailab.errors import InputError
from kailab.lab import Lab
from kailab.lab.venues import open_venue
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import check_options

NAMES = {flag: name for name, flag in FLAGS.items()}
VALUES = {"--dra": (), "--adopt-default-scheduler": ()}
ON_UP = [flag for flag in FLAGS.values() if flag not in ("--labs", "--kai-pods", "kai@RELEASE")]
EMBEDDED_TAKES = {FLAGS[name] for name in BACKENDS["embedded"].options} | {
    "--scheduler-config",
    "--adopt-default-scheduler",
}


@pytest.mark.parametrize("flag", [flag for flag in ON_UP if flag not in EMBEDDED_TAKES])
def test_up_on_embedded_refuses_what_it_has_no_use_for(kailab, state: Path, flag: str) -> None:
    refused = kailab("up", flag, *VALUES.get(flag, ("x",)))
    assert refused.code == 2
    assert f"error: {flag}: " in refused.err
    takers = [name for name, choice in BACKENDS.items() if NAMES[flag] in choice.options]
    assert "the backend embedded" in refused.err
    assert all(taker in refused.err for taker in takers)
    assert not state.exists()


def test_all_that_is_refused_is_told_at_once(kailab) -> None:
    refused = kailab("up", "--kubeconfig", "/nonexistent", "--kubernetes", "v9", "--kai-bin", "/nope")
    assert refused.code == 2
    for flag in ("--kubeconfig", "--kubernetes", "--kai-bin"):
        assert f"error: {flag}: the backend embedded does not take it" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scheduler", "kube-scheduler", "--scheduler-config", "x.yaml"), "the scheduler kube-scheduler does not"),
        (
            ("--backend", "controlplane", "--scheduler", "kai", "--adopt-default-scheduler"),
            "the scheduler kai does not",
        ),
        (("--backend", "controlplane", "--kubeconfig", "x"), "only the backends vcluster and kubeconfig do"),
        (("--backend", "controlplane", "--kai-bin", "x"), "only the schedulers kai and kai+kube-scheduler do"),
        (("--backend", "kubeconfig", "--kubernetes", "v9"), "only the backends controlplane, kind and vcluster do"),
        (("--backend", "kubeconfig", "--adopt-default-scheduler"), "kailab scheduler run"),
        (("--backend", "kubeconfig", "--scheduler", "kai", "--scheduler-config", "x"), "configuration of its own"),
        (("--backend", "cloud"), "expected one of: embedded, controlplane, kind, vcluster, kubeconfig"),
        (("--fresh", "--keep"), "give one of them"),
        (
            ("--dra", "--scheduler", "kube-scheduler"),
            "--dra: the embedded cluster's kube-scheduler does not allocate claims",
        ),
    ],
)
def test_up_refuses_what_does_not_go_together(kailab, state: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = kailab("up", *arguments)
    assert refused.code == 2
    assert said in refused.err
    assert not state.exists()


def test_what_the_environment_says_is_for_those_who_read_it(kailab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAILAB_COMPONENTS", "KAILAB_KAI_BIN", "KAILAB_KAI_CRDS", "KUBECONFIG"):
        monkeypatch.setenv(name, "/nonexistent")
    assert kailab("up").code == 0


def test_up_again_compares_every_option(started, home: Path) -> None:
    refused = started("up", "--adopt-default-scheduler", "--fleet", "hundred")
    assert refused.code == 2
    assert "--fleet: requested hundred, existing lesson" in refused.err
    assert "--adopt-default-scheduler: requested given, existing not given" in refused.err
    assert started("up", "--kubernetes", "v9").code == 2


def test_keep_leaves_another_lab_and_says_so(started, state: Path) -> None:
    before = state.read_bytes()
    kept = started("up", "--fleet", "hundred", "--keep")
    assert kept.code == 0
    assert "warning: " in kept.err
    assert "kailab down" in kept.err
    assert state.read_bytes() == before
    assert started("up", "--fleet", "no-such", "--keep").code == 2
    state.write_bytes(b"damaged")
    assert started("up", "--keep").code == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("delete", "-f", "x.yaml", "--all"), "need a KIND instead"),
        (("delete", "-f", "x.yaml", "-l", "a=b"), "need a KIND instead"),
        (("components", "get", "--from", "x", "--by", "build"), "leave out --by"),
        (("components", "get", "--from", "x", "--kind"), "leave out --by"),
        (("scheduler", "run", "--no-leader-elect", "--lease-name", "x"), "--lease-name: needs leader election"),
        (("scheduler", "run", "--no-leader-elect", "--retry-period", "1"), "--retry-period: needs leader election"),
    ],
)
def test_commands_refuse_what_they_would_not_heed(kailab, command: tuple[str, ...], said: str) -> None:
    refused = kailab(*command)
    assert refused.code == 2
    assert said in refused.err


def test_the_nodes_of_a_fleet_as_json(kailab) -> None:
    assert kailab("fleet", "show", "lesson", "--nodes", "-o", "json").out.startswith("[\n")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"kubeconfig": "x"}, "kubeconfig: the backend embedded"),
        ({"context": "x"}, "context: the backend embedded"),
        ({"scheduler": "kube-scheduler", "config": {}}, "config: the scheduler kube-scheduler"),
        (
            {"backend": "controlplane", "scheduler": "kai", "adopt_default_scheduler": True},
            "adopt_default_scheduler: the scheduler kai",
        ),
        ({"backend": "minikube"}, "there is no backend 'minikube'"),
    ],
)
def test_lab_open_refuses_keywords_without_a_use(how: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Lab.open(**how)  # type: ignore[arg-type]


def test_no_venue_for_a_backend_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no backend 'minikube'"):
        open_venue("minikube", folder=tmp_path / "plane")
    assert not (tmp_path / "plane").exists()


def test_each_option_is_understood_by_somebody() -> None:
    named = {option for choice in (*BACKENDS.values(), *SCHEDULERS.values()) for option in choice.options}
    by_name = {own.option for scheduler in SCHEDULERS.values() for own in scheduler.own}
    assert set(FLAGS) <= named
    assert named - set(FLAGS) - by_name == {"venue"}  # which is for programs alone


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_refuses_what_only_others_understand(backend: str) -> None:
    others = {option for choice in BACKENDS.values() for option in choice.options} - BACKENDS[backend].options
    with pytest.raises(InputError) as refused:
        check_options(backend, None, dict.fromkeys(others, "x"), spelt=str)
    assert all(f"{option}: the backend {backend} does not" in str(refused.value) for option in others)


@pytest.mark.skipif(kind_reason() is None, reason="a kind cluster can be made here")
def test_kind_is_looked_for_before_programs_are_got(
    kailab, home: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    refused = kailab("up", "--backend", "kind")
    assert refused.code == 2
    assert refused.err.strip() == f"error: {kind_reason()}"
    assert not list((home / "cache").rglob("*"))
    assert not (state.parent / "kind").exists()


def test_a_lab_with_devices_for_claims_is_kept_as_one(kailab, state: Path) -> None:
    assert kailab("up", "--dra").code == 0
    with Lab.resume(state) as lab:
        assert lab.devices
        assert lab.facts()["devices"] is True
        assert len(lab.cluster.list("ResourceSlice")) == 5
    assert kailab("up", "--dra").code == 0
    refused = kailab("up")
    assert refused.code == 2
    assert "--dra: requested not given, existing given" in refused.err


def test_claimed_gpus_are_the_same_number_wherever_they_are_shown(kailab, state: Path) -> None:
    manifests = Path(__file__).parents[2] / "exercises" / "dra" / "manifests"
    assert kailab("up", "--dra").code == 0
    files = [part for name in ("queues", "classes", "holders") for part in ("-f", str(manifests / f"{name}.yaml"))]
    assert kailab("apply", *files).code == 0
    assert "32 of 32 in use" in kailab("status").out
    assert kailab("get", "nodes").out.count("8/8") == 3
    with Lab.resume(state) as lab:
        assert lab.facts()["gpus"] == 32
        assert {row.milli_gpus for row in lab.picture().rows} == {4000}
        assert lab.explain_queue("team-a").data()["allocated"] == 32_000
