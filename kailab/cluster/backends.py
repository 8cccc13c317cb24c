"""The backends and the schedulers under test by name, and which options of a lab each understands.

An option that one does not understand is refused: passed over in silence it would leave a lab other than the one asked for.
Cheap to import: every command line and every test run needs the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kailab.errors import InputError, InputErrors

Spelt = Callable[[str], str]


@dataclass(frozen=True)
class Choice:
    """A backend or a scheduler under test. ``options``: what it understands of that which not all do, by the names that ``Lab.open``
    and ``open_home`` have for it."""

    about: str
    options: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Backend(Choice):
    """``real_nodes``: a cluster of this backend has such beside the fleet's fake ones."""

    real_nodes: bool = False


_PLANE = frozenset({"components", "kubernetes", "kai", "kai_crds", "devices", "home", "labs", "kai_pods"})

BACKENDS: Mapping[str, Backend] = {
    "embedded": Backend("needs nothing but Python", frozenset({"devices"})),
    "controlplane": Backend("a kube-apiserver with KWOK", _PLANE),
    "kind": Backend("a kind cluster with KWOK", _PLANE, real_nodes=True),
    "kubeconfig": Backend(
        "any cluster that a kubeconfig names",
        frozenset({"kubeconfig", "context", "devices", "home"}),
        real_nodes=True,
    ),
}
SCHEDULERS: Mapping[str, Choice] = {
    "kailab": Choice("kailab's own", frozenset({"config", "adopt_default_scheduler"})),
    # To it all pods come that name none, asked for or not.
    "kube-scheduler": Choice("the default scheduler of Kubernetes", frozenset({"adopt_default_scheduler"})),
    "kai": Choice("a real KAI", frozenset({"kai", "kai_crds", "kai_pods", "config"})),
}
LIVE_BACKENDS = tuple(name for name in BACKENDS if name != "embedded")

FLAGS: Mapping[str, str] = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "components": "--components",
    "kubernetes": "--kubernetes",
    "kai": "--kai-bin",
    "kai_crds": "--kai-crds",
    "devices": "--dra",
    "labs": "--labs",
    "kai_pods": "--kai-pods",
    "config": "--scheduler-config",
    "adopt_default_scheduler": "--adopt-default-scheduler",
}
"""The options as the command line writes them."""


def check_backend(name: str) -> None:
    """Raises InputError for a backend that there is not."""
    if name not in BACKENDS:
        raise InputError(f"there is no backend {name!r}; expected one of: {', '.join(BACKENDS)}")


def check_scheduler(name: str) -> None:
    """Raises InputError for a scheduler under test that there is not."""
    if name not in SCHEDULERS:
        raise InputError(f"there is no scheduler {name!r}; expected one of: {', '.join(SCHEDULERS)}")


def check_pair(backend: str, scheduler: str) -> None:
    """Raises InputError for a scheduler that can't decide on a backend."""
    if backend == "embedded" and scheduler == "kai":
        raise InputError(f"a real KAI needs a real API server: expected one of the backends {', '.join(LIVE_BACKENDS)}")


def check_lab(backend: str, scheduler: str, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__) -> None:
    """Raises InputError(s) for a backend or a scheduler that there is not, that don't go together, or that do not understand an
    option. See ``check_options``."""
    check_backend(backend)
    check_scheduler(scheduler)
    check_pair(backend, scheduler)
    check_options(backend, scheduler, given, spelt)
    if backend == "embedded" and scheduler == "kube-scheduler" and given.get("devices"):
        raise InputError(
            f"{spelt('devices')}: the embedded cluster's kube-scheduler does not allocate claims, the one of a real API server "
            f"does: expected one of the backends {', '.join(LIVE_BACKENDS)}"
        )
    if backend == "kubeconfig" and scheduler == "kai" and given.get("config") is not None:
        raise InputError(
            f"{spelt('config')}: the KAI of a cluster that a kubeconfig names has a configuration of its own there"
        )


def check_options(
    backend: str, scheduler: str | None, given: Mapping[str, Any], spelt: Spelt = FLAGS.__getitem__
) -> None:
    """Raises InputError(s) for options that the backend or the scheduler does not understand. ``given``: values by the options'
    names, None and False where nothing was said; ``scheduler`` None: whichever, as each test chooses its own. ``spelt``:
    how the user writes an option."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    found = not_understood(BACKENDS, "backend", backend, said, spelt)
    if scheduler is not None:
        found += not_understood(SCHEDULERS, "scheduler", scheduler, said, spelt)
    if found:
        errors = [InputError(text) for text in found]
        raise errors[0] if len(errors) == 1 else InputErrors(errors)


def not_understood(
    choices: Mapping[str, Choice], noun: str, chosen: str, given: Iterable[str], spelt: Spelt = FLAGS.__getitem__
) -> list[str]:
    """A sentence for each option that others of ``choices`` understand, and the chosen one does not."""
    found = []
    for option in given:
        takers = [name for name, choice in choices.items() if option in choice.options]
        if takers and chosen not in takers:
            plural = "s" if len(takers) > 1 else ""
            found.append(
                f"{spelt(option)}: the {noun} {chosen} does not understand it; it is for the {noun}{plural} "
                f"{' and '.join(', '.join(takers).rsplit(', ', 1))}"
            )
    return found
