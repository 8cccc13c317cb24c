"""What holds for all commands: version, help, errors, exit codes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

import kailab as package
from kailab.cli import life
from kailab.errors import ExpectationFailed, KailabError

COMMANDS = (
    ("up",), ("down",), ("status",), ("apply",), ("delete",), ("get",), ("explain",), ("run",), ("report",), ("doctor",),
    ("fleet",), ("fleet", "list"), ("fleet", "show"), ("fleet", "validate"),
    ("evidence",), ("evidence", "list"), ("evidence", "show"), ("evidence", "verify"), ("evidence", "diff"),
)  # fmt: skip


def test_version(kailab) -> None:
    assert kailab("--version").out == f"kailab {package.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_has_help(kailab, command: tuple[str, ...]) -> None:
    done = kailab(*command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: ")
    assert len(done.out.split("\n\n")) > 2


def test_usage_errors(kailab) -> None:
    for wrong in (("frobnicate",), ("get", "--frobnicate"), ("up", "--fleet")):
        done = kailab(*wrong)
        assert done.code == 2
        assert done.out == ""
        assert done.err


class _Fault(KailabError):
    exit_code = 1


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KailabError("no good"), 2, "error: no good"),
        (_Fault("one\ntwo"), 1, "error: one\nerror: two"),
        (ExpectationFailed("expected 8, saw 7"), 1, "error: expected 8, saw 7"),
        (PermissionError(errno.EACCES, "Permission denied", "a.file"), 2, "error: a.file: Permission denied"),
        (RecursionError(), 2, "error: the input is nested too deeply"),
        (ZeroDivisionError("division by zero"), 2, "error: internal error of kailab: ZeroDivisionError"),
    ],
)
def test_an_error_is_one_message(
    kailab, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(life, "_summary", fail)
    assert kailab("up").code == 0
    done = kailab("status")
    assert done.code == code
    assert done.err.startswith(said)
    assert "Traceback" not in done.err
    assert "Traceback" in kailab("--debug", "status").err


def test_doctor(kailab) -> None:
    done = kailab("doctor")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[-1].startswith("ready for: labs and tests on the embedded cluster, ")
    rows = [line.split() for line in lines if len(line.split()) > 2]
    assert rows.count(["WHAT", "NAME", "HERE", "ABOUT"]) == 2
    found = {(row[0], row[1]): row[2] for row in rows if row[0] != "place"}
    # Nothing of the first table is missing: the optional parts are in the second.
    first = lines[: next(place for place, line in enumerate(lines) if line.startswith("Optional"))]
    assert [line for line in first if line[35:38].strip() == "no"] == []
    assert found["python", "CPython"] == "yes"
    assert found["backend", "embedded"] == "yes"
    assert found["package", "numpy"] == "yes"
    assert ("tool", "docker") in found


def test_doctor_reports_missing_requirements(kailab, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    monkeypatch.setattr(metadata, "requires", lambda _: ["no-such-package>=1", "numpy>=99999"])
    done = kailab("doctor")
    assert done.code == 1
    assert "no-such-package, numpy" in done.err


def test_fleets(kailab, home: Path) -> None:
    listed = kailab("fleet", "list")
    rows = {line.split()[0]: line.split()[1:3] for line in listed.out.splitlines()[1:]}
    assert rows["lesson"] == ["5", "32"]
    assert rows["scale-500"] == ["500", "4000"]
    assert "32 GPUs on 5 nodes" in kailab("fleet", "show", "lesson").out
    assert kailab("fleet", "show", "lesson", "--nodes").out.count("kind: Node") == 5


def test_validating_fleets(kailab, home: Path) -> None:
    good = (
        "apiVersion: kailab.dev/v1\nkind: Fleet\nname: f\npools: [{name: a, count: 1, gpus: 8, cpu: 8, memory: 1Gi}]\n"
    )
    (home / "good.yaml").write_text(good)
    (home / "bad.yaml").write_text(good.replace("gpus: 8", "gpuz: 8"))
    assert kailab("fleet", "validate", "good.yaml", "lesson").code == 0
    both = kailab("fleet", "validate", "good.yaml", "bad.yaml", "missing.yaml")
    assert both.code == 2
    assert "good.yaml: 8 GPUs" in both.out
    assert "bad.yaml:4: " in both.err
    assert "gpuz" in both.err
    assert "missing.yaml" in both.err
