"""Check single fields: read a field that has the right type, or record a fault.

``Faults`` collects faults of an object. Below it are the rules for metadata: names, labels, annotations and owner references.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeVar

from kailab.errors import InputError
from kailab.model import quantities, times
from kailab.model.kinds import KINDS
from kailab.model.labels import GPU_RESOURCES, MIG_PREFIX


class Fault(NamedTuple):
    """``field``: a path such as ``spec.containers[0].name``; ``message``: the fault and the expected value."""

    field: str
    message: str


def _fault(path: str, message: str) -> Fault:
    return Fault(path if len(path) <= LONGEST_PATH else f"{path[:LONGEST_PATH]}...", message)


T = TypeVar("T")

LARGEST_INT32 = 2**31 - 1
LARGEST_INT64 = 2**63 - 1
MOST_PODS = 20_000
"""The maximum number of pods of one workload, above that of the largest clusters."""
MOST_AMOUNT = 10**9
"""The maximum number of cores or GPUs of a container or a node, which count in thousandths. Sums over a lab's pods stay within 64 bits."""
MOST_BYTES = 2**50
"""As ``MOST_AMOUNT``, for memory and for resources with a domain of their own, some of which are memory (``koordinator.sh/gpu-memory``)."""
LONGEST_PATH = 300
"""The maximum number of characters of a path in messages, because user-given keys may have any length."""


class Faults:
    """Collects faults. The methods that read a field return None if it is absent or wrong; they add a fault if it is wrong.

    ``ratcheted``: faults that a stored object may keep."""

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self.ratcheted: list[Fault] = []

    def add(self, path: str, message: str) -> None:
        self.found.append(_fault(path, message))

    def ratchet(self, path: str, message: str) -> None:
        """Add a fault by a rule that is younger than objects in clusters: a server applies it to new objects, and to those that kept it so
        far (Kubernetes calls this ratcheting validation)."""
        self.ratcheted.append(_fault(path, message))

    def wrong(self, path: str, value: Any, expected: str) -> None:
        self.add(path, f"{shown(value)} is not valid; expected {expected}")

    def _is_not(self, value: Any, path: str, expected: str, required: bool) -> None:
        # Null counts as absent, as for an API server.
        if value is not None:
            self.wrong(path, value, expected)
        elif required:
            self.add(path, "is required")

    def _filled(self, value: Any, type: type[T], path: str, expected: str, required: bool) -> T | None:
        if isinstance(value, type):
            if required and not value:
                self.add(path, "must not be empty")
            return value
        self._is_not(value, path, expected, required)
        return None

    def mapping(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> dict[str, Any] | None:
        value = parent.get(key)
        if isinstance(value, dict):
            return value
        self._is_not(value, path, "a mapping", required)
        return None

    def items(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> list[Any] | None:
        return self._filled(parent.get(key), list, path, "a list", required)

    def mappings(
        self, parent: dict[str, Any], key: str, path: str, required: bool = False
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (path, item) for each item that is a mapping, and add a fault for each other one."""
        for index, item in enumerate(self.items(parent, key, path, required) or ()):
            at = f"{path}[{index}]"
            if isinstance(item, dict):
                yield at, item
            else:
                self.wrong(at, item, "a mapping")

    def text(self, parent: dict[str, Any], key: str, path: str, required: bool = False) -> str | None:
        value = parent.get(key)
        if type(value) is str and (value or not required):  # nearly always
            return value
        return self._filled(parent.get(key), str, path, "text", required)

    def one_of(self, parent: dict[str, Any], key: str, path: str, choices: tuple[str, ...]) -> str | None:
        value = self.text(parent, key, path)
        if value is not None and value not in choices:
            self.wrong(path, value, choices_text(choices))
        return value

    def integer(
        self, parent: dict[str, Any], key: str, path: str, least: int = 0, most: int = LARGEST_INT32
    ) -> int | None:
        value = parent.get(key)
        if value is None:
            return None
        # By exact type: to Python, true is 1.
        if type(value) is not int:
            self.wrong(path, value, f"a whole number of {least} or more")
        elif value < least:
            self.wrong(path, value, f"{least} or more")
        elif value > most:
            self.wrong(path, value, f"{most} at most")
        else:
            return value
        return None

    def read(self, reader: Callable[[Any], T], value: Any, path: str) -> T | None:
        """The value as ``reader`` returns it; None, and a fault, if that raises InputError."""
        try:
            return reader(value)
        except InputError as error:
            self.add(path, error.message)
            return None

    def boolean(self, parent: dict[str, Any], key: str, path: str) -> bool | None:
        value = parent.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.wrong(path, value, "true or false")
        return None

    def duration(self, parent: dict[str, Any], key: str, path: str, signed: bool = False) -> float | None:
        value = parent.get(key)
        return None if value is None else self.read(partial(times.duration_seconds, signed=signed), value, path)

    def strings(self, parent: dict[str, Any], key: str, path: str) -> dict[str, str] | None:
        """A mapping of text to text, such as labels."""
        value = self.mapping(parent, key, path)
        if value is None:
            return None
        wrong = False
        for name, item in value.items():
            if not isinstance(item, str):
                wrong = True
                self.wrong(f"{path}[{name:.80}]", item, "text (quote numbers and true/false)")
        return None if wrong else value

    def quantities(self, parent: dict[str, Any], key: str, path: str) -> dict[str, Any] | None:
        """A mapping of resource names to quantities; unreadable ones are left out."""
        value = self.mapping(parent, key, path)
        if value is None:
            return None
        good: dict[str, Any] = {}
        for name, item in value.items():
            at = f"{path}[{name:.80}]"
            exact = self.read(quantities.parse, item, at)
            if exact is None:
                continue
            most = MOST_BYTES if quantities.is_bytes(name) or _counts_in_units(name) else MOST_AMOUNT
            if exact > most:
                self.wrong(at, item, "1Pi at most" if most == MOST_BYTES else f"{MOST_AMOUNT} at most")
            elif is_whole(name) and exact.denominator != 1:
                self.wrong(at, item, "a whole number")
            else:
                # Only these are compared later, so that no fault is reported twice.
                good[name] = exact
        return good


def is_extended(resource: str) -> bool:
    """True for extended resources: they have a domain of their own (``nvidia.com/gpu``) and can't be overcommitted."""
    domain = resource.partition("/")[0]
    return "/" in resource and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _counts_in_units(resource: str) -> bool:
    return "/" in resource and resource not in GPU_RESOURCES and not resource.startswith(MIG_PREFIX)


def is_whole(resource: str) -> bool:
    """True for resources that exist only in whole units."""
    return is_extended(resource) or resource == "pods"


def choices_text(choices: Iterable[str]) -> str:
    """What a field may be, for a message. Where it may also be empty, nobody has to write it so."""
    return " or ".join(filter(None, choices)) or '""'


def shown(value: Any) -> str:
    """Quote a value for a message: short and printable."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is True or value is False:
        return "true" if value else "false"
    # Python refuses to print very long integers.
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- metadata ---------------------------------------------------------------------------------------------------------

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)

_DNS_LABEL_KINDS = frozenset(("Namespace", "Service"))
_PATH_NAME_KINDS = frozenset(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"))

NAME_RULE = "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, 253 at most"
LABEL_RULE = "lower-case letters, digits and '-', beginning and ending with a letter or digit, 63 at most"
SERVICE_RULE = (
    "lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit, 63 at most"
)
VALUE_RULE = "letters, digits, '-', '_' and '.', beginning and ending with a letter or digit, 63 at most"


@lru_cache(maxsize=8192)
def is_dns_label(text: str) -> bool:
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_service_label(text: str) -> bool:
    """The older rule of DNS names: they begin with a letter. Kubernetes calls it a DNS-1035 label."""
    return is_dns_label(text) and not text[0].isdigit()


@lru_cache(maxsize=8192)
def is_dns_subdomain(text: str) -> bool:
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def is_label_key(text: str) -> bool:
    """``name`` or ``domain/name``."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME_PART.fullmatch(name) is not None


@lru_cache(maxsize=8192)
def is_label_value(text: str) -> bool:
    return text == "" or (len(text) <= 63 and _NAME_PART.fullmatch(text) is not None)


def check_metadata(faults: Faults, obj: dict[str, Any], kind: str) -> None:
    meta = faults.mapping(obj, "metadata", "metadata", required=True)
    if meta is None:
        return
    _check_name(faults, meta, kind)
    if kind in _LONGEST_NAMES or kind == "StatefulSet":
        _check_pod_names(faults, meta.get("name"), kind, obj.get("spec"))
    known = KINDS.get(kind)
    space = faults.text(meta, "namespace", "metadata.namespace")
    if space:
        if known is not None and not known.namespaced:
            faults.add("metadata.namespace", f"{known.kind} objects live outside namespaces; leave it out")
        elif not is_dns_label(space):
            faults.wrong("metadata.namespace", space, LABEL_RULE)
    check_notes(faults, meta)
    for path, owner in faults.mappings(meta, "ownerReferences", "metadata.ownerReferences"):
        for key in ("apiVersion", "kind", "name", "uid"):
            faults.text(owner, key, f"{path}.{key}", required=True)
        faults.boolean(owner, "controller", f"{path}.controller")


_LONGEST_NAMES = {"CronJob": 52, "Job": 63}


def _check_pod_names(faults: Faults, name: Any, kind: str, spec: Any) -> None:
    """Names from which those of pods and labels are made. Source: Kubernetes ValidateCronJobSpec, ValidateJob, ValidateStatefulSet."""
    if not isinstance(name, str):
        return
    if kind == "StatefulSet":
        if not is_dns_label(name):
            faults.ratchet(
                "metadata.name", f"{shown(name)} is not valid; expected {LABEL_RULE}, as its pods are named by it"
            )
        return
    if len(name) > (most := _LONGEST_NAMES[kind]):
        faults.add("metadata.name", f"is too long; expected {most} letters at most, as its pods are named by it")
    elif kind == "Job" and isinstance(spec, dict) and spec.get("completionMode") == "Indexed":
        completions = spec.get("completions")
        if isinstance(completions, int) and completions > 0 and not is_dns_label(pod := f"{name}-{completions - 1}"):
            faults.add(
                "metadata.name", f"makes {shown(pod)}, which can't name a pod of an Indexed Job; expected {LABEL_RULE}"
            )


def check_notes(faults: Faults, meta: dict[str, Any], path: str = "metadata") -> None:
    """The labels and annotations of a metadata."""
    check_labels(faults, meta, "labels", f"{path}.labels")
    annotations = faults.strings(meta, "annotations", f"{path}.annotations") or {}
    for key in annotations:
        # As in the API server, keys of annotations are checked in lower case, keys of labels unchanged.
        if not is_label_key(key.lower()):
            faults.add(f"{path}.annotations[{key:.80}]", "is not a valid key; expected name or domain/name")


def check_labels(faults: Faults, parent: dict[str, Any], key: str, path: str) -> None:
    """Check a mapping of labels: the form of keys and values."""
    labels = parent.get(key)
    if labels is None:
        return
    for name, value in (faults.mapping(parent, key, path) or {}).items():
        if not is_label_key(name):
            faults.add(f"{path}[{name:.80}]", "is not a valid label key; expected name or domain/name")
        if not isinstance(value, str):
            faults.wrong(f"{path}[{name:.80}]", value, "text (quote numbers and true/false)")
        elif not is_label_value(value):
            faults.wrong(f"{path}[{name:.80}]", value, f"a label value: {VALUE_RULE}")


def _check_name(faults: Faults, meta: dict[str, Any], kind: str) -> None:
    name = faults.text(meta, "name", "metadata.name")
    generated = faults.text(meta, "generateName", "metadata.generateName")
    if name is None and generated is None:
        faults.add("metadata.name", "is required (or metadata.generateName)")
    if name is not None:
        if kind in _DNS_LABEL_KINDS:
            if not is_dns_label(name):
                faults.wrong("metadata.name", name, LABEL_RULE)
        elif kind not in _PATH_NAME_KINDS and not is_dns_subdomain(name):
            faults.wrong("metadata.name", name, NAME_RULE)
    elif generated is not None and kind not in _PATH_NAME_KINDS:
        # The generated suffix begins with a letter or digit.
        stem = generated.rstrip("-.")
        if not stem or not is_dns_subdomain(stem):
            faults.wrong("metadata.generateName", generated, NAME_RULE)
