"""What differs between KAI's releases, v0.6 to v0.17: flags, definitions, plugins, certificates, fixed ports, words of manifests.

Each row says since which release it holds, and where it ended, before which. Source: the flags of each program (``cmd/``), the CRDs, the
scheduler's plugins and configuration, and the constants of all tags of KAI's repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kailab.model.kinds import KINDS
from kailab.model.validation.hints import pod_templates

Number = tuple[int, int, int]

LINES = ((0, 6), (0, 7), (0, 8), (0, 9), (0, 10), (0, 12), (0, 13), (0, 14), (0, 15), (0, 16), (0, 17))
"""The lines of releases that are known: there is no v0.11, and v0.20 was taken back by its makers."""

_END = (9999, 0, 0)

ADMISSION = "admission"
"""The program that has KAI's webhooks for pods, where the binder has them no more. A folder may lack it."""


class Span(NamedTuple):
    """From ``since`` on, up to but without ``until``."""

    since: Number = (0, 6, 0)
    until: Number = _END

    def holds(self, number: Number) -> bool:
        return self.since <= number < self.until


FLAGS: Mapping[tuple[str, str], Span] = {
    ("scheduler", "update-pod-eviction-condition"): Span((0, 8, 1)),
    ("scheduler", "queue-label-key"): Span((0, 13, 0)),
    ("scheduler", "stuck-in-releasing-threshold"): Span((0, 15, 0)),
    ("podgrouper", "pod-label-selector"): Span((0, 7, 0)),
    ("podgrouper", "generic-karta-fallback"): Span((0, 17, 0)),
    ("binder", "webhook-addr"): Span(until=(0, 8, 3)),
    ("binder", "gpu-sharing-enabled"): Span(until=(0, 8, 3)),
    ("binder", "plugins"): Span((0, 15, 0)),
    ("queuecontroller", "metrics-listen-address"): Span((0, 7, 8)),
    ("queuecontroller", "qps"): Span((0, 9, 0)),
    ("queuecontroller", "burst"): Span((0, 9, 0)),
    ("queuecontroller", "enable-webhook"): Span((0, 10, 0)),
    ("queuecontroller", "enable-quota-validation"): Span((0, 14, 0)),
    ("podgroupcontroller", "enable-podgroup-webhook"): Span((0, 10, 0)),
}
"""Program and flag, of those that came or went. All others that kailab uses are there in every release."""

PLUGINS: Mapping[str, Span] = {
    "topology": Span((0, 7, 8)),
    "subgrouporder": Span((0, 7, 13)),
    "sg-nodelocalgreedy": Span((0, 16, 0)),
    "sg-multinodegang": Span((0, 16, 0)),
}
"""Plugins of the scheduler that came later than the others."""

SEARCH_BUDGETS = Span((0, 16, 0))
"""``scenarioSearchBudgets`` in the scheduler's configuration."""

KUEUE_TOPOLOGY = Span((0, 7, 8), (0, 12, 0))
"""Topologies are Kueue's (``kueue.x-k8s.io/v1alpha1``); its scheduler waits until that kind is served."""

KAI_TOPOLOGY = Span((0, 12, 0))

_CRDS: tuple[tuple[str, Span], ...] = (
    ("Queue", Span()),
    ("PodGroup", Span()),
    ("BindRequest", Span()),
    ("Topology", KAI_TOPOLOGY),
)

_CERTIFICATES: Mapping[str, Span] = {
    "binder": Span(until=(0, 8, 3)),
    "queuecontroller": Span(until=(0, 10, 0)),
}
"""Programs that serve a webhook whatever they are told, and end where they find no certificate for it."""

_PORTS: Mapping[str, tuple[tuple[int, Span], ...]] = {
    "queuecontroller": ((8080, Span(until=(0, 7, 8))), (9443, Span(until=(0, 10, 0)))),
    "podgroupcontroller": ((8080, Span()),),
}
"""Ports that a program takes whatever its flags say, on all addresses."""

_POD_WEBHOOK = Span(until=(0, 15, 0))
"""Its binder binds a pod with a part of a GPU only as KAI's webhook for pods leaves it; later that can be told off."""

_BINDER_SERVES_PODS = Span(until=(0, 7, 13))
"""That webhook is the binder's; later a program of its own has it, ``admission``."""

WORDS: Mapping[str, Span] = {
    "kai.scheduler/topology": Span((0, 7, 0)),
    "kai.scheduler/topology-preferred-placement": Span((0, 7, 0)),
    "kai.scheduler/topology-required-placement": Span((0, 7, 0)),
    "kai.scheduler/subgroup-name": Span((0, 7, 11)),
    "kai.scheduler/preemptibility": Span((0, 10, 0)),
    "kai.scheduler/segment-size": Span((0, 13, 0)),
    "kai.scheduler/segment-topology-preferred-placement": Span((0, 13, 0)),
    "kai.scheduler/segment-topology-required-placement": Span((0, 13, 0)),
    "kai.scheduler/batch-min-member": Span((0, 14, 1)),
    "kai.scheduler/skip-podgrouper": Span((0, 15, 0)),
    "kai.scheduler/preemption-delay": Span((0, 17, 0)),
    "kai.scheduler/staleness-grace-period": Span((0, 17, 0)),
}
"""Labels and annotations of manifests that came later than the others. An older release passes over them."""

FIELDS: Mapping[str, Span] = {
    "topologyConstraint": Span((0, 7, 0)),
    "subGroups": Span((0, 7, 11)),
    "preemptibility": Span((0, 10, 0)),
    "minSubGroup": Span((0, 15, 0)),
    "preemptionDelay": Span((0, 17, 0)),
    "stalenessGracePeriod": Span((0, 17, 0)),
}
"""Fields of a PodGroup's spec that came later than the others. An older release's CRD drops them."""


class Dialect(NamedTuple):
    """Of one release."""

    number: Number

    def flags(self, program: str, arguments: Iterable[str]) -> tuple[str, ...]:
        """Of these arguments (``--name=value``), those that this release's program has."""
        return tuple(one for one in arguments if self.has_flag(program, one.removeprefix("--").partition("=")[0]))

    def has_flag(self, program: str, flag: str) -> bool:
        return FLAGS.get((program, flag), Span()).holds(self.number)

    def plugins(self, names: Iterable[str]) -> list[str]:
        """Of these plugins of the scheduler, those that this release has."""
        return [name for name in names if PLUGINS.get(name, Span()).holds(self.number)]

    @property
    def search_budgets(self) -> bool:
        return SEARCH_BUDGETS.holds(self.number)

    @property
    def kueue_topology(self) -> bool:
        return KUEUE_TOPOLOGY.holds(self.number)

    @property
    def crds(self) -> dict[str, str]:
        """Name -> the version that this KAI and labs read and write; of the definitions that must be in its folder."""
        kinds = [kind for kind, span in _CRDS if span.holds(self.number)]
        return {KINDS[kind].resource: KINDS[kind].versions[0] for kind in kinds}

    def passes_over(self, obj: dict[str, Any]) -> list[str]:
        """What this object, and the pods it makes, say in labels, annotations and fields that came after this release."""
        said = set(_words(obj))
        return [word for word, span in {**WORDS, **FIELDS}.items() if word in said and not span.holds(self.number)]

    def wants_certificate(self, program: str) -> bool:
        """Whether it serves a webhook in any case."""
        return program in _CERTIFICATES and _CERTIFICATES[program].holds(self.number)

    @property
    def pod_webhook(self) -> str | None:
        """The program whose webhook pods with a part of a GPU must have been through; None: they need none."""
        if not _POD_WEBHOOK.holds(self.number):
            return None
        return "binder" if _BINDER_SERVES_PODS.holds(self.number) else ADMISSION

    def fixed_ports(self, program: str) -> tuple[int, ...]:
        return tuple(port for port, span in _PORTS.get(program, ()) if span.holds(self.number))


def _words(obj: dict[str, Any]) -> Iterator[str]:
    """Labels and annotations of an object and of its pods, and the fields of a PodGroup."""
    spec = obj.get("spec")
    if isinstance(spec, Mapping) and obj.get("kind") == "PodGroup":
        yield from spec
    for part in (obj, *(template for _, template in pod_templates(obj))):
        metadata = part.get("metadata") or {}
        yield from metadata.get("labels") or ()
        yield from metadata.get("annotations") or ()
