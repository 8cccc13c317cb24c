"""What differs between KAI's releases v0.6 to v0.17, and which release a KAI is.

Each row of a table has the release that introduced a flag, plugin, definition, certificate, fixed port, label or field, and the release
that removed it. Sources: the flags of each program (``cmd/``), the CRDs, the scheduler's plugins and configuration, and the constants of
all tags of KAI's repository.

The release is read from a version, or else recognised by strings in the programs (``MARKS``). No program is run for it: some of KAI's
start to work on the cluster they find even when they are asked for help.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kailab.errors import InputError
from kailab.model.kinds import KINDS
from kailab.model.objects import annotations_of, labels_of
from kailab.model.validation.advice import pod_templates

VersionNumber = tuple[int, int, int]

LINES = ((0, 6), (0, 7), (0, 8), (0, 9), (0, 10), (0, 12), (0, 13), (0, 14), (0, 15), (0, 16), (0, 17))
"""The known release lines. There is no v0.11, and v0.20 was withdrawn."""

_END = (9999, 0, 0)

ADMISSION = "admission"
"""The program with KAI's pod webhooks, in releases whose binder no longer has them. A folder may lack it."""


class ReleaseRange(NamedTuple):
    """Releases from ``since`` (included) to ``until`` (excluded)."""

    since: VersionNumber = (0, 6, 0)
    until: VersionNumber = _END

    def holds(self, number: VersionNumber) -> bool:
        return self.since <= number < self.until


FLAGS: Mapping[tuple[str, str], ReleaseRange] = {
    ("scheduler", "update-pod-eviction-condition"): ReleaseRange((0, 8, 1)),
    ("scheduler", "queue-label-key"): ReleaseRange((0, 13, 0)),
    ("scheduler", "stuck-in-releasing-threshold"): ReleaseRange((0, 15, 0)),
    ("podgrouper", "pod-label-selector"): ReleaseRange((0, 7, 0)),
    ("podgrouper", "generic-karta-fallback"): ReleaseRange((0, 17, 0)),
    ("binder", "webhook-addr"): ReleaseRange(until=(0, 8, 3)),
    ("binder", "gpu-sharing-enabled"): ReleaseRange(until=(0, 8, 3)),
    ("binder", "plugins"): ReleaseRange((0, 15, 0)),
    ("queuecontroller", "metrics-listen-address"): ReleaseRange((0, 7, 8)),
    ("queuecontroller", "qps"): ReleaseRange((0, 9, 0)),
    ("queuecontroller", "burst"): ReleaseRange((0, 9, 0)),
    ("queuecontroller", "enable-webhook"): ReleaseRange((0, 10, 0)),
    ("queuecontroller", "enable-quota-validation"): ReleaseRange((0, 14, 0)),
    ("podgroupcontroller", "enable-podgroup-webhook"): ReleaseRange((0, 10, 0)),
}
"""(program, flag) to the releases that have it. Every release has the other flags that kailab uses."""

PLUGINS: Mapping[str, ReleaseRange] = {
    "topology": ReleaseRange((0, 7, 8)),
    "subgrouporder": ReleaseRange((0, 7, 13)),
    "sg-nodelocalgreedy": ReleaseRange((0, 16, 0)),
    "sg-multinodegang": ReleaseRange((0, 16, 0)),
}
"""Plugins of the scheduler that not every release has."""

SEARCH_BUDGETS = ReleaseRange((0, 16, 0))
"""``scenarioSearchBudgets`` in the scheduler's configuration."""

KUEUE_TOPOLOGY = ReleaseRange((0, 7, 8), (0, 12, 0))
"""Topologies are Kueue's (``kueue.x-k8s.io/v1alpha1``); its scheduler waits until that kind is served."""

KAI_TOPOLOGY = ReleaseRange((0, 12, 0))

_CRDS: tuple[tuple[str, ReleaseRange], ...] = (
    ("Queue", ReleaseRange()),
    ("PodGroup", ReleaseRange()),
    ("BindRequest", ReleaseRange()),
    ("Topology", KAI_TOPOLOGY),
)

_CERTIFICATES: Mapping[str, ReleaseRange] = {
    "binder": ReleaseRange(until=(0, 8, 3)),
    "queuecontroller": ReleaseRange(until=(0, 10, 0)),
}
"""Programs that always serve a webhook, and exit without a certificate for it."""

_PORTS: Mapping[str, tuple[tuple[int, ReleaseRange], ...]] = {
    "queuecontroller": ((8080, ReleaseRange(until=(0, 7, 8))), (9443, ReleaseRange(until=(0, 10, 0)))),
    "podgroupcontroller": ((8080, ReleaseRange()),),
}
"""Ports that a program uses on all addresses and that no flag changes."""

_POD_WEBHOOK = ReleaseRange(until=(0, 15, 0))
"""Releases whose binder binds a pod with a part of a GPU only after KAI's pod webhook; later releases can turn that off."""

_BINDER_SERVES_PODS = ReleaseRange(until=(0, 7, 13))
"""Releases in which the binder has that webhook; later the program ``admission`` has it."""

LABELS: Mapping[str, ReleaseRange] = {
    "kai.scheduler/topology": ReleaseRange((0, 7, 0)),
    "kai.scheduler/topology-preferred-placement": ReleaseRange((0, 7, 0)),
    "kai.scheduler/topology-required-placement": ReleaseRange((0, 7, 0)),
    "kai.scheduler/subgroup-name": ReleaseRange((0, 7, 11)),
    "kai.scheduler/preemptibility": ReleaseRange((0, 10, 0)),
    "kai.scheduler/segment-size": ReleaseRange((0, 13, 0)),
    "kai.scheduler/segment-topology-preferred-placement": ReleaseRange((0, 13, 0)),
    "kai.scheduler/segment-topology-required-placement": ReleaseRange((0, 13, 0)),
    "kai.scheduler/batch-min-member": ReleaseRange((0, 14, 1)),
    "kai.scheduler/skip-podgrouper": ReleaseRange((0, 15, 0)),
    "kai.scheduler/preemption-delay": ReleaseRange((0, 17, 0)),
    "kai.scheduler/staleness-grace-period": ReleaseRange((0, 17, 0)),
}
"""Labels and annotations that not every release reads. Older releases ignore them."""

FIELDS: Mapping[str, ReleaseRange] = {
    "topologyConstraint": ReleaseRange((0, 7, 0)),
    "subGroups": ReleaseRange((0, 7, 11)),
    "preemptibility": ReleaseRange((0, 10, 0)),
    "minSubGroup": ReleaseRange((0, 15, 0)),
    "preemptionDelay": ReleaseRange((0, 17, 0)),
    "stalenessGracePeriod": ReleaseRange((0, 17, 0)),
}
"""Fields of a PodGroup's spec that not every release has. The CRD of an older release drops them."""


class ReleaseFeatures(NamedTuple):
    """The features of one release."""

    number: VersionNumber

    def flags(self, program: str, arguments: Iterable[str]) -> tuple[str, ...]:
        """The arguments (``--name=value``) that the program of this release supports."""
        names = ((argument.removeprefix("--").partition("=")[0], argument) for argument in arguments)
        return tuple(argument for name, argument in names if self.has_flag(program, name))

    def has_flag(self, program: str, flag: str) -> bool:
        return FLAGS.get((program, flag), ReleaseRange()).holds(self.number)

    def plugins(self, names: Iterable[str]) -> list[str]:
        """The scheduler plugins that this release has."""
        return [name for name in names if PLUGINS.get(name, ReleaseRange()).holds(self.number)]

    @property
    def search_budgets(self) -> bool:
        return SEARCH_BUDGETS.holds(self.number)

    @property
    def kueue_topology(self) -> bool:
        return KUEUE_TOPOLOGY.holds(self.number)

    @property
    def crds(self) -> dict[str, str]:
        """The CRDs that its folder must have: name to the version that this KAI and labs use."""
        kinds = [kind for kind, span in _CRDS if span.holds(self.number)]
        return {KINDS[kind].resource: KINDS[kind].versions[0] for kind in kinds}

    def ignored_words(self, obj: dict[str, Any]) -> list[str]:
        """Labels, annotations and fields of an object and its pods that later releases introduced."""
        used = set(_labels_and_fields(obj))
        return [word for word, span in {**LABELS, **FIELDS}.items() if word in used and not span.holds(self.number)]

    def wants_certificate(self, program: str) -> bool:
        """True if the program always serves a webhook."""
        return program in _CERTIFICATES and _CERTIFICATES[program].holds(self.number)

    @property
    def pod_webhook(self) -> str | None:
        """The program with the webhook that pods with a part of a GPU need; None: they need none."""
        if not _POD_WEBHOOK.holds(self.number):
            return None
        return "binder" if _BINDER_SERVES_PODS.holds(self.number) else ADMISSION

    def fixed_ports(self, program: str) -> tuple[int, ...]:
        return tuple(port for port, span in _PORTS.get(program, ()) if span.holds(self.number))


def _labels_and_fields(obj: dict[str, Any]) -> Iterator[str]:
    """Labels and annotations of an object and of its pods, and the fields of a PodGroup."""
    spec = obj.get("spec")
    if isinstance(spec, Mapping) and obj.get("kind") == "PodGroup":
        yield from spec
    for part in (obj, *(template for _, template in pod_templates(obj))):
        yield from labels_of(part)
        yield from annotations_of(part)


# --- recognising a release --------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"\bv(\d+)\.(\d+)\.(\d+)")

MARKS: Mapping[tuple[str, str], ReleaseRange] = {
    ("podgrouper", "pod-label-selector"): ReleaseRange((0, 7, 0)),
    ("queuecontroller", "metrics-listen-address"): ReleaseRange((0, 7, 8)),
    ("podgrouper", "kai.scheduler/subgroup-name"): ReleaseRange((0, 7, 11)),
    ("scheduler", "update-pod-eviction-condition"): ReleaseRange((0, 8, 1)),
    ("binder", "webhook-addr"): ReleaseRange(until=(0, 8, 3)),
    ("scheduler", "node-level-scheduler"): ReleaseRange(until=(0, 9, 0)),
    ("podgroupcontroller", "enable-podgroup-webhook"): ReleaseRange((0, 10, 0)),
    ("scheduler", "kueue.x-k8s.io"): ReleaseRange((0, 7, 8), (0, 12, 0)),
    ("scheduler", "queue-label-key"): ReleaseRange((0, 13, 0)),
    ("queuecontroller", "enable-quota-validation"): ReleaseRange((0, 14, 0)),
    ("podgrouper", "kai.scheduler/batch-min-member"): ReleaseRange((0, 14, 1)),
    ("scheduler", "stuck-in-releasing-threshold"): ReleaseRange((0, 15, 0)),
    ("scheduler", "sg-nodelocalgreedy"): ReleaseRange((0, 16, 0)),
    ("podgrouper", "generic-karta-fallback"): ReleaseRange((0, 17, 0)),
}
"""(program, string in it) to releases. Strings are names of flags, labels, kinds and plugins."""

_KNOWN = "known are {} to {}".format(*(f"v{line[0]}.{line[1]}" for line in (LINES[0], LINES[-1])))


def features_of(version: str) -> ReleaseFeatures | None:
    """The features of a version (``v0.16.8``, or a text with one in it); None for a text without one. Raises InputError for an unknown
    release."""
    numbers = ((int(match[1]), int(match[2]), int(match[3])) for match in _NUMBER.finditer(version))
    # A pseudo-version, v0.0.0-..., names a commit.
    number = next((candidate for candidate in numbers if candidate[:2] != (0, 0)), None)
    if number is None:
        return None
    if number[:2] in LINES:
        return ReleaseFeatures(number)
    raise InputError(f"is KAI {_text(number)}, {_why(number)}; {_KNOWN}")


def _why(number: VersionNumber) -> str:
    if number[:2] < LINES[0]:
        return "older than any release whose flags and definitions kailab knows"
    if number[:2] > LINES[-1]:
        return "whose flags and definitions kailab does not know"
    return "and there is no such line of releases"


def features_by_marks(marks: Collection[tuple[str, str]]) -> tuple[ReleaseFeatures, str]:
    """The features by the entries of ``MARKS`` in the programs, and the range of releases in words. Raises InputError if no release matches."""
    first, end = ReleaseRange()
    if not marks:
        raise InputError(
            "tells no release: neither its build information, nor its folder's name (such as kai-v0.16.8), nor the words in "
            f"its programs say which it is; {_KNOWN}"
        )
    # MARKS do not change between two of these.
    steps = sorted({number for span in MARKS.values() for number in span} | {first})
    fitting = [at for at in range(len(steps) - 1) if _fits(steps[at], marks)]
    if not fitting:
        has = max(span.since for mark, span in MARKS.items() if mark in marks)
        raise InputError(
            "tells no version, and its programs fit no release: they are not of one, or not all there. They have what came with "
            f"{_text(has)}, and not all that belongs to it; {_KNOWN}"
        )
    since, until = steps[fitting[0]], steps[fitting[-1] + 1]
    return ReleaseFeatures(since), f"{_text(since)} or newer" + ("" if until == end else f", before {_text(until)}")


def _fits(number: VersionNumber, marks: Collection[tuple[str, str]]) -> bool:
    return all(span.holds(number) == (mark in marks) for mark, span in MARKS.items())


def marks_of(binaries: Mapping[str, Path]) -> set[tuple[str, str]]:
    """The entries of ``MARKS`` that these programs contain."""
    result = set()
    for program in sorted({program for program, _ in MARKS}):
        words = words_in(binaries[program], [word for name, word in MARKS if name == program])
        result |= {(program, word) for word in words}
    return result


def words_in(binary: Path, words: Iterable[str]) -> set[str]:
    """The words that a program contains."""
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {word for word in words if content.find(word.encode()) >= 0}


def _text(number: VersionNumber) -> str:
    return "v{}.{}.{}".format(*number)
