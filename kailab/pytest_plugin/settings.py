"""What was asked for: command line first, then ini, then the defaults. Cheap to import: it loads in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kailab.cluster.backends import BACKENDS
from kailab.undertest.registry import SCHEDULERS

OFF = "off"

_OPTIONS = {
    "backend": ("embedded", "where the labs' clusters live: " + ", ".join(BACKENDS)),
    "scheduler": (
        "kailab",
        "the scheduler under test: " + ", ".join(SCHEDULERS) + ", kai=DIR, kai@RELEASE, or NAME@FILE",
    ),
    "fleet": ("lesson", "the fleet of fake nodes that labs start with: a name or a file"),
    "evidence": ("evidence", f"folder that evidence is written below ('{OFF}': none is written)"),
    "kubeconfig": ("", "backends kubeconfig and vcluster: the file, if not $KUBECONFIG or ~/.kube/config"),
    "context": ("", "backends kubeconfig and vcluster: the context to use, if not the current one"),
    "components": ("", "backends controlplane, kind and vcluster: folder of etcd, kube-apiserver ... to use"),
    "kubernetes": ("", "backends controlplane, kind and vcluster: version of Kubernetes, if not the default one"),
    "with": ("", "backend controlplane: operators that run beside it, as jobset,kuberay"),
    "kai-bin": ("", "scheduler kai: folder of its binaries (or KAILAB_KAI_BIN)"),
    "kai-crds": ("", "scheduler kai: its CRDs, a file or folder (or KAILAB_KAI_CRDS)"),
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
"""Options that not every backend takes -> their names in ``kailab.cluster.registry``."""

_FOLDERS = ("evidence", "components", "kai-bin", "kai-chart")

MARKERS = (
    "kailab_fleet(name): the fleet that this test's labs start with",
    "kailab_scheduler(name): the scheduler under test for this test's lab",
    "kailab_backend(*names): the backends that this test can run on",
    "kailab_operator(*names): the operators that create the pods of this test's work, such as jobset or kuberay. An embedded lab needs none; "
    "a control plane gets them by --kailab-with, and the test is skipped if they are missing",
    "kailab_only(reason): a test of behaviour that only kailab's scheduler has; skipped under others",
    "kailab_config(file_or_mapping, **fields): the scheduler configuration of this test's labs (a file beside the "
    "test, or its content), and fields of EngineConfig",
    "kailab_devices: the GPUs of this test's labs are for resource claims (DRA), not for nvidia.com/gpu",
    "exercise(name): a test that proves a lesson; its evidence is kept under this name",
)


@dataclass(frozen=True)
class PluginSettings:
    """``evidence`` None: none is written. ``evidence_given``: asked for on the command line or in the ini file."""

    backend: str
    scheduler: str
    fleet: str
    evidence: Path | None
    evidence_given: bool
    kubeconfig: Path | None = None
    context: str | None = None
    components: Path | None = None
    kubernetes: str | None = None
    operators: str | None = None
    kai_bin: Path | None = None
    kai_crds: Path | None = None
    kai_chart: Path | None = None
    required: bool = False
    """A backend or scheduler that can't run here is an error, not a skip."""
    left_out: tuple[str, ...] = ()
    """A sentence for each ini key that the backend does not understand."""


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("kailab", "GPU scheduling lab")
    for name, (default, help) in _OPTIONS.items():
        metavar = "DIR" if name in _FOLDERS else name.upper()
        told = f"{help} (default: {default})" if default else help
        group.addoption(f"--kailab-{name}", metavar=metavar, default=None, help=told)
        parser.addini(_ini(name), f"default of --kailab-{name}", default=None)
    group.addoption(
        "--kailab-required",
        action="store_true",
        default=False,
        help="a backend or scheduler that can't run here is an error, not a skip",
    )


def read_settings(config: pytest.Config) -> PluginSettings:
    """Raises pytest.UsageError for a backend, scheduler or fleet that there is not, and for an option on the command line that the
    backend does not understand. An ini key is a default for the backends that do."""
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
        _check_operators(values["with"])

    def understood(name: str) -> str | None:
        return values[name] or None if _CHOICES[name] in BACKENDS[backend].options else None

    folder = values["evidence"] or _OPTIONS["evidence"][0]
    from_command = config.getoption("--kailab-evidence") is not None
    home = config.invocation_params.dir if from_command else config.rootpath
    return PluginSettings(
        backend=backend,
        scheduler=_scheduler(values["scheduler"] or _OPTIONS["scheduler"][0]),
        fleet=values["fleet"] or _OPTIONS["fleet"][0],
        evidence=None if folder == OFF else home / folder,
        evidence_given=values["evidence"] is not None,
        kubeconfig=_path(config, understood("kubeconfig")),
        context=understood("context"),
        components=_path(config, understood("components")),
        kubernetes=understood("kubernetes"),
        operators=understood("with"),
        kai_bin=_path(config, understood("kai-bin")),
        kai_crds=_path(config, understood("kai-crds")),
        kai_chart=_path(config, understood("kai-chart")),
        left_out=tuple(_not_understood(backend, [name for name in _CHOICES if values[name]], _ini)),
        required=bool(config.getoption("--kailab-required")),
    )


def _not_understood(backend: str, names: Iterable[str], spelt: Callable[[str], str]) -> list[str]:
    given = {_CHOICES[name]: spelt(name) for name in names}
    return BACKENDS.not_understood(backend, given, given.__getitem__)


def _path(config: pytest.Config, value: str | None) -> Path | None:
    return config.invocation_params.dir / Path(value).expanduser() if value else None


def _ini(name: str) -> str:
    return f"kailab_{name.replace('-', '_')}"


def _scheduler(name: str) -> str:
    """Once, before the first test; and the same wherever a test goes."""
    if name in SCHEDULERS:
        return name
    from kailab.errors import InputError
    from kailab.undertest.selection import absolute_name

    try:
        return absolute_name(name)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-scheduler: {error}") from error


def _check_fleet(name: str) -> None:
    """Once, before the first test, rather than as an error of each."""
    from kailab.errors import InputError
    from kailab.fleet import load_fleet

    try:
        load_fleet(name)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-fleet: {error}") from error


def _check_operators(names: str) -> None:
    from kailab.errors import InputError
    from kailab.operators.registry import choose_operators

    try:
        choose_operators(names)
    except InputError as error:
        raise pytest.UsageError(f"--kailab-with: {error}") from error


def _value(config: pytest.Config, name: str) -> str | None:
    given = config.getoption(f"--kailab-{name}")
    return given if given is not None else (config.getini(_ini(name)) or None)
