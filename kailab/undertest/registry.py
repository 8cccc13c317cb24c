"""The schedulers under test by name, and the one that a name means.

Cheap to import, as every command line and every test run needs the names; what carries a scheduler out is loaded when it is
first chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kailab.cluster.choices import FLAGS, Choice, Registry

if TYPE_CHECKING:
    from kailab.undertest.contract import SchedulerUnderTest


@dataclass(frozen=True)
class Clash:
    """What a scheduler can't do on a backend, and why. ``option``: it is only this that it can't do there. ``elsewhere``: it can on
    the backends that are real API servers."""

    backend: str
    why: str
    option: str = ""
    elsewhere: bool = True


@dataclass(frozen=True, kw_only=True)
class SchedulerKind(Choice):
    """A scheduler under test. ``options``: what of a lab's options it understands. ``made``: ``module:class`` of the
    ``SchedulerUnderTest``. ``own``: those of its options that say which one it is, not how it decides, by the keys that a
    file of names has for them."""

    made: str
    own: Mapping[str, str] = field(default_factory=dict)
    clashes: tuple[Clash, ...] = ()

    def load(self) -> type[SchedulerUnderTest]:
        module, _, name = self.made.partition(":")
        found: type[SchedulerUnderTest] = getattr(import_module(module), name)
        return found


SCHEDULERS: Registry[SchedulerKind] = Registry(
    "scheduler",
    {
        "kailab": SchedulerKind(
            "kailab's own", frozenset({"config", "adopt_default_scheduler"}), made="kailab.undertest.kailab:Kailab"
        ),
        # To kube-scheduler all pods come that name none, asked for or not.
        "kube-scheduler": SchedulerKind(
            "the default scheduler of Kubernetes",
            frozenset({"adopt_default_scheduler"}),
            made="kailab.undertest.kubescheduler:KubeScheduler",
            clashes=(
                Clash(
                    "embedded",
                    "the embedded cluster's kube-scheduler does not allocate claims, the one of a real API server does",
                    "devices",
                ),
            ),
        ),
        "kai": SchedulerKind(
            "a real KAI",
            frozenset({"kai", "kai_crds", "kai_pods", "config"}),
            made="kailab.undertest.kai:Kai",
            own={"folder": "kai", "crds": "kai_crds"},
            clashes=(
                Clash("embedded", "a real KAI needs a real API server"),
                Clash(
                    "kubeconfig",
                    "the KAI of a cluster that a kubeconfig names has a configuration of its own there",
                    "config",
                    elsewhere=False,
                ),
            ),
        ),
    },
)


def chosen(name: str, given: Mapping[str, Any] | None = None) -> SchedulerUnderTest:
    """The scheduler under test of that name. ``given``: what was said for it, by the names of ``FLAGS``; None counts as nothing
    said, and what is another's is passed over. Raises InputError for a name that there is not."""
    SCHEDULERS.check(name)
    kind = SCHEDULERS[name]
    said = {option: value for option in kind.own.values() if (value := (given or {}).get(option)) is not None}
    return kind.load()(name, name, tuple(sorted(said.items())))


def own_flags(name: str) -> list[str]:
    """How the command line writes the options that say which one it is."""
    return [FLAGS[option] for option in SCHEDULERS[name].own.values() if option in FLAGS]
