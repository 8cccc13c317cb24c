"""What was asked for: command line first, then ini, then the defaults. Cheap to import: it loads in every run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

BACKENDS = ("embedded", "controlplane", "kind", "vcluster", "kubeconfig")
SCHEDULERS = ("kailab", "kai", "kube-scheduler")
OFF = "off"

_OPTIONS = {
    "backend": ("embedded", "where the labs' clusters live: " + ", ".join(BACKENDS)),
    "scheduler": ("kailab", "the scheduler under test: " + ", ".join(SCHEDULERS)),
    "fleet": ("lesson", "the fleet of fake nodes that labs start with: a name or a file"),
    "evidence": ("evidence", f"folder that evidence is written below ('{OFF}': none is written)"),
}

MARKERS = (
    "kailab_fleet(name): the fleet that this test's labs start with",
    "kailab_scheduler(name): the scheduler under test for this test's lab",
    "kailab_backend(*names): the backends that this test can run on",
    "kailab_only(reason): a test of what kailab's scheduler has and others have not; skipped under them",
    "kailab_config(file_or_mapping, **fields): how this test's lab decides: a scheduler configuration (a file beside the "
    "test, or its content), and fields of EngineConfig",
    "exercise(name): a test that proves a lesson; its evidence is kept under this name",
)


@dataclass(frozen=True)
class Settings:
    """``evidence`` None: none is written. ``evidence_given``: asked for on the command line or in the ini file."""

    backend: str
    scheduler: str
    fleet: str
    evidence: Path | None
    evidence_given: bool


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kailab", "GPU scheduling lab")
    for name, (default, help) in _OPTIONS.items():
        metavar = "DIR" if name == "evidence" else name.upper()
        group.addoption(f"--kailab-{name}", metavar=metavar, default=None, help=f"{help} (default: {default})")
        parser.addini(f"kailab_{name}", f"default of --kailab-{name}", default=None)


def read_settings(config: pytest.Config) -> Settings:
    """Raises pytest.UsageError for a backend, scheduler or fleet that there is not."""
    values = {name: _value(config, name) for name in _OPTIONS}
    for name, known in (("backend", BACKENDS), ("scheduler", SCHEDULERS)):
        if (value := values[name] or _OPTIONS[name][0]) not in known:
            raise pytest.UsageError(f"--kailab-{name}: {value!r} is none of: {', '.join(known)}")
    if values["fleet"]:
        _check_fleet(values["fleet"])
    folder = values["evidence"] or _OPTIONS["evidence"][0]
    from_command = config.getoption("--kailab-evidence") is not None
    home = config.invocation_params.dir if from_command else config.rootpath
    return Settings(
        backend=values["backend"] or _OPTIONS["backend"][0],
        scheduler=values["scheduler"] or _OPTIONS["scheduler"][0],
        fleet=values["fleet"] or _OPTIONS["fleet"][0],
        evidence=None if folder == OFF else home / folder,
        evidence_given=values["evidence"] is not None,
    )


def _check_fleet(name: str) -> None:
    """Once, before the first test, rather than as an error of each."""
    from kailab.errors import InputError
    from kailab.fleet import load_fleet

    try:
        load_fleet(name)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-fleet: {error}") from error


def _value(config: pytest.Config, name: str) -> str | None:
    given = config.getoption(f"--kailab-{name}")
    return given if given is not None else (config.getini(f"kailab_{name}") or None)
