"""Which operators run beside a control plane: their names, and what is refused before anything is begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cli.main import app
from kailab.components import ADDONS, MissingComponents
from kailab.errors import InputError, StateError
from kailab.lab.venues import open_venue
from kailab.model.kinds import KINDS
from kailab.operators import OPERATORS, choose_operators
from kailab.operators.launching import OperatorSite
from kailab.operators.registry import programs_of


def test_names_are_taken_once_and_in_one_order() -> None:
    assert choose_operators("lws, jobset,lws") == ("jobset", "lws")
    assert choose_operators("kuberay,trainer") == ("jobset", "trainer", "kuberay")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("jobsets", "there is no operator 'jobsets'; there are jobset, lws, trainer"),
        ("jobset,,ray", "there is no operator 'ray'"),
        ("kueue", "'kueue' is a scheduler, not an operator; use --scheduler kueue"),
        ("", "expected names of operators"),
        (" , ", "expected names of operators"),
        ("mpi-operator,training-operator", "can't run together: both make the pods of MPIJob; leave one out"),
    ],
)
def test_a_name_that_there_is_not_is_refused(names: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        choose_operators(names)


def test_two_that_make_the_same_pods_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    table = dict(OPERATORS)
    table["other"] = replace(table["jobset"], title="another", kinds=("Job", "JobSet"))
    table["needing"] = replace(table["lws"], kinds=("TrainJob",), needs=("jobset",))
    monkeypatch.setattr("kailab.operators.registry.OPERATORS", table)
    with pytest.raises(InputError, match="jobset and other can't run together: both make the pods of JobSet; leave"):
        choose_operators("other,jobset")
    # The one that is needed comes along, and collides as if it had been named.
    assert choose_operators("needing") == ("jobset", "needing")
    with pytest.raises(InputError, match="jobset and other can't run together"):
        choose_operators("needing,other")


@pytest.mark.parametrize("name", OPERATORS)
def test_each_has_a_program_and_kinds_that_kailab_knows(name: str, tmp_path: Path) -> None:
    operator = OPERATORS[name]
    assert set(programs_of(name)) < {pin.name for pin in ADDONS[name]}
    assert set(operator.kinds) <= set(KINDS)
    assert set(operator.needs) <= set(OPERATORS)
    # Whatever is told of a port is told of this machine alone.
    started = operator.load()(OperatorSite("system", tmp_path, 20_001, 20_002, tmp_path / "log"))
    told = " ".join(started.arguments) + "".join(file.read_text() for file in tmp_path.iterdir())
    assert "0.0.0.0" not in told
    assert started.works() is not None


def test_a_certificate_lies_where_it_is_looked_for_until_the_operator_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kailab.operators.launching._MOUNTED", tmp_path / "mounted")
    site = OperatorSite("system", tmp_path, 20_001, 20_002, tmp_path / "log")
    site.certificates.mkdir(parents=True)
    (site.certificates / "tls.crt").write_text("its own")
    there = tmp_path / "mounted" / "tls.crt"
    started = OPERATORS["training-operator"].load()(site)

    def fails() -> None:
        with started.meanwhile():
            assert there.read_text() == "its own"
            assert not (there.parent / "tls.key").exists()
            raise PermissionError("a start that fails")

    with pytest.raises(PermissionError, match="a start that fails"):
        fails()
    assert not there.exists()
    # What somebody else put there serves as well, and stays.
    there.write_text("another's")
    with started.meanwhile():
        assert there.read_text() == "another's"
    assert there.read_text() == "another's"
    monkeypatch.setattr("kailab.operators.launching._MOUNTED", tmp_path / "log")
    (tmp_path / "log").touch()
    with pytest.raises(StateError, match="the training operator looks for a certificate there"), started.meanwhile():
        raise AssertionError("it began all the same")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--with", "jobset"), "its controllers make the pods of the operators' kinds already"),
        (
            ("--with", "jobset", "--backend", "kind"),
            "the API server of the backend kind can't call them; there can be mpi-operator, kuberay",
        ),
        (("--with", "jobset", "--backend", "kubeconfig"), "installs operators in it"),
        (("--with", "jobset", "--backend", "controlplane", "--with", "ray"), "there is no operator 'ray'"),
        (("--with", "", "--backend", "controlplane"), "expected names of operators"),
    ],
)
def test_up_refuses_what_it_can_not_run(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    state = tmp_path / "lab.state"
    refused = CliRunner().invoke(app, ["up", *arguments, "--state", str(state)])
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert not list(tmp_path.iterdir())


def test_all_that_is_missing_is_said_before_anything_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(MissingComponents) as missing:
        open_venue("controlplane", folder=tmp_path / "plane", get=True, operators="jobset,lws")
    for name in ("jobset", "lws"):
        assert f"`kailab components get --with {name}`" in str(missing.value)
    assert {pin.project for pin in missing.value.pins} == {"jobset", "lws"}
    # Not even the control plane's own programs were got.
    assert not list(tmp_path.iterdir())
