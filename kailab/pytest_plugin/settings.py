"""The plugin's settings: from the command line, else from the ini file, else defaults. This module is imported in every run of pytest, so it imports
little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.undertest.registry import SCHEDULERS
from kailab.undertest.selection import absolute_name

OFF = "off"

_OPTIONS = {
    "backend": ("embedded", "backend of the labs' clusters: " + ", ".join(BACKENDS)),
    "scheduler": (
        "kailab",
        "the scheduler under test: " + ", ".join(SCHEDULERS) + ", kai=DIR, kai@RELEASE, or NAME@FILE",
    ),
    "fleet": ("lesson", "the labs' fleet of fake nodes: a name or a file"),
    "evidence": ("evidence", f"folder of the evidence ('{OFF}': write none)"),
    "trace": ("on", "which tests leave evidence: on (all), on-failure (those that do not pass), off"),
    "kubeconfig": ("", "backends kubeconfig and vcluster: kubeconfig file instead of $KUBECONFIG or ~/.kube/config"),
    "context": ("", "backends kubeconfig and vcluster: context instead of the current one"),
    "components": ("", "backends controlplane, kind and vcluster: folder of etcd, kube-apiserver ..."),
    "kubernetes": ("", "backends controlplane, kind and vcluster: Kubernetes version instead of the default"),
    "with": ("", "backends controlplane, kind: run these operators, for example jobset,kuberay"),
    "kai-bin": ("", "scheduler kai: folder of its binaries (or KAILAB_KAI_BIN)"),
    "kai-crds": ("", "scheduler kai: file or folder of its CRDs (or KAILAB_KAI_CRDS)"),
    "kai-chart": ("", "scheduler kai@RELEASE: folder with its chart and images (or KAILAB_KAI_CHART)"),
}

_CHOICES = {
    "kubeconfig": "kubeconfig",
    "context": "context",
    "components": "components",
    "kubernetes": "kubernetes",
    "with": "operators",
    "kai-bin": "kai",
    "kai-crds": "kai_crds",
    "kai-chart": "kai_chart",
}
"""Options that not every backend understands -> their names in ``kailab.cluster.registry``."""

TRACES = ("on", "on-failure", OFF)
_FOLDERS = ("evidence", "components", "kai-bin", "kai-chart")
_PATHS = ("kubeconfig", "components", "kai-bin", "kai-crds", "kai-chart")

MARKERS = (
    "kailab_fleet(name_or_file): the fleet of this test's labs: a name, or a file beside the test",
    "kailab_scheduler(name): the scheduler under test for this test's lab",
    "kailab_backend(*names): the backends on which this test can run",
    "kailab_operator(*names): the operators that create the pods of this test's work, for example jobset or kuberay; an embedded lab needs none, a "
    "control plane gets them by --kailab-with, and the test is skipped if one is missing",
    "kailab_only(reason): this test needs kailab's scheduler and is skipped with any other",
    "kailab_config(file_or_mapping, **fields): the scheduler configuration of this test's lab (a file beside the test, or its "
    "content), and fields of EngineConfig",
    "kailab_devices: publish the GPUs of this test's labs for resource claims (DRA) instead of as nvidia.com/gpu",
    "exercise(name): this test proves a lesson; its evidence is stored under this name",
)


@dataclass(frozen=True)
class PluginSettings:
    """``evidence``: None if none is written. ``evidence_given``: it is set on the command line or in the ini file. ``failures_only``: only tests that
    do not pass leave evidence. ``options``: of the labs' clusters and of KAI, by the names of ``kailab.cluster.registry``; None: not given."""

    backend: str
    scheduler: str
    fleet: str
    evidence: Path | None
    evidence_given: bool
    failures_only: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    required: bool = False
    """A backend or scheduler that can't run here is an error, not a skip."""
    left_out: tuple[str, ...] = ()
    """A sentence for each ini key that the backend does not understand."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kailab", "GPU scheduling lab")
    for name, (default, help) in _OPTIONS.items():
        metavar = "DIR" if name in _FOLDERS else name.upper()
        text = f"{help} (default: {default})" if default else help
        group.addoption(f"--kailab-{name}", metavar=metavar, default=None, help=text)
        parser.addini(_ini(name), f"default of --kailab-{name}", default=None)
    group.addoption(
        "--kailab-required",
        action="store_true",
        default=False,
        help="a backend or scheduler that can't run here is an error, not a skip",
    )


def read_plugin_settings(config: pytest.Config) -> PluginSettings:
    """Read the settings. Raises pytest.UsageError for an unknown backend, scheduler or fleet, and for an option on the command line
    that the backend does not understand. An ini key that it does not understand is ignored with a notice."""
    values = {name: _value(config, name) for name in _OPTIONS}
    backend = values["backend"] or _OPTIONS["backend"][0]
    if backend not in BACKENDS:
        raise pytest.UsageError(f"--kailab-backend: {backend!r} is none of: {', '.join(BACKENDS)}")
    typed = [name for name in _CHOICES if config.getoption(f"--kailab-{name}") is not None]
    refused = _not_understood(backend, typed, "--kailab-{}".format)
    if refused:
        raise pytest.UsageError("\n".join(refused))
    if values["fleet"]:
        _check_fleet(values["fleet"])
    if values["with"]:
        _check_operators(values["with"], backend)

    def understood(name: str) -> Path | str | None:
        value = values[name] if _CHOICES[name] in BACKENDS[backend].options else None
        return _path(config, value) if name in _PATHS else value or None

    folder = values["evidence"] or _OPTIONS["evidence"][0]
    trace = values["trace"] or _OPTIONS["trace"][0]
    if trace not in TRACES:
        raise pytest.UsageError(f"--kailab-trace: {trace!r} is none of: {', '.join(TRACES)}")
    from_command = config.getoption("--kailab-evidence") is not None
    home = config.invocation_params.dir if from_command else config.rootpath
    return PluginSettings(
        backend=backend,
        scheduler=_scheduler(values["scheduler"] or _OPTIONS["scheduler"][0]),
        fleet=values["fleet"] or _OPTIONS["fleet"][0],
        evidence=None if OFF in (folder, trace) else home / folder,
        evidence_given=values["evidence"] is not None,
        failures_only=trace == "on-failure",
        options={option: understood(name) for name, option in _CHOICES.items()},
        left_out=tuple(_not_understood(backend, [name for name in _CHOICES if values[name]], _ini)),
        required=bool(config.getoption("--kailab-required")),
    )


def _not_understood(backend: str, names: Iterable[str], spell: Callable[[str], str]) -> list[str]:
    options = {_CHOICES[name]: spell(name) for name in names}
    return BACKENDS.not_understood(backend, options, options.__getitem__)


def _path(config: pytest.Config, value: str | None) -> Path | None:
    return config.invocation_params.dir / Path(value).expanduser() if value else None


def _ini(name: str) -> str:
    return f"kailab_{name.replace('-', '_')}"


def _scheduler(name: str) -> str:
    """Check the scheduler once, before the first test; paths become absolute, because a test may change the working directory."""
    if name in SCHEDULERS:
        return name

    try:
        return absolute_name(name)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-scheduler: {error}") from error


def _check_fleet(name: str) -> None:
    """Check the fleet once, before the first test, instead of in each test."""
    from kailab.fleet.reading import load_fleet

    try:
        load_fleet(name)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-fleet: {error}") from error


def _check_operators(names: str, backend: str) -> None:
    from kailab.operators.registry import choose_operators

    try:
        choose_operators(names, backend)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-with: {error}") from error


def _value(config: pytest.Config, name: str) -> str | None:
    value = config.getoption(f"--kailab-{name}")
    if value is not None:
        return value
    value = config.getini(_ini(name)) or None
    if value and name == "fleet" and config.inipath is not None and (file := config.inipath.parent / value).is_file():
        # A file of the project, wherever in it pytest is started.
        return str(file)
    return value
