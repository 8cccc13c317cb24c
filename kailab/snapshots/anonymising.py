"""Replace the names in a snapshot, with a key of the user's. The same name always becomes the same other name, and without the key nobody
can find the original.

A text is split at ``-``, ``.``, ``/``, ``:`` and ``_``. Each word is replaced by another of the same length, by a permutation of all
words of that length (a Feistel network over HMAC-SHA256, repeated until the result is a word again). So different names stay different,
the name of a pod still begins with that of its workload, length limits hold, and selectors, references, labels and queues still match.
Numbers, amounts, times, uids and words with a meaning to the schedulers (``default``, ``train``, ``kai``) stay.

Every word is replaced unless kailab knows that it is not a name. Words that kailab itself knows (``known_names.txt``), and those of a
registered kind (``Kind.field_names``), stay in names of fields, labels and resources, and in the values of fields that enumerate
(``_NOT_NAMES``). Unknown words are replaced everywhere.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from msgspec import structs

from kailab.errors import InputError, Where
from kailab.evidence import redaction
from kailab.evidence.decision_file import SchedulerDecisions
from kailab.evidence.entries import LabFacts
from kailab.lab.cluster_copies import ClusterCounters
from kailab.model import labels
from kailab.model.files import read_bytes
from kailab.model.kinds import KINDS
from kailab.model.queues import SHARE_FIELDS, SPEC_FIELDS
from kailab.scheduler.reading.numa import OBSERVED, PREDICTED
from kailab.snapshots.snapshot import ClusterSnapshot

LEAST_KEY = 16
"""In bytes."""

_WORD = re.compile(r"[A-Za-z0-9]+")
# Quantities, durations and versions: digits with letters of a unit.
_AMOUNT = re.compile(
    r"\d+([KMGTPE]i?|k|m|u|n|g|gb|s|ms|us|ns|h|x|d|e\d+)|(\d+[hms]+){2,}|v\d+((alpha|beta|rc)\d+)?|\d+x\d+"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_ROUNDS = 8
_NODE_FIELD = "metadata.name"  # in node affinity
_KNOWN_FILE = Path(__file__).with_name("known_names.txt")

_KEPT = frozenset(
    {
        "default", "kube", "system", "public", "node", "lease", "kai", "scheduler", "train", "build", "inference",
        "preemptible", "priority", "cluster", "critical", "true", "false", "none", "reservation", "resource",
        "binpack", "spread", "runai", "fraction", "whole", "mixed", "single", "pg", "nvidia", "amd", "gpu", "mig",
        "kwok", "kailab",
        "head", "headgroup", "worker", "kuberay", "operator", "yes", "redis", "cleanup", "master", "chief", "ps", "evaluator", "launcher",
        "server", "driver", "exec", "executor", "leader", "predictor", "transformer", "explainer", "initializer", "dataset", "model",
    }
)  # fmt: skip
"""Words with a meaning: Kubernetes' and KAI's own namespaces and priority classes, values of labels that are acted upon, and the roles of pods, which
operators write into the pods' names and labels and by which they find them again."""

_NOT_NAMES = frozenset(
    {
        "apiVersion", "kind", "apiGroup", "operator", "effect", "phase", "type", "reason", "status", "state", "jobStatus", "jobDeploymentStatus",
        "mode", "restartPolicy", "protocol", "preemptionPolicy", "preemptibility", "schedulerName", "completionMode",
        "podReplacementPolicy", "podManagementPolicy", "concurrencyPolicy", "schedule", "managedBy", "startupPolicyOrder",
        "launcherCreationPolicy", "cleanPodPolicy", "submissionMode", "sparkVersion", "volumeBindingMode", "accessModes", "volumeMode",
        "architecture", "operatingSystem", "kubeletVersion", "driver", "provisioner", "action", "finalizers", "whenUnsatisfiable",
        "expression", "memory", "cores", "coreRequest",
        "coreLimit", "memoryOverhead", "preemptionDelay", "stalenessGracePeriod", "duration",
        "timeout", "amount", "quantity", "allocationMode", "request", "receivedResourceType", "subGroupPolicyType", "maxSurge",
        "maxUnavailable", "minAvailable", "concurrency", "resourceName", "distinctAttribute", "matchAttribute", "topologyPolicies",
        *(key for key, form in (SPEC_FIELDS | SHARE_FIELDS).items() if not form.is_name),
    }
)  # fmt: skip
"""Fields with an amount or one of a few listed words: known words in them stay."""

_AMOUNTS = frozenset(
    {
        "attributes", "capacity", "allocatable", "requests", "limits", "overhead", "requested", "allocated",
        "allocatedNonPreemptible", "hard", "resources",
    }
)  # fmt: skip
"""Fields with amounts by resource or attributes of devices: known words in their keys and texts stay."""

_SPOKEN = frozenset({"message"})


class Names:
    """Replaces names in texts. ``key``: at least ``LEAST_KEY`` secret bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._words: dict[str, str] = {}
        self._known = _known()

    def text(self, text: str) -> str:
        """Replace a name, or several in one text."""
        if text == _NODE_FIELD or _TIME.fullmatch(text):
            return text
        if redaction.keeps_label(text) or redaction.keeps_annotation(text):
            return self.replace_unknown(text)
        return "".join(self._part(part) for part in re.split(f"({_UID.pattern})", text))

    def replace_unknown(self, text: str) -> str:
        """Replace the words that kailab does not know."""
        if _TIME.fullmatch(text):
            return text
        return _WORD.sub(lambda match: match[0] if match[0] in self._known else self.word(match[0]), text)

    def _part(self, part: str) -> str:
        return part if _UID.fullmatch(part) else _WORD.sub(lambda match: self.word(match[0]), part)

    def word(self, word: str) -> str:
        result = self._words.get(word)
        if result is None:
            result = self._words[word] = word if _stays(word) else self._mapped(word)
        return result

    def _mapped(self, word: str) -> str:
        """A word of the same length with at least one letter, and with a capital if ``word`` has one: the permutation is repeated until its
        result is a word that can be replaced itself."""
        alphabet = _DIGITS + _LOWER + (_UPPER if any(letter in _UPPER for letter in word) else "")
        new = word
        while True:
            new = self._permuted(new, alphabet)
            if _is_like(new, alphabet):
                return new

    def _permuted(self, word: str, alphabet: str) -> str:
        """An unbalanced Feistel network over the digits of a number in the base of the alphabet."""
        base, digits = len(alphabet), [alphabet.index(letter) for letter in word]
        if len(digits) == 1:
            return alphabet[self._shuffled(base)[digits[0]]]
        half = len(digits) // 2
        for turn in range(_ROUNDS):
            left, right = (digits[:half], digits[half:]) if turn % 2 == 0 else (digits[half:], digits[:half])
            message = f"{base}|{len(digits)}|{turn}|{','.join(map(str, right))}".encode()
            shift = int.from_bytes(hmac.digest(self._key, message, "sha256"), "big")
            moved = []
            for digit in left:
                shift, more = divmod(shift, base)
                moved.append((digit + more) % base)
            digits = moved + right if turn % 2 == 0 else right + moved
        return "".join(alphabet[digit] for digit in digits)

    def _shuffled(self, base: int) -> list[int]:
        return sorted(range(base), key=lambda digit: hmac.digest(self._key, f"{base}|one|{digit}".encode(), "sha256"))


def _known() -> frozenset[str]:
    # The file has the words of kailab's own kinds. Kinds of other distributions bring theirs.
    names = " ".join(
        " ".join((kind.kind, kind.group, kind.plural, *kind.versions, *kind.label_domains, *kind.field_names))
        for kind in KINDS.values()
    )
    return frozenset((*_KNOWN_FILE.read_text(encoding="utf-8").split(), *_WORD.findall(names)))


def _stays(word: str) -> bool:
    return word.isdigit() or word.lower() in _KEPT or _AMOUNT.fullmatch(word) is not None


def _is_like(word: str, alphabet: str) -> bool:
    if _stays(word):
        return False
    return len(alphabet) < 62 or any(letter in _UPPER for letter in word)


def read_key(path: Path) -> bytes:
    """Raises InputError for a file that can't be read, or is too short for a key."""
    key = read_bytes(path).strip()
    if len(key) < LEAST_KEY:
        raise InputError(
            f"holds {len(key)} bytes; a key has at least {LEAST_KEY}, such as `openssl rand -hex 32` gives",
            Where(file=str(path)),
        )
    return key


def anonymise(original: ClusterSnapshot, key: bytes) -> ClusterSnapshot:
    """The snapshot with other names. Past decisions and all sentences are left out, because they contain names."""
    names = Names(key)
    walk = _Walk(names)
    facts = original.facts
    objects = {kind: [walk.mapping(obj) for obj in several] for kind, several in original.objects.items()}
    return structs.replace(
        original,
        facts=LabFacts(
            fleet="cluster", backend=facts.backend, scheduler=names.replace_unknown(facts.scheduler_kind or facts.scheduler), nodes=facts.nodes,
            gpus=facts.gpus, settings=facts.settings, versions={names.replace_unknown(name): names.replace_unknown(version) for name, version in facts.versions.items()}, devices=facts.devices,
        ),
        objects={kind if kind in KINDS else names.replace_unknown(kind): several for kind, several in objects.items()},
        node_pool=names.text(original.node_pool),
        decided=SchedulerDecisions(cycle=original.decided.cycle),
        counters=ClusterCounters(uids=original.counters.uids),
        left_out=dict.fromkeys(map(names.replace_unknown, original.left_out), ""),
        notices=(),
        anonymised=True,
    )  # fmt: skip


class _Walk:
    """Walks through objects that the evidence's filter has passed. Every text and every field name counts as a name unless kailab
    knows that it is not one."""

    def __init__(self, names: Names) -> None:
        self._text, self._known = names.text, names.replace_unknown

    def mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        # Unknown field names count as names.
        return {self._known(key): inside for key, old in value.items() if (inside := self._field(key, old)) is not None}

    def _field(self, key: str, value: Any) -> Any:
        if key in _SPOKEN:
            return None
        if isinstance(value, dict) and (
            key in ("labels", "annotations", "matchLabels", "nodeSelector")
            or (key == "selector" and all(isinstance(item, str) for item in value.values()))
        ):
            return {self._text(name): self._note(name, text) for name, text in value.items()}
        if key == "resources" and isinstance(value, dict) and "claims" in value:
            return {
                self._known(name): self._inside(name, inside) if name == "claims" else self._amounts(inside)
                for name, inside in value.items()
            }
        return self._inside(key, value)

    def _note(self, name: str, text: Any) -> Any:
        if not isinstance(text, str):
            return self._amounts(text)
        plain = name in _PLAIN_NOTES or name.startswith("kailab.dev/")
        return self._known(text) if plain else self._text(text)

    def _inside(self, key: str, value: Any) -> Any:
        if key == "timeZone" and isinstance(value, str) and value in available_timezones():
            # Nobody's name; a CronJob's schedule can't be read without it.
            return value
        if key in _AMOUNTS or (key in _NOT_NAMES and not isinstance(value, dict)):
            return self._amounts(value)
        if isinstance(value, dict):
            return self.mapping(value)
        if isinstance(value, list):
            return [self._inside(key, item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _amounts(self, value: Any) -> Any:
        """Replace the unknown words in everything inside."""
        if isinstance(value, dict):
            return {self._known(key): self._amounts(inside) for key, inside in value.items() if key not in _SPOKEN}
        if isinstance(value, list):
            return [self._amounts(item) for item in value]
        return self._known(value) if isinstance(value, str) else value


_PLAIN_NOTES = frozenset(
    {
        *labels.GPU_SHARING, labels.RECEIVED_RESOURCE_TYPE, labels.PREEMPTIBILITY,
        labels.PREEMPTION_DELAY, labels.STALENESS_GRACE, labels.SKIP_PODGROUPER, labels.LAST_START, labels.STALE_SINCE, OBSERVED,
        PREDICTED,
    }
)  # fmt: skip
"""Labels and annotations with an amount or one of a few words: known words stay."""
