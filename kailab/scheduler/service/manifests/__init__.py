"""The manifests that run the scheduler in a cluster: its account, what it may do, its Deployment; and those by which Prometheus finds
its metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template

from kailab.errors import InputError
from kailab.model.kinds import KINDS

EMPTY = '""'
"""The core group, as YAML has it."""
FILES = ("rbac.yaml", "deployment.yaml")
MONITORING = "monitoring.yaml"
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAMED = "app.kubernetes.io/name"
_LABEL = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_INTERVAL = re.compile(r"[1-9][0-9]*(ms|s|m|h)")


def manifests(namespace: str, image: str) -> str:
    """As YAML text. Raises InputError for a namespace or an image that can't be one."""
    _check_namespace(namespace)
    if not image or re.search(r"[\s\"'{}#,\[\]]", image):
        raise InputError(f"--image {image!r}: expected the name of an image, such as registry.example.com/kailab:1.0")
    values = {"namespace": namespace, "image": image, "owners": _owners()}
    return "---\n".join(_filled(name, values) for name in FILES)


def monitoring(namespace: str, interval: str = "30s", labels: Mapping[str, str] | None = None) -> str:
    """A Service and a ServiceMonitor (monitoring.coreos.com/v1) for the scheduler that ``manifests`` runs, as YAML text. ``labels``: of the
    ServiceMonitor, by which a Prometheus selects those that are its own. Raises InputError for what can't be one of these."""
    _check_namespace(namespace)
    if not _INTERVAL.fullmatch(interval):
        raise InputError(f"--interval {interval!r}: expected a number with ms, s, m or h, such as 30s")
    for name, value in (labels or {}).items():
        prefix, slash, key = name.rpartition("/")
        if not _LABEL.fullmatch(key) or (slash and not _PREFIX.fullmatch(prefix)):
            raise InputError(f"--label {name!r}: expected the name of a label, such as release")
        if name == _NAMED:
            raise InputError(f"--label {name}: it is kailab-scheduler, by which the Service is found")
        if value and not _LABEL.fullmatch(value):
            raise InputError(f"--label {name}={value}: expected letters, digits, -, _ and ., at most 63")
    told = "".join(f"\n    {name}: {json.dumps(value)}" for name, value in (labels or {}).items())
    return _filled(MONITORING, {"namespace": namespace, "interval": interval, "labels": told})


def _filled(name: str, values: Mapping[str, str]) -> str:
    return Template((files(__package__) / name).read_text(encoding="utf-8")).substitute(values)


def _check_namespace(namespace: str) -> None:
    if not _NAMESPACE.fullmatch(namespace):
        raise InputError(f"--namespace {namespace!r}: expected lower-case letters, digits and -, at most 63")


def _owners() -> str:
    """The rules that let the scheduler read whatever pods can belong to, an API group each."""
    groups: dict[str, list[str]] = {}
    for kind in KINDS.values():
        if kind.owns_pods:
            groups.setdefault(kind.group, []).append(kind.plural)
    return "\n".join(
        f"  - apiGroups: [{group or EMPTY}]\n    resources: [{', '.join(sorted(plurals))}]\n    verbs: [get, list, watch]"
        for group, plurals in groups.items()
    )
