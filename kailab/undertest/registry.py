"""The registry of schedulers under test.

Every command and test run imports this module for the names. The class of a scheduler is loaded when it is first chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from kailab import extensions
from kailab.cluster.registry import Registry, RegistryEntry

if TYPE_CHECKING:
    from kailab.undertest.contract import SchedulerUnderTest


NO_API_SERVER = "no API server"
"""In place of a backend: all whose clusters are no real API servers."""


@dataclass(frozen=True)
class BackendConflict:
    """A scheduler that a backend does not support, and why. ``option``: only this option is not supported there. ``elsewhere``: backends
    with a real API server support it."""

    backend: str
    why: str
    option: str = ""
    elsewhere: bool = True


class SchedulerOption(NamedTuple):
    """An option that identifies the scheduler. ``key``: its name in a file of names. ``path``: its value is a file or a folder.
    ``goes_with``: the option that it complements; it does not identify a scheduler by itself."""

    option: str
    key: str
    path: bool = True
    goes_with: str = ""


@dataclass(frozen=True, kw_only=True)
class SchedulerKind(RegistryEntry):
    """A scheduler under test. ``options``: the options of a lab that it supports. ``made``: ``module:class`` of its ``SchedulerUnderTest``."""

    made: str
    own: tuple[SchedulerOption, ...] = ()
    clashes: tuple[BackendConflict, ...] = ()

    def load(self) -> type[SchedulerUnderTest]:
        module, _, name = self.made.partition(":")
        return getattr(import_module(module), name)


_DEFAULT_NOT_OURS = BackendConflict(
    "kubeconfig",
    "kailab does not start the default scheduler of a cluster that a kubeconfig names: expected a backend whose clusters are",
    elsewhere=False,
)

_KAI_OPTIONS = frozenset({"kai", "kai_crds", "kai_pods", "kai_release", "kai_chart", "config"})
_KAI_OWN = (
    SchedulerOption("kai", "folder"),
    SchedulerOption("kai_crds", "crds"),
    SchedulerOption("kai_release", "release", path=False),
    SchedulerOption("kai_chart", "chart", goes_with="kai_release"),
)
_KAI_ALONE = BackendConflict(NO_API_SERVER, "a real KAI needs a real API server")
_KAI_CLASHES = (
    _KAI_ALONE,
    BackendConflict(
        "kubeconfig",
        "the KAI of a cluster that a kubeconfig names has a configuration of its own there",
        "config",
        elsewhere=False,
    ),
)

SCHEDULERS: Registry[SchedulerKind] = Registry(
    "scheduler",
    SchedulerKind,
    {
        "kailab": SchedulerKind(
            "kailab's own",
            frozenset({"config", "adopt_default_scheduler"}),
            made="kailab.undertest.kailab:Kailab",
        ),
        "kailab+kube-scheduler": SchedulerKind(
            "kailab's own, with kube-scheduler beside it in one cluster",
            frozenset({"config"}),
            made="kailab.undertest.two_schedulers:KailabAndKubeScheduler",
            clashes=(_DEFAULT_NOT_OURS,),
        ),
        # kube-scheduler places all pods without a schedulerName, whether adopt_default_scheduler is given or not.
        "kube-scheduler": SchedulerKind(
            "the default scheduler of Kubernetes",
            frozenset({"adopt_default_scheduler"}),
            made="kailab.undertest.kube_scheduler:KubeScheduler",
            clashes=(
                BackendConflict(
                    NO_API_SERVER,
                    "the embedded cluster's kube-scheduler does not allocate claims, the one of a real API server does",
                    "devices",
                ),
            ),
        ),
        "kai": SchedulerKind(
            "a real KAI", _KAI_OPTIONS, made="kailab.undertest.kai:Kai", own=_KAI_OWN, clashes=_KAI_CLASHES
        ),
        "kai+kube-scheduler": SchedulerKind(
            "a real KAI, with kube-scheduler beside it in one cluster",
            _KAI_OPTIONS,
            made="kailab.undertest.two_schedulers:KaiAndKubeScheduler",
            own=_KAI_OWN,
            clashes=(_KAI_ALONE, _DEFAULT_NOT_OURS),
        ),
        "kueue": SchedulerKind(
            "Kueue, with kube-scheduler",
            made="kailab.undertest.kueue:Kueue",
            clashes=(
                BackendConflict(
                    NO_API_SERVER, "Kueue needs a real API server: expected the backend controlplane", elsewhere=False
                ),
                BackendConflict(
                    "kind",
                    "Kueue's webhooks are on this machine, where the API server of a kind cluster can't call them",
                    elsewhere=False,
                ),
                BackendConflict(
                    "vcluster",
                    "Kueue's webhooks are on this machine, where the API server of a virtual cluster can't call them",
                    elsewhere=False,
                ),
                BackendConflict(
                    "kubeconfig",
                    "Kueue is started beside a control plane, and not in a cluster that is somebody else's",
                    elsewhere=False,
                ),
            ),
        ),
        "scheduler-plugins": SchedulerKind(
            "kube-scheduler with coscheduling and capacity scheduling (SIG scheduler-plugins)",
            frozenset(),
            made="kailab.undertest.scheduler_plugins:SchedulerPlugins",
            clashes=(BackendConflict(NO_API_SERVER, "scheduler-plugins needs a real API server"),),
        ),
        "yunikorn": SchedulerKind(
            "Apache YuniKorn",
            frozenset(),
            made="kailab.undertest.yunikorn:YuniKorn",
            clashes=(BackendConflict(NO_API_SERVER, "YuniKorn needs a real API server"),),
        ),
        "volcano": SchedulerKind(
            "Volcano, a folder of its programs",
            frozenset({"volcano"}),
            made="kailab.undertest.volcano:Volcano",
            own=(SchedulerOption("volcano", "folder"),),
            clashes=(BackendConflict(NO_API_SERVER, "Volcano needs a real API server"),),
        ),
    },
    extensions.SCHEDULERS,
)


def make_scheduler(kind: str, name: str, options: Mapping[str, Any]) -> SchedulerUnderTest:
    """Make a scheduler under test from its kind, name and options. Raises InputError for an unknown kind."""
    SCHEDULERS.check(kind)
    # Sorted text, so that equal choices are equal and hashable.
    return scheduler_class(kind)(kind, name, tuple(sorted((option, str(value)) for option, value in options.items())))


def scheduler_class(name: str) -> type[SchedulerUnderTest]:
    """The class of a scheduler in the registry. Raises ExtensionError if an extension's class can't be used."""
    return SCHEDULERS.load(name, _lacks)


def _lacks(loaded: object) -> str:
    from kailab.undertest.contract import SchedulerUnderTest

    is_scheduler = isinstance(loaded, type) and issubclass(loaded, SchedulerUnderTest)
    return (
        ""
        if is_scheduler
        else f"is no class derived from {SchedulerUnderTest.__module__}.{SchedulerUnderTest.__name__}"
    )
